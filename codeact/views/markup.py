"""The parts of a run as HTML, for the page that is exported and for the notebook: one design, and inert.

All that comes from the run is text: it is escaped, tables are rebuilt from their text, pictures are data whose first bytes
say what they are.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from importlib import resources
from itertools import groupby
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markdown_it import MarkdownIt
from markupsafe import Markup
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from codeact.types import Usage
from codeact.views.story import Cell, ToolCall, Turn
from codeact.views.tables import Table, read_table
from sandbox.text import clean
from sandbox.types import CellError, Dropped, Notice, Output, Rich, Rung, Stream

Shown = dict[str, Any]
"""What a template shows: a `kind`, and what belongs to it."""
MAX_VALUE = 300
MAGIC = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg"}
"""Pictures are shown only when they begin as what they are called; they are never decoded here."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much a page holds: characters of one text, rows of one table, outputs of one cell, bytes of one picture."""

    text: int = 200_000
    rows: int = 500
    outputs: int = 2_000
    picture: int = 8 * 1024 * 1024


Pictures = Callable[[Cell], Mapping[int, list[Shown]]]
"""The pictures of a cell, as shown, by index of the output that they belong to."""


def asset(name: str) -> str:
    return resources.files("codeact.views").joinpath("assets", name).read_text(encoding="utf-8")


