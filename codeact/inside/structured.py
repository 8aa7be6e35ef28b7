"""JSON and JSON lines: their structure as a sketch, and the line that reads them."""

import json
from collections import Counter
from itertools import islice
from typing import Any

from . import flat, frames
from .columns import cut
from .delimited import Text, opened_text
from .packages import Missing, has
from .reading import Line, execute, reason
from .sources import MIB, Source

_LARGE = 24 * MIB
_DEPTH = 3
_KEYS = 40
_BAD_LISTED = 20
# One line cannot hold a try statement.
_SKIPPING = "exec('def valid(line):\\n try: return [json.loads(line)]\\n except ValueError: return []')"


def is_json(content: str) -> bool:
    try:
        json.loads(content)
    except (ValueError, RecursionError):
        return False
    return True


def sketch(value: Any, depth: int = _DEPTH) -> str:
    """The structure in one line: ``list of 3 {id: str, topping: list of 7 {id: str, type: str}}``."""
    match value:
        case dict():
            if depth == 0:
                return f"object with {len(value)} keys"
            inner = ", ".join(
                f"{cut(str(key), 30)}: {sketch(item, depth - 1)}"
                for key, item in islice(value.items(), _KEYS)
            )
            return "{" + inner + (", ..." if len(value) > _KEYS else "") + "}"
        case list():
            if not value:
                return "empty list"
            count = f"list of {'up to ' if isinstance(value, _UpTo) else ''}{len(value)}"
            if depth == 0:
                return count
            if all(isinstance(item, dict) for item in value):
                return f"{count} {sketch(_union(value), depth)}"
            kinds = sorted({_kind(item) for item in value[:1000]})
            inner = sketch(value[0], depth - 1) if kinds == ["list"] else " or ".join(kinds)
            return f"{count} {inner}"
        case _:
            return _kind(value)


class _UpTo(list[Any]):
    """The longest of several lists that differ in length."""


def _union(items: list[dict[str, Any]]) -> dict[str, Any]:
    """All keys of the objects with a telling value each: the fullest container, else the first value that is not null."""
    merged: dict[str, Any] = {}
    for item in items[:2000]:
        for key, value in item.items():
            old = merged.get(key)
            if isinstance(value, list) and isinstance(old, list) and len(value) != len(old):
                merged[key] = _UpTo(value if len(value) > len(old) else old)
            elif old is None or (isinstance(value, dict) and isinstance(old, dict) and len(value) > len(old)):
                merged[key] = value
    return merged


def _kind(value: Any) -> str:
    names = {
        bool: "bool",
        int: "int",
        float: "float",
        str: "str",
        list: "list",
        dict: "object",
        type(None): "null",
    }
    return names.get(type(value), type(value).__name__)


def describe_json(entry: dict[str, Any], source: Source, text: Text, rows: int) -> None:
    if not text.whole:
        entry["notes"].append("large JSON: not parsed here; the start is shown")
        entry["first_lines"] = [cut(text.content[:400], 200)]
        entry["read"] = _json_line(source, text).text()
        return
    try:
        value = json.loads(text.content.lstrip("\ufeff"))
    except RecursionError:
        entry["problem"] = "the JSON is nested too deeply to be parsed"
        return
    except ValueError as error:
        if _describe_several(entry, source, text, rows):
            return
        entry["problem"] = f"not valid JSON: {cut(str(error), 120)}"
        entry["first_lines"] = [cut(line, 120) for line in text.content.splitlines()[:3]]
        entry["read"] = _text_line(source, text).text()
        return
    entry["structure"] = sketch(value)
    key, records = _records(value)
    entry["rows"] = len(records) if records else None
    if records:
        entry["example"] = cut(json.dumps(records[0], ensure_ascii=False), 300)
    _note_strings(entry, value)
    line = _json_line(source, text)
    if records and _offer_table(entry, line, f"data[{key!r}]" if key is not None else "data", records, rows):
        return
    if records:
        _record_columns(entry, records)
    _check(entry, line, value)


def _describe_several(entry: dict[str, Any], source: Source, text: Text, rows: int) -> bool:
    """Objects one behind the other, each over any number of lines, with no list around them."""
    records: list[Any] = []
    decoder, content, at = json.JSONDecoder(), text.content.lstrip("\ufeff"), 0
    try:
        while (at := len(content) - len(content[at:].lstrip())) < len(content):
            record, at = decoder.raw_decode(content, at)
            records.append(record)
    except (ValueError, RecursionError):
        return False
    opened, modules = opened_text(source, text.charset)
    joined = f"'[' + re.sub(r'}}\\s*{{', '}},{{', {opened}.read()) + ']'"
    line = Line(f"data = json.loads({joined})", (*modules, "json", "re"))
    if len(records) < 2 or not all(isinstance(record, dict) for record in records):
        return False
    entry |= {"rows": len(records), "structure": sketch(records)}
    entry["notes"].append("objects one behind the other, not a list: json.load does not read it")
    _check(entry, line, records)
    if entry["read_verified"] and not _offer_table(entry, line, "data", records, rows):
        _record_columns(entry, records)
    return True


def _records(value: Any) -> tuple[str | None, list[Any]]:
    """The list that the document is about, and the key under which it lies, if any."""
    if isinstance(value, list):
        return None, value
    lists = (
        [(key, item) for key, item in value.items() if isinstance(item, list)]
        if isinstance(value, dict)
        else []
    )
    return max(lists, key=lambda one: len(one[1])) if lists else (None, [])


