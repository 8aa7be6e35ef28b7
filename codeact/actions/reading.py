"""What a reply says: its blocks and its prose, weighed one after the other, made into a `Reading`.

How the author is taken to have meant it:

- Blocks of Python run in order. A block that repeats an earlier one runs once; one that begins with all of an earlier
  one is its longer version and replaces it, so that no effect happens twice.
- Where the reply goes on to say what the code printed, it is ended: the model has not seen that. Prose that explains
  the code, and thoughts before a next block, do not end it.
- A `final_answer` of written-out values behind other code was written before its output was seen: a guess, not taken.
- Blocks in other languages are data or a mistake, never run.
"""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import dataclass, field, replace
from typing import Literal

from codeact.actions.blocks import Block, Scanner, dedent
from codeact.actions.calls import cell, find_calls, is_json, read_calls
from codeact.actions.prose import (
    CODE_LINE,
    INVENTION,
    JSON_ACTION,
    NEXT_TURN,
    STRAY_END,
    WITHIN_CODE,
    bare_answer,
    behind_thinking,
    stated_answer,
    tagged_answer,
    without_prose,
)
from codeact.actions.python import (
    clean,
    is_bare_code,
    is_code,
    is_empty,
    is_literal_answer,
    parse,
    without_returns,
)
from codeact.actions.tagged import find_tagged
from codeact.types import Code, Finish, Reading

HOW = "Write one block that starts with ```python and ends with ```, and end the task with final_answer(value) in it."
CUT = (
    "Your reply was cut off at the length limit, so nothing in it was run. Write a shorter one: a few lines of code "
    "in one block that starts with ```python and ends with ```."
)
FILTERED = (
    "Your reply was stopped by a content filter, so nothing in it was run. Write it in another way. " + HOW
)
ONLY_THOUGHTS = (
    "Your reply ended before its thinking did, so it holds no action. Think less, then act. " + HOW
)
EMPTY = "The code block in your reply holds no code. " + HOW
UNFENCED = "Your reply holds code outside of a code block, which is not run. " + HOW
BAD_JSON = "The JSON in your reply cannot be read. " + HOW
OTHER = (
    "The {language} block in your reply was not run: only Python is. In Python, !command runs a program. "
    + HOW
)
INVENTED = "Your reply went on to say what the code would print. That, and all behind it, was dropped: wait for the output."
GUESSED = "final_answer was written before the output of the code was seen, so it was not taken: answer from the output."
PASSED_OVER = "The {language} block was not run: only Python is."

_DATA = {
    "json", "jsonc", "json5", "text", "txt", "plaintext", "plain", "output", "console", "stdout", "stderr", "csv", "tsv",
    "log", "pytb", "traceback", "python-traceback", "tool_output", "tool_outputs", "tool_response", "result", "observation", "table", "none",
}  # fmt: skip
# labels that some models put on anything
_PLAIN = {
    "text", "txt", "plaintext", "plain", "none", "repl", "exec", "run", "tool", "tool_call", "notebook", "cell", "action",
    "script",
}  # fmt: skip
_MARKUP = {"markdown", "md", "latex", "tex", "math", "mermaid"}

_NEWLINE = re.compile(r"\r\n?|\n")
_LANGUAGE_LINE = re.compile(r"\A\s*python3?:?\n", re.IGNORECASE)
_TRACEBACK = re.compile(r"\s*Traceback \(most recent call last\)")
Verdict = Literal["code", "call", "empty", "data", "other", "prose"]


def read(text: str, *, finish: Finish = "stop") -> Reading:
    """What the reply `text` says. Never raises; linear in its length. `finish` is why the model ended it.

    A reply that was cut (`length`, `content_filter`) has no actions. A reply without any attempt at acting has neither
    actions nor a problem; its thoughts are then its answer, without the thinking that came before it.
    """
    if finish in ("length", "content_filter"):
        return Reading(text.strip(), problem=CUT if finish == "length" else FILTERED)
    reading = _Reader(_newlines(text)).read()
    return replace(reading, end=_offset(text, reading.end))


def complete(text: str, *, first_block_only: bool = False) -> int | None:
    """Where the reply of which `text` has come so far can be ended, as an offset into `text`; None if not yet.

    That is where the model begins to invent what its code printed or, with `first_block_only`, right behind its first
    closed block of code. More text would not change it. Enough to call when a newline has come.
    """
    reader = _Reader(_newlines(text.removesuffix("\r")), partial=True)
    if reader.start is None:
        return None
    reader.weigh()
    if first_block_only and reader.found:
        return _offset(text, reader.found[0].stop)
    return _offset(text, reader.end)


def _newlines(text: str) -> str:
    return _NEWLINE.sub("\n", text)


def _offset(text: str, end: int | None) -> int | None:
    """The offset into `text` for one into `_newlines(text)`."""
    if end is None or "\r\n" not in text:
        return end
    newlines = _newlines(text)[:end].count("\n")
    return end + sum(len(newline[0]) - 1 for newline in itertools.islice(_NEWLINE.finditer(text), newlines))


