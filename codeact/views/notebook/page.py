"""A run as a piece of static HTML in a notebook: what is drawn while it goes, and what is left in the file.

No script, nothing from elsewhere. It has its own style, and reads well without it: a code host, and a notebook that is not
trusted, take styles away.
"""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from markupsafe import Markup
from pydantic import ConfigDict, TypeAdapter

from codeact.types import Artifact
from codeact.views import markup
from codeact.views.markup import Bounds, Shown
from codeact.views.story import Cell, Story, Turn
from codeact.views.tables import Table, read_table

BOUNDS = Bounds(text=8_000, rows=40, outputs=40, picture=700_000)
MAX_PICTURES = 1_200_000
"""Characters of all pictures of a page. A server of notebooks drops what goes beyond a megabyte a second, for three seconds."""
MAX_TURNS = 2_000_000
"""Characters of all turns, figures included; the latest are shown."""
MAX_ANSWER_ROWS, MAX_ANSWER_COLUMNS, MAX_ANSWER_CELL = 200, 50, 120
Kind = Literal["working", "waiting", "answered", "failed"]


@dataclass(frozen=True, slots=True)
class State:
    """What goes on: in words, and for how many seconds by a clock that goes on by itself; None where it has ended."""

    kind: Kind
    text: str
    clock: float | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """A call that waits for a person. `problem` is what is wrong with what was said last."""

    about: str
    code: Markup
    problem: str = ""


class Page:
    """Renders one run again and again; turns that are over are rendered once."""

    def __init__(self) -> None:
        self._done: dict[int, Markup] = {}
        self._pictures: dict[int, tuple[Cell, dict[int, list[Shown]]]] = {}
        self._room = MAX_PICTURES

    def render(self, story: Story, state: State, question: Question | None = None) -> str:
        over = state.kind in ("answered", "failed")
        return _render(
            turns=[
                self._turn(turn, over or number < len(story.turns))
                for number, turn in enumerate(story.turns, 1)
            ],
            story=story,
            state=state,
            question=question,
            over=over,
            answer=story.last.answer,
        )

    def folded(self, story: Story, answer: Any) -> str:
        """The answer, and the turns behind a fold."""
        state = ended(story)
        turns = [self._turn(turn, True) for turn in story.turns]
        return _render(turns=turns, story=story, state=state, over=True, answer=answer, fold=True)

    def _turn(self, turn: Turn, over: bool) -> Markup:
        if turn.number in self._done:
            return self._done[turn.number]
        shown = markup.turn(turn, self._pictures_of, BOUNDS)
        if not over and not turn.thoughts:
            shown["thoughts"] = markup.prose(turn.draft.text)
        shown["reasoning"] = "" if over or turn.draft.text else turn.draft.reasoning
        shown["live"] = not over
        made = Markup(_template("notebook_turn.html").render(turn=shown))  # noqa: S704 - made by our template
        if over:
            self._done[turn.number] = made
        return made

    def _pictures_of(self, cell: Cell) -> dict[int, list[Shown]]:
        """The pictures of a cell, as far as there is room for them."""
        if id(cell) not in self._pictures:
            found: dict[int, list[Shown]] = {}
            for index, shown in markup.pictures_in_outputs(cell, BOUNDS).items():
                found[index] = [self._with_room(each) for each in shown]
            self._pictures[id(cell)] = cell, found
        return self._pictures[id(cell)][1]

    def _with_room(self, shown: Shown) -> Shown:
        if shown["kind"] != "image":
            return shown
        if len(shown["text"]) > self._room:
            return markup.remark("This figure is left out: the figures before it fill the page.")
        self._room -= len(shown["text"])
        return shown


def ended(story: Story) -> State:
    """How a run that is over is said to have ended."""
    status = story.last.status
    words = "Stopped" if status == "interrupted" else status.replace("_", " ").capitalize()
    return State("answered" if status == "answered" else "failed", words)


def shown_answer(value: Any) -> Shown | None:
    """An answer as a table where it is one, else as text. Never raises: an answer may be of any type."""
    bounds = dataclasses.replace(BOUNDS, rows=MAX_ANSWER_ROWS)
    if value is None:
        return None
    try:
        found = _table(_json(value))
    except Exception:  # noqa: BLE001 - what a type of the person's own raises while it is drawn
        found = None
    if found is not None:
        return markup.table(found, bounds)
    kind = "words" if isinstance(value, str) else "value"
    return {"kind": kind, "text": markup.cut(text(value), BOUNDS)}


def text(value: Any) -> str:
    """An answer as text: words as they are, what JSON can tell as JSON, all else as it describes itself. Never raises."""
    if isinstance(value, str):
        return value
    try:
        plain = _json(value)
        if isinstance(plain, str) or _is_frame(plain):
            return str(plain)
        return json.dumps(plain, ensure_ascii=False, indent=2)
    except Exception:  # noqa: BLE001 - as above
        return _described(value)


def _json(value: Any) -> Any:
    """What JSON tells of a value of any type; a table of a library as it is."""
    return value if _is_frame(value) else _ANY.dump_python(value, mode="json", fallback=_other)