def _offer_table(entry: dict[str, Any], line: Line, data: str, records: list[Any], rows: int) -> bool:
    """Offers the records as a DataFrame where that loses nothing; ``data`` holds the document either way."""
    made = flat.table(data, records) if has("pandas") else None
    if made is None:
        return False
    line = Line(f"{line.code}; df = {made.code}", (*line.imports, "pandas"))
    try:
        frame = execute(line)
    except Exception:  # noqa: BLE001 - then it is told as what it is, nested
        return False
    if len(frame) != made.rows or frames.rounded(frame):
        return False
    entry |= {"read": line.text(), "read_verified": True, "columns": frames.columns(frame),
              "first_rows": frames.first_rows(frame, rows)}  # fmt: skip
    entry["rows"] = made.rows
    if made.each:
        entry["notes"].append(
            f"df has {made.rows} rows, one for each item of {made.each!r}; the other columns repeat"
        )
    entry.pop("example", None)
    return True


def _record_columns(entry: dict[str, Any], records: list[Any]) -> None:
    objects = [record for record in records if isinstance(record, dict)]
    if len(objects) < len(records):
        return
    counts: Counter[str] = Counter(key for record in objects for key in record)
    columns = []
    for key in islice(counts, _KEYS):
        values = [record.get(key) for record in objects[:5000]]
        kinds = sorted({_kind(value) for value in values if value is not None})
        missing = sum(value is None for value in values)
        nested = any(isinstance(value, list | dict) for value in values)
        example = next((value for value in values if value is not None), None)
        column: dict[str, Any] = {"name": str(key), "type": " or ".join(kinds) or "null", "missing": missing}
        if example is not None and not nested:
            column["examples"] = [cut(str(example), 40)]
        if {"int", "str"} <= set(kinds) or {"float", "str"} <= set(kinds):
            column["note"] = "numbers and text mixed"
        columns.append(column)
    entry |= {"columns": columns, "columns_are": "keys of each record"}
    if any(column["missing"] for column in columns):
        entry["notes"].append("not every object has every key (or it is null): use .get")
    if any("list" in column["type"] or "object" in column["type"] for column in columns):
        entry["notes"].append("nested: some keys hold lists or objects: loop over data")


def _note_strings(entry: dict[str, Any], value: Any) -> None:
    found: Counter[str] = Counter()
    stack = [value]
    for _ in range(200_000):
        if not stack:
            break
        item = stack.pop()
        match item:
            case dict():
                stack.extend(item.values())
            case list():
                stack.extend(item)
            case "None" | "null" | "NULL" | "NaN" | "NA" | "N/A" | "":
                found[item] += 1
    if found:
        entry["notes"].append(
            f"text values that look like missing ones but are strings: {', '.join(f'{v!r} ({c} times)' for v, c in found.most_common(3))}"
        )


def _json_line(source: Source, text: Text) -> Line:
    opened, modules = opened_text(source, text.charset)
    return Line(f"data = json.load({opened})", (*modules, "json"))


def _text_line(source: Source, text: Text) -> Line:
    opened, modules = opened_text(source, text.charset)
    return Line(f"text = {opened}.read()", tuple(modules))


def _check(entry: dict[str, Any], line: Line, value: Any) -> None:
    entry["read"] = line.text()
    try:
        entry["read_verified"] = execute(line, "data") == value
    except (OSError, ValueError, Missing, ImportError, RecursionError) as error:
        entry["read_verified"] = False
        entry["notes"].append(f"the reading line failed: {reason(error)}")


def describe_lines(entry: dict[str, Any], source: Source, text: Text, rows: int) -> None:
    """JSON lines, each judged by itself."""
    records: list[Any] = []
    bad: list[tuple[int, str]] = []
    blank = 0
    lines = text.content.lstrip("\ufeff").split("\n")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            blank += number < len(lines)
            continue
        try:
            records.append(json.loads(line))
        except (ValueError, RecursionError) as error:
            bad.append((number, _json_reason(line, error)))
    if text.whole and len(bad) > len(records) and _describe_several(entry, source, text, rows):
        return
    entry |= {"rows": len(records) if text.whole else text.lines, "bad_lines": len(bad)}
    if not text.whole:
        entry["rows_exact"] = False
        entry["notes"].append("large: described from samples; rows counted as lines")
    for number, why in bad[:3] if text.whole else []:
        entry["notes"].append(f"line {number} is not valid JSON: {why}")
    if bad:
        entry["notes"].append(
            f"{len(bad)} of {len(bad) + len(records)} lines are not valid JSON: the reading line leaves them out"
        )
    if blank:
        entry["notes"].append(f"{blank} blank lines among the records")
    if records:
        entry["structure"] = sketch(records).replace("list of", "lines:", 1)
        entry["example"] = cut(json.dumps(records[0], ensure_ascii=False), 300)
    opened, modules = opened_text(source, text.charset)
    if not bad:
        code = f"data = [json.loads(line) for line in {opened} if line.strip()]"
    elif len(bad) <= _BAD_LISTED and text.whole:
        numbers = {number for number, _ in bad}
        code = f"data = [json.loads(line) for number, line in enumerate({opened}, 1) if line.strip() and number not in {numbers}]"
    else:
        code = f"{_SKIPPING}; data = [value for line in {opened} for value in valid(line)]"
    reader = Line(code, (*modules, "json"))
    if text.whole and _offer_table(entry, reader, "data", records, rows):
        return
    if records:
        _record_columns(entry, records)
    if text.whole:
        _check(entry, reader, records)
    else:
        entry["read"] = reader.text()


def _json_reason(line: str, error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "nested too deeply"
    words = str(error).split(":")[0].lower()
    return "unterminated string" if "unterminated" in words or "control character" in words else words
