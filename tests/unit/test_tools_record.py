"""What records, messages and questions show of calls: nothing secret, and of any value at least what it is."""

from __future__ import annotations

import base64
import functools
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field, SecretStr

from codeact import events, journal
from codeact.tools import crossing
from codeact.tools.approval import Approval, CallRequest
from codeact.tools.definitions import from_definition, schema
from codeact.tools.functions import from_function, tool
from codeact.tools.load import tools_from
from codeact.tools.runner import Setup, ToolRunner
from codeact.tools.shown import short
from sandbox.errors import HostCallRefused
from sandbox.text import clean
from tests.unit.test_tools_runner import Bench

SECRET = "hunter2-and-möre"
ENCODER = crossing.Encoder(lambda file, inside: None)


def returning(value: Any) -> Callable[[str], Any]:
    @tool(name="login", secret=["password"])
    def login(password: str) -> Any:
        return value

    return login


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le", "utf-32-le", "latin-1"])
@pytest.mark.parametrize("size", [0, 100_000])
def test_a_secret_in_bytes_is_starred_in_the_record_and_keeps_its_length(encoding: str, size: int) -> None:
    written = SECRET.encode(encoding)
    sent = b"before" + written + b"after" + bytes(size)
    bench = Bench(returning(sent), encode=ENCODER)
    answer = bench.call("login", password=SECRET)
    assert written in (bytes(answer.buffers[0]) if size else base64.b64decode(answer.value["v"]))
    [returned] = bench.of(events.ToolReturned)
    kept = base64.b64decode(returned.value["buffers"][0] if size else returned.value["v"])
    assert len(kept) == len(sent)
    assert written not in kept
    assert kept.startswith(b"before*")
    assert kept[6 + len(written) :] == sent[6 + len(written) :]


@pytest.mark.parametrize(
    "secret", ["DOM\\user\\pässword", "-----BEGIN\nKEY\n", 'it\'s "quoted"', "bell\x07bell"]
)
@pytest.mark.parametrize(
    "spelled", [str, repr, json.dumps, lambda text: json.dumps(text, ensure_ascii=False)]
)
def test_a_secret_is_known_as_python_and_json_write_it(secret: str, spelled: Callable[[str], str]) -> None:
    @tool(secret=["password"])
    def login(password: str, fails: bool) -> str:
        if fails:
            raise OSError(2, f"no {spelled(password)}", password)
        return f"got {spelled(password)}"

    bench = Bench(login)
    bench.call("login", password=secret, fails=False)
    with pytest.raises(HostCallRefused) as refused:
        bench.call("login", password=secret, fails=True)
    first, second = bench.of(events.ToolReturned)
    for told in (str(first.value), str(second.error), str(refused.value)):
        assert "(secret)" in told
        assert not any(part in told for part in ("DOM", "KEY", "quoted", "bell"))


def test_a_secret_that_is_bytes_is_known_as_such_and_as_text() -> None:
    key = b"\x00\xff\x10binary"

    @tool(secret=["key"])
    def sign(key: bytes) -> list[Any]:
        return [b"a" + key + b"b", "text"]

    bench = Bench(sign, encode=ENCODER)
    bench.call("sign", key=key)
    assert base64.b64decode(bench.of(events.ToolReturned)[0].value[0]["v"]) == b"a" + b"*" * 9 + b"b"

    @tool(secret=["key"])
    def fail(key: bytes) -> None:
        raise ValueError(f"not {key.decode()}")

    assert Bench(fail).fails("fail", key=b"as text") == ("ValueError", "not (secret)")


def test_long_texts_and_other_arguments_are_scrubbed_too() -> None:
    sources: list[str] = []

    @tool(secret=["password"])
    def login(url: Any, password: str) -> str:
        return "x" * 300_000 + password

    def ask(request: CallRequest) -> bool:
        sources.append(request.source)
        return True

    bench = Bench(login, encode=ENCODER, approval=Approval("writes", ask))
    bench.call("login", url=f"https://a.example/?key={SECRET}", password=SECRET)
    bench.call("login", url={b"a": [SECRET.encode(), SECRET.encode("latin-1")]}, password=SECRET)
    assert SECRET not in repr(bench.events)
    assert SECRET.encode() not in base64.b64decode(bench.of(events.ToolReturned)[0].value["buffers"][0])
    assert sources == [
        "login(url='https://a.example/?key=(secret)', password=(secret))",
        "login(url={b'a': [b'(secret)', b'(secret)']}, password=(secret))",
    ]


