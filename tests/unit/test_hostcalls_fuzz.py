"""Hostile frames of calls at the host's end: nothing is raised past the reader, and no more is held than is allowed.

A short run of it is part of `make test`; `make fuzz` runs 10,000 cases.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.guest import frames
from sandbox.guest.payloads import BadPayload, Incoming, Outgoing, TooLarge
from sandbox.hostcalls import MAX_HELD, MAX_WAITING, Answer, HostCalls, WithCall

NUMBERS = st.integers(-2, 6) | st.sampled_from([2**31, 2**40, 2**63, 2**70, 0.5, True, None, "1", [1]])
OPS = ("call", "part", "more", "room", "cancel", "return", None)
HEADERS = st.fixed_dictionaries(
    {"op": st.sampled_from(OPS), "call": NUMBERS},
    optional={
        "name": st.sampled_from(["echo", "stream", "no", "\ud800", 7, ["echo"]]),
        "cell": NUMBERS,
        "json": NUMBERS,
        "buffers": NUMBERS,
        "size": NUMBERS | st.just(frames.MAX_PAYLOAD),
        "pieces": NUMBERS,
    },
)


class Wire:
    """A bridge that keeps what is sent."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []

    def send(self, header: dict[str, Any], body: bytes = b"") -> None:
        self.sent.append(header)


@given(st.lists(st.tuples(HEADERS, st.binary(max_size=12)), max_size=30))
def test_hostile_calls_are_refused_or_dropped(said: list[tuple[dict[str, Any], bytes]]) -> None:
    functions: Any = {"echo": lambda value: value, "stream": WithCall(lambda call: iter([Answer(1)] * 3))}
    calls = HostCalls(functions)
    wire: Any = Wire()
    calls.bridge = wire
    for header, body in said:
        calls.take(header, body)
        assert len(calls._calls) <= MAX_WAITING
        assert 0 <= calls._held <= MAX_HELD
    calls.close()
    assert all(header["op"] in ("return", "part") for header in wire.sent)


@given(st.binary(max_size=60), st.lists(st.binary(max_size=300_000), max_size=5), st.integers(1, 400_000))
def test_a_payload_is_put_together_whatever_the_pieces(json: bytes, buffers: list[bytes], cut: int) -> None:
    outgoing = Outgoing(json, buffers)
    pieces = list(outgoing.pieces())
    assert all(len(piece) == frames.CALL_CHUNK for piece in pieces[:-1])
    whole = b"".join(pieces)
    incoming = Incoming(outgoing.header)
    for start in range(0, len(whole), cut):
        assert not incoming.complete
        incoming.feed(whole[start : start + cut])
    assert incoming.complete
    assert (incoming.json, [bytes(each) for each in incoming.buffers]) == (json, buffers)
    with pytest.raises(BadPayload):
        incoming.feed(b"more")


@pytest.mark.parametrize(
    ("header", "error"),
    [
        ({"json": frames.MAX_CALL + 1}, TooLarge),
        ({"json": 1, "buffers": 1, "size": frames.MAX_PAYLOAD + 1}, TooLarge),
        ({"json": 1, "buffers": 1, "size": 8}, BadPayload),
        ({"json": 1, "size": 2}, BadPayload),
        ({"json": True}, BadPayload),
        ({"json": 0, "buffers": 100_001, "size": 1 << 24}, BadPayload),
    ],
)
def test_what_announces_no_payload(header: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        Incoming(header)


def test_buffers_that_are_not_as_large_as_announced() -> None:
    incoming = Incoming({"json": 1, "buffers": 1, "size": 14})
    with pytest.raises(BadPayload, match="another size"):
        incoming.feed(b"1" + (2**40).to_bytes(8, "big"))
