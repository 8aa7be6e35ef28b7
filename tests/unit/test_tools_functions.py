"""Tools from functions, methods, partials, objects and classes: what code sees of them, and what they are called with."""

from __future__ import annotations

import asyncio
import functools
import inspect
import json
import math
import os
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path, PurePath
from typing import Annotated, Any, Literal, LiteralString, NamedTuple, Never, Optional, TypedDict, Union
from uuid import UUID

import pytest
from pydantic import BaseModel, ConfigDict, Field, FilePath

from codeact import tool, toolset
from codeact.errors import ArgumentError, ToolSourceError
from codeact.tools.functions import from_function, from_toolset
from codeact.tools.tool import Policy, Tool


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Address(BaseModel):
    street: str
    zip: str = Field(pattern=r"^\d{5}$")


class Customer(BaseModel):
    name: str
    age: int
    address: Address
    friends: list[Customer] = []


@dataclass
class Line:
    sku: str
    amount: int


class Open(BaseModel):
    """Takes fields that it does not name."""

    model_config = ConfigDict(extra="allow")
    sku: str
    to: list[Address]


class Options(TypedDict, total=False):
    limit: int


class Point(NamedTuple):
    x: int
    y: float


ORIGIN = Point(1, 2.0)


def order_status(order_id: str, *, details: bool = False) -> dict[str, Any]:
    """Where an order is.

    Args:
        order_id: As on the invoice.
        details: Each parcel too.

    Returns:
        Its state.

    Raises:
        KeyError: There is no such order.
    """
    return {"id": order_id, "details": details}


def nothing_said(a, b=2, *rest, c, **more):  # type: ignore[no-untyped-def]
    return a, b, rest, c, more


def many(
    a: int,
    /,
    b: Union[str, None],  # noqa: UP007
    c: Optional[Decimal] = None,  # noqa: UP045
    *items: Line,
    d: Literal["x", "y"] = "x",
    e: list[Customer] | None = None,
    f: dict[str, tuple[int, ...]] = {},  # noqa: B006
    g: datetime | date = date(2024, 1, 2),
    h: Annotated[float, Field(ge=0, description="At least nothing.")] = 0.5,
    i: Colour = Colour.RED,
    j: Options | None = None,
    k: Point = ORIGIN,
    m: UUID | bytes | Path | None = None,
    n: Sequence[Mapping[str, set[int]]] = (),
    o: Callable[[], int] | None = None,
    p: timedelta = timedelta(seconds=5),
    **more: float,
) -> list[Line]:
    return [*items, Line(repr(sorted(more)), a)]


SIGNATURES: list[tuple[Callable[..., Any], str]] = [
    (order_status, "order_status(order_id: str, *, details: bool = False) -> dict[str, Any]"),
    (nothing_said, "nothing_said(a, b=2, *rest, c, **more)"),
    (
        many,
        "many(a: int, /, b: str | None, c: Decimal | None = None, *items: Line, d: Literal['x', 'y'] = 'x',"
        " e: list[Customer] | None = None, f: dict[str, tuple[int, ...]] = {}, g: datetime | date = datetime.date(2024, 1, 2),"
        " h: float = 0.5, i: Literal['red', 'blue'] = 'red', j: Options | None = None, k: tuple[int, float] = ...,"
        " m: UUID | bytes | Path | None = None, n: list[dict[str, set[int]]] = (), o: Any | None = None,"
        " p: timedelta = datetime.timedelta(seconds=5), **more: float) -> list[Line]",
    ),
]


@pytest.mark.parametrize(
    ("function", "signature"), SIGNATURES, ids=lambda value: getattr(value, "__name__", "")
)
def test_the_signature_that_code_sees(function: Callable[..., Any], signature: str) -> None:
    assert from_function(function).signature == signature


def test_docstring_and_schema() -> None:
    made = from_function(order_status)
    assert made.description == "Where an order is.\n\nReturns: Its state."
    assert [each.description for each in made.parameters] == ["As on the invoice.", "Each parcel too."]
    assert made.errors == ("KeyError",)
    assert made.parameters[0].schema == {"type": "string"}
    assert made.result == {"type": "object", "additionalProperties": True}
    assert set(from_function(many).types) == {
        "Customer",
        "Address",
        "Line",
        "Options",
        "Colour",
        "Point",
    } & set(from_function(many).types)
    assert set(from_function(many).types) >= {"Customer", "Address", "Line", "Options"}


