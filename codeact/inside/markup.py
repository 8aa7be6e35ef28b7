"""XML and HTML: their repeated elements and tables, and the line that reads them."""

import io
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any

from . import frames
from .cells import PANDAS_MISSING
from .columns import Column, cut, describe
from .delimited import Text, opened_text
from .packages import has, need
from .reading import Line, call, execute, reason
from .sources import MIB, Source

_LARGE = 24 * MIB
_KEYS = 40


def describe_xml(entry: dict[str, Any], source: Source, rows: int) -> None:
    """Root, and the element that repeats most directly beneath one parent, with its children and attributes."""
    from xml.etree import ElementTree

    paths: Counter[str] = Counter()
    examples: dict[str, dict[str, str]] = {}
    stack: list[str] = []
    root = ""
    try:
        with source.open() as stream:
            limited = io.BytesIO(stream.read(_LARGE))
            cut_short = bool(stream.read(1))
            for event, element in ElementTree.iterparse(limited, events=("start", "end")):  # noqa: S314 - this is the sandbox
                name = element.tag if isinstance(element.tag, str) else "?"
                if event == "start":
                    root = root or name
                    stack.append(name)
                    continue
                path = "/".join(stack[1:])
                paths[path] += 1
                if path not in examples and len(examples) < 500:
                    children = {
                        child.tag: cut((child.text or "").strip(), 30)
                        for child in element
                        if isinstance(child.tag, str)
                    }
                    examples[path] = {
                        **{f"@{key}": cut(value, 30) for key, value in element.attrib.items()},
                        **children,
                    }
                stack.pop()
                del element[:]  # what is around it needs its text only
                if len(stack) < 2:
                    element.clear()
    except ElementTree.ParseError as error:
        if not paths or "no element found" not in str(error):
            entry["problem"] = f"not well-formed XML: {cut(str(error), 100)}"
        cut_short = True
    entry["root"] = _local(root)
    if "}" in root:
        entry["notes"].append(
            f"elements are in the namespace {cut(root[1:].partition('}')[0], 80)!r}: find with './/{{*}}name'"
        )
    repeated = [(count, path) for path, count in paths.items() if count > 1 and examples.get(path)]
    if repeated:
        count, path = max(repeated, key=lambda one: (one[0], -one[1].count("/")))
        entry |= {"repeated": "/".join(map(_local, path.split("/"))), "rows": count}
        entry["fields"] = {_local(key): value for key, value in islice(examples[path].items(), _KEYS)}
    entry["elements"] = {
        "/".join(map(_local, path.split("/"))): count for path, count in islice(paths.items(), 20) if path
    }
    opened, modules = source.expression()
    target = opened if not source.plain else repr(source.path)
    if repeated and not cut_short and _offer_xml(entry, target, modules, root, paths, rows):
        return
    line = Line(f"root = ET.parse({target}).getroot()", (*modules, "xml.etree.ElementTree as ET"))
    entry["read"] = line.text()
    if not cut_short:
        try:
            entry["read_verified"] = execute(line, "root").tag == root
        except (OSError, SyntaxError) as error:
            entry["notes"].append(f"the reading line failed: {reason(error)}")


def _offer_xml(
    entry: dict[str, Any], target: str, modules: list[str], root: str, paths: Counter[str], rows: int
) -> bool:
    """Offers the repeated element as a DataFrame where it holds text and attributes only, and no namespace is used."""
    path = entry["repeated"]
    below = [one for one in paths if one.startswith(path + "/")]
    nested = any(one.removeprefix(path + "/").count("/") or paths[one] > paths[path] for one in below)
    if nested or "}" in root or not (has("pandas") and has("lxml")):
        return False
    line = Line(f"df = {call('pd.read_xml', target, xpath=f'/{root}/{path}')}", (*modules, "pandas"))
    try:
        frame = execute(line)
        names = [name for name in frame.columns if isinstance(name, str)]
        written = _written([execute(Line(f"{line.code[:-1]}, converters={_marking(names)})", line.imports))])
        kept = ", ".join(f"{name!r}: str" for name in sorted(filter(written.is_code, names)))
        codes, unsure = _codes_taken_for_missing(written)
        if kept or codes:
            chosen = f", dtype={{{kept}}})" if kept else ")"
            after = f".fillna({codes!r})" if codes else ""
            line = Line(f"{line.code[:-1]}{chosen}{after}", line.imports)
            frame = execute(line)
    except Exception:  # noqa: BLE001 - then it is told as a tree
        return False
    if len(frame) != paths[path] or set(map(str, frame.columns)) < {
        name.lstrip("@") for name in entry["fields"]
    }:
        return False
    del entry["fields"]
    _tell_codes(entry, unsure)
    entry |= {"read": line.text(), "read_verified": True, "columns": frames.columns(frame),
              "first_rows": frames.first_rows(frame, rows)}  # fmt: skip
    return True


