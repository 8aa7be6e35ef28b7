"""The arguments of a call, as models write them: brought to a JSON object, or said what is wrong with them."""

from __future__ import annotations

import ast
import json
import re
from typing import Any

from codeact.actions.python import parse
from codeact.answers import unfit

MAX_ENCODED = 3
"""How often arguments may have been encoded once more as a string."""
MAX_SHOWN = 60
_FENCE = re.compile(r"\A\s*```\w*\n(.*?)\n?```\s*\Z", re.DOTALL)
_TEMPLATE = re.compile(r"(?<=[}\]\"'])(?:\s*(?:</\w+>|<\|\w+\|>))+\Z")
"""Marks of a chat template behind the arguments."""
_TRAILING_COMMA = re.compile(r",(?=\s*[}\]][\s}\]]*\Z)")


class Unreadable(ValueError):
    """The message says what is wrong, to follow `the arguments `."""


def read(given: Any) -> dict[str, Any]:
    """The arguments in what was given for them, as text or as a value. Raises Unreadable.

    Nothing, `[]` and `null` are no arguments. What was encoded twice, lies in a list or a code block, has single quotes, was
    written twice, or is closed once too often, is read as it was meant. What is cut off, or two objects, is not guessed at.
    """
    try:
        return _plain(_object(given))
    except RecursionError:
        raise Unreadable("are nested too deeply") from None


def _object(given: Any, depth: int = 0) -> dict[Any, Any]:
    match given:
        case None | [] | "":
            return {}
        case dict():
            return given
        case [dict() as only]:
            return only
        case str() if not given.strip():
            return {}
        case str() if depth < MAX_ENCODED:
            return _object(_decoded(given.strip()), depth + 1)
    raise Unreadable(f"are not an object: {_shown(given)}")


def _decoded(text: str) -> Any:
    if fenced := _FENCE.match(text):
        text = fenced[1].strip()
    text = _TEMPLATE.sub("", text)
    decoder = json.JSONDecoder(
        strict=False, parse_constant=_refuse
    )  # real newlines within strings are common
    mended = _TRAILING_COMMA.sub("", text)
    try:
        value, at = decoder.raw_decode(mended)
    except ValueError as error:
        python = _python(text)
        if python is None:
            raise Unreadable(_wrong(text, error)) from None
        return python
    rest = mended[at:].strip()
    if not rest or (isinstance(value, dict) and not rest.strip("}] \r\n\t")):
        return value
    try:
        second = decoder.decode(rest)
    except ValueError:
        raise Unreadable(f"have something behind their end: {_shown(rest)}") from None
    return _one(value, second)


def _one(first: Any, second: Any) -> Any:
    """Of two values that follow each other the one that was meant: the other is the same, or empty."""
    if second in (first, {}):
        return first
    if first == {}:
        return second
    raise Unreadable("are two objects, one after the other")


def _python(text: str) -> Any:
    """A dict with single quotes, as Python writes it; None for anything else."""
    match parse(text):
        case ast.Module(body=[ast.Expr(value=ast.Dict() as value)]):
            try:
                return ast.literal_eval(value)
            except (ValueError, TypeError):
                return None
    return None


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _wrong(text: str, error: ValueError) -> str:
    at = getattr(error, "pos", None)
    if text[:1] not in ("{", "["):
        return f"are not a JSON object: {_shown(text)}"
    if text[-1:] not in ("}", "]") or (at is not None and at >= len(text)):
        return f"are cut off behind {_shown(text[-MAX_SHOWN:])}"
    if at is None:
        digits = "Exceeds the limit" in str(error)  # of Python's, in words for those who write Python
        return f"are not JSON: {'they hold a number with too many digits' if digits else error}"
    reason = getattr(error, "msg", str(error))
    return f"are not JSON: {reason} at character {at}, before {_shown(text[at:])}"


def _plain(found: dict[Any, Any]) -> dict[str, Any]:
    """As JSON has it, so that a record holds the same. Raises Unreadable for what JSON has not."""
    try:
        text = json.dumps(found, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise Unreadable(f"hold what JSON has not: {error}") from None
    decoded: dict[str, Any] = json.loads(text.encode("utf-8", "replace"))
    if (reason := unfit(decoded)) is not None:
        raise Unreadable(f"are {reason}")
    return decoded


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else repr(value)
    return repr(text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}...")
