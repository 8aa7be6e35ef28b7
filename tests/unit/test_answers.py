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
from pydantic import BaseModel, TypeAdapter

import sandbox.guest
import sandbox.guest.host
from codeact.answers import AnswerCheck
from codeact.errors import UsageError
from codeact.inside import values
from codeact.typed import TypedCheck
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


class City(BaseModel):
    name: str | None = None
    total: int | None = None


class Measured(BaseModel):
    value: int


class Linked(BaseModel):
    """Its schema is a reference to a definition."""

    value: int
    next: Linked | None = None


REFUSED = object()


@pytest.mark.parametrize(
    ("kind", "arguments", "expected"),
    [
        (int | None, {"value": "I could not find it"}, REFUSED),
        (int | None, {"value": None}, None),
        (int | None, {"value": "null"}, None),
        (int | None, {"total": "about 3"}, REFUSED),
        (dict, {"value": '{"a": 1}'}, {"a": 1}),
        (dict, {"value": '```json\n{"a": 1}\n```'}, {"a": 1}),
        (dict, {"a": 1, "b": 2}, {"a": 1, "b": 2}),
        (dict, {"value": 3}, REFUSED),
        (dict, {"value": 3, "unit": "m"}, {"value": 3, "unit": "m"}),
        (str, {"value": '{"a": 1}'}, '{"a": 1}'),
        (list[int], {"cities": [1, 2]}, [1, 2]),
        (City, {"value": {"name": "Oslo", "total": "many"}}, REFUSED),
        (City, {"value": '{"name": "Oslo", "total": 3}'}, {"name": "Oslo", "total": 3}),
        (City, {"name": "Oslo", "total": 3}, {"name": "Oslo", "total": 3}),
        (Measured, {"value": 3}, {"value": 3}),
        (Measured, {"value": {"value": 3}}, {"value": 3}),
        (Measured | City, {"value": 3}, {"value": 3}),
        (Linked, {"value": 3}, {"value": 3}),
    ],
)
def test_a_called_answer_is_what_was_given_and_never_something_else(
    kind: Any, arguments: dict[str, Any], expected: Any
) -> None:
    for check in (TypedCheck(kind), AnswerCheck(TypeAdapter(kind).json_schema())):
        if expected is REFUSED:
            with pytest.raises(HostCallRefused):
                check.called(arguments)
        else:
            assert check.called(arguments).shown == expected


DEEP = "[" * 66 + "]" * 66


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-inf", '{"mean": NaN}', "[Infinity]", DEEP])
def test_what_no_journal_can_hold_is_no_answer_in_words(text: str) -> None:
    kind = float | dict[str, float] | list[Any]
    for check in (TypedCheck(kind), AnswerCheck(TypeAdapter(kind).json_schema())):
        assert check.said(text)[1] is not None


@pytest.mark.parametrize("value", [math.nan, [1.0, math.inf], {"mean": {"of": (-math.inf,)}}])
def test_nan_and_infinity_are_no_answer_by_code_or_call(value: Any) -> None:
    made, buffers = values.encode(value, "the answer")
    looks = pytest.raises(HostCallRefused, match=r"is (nan|-?inf): look at why before answering")
    with looks:
        TypedCheck(Any).given({"typed": made, "single": False}, buffers)
    with looks:
        TypedCheck(Any).called({"value": value})
    with looks:
        AnswerCheck().given({"value": value}, ())
    with looks:
        AnswerCheck({}).called({"value": value})


def test_an_answer_of_a_type_may_have_its_own_nan() -> None:
    class Score(BaseModel):
        mean: float = math.nan

    assert math.isnan(TypedCheck(Score).called({"value": {}}).value.mean)


@pytest.mark.parametrize("check", [TypedCheck(City), AnswerCheck(City.model_json_schema())])
def test_an_answer_in_words_may_stand_in_a_block_of_code(check: TypedCheck | AnswerCheck) -> None:
    answer, problem = check.said('```json\n{"name": "Oslo", "total": 3}\n```')
    assert (answer.shown, problem) == ({"name": "Oslo", "total": 3}, None)


def test_an_answer_too_large_to_show_is_told_by_its_beginning() -> None:
    for value, told in (
        (list(range(1000)), "[0, 1, 2, 3, 4, 5, ...]"),
        ({"mean": 0.5}, "{'mean': 0.5}"),
        (2**64, "18446744073709551616"),
        (10**5000, "int"),
    ):
        made, buffers = values.encode(value, "the answer")
        assert TypedCheck(Any).given({"typed": made, "single": False}, buffers).shown == told


@pytest.mark.parametrize(
    "schema",
    [
        {"$schema": []},
        {"const": datetime.date(2026, 1, 1)},
        {"type": "string", "pattern": "["},
    ],
)
def test_a_schema_that_cannot_be_used_is_refused_at_once(schema: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="is not a JSON Schema"):
        AnswerCheck(schema)


@pytest.mark.parametrize(("schema", "answer"), [({"multipleOf": 0.1}, 10**400), ({"$ref": "#"}, 1)])
def test_an_answer_that_cannot_be_compared_is_refused(schema: dict[str, Any], answer: Any) -> None:
    assert "cannot be compared with the schema" in (AnswerCheck(schema).problem(answer) or "")