@pytest.mark.parametrize(
    ("pin", "message", "shown"),
    [
        ("007", "007 is wrong, 1007 too, not x007", "(secret) is wrong, 1007 too, not x007"),
        ("7", "order 17 of 7", "order 17 of (secret)"),
        ("+", "a + b", "a (secret) b"),
        ("", "a b", "a b"),
    ],
)
def test_a_short_secret_is_taken_out_of_messages_as_a_word(pin: str, message: str, shown: str) -> None:
    @tool(secret=["pin"])
    def pay(pin: str, amount: int) -> str:
        if amount:
            raise ValueError(message)
        return message

    bench = Bench(pay)
    assert bench.fails("pay", pin=pin, amount=7) == ("ValueError", shown)
    assert bench.of(events.ToolCalled)[0].arguments == {"pin": "(secret)", "amount": 7}
    assert bench.call("pay", pin=pin, amount=0) == message
    assert bench.of(events.ToolReturned)[1].value == message


KEY = "sk-live-01/23=é"


@dataclass(slots=True)
class Slots:
    api_key: str

    def ask(self, order: str) -> str:
        """Asks."""
        raise LookupError(f"no {order} with {self.api_key}")


class Desk:
    token = KEY

    def __init__(self, key: str) -> None:
        self._password, self.url = SecretStr(key), "https://api.example"

    def ask(self, order: str) -> str:
        raise LookupError(f"no {order} with {self._password.get_secret_value()} at {self.url}")

    @classmethod
    def ask_all(cls, order: str) -> str:
        raise LookupError(f"no {order} with {cls.token}")


def ask(order: str, key: str) -> str:
    raise LookupError(f"no {order} with {key}")


def ask_by_address(order: str, key: str = KEY) -> str:
    raise LookupError(f"no {order} at ?{urlencode({'key': key})}")


def ask_with_field(order: str, key: Annotated[str, Field()] = KEY) -> str:
    raise LookupError(f"no {order} with {key!r}")


def ask_by_definition(order: str, key: str = "") -> str:
    raise LookupError(f"no {order} with {key or KEY}")


class Chain:
    name, description, api_key = "ask", "Asks.", KEY
    args: Mapping[str, Any] = {"order": {"type": "string"}}

    def invoke(self, values: dict[str, Any]) -> str:
        raise LookupError(f"no {values['order']} with {self.api_key}")


DEFINITION = {
    "name": "ask",
    "parameters": {
        "properties": {"order": {"type": "string"}, "key": {"type": "string", "default": KEY}},
        "required": ["order"],
    },
}


@pytest.mark.parametrize(
    "source",
    [
        functools.partial(ask, key=KEY),
        functools.partial(functools.partial(ask_by_address, key=KEY)),
        functools.partial(
            lambda given, order: ask(order, given["keys"][0].decode()), {"keys": [KEY.encode()]}
        ),
        tool(secret=["key"])(ask_by_address),
        tool(secret=["key"])(ask_with_field),
        Desk(KEY).ask,
        Desk.ask_all,
        Slots(KEY).ask,
        functools.partial(Slots(KEY).ask),
        Chain(),
        from_definition(DEFINITION, ask_by_definition, secret=["key"]),
    ],
    ids=range(11),
)
def test_what_the_host_holds_is_in_no_error(source: Any) -> None:
    [made] = tools_from([source])
    recorded: list[events.Event] = []
    calls = ToolRunner(Setup((made,), Approval("never")), run="r", emit=recorded.append)
    calls.begin(1)
    with pytest.raises(HostCallRefused) as refused:
        calls.call(made.path, {"order": "A-1"})
    assert str(refused.value).startswith("no A-1 ")
    assert "(secret)" in str(refused.value)
    for told in (str(refused.value), repr(recorded), repr(made), json.dumps(schema(made))):
        assert "live" not in told


