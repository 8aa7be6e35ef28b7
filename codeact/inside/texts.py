"""Text files: their encoding, whether they are a table, and the plain ones as lines."""

import codecs
import re
from dataclasses import replace
from typing import Any

from . import charset, delimited, dialect, lines, logs, markup, structured
from .charset import Charset
from .delimited import Text
from .sources import MIB, Source

_SCANNED = 2048 * MIB
_SCANNED_PACKED = 256 * MIB
_WHOLE = delimited.WHOLE
_HEAD, _TAIL, _PLACE = 2 * MIB, MIB // 4, MIB // 4
_TABLES = ("csv", "tsv")


def describe(entry: dict[str, Any], source: Source, kind: str, rows: int) -> None:
    """Fills the entry of a text file of any kind. ``kind`` is what the name says, ``unknown`` where it says nothing."""
    found = charset.detect(source.chunks(_SCANNED if source.plain else _SCANNED_PACKED))
    if found.binary:
        entry["kind"] = "binary"
        entry["problem"] = "not text, and no format that is known here"
        return
    declared = _declared(source.read(1024))
    if declared and not found.sure:
        found = replace(found, name=declared, sure=True, alternatives=[], notes=[])
    text = load(source, found)
    entry |= {"encoding": found.name, "encoding_sure": found.sure, "newline": _newline(text.content)}
    if found.alternatives:
        entry["encoding_alternatives"] = found.alternatives
    entry["notes"] += found.notes
    if not found.sure and found.alternatives:
        entry["notes"].append(f"unsure of the encoding: {found.name}, or {', '.join(found.alternatives)}")
    if not text.content.strip("\ufeff \t\r\n\0"):
        entry["problem"] = "the file is empty" if not text.content else "the file holds blank lines only"
        return
    start = text.content.lstrip("\ufeff \t\r\n")[:500]
    entry["kind"] = kind = _kind(kind, start, text.content)
    if kind == "json":
        structured.describe_json(entry, source, text, rows)
    elif kind == "jsonl":
        structured.describe_lines(entry, source, text, rows)
    elif kind == "xml":
        markup.describe_xml(entry, source, rows)
    elif kind == "html":
        markup.describe_html(entry, source, text, rows)
    else:
        _describe_table_or_lines(entry, source, text, kind, rows)


def _declared(head: bytes) -> str:
    """The encoding that an XML declaration or an HTML meta tag names; empty when Python does not know it."""
    match = re.search(
        rb"<\?xml[^>]*encoding=[\"']([\w.-]+)|<meta[^>]*charset=[\"']?([\w.-]+)", head, re.IGNORECASE
    )
    name = (match[1] or match[2]).decode("ascii") if match else ""
    try:
        return codecs.lookup(name).name if name else ""
    except LookupError:
        return ""


def load(source: Source, found: Charset) -> Text:
    """The whole text when it is not large; else head, some places in the middle and the tail."""
    data = source.read(_WHOLE + 1)
    whole = len(data) <= _WHOLE
    if not whole:
        data = _sample(source) if source.plain and found.newlines else _whole_lines(data[:_HEAD])
    content = data.decode(found.name, "replace")
    lines = found.newlines if not found.name.startswith("utf-16") else content.count("\n")
    return Text(content, found, whole, lines)


def _sample(source: Source) -> bytes:
    size = source.size or 0
    with source.open() as stream:
        parts = [_whole_lines(stream.read(_HEAD))]
        for share in (0.25, 0.5, 0.75):
            stream.seek(int(size * share))
            parts.append(stream.read(_PLACE).partition(b"\n")[2].rpartition(b"\n")[0])
        stream.seek(max(0, size - _TAIL))
        parts.append(stream.read(_TAIL).partition(b"\n")[2])
    return b"\n".join(filter(None, parts))


def _whole_lines(head: bytes) -> bytes:
    """Up to the end of the last whole line; all of it where one line is longer."""
    return head.rpartition(b"\n")[0] or head


def _newline(content: str) -> str:
    pairs = content.count("\r\n")
    alone, returns = content.count("\n") - pairs, content.count("\r") - pairs
    kinds = [name for name, count in (("crlf", pairs), ("lf", alone), ("cr", returns)) if count]
    return "mixed " + "+".join(kinds) if len(kinds) > 1 else "".join(kinds) or "none"


def _kind(kind: str, start: str, content: str) -> str:
    """The kind by content, where content is telling; a wrong name is outvoted."""
    lower = start[:300].lower()
    if re.match(r"(<!doctype html|<html|<table|<head|<body)", lower) or (
        lower.startswith("<?xml") and "<html" in lower
    ):
        return "html"
    if start.startswith("<?xml") or (kind == "xml" and start.startswith("<")):
        return "xml"
    if kind in ("json", "jsonl") or (kind in ("txt", "unknown") and start[:1] in "{["):
        lines = [line for line in content[:200_000].splitlines()[:20] if line.strip()]
        several = len(lines) > 1 and sum(bool(re.match(r"\s*\{.*\}\s*$", line)) for line in lines) * 2 > len(
            lines
        )
        if several or kind == "jsonl":
            return "jsonl"
        return "json" if kind == "json" or (start[:1] in "{[" and structured.is_json(content)) else kind
    if kind in _TABLES and start[:1] in "{[" and structured.is_json(content):
        return "json"
    return kind


def _describe_table_or_lines(entry: dict[str, Any], source: Source, text: Text, kind: str, rows: int) -> None:
    named = kind in _TABLES
    found = dialect.sniff(text.content, blanks=named or _aligned(text.content))
    records = dialect.parse(text.content[:500_000], found)
    regular = dialect.regularity(records) if found.separator else 0.0
    several = len(found.separator) == 1 and delimited.several_tables(records)
    if not named and (
        (regular < 0.9 and not several)
        or text.lines < 2
        or (found.score < 0.5 and not several)
        or not _tabular(text.content, found.separator)
    ):
        lines.describe(entry, source, text, kind, rows)
        return
    expected = {"csv": ",", "tsv": "\t"}.get(kind)
    if (
        named
        and found.separator
        and found.separator != expected
        and source.name.lower().endswith((".csv", ".tsv"))
    ):
        entry["notes"].append(f"named {kind}, but the separator is {entry_name(found.separator)}")
    if named and not found.separator:
        entry["notes"].append("no separator was recognised: one column")
    entry["kind"] = kind if named else "table in text"
    delimited.describe(entry, source, text, found, rows)


def _tabular(content: str, separator: str) -> bool:
    """Whether a text without a table's name may be one: no log lines, no sentences."""
    some = [line for line in content[:20_000].splitlines()[:100] if line.strip()]
    if separator == ":" or logs.find(some) is not None:
        return False
    return separator != "," or sum(bool(re.search(r",( |$)", line)) for line in some) * 2 < len(some)


def entry_name(separator: str) -> str:
    return {"\t": "a tab", dialect.SPACED: "two or more spaces", dialect.BLANKS: "spaces"}.get(
        separator, repr(separator)
    )


def _aligned(content: str) -> bool:
    """Whether runs of spaces may part columns: most lines hold numbers."""
    lines = [line for line in content[:20_000].splitlines()[:100] if line.strip()]
    numeric = sum(len(re.findall(r"(?<!\S)[-+]?\d[\d.,]*(?!\S)", line)) > 1 for line in lines)
    return numeric * 10 >= 7 * len(lines)
