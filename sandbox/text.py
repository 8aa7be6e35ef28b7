"""Text from inside a sandbox, made harmless: no terminal sequences, no lone surrogates, no control characters."""

from __future__ import annotations

import re

# CSI and OSC sequences, other escapes, then what is left of the control characters but tab and newline
_SEQUENCES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|\x9b[0-?]*[ -/]*[@-~]|\x1b[ -/]*[0-~]?"
)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_UNFINISHED = re.compile(r"(?:\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b]*\x1b?|[ -/]*)|\x9b[0-?]*[ -/]*)\Z")
MAX_HELD = 4096


def clean(value: object) -> str:
    """A value that should be text, as text that may be shown anywhere; empty for what is not text.

    A line that was overwritten by carriage returns (a progress bar) keeps its last state.
    """
    text = value if isinstance(value, str) else ""
    if not text.isprintable():
        text = _CONTROL.sub("", _last_states(_SEQUENCES.sub("", text)))
    return text.encode("utf-8", "replace").decode("utf-8")


def clean_error(value: object) -> str:
    """An exception's class name: one short word."""
    return re.sub(r"[^\w.]", "", clean(value))[:100]


def _last_states(text: str) -> str:
    """Lines without what carriage returns overwrote in them."""
    if "\r" not in text:
        return text
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))


class TextCleaner:
    """Cleans text that comes in pieces, cut anywhere: what a later piece may still change is held back."""

    def __init__(self) -> None:
        self._held = ""
        self._within_line = False

    def feed(self, text: str) -> str:
        text = self._held + text
        end = len(text)
        if found := _UNFINISHED.search(text, max(0, end - MAX_HELD)):
            end = found.start()
        line = text.rfind("\n", 0, end) + 1
        if text.find("\r", line, end) >= 0:  # a line that is being overwritten
            end = line
        self._held = text[end:]
        if len(self._held) > MAX_HELD:
            self._held = _last_states(self._held)
        if len(self._held) > MAX_HELD:
            end, self._held = len(text), ""
        return self._clean(text[:end])

    def finish(self) -> str:
        """What was held back."""
        held, self._held = self._held, ""
        return self._clean(held)

    def _clean(self, text: str) -> str:
        shown = clean(text)
        if self._within_line and "\r" in text.partition("\n")[0].rstrip("\r"):
            shown = f"\n{shown}"  # it overwrites what is out already
        if shown:
            self._within_line = not shown.endswith("\n")
        return shown
