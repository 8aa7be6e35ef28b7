"""Text files that are no table: logs as a DataFrame where lines share a form, other text as lines."""

import re
from typing import Any

from . import frames, logs
from .columns import cut
from .delimited import Text, opened_text
from .logs import Form
from .packages import Missing, has, need
from .reading import Line, execute, reason
from .sources import Source

_SAMPLE = 1000
_LONGEST = 10_000
_MEANINGS = {
    "bracketed": "the text in [ ], already without them",
    "quoted": "the text in quotes, already without them",
    "source": "the word before the first colon",
    "message": "the rest of the line",
}


def describe(entry: dict[str, Any], source: Source, text: Text, kind: str, rows: int) -> None:
    entry["kind"] = "text" if kind in ("txt", "unknown") else kind
    lines = text.content.splitlines()
    entry["lines"] = len(lines) if text.whole else text.lines
    filled = [line for line in lines if line.strip()]
    entry["first_lines"] = [cut(line, 120) for line in filled][:3]
    # Patterns with several free parts take too long on very long lines.
    short = text.whole and max(map(len, filled)) < _LONGEST
    form = logs.find(filled if len(filled) <= 2 * _SAMPLE else [*filled[:_SAMPLE], *filled[-_SAMPLE:]])
    if form is not None and short and has("pandas") and _table(entry, source, text, form, rows):
        return
    _plain(entry, source, text)


def _plain(entry: dict[str, Any], source: Source, text: Text) -> None:
    opened, modules = opened_text(source, text.charset)
    line = Line(f"lines = {opened}.read().splitlines()", tuple(modules))
    entry["read"] = line.text()
    if not text.whole:
        entry["notes"].append("large: go through it line by line (for line in open(...))")
        return
    try:
        entry["read_verified"] = len(execute(line, "lines")) > 0
    except (OSError, UnicodeError, Missing, ImportError) as error:
        entry["read_verified"] = False
        entry["notes"].append(f"the reading line failed: {reason(error)}")


def _table(entry: dict[str, Any], source: Source, text: Text, form: Form, rows: int) -> bool:
    """Offers the lines as a DataFrame; False where that does not do what it should."""
    opened, modules = opened_text(source, text.charset)
    form = form.settled(re.sub(r"\r\n?", "\n", text.content))
    line = Line(form.source(opened), (*modules, "re", "pandas"))
    try:
        frame = execute(line)
        line = Line(line.code + logs.conversions(frame, need("pandas")), line.imports)
        frame = execute(line)
    except Exception:  # noqa: BLE001 - lines that do not bend to the form: they are told as lines
        return False
    filled = [one for one in text.content.splitlines() if one.strip()]
    if not 0 < len(frame) <= len(filled) or len(frame) * 2 < len(filled):
        return False
    entry |= {
        "kind": "log",
        "rows": len(frame),
        "read": line.text(),
        "read_verified": True,
        "columns": frames.columns(frame),
        "first_rows": frames.first_rows(frame, rows),
    }
    del entry["first_lines"]
    for column in entry["columns"]:
        meaning = _MEANINGS.get(re.sub(r"_\d$", "", column["name"]))
        if meaning and not form.pairs:
            column["note"] = meaning
        elif column["name"] == "time" and column["type"] == "text":
            column["note"] = "as text"
    _note_others(entry, filled, form, len(frame))
    return True


def _note_others(entry: dict[str, Any], filled: list[str], form: Form, count: int) -> None:
    others = len(filled) - count
    if not others:
        entry["notes"].append("each line that is not blank is one row of df")
        return
    matches = re.compile(form.pattern)
    like = next((line for line in filled if not matches.search(line.rstrip("\r"))), "")
    said = f", like {cut(like, 80)!r}" if like else ""
    entry["notes"].append(
        f"{others} of {len(filled)} lines have another form and are not in df{said}: read them from the file if they matter"
    )