def test_the_default_of_a_secret_is_in_no_record_and_what_is_bound_is_in_results_as_it_is() -> None:
    @tool(secret=["key"])
    def connect(index: str, key: str = KEY) -> str:
        return f"{index} of {key}"

    bench = Bench(connect, functools.partial(lambda index, n: index * n, "orders"))
    assert bench.call("connect", index="orders") == f"orders of {KEY}"
    assert bench.call("tool", n=1) == "orders"
    assert [event.value for event in bench.of(events.ToolReturned)] == ["orders of (secret)", "orders"]


class Raises:
    def __repr__(self) -> str:
        raise RuntimeError

    __str__ = __repr__


HUGE = 10**5000
LOOP: list[Any] = []
LOOP.append(LOOP)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (HUGE, "an integer of about 5,001 digits"),
        ([1, HUGE], "[1, an integer of about 5,001 digits]"),
        ({HUGE: HUGE}, "{an integer of about 5,001 digits: an integer of about 5,001 digits}"),
        (b"x" * 10**8, "b'" + "x" * 60 + "'..."),
        ("x" * 10**8, "'" + "x" * 27 + "..." + "x" * 28 + "'"),
        (LOOP, "[[[[...]]]]"),
        (list(range(10**6)), "[0, 1, 2, ...]"),
    ],
    ids=["int", "list", "dict", "bytes", "text", "loop", "long"],
)  # fmt: skip
def test_any_value_can_be_shown(value: Any, said: str) -> None:
    assert short(value) == said


def test_what_cannot_say_what_it_is_is_told_by_its_type() -> None:
    assert "Raises" in short(Raises())
    assert "Raises" in short([Raises()])


@pytest.mark.parametrize(
    "value",
    [HUGE, [HUGE], {"a": HUGE}, {1: HUGE}, -HUGE, b"x" * 10**7, {"k" * 10**6: 1}],
    ids=["int", "list", "dict", "odd dict", "negative", "bytes", "key"],
)
@pytest.mark.parametrize("where", ["wrong", "extra", "secret", "taken"])
def test_a_call_with_any_value_is_told_and_recorded(value: Any, where: str) -> None:
    @tool(secret=["key"])
    def take(when: date | None = None, key: date | None = None, anything: Any = None) -> int:
        return 1

    bench = Bench(take, approval=Approval("writes", lambda request: bool(request.source)))
    if where == "taken":
        assert bench.call("take", anything=value) == 1
    else:
        name = {"wrong": "when", "extra": "whem", "secret": "key"}[where]
        kind, message = bench.fails("take", **{name: value})
        assert kind == "ArgumentError"
        assert len(message) < 800
    assert len(json.dumps([journal.to_json(event) for event in bench.events])) < 40_000


LARGE = st.integers(0, 9).map(lambda number: HUGE + number)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | LARGE | st.floats() | st.text() | st.binary(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text() | st.integers() | LARGE, inner, max_size=3)
    ),
    max_leaves=6,
)


@given(VALUES, st.sampled_from(["number", "words", "secret", "other", "more"]))
def test_no_value_breaks_the_answer(value: Any, name: str) -> None:
    @tool(secret=["secret"])
    def take(number: int = 0, words: list[str] | None = None, secret: Any = None, **more: float) -> None:
        raise LookupError(repr(type(secret)))

    bench = Bench(take)
    kind, message = bench.fails("take", **{name: value})
    assert kind in ("ArgumentError", "LookupError")
    assert message == clean(message)
    json.dumps([journal.to_json(event) for event in bench.events])


def test_definitions_too() -> None:
    properties = {"n": {"type": "integer", "maximum": 5}, "s": {"enum": ["a", "b"]}, "f": {"multipleOf": 0.1}}
    made = from_definition({"name": "t", "parameters": {"properties": properties}}, lambda **values: None)
    bench = Bench()
    bench.runner._tools["t"] = made
    assert (
        "n: holds a number too large to be checked, got an integer of about 5,001 digits (int)"
        in bench.fails("t", n=HUGE)[1]
    )
    assert "s: holds a number too large to be checked" in bench.fails("t", s=HUGE)[1]
    assert bench.fails("t", f=HUGE)[0] == "ArgumentError"
    assert from_function(returning(1)).secret == {"password"}
