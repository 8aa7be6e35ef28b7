"""Logs and their like: the fields that most lines begin with, and the one line that makes a table of them."""

import re
from collections import Counter
from dataclasses import dataclass
from typing import Any

_LEVELS = "TRACE|DEBUG|INFO|NOTICE|WARNING|WARN|ERROR|ERR|CRITICAL|CRIT|ALERT|EMERG|FATAL|SEVERE"
_CLOCK = r"\d\d:\d\d:\d\d(?:[.,]\d+)?"
_ZONE = r"(?: ?(?:Z|UTC|[+-]\d\d:?\d\d))?(?![^\s\]])"
# Strict forms tell a time from other text; the short form that follows is what the reading line takes it with.
_TIMES = (
    (rf"\d{{4}}-\d\d-\d\d {_CLOCK}{_ZONE}", r"\d{4}-\S+ \S+"),
    (rf"\d{{4}}-\d\d-\d\dT{_CLOCK}{_ZONE}", r"\d{4}-\S+"),
    (rf"\d{{4}}/\d\d/\d\d {_CLOCK}", r"\d{4}/\S+ \S+"),
    (rf"\d{{1,2}}/\d{{1,2}}/\d{{2,4}} {_CLOCK}", r"\d+/\S+ \S+"),
    (r"\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4}", r"\d+/\S+ \S+"),
    (r"[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d+)? \d{4}", r"\w{3} \w{3} +\d+ \S+ \d{4}"),
    (r"[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?!\S)", r"\w{3} +\d+ [\d:]+"),
    (_CLOCK, r"\d\d:\S+"),
    (r"\d{6} \d{6}(?!\S)", r"\d{6} \d{6}"),
    (r"\d{4}-\d\d-\d\d(?!\S)", r"\d{4}-\S+"),
)
_FORMATS = (
    "%Y-%m-%d %H:%M:%S",
    "%Y-%m-%d %H:%M:%S,%f",
    "ISO8601",
    "%Y/%m/%d %H:%M:%S",
    "%d/%b/%Y:%H:%M:%S %z",
    "%a %b %d %H:%M:%S.%f %Y",
    "%a %b %d %H:%M:%S %Y",
    "%y%m%d %H%M%S",
)
_ACCESS = r'(\S+) (\S+) (\S+) \[(.+?)\] "(\S+) ?(\S*) ?(.*?)" (\d{3}) (\d+|-)'
_ACCESS_COLUMNS = ("client", "ident", "user", "time", "method", "path", "protocol", "status", "size")
_PAIR = r'([\w.-]+)=("[^"]*"|\S*)'
_LEAST = 3
_MOST, _ALL = 0.5, 0.9
_SOME = 0.1
_FIELDS = 14


@dataclass(frozen=True)
class Piece:
    """A kind of field. ``strict`` finds it; ``take`` is its part of the reading pattern, with one group a column.

    ``exact`` is that part where the short one would take lines that are not of the form.
    """

    kind: str
    strict: str
    take: str
    columns: tuple[str, ...] = ()
    exact: str = ""


_PIECES = (
    *(Piece(f"[time {at}]", rf"\[{strict}\]", rf"\[({take})\]", ("time",), rf"\[({strict})\]") for at, (strict, take) in enumerate(_TIMES)),
    *(Piece(f"time {at}", strict, f"({take})", ("time",), f"({strict})") for at, (strict, take) in enumerate(_TIMES)),
    Piece("ip", r"\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?(?!\S)", r"([\d.:]+)", ("ip",)),
    Piece("[level]", rf"\[ *(?i:{_LEVELS}) *\]", r"\[ *(\w+) *\]", ("level",), rf"\[ *((?i:{_LEVELS})) *\]"),
    Piece("level:", rf"(?:{_LEVELS}):", r"([A-Z]+):", ("level",), rf"({_LEVELS}):"),
    Piece("level", rf"(?:{_LEVELS})(?!\S)", r"([A-Z]+)", ("level",), rf"({_LEVELS})(?!\S)"),
    Piece("[]", r"\[[^\]]*\]", r"\[(.*?)\]", ("bracketed",)),
    Piece("quoted", r'"[^"]*"', r'"(.*?)"', ("quoted",)),
    Piece("program[pid]:", r"[\w./-]+\[\d+\]:", r"([^\s\[]+)\[(\d+)\]:", ("program", "pid")),
    Piece("program:", r"[A-Za-z][\w./$-]*:(?= )", r"(\S+?):", ("source",)),
    Piece("number", r"-?\d+(?:\.\d+)?(?!\S)", r"(-?[\d.]+)", ("number",)),
    *(Piece(mark, re.escape(mark) + r"(?!\S)", re.escape(mark).replace("\\-", "-")) for mark in ("-", "|", ":")),
    Piece("word", r"[^\s=|\[\]\"]+(?!\S)", r"(\S+)", ("name",)),
)  # fmt: skip
_BY_KIND = {piece.kind: piece for piece in _PIECES}
_ACCESS_LINE = re.compile(_ACCESS)
_TELLING = re.compile(r"\[?time|ip|\[?level|\[\]|quoted|program|=")


