"""Answers: made plain inside, checked on the host."""

from __future__ import annotations

import datetime
import decimal
import enum
import math
import pathlib
import sys
import uuid
from dataclasses import dataclass
from typing import Any

import pytest

import sandbox.guest
import sandbox.guest.host
from codeact.answers import AnswerCheck
from codeact.errors import UsageError
from sandbox.errors import HostCallRefused

sys.modules.setdefault("sandbox_guest", sandbox.guest)
sys.modules.setdefault("sandbox_guest.host", sandbox.guest.host)
from codeact.inside.answers import plain  # noqa: E402 - it is made for the inside, where that name exists


class Colour(enum.Enum):
    RED = "red"


@dataclass
class Point:
    x: int
    y: float


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("text", "text"),
        (True, True),
        (10**30, 10**30),
        (0.5, 0.5),
        (decimal.Decimal("12.50"), 12.5),
        (decimal.Decimal("12"), 12),
        (datetime.date(2026, 1, 31), "2026-01-31"),
        (datetime.datetime(2026, 1, 31), "2026-01-31"),
        (datetime.datetime(2026, 1, 31, 12, 30), "2026-01-31T12:30:00"),
        (datetime.timedelta(minutes=90), "1:30:00"),
        (Colour.RED, "red"),
        (pathlib.PurePosixPath("out/a.csv"), "out/a.csv"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (b"\x00\xff", "AP8="),
        ((1, [2, {"k": {3}}]), [1, [2, {"k": [3]}]]),
        ({1: "a", datetime.date(2026, 1, 1): "b"}, {"1": "a", "2026-01-01": "b"}),
        (Point(1, 2.5), {"x": 1, "y": 2.5}),
        ({"b", "a"}, ["a", "b"]),
        ((n * n for n in range(3)), [0, 1, 4]),
    ],
)
def test_values_become_json(value: Any, expected: Any) -> None:
    assert plain(value) == expected


@pytest.mark.parametrize(
    ("value", "error", "words"),
    [
        (math.nan, ValueError, "the answer is nan"),
        (math.inf, ValueError, "the answer is inf"),
        (len, TypeError, "the function len: call it"),
        (object(), TypeError, "got a object"),
        ([[...]], TypeError, "got a ellipsis"),
    ],
)
def test_what_is_no_answer_says_so(value: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        plain(value)


def test_endless_nesting_ends() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(ValueError, match="nested more than 64 deep"):
        plain(loop)


def test_without_a_schema_any_value_but_none_will_do() -> None:
    check = AnswerCheck()
    assert check.from_code({"value": [1, 2], "single": True}) == [1, 2]
    assert check.from_code({"value": ["Yan"], "single": True}) == "Yan"
    assert check.from_code({"value": ["Yan"], "single": False}) == ["Yan"]
    with pytest.raises(HostCallRefused, match="final_answer got None"):
        check.from_code({"value": None})
    with pytest.raises(HostCallRefused, match="as final_answer"):
        check.from_code("nonsense")


def test_a_schema_is_enforced_with_the_path_of_the_field() -> None:
    schema = {
        "type": "object",
        "properties": {
            "rows": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer"}}}}
        },
    }
    check = AnswerCheck(schema)
    assert check.problem({"rows": [{"n": 1}]}) is None
    with pytest.raises(HostCallRefused, match=r"\$\.rows\[1\]\.n: 'two' is not of type 'integer'") as refused:
        check.from_code({"value": {"rows": [{"n": 1}, {"n": "two"}]}})
    assert refused.value.name == "TypeError"


def test_one_element_is_unwrapped_only_where_the_schema_wants_it() -> None:
    assert AnswerCheck({"type": "array"}).from_code({"value": [5], "single": True}) == [5]
    assert AnswerCheck({"type": "integer"}).from_code({"value": [5], "single": True}) == 5


def test_words_are_an_answer_when_they_fit() -> None:
    assert AnswerCheck().from_words("  It is 5. ") == ("It is 5.", None)
    assert AnswerCheck({"type": "integer"}).from_words(" 5 ") == (5, None)
    answer, problem = AnswerCheck({"type": "integer"}).from_words("about five")
    assert answer == "about five"
    assert problem is not None
    assert "'about five' is not of type 'integer'" in problem


def test_a_schema_that_is_none() -> None:
    with pytest.raises(UsageError, match="is not a JSON Schema"):
        AnswerCheck({"type": "integr"})


def test_a_schema_that_refers_elsewhere_is_named() -> None:
    with pytest.raises(UsageError, match=r"what is not in it: http://example\.com/x\.json"):
        AnswerCheck({"$ref": "http://example.com/x.json"}).problem(1)