@dataclass(frozen=True, slots=True)
class _Found:
    source: str
    start: int
    stop: int
    verdict: Verdict


@dataclass(slots=True)
class _Reader:
    """The state of one reading: what was found so far, in the order of the text."""

    text: str
    partial: bool = False
    found: list[_Found] = field(default_factory=list)
    answers: list[_Found] = field(default_factory=list)
    passed: list[_Found] = field(default_factory=list)
    end: int | None = None

    @property
    def start(self) -> int | None:
        return behind_thinking(self.text, partial=self.partial)

    @property
    def _acted(self) -> bool:
        """Whether there is anything yet whose output could be invented."""
        return bool(self.found or self.answers) or any(each.verdict != "data" for each in self.passed)

    def read(self) -> Reading:
        start = self.start
        if start is None:
            return Reading(self.text.strip(), problem=ONLY_THOUGHTS)
        if calls := read_calls(self.text[start:], cell):
            self._add_calls(calls, start, len(self.text))
        elif (decoded := _decoded(self.text[start:])) is not None:
            return replace(_Reader(decoded).read(), end=None)
        else:
            self.weigh()
        if not self.found:
            self._add_tagged(start)
        if not self.found and all(each.verdict == "data" and not each.source for each in self.passed):
            self._read_unmarked(start)
        return self._reading(start)

    def _add_tagged(self, start: int) -> None:
        """Calls in the marks of a chat template or in ReAct's words; what is behind them was made up."""
        calls, first, last = find_tagged(self.text[start:], cell)
        self._add_calls(calls, start + first, start + last)
        if self.found and INVENTION.match(self.text, start + last):
            self.end = start + last

    def weigh(self) -> None:
        """Goes through prose and blocks in order, up to where the model invents."""
        at = self.start or 0
        for block in Scanner(self.text, at, partial=self.partial).blocks():
            self._weigh_prose(at, block.start)
            if self.end is None:
                self._weigh_block(block)
            if self.end is not None:
                return
            at = block.stop
        self._weigh_prose(at, len(self.text))

    def _weigh_prose(self, start: int, stop: int) -> None:
        # the sentinel ends the last line, unless more of it may come
        prose = self.text[start:stop] + ("" if self.partial or stop < len(self.text) else "\n")
        ends = [NEXT_TURN.search(prose)]
        acted = self._acted
        if acted:
            ends.append(INVENTION.search(prose))
        cut = min((m.start() for m in ends if m), default=None)
        shown = prose if cut is None else prose[:cut]
        if (answer := bare_answer(shown) or tagged_answer(shown)) and not self.partial:
            source, first, last = answer
            self.answers.append(_Found(source, start + first, start + last, "code"))
            behind = None if acted else INVENTION.search(shown, last)
            cut = behind.start() if behind else cut
        if cut is not None:
            self.end = start + cut

    def _weigh_block(self, block: Block) -> None:
        if self.partial and not block.closed:
            return
        body = block.body(self.text) if block.closed else without_prose(block.body(self.text).rstrip())
        if calls := () if block.language in _MARKUP else read_calls(body, cell):
            self._add_calls(calls, block.start, block.stop)
            return
        verdict, source = _judge(block, body)
        if self.found and not block.closed and not is_code(source):
            return  # what closed the block before was written like an opening fence
        if verdict == "data" and self.found:
            self.end = block.start
            return
        stop = block.stop
        if verdict == "code" and (cut := self._cut(block, source)):
            source, self.end = cut
            verdict, stop = "empty" if is_empty(source) else "code", self.end
        if verdict == "code":
            self.found.append(_Found(source, block.start, stop, verdict))
        elif verdict != "prose":
            label = "traceback" if verdict == "data" and block.language == "python" else block.language
            self.passed.append(_Found(label, block.start, stop, verdict))

    def _cut(self, block: Block, source: str) -> tuple[str, int] | None:
        """The code of a block before an invention that stands within it, and where that begins."""
        invented = WITHIN_CODE.search(self.text, block.body_start, block.body_stop)
        if invented is None or (block.closed and parse(source) is not None):
            return None
        before = dedent(self.text[block.body_start : invented.start()], block.indent).rstrip()
        before = clean(before)
        return (before, invented.start()) if parse(before) is not None else None

    def _add_calls(self, calls: tuple[str, ...], start: int, stop: int) -> None:
        for source in map(clean, map(unwrapped, calls)):
            if is_empty(source):
                self.passed.append(_Found("python", start, stop, "empty"))
            else:
                self.found.append(_Found(source, start, stop, "call"))

    def _read_unmarked(self, start: int) -> None:
        """Code without a block around it: the whole reply, or JSON within prose."""
        text = self.text[start : self.end]
        ends = [m.start() for m in (INVENTION.search(text), STRAY_END.search(text)) if m]
        for stop in sorted({len(text), *ends}):
            source = clean(_LANGUAGE_LINE.sub("", text[:stop]).strip())
            if is_bare_code(source) and not source.startswith(("- ", "+ ", "* ")):
                self.found.append(_Found(source, start, start + stop, "code"))
                self.answers.clear()
                if stop < len(text) and INVENTION.match(text, stop):
                    self.end = start + stop
                return
        calls, first, last = find_calls(text, cell)
        invented = INVENTION.search(text, first) if calls else None
        if invented and invented.start() < last:
            calls, first, last = find_calls(text[: invented.start()], cell)
        if calls:
            self._add_calls(calls, start + first, start + last)
            if invented:
                self.end = start + invented.start()
        elif not self.answers and (answer := stated_answer(text)):
            source, first, last = answer
            self.answers.append(_Found(source, start + first, start + last, "code"))

    def _reading(self, start: int) -> Reading:
        sources = _distinct(self.found)
        guesses = [source for source in sources[1:] if is_literal_answer(source)]
        sources = [source for source in sources if source not in guesses]
        for answer in self.answers[:1]:
            if sources and is_literal_answer(answer.source):
                guesses.append(answer.source)
            else:
                sources.append(answer.source)
        if not sources:
            thoughts = self.text[start : self.end].strip()
            return Reading(thoughts, problem=self._problem(thoughts), end=self.end)
        actions = tuple(Code(without_returns(source)) for source in sources)
        return Reading(self._thoughts(), actions, notes=self._notes(guesses), end=self.end)

    def _notes(self, guesses: list[str]) -> tuple[str, ...]:
        notes = [PASSED_OVER.format(language=each.source) for each in self.passed if each.verdict == "other"]
        if guesses:
            notes.append(GUESSED)
        if self.end is not None and NEXT_TURN.sub("", self.text[self.end :]).strip():
            notes.append(INVENTED)
        return tuple(dict.fromkeys(notes))

    def _thoughts(self) -> str:
        parts, at = [], 0
        for span in sorted((*self.found, *self.answers), key=lambda each: each.start):
            parts.append(self.text[at : span.start])
            at = max(at, span.stop)
        parts.append(self.text[at : self.end] if self.end is None or at < self.end else "")
        return "\n".join(part.strip() for part in parts if part.strip())

    def _problem(self, thoughts: str) -> str | None:
        verdicts = {each.verdict: each.source for each in self.passed}
        if "empty" in verdicts:
            return EMPTY
        if language := verdicts.get("other") or verdicts.get("data"):
            return OTHER.format(language=language)
        if JSON_ACTION.match(thoughts) and not is_json(thoughts):
            return BAD_JSON
        return UNFENCED if CODE_LINE.search(thoughts) else None


