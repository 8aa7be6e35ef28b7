"""Texts that come in pieces, for views: which part of each is shown, and when."""

from __future__ import annotations

import re
from typing import Literal

from sandbox.types import Output, Stream

HEAD_LINES, HEAD_CHARACTERS = 40, 4000
TAIL_LINES, TAIL_CHARACTERS = 10, 1000
StreamName = Literal["stdout", "stderr"]
SHOWN_OUTPUTS = 40
"""Outputs of a running cell that are kept for who watches; its result has them all."""
_FENCES = (
    "```",
    "~~~",
    "<code",
    "<execute",
    "<python",
    "<tool_code",
    "<py>",
    "<|python_tag|>",
    "<tool_call>",
    "<function=",
)


class Prose:
    """A reply's text without its code blocks, as it streams: the code is shown when it runs."""

    def __init__(self) -> None:
        self._line = ""
        self._shown = 0
        self._fence = ""
        self._space = ""
        self._begun = False

    def feed(self, text: str) -> str:
        """What of the text so far can be shown beyond what was. Space is held back until something follows it."""
        shown = ""
        self._line += text
        while "\n" in self._line:
            line, _, self._line = self._line.partition("\n")
            shown += self._whole(line)
            self._shown = 0
        start = self._line.lstrip()
        if not self._fence and not any(f.startswith(start) or start.startswith(f) for f in _FENCES):
            shown += self._line[self._shown :]
            self._shown = len(self._line)
        return self._tight(shown)

    def rest(self) -> str:
        """What was held back at the reply's end."""
        return self._tight(self._whole(self._line))

    def _tight(self, shown: str) -> str:
        text = self._space + shown
        kept = text.rstrip()
        self._space = text[len(kept) :]
        if not self._begun:
            kept = kept.lstrip("\n")
            self._begun = bool(kept)
        return re.sub(r"\n{3,}", "\n\n", kept)

    def _whole(self, line: str) -> str:
        start = line.lstrip()
        if self._fence:
            if start.startswith(self._fence):
                self._fence = ""
            return ""
        fence = next((f for f in _FENCES if start.startswith(f)), None)
        if fence is None:
            return line[self._shown :] + "\n"
        closing = fence if fence in ("```", "~~~") else "</"
        self._fence = "" if closing in start[len(fence) :] else closing
        return ""


class Clip:
    """The head of a long text as it comes, and its tail at the end."""

    def __init__(self) -> None:
        self._lines = HEAD_LINES
        self._characters = HEAD_CHARACTERS
        self._hidden_lines = 0
        self._hidden_characters = 0
        self._tail = ""

    def feed(self, text: str) -> str:
        """What of `text` is to be shown now."""
        head = text[: self._characters]
        end = -1
        for _ in range(self._lines):
            end = head.find("\n", end + 1)
            if end < 0:
                break
        shown = head if end < 0 and self._lines else head[: end + 1]
        self._lines -= shown.count("\n")
        self._characters -= len(shown)
        hidden = text[len(shown) :]
        if hidden:
            self._lines = self._characters = 0
            self._hidden_lines += hidden.count("\n")
            self._hidden_characters += len(hidden)
            self._tail = (self._tail + hidden)[-TAIL_CHARACTERS:]
        return shown

    def end_line(self) -> None:
        """What follows begins on a line of its own, also where it is hidden."""
        if self._tail and not self._tail.endswith("\n"):
            self._tail += "\n"

    def rest(self) -> str:
        """How much was left out, and the tail; empty where all was shown."""
        if not self._hidden_characters:
            return ""
        tail = "\n".join(self._tail.rstrip("\n").split("\n")[-TAIL_LINES:])
        left = self._hidden_characters - len(tail)
        return tail if left <= 1 else f"... {left:,} characters not shown ...\n{tail}"


class Draft:
    """A reply as it comes, without its code."""

    def __init__(self) -> None:
        self._prose = Prose()
        self.text = self.reasoning = ""

    def add(self, text: str, kind: str) -> None:
        if kind == "reasoning":
            self.reasoning = (self.reasoning + text)[-TAIL_CHARACTERS:]
        else:
            self.text += self._prose.feed(text)


class Coming:
    """The outputs of a cell as they come: texts by stream, their beginning and their end."""

    def __init__(self) -> None:
        self._outputs: list[Output | _Text] = []

    def add(self, output: Output) -> None:
        if isinstance(output, Stream):
            last = self._outputs[-1] if self._outputs else None
            if not isinstance(last, _Text) or last.name != output.name:
                last = _Text(output.name)
                self._outputs.append(last)
            last.add(output.text)
        else:
            self._outputs.append(output)
        del self._outputs[:-SHOWN_OUTPUTS]

    def outputs(self) -> tuple[Output, ...]:
        return tuple(each.so_far() if isinstance(each, _Text) else each for each in self._outputs)


class _Text:
    def __init__(self, name: StreamName) -> None:
        self.name = name
        self._clip = Clip()
        self._head = ""

    def add(self, text: str) -> None:
        self._head += self._clip.feed(text)

    def so_far(self) -> Stream:
        return Stream(self.name, self._head + self._clip.rest())
