"""A run as one self-contained HTML page, to look at and to send.

It asks nothing of any other place, and all that comes from the run is inert in it: text is escaped, tables are rebuilt
from their text, pictures are data whose first bytes say what they are, and a content security policy lets no script and
no style run but the page's own.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from markupsafe import Markup

from codeact.views import markup
from codeact.views import story as stories
from codeact.views.story import Cell, Story, Turn
from sandbox.text import clean

BOUNDS = markup.Bounds()
BAR, GAP, HALF = 18, 6, 48


def render(story: Story, folder: Path) -> str:
    """The page of a run; `folder` is where its pictures lie."""
    style, script = markup.asset("view.css") + markup.asset("report.css"), markup.asset("report.js")
    chart, bars = _chart(story.turns)
    return markup.environment().get_template("report.html").render(
        story=story,
        title=clean(" ".join(story.tasks[0].text.split()))[:80] or story.run,
        pretty=markup.pretty,
        facts=_facts(story),
        artifacts=story.artifacts,
        settings=[(name, markup.short(value)) for name, value in stories.plain_settings(story).items()],
        shown_turn=partial(markup.turn, pictures=_pictures(folder), bounds=BOUNDS),
        chart=chart,
        bars=bars,
        style=Markup(style),  # noqa: S704 - our own files
        script=Markup(script),  # noqa: S704
        style_hash=_hash(style),
        script_hash=_hash(script),
        version=_version(),
    )  # fmt: skip


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _version() -> str:
    from codeact import __version__

    return __version__


def _facts(story: Story) -> list[tuple[str, str]]:
    usage = story.usage
    about = "about " if usage.estimated else ""
    started = datetime.fromtimestamp(story.started, UTC).strftime("%Y-%m-%d %H:%M UTC")
    return [
        ("model", story.model),
        ("started", started),
        ("turns", str(len(story.turns))),
        ("seconds", f"{story.seconds:.1f}"),
        ("tokens", f"{about}{usage.prompt_tokens:,} in, {usage.completion_tokens:,} out"),
        ("data", ", ".join(story.settings.get("data") or {}) or "none"),
    ]


def _pictures(folder: Path) -> markup.Pictures:
    """The pictures of a cell from the files that they were kept in."""

    def found(cell: Cell) -> Mapping[int, list[markup.Shown]]:
        shown: dict[int, list[markup.Shown]] = {}
        for (index, _), name in stories.pictures(cell).items():
            shown.setdefault(index, []).append(_picture(folder / "figures" / name))
        return shown

    return found


def _picture(path: Path) -> markup.Shown:
    name = f"The figure {path.name}"
    try:
        with path.open("rb") as file:
            content = file.read(BOUNDS.picture + 1)
    except OSError:
        return markup.remark(f"{name} is not there any more.")
    return markup.picture(content, name, path.stem.rpartition("-")[2], BOUNDS)


def _chart(turns: list[Turn]) -> tuple[dict[str, int], list[dict[str, Any]]]:
    """Two rows of bars: tokens above, seconds of model and code below."""
    tokens = max((turn.usage.total_tokens for turn in turns), default=0) or 1
    seconds = max((turn.model_seconds + turn.code_seconds for turn in turns), default=0) or 1
    second = HALF + 32
    bars = []
    for place, turn in enumerate(turns):
        high = round(HALF * turn.usage.total_tokens / tokens, 1)
        model = round(HALF * turn.model_seconds / seconds, 1)
        code = round(HALF * turn.code_seconds / seconds, 1)
        bottom = second + 4 + HALF
        bars.append(
            {
                "turn": turn.number,
                "tokens": f"{turn.usage.total_tokens:,}",
                "model": f"{turn.model_seconds:.1f}",
                "code": f"{turn.code_seconds:.1f}",
                "x": place * (BAR + GAP),
                "width": BAR,
                "tokens_y": 16 + HALF - high,
                "tokens_h": high,
                "model_y": bottom - model,
                "model_h": model,
                "code_y": bottom - model - code,
                "code_h": code,
            }
        )
    return {"width": max(120, len(turns) * (BAR + GAP)), "height": second + HALF + 22, "second": second}, bars