def _judge(block: Block, body: str) -> tuple[Verdict, str]:
    """What a block is, and the code in it."""
    if block.language in _MARKUP or not (body.strip() or block.language):
        return "prose", body
    python, inner = block.language == "python", unwrapped(body)
    source = clean(inner)
    if python and _TRACEBACK.match(source):
        return "data", source
    if python and not block.inline:
        return "empty" if is_empty(source) else "code", source
    if python or not block.language or block.language in _PLAIN:
        source = _LANGUAGE_LINE.sub("", source)
        return ("code" if is_code(source) else "prose" if block.inline else "data"), source
    if inner != body:
        return "code", source
    return ("data" if block.language in _DATA else "other"), source


def _decoded(text: str) -> str | None:
    """A reply that was encoded once more, as a JSON string or with its line ends spelled out; None for any other."""
    text = text.strip()
    if text[:1] == text[-1:] == '"' and len(text) > 1:
        try:
            value = json.loads(text)
        except ValueError:
            return None
        return value if isinstance(value, str) and re.search(r"[{`(]", value) else None
    if "\n" not in text and re.match(r"```\w*\\n", text):
        return text.replace("\\n", "\n").replace('\\"', '"')
    return None


def unwrapped(body: str) -> str:
    """The code within a fence in a tag, or a tag in a fence."""
    if body.lstrip().startswith("<![CDATA["):
        return body.lstrip().removeprefix("<![CDATA[").rstrip().removesuffix("]]>").strip("\n")
    if parse(body) is not None or not re.search(r"^\s*(?:```|~~~|<)", body, re.MULTILINE):
        return body
    inner = [block for block in Scanner(body).blocks() if block.language in ("python", "")]
    if inner and (body.lstrip()[:1] in "`~<" or inner[0].closed):
        return inner[0].body(body)
    return re.sub(r"\n[ \t]*(?:```+|~~~+)[ \t]*\Z", "", body.rstrip())


def _distinct(found: list[_Found]) -> list[str]:
    """The cells to run, in order: calls that follow each other as one, repeated cells once, longer versions alone."""
    sources: list[str] = []
    seen: set[str] = set()
    previous: Verdict = "code"
    for each in found:
        if each.verdict == previous == "call" and not is_literal_answer(each.source):
            sources[-1] += "\n" + each.source
        elif sources and each.source.startswith(sources[-1].rstrip() + "\n"):
            sources[-1] = each.source
        elif each.source.rstrip() not in seen:
            sources.append(each.source)
        seen.add(each.source.rstrip())
        previous = each.verdict
    return sources