@dataclass(frozen=True)
class Field:
    """A piece at its place. ``gap`` is the pattern of the blanks before it."""

    piece: Piece
    gap: str = ""
    optional: bool = False


@dataclass(frozen=True)
class Form:
    """How lines are made: ``pattern`` has one group a name of ``columns``; ``pairs`` for lines of key=value alone.

    ``exact`` takes the lines of the form and no others, and is longer.
    """

    pattern: str
    columns: tuple[str, ...]
    exact: str = ""
    pairs: bool = False

    def settled(self, content: str) -> "Form":
        """The form for a text: the short pattern where it takes what the exact one takes; no column that is empty."""
        if self.pairs:
            return self
        exact = self.exact or self.pattern
        taken = re.findall(exact, content, re.MULTILINE)
        same = re.findall(self.pattern, content, re.MULTILINE) == taken
        form = Form(self.pattern if same else exact, self.columns)
        if self.columns[-1] == "message" and len(self.columns) > 2 and not any(row[-1] for row in taken):
            return Form(form.pattern.removesuffix(" *(.*)$") + " *$", self.columns[:-1])
        return form

    def source(self, opened: str) -> str:
        """The statement that makes ``df`` of an open file."""
        if self.pairs:
            return (
                f"df = pd.DataFrame([{{k: v.strip('\"') for k, v in re.findall(r'{self.pattern}', line)}} "
                f"for line in {opened} if '=' in line])"
            )
        return f"df = pd.DataFrame(re.findall(r'{self.pattern}', {opened}.read(), re.M), columns={list(self.columns)})"


def find(lines: list[str]) -> Form | None:
    """The form that at least half of the lines share; None for free text. Blank lines do not count."""
    lines = [line.rstrip() for line in lines if line.strip()]
    if len(lines) < _LEAST:
        return None
    if sum(map(_is_pairs, lines)) >= _ALL * len(lines):
        return Form(_PAIR, (), pairs=True)
    if sum(bool(_ACCESS_LINE.match(line)) for line in lines) >= _MOST * len(lines):
        return _access(lines)
    fields = _shared([_tokens(line) for line in lines])
    while fields and not _closes(fields[-1].piece.kind):
        fields = fields[:-1]
    telling = sum(bool(_TELLING.match(field.piece.kind)) for field in fields)
    if telling < (
        1 if any("time" in field.piece.kind or "level" in field.piece.kind for field in fields) else 2
    ):
        return None
    return _form(fields)


def _is_pairs(line: str) -> bool:
    return len(re.findall(_PAIR, line)) > 1 and not re.sub(_PAIR, "", line).strip(" ,;")


def _access(lines: list[str]) -> Form:
    """Access logs of web servers: common or combined, with what a server may add."""
    ends = [line[found.end() :] for line in lines if (found := _ACCESS_LINE.match(line))]
    columns: tuple[str, ...] = _ACCESS_COLUMNS
    pattern = _ACCESS
    if sum(bool(re.match(r' "[^"]*" "[^"]*"', end)) for end in ends) >= _ALL * len(ends):
        pattern, columns = pattern + r' "(.*?)" "(.*?)"', (*columns, "referrer", "user_agent")
    else:
        return _closed(pattern, columns, any(end.strip() for end in ends))
    return _closed(
        pattern, columns, any(len(re.findall(r'"', end)) > 4 or not end.endswith('"') for end in ends)
    )


def _closed(pattern: str, columns: tuple[str, ...], rest: bool) -> Form:
    return Form(f"^{pattern}{'(.*)' if rest else ''}$", (*columns, "rest") if rest else columns)


