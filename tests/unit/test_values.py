"""Values of Python there and back, with nothing lost, and clear words for what cannot cross."""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import io
import json
import math
import re
import uuid
from collections import OrderedDict, namedtuple
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path, PurePosixPath
from typing import Any
from zoneinfo import ZoneInfo

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeact.inside import large, tables, values
from codeact.inside.records import Record, made
from codeact.tools import large as tools_large
from codeact.tools import returned
from sandbox.hostcalls import Answer

BERLIN = ZoneInfo("Europe/Berlin")
KEYS = st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.dates() | st.tuples(st.integers())
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters(), max_size=10)
    | st.binary(max_size=20)
    | st.dates()
    | st.datetimes(timezones=st.none() | st.timezones())
    | st.times()
    | st.timedeltas()
    | st.decimals(allow_nan=False)
    | st.uuids()
    | st.complex_numbers(allow_nan=False)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=3) | st.just("$"), inner, max_size=4)
        | st.dictionaries(KEYS, inner, max_size=3)
        | st.tuples(inner, inner)
        | st.sets(KEYS, max_size=3)
        | st.frozensets(KEYS, max_size=3)
    ),
    max_leaves=12,
)


def there_and_back(value: Any, **how: Any) -> Any:
    encoded, buffers = values.encode(value)
    text = json.dumps(encoded, allow_nan=False)
    return values.decode(json.loads(text), [bytes(memoryview(each)) for each in buffers], **how)


def same(a: Any, b: Any) -> bool:
    """Equal, of one type, and moments of one offset."""
    if type(a) is not type(b) or not bool(a == b):
        return False
    if isinstance(a, datetime):
        return bool(a.utcoffset() == b.utcoffset())
    if isinstance(a, dict):
        return all(same(a[key], b[key]) for key in a) and list(map(type, a)) == list(map(type, b))
    return not isinstance(a, (list, tuple)) or all(map(same, a, b))


@given(VALUES)
def test_anything_comes_back_as_it_was(value: Any) -> None:
    assert same(there_and_back(value), value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["$", "v", "a", "class", "buffer"]), inner)
    ),
)
TAGS = [
    *values._SIMPLE,
    *tables.TAGS,
    "float",
    "int",
    "tuple",
    "set",
    "dict",
    "object",
    "bytes",
    "text",
    "path",
]


@given(
    st.sampled_from(TAGS) | st.text(max_size=5),
    JSON,
    st.dictionaries(st.sampled_from(["dtype", "shape", "order", "class", "zone", "offset", "name"]), JSON),
    st.binary(max_size=40),
)
def test_what_is_no_value_is_refused_and_nothing_else_is_raised(
    tag: str, given_value: Any, fields: dict[str, Any], data: bytes
) -> None:
    for reference in ({"v": given_value}, {"buffer": 0}, {"buffer": given_value}):
        with contextlib.suppress(values.BadValue):
            values.decode({"$": tag, **fields, **reference}, [data])


@dataclasses.dataclass
class Line:
    sku: str
    price: Decimal


class Order(pydantic.BaseModel):
    id: str
    items: list[Line]


class Color(enum.Enum):
    RED = "red"


class Count(enum.IntEnum):
    ONE = 1


class Word(str):
    pass


Point = namedtuple("Point", "x y")


@pytest.mark.parametrize(
    ("value", "comes"),
    [
        (math.inf, math.inf),
        (-math.inf, -math.inf),
        (-0.0, -0.0),
        (-(2**64), -(2**64)),
        ("\ud800", "\ud800"),
        ("x" * 1_000_000, "x" * 1_000_000),
        (["\ud800" * 300_000], ["\ud800" * 300_000]),
        (b"x" * 100_000, b"x" * 100_000),
        (bytearray(b"ab"), b"ab"),
        (memoryview(b"abcd")[::2], b"ac"),
        (Color.RED, "red"),
        (Count.ONE, 1),
        (Word("w"), "w"),
        (Point(1, 2), (1, 2)),
        (OrderedDict(a=1), {"a": 1}),
        (Path("data/x.csv"), PurePosixPath("data/x.csv")),
        (Path("/workspace/out/x.csv"), PurePosixPath("out/x.csv")),
        ({"$": "datetime", "v": "2020-01-01"}, {"$": "datetime", "v": "2020-01-01"}),
        (
            datetime(2024, 10, 27, 2, 30, tzinfo=BERLIN, fold=1),
            datetime(2024, 10, 27, 2, 30, tzinfo=BERLIN, fold=1),
        ),
        (time(1, 2, tzinfo=timezone(timedelta(hours=2))), time(1, 2, tzinfo=timezone(timedelta(hours=2)))),
        (datetime(1, 1, 1, tzinfo=UTC), datetime(1, 1, 1, tzinfo=UTC)),
        (date.max, date.max),
        (Decimal("1E+400"), Decimal("1E+400")),
        (uuid.UUID(int=7), uuid.UUID(int=7)),
        (Line("a", Decimal("1.10")), {"sku": "a", "price": Decimal("1.10")}),
        (
            Order(id="1", items=[Line("a", Decimal(2))]),
            {"id": "1", "items": [{"sku": "a", "price": Decimal(2)}]},
        ),
    ],
)
def test_values_by_hand(value: Any, comes: Any) -> None:
    found = there_and_back(value)
    assert type(found) is type(comes)
    assert found == comes