_AS_TEXT = "(lambda cell: '=' + cell if isinstance(cell, str) else '=')"
"""A converter that hides from pandas what a cell may be: all others come after it has taken some for missing."""


def _marking(names: Iterable[Any]) -> str:
    return f"dict.fromkeys({list(names)!r}, {_AS_TEXT})"


@dataclass(frozen=True)
class _Written:
    """The cells of columns as they are written, counted; and those columns described in which pandas may lose something."""

    cells: dict[Any, Counter[str]]
    columns: dict[Any, Column]

    def is_code(self, name: Any) -> bool:
        """Whether a column is to stay text, since numbers would lose leading zeros or digits."""
        if name not in self.columns:
            return False
        return self.columns[name].as_text or any(re.fullmatch(r"0\d+", cell) for cell in self.cells[name])


def _written(tables: Iterable[Any]) -> _Written:
    """What the tables hold, which were read with `_marking`; columns of one name are one."""
    found: dict[Any, Counter[str]] = {}
    for table in tables:
        for at, name in enumerate(table.columns):
            cells = (cell[1:].strip() if isinstance(cell, str) else "" for cell in table.iloc[:, at])
            found.setdefault(name, Counter()).update(cells)
    columns = {name: describe(str(name), cells) for name, cells in found.items() if any(map(_odd, cells))}
    return _Written(found, columns)


def _odd(cell: str) -> bool:
    return cell in PANDAS_MISSING or re.fullmatch(r"[-+]?(0\d+|\d{16,})", cell) is not None


def _codes_taken_for_missing(written: _Written) -> tuple[dict[str, str], list[str]]:
    """Codes, such as NA for Namibia, by the columns in which nothing else is missing; and the columns in which they cannot be told apart."""
    coded = {
        name: column.pandas_marks
        for name, column in written.columns.items()
        if column.na_code and isinstance(name, str)
    }
    sure = {
        name: marks[0] for name, marks in coded.items() if len(marks) == 1 and not written.cells[name][""]
    }
    return sure, [name for name in coded if name not in sure]


def _tell_codes(entry: dict[str, Any], names: list[str]) -> None:
    if names:
        told = ", ".join(repr(cut(name, 30)) for name in names[:5])
        entry["notes"].append(f"codes such as 'NA' are missing values in df, in {told}")


@dataclass(frozen=True)
class _Style:
    """How the numbers of a page are written."""

    thousands: str
    decimal: str

    def marks(self, cell: str) -> bool:
        """Whether the cell holds a mark that pandas is to be told of."""
        return self.thousands in cell or (self.decimal != "." and self.decimal in cell)

    def number(self, cell: str) -> bool:
        mark, point = re.escape(self.thousands), re.escape(self.decimal)
        return bool(
            re.fullmatch(rf"[-+]?(?=.?\d)(\d+|\d{{1,3}}({mark}\d{{2,3}})*{mark}\d{{3}})?({point}\d*)?", cell)
        )

    def loses(self, cell: str) -> bool:
        """Whether pandas takes marks out of the cell as if they stood between thousands."""
        return self.thousands in cell and bool(re.fullmatch(r"[-+]?[\d.,]+", cell)) and not self.number(cell)

    def converter(self) -> str:
        to_point = f".replace({self.decimal!r}, '.')" if self.decimal != "." else ""
        return f"lambda cell: pd.to_numeric(cell.replace({self.thousands!r}, ''){to_point}, errors='coerce')"


def _page_line(entry: dict[str, Any], line: Line, style: _Style, written: _Written) -> Line:
    """The line, with what these tables need so that each column is read as it is written.

    pandas takes marks between thousands out of all columns, whatever converters they have: out of dates, addresses and
    lists too. Where a page has such columns, only those of numbers are converted.
    """
    whole = all(isinstance(name, int) for name in written.cells)  # no table has a header: names are places
    names = [name for name in written.cells if whole or isinstance(name, str)]
    kinds = {name: "str" for name in names if written.is_code(name)}
    options: dict[str, str] = {}
    code = line.code
    if any(style.loses(cell) for cells in written.cells.values() for cell in cells):
        options["thousands"] = "None"
        numbers = [name for name in names if name not in kinds and _all_numbers(written.cells[name], style)]
        kinds |= dict.fromkeys(numbers, "number")
        code = f"number = {style.converter()}; {code}" if numbers else code
    elif style.decimal != ".":
        options = {"decimal": repr(style.decimal), "thousands": repr(style.thousands)}
    if kinds:
        options["converters"] = "{" + ", ".join(f"{name!r}: {kind}" for name, kind in kinds.items()) + "}"
    options |= _missing(entry, written)
    return Line(code[:-1] + "".join(f", {key}={value}" for key, value in options.items()) + ")", line.imports)


