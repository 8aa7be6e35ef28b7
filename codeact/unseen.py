"""Finds answers that a model made up, a constant given to `final_answer` that nothing it was shown holds, and such as come of
finding nothing."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterable
from contextlib import suppress
from decimal import Decimal

from codeact.answers import FUNCTION

_NUMBER = re.compile(r"-?\d[\d_,]*\.?\d*(?:[eE][-+]?\d+)?")


def made_up(source: str, shown: Iterable[str], *, begun: bool) -> str | None:
    """The constant, as written, that is all this code gives to `final_answer` and that is not founded on what was `shown`.

    None where the answer is computed, too.
    """
    constant = _constant(source)
    return None if constant is None or is_founded(constant, shown, begun=begun) else repr(constant)


def is_founded(value: object, shown: Iterable[str], *, begun: bool) -> bool:
    """Whether a text has this value: a number also when it stands there with more decimals. Before anything was run or called
    (`begun`), words are not founded on what was shown: they are picked from the description of the data.

    True for what is neither text nor number, and for words such as yes and no, which are conclusions.
    """
    match value:
        case str():
            words = value.strip().casefold()
            return len(words) < 4 or (begun and any(words in text.casefold() for text in shown))
        case int() | float() if not isinstance(value, bool):
            return any(_rounds_to(number, value) for text in shown for number in _numbers(text))
    return True


def says_nothing(answer: object) -> bool:
    """Whether an answer, as JSON, holds nothing but zeros and what is empty: what a count, a sum or a filter gives where what it
    compares is never equal. It may be right."""
    match answer:
        case dict():
            return all(map(says_nothing, answer.values()))
        case list():
            return all(map(says_nothing, answer))
        case bool():
            return False
    return not answer


def _constant(source: str) -> str | float | None:
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    match body:
        case [ast.Expr(ast.Call(ast.Name(name), [argument], []))] if name == FUNCTION:
            try:
                value = ast.literal_eval(argument)
            except (
                ValueError,
                TypeError,
                MemoryError,
                RecursionError,
            ):  # TypeError of {{}}, as templates have it
                return None
            return value if isinstance(value, str | int | float) else None
    return None


def _numbers(text: str) -> Iterable[float]:
    """Those that it holds: integers with all their digits, and no id such as 3e9412, which would be infinite."""
    for found in _NUMBER.findall(text):
        written = found.rstrip(",").replace(",", "")
        try:
            yield int(written)
        except ValueError:
            with suppress(ValueError):
                if math.isfinite(number := float(written)):
                    yield number


def _rounds_to(shown: float, given: float) -> bool:
    if isinstance(given, int) or given.is_integer():
        return round(shown) == given
    if isinstance(shown, int):
        return False
    _, _, exponent = Decimal(repr(given)).as_tuple()
    return isinstance(exponent, int) and abs(shown - given) <= 0.5000001 * 10.0**exponent