DOCSTRINGS = {
    "google": "Counts.\n\nArgs:\n    order_id (str): The id.\n        On two lines.\n\nRaises:\n    shop.NotFound: Gone.",
    "numpy": "Counts.\n\nParameters\n----------\norder_id : str\n    The id.\n    On two lines.\n\nRaises\n------\nNotFound\n    Gone.",
    "rest": "Counts.\n\n:param order_id: The id.\n    On two lines.\n:raises NotFound: Gone.",
}


@pytest.mark.parametrize("style", DOCSTRINGS)
def test_styles_of_docstrings(style: str) -> None:
    def count(order_id: str) -> int:
        return len(order_id)

    count.__doc__ = DOCSTRINGS[style]
    made = from_function(count)
    assert made.description == "Counts."
    assert " ".join(made.parameters[0].description.split()) == "The id. On two lines."
    assert made.errors == ("NotFound",)


CALLS: list[tuple[Callable[..., Any], dict[str, Any], Any]] = [
    (order_status, {"order_id": "A"}, {"id": "A", "details": False}),
    (nothing_said, {"a": 1, "c": 3}, (1, 2, (), 3, {})),
    (nothing_said, {"a": 1, "b": 0, "rest": [7, 8], "c": 3, "more": {"x": 1}}, (1, 0, (7, 8), 3, {"x": 1})),
    (nothing_said, {"a": 1, "rest": [7], "c": 3}, (1, 2, (7,), 3, {})),
    (nothing_said, {"a": 1, "c": 3, "z": 4}, (1, 2, (), 3, {"z": 4})),
    (
        many,
        {"a": "5", "b": None, "items": [{"sku": "s", "amount": 2}], "more": {"z": 1}},
        [Line("s", 2), Line("['z']", 5)],
    ),
]


@pytest.mark.parametrize(("function", "given", "result"), CALLS)
def test_calls(function: Callable[..., Any], given: dict[str, Any], result: Any) -> None:
    made = from_function(function)
    assert made.call(**made.check(given)) == result


def echo(hint: Any) -> Tool:
    def value(value: Any) -> Any:
        return value

    value.__annotations__["value"] = hint
    return from_function(value)


CONVERTED: list[tuple[Any, Any, Any]] = [
    (int, "5", 5),
    (float, 3, 3.0),
    (bool, 1, True),
    (bool | int, 1, 1),
    (int | str, "5", "5"),
    (datetime, "2024-05-01T10:00:00", datetime(2024, 5, 1, 10)),
    (date, date(2024, 5, 1), date(2024, 5, 1)),
    (Decimal, "1.10", Decimal("1.10")),
    (UUID, "12345678123456781234567812345678", UUID("12345678123456781234567812345678")),
    (bytes, b"\0\xff", b"\0\xff"),
    (Path, Path("data/a.csv"), Path("data/a.csv")),
    (list[Path] | None, [Path("data/a.csv")], [Path("data/a.csv")]),
    (Path | str, "data/a.csv", "data/a.csv"),
    (Colour, "blue", Colour.BLUE),
    (tuple[int, str], [1, "a"], (1, "a")),
    (set[int], [1, 1, 2], {1, 2}),
    (Line, {"sku": "a", "amount": "2"}, Line("a", 2)),
    (Options, {"limit": 3}, {"limit": 3}),
    (Point, [1, 2], Point(1, 2.0)),
    (Address, {"street": "s", "zip": "12345"}, Address(street="s", zip="12345")),
    (Open, {"sku": "a", "to": [], "more": 1}, Open.model_validate({"sku": "a", "to": [], "more": 1})),
]


@pytest.mark.parametrize(("hint", "given", "value"), CONVERTED, ids=str)
def test_values_become_what_the_function_asks_for(hint: Any, given: Any, value: Any) -> None:
    got = echo(hint).check({"value": given})["value"]
    assert (got, type(got)) == (value, type(value))


