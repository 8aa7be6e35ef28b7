"""Judging text as Python: where strings are open, whether it parses, whether it is code at all, and small mends."""

from __future__ import annotations

import ast
import builtins
import html
import re
import textwrap
import warnings
from collections.abc import Iterator, Sequence

_OPENS = re.compile(r"#|\"\"\"|'''|\"|'")
_CLOSES = {
    quote: re.compile(rf"(?:[^\\{quote[0]}]++|\\.|{quote[0]}(?!{quote[0]}{{{len(quote) - 1}}}))*+{quote}")
    for quote in ('"""', "'''")
} | {quote: re.compile(rf"(?:[^\\{quote}]++|\\.)*+{quote}") for quote in ('"', "'")}

_MAGIC = re.compile(r"^([ \t]*)(?:[%!?].*|[\w, ]+=[ \t]*[%!].*|[\w.]+\?{1,2}[ \t]*)$", re.MULTILINE)
_FIRST_LINE = re.compile(
    r"(?:import \w|from [\w.]+ import\b|def \w+\(|class \w+\b.*:|(?:for|while|with|if|try)\b.*:\s*$"
    r"|@\w|print\(|final_answer\(|[\w.]+(?:\[[^\]\n]*\])? = |%%?\w|!\w)"
)
_RETURNED = re.compile(r"^return (?=final_answer\()", re.MULTILINE)
_LINE_END = re.compile(r"\r\n?")
_PROMPT = re.compile(r">>> ?|In ?\[[\d *]*\]: ?")
_CONTINUED = re.compile(r"\.\.\.(?: |$)|[ ]+\.\.\.: ?")
_SPACES = {ord(c): " " for c in "\u00a0\u2000\u2001\u2002\u2003\u2007\u2009\u202f\u3000"}
_INVISIBLE = {ord(c): None for c in "\0\ufeff\u200b\u200c\u200d\u2060\u00ad"}
_QUOTES = {ord(c): '"' for c in "“”„«»"} | {ord(c): "'" for c in "‘’‚`´"}
# what keyboards for Chinese and Japanese write, and what typesetting makes of a hyphen
_SIGNS = {c + 0xFEE0: chr(c) for c in range(ord("!"), ord("~") + 1)} | {
    ord(c): "-" for c in "\u2010\u2011\u2012\u2013\u2212"
}
_NUMBERED = re.compile(r"^[ ]*(\d{1,4})(?:[ ]?[|:│] ?|\t| {1,4}|$)", re.MULTILINE)
_ACTING = (
    ast.Call, ast.Subscript, ast.Await, ast.Yield, ast.NamedExpr,
    ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp,
)  # fmt: skip


def open_quote(text: str, quote: str = "", *, line_ends: bool = True) -> str:
    """What is open after `text` (a line or the start of one), given the string delimiter open before it.

    A string delimiter, "#" within a comment, or "". A line ends its comment, and its one-line string unless a
    backslash continues it.
    """
    at = 0
    while True:
        if quote:
            closing = _CLOSES[quote].match(text, at)
            if closing is None:
                continued = (len(text) - len(text.rstrip("\\"))) % 2 == 1
                return quote if len(quote) == 3 or continued or not line_ends else ""
            at = closing.end()
        opening = _OPENS.search(text, at)
        if opening is None:
            return ""
        if opening[0] == "#":
            return "" if line_ends else "#"
        at, quote = opening.end(), opening[0]


def parse(source: str) -> ast.Module | None:
    """The syntax tree of a cell, with IPython's magics taken for statements; None if it is not Python."""
    tree = _parse(source)
    if tree is None and _MAGIC.search(source):
        if source.lstrip().startswith("%%"):
            return ast.Module([ast.Pass()], [])
        tree = _parse(_MAGIC.sub(r"\1pass", source))
    return tree


def _parse(source: str) -> ast.Module | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(source)
        # beyond SyntaxError: NUL bytes and surrogates, and what deep nesting does to the compiler
        except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError):
            return None


def is_code(source: str) -> bool:
    """Whether text without a label is Python: a word, a number, a table, a sentence or a traceback is not."""
    tree = parse(source)
    if tree is None:
        first = source.strip().partition("\n")[0]
        return _FIRST_LINE.match(first) is not None
    return any(_acts(statement, source) for statement in tree.body)


def is_bare_code(text: str) -> bool:
    """Whether a whole reply is Python; stricter than `is_code`, since it has no marks of a block ("It is 5." parses)."""
    tree = _parse(text)
    return tree is not None and tree.body != [] and _acts(tree.body[0], text)


