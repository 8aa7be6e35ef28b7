"""Calls in forms of single chat templates that are neither JSON nor tags around parameters."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from typing import Any

Calls = tuple[tuple[tuple[str, Any], ...], int, int]
"""Names with their arguments, where the first call starts and where the last ends."""
NONE: Calls = ((), 0, 0)
_MOST_CALLS = 64
_QUOTES = re.compile(r"<escape>|<\|\"\|>")
_GEMMA = re.compile(r"\bcall:([\w.-]+)(?=\{)")
_GEMMA_END = re.compile(r"<end_function_call>|<tool_call\|>")
_KEY = re.compile(r"([\w-]+)\s*:")
_BARE = re.compile(r"<tool_call>\s*([\w.-]+)\s*</tool_call>")
_REGIONS = (
    ("<|tool_call_start|>", "<|tool_call_end|>"),
    ("<|python_start|>", "<|python_end|>"),
    ("<function_calls>", "</function_calls>"),
    ("```tool_code\n", "\n```"),
    ("```python\n", "\n```"),
    ("```py\n", "\n```"),
)


def gemma(text: str) -> Calls:
    """`call:f{x:<escape>text<escape>,n:3}`, with another mark in place of quotes since Gemma 4."""
    found: list[tuple[str, Any]] = []
    start = stop = 0
    while len(found) < _MOST_CALLS and (call := _GEMMA.search(text, stop)) is not None:
        end = _GEMMA_END.search(text, call.end())
        if end is None:
            break
        body = text[call.end() : end.start()].strip()
        start, stop = start if found else call.start(), end.end()
        if body.endswith("}"):
            found.append((call[1], _gemma_arguments(body)))
    return (tuple(found), start, stop) if found else NONE


def _gemma_arguments(text: str) -> Any:
    """As JSON, or as they were written where that is not what they are."""
    pieces = _QUOTES.split(text)
    if len(pieces) % 2 == 0:
        return text
    written = "".join(
        json.dumps(piece, ensure_ascii=False) if number % 2 else _KEY.sub(r'"\1":', piece)
        for number, piece in enumerate(pieces)
    )
    try:
        return json.loads(written)
    except (ValueError, RecursionError):
        return text


def bare(text: str, known: Collection[str]) -> Calls:
    """GLM's calls without arguments: nothing but a name that is known."""
    calls = [call for call in _BARE.finditer(text) if call[1] in known][:_MOST_CALLS]
    found: tuple[tuple[str, Any], ...] = tuple((call[1], {}) for call in calls)
    return (found, calls[0].start(), calls[-1].end()) if found else NONE


def regions(text: str) -> list[tuple[str, int, int]]:
    """What stands in marks within which calls are written as Python, with where it starts and ends; in order."""
    found: list[tuple[str, int, int]] = []
    for opening, closing in _REGIONS:
        end = 0
        while len(found) < _MOST_CALLS and (begin := text.find(opening, end)) >= 0:
            stop = text.find(closing, begin + len(opening))
            if stop < 0:
                break
            end = stop + len(closing)
            found.append((text[begin + len(opening) : stop], begin, end))
    return sorted(found, key=lambda region: region[1])
