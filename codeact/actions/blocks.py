"""Segmenting a reply: fenced and tagged blocks, each with what its label says and where it really ends.

Fences follow CommonMark, and what models make of it: any indentation, a fence behind prose or code on its line,
a block that the next one closes. Where a block ends is Python's to say: a fence or a closing tag within a string does
not end it, unless the string never ends.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from codeact.actions.prose import thinking_at
from codeact.actions.python import open_quote, parse

_PYTHON = re.compile(
    r"(?:\w+[-_])??[ic]?py(?:thon)?[\d.]*(?:[-_#](?!traceback|output|error|result)\w+|code|k)?|[\w/-]+\.py|pycon|jupyter"
    r"|tool_code|code-cell|execute|(?:code[-_])?interpreter"
)
_LABEL = re.compile(r"[{.\s]*([\w+#/.-]*)")
_CODE_BEHIND = re.compile(
    r"(?:import|from|def|class|for|while|with|if|try)\b.*\w|[\w.]+\(.*|[\w.]+ = .*|[%!]\w.*|>>> .*"
)
_MARKUP = ("markdown", "md")
_BLANK = " \t\ufeff\u200b\u00a0"
_FENCE = re.compile(
    rf"(?P<indent>[{_BLANK}]*(?:(?:[-*+]|\d{{1,3}}[.)])[ \t]+)?)(?P<fence>`{{3,}}+|~{{3,}}+)(?P<info>[^\n]*)"
)
_FENCE_BEHIND = re.compile(
    r"(?<!`)(?P<indent>)(?P<fence>`{3,}+)(?P<info>[ \t]*(?:python|py)\d*[ \t]*)$", re.IGNORECASE
)
_NAMES = (
    r"code|execute|python|execute_i?python|execute_code|tool_code|py|python_code|code_block|(?:code_|python_)?interpreter"
    r"|run_code|run_python|script|action|run"
)
_OTHER_NAMES = r"execute_bash|bash|tool_call|function_call"
_OPEN_TAG = re.compile(
    rf"<(?P<name>{_NAMES}|{_OTHER_NAMES})(?P<attributes>[ \t][^<>\n]*)?>|<\|python_tag\|>", re.I
)
_CLOSE_TAG = re.compile(rf"</(?:{_NAMES}|{_OTHER_NAMES})[ \t]*>|<\|e\w+\|>", re.IGNORECASE)
_TAG_LANGUAGES = {
    "execute_bash": "bash", "bash": "bash", "tool_call": "json", "function_call": "json",
    "action": "", "run": "", "script": "javascript",
}  # fmt: skip
_QUOTED = re.compile(r"[ \t]{0,3}>[ \t]?(?!>)")
# what is typed, or put, in place of a fence
_NEAR_FENCE = re.compile(r"[ \t]*(?P<fence>'''|\"\"\"|``?|[´‘’′]{3})(?:python|py)3?[ \t]*$", re.IGNORECASE)
_CELL_MAGIC = re.compile(r"[ \t]*%%\w")
_HEREDOC = re.compile(r"<<-?[ ]?['\"]?(\w+)['\"]?[ \t]*$")
_HALF_FENCE = re.compile(r"\n[ \t]*(?:`{1,2}|~{1,2})[ \t]*\Z")

# where a body ends, where its block ends, and whether it is closed
End = tuple[int, int, bool]


@dataclass(frozen=True, slots=True)
class Block:
    """`start` and `stop` bound the whole block in the reply, `body_start` and `body_stop` what is within its marks.

    `language` is "python", "" where there is no label, or another label in lower case. `inline` is True for marks
    within a line, which may just as well name a thing.
    """

    start: int
    stop: int
    body_start: int
    body_stop: int
    language: str
    closed: bool
    tag: bool = False
    inline: bool = False
    indent: int = 0
    quoted: bool = False

    def body(self, text: str) -> str:
        body = text[self.body_start : self.body_stop]
        if self.quoted:
            body = "\n".join(line[_quote_end(line) :] for line in body.split("\n"))
        return dedent(body if self.closed else _HALF_FENCE.sub("", body), self.indent)


def dedent(body: str, columns: int) -> str:
    """Without up to `columns` leading spaces or tabs on each line: what a fence's own indentation adds."""
    return re.sub(rf"^[ \t]{{1,{columns}}}", "", body, flags=re.MULTILINE) if columns else body


def _quote_end(line: str) -> int:
    """Where the text of a line quoted as in mails and Markdown (`> `) begins; 0 if it is not."""
    mark = _QUOTED.match(line)
    return mark.end() if mark else 0


