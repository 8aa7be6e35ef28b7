"""The manifest of the data files as prompt text. What comes in was made in the sandbox, so it is hostile until shown."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from codeact.untrusted import (
    CELL,
    MOST,
    Entry,
    as_dict,
    dicts_in,
    escaped,
    int_in,
    is_small,
    list_in,
    literal,
    quoted,
    shortened,
    shown_name,
    strings_in,
    text_in,
)

_CHARS_PER_TOKEN = 3.5
_WIDE_PER_TOKEN = 1.5
_READ = 1500
_NESTED = 2
_ROW_CELLS = 16
_LISTED = 8
_SHARED = 4
_NAME = 120
_PROBLEMS = 10
_START = "Nothing is loaded yet: start with a line after read:"
VARIABLES = "Variables that are there:"
_LOADED = "What stands after loaded: has been run, and its variables are there."


@dataclass(frozen=True)
class _Level:
    """How much is told of each file."""

    columns: int
    typed: bool
    rows: int
    notes: int
    read: bool
    nested: int


_LEVELS = (
    _Level(columns=60, typed=True, rows=3, notes=14, read=True, nested=12),
    _Level(columns=30, typed=True, rows=3, notes=12, read=True, nested=10),
    _Level(columns=20, typed=True, rows=2, notes=10, read=True, nested=8),
    _Level(columns=12, typed=True, rows=1, notes=8, read=True, nested=6),
    _Level(columns=20, typed=False, rows=0, notes=6, read=True, nested=6),
    _Level(columns=8, typed=False, rows=0, notes=3, read=True, nested=4),
    _Level(columns=0, typed=False, rows=0, notes=1, read=True, nested=3),
    _Level(columns=0, typed=False, rows=0, notes=0, read=True, nested=0),
    _Level(columns=0, typed=False, rows=0, notes=0, read=False, nested=0),
)


def merged(manifest: object, more: object) -> dict[str, object]:
    """One manifest of two."""
    one, other = as_dict(manifest), as_dict(more)
    return {key: [*list_in(one, key), *list_in(other, key)] for key in ("files", "folders", "variables")}


def loaded_lines(manifest: object) -> list[str]:
    """The lines that loaded files when the manifest was made, to be run again in another kernel."""
    files = dicts_in(as_dict(manifest), "files", MOST)
    parts = [
        part
        for key in ("sheets", "tables", "described")
        for file in files
        for part in dicts_in(file, key, MOST)
    ]
    return [line for entry in [*files, *parts] if entry.get("loaded") is True and (line := _read(entry))]


def problems(manifest: object) -> list[str]:
    """What is wrong with files, as a line for each: what is locked, broken, or not of the kind that its name says."""
    files = dicts_in(as_dict(manifest), "files", MOST)
    found = [line for file in files for line in _problems(file, _path(file))]
    more = [f"... and {len(found) - _PROBLEMS} more"] if len(found) > _PROBLEMS else []
    return [*found[:_PROBLEMS], *more]


def _problems(entry: Entry, name: str, depth: int = 0) -> Iterator[str]:
    if problem := text_in(entry, "problem", 200):
        yield f"{name}: {problem}"
    for key, word in (("sheets", "sheet"), ("tables", "table"), ("described", "member")):
        for part in dicts_in(entry, key, MOST) if depth < _NESTED else ():
            yield from _problems(part, f"{name}, {word} {literal(part.get('name'))}", depth + 1)


def tokens(text: str) -> int:
    """An estimate of the tokens of a text: about 3.5 ASCII characters each, fewer beyond ASCII."""
    wide = sum(character > "\x7f" for character in text)
    return int((len(text) - wide) / _CHARS_PER_TOKEN + wide / _WIDE_PER_TOKEN) + 1


def render(manifest: object, *, budget_tokens: int = 1500) -> str:
    """Prompt text for a manifest made by ``codeact.inside.manifest``, of about ``budget_tokens`` at most.

    Takes any object and never raises: what has not the expected form is left out. With many or wide files, first
    rows, then columns, then notes, then reading lines are left out; at last, files.
    """
    top = as_dict(manifest)
    files = [entry for entry in dicts_in(top, "files", MOST) if entry]
    variables = [entry for entry in dicts_in(top, "variables", MOST) if entry]
    folders = list(_folders(top))
    rest = _left_out(top)
    text = ""
    for level in _LEVELS:
        described = [line for entry in files for line in _file(entry, level)]
        start = [
            said
            for mark, said in (("loaded: ", _LOADED), ("read: ", _START))
            if any(line.lstrip().startswith(mark) for line in described)
        ][:1]
        there = [line for entry in variables for line in _file(entry, level)]
        shared = _shared([*files, *variables]) if level.columns else ()
        parts = [*folders, *described, *shared, *rest, *start] if files or folders else []
        text = "\n".join([*parts, *([VARIABLES, *there] if there else []), *(shared if not parts else ())])
        if tokens(text) <= budget_tokens:
            return text
    return _cut_lines(text.split("\n"), budget_tokens)


def _shared(files: list[Entry]) -> Iterator[str]:
    """Columns by which files can be joined, or the word that they have the same."""
    places: dict[str, list[str]] = {}
    tables = [(entry, names) for entry in files if (names := _column_names(entry))]
    if len(tables) > 1 and all(names == tables[0][1] for _, names in tables):
        yield f"These {len(tables)} files have the same columns."
        return
    for entry, names in tables:
        for name in dict.fromkeys(names):
            places.setdefault(name, []).append(_path(entry))
    for name, paths in [(name, paths) for name, paths in places.items() if len(paths) > 1][:_SHARED]:
        yield f"Column {_column_name(name, 0)} is in {' and in '.join(paths[:4])}: they can be joined on it."


def _column_names(entry: Entry) -> list[str]:
    columns = (as_dict(column).get("name") for column in list_in(entry, "columns")[:MOST])
    return [name for name in columns if isinstance(name, str) and len(name) <= _NAME]


def _cut_lines(lines: list[str], budget: int) -> str:
    kept: list[str] = []
    used = 8
    for line in lines:
        used += tokens(line + "\n")
        if used > budget:
            return "\n".join([*kept, f"... and {len(lines) - len(kept)} more"])
        kept.append(line)
    return "\n".join(kept)


def _file(entry: Entry, level: _Level, depth: int = 0) -> Iterator[str]:
    indent = "  " * depth
    name = f"member {literal(entry.get('name'), 200)}" if depth else _path(entry)
    yield f"{indent}{name} — {', '.join(_facts(entry))}"
    parts = [part for key in ("sheets", "tables", "described") for part in dicts_in(entry, key, level.nested)]
    told_below = depth < _NESTED and any(_read(part) for part in parts)
    for line in _details(entry, level, read=not told_below):
        yield f"{indent}  {line}"
    if depth >= _NESTED or not level.nested:
        return
    for sheet in dicts_in(entry, "sheets", level.nested):
        yield from _part("sheet", sheet, level, depth)
    for table in dicts_in(entry, "tables", level.nested):
        yield from _part("table", table, level, depth)
    for member in dicts_in(entry, "described", level.nested):
        yield from _file(member, level, depth + 1)
    for key in ("sheets", "tables", "described"):
        more = len(list_in(entry, key)) - level.nested
        if more > 0:
            yield f"{indent}  ... and {more} more {key if key != 'described' else 'members'}"


def _part(word: str, part: Entry, level: _Level, depth: int) -> Iterator[str]:
    """A sheet of a workbook, or a table of a database or page."""
    indent = "  " * (depth + 1)
    name = f" {literal(part.get('name'))}" if isinstance(part.get("name"), str) else ""
    yield f"{indent}{word}{name} — {', '.join(_facts(part))}"
    for line in _details(part, level, read=True):
        yield f"{indent}  {line}"


def _facts(entry: Entry) -> Iterator[str]:
    """The first line: kind, size, encoding, separator, header, rows; each with its doubt."""
    if text_in(entry, "kind"):
        yield "".join(
            [
                text_in(entry, "kind", 20),
                *(f" in {part}" for part in reversed(strings_in(entry, "container", 4, 10))),
            ]
        )
    size = int_in(entry, "size")
    if size is not None:
        yield _size(size)
    if text_in(entry, "encoding"):
        yield _encoding(entry)
    if isinstance(entry.get("separator"), str):
        yield _separator(text_in(entry, "separator_name", 30) or text_in(entry, "separator", 5)) + _doubt(
            entry, "separator_sure"
        )
    dimensions = [value for value in list_in(entry, "dimensions")[:2] if is_small(value)]
    if len(dimensions) == 2:
        yield "empty" if dimensions == [0, 0] else f"{dimensions[0]} x {dimensions[1]} cells"
    if int_in(entry, "header_line") is not None:
        many = len(list_in(entry, "header_rows"))
        yield f"header in line {int_in(entry, 'header_line')}{f' ({many} header rows)' if many else ''}{_doubt(entry, 'header_sure')}"
    elif "header_row" in entry and entry["header_row"] is None and "columns" in entry:
        yield "no header"
    for key, words in (
        ("rows", "rows"),
        ("lines", "lines"),
        ("pages", "pages"),
        ("members_count", "members"),
    ):
        count = int_in(entry, key)
        if count is not None:
            about = "about " if entry.get(f"{key}_exact") is False else ""
            yield f"{about}{count} {words}"
    if int_in(entry, "width") is not None:
        yield f"{text_in(entry, 'format', 10)} {int_in(entry, 'width')} x {int_in(entry, 'height')} pixels, mode {text_in(entry, 'mode', 10)}"
    if entry.get("hidden") is True:
        yield "hidden"


def _encoding(entry: Entry) -> str:
    others = ", ".join(strings_in(entry, "encoding_alternatives", 3, 20))
    if entry.get("encoding_sure") is False:
        return text_in(entry, "encoding", 30) + (f" (unsure: or {others})" if others else " (unsure)")
    return text_in(entry, "encoding", 30) + (f" (or {others})" if others else "")


def _doubt(entry: Entry, key: str) -> str:
    return " (unsure)" if entry.get(key) is False else ""


def _separator(name: str) -> str:
    return f"separator {name}" if len(name) > 1 else f"separator '{name}'"


def _size(size: int) -> str:
    value = float(size)
    for unit in ("B", "kB", "MB"):
        if value < 1000:
            return f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:.3g} GB"


def _details(entry: Entry, level: _Level, *, read: bool) -> Iterator[str]:
    if text_in(entry, "problem"):
        yield f"problem: {text_in(entry, 'problem', 200)}"
    if read and level.read and (line := _read(entry)):
        word = "loaded" if entry.get("loaded") is True else "read"
        yield f"{word}: {line}{'' if entry.get('read_verified') is True else '   # not tried: check the result'}"
    yield from (f"note: {note}" for note in strings_in(entry, "notes", level.notes, 240))
    left = len(list_in(entry, "notes")) - level.notes
    if left > 0 and level.notes:
        yield f"note: {left} more remarks left out"
    if level.columns:
        yield from _structure(entry, level)
        yield from _columns(entry, level)
    if level.rows:
        yield from _rows(entry, level)


def _read(entry: Entry) -> str:
    """The reading line, exactly; nothing when it is too long or not printable. Marks of ours are escaped as Python does."""
    line = entry.get("read")
    if not isinstance(line, str) or len(line) > _READ or not line.isprintable():
        return ""
    return escaped(line)


def _structure(entry: Entry, level: _Level) -> Iterator[str]:
    flat = "json_normalize(" in _read(
        entry
    )  # its columns tell as much, and tell it of the variable that is there
    for key, words, limit in (("structure", "structure", 600), ("example", "first", 300), ("root", "root element", 60),
                              ("repeated", "repeated element", 100), ("title", "title", 80), ("line_pattern", "lines look like", 120)):  # fmt: skip
        text = text_in(entry, key, limit if level.typed else limit // 2)
        if text and (level.typed or key != "example") and not (flat and key == "structure"):
            yield f"{words}: {text}"
    fields = as_dict(entry.get("fields"))
    if fields:
        shown = [
            f"{shortened(key, 40)}={shortened(value, 30)!r}"
            for key, value in islice(fields.items(), level.columns)
            if isinstance(value, str)
        ]
        yield f"fields: {', '.join(shown)}"
    types = dicts_in(entry, "record_types", 8)
    for kind in types:
        example = ", ".join(strings_in(kind, "example", 8, 25))
        yield f"record type {literal(kind.get('first_cell'))}: {int_in(kind, 'rows')} rows, like {example}"


def _columns(entry: Entry, level: _Level) -> Iterator[str]:
    columns = list_in(entry, "columns")
    if not columns:
        return
    said: set[str] = set()
    shown = [_column(column, at, level, said) for at, column in enumerate(columns[: level.columns])]
    which = (
        f"first {level.columns} of {len(columns)}" if len(columns) > level.columns else f"all {len(columns)}"
    )
    counted = [int_in(as_dict(column), "missing") for column in columns]
    none = "; no missing values" if level.typed and all(count == 0 for count in counted) else ""
    word = "keys of each record" if text_in(entry, "columns_are") else "columns"
    yield f"{word} ({which}): {', '.join(text for text in shown if text)}{none}"


def _column(column: object, at: int, level: _Level, said: set[str]) -> str:
    """One column; a remark that an earlier column had (``said``) is not repeated."""
    if isinstance(column, str):
        return _column_name(column, at)
    known = as_dict(column)
    if not isinstance(known.get("name"), str):
        return ""
    name = str(known["name"])
    name = name if known.get("name_is_integer") is True and name.isdecimal() else _column_name(name, at)
    if not level.typed:
        return name
    kind = text_in(known, "type", 40)
    missing, distinct = int_in(known, "missing"), int_in(known, "distinct")
    values = [value for value in list_in(known, "examples")[:_LISTED] if isinstance(value, str)]
    whole = kind == "text" and distinct == len(values) and not any("…" in value for value in values)
    examples = (
        [quoted(shortened(value, 64)) for value in values]
        if whole
        else [quoted(shortened(value, 25)) for value in values[:2]]
    )
    low, high = text_in(known, "min", 36), text_in(known, "max", 36)
    parts = [kind + (f": {', '.join(examples)}" if examples else "")]
    if low and high and not kind.startswith("digits"):
        parts = [f"{kind} {low}" if low == high else f"{kind} {low}..{high}"]
    if whole and distinct and distinct > 1:
        parts = [f"{kind}, one of {', '.join(examples)}"]
    elif whole and examples:
        parts = [f"{kind}, always {examples[0]}"]
    elif distinct and kind == "text":
        parts.append(f"{distinct} distinct")
    if missing:
        parts.append(f"{missing} missing")
    note = text_in(known, "note", 200)
    if note and note not in said:
        parts.append(note)
        said.add(note)
    return f"{name} ({'; '.join(part for part in parts if part)})"


def _rows(entry: Entry, level: _Level) -> Iterator[str]:
    count = level.rows if entry.get("columns") else 3 * level.rows
    for number, row in enumerate(list_in(entry, "first_rows")[:count]):
        if isinstance(row, list):
            cells = [
                shortened(cell, CELL)
                for cell in row[: min(level.columns, _ROW_CELLS)]
                if isinstance(cell, str)
            ]
            cells += ["..."] if len(row) > len(cells) else []
            yield f"{'first rows' if number == 0 else '          '}: {' | '.join(cells)}"
    for number, line in enumerate(strings_in(entry, "first_lines", level.rows, 120)):
        yield f"{'first lines' if number == 0 else '           '}: {line}"


def _folders(top: Entry) -> Iterator[str]:
    for folder in dicts_in(top, "folders", 20):
        counts = [
            f"{int_in(as_dict(folder.get('extensions')), key)} {shortened(key, 12)}"
            for key in islice(as_dict(folder.get("extensions")), 12)
        ]
        yield f"{_path(folder)}/ — folder, {int_in(folder, 'files')} files, {_size(int_in(folder, 'size') or 0)}: {', '.join(counts)}"
        names = [shown_name(name) for name in strings_in(folder, "first_names", 20, 60)]
        yield f"  first names: {', '.join(names)}"
        yield f"  {int_in(folder, 'described')} of them are described below"


def _left_out(top: Entry) -> list[str]:
    count = int_in(top, "left_out_count")
    if not count:
        return []
    names = ", ".join(shown_name(name) for name in strings_in(top, "left_out", 10, 60))
    return [f"{count} more files, not described for want of time: {names}"]


def _path(entry: Entry) -> str:
    return shown_name(str(entry["path"]), 300) if isinstance(entry.get("path"), str) else "(unnamed)"


def _column_name(name: str, at: int) -> str:
    """A name that can be copied; a long one by its place."""
    if name.isdecimal():  # text, not a number
        return repr(name)
    return shown_name(name, _NAME) if len(name) <= _NAME else f"df.columns[{at}] {literal(name, 40)}"