WRONG: list[tuple[Any, Any, str]] = [
    (int, "five", "value: Input should be a valid integer, unable to parse string as an integer, got 'five' (str)"),
    (int, True, "value: a number is asked for, not a bool, got True (bool)"),
    (float, False, "value: a number is asked for, not a bool, got False (bool)"),
    (Path, "/etc/passwd", "value: a file of the workspace is asked for, which code passes as Path('data/a.csv'), got '/etc/passwd' (str)"),
    (dict[str, list[Path]] | None, {"a": ["/etc/passwd"]}, "value.a[0]: a file of the workspace is asked for"),
    (FilePath, "/etc/passwd", "value: a file of the workspace is asked for"),
    (str, 5, "value: Input should be a valid string, got 5 (int)"),
    (list[int], [1, "x", True], "value[1]: Input should be a valid integer, unable to parse string as an integer, got 'x' (str); value[2]: a number"),
    (Literal["x", "y"], "z", "value: Input should be 'x' or 'y', got 'z' (str)"),
    (Customer, {"name": "n", "age": True, "address": {"street": "s"}}, "value.age: a number is asked for, not a bool, got True (bool); value.address.zip: is missing"),
    (Customer, {"name": "n", "age": 1, "address": {"street": "s", "zip": "x"}}, "value.address.zip: String should match pattern '^\\d{5}$', got 'x' (str)"),
    (int | list[Line], [{"sku": "a", "amount": "b"}], "value: Input should be a valid integer"),
    (dict[str, int], {"a b": "c"}, "value['a b']: Input should be a valid integer"),
    (Address, {"street": "s", "zip": "12345", "city": "c"}, "value.city: there is no such field, got 'c' (str). Write"),
    (Line, {"sku": "a", "amount": 2, "price": 1}, "value.price: there is no such field, got 1 (int). Write"),
    (list[Options], [{"limit": 3}, {"limits": 4}], "value[1].limits: there is no such field, got 4 (int). Write"),
    (Open, {"sku": "a", "to": [{"street": "s", "zip": "12345", "city": "c"}], "more": 1}, "value.to[0].city: there is no such field"),
    (Annotated[int, Field(ge=3)], 2, "value: Input should be greater than or equal to 3, got 2 (int)"),
]  # fmt: skip


