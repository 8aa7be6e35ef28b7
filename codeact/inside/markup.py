"""XML and HTML: their repeated elements and tables, and the line that reads them."""

import io
import re
from collections import Counter
from itertools import islice
from typing import Any

from . import frames
from .columns import cut
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
                if len(stack) < 3:
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
        texts = execute(Line(line.code[:-1] + ", dtype=str)", line.imports))
        line = _keeping_codes(line, "dtype", [texts])
        frame = execute(line)
    except Exception:  # noqa: BLE001 - then it is told as a tree
        return False
    if len(frame) != paths[path] or set(map(str, frame.columns)) < {
        name.lstrip("@") for name in entry["fields"]
    }:
        return False
    del entry["fields"]
    entry |= {"read": line.text(), "read_verified": True, "columns": frames.columns(frame),
              "first_rows": frames.first_rows(frame, rows)}  # fmt: skip
    return True


def _keeping_codes(line: Line, option: str, tables: list[Any]) -> Line:
    """The line, with columns kept as text in which numbers have leading zeros; ``tables`` are all text."""
    codes = sorted({
        name
        for table in tables
        for name in table.columns
        if isinstance(name, str) and table[name].astype(str).str.fullmatch(r"0\d+").any()
    })  # fmt: skip
    if not codes:
        return line
    kinds = "{" + ", ".join(f"{name!r}: str" for name in codes) + "}"
    return Line(f"{line.code[:-1]}, {option}={kinds})", line.imports)


def _decimal_commas(page: str) -> bool:
    """Whether numbers are written as in 1.234,5: pandas would take their commas for thousands marks."""
    cells = re.findall(r">\s*([-+]?\d[\d.,]*)\s*<", page)
    commas = sum(
        bool(re.fullmatch(r"[-+]?(?:\d+,(?:\d{1,2}|\d{4,})|\d{1,3}(?:\.\d{3})+,\d+)", cell)) for cell in cells
    )
    points = sum(bool(re.fullmatch(r"[-+]?(?:\d+\.\d{1,2}|\d{1,3}(?:,\d{3})+\.\d+)", cell)) for cell in cells)
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
            texts = need("pandas").read_html(io.StringIO(text.content), converters=dict.fromkeys(names, str))
            if _decimal_commas(text.content):
                line = Line(f"{line.code[:-1]}, decimal=',', thousands='.')", line.imports)
            line = _keeping_codes(line, "converters", texts)
            tables = execute(line, "tables")
            entry["tables"] = [
                {"name": f"tables[{at}]", "rows": len(table), "columns": frames.columns(table),
                 "first_rows": frames.first_rows(table, rows)}
                for at, table in enumerate(tables[:8])
            ]  # fmt: skip
            entry |= {"read": line.text(), "read_verified": True}
            if len(tables) == 1:
                entry["read"] = line.text().replace("; tables = ", "; df = ") + "[0]"
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
