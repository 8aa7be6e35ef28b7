"""A run as one self-contained HTML page, to look at and to send.

It asks nothing of any other place, and all that comes from the run is inert in it: text is escaped, tables are rebuilt
from their text, pictures are data whose first bytes say what they are, and a content security policy lets no script and
no style run but the page's own.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markdown_it import MarkdownIt
from markupsafe import Markup
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from codeact.views import story as stories
from codeact.views.story import Cell, Story, ToolCall, Turn
from codeact.views.tables import read_table
from sandbox.text import clean
from sandbox.types import CellError, Dropped, Notice, Output, Rich, Rung, Stream

MAX_PICTURE = 8 * 1024 * 1024
MAX_TEXT = 200_000
"""Characters of one output that the page holds."""
MAX_VALUE = 300
MAGIC = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg"}
"""Pictures are shown only when they begin as what they are called; they are never decoded here."""
BAR, GAP, HALF = 18, 6, 48


def render(story: Story, folder: Path) -> str:
    """The page of a run; `folder` is where its pictures lie."""
    style, script = _asset("report.css"), _asset("report.js")
    chart, bars = _chart(story.turns)
    return _environment().get_template("report.html").render(
        story=story,
        title=clean(" ".join(story.task.split()))[:80] or story.run,
        answer=_pretty(story.answer),
        facts=_facts(story),
        artifacts=story.artifacts,
        settings=[(name, _short(value)) for name, value in stories.plain_settings(story).items()],
        turns=[_turn(turn, folder) for turn in story.turns],
        chart=chart,
        bars=bars,
        style=Markup(style),  # noqa: S704 - our own files
        script=Markup(script),  # noqa: S704
        style_hash=_hash(style),
        script_hash=_hash(script),
        version=_version(),
    )  # fmt: skip


def _asset(name: str) -> str:
    return resources.files("codeact.views").joinpath("assets", name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _version() -> str:
    from codeact import __version__

    return __version__


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("codeact.views", "assets"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: clean(value) if type(value) is str else value,
    )
    environment.filters["is_number"] = _is_number
    return environment


@cache
def _markdown() -> MarkdownIt:
    """Without links, pictures and HTML: what a model writes may not make a reader's browser ask for anything."""
    return MarkdownIt("commonmark", {"html": False}).disable(["link", "image", "autolink", "reference"])


def _is_number(text: str) -> bool:
    try:
        float(text.replace(",", ""))
    except ValueError:
        return False
    return True


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


def _turn(turn: Turn, folder: Path) -> dict[str, Any]:
    about = "about " if turn.usage.estimated else ""
    return {
        "number": turn.number,
        "facts": f"{turn.model_seconds:.1f} s model · {turn.code_seconds:.1f} s code · {about}{turn.usage.total_tokens:,} tokens",
        "thoughts": Markup(_markdown().render(clean(turn.thoughts))),  # noqa: S704 - it escapes, without HTML
        "cells": [_cell(cell, folder) for cell in turn.cells],
        "calls": [_call(call) for call in turn.calls],
        "remarks": turn.remarks,
    }


def _cell(cell: Cell, folder: Path) -> dict[str, Any]:
    code = highlight(clean(cell.source), PythonLexer(), HtmlFormatter(nowrap=True))
    return {
        "code": Markup(code),  # noqa: S704 - the formatter escapes
        "outputs": list(_outputs(cell, folder)),
        "calls": [_call(call) for call in cell.calls],
    }


def _outputs(cell: Cell, folder: Path) -> Iterator[dict[str, Any]]:
    if cell.result is None:
        yield {"kind": "remark", "text": "What came of this code is not recorded."}
        return
    files = stories.pictures(cell)
    for index, output in enumerate(cell.result.outputs):
        names = [name for (of, _), name in files.items() if of == index]
        yield from filter(None, [_picture(folder / "figures" / name) for name in names])
        yield from _texts(output, shown_as_picture=bool(names))
    if cell.result.lost:
        yield {"kind": "remark", "text": f"Lost: {cell.result.lost}"}


def _texts(output: Output, *, shown_as_picture: bool) -> Iterator[dict[str, Any]]:
    match output:
        case Stream(name, text):
            yield {"kind": name, "text": _cut(text)}
        case Rich(_, data):
            table = read_table(data.get("text/html", ""))
            if table is not None:
                yield {"kind": "table", "table": table}
            elif not shown_as_picture and data.get("text/plain"):
                yield {"kind": "result", "text": _cut(data["text/plain"])}
        case CellError():
            yield {"kind": "error", "text": _cut(output.traceback.rstrip() or str(output))}
        case Dropped(size, reason):
            yield {"kind": "remark", "text": f"{size:,} bytes of output were dropped: {reason}"}
        case Notice():
            yield {"kind": "remark", "text": output.text}
        case Rung():
            yield {"kind": "remark", "text": str(output)}


def _picture(path: Path) -> dict[str, Any] | None:
    try:
        if path.stat().st_size > MAX_PICTURE:
            return {"kind": "remark", "text": f"The figure {path.name} is too large to be shown here."}
        content = path.read_bytes()
    except OSError:
        return {"kind": "remark", "text": f"The figure {path.name} is not there any more."}
    mime = next((mime for start, mime in MAGIC.items() if content.startswith(start)), None)
    if mime is None:
        return {"kind": "remark", "text": f"The figure {path.name} is not a picture."}
    number = path.stem.rpartition("-")[2]
    return {
        "kind": "image",
        "text": f"data:{mime};base64,{base64.b64encode(content).decode()}",
        "number": number,
    }


def _call(call: ToolCall) -> dict[str, str]:
    if call.refused:
        result = f"refused: {call.refused}"
    elif call.ok is None:
        result = "no end is recorded"
    elif not call.ok:
        result = call.error
    else:
        result = f"in {call.file}" if call.file else _short(call.value)
    arguments = ", ".join(f"{name}={_short(value)}" for name, value in call.arguments.items())
    return {"tool": call.tool, "arguments": arguments, "result": result, "seconds": f"{call.seconds:.3f}"}


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


def _pretty(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= MAX_VALUE else text[: MAX_VALUE - 3] + "..."


def _cut(text: str) -> str:
    if len(text) <= MAX_TEXT:
        return text
    return f"{text[:MAX_TEXT]}\n... {len(text) - MAX_TEXT:,} characters are not shown here ..."