def _acts(statement: ast.stmt, source: str) -> bool:
    match statement:
        case ast.AnnAssign(value=None) | ast.Pass():  # "Total: 377" parses; a lone magic may be anything
            return isinstance(statement, ast.Pass) and source.lstrip()[:1] in ("%", "!")
        case ast.Expr(value=ast.Call(func=ast.Name(id=name))) if name != "print":
            line = source.split("\n")[statement.lineno - 1]
            return re.match(rf"\s*{name}\s+\(", line) is None  # "Oslo (Norway)" parses
        case ast.Expr(value=value):
            return any(isinstance(node, _ACTING) for node in ast.walk(value))
    return True


def is_empty(source: str) -> bool:
    """Whether a cell holds nothing, or nothing but comments."""
    return all(not line.strip() or line.lstrip().startswith("#") for line in source.split("\n"))


def is_literal_answer(source: str) -> bool:
    """Whether a cell is only `final_answer(...)` of values written out, so that it depends on no output."""
    tree = _parse(source)
    if tree is None or not tree.body:
        return False
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return all(map(is_final_answer, tree.body)) and not names - {"final_answer"} - vars(builtins).keys()


def is_final_answer(statement: ast.stmt) -> bool:
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Name(id="final_answer"))):
            return True
    return False


def clean(source: str) -> str:
    """The cell as its author meant it: without REPL prompts and, where only that makes it parse, mended.

    Mends: common indentation, invisible characters, typographic spaces, quotes and signs, HTML entities, underscores
    escaped as in Markdown, line numbers. A `return` before the answer is left out.
    """
    source = _RETURNED.sub("", _without_prompts(source))
    if parse(source) is not None:
        return source
    mended = source
    for mend in (
        textwrap.dedent, _plain_spaces, _plain_quotes, html.unescape, _plain_underscores, _plain_signs, _without_numbers,
    ):  # fmt: skip
        before, mended = mended, mend(mended)
        if mended != before and parse(mended) is not None:
            return mended
    return source


def without_returns(source: str) -> str:
    """A cell as it is run: no function, so that what a `return` at its end would return is shown, within a branch by `display`. A
    `return` that would have to stop the cell stays the error that it is."""
    tree = parse(source)
    if tree is None:
        return source
    returns = list(_last_returns(tree.body))
    if not returns:
        return source
    lines = _LINE_END.sub("\n", source).encode("utf-8", "surrogatepass").split(b"\n")
    for found, nested in reversed(returns):
        shows = nested and found.value is not None and not _says(found.value)
        several = isinstance(found.value, ast.Tuple)
        first, last = found.lineno - 1, (found.end_lineno or found.lineno) - 1
        if shows:
            lines[last] = _inserted(lines[last], found.end_col_offset or 0, b"))" if several else b")")
        start = found.col_offset
        behind = lines[first][start + len("return") :].lstrip()
        words = (
            b"pass" if found.value is None else b"" if not shows else b"display((" if several else b"display("
        )
        lines[first] = lines[first][:start] + words + behind
    made = b"\n".join(lines).decode("utf-8", "surrogatepass")
    return made if parse(made) is not None else source


def _says(value: ast.expr) -> bool:
    match value:
        case ast.Call(func=ast.Name(id="final_answer" | "print" | "display")):
            return True
    return False


def _inserted(line: bytes, at: int, more: bytes) -> bytes:
    return line[:at] + more + line[at:]


def _last_returns(body: Sequence[ast.stmt], nested: bool = False) -> Iterator[tuple[ast.Return, bool]]:
    """Where a body ends with `return`, in the order of the text; `nested`: in a statement that holds others."""
    match body[-1] if body else None:
        case ast.Return() as found:
            yield found, nested
        case ast.With(body=inner) | ast.AsyncWith(body=inner):
            yield from _last_returns(inner, nested=True)
        case ast.If(body=inner, orelse=other):
            yield from _last_returns(inner, nested=True)
            yield from _last_returns(other, nested=True)
        case ast.Try(body=inner, handlers=handlers, orelse=other):
            yield from _last_returns(other or inner, nested=True)
            for handler in handlers:
                yield from _last_returns(handler.body, nested=True)


def _plain_spaces(source: str) -> str:
    return source.translate(_SPACES).translate(_INVISIBLE).lstrip()


def _plain_quotes(source: str) -> str:
    return source.translate(_QUOTES)


def _plain_signs(source: str) -> str:
    return source.translate(_SIGNS)


def _plain_underscores(source: str) -> str:
    return source.replace("\\_", "_")


def _without_numbers(source: str) -> str:
    lines = source.strip("\n").split("\n")
    numbers = [number and int(number[1]) for number in map(_NUMBERED.match, lines)]
    return _NUMBERED.sub("", source) if numbers == list(range(1, len(lines) + 1)) else source


def _without_prompts(source: str) -> str:
    lines = textwrap.dedent(source).split("\n")
    first = next((line for line in lines if line.strip() and not line.startswith("#")), "")
    if not _PROMPT.match(first):
        return source
    kept = []
    for line in lines:
        if prompt := _PROMPT.match(line) or _CONTINUED.match(line):
            kept.append(line[prompt.end() :])
    return "\n".join(kept)
