"""Functions of the host that fail in an unusual way: the code that called one is told, and the next call is answered."""

from __future__ import annotations

import json
import queue
import sys
from collections.abc import Iterator
from typing import Any, NoReturn

import pytest

from sandbox.errors import HostCallRefused
from sandbox.guest.outputs import MAX_ERROR
from sandbox.hostcalls import Answer, HostCall, HostCalls, WithCall

SECONDS = 10


class Odd(Exception):
    def __str__(self) -> str:
        return str(self.args[5])


class Rows(dict[str, int]):
    def items(self) -> NoReturn:
        raise Odd("the file has gone")


def raises(error: BaseException) -> Any:
    def function(value: Any) -> NoReturn:
        raise error

    return function


def ends(call: HostCall) -> Iterator[Answer]:
    if call.number:
        sys.exit("in an iterator")
    yield Answer(1)


def closes_badly(call: HostCall) -> Iterator[Answer]:
    try:
        yield Answer("a lone surrogate is no buffer", ["\ud800"])  # type: ignore[list-item]
    finally:
        raise KeyError("when it is closed")


class Bridge:
    def __init__(self) -> None:
        self.sent: queue.SimpleQueue[tuple[dict[str, Any], bytes]] = queue.SimpleQueue()

    def send(self, header: dict[str, Any], body: bytes = b"") -> None:
        self.sent.put((header, body))


@pytest.mark.parametrize(
    ("function", "kind", "said"),
    [
        (raises(SystemExit("no such file")), "SystemExit", "no such file"),
        (raises(KeyboardInterrupt()), "KeyboardInterrupt", ""),
        (raises(Odd("x")), "Odd", "its message cannot be read"),
        (raises(HostCallRefused("not now", name="NotNow")), "NotNow", "not now"),
        (WithCall(raises(SystemExit(3))), "SystemExit", "3"),
        (WithCall(ends), "SystemExit", "in an iterator"),
        (WithCall(closes_badly), "BadResult", "the host function returned what is not a JSON value"),
        (WithCall(lambda call: [1]), "TypeError", "'list' object is not an iterator"),  # type: ignore[arg-type,return-value]
        (WithCall(lambda call: iter([1])), "AttributeError", "'int' object has no attribute 'text'"),  # type: ignore[arg-type,return-value]
        (lambda value: Rows(a=1), "Odd", "its message cannot be read"),
        (lambda value: {1}, "BadResult", "the host function returned what is not a JSON value"),
    ],
)
def test_a_call_is_answered_once_whatever_its_function_raises(function: Any, kind: str, said: str) -> None:
    assert failures({"f": function}) == [(kind, said)]


def test_a_message_is_cut_before_it_is_sent() -> None:
    ((kind, said),) = failures({"f": raises(ValueError("x" * (65 << 20)))})
    assert kind == "ValueError"
    assert said.startswith("x" * (MAX_ERROR // 2))
    assert len(said) < MAX_ERROR + 100


def failures(functions: dict[str, Any]) -> list[tuple[str, str]]:
    """What the code hears of a call of `f`; one after it, on the same thread, is answered."""
    calls = HostCalls({**functions, "echo": lambda value: value})
    bridge: Any = Bridge()
    calls.bridge = bridge
    heard: list[tuple[dict[str, Any], bytes]] = []
    for number, name in enumerate(("f", "echo"), 1):
        calls.take({"op": "call", "call": number, "cell": 1, "name": name, "json": 1}, b"7")
        heard.append(bridge.sent.get(timeout=SECONDS))
    calls.close()
    assert heard.pop() == ({"op": "return", "call": 2, "ok": True, "json": 1}, b"7")
    assert bridge.sent.empty()
    assert calls._calls == {}
    return [(header["kind"], json.loads(body)) for header, body in heard]