def templates(package: str, folder: str) -> Environment:
    """Of pages: what is put into them is text, whatever it was written as."""
    return Environment(
        loader=PackageLoader(package, folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: clean(value) if type(value) is str else value,
    )


@cache
def environment() -> Environment:
    environment = templates("codeact.views", "assets")
    environment.filters["is_number"] = _is_number
    return environment


@cache
def _markdown() -> MarkdownIt:
    """Without links, pictures and HTML: what a model writes may not make a reader's browser ask for anything. Headings are bold
    lines, for the page has headings of its own."""
    made = MarkdownIt("commonmark", {"html": False}).disable(["link", "image", "autolink", "reference"])
    made.enable("table")
    made.add_render_rule("heading_open", lambda *_: "<p><strong>")
    made.add_render_rule("heading_close", lambda *_: "</strong></p>\n")
    for cell in ("th", "td"):  # without the style that aligns it, which a report's own policy would refuse
        made.add_render_rule(f"{cell}_open", lambda *_, cell=cell: f"<{cell}>")
    return made


def prose(text: str) -> Markup:
    """A model's words."""
    return Markup(_markdown().render(clean(text)))  # noqa: S704 - it escapes, without HTML


@lru_cache(maxsize=64)
def code(source: str) -> Markup:
    """Python, highlighted."""
    shown = highlight(clean(source), PythonLexer(), HtmlFormatter(nowrap=True))
    return Markup(shown)  # noqa: S704 - the formatter escapes


def _is_number(text: str) -> bool:
    try:
        return not math.isnan(float(text.replace(",", "")))
    except ValueError:
        return False


def turn(turn: Turn, pictures: Pictures, bounds: Bounds) -> Shown:
    return {
        "number": turn.number,
        "facts": f"{turn.model_seconds:.1f} s model · {turn.code_seconds:.1f} s code · {tokens(turn.usage)}",
        "thoughts": prose(turn.thoughts),
        "cells": [_cell(cell, pictures, bounds) for cell in turn.cells],
        "calls": _calls(turn.calls, bounds),
        "remarks": turn.remarks,
    }


def tokens(usage: Usage) -> str:
    return f"{'about ' if usage.estimated else ''}{usage.total_tokens:,} tokens"


def _cell(cell: Cell, pictures: Pictures, bounds: Bounds) -> Shown:
    return {
        "code": code(cell.source),
        "lines": len(cell.source.strip().splitlines()),
        "seconds": cell.result.seconds if cell.result else None,
        "status": cell.result.status if cell.result else None,
        "outputs": _first(list(_outputs(cell, pictures, bounds)), bounds.outputs),
        "calls": _calls(cell.calls, bounds),
    }


def _first(shown: list[Shown], most: int) -> list[Shown]:
    left = len(shown) - most
    return [*shown[:most], remark(f"{left} more outputs are not shown here.")] if left > 0 else shown


def _outputs(cell: Cell, pictures: Pictures, bounds: Bounds) -> Iterator[Shown]:
    if cell.result is None:
        for output in cell.coming.outputs():
            yield from _texts(output, bounds, shown_as_picture=False)
        return
    found = pictures(cell)
    for index, output in _joined(cell.result.outputs):
        here = found.get(index, [])
        yield from here
        yield from _texts(output, bounds, shown_as_picture=bool(here))
    if cell.result.lost:
        yield remark(f"Lost: {cell.result.lost}")


def _joined(outputs: Sequence[Output]) -> Iterator[tuple[int, Output]]:
    """Outputs by their index; what one stream said without a break is one."""
    for name, group in groupby(
        enumerate(outputs), lambda item: item[1].name if isinstance(item[1], Stream) else item[0]
    ):
        same = list(group)
        if isinstance(name, str):
            joined = Stream(name, "".join(each.text for _, each in same if isinstance(each, Stream)))  # type: ignore[arg-type]
            yield same[0][0], joined
        else:
            yield from same


def _texts(output: Output, bounds: Bounds, *, shown_as_picture: bool) -> Iterator[Shown]:
    match output:
        case Stream(name, text):
            yield {"kind": name, "text": cut(text, bounds)}
        case Rich(_, data):
            found = read_table(data.get("text/html", ""))
            if found is not None:
                yield table(found, bounds)
            elif not shown_as_picture and data.get("text/plain"):
                yield {"kind": "result", "text": cut(data["text/plain"], bounds)}
        case CellError():
            yield {"kind": "error", "text": cut(output.traceback.rstrip() or str(output), bounds)}
        case Dropped(size, reason):
            yield remark(f"{size:,} bytes of output were dropped: {reason}")
        case Notice():
            yield remark(output.text)
        case Rung():
            yield remark(str(output))


def remark(text: str) -> Shown:
    return {"kind": "remark", "text": text}


def table(found: Table, bounds: Bounds) -> Shown:
    left_out = found.left_out + max(0, len(found.rows) - bounds.rows)
    part = replace(found, rows=found.rows[: bounds.rows], left_out=left_out)
    return {"kind": "table", "table": part}


def picture(content: bytes, name: str, number: str, bounds: Bounds) -> Shown:
    """A picture, or why it is not shown."""
    if len(content) > bounds.picture:
        return remark(f"{name} is too large to be shown here.")
    mime = next((mime for start, mime in MAGIC.items() if content.startswith(start)), None)
    if mime is None:
        return remark(f"{name} is not a picture.")
    return {
        "kind": "image",
        "text": f"data:{mime};base64,{base64.b64encode(content).decode()}",
        "number": number,
    }


def pictures_in_outputs(cell: Cell, bounds: Bounds) -> Mapping[int, list[Shown]]:
    """The pictures that a cell's outputs hold themselves, as those of a run that is under way do."""
    found: dict[int, list[Shown]] = {}
    for index, output in enumerate(cell.result.outputs if cell.result else ()):
        for mime in MAGIC.values():
            text = output.data.get(mime) if isinstance(output, Rich) else None
            if text is not None:
                shown = picture(_decoded(text), "The figure", "", bounds)
                found.setdefault(index, []).append(shown)
    return found


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text)
    except (ValueError, binascii.Error):
        return b""


def _calls(calls: Sequence[ToolCall], bounds: Bounds) -> Shown | None:
    if not calls:
        return None
    return {"count": len(calls), "rows": [_call(call) for call in calls[: bounds.rows]]}


def _call(call: ToolCall) -> dict[str, str]:
    if call.refused:
        result = f"refused: {call.refused}"
    elif call.ok is None:
        result = "no end is recorded"
    elif not call.ok:
        result = call.error
    else:
        result = short(call.value)
    arguments = _arguments(call.arguments)
    if call.first:
        arguments += f" (changed from {_arguments(call.first)})"
    return {"tool": call.tool, "arguments": arguments, "result": result, "seconds": f"{call.seconds:.3f}"}


def _arguments(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={short(value)}" for name, value in values.items())


def pretty(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2, default=str)


def short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= MAX_VALUE else text[: MAX_VALUE - 3] + "..."


def cut(text: str, bounds: Bounds) -> str:
    if len(text) <= bounds.text:
        return text
    return f"{text[: bounds.text]}\n... {len(text) - bounds.text:,} characters are not shown here ..."