def test_not_a_number_and_the_sign_of_zero() -> None:
    assert math.isnan(there_and_back(math.nan))
    assert math.copysign(1, there_and_back([-0.0])[0]) == -1
    assert there_and_back(Decimal("sNaN")).is_snan()
    assert there_and_back([10**5000, -(10**5000)]) == [10**5000, -(10**5000)]
    zone = datetime(2024, 10, 27, 2, 30, tzinfo=BERLIN, fold=1)
    assert there_and_back(zone).utcoffset() == timedelta(hours=1)
    assert there_and_back(zone).tzinfo is BERLIN


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [{"a": value}] if depth % 2 else [value]
    return value


def test_depth() -> None:
    assert there_and_back(nested(64)) == nested(64)
    for deep in (nested(66), nested(100_000)):
        with pytest.raises(values.CannotCross, match="nested deeper than 64"):
            values.encode(deep)
    itself: list[Any] = []
    itself.append(itself)
    with pytest.raises(values.CannotCross, match="or holds itself"):
        values.encode(itself)
    with pytest.raises(values.BadValue):
        values.decode(json.loads("[" * 400 + "{}" + "]" * 400))


async def _coroutine() -> None: ...


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"f": len}, "f is the function len; pass its result instead"),
        ({"kind": int}, "kind is the class int; pass an object of it, or its name instead"),
        (
            {"rows": iter([1])},
            "rows is a list_iterator, which can be read once only; pass list(...) of it instead",
        ),
        (
            {"orders": [{"price": 1}, {"price": object()}]},
            "orders[1]['price'] is a object, which cannot leave its side; pass plain values, a list or a dict of what matters in it instead",
        ),
        (
            {"file": io.StringIO()},
            "file is an open file (StringIO); pass its content, or its path in /workspace instead",
        ),
        (
            {"path": Path("/etc/passwd")},
            "path is '/etc/passwd', which is not in the workspace; pass a path in /workspace, or the file's content instead",
        ),
        (
            {"path": Path("../x")},
            "path is '../x', which is not in the workspace; pass a path in /workspace, or the file's content instead",
        ),
    ],
)
def test_what_cannot_cross_is_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(values.CannotCross) as raised:
        values.encode_arguments(arguments)
    assert str(raised.value) == message


def test_objects_are_records_where_they_are_asked_for() -> None:
    order = there_and_back(Order(id="1", items=[Line("a", Decimal(2))]), record=made)
    assert repr(order) == "Order(id='1', items=[Line(sku='a', price=Decimal('2'))])"
    assert order.id == order["id"] == "1"
    assert order.items[0].price == 2  # the field, not the method
    assert dict(order) == {**order} == order
    assert json.loads(json.dumps({"o": made("O", {"keys": 1})})) == {"o": {"keys": 1}}
    with pytest.raises(AttributeError, match="Order has no 'sum'; it has id, items"):
        order.sum  # noqa: B018
    assert same(there_and_back(order), dict(order) | {"items": [dict(order.items[0])]})
    assert isinstance(order, Record)


@pytest.mark.parametrize(
    ("value", "long"),
    [
        ("x" * 100, False),
        ("x" * 101, True),
        ("é" * 50, False),
        ("é" * 51, True),
        ("€" * 34, True),
        ("\ud800" * 34, True),
        ("😀" * 25, False),
        (b"x" * 101, True),
        (bytearray(100), False),
        (["x" * 101], False),
    ],
)
def test_texts_are_long_by_their_bytes(monkeypatch: pytest.MonkeyPatch, value: Any, long: bool) -> None:
    monkeypatch.setattr(tools_large, "MAX_CROSSING", 100)
    assert tools_large.is_long(value) is long


def test_a_large_result_without_its_file_says_why() -> None:
    made = {
        "kind": "text",
        "path": ".results/c1.txt",
        "bytes": 40_000_000,
        "count": 40_000_000,
        "preview": "x",
    }
    said = (
        "was made before the run was cut off, and its result (40,000,000 bytes) was too large for the record"
    )
    with pytest.raises(values.BadValue, match=re.escape(said)):
        large.opened(made, lambda value: value, lambda value: value)
    with pytest.raises(values.BadValue):
        values.decode({"$": "large", **made})


def test_a_model_that_called_a_tool_itself_is_told_the_size_of_an_integer_too_long_to_write() -> None:
    huge = 1 << 20_000
    said = "(an integer of 20,001 bits)"
    for result, expected in (
        (huge, said),
        (-huge, said),
        ([huge, 7], f'["{said}", 7]'),
        ({huge: True}, f'{{"{said}": true}}'),
        (Decimal(10) ** 5 * 2, "200000"),
    ):
        made, buffers = values.encode(result)
        assert returned.text(Answer(made, buffers)) == expected


def test_a_model_that_called_a_tool_itself_is_told_where_a_large_result_lies() -> None:
    made = {"$": "large", "kind": "text", "what": "str", "path": ".results/c1.txt", "bytes": 40_000_000}
    said = returned.text({**made, "preview": "first lines"})
    assert said == "(str of 40,000,000 bytes in /workspace/.results/c1.txt, which begins: first lines)"
    assert returned.text({"$": "unheard of"}) == "(a result is of no type that is known)"