@pytest.mark.parametrize(("hint", "given", "message"), WRONG, ids=str)
def test_what_is_wrong_is_said(hint: Any, given: Any, message: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        echo(hint).check({"value": given})
    assert str(caught.value).startswith(f"value(): {message}")


def test_all_problems_at_once() -> None:
    with pytest.raises(ArgumentError) as caught:
        from_function(order_status).check({"oder_id": "A", "details": "perhaps"})
    assert str(caught.value) == (
        "order_status(): order_id is missing; details: Input should be a valid boolean, unable to interpret input, got"
        " 'perhaps' (str); there is no argument 'oder_id' (did you mean 'order_id'?). Write order_status(order_id: str, *,"
        " details: bool = False)"
    )


def test_the_message_is_bounded() -> None:
    with pytest.raises(ArgumentError) as caught:
        echo(list[int]).check({"value": ["x" * 10**6] * 1000, **{f"k{i}" * 999: 0 for i in range(1000)}})
    assert len(str(caught.value)) < 4000
    assert "; and 1992 more" in str(caught.value)


def test_secret_values_are_not_repeated() -> None:
    @tool(secret=["password"])
    def login(user: str, password: int = 1) -> str:
        return user

    made = from_function(login)
    assert made.secret == {"password"}
    assert made.parameters[1].default is ...
    with pytest.raises(ArgumentError) as caught:
        made.check({"user": "u", "password": "hunter2"})
    assert "hunter2" not in str(caught.value)


@tool(effects="read")
def greet(name: str) -> str:
    """Says hello."""
    return f"Hello, {name}"


def test_a_decorated_function_stays_a_function() -> None:
    assert greet("you") == "Hello, you"
    assert from_function(greet).policy.effects == "read"


class Bank:
    """Keeps money."""

    def __init__(self, token: str) -> None:
        self.token = token
        self.balance = self.sum

    def __repr__(self) -> str:
        return f"Bank({self.token})"

    def sum(self, account: int = 1) -> str:
        """What is there."""
        return f"{account}"

    def __call__(self, account: int) -> int:
        return account


def bound(token: str, account: int, unit: str = "EUR") -> str:
    """With a token."""
    return f"{account} {unit} {len(token)}"


LIVE: list[tuple[Callable[..., Any], str, Any]] = [
    (Bank("s3cret").sum, "sum(account: int = 1) -> str", "2"),
    (Bank("s3cret"), "bank(account: int) -> int", 2),
    (functools.partial(bound, "s3cret"), "bound(account: int, unit: str = 'EUR') -> str", "2 EUR 6"),
    (functools.partial(bound, token="s3cret"), "bound(*, account: int, unit: str = 'EUR') -> str", "2 EUR 6"),
    (functools.partial(functools.partial(bound, "s3cret"), unit="USD"), "bound(account: int) -> str", "2 USD 6"),
]  # fmt: skip


@pytest.mark.parametrize(("function", "signature", "result"), LIVE, ids=lambda value: str(value)[:20])
def test_nothing_of_what_is_bound_leaks(function: Callable[..., Any], signature: str, result: Any) -> None:
    made = from_function(function)
    assert made.signature == signature
    assert made.call(**made.check({"account": "2"})) == result
    with pytest.raises(ArgumentError) as caught:
        made.check({"account": "x", "token": "t"})
    for text in (repr(made), str(caught.value), made.description, json.dumps(made.types), repr(made.check)):
        assert "s3cret" not in text


@toolset(effects="read")
class OrderDesk:
    def __init__(self, password: str) -> None:
        self._password = password

    @property
    def secret(self) -> str:
        raise AssertionError("a property is no tool")

    def status(self, order_id: str) -> int:
        """Where it is."""
        return len(self._password) + len(order_id)

    @tool(effects="dangerous", timeout=float("inf"))
    def refund(self, order_id: str) -> None: ...

    @staticmethod
    def units() -> list[str]:
        return ["kg"]

    def _hidden(self) -> None: ...


def test_toolsets() -> None:
    made = {each.path: each for each in from_toolset(OrderDesk("12345"))}
    assert sorted(made) == ["order_desk.refund", "order_desk.status", "order_desk.units"]
    assert {path: each.policy.effects for path, each in made.items()} == {
        "order_desk.refund": "dangerous", "order_desk.status": "read", "order_desk.units": "read"
    }  # fmt: skip
    assert made["order_desk.refund"].policy.timeout is None
    assert made["order_desk.status"].call(order_id="ab") == 7


def test_what_a_method_says_holds_over_its_class_also_where_it_says_no() -> None:
    @toolset(idempotent=True, retries=5, calls=9, effects="read")
    class Desk:
        @tool(idempotent=False, retries=0, calls=0)
        def pay(self) -> None: ...

    [made] = from_toolset(Desk())
    assert made.policy == Policy("read", idempotent=False, retries=0, calls=0)


def test_a_class_that_needs_arguments_is_asked_for_an_instance() -> None:
    with pytest.raises(ToolSourceError, match=r"the toolset OrderDesk takes arguments: give an instance"):
        list(from_toolset(OrderDesk))


async def later(x: int) -> int:
    await asyncio.sleep(0)
    return x + 1


def items(n: int) -> Iterator[Line]:
    """Lines."""
    yield from (Line("a", i) for i in range(n))


async def later_items(n: int) -> AsyncIterator[int]:
    for i in range(n):
        yield i


def test_coroutines_and_streams() -> None:
    assert asyncio.run(from_function(later).call(x=1)) == 2
    streaming = from_function(items)
    assert (streaming.streams, streaming.returns) == (True, "Iterator[Line]")
    assert list(streaming.call(n=1)) == [Line("a", 0)]
    made = from_function(later_items)
    assert (made.streams, made.returns) == (True, "Iterator[int]")
    assert inspect.isasyncgen(made.call(n=1))
    assert not from_function(later).streams


def pure(values: list[float], k: int = 2) -> float:
    """Mean of powers."""
    import statistics

    def power(x: float) -> float:
        return x**k

    return statistics.fmean(power(x) for x in values)


FACTOR = 3


def impure(x: int) -> int:
    return x * FACTOR + len(str(order_status))


def test_functions_for_the_sandbox_are_shipped_as_source() -> None:
    made = from_function(tool(where="sandbox")(pure))
    space: dict[str, Any] = {}
    exec(made.source, space)
    assert space["pure"]([1, 2]) == 2.5
    assert made.source.startswith("def pure(values, k=2):")


def test_a_function_for_the_sandbox_must_stand_alone() -> None:
    with pytest.raises(
        ToolSourceError,
        match=r"it uses FACTOR, order_status from outside; import it or write it inside the function",
    ):
        from_function(tool(where="sandbox")(impure))


WRONG_OPTIONS: list[tuple[str, str, list[Any]]] = [
    ("name", "a text", [5, b"f"]),
    ("namespace", "a text", [5]),
    ("description", "a text", [{"en": "x"}]),
    ("effects", "'read', 'write' or 'dangerous'", ["reads", True, ["read"]]),
    ("where", "'host' or 'sandbox'", ["guest"]),
    ("timeout", "seconds, a number above 0", [0, -1, math.nan, "5", True, 1j]),
    ("per_minute", "a number above 0", [0, math.inf, "60"]),
    ("idempotent", "True or False", ["no", 1, 0]),
    ("retries", "a whole number from 0", [-1, 1.5, "2", True]),
    ("calls", "a whole number from 0", ["x", -2, True, 1.0]),
    ("secret", "a list of parameters, as in ['password']", ["key", {"key": True}, [5]]),
    ("raises", "a list of exceptions or their names", ["KeyError", KeyError("x"), [KeyError("x")], [int]]),
]


@pytest.mark.parametrize(
    ("name", "takes", "value"),
    [(name, takes, value) for name, takes, values in WRONG_OPTIONS for value in values],
)
def test_options_of_a_wrong_type_or_out_of_range(name: str, takes: str, value: Any) -> None:
    with pytest.raises(ToolSourceError, match=re.escape(f"{name} of a tool is {value!r}; it takes {takes}")):
        tool(**{name: value})(order_status)


def test_an_option_that_there_is_not() -> None:
    options: dict[str, Any] = {"efects": "read"}
    with pytest.raises(ToolSourceError, match="tool has no option 'efects'"):
        tool(**options)(order_status)


@pytest.mark.parametrize("mark", [toolset(namespace="shop"), toolset])
def test_a_toolset_is_a_class(mark: Any) -> None:
    with pytest.raises(
        ToolSourceError, match="@toolset marks classes, not a function; @tool marks functions"
    ):
        mark(order_status)


@pytest.mark.parametrize(
    "options", [{"timeout": 1e12}, {"timeout": math.inf}, {"calls": 0}, {"secret": {"order_id"}}]
)
def test_options_at_their_bounds(options: dict[str, Any]) -> None:
    assert from_function(tool(**options)(order_status)).policy.effects == "write"


def test_a_tool_made_by_hand_is_checked() -> None:
    with pytest.raises(ToolSourceError, match="idempotent of a tool is 'no'"):
        Policy(idempotent="no")  # type: ignore[arg-type]
    with pytest.raises(ToolSourceError, match="policy of the tool f is 'read'; it takes a Policy"):
        Tool("f", call=print, check=dict, policy="read")  # type: ignore[arg-type]


def test_a_secret_that_is_no_parameter() -> None:
    with pytest.raises(ToolSourceError, match="has no parameter 'pasword', which secret names"):
        from_function(tool(secret=["pasword"])(lambda password: password))


def strange(x: "not valid ((", y: "int", z: "Absent", n: Never, t: LiteralString = "t") -> None: ...  # type: ignore  # noqa: F821, F722, UP037


def test_hints_that_say_nothing_check_nothing() -> None:
    made = from_function(strange)
    assert [each.annotation for each in made.parameters] == ["", "int", "", "Any", "Any"]
    assert made.check({"x": 1, "y": "2", "z": 3, "n": 4}) == {"x": 1, "y": 2, "z": 3, "n": 4}


def test_a_secret_default_is_in_no_schema() -> None:
    @tool(secret=["key"])
    def f(
        key: str = Field("s3cret", description="The key."),
        many: list[int] = Field(default_factory=list),  # noqa: B008
    ) -> Any:
        return key, many

    made = from_function(f)
    assert made.signature == "f(key: str = ..., many: list[int] = ...) -> Any"
    assert "s3cret" not in repr(made)
    assert made.parameters[0].description == "The key."
    assert made.call(**made.check({})) == ("s3cret", [])


def test_a_class_whose_fields_cannot_be_resolved_checks_nothing() -> None:
    @dataclass
    class Inner:
        n: int

    @dataclass
    class Outer:
        inner: Inner  # a name of this function, which pydantic cannot look up

    def take(outer: Outer) -> Outer:
        return outer

    made = from_function(take)
    assert made.check({"outer": {"inner": 1}}) == {"outer": {"inner": 1}}


@dataclass
class Upload:
    file: Path
    others: list[Path]


@pytest.mark.parametrize(
    ("hint", "value", "place"),
    [
        (Path, "/etc/passwd", "value"),
        (PurePath | None, "/etc/passwd", "value"),
        (os.PathLike, "/etc/passwd", "value"),
        (FilePath, "/etc/passwd", "value"),
        (dict[str, Path], {"a": "/etc/passwd"}, "value.a"),
        (Upload, {"file": "/etc/passwd", "others": []}, "value.file"),
        (Upload, {"file": Path("a"), "others": [Path("b"), b"/etc/passwd"]}, "value.others[1]"),
    ],
)
def test_a_text_is_no_path_of_the_host(hint: Any, value: Any, place: str) -> None:
    def take(value: Any) -> None: ...

    take.__annotations__["value"] = hint
    with pytest.raises(
        ArgumentError,
        match=re.escape(f"{place}: a file of the workspace is asked for, which code passes as Path("),
    ):
        from_function(take).check({"value": value})
