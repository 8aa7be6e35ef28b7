"""Text from inside a sandbox, made harmless: no terminal sequences, no lone surrogates, no control characters."""

from __future__ import annotations

import re

# CSI and OSC sequences, other escapes, then what is left of the control characters but tab and newline
_SEQUENCES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|\x9b[0-?]*[ -/]*[@-~]|\x1b[ -/]*[0-~]?"
)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_OVERWRITTEN = re.compile(r"[^\n]*\r(?=[^\n])")


def clean(value: object) -> str:
    """A value that should be text, as text that may be shown anywhere. A line that was overwritten by carriage
    returns (a progress bar) keeps its last state."""
    text = value if isinstance(value, str) else "" if value is None else str(value)[:1000]
    if not text.isprintable():
        text = _SEQUENCES.sub("", text).replace("\r\n", "\n")
        text = _OVERWRITTEN.sub("", text)
        text = _CONTROL.sub("", text)
    return text.encode("utf-8", "replace").decode("utf-8")


def clean_error(value: object) -> str:
    """An exception's class name: one short word."""
    return re.sub(r"[^\w.]", "", clean(value))[:100]