def _all_numbers(cells: Iterable[str], style: _Style) -> bool:
    """Whether all that is filled are numbers, and some have marks."""
    filled = [cell for cell in cells if cell and cell not in PANDAS_MISSING]
    return any(map(style.marks, filled)) and all(map(style.number, filled))


def _missing(entry: dict[str, Any], written: _Written) -> dict[str, str]:
    """The options that keep codes, such as NA for Namibia, where pandas takes them for missing."""
    coded = {str(name): column for name, column in written.columns.items() if column.na_code}
    codes = {mark for column in coded.values() for mark in column.pandas_marks}
    elsewhere = {
        mark for column in written.columns.values() if not column.na_code for mark in column.pandas_marks
    }
    if codes & elsewhere:
        _tell_codes(entry, list(coded))
        return {}
    return {"keep_default_na": "False", "na_values": repr(["", *sorted(elsewhere)])} if codes else {}


def _decimal_commas(page: str) -> bool:
    """Whether numbers are written as in 1.234,5: pandas would take their commas for thousands marks."""
    cells = re.findall(r">\s*([-+]?\d[\d.,]*)\s*<", page)
    commas = sum(
        bool(
            re.fullmatch(
                r"[-+]?(?:\d+,(?:\d{1,2}|\d{4,})|\d{1,3}(?:\.\d{3})+,\d+|\d{1,3}(?:\.\d{3}){2,})", cell
            )
        )
        for cell in cells
    )
    points = sum(
        bool(re.fullmatch(r"[-+]?(?:\d+\.\d{1,2}|\d{1,3}(?:,\d{3})+\.\d+|\d{1,3}(?:,\d{3}){2,})", cell))
        for cell in cells
    )
    return commas > points


def _local(name: str) -> str:
    return re.sub(r"\{[^}]*\}", "", name)


def describe_html(entry: dict[str, Any], source: Source, text: Text, rows: int) -> None:
    title = re.search(r"<title[^>]*>(.*?)</title>", text.content, re.IGNORECASE | re.DOTALL)
    if title:
        entry["title"] = cut(title.group(1), 80)
    count = len(re.findall(r"<table\b", text.content, re.IGNORECASE))
    entry["tables"] = []
    opened, modules = opened_text(source, text.charset)
    if count and text.whole and len(text.content) < 5 * MIB and has("pandas"):
        line = Line(f"tables = pd.read_html(io.StringIO({opened}.read()))", (*modules, "io", "pandas"))
        try:
            names = {name for table in execute(line, "tables") for name in table.columns}
            written = _written(
                execute(
                    Line(f"{line.code[:-1]}, thousands=None, converters={_marking(names)})", line.imports),
                    "tables",
                )
            )
            style = _Style(".", ",") if _decimal_commas(text.content) else _Style(",", ".")
            line = _page_line(entry, line, style, written)
            tables = execute(line, "tables")
            entry["tables"] = [
                {"name": f"tables[{at}]", "rows": len(table), "columns": frames.columns(table),
                 "first_rows": frames.first_rows(table, rows)}
                for at, table in enumerate(tables[:8])
            ]  # fmt: skip
            entry |= {"read": line.text(), "read_verified": True}
            if len(tables) == 1:
                entry["read"] = line.text().replace("; tables = pd.", "; df = pd.") + "[0]"
                entry |= {key: value for key, value in entry.pop("tables")[0].items() if key != "name"}
            else:
                entry["notes"].append(f"the page holds {len(tables)}: df = tables[0] is the first")
            return
        except (ValueError, ImportError) as error:
            entry["notes"].append(f"pandas.read_html fails: {reason(error)}")
    entry["notes"].append(f"{count} tables in the page" if count else "no tables in the page")
    reader = (
        f"soup = bs4.BeautifulSoup({opened}.read(), 'html.parser')"
        if has("bs4")
        else f"text = {opened}.read()"
    )
    line = Line(reader, (*modules, "bs4") if has("bs4") else tuple(modules))
    entry |= {"read": line.text(), "read_verified": bool(execute(line, reader.split(" ", 1)[0]))}
    if has("bs4"):
        page = need("bs4").BeautifulSoup(text.content[:MIB], "html.parser")
        entry["first_lines"] = [cut(row, 120) for row in page.get_text("\n").splitlines() if row.strip()][:3]