def language_of(info: str) -> str:
    """The language that an info string names: `python3`, `{.python}`, `py title="x"`, `main.py` are all "python"."""
    label = _LABEL.match(info.strip().lower())
    word = label[1] if label else ""
    return "python" if _PYTHON.fullmatch(word) else "" if word == "code" else word


def _label_end(info: str) -> int:
    label = _LABEL.match(info)
    return label.end() if label else 0


def _opens(info: str) -> bool:
    """Whether what stands behind a fence within code is the label of a next block, not prose behind a closing fence."""
    return language_of(info) == "python" or re.fullmatch(r"[{.]*[\w+#-]+\}?", info) is not None


class Scanner:
    """One pass over a reply. With `partial`, more text may come: only what that cannot change is taken for closed."""

    def __init__(self, text: str, start: int = 0, *, partial: bool = False) -> None:
        self.text = text
        self.start = start
        self.partial = partial
        # looking past fences within a string that never ends is not worth doing again and again
        self.patience = 8

    def blocks(self) -> list[Block]:
        found = []
        at = self.start
        while at < len(self.text):
            line = self._line(at)
            thought = (
                thinking_at(self.text, at, partial=self.partial)
                if line.lstrip()[:1] in ("<", "[", "◁")
                else None
            )
            if thought is not None:
                at = thought
                continue
            block = (
                self._quoted(at, line)
                or self._fence(at, line)
                or self._near_fence(at, line)
                or self._tag(at, line)
            )
            if block is not None:
                found.append(block)
            at = block.stop if block is not None else at + len(line) + 1
        return found

    def _line(self, at: int) -> str:
        end = self.text.find("\n", at)
        return self.text[at : end if end >= 0 else len(self.text)]

    def _fence(self, at: int, line: str) -> Block | None:
        opening = _FENCE.match(line) or _FENCE_BEHIND.search(line, max(0, len(line) - 60))
        eol = at + len(line)
        if opening is None or (self.partial and eol == len(self.text)):
            return None
        fence, info = opening["fence"], opening["info"].rstrip()
        language = language_of(info)
        if language in _MARKUP and len(fence) == 3 and not self.text[self.start : at].strip():
            return None  # a reply wrapped whole in a fence: what counts are the blocks within
        start, stop = at + opening.start("fence"), min(eol + 1, len(self.text))
        code = info[_label_end(info) :] if language == "python" else info
        code = code.lstrip()
        code_start = at + opening.start("info") + len(info) - len(code)
        if fence[0] == "`" and "`" in info:
            if info.find("`") != len(info) - len(fence) or not code.rstrip("`"):
                return None
            code_stop = code_start + len(code) - len(fence)
            language = "python" if language == "python" else ""
            return Block(start, stop, code_start, code_stop, language, closed=True, inline=True)
        body_start = stop
        if _CODE_BEHIND.fullmatch(code):
            body_start, language = code_start, "python" if language == "python" else ""
        indent = len(opening["indent"])
        body_stop, stop, closed = self._fence_end(body_start, fence, language, indent)
        return Block(start, stop, body_start, body_stop, language, closed=closed, indent=indent)

    def _quoted(self, at: int, line: str) -> Block | None:
        """A block in a block quote: it ends with its fence, or where the quote does."""
        opening = _FENCE.fullmatch(line[_quote_end(line) :])
        if not _quote_end(line) or opening is None or "`" in opening["info"]:
            return None
        body_start = stop = min(at + len(line) + 1, len(self.text))
        indent, body_stop, closed = len(opening["indent"]), body_start, False
        while stop < len(self.text) and not closed:
            line = self._line(stop)
            if (self.partial and stop + len(line) == len(self.text)) or not (mark := _quote_end(line)):
                break
            closed = line[mark:].strip() == opening["fence"]
            body_stop = body_stop if closed else stop + len(line)
            stop = min(stop + len(line) + 1, len(self.text))
        language = language_of(opening["info"])
        return Block(
            at, stop, body_start, max(body_start, body_stop), language, closed, indent=indent, quoted=True
        )

    def _near_fence(self, at: int, line: str) -> Block | None:
        opening = _NEAR_FENCE.match(line)
        if opening is None or self.patience <= 0 or self.partial:
            return None
        body_start = min(at + len(line) + 1, len(self.text))
        closing = re.compile(rf"^[ \t]*(?:{re.escape(opening['fence'])}|```)[ \t]*$", re.MULTILINE)
        ends = [
            (max(body_start, m.start() - 1), min(m.end() + 1, len(self.text)), True)
            for m in closing.finditer(self.text, body_start)
        ]
        if not ends:
            return Block(at, len(self.text), body_start, len(self.text), "python", False)
        self.patience -= 1
        whole = (end for end in ends[:8] if parse(self.text[body_start : end[0]]) is not None)
        body_stop, stop, closed = next(whole, ends[0])
        return Block(at, stop, body_start, body_stop, "python", closed)

    def _magic_end(self, start: int, fence: str) -> End | None:
        """The end of a cell of another language: in it, fences with a label and those of a heredoc are its own."""
        at, depth, heredoc = start, 0, ""
        while at < len(self.text):
            line = self._line(at)
            mark = _FENCE.match(line)
            if heredoc:
                heredoc = "" if line.strip() == heredoc else heredoc
            elif mark is None:
                opening = _HEREDOC.search(line)
                heredoc = opening[1] if opening else ""
            elif mark["info"].strip():
                depth += 1
            elif depth:
                depth -= 1
            elif mark["fence"].startswith(fence) and not (self.partial and at + len(line) == len(self.text)):
                return max(start, at - 1), min(at + len(line) + 1, len(self.text)), True
            at += len(line) + 1
        return None

    def _fence_end(self, start: int, fence: str, language: str, indent: int) -> End:
        python = language in ("python", "")
        if python and self.patience > 0 and _CELL_MAGIC.match(self.text, start):
            if end := self._magic_end(start, fence):
                return end
            self.patience -= 1
        at, quote = start, ""
        in_string: End | None = None
        loose: End | None = None  # a fence too short, or of the other kind
        while at < len(self.text):
            line = self._line(at)
            eol = at + len(line)
            if self.partial and eol == len(self.text):
                break
            mark = _FENCE.match(line)
            if mark is not None:
                end = (max(start, at - 1), min(eol + 1, len(self.text)), True)
                info = mark["info"].strip()
                next_block = (python or language_of(info) == "python") and language not in _MARKUP
                if info and not quote and next_block:
                    return end[0], at if _opens(info) else at + mark.end("fence"), True
                if not info and mark["fence"].startswith(fence):
                    if not quote:
                        return self._checked(start, end, in_string, indent)
                    in_string = in_string or end
                    if self.patience <= 0:
                        return in_string
                elif not info and not quote:
                    loose = loose or end
            elif python and not quote and line.rstrip().endswith(fence):
                cut = len(line.rstrip()) - len(fence)
                if open_quote(line[:cut], line_ends=False) == "":
                    return at + cut, min(eol + 1, len(self.text)), True
            if python:
                quote = open_quote(line, quote)
            at = eol + 1
        return self._unclosed(in_string or loose)

    def _checked(self, start: int, end: End, in_string: End | None, indent: int = 0) -> End:
        """`end`, or the earlier one that seemed to be in a string, if the code up to `end` is none."""
        if in_string is None or parse(dedent(self.text[start : end[0]], indent)) is not None:
            return end
        self.patience -= 1
        return in_string

    def _unclosed(self, second_best: End | None) -> End:
        if second_best is None or self.partial:
            return len(self.text), len(self.text), False
        self.patience -= 1
        return second_best

    def _tag(self, at: int, line: str) -> Block | None:
        opening = _OPEN_TAG.search(line)
        while opening is not None and line.count("`", 0, opening.start()) % 2:
            opening = _OPEN_TAG.search(line, opening.end())
        if opening is None:
            return None
        name = (opening["name"] or "python").lower()
        language = _TAG_LANGUAGES.get(name, "python")
        label = re.search(r"(?:lang(?:uage)?|type)\W+(?:text/)?([\w+#]+)", opening["attributes"] or "")
        if label and label[1] != "text":
            language = language_of(label[1])
        body_start = at + opening.end()
        body_stop, stop, closed = self._tag_end(body_start, name)
        inline = name == "code" and "\n" not in self.text[body_start:body_stop]
        if self.text.startswith("\n", body_start):
            body_start += 1
        if body_stop > body_start and self.text[body_stop - 1] == "\n":
            body_stop -= 1
        return Block(
            at + opening.start(), stop, min(body_start, body_stop), body_stop, language,
            closed=closed, tag=True, inline=inline,
        )  # fmt: skip

    def _tag_end(self, start: int, name: str) -> End:
        at, quote = start, ""
        in_string: End | None = None
        while at < len(self.text):
            line = self._line(at)
            seen = 0
            if at > start and not quote and re.match(rf"\s*<{name}>", line, re.IGNORECASE):
                return at - 1, at, True
            for closing in _CLOSE_TAG.finditer(line):
                quote = open_quote(line[seen : closing.start()], quote, line_ends=False)
                seen = closing.start()
                end = (at + closing.start(), at + closing.end(), True)
                if quote in ("", "#"):
                    return self._checked(start, end, in_string)
                in_string = in_string or end
            quote = open_quote(line[seen:], quote)
            at += len(line) + 1
        return self._unclosed(in_string)