_ANY: TypeAdapter[Any] = TypeAdapter(Any, config=ConfigDict(ser_json_bytes="base64"))


def _other(value: Any) -> Any:
    """What pydantic does not know: a number of numpy, or any object."""
    return value.item() if getattr(value, "ndim", None) == 0 else _described(value)


def _described(value: Any) -> str:
    try:
        return repr(value)
    except Exception:  # noqa: BLE001 - as above
        return object.__repr__(value)


def _is_frame(value: Any) -> bool:
    """Whether it is a table or a column of a library, or draws itself as one."""
    return any(
        hasattr(type(value), name) for name in ("iter_rows", "to_pandas", "to_frame", "iloc", "_repr_html_")
    )


def _table(value: Any) -> Table | None:
    """A data frame, records with the same fields, or names with one value each, as a table of text."""
    match value:
        case [{**first}, *_] if first and all(_flat(item) and item.keys() == first.keys() for item in value):
            rows = tuple(tuple(_plain(item[name]) for name in first) for item in value)
            return Table(tuple(map(str, first)), rows)
        case dict() if value and _flat(value):
            return Table((), tuple((str(name), _plain(part)) for name, part in value.items()))
    return _frame(value) if _is_frame(value) else None


def _frame(value: Any) -> Table | None:
    """Its first rows and columns, and how many others there are, whatever its library's own display would show."""
    if hasattr(value, "to_frame"):  # a column
        value = value.to_frame()
    if hasattr(value, "iter_rows"):  # polars
        part = value[:MAX_ANSWER_ROWS, :MAX_ANSWER_COLUMNS]
        rows = tuple(tuple(map(_plain, row)) for row in part.iter_rows())
        return Table(tuple(part.columns), rows, value.height - part.height, value.width - part.width)
    if hasattr(value, "to_pandas"):  # Arrow
        value = value.to_pandas()
    if not hasattr(value, "iloc"):
        return read_table(str(value._repr_html_()))
    part = value.iloc[:MAX_ANSWER_ROWS, :MAX_ANSWER_COLUMNS]
    with sys.modules["pandas"].option_context("display.max_colwidth", MAX_ANSWER_CELL):
        found = read_table(part.to_html(sparsify=False))
    left_out = [whole - shown for whole, shown in zip(value.shape, part.shape, strict=True)]
    return found and Table(found.header, found.rows, *left_out)


def _flat(item: Any) -> bool:
    return isinstance(item, dict) and not any(isinstance(part, dict | list) for part in item.values())


def _plain(value: Any) -> str:
    return "" if value is None else str(value)


def facts(story: Story) -> list[str]:
    turns = len(story.turns)
    said = [f"{turns} turn{'s' * (turns != 1)}"] if turns else []
    if story.last.status != "unfinished":
        said.append(f"{story.seconds:.1f} s")
    if story.usage.total_tokens:
        said.append(markup.tokens(story.usage))
    return [*said, story.model, f"run {story.run}"] if story.run else said


def _render(
    *,
    turns: list[Markup],
    story: Story,
    state: State,
    over: bool,
    answer: Any,
    question: Question | None = None,
    fold: bool = False,
) -> str:
    page = {
        "problems": story.problems,
        "remarks": [remark for task in story.tasks for remark in task.remarks],
        "turns": _latest(turns),
        "question": question,
        "over": over,
        "status": story.last.status,
        "answer": shown_answer(answer) if over and story.last.status == "answered" else None,
        "error": story.last.error if story.last.status != "answered" else None,
        "artifacts": _artifacts(story.artifacts),
        "state": state,
        "facts": facts(story),
    }
    style = Markup(_style())  # noqa: S704 - our own
    return str(_template("notebook.html").render(page=page, fold=fold, style=style))


def _latest(turns: list[Markup]) -> list[Markup]:
    """The turns that there is room for, after how many there is none for."""
    room, first = MAX_TURNS, len(turns)
    while first and (room := room - len(turns[first - 1])) >= 0:
        first -= 1
    if not first:
        return turns
    said = f"{first} turn{'s' * (first != 1)} before these {'are' if first != 1 else 'is'} left out; result.to_html(PATH) writes all."
    return [Markup('<div class="remark">{}</div>').format(said), *turns[first:]]


def _artifacts(artifacts: tuple[Artifact, ...]) -> list[dict[str, Any]]:
    """What was handed over; the figures are shown already."""
    kept = [artifact for artifact in artifacts if artifact.path.parent.name != "figures"]
    return [{"path": _from_here(artifact.path), "size": artifact.size} for artifact in kept]


def _from_here(path: Path) -> str:
    """A path from the current folder, where it lies below that; else from home."""
    for folder, start in ((Path.cwd(), Path()), (Path.home(), Path("~"))):
        if path.is_relative_to(folder):
            return str(start / path.relative_to(folder))
    return str(path)


@cache
def _style() -> str:
    """On few lines, for it is in each output."""
    text = markup.asset("view.css") + markup.asset("notebook.css")
    return " ".join(re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL).split())


@cache
def _template(name: str) -> Any:
    return markup.environment().get_template(name)
