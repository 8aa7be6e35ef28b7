"""Hostile frames at the supervisor's two readers, over real sockets: it drops who sent them, holds no more than its cap,
and goes on serving the others.

A short run of it is part of `make test`; `make fuzz` runs 10,000 cases of each.
"""

from __future__ import annotations

import json
import socket
import struct
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sandbox.guest import frames
from sandbox.guest.callers import MAX_HEADER, MAX_IN_FLIGHT, Callers
from sandbox.guest.loop import Loop
from sandbox.guest.pipes import READ, Pipe
from tests.unit.test_bridge_fuzz import streams

TURNS = 200
"""Turns of the loop, each of a moment, within which all that was sent must have been taken."""


def pump(loop: Loop) -> None:
    for _ in range(TURNS):
        if not loop.turn(0):
            return
    raise AssertionError("the loop is never done")


def say(loop: Loop, end: socket.socket, pieces: list[bytes]) -> None:
    """Sends pieces as far as they are taken."""
    end.setblocking(False)
    for piece in pieces:
        view = memoryview(piece)
        while view:
            try:
                view = view[end.send(view) :]
            except BlockingIOError:
                pass
            except OSError:  # it was dropped
                return
            pump(loop)


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def frame(header: dict[str, Any], body: bytes = b"") -> bytes:
    text = json.dumps(header).encode()
    return struct.pack(">II", len(text), len(body)) + text + body


def heard(end: socket.socket) -> list[frames.Frame]:
    end.setblocking(False)
    decoder = frames.Decoder()
    found: list[frames.Frame] = []
    try:
        while data := end.recv(READ):
            found += decoder.feed(data)
    except OSError:
        pass
    return found


@given(streams(), st.booleans())
def test_callers_are_dropped_or_answered_and_others_go_on(pieces: list[bytes], running: bool) -> None:
    sent: list[tuple[dict[str, Any], bytes]] = []
    loop = Loop()

    def send(header: dict[str, Any], body: bytes = b"") -> None:
        sent.append((header, body))

    callers = Callers(loop, send, lambda: 0)
    if running:
        callers.begin(1)
    hostile, theirs = socket.socketpair()
    honest, ours = socket.socketpair()
    before = open_descriptors()
    with hostile, honest:
        callers.meet(theirs)
        callers.meet(ours)
        say(loop, hostile, pieces)
        for caller in callers._callers:
            assert len(caller.pipe._decoder._buffer) <= MAX_HEADER + frames.CALL_CHUNK + READ
        assert len(callers._calls) <= MAX_IN_FLIGHT
        for header, _ in sent:
            assert header["op"] in ("call", "part", "more", "cancel")
            assert 0 < header["call"] <= callers._last
            if header["op"] == "call":
                assert isinstance(header["name"], str)
                assert len(header["name"]) <= 200
        mine = callers._last
        say(loop, honest, [frame({"op": "call", "name": "echo", "json": 1}, b"1")])
        if running:
            assert sent[-1][0]["name"] == "echo"
            answer = {"op": "return", "call": mine + 1, "ok": True, "json": 1}
            callers.answer(answer, b"1")
            callers.answer(answer, b"2")  # replayed by the host: nobody waits for it
        assert [body for _, body in heard(honest)] == [b"1" if running else b'"no cell is running"']
        callers.end()
        for caller in list(callers._callers):
            callers._lose(caller)
        assert callers._callers == set()
    assert open_descriptors() == before - 4


@given(streams())
def test_what_is_no_frame_of_the_hosts_ends_the_stream_once(pieces: list[bytes]) -> None:
    """The reader of the host's frames: a stream that breaks is let go of, once, with nothing raised past the loop."""
    loop = Loop()
    far, near = socket.socketpair()
    sequencer = frames.Sequencer()
    gone: list[Pipe] = []
    taken: list[int] = []

    def lose(pipe: Pipe) -> None:
        gone.append(pipe)
        loop.close(pipe)

    def hear(_: Pipe, header: dict[str, Any], body: bytes) -> None:
        if sequencer.accept(header, body) and header.get("seq") is not None:
            taken.append(header["seq"])

    pipe = Pipe(near, near)
    loop.open(pipe, hear, lose)
    with far:
        say(loop, far, pieces)
        assert len(pipe._decoder._buffer) <= frames.MAX_HEADER + frames.MAX_BODY + READ
        pump(loop)
    pump(loop)  # its end
    assert gone == [pipe]
    assert pipe.closed
    assert taken == list(range(1, len(taken) + 1))  # in order, and none twice