def _tokens(line: str) -> list[tuple[str, str, str]]:
    """(kind, blanks before it, text) of the first fields of a line; a line's free text ends the list."""
    found: list[tuple[str, str, str]] = []
    at = 0
    while at < len(line) and len(found) < _FIELDS:
        blanks = re.compile(r"\s*").match(line, at)
        assert blanks is not None
        at = blanks.end()
        if pair := re.compile(r'([A-Za-z]\w*)=("[^"]*"|[^\s"]+)(?!\S)').match(line, at):
            found.append((f"{pair[1]}={'quoted' if pair[2].startswith(chr(34)) else ''}", blanks[0], pair[0]))
            at = pair.end()
            continue
        for kind, pattern in _COMPILED:
            if match := pattern.match(line, at):
                found.append((kind, blanks[0], match[0]))
                at = match.end()
                break
        else:
            break
    return found


_COMPILED = [(piece.kind, re.compile(piece.strict)) for piece in _PIECES]


def _shared(lines: list[list[tuple[str, str, str]]]) -> list[Field]:
    """The fields that lines have in common from their beginning.

    The first must be that of half of the lines, each further one that of nearly all that are left; one in brackets
    may also be there in some lines only.
    """
    fields: list[Field] = []
    places = [(tokens, 0) for tokens in lines]
    while len(fields) < _FIELDS:
        counts = Counter(tokens[at][0] for tokens, at in places if at < len(tokens))
        if not counts:
            return fields
        kind, count = counts.most_common(1)[0]
        optional = False
        if count < (_ALL if fields else _MOST) * len(places if fields else lines):
            if not fields or counts["[]"] < max(2, _SOME * len(places)):
                return fields
            kind, optional = "[]", True
        having = [(tokens, at) for tokens, at in places if at < len(tokens) and tokens[at][0] == kind]
        others = [one for one in places if one not in having] if optional else []
        gap = _gap([tokens[at][1] for tokens, at in having]) if fields else ""
        fields.append(Field(_piece(kind), gap, optional))
        places = [(tokens, at + 1) for tokens, at in having] + others
        if not _goes_on(fields):
            return fields
    return fields


def _goes_on(fields: list[Field]) -> bool:
    """Two plain words in a row are free text."""
    return len(fields) < 2 or any(field.piece.kind != "word" for field in fields[-2:])


def _piece(kind: str) -> Piece:
    name, equals, quoted = kind.partition("=")
    if not equals:
        return _BY_KIND[kind]
    return Piece(kind, "", rf'{name}="(.*?)"' if quoted else rf"{name}=(\S+)", (name,))


def _closes(kind: str) -> bool:
    """Whether the common part may end with this field: words and numbers belong to the text that follows."""
    return kind not in ("word", "number", ":")


def _gap(blanks: list[str]) -> str:
    if all(one == " " for one in blanks):
        return " "
    return r"\s+" if "\t" in "".join(blanks) else " +" if all(blanks) else " *"


def _form(fields: list[Field]) -> Form:
    pattern, exact, names = "", "", Counter[str]()
    columns: list[str] = []
    for at, field in enumerate(fields):
        short, long = field.gap + field.piece.take, field.gap + (field.piece.exact or field.piece.take)
        pattern += f"(?:{short})?" if field.optional else short
        exact += f"(?:{long})?" if field.optional else long
        before_program = (
            field.piece.kind == "word" and at + 1 < len(fields) and "program" in fields[at + 1].piece.kind
        )
        for name in ("host",) if before_program else field.piece.columns:
            names[name] += 1
            columns.append(name if names[name] == 1 else f"{name}_{names[name]}")
    return Form(f"^{pattern} *(.*)$", (*columns, "message"), f"^{exact} *(.*)$")


def conversions(frame: Any, pandas: Any) -> str:
    """Statements that give columns of text their types, each tried: ``; df['time'] = pd.to_datetime(...)``."""
    made = ""
    for name in frame.columns:
        values = frame[name]
        bare = values[values != "-"].dropna()
        if not len(bare) or name in ("message", "rest"):
            continue
        if any(re.fullmatch(strict, bare.iloc[0]) for strict, _ in _TIMES):
            form = next((one for one in _FORMATS if _dates(bare, one, pandas)), None)
            made += f"; df[{name!r}] = pd.to_datetime(df[{name!r}], format={form!r})" if form else ""
        elif bare.str.fullmatch(r"-?(0|[1-9]\d{0,15})(\.\d+)?").all():
            how = ", errors='coerce'" if len(bare) < len(values) else ""
            made += f"; df[{name!r}] = pd.to_numeric(df[{name!r}]{how})"
    return made


def _dates(values: Any, form: str, pandas: Any) -> bool:
    try:
        return bool(pandas.to_datetime(values, format=form).dtype.kind == "M")
    except (ValueError, TypeError):
        return False
