"""Hostile frames at the host's end of the bridge: it ends in one said loss, holds no more than its cap, and never hangs.

A short run of it is part of `make test`; `make fuzz` runs 10,000 cases of each.
"""

from __future__ import annotations

import contextlib
import json
import queue
import struct
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.bridge import FRAME_COST, VERSION, Bridge
from sandbox.cells import CellRun
from sandbox.errors import ConnectionLost
from sandbox.guest import frames

CAP = 64 * 1024
OPS = (
    "output",
    "done",
    "late",
    "notice",
    "kernel_up",
    "kernel_died",
    "call",
    "file",
    "ack",
    "net",
    "welcome",
    "lost",
    "interrupt",
)
SCALARS = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=8)
VALUES = st.recursive(
    SCALARS,
    lambda v: st.lists(v, max_size=3) | st.dictionaries(st.text(max_size=4), v, max_size=3),
    max_leaves=4,
)
FIELDS = st.dictionaries(
    st.sampled_from(
        [
            "cell",
            "type",
            "name",
            "status",
            "call",
            "file",
            "ack",
            "exit",
            "oom",
            "junk",
            "bytes",
            "kind",
            "text",
            "ok",
        ]
    ),
    VALUES,
    max_size=5,
)
BODIES = st.binary(max_size=80) | st.sampled_from(
    [b"{}", b"[]", b'{"name": 1}', b"\xff" * 9, b"[" * 5000, b"x" * CAP]
)


class Wire:
    """A stream in memory: what it was given to say, then its end."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = [piece for piece in pieces if piece]

    def read(self) -> bytes:
        return self._pieces.pop(0) if self._pieces else b""

    def write(self, data: bytes) -> None:
        pass

    def close(self) -> None:
        self._pieces.clear()


@st.composite
def streams(draw: st.DrawFn) -> list[bytes]:
    """Frames of every kind, numbered rightly or not, some sent twice or in another order, cut anywhere, then anything."""
    made: list[bytes] = []
    said = draw(st.lists(st.tuples(st.sampled_from(OPS) | VALUES, FIELDS, BODIES), max_size=8))
    for number, (op, fields, body) in enumerate(said, 1):
        seq = draw(st.just(number) | st.just(number) | st.just(number) | VALUES)
        header = json.dumps({"op": op, **fields, "seq": seq}).encode()
        sizes = draw(
            st.just((len(header), len(body)))
            | st.just((len(header), len(body)))
            | st.tuples(*[st.integers(0, 2**32 - 1)] * 2)
        )
        made.append(struct.pack(">II", *sizes) + header + body)
    made += draw(st.lists(st.sampled_from(made), max_size=2)) if made else []
    if draw(st.booleans()):
        made = draw(st.permutations(made))
    data = b"".join(made) + draw(st.binary(max_size=30))
    data = data[: draw(st.integers(0, len(data))) if draw(st.booleans()) else len(data)]
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=6)))
    return [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]


def bridged(pieces: list[bytes], calls: list[Any]) -> Bridge:
    """A bridge whose first stream says `pieces`, and that gets no second one."""
    welcome = frames.encode({"op": "welcome", "version": VERSION, "received": 0})
    wires = [Wire([welcome, *pieces])]

    def connect() -> Wire:
        if not wires:
            raise ConnectionLost("no second stream")
        return wires.pop()

    bridge = Bridge(connect, lambda header, body: calls.append(header), max_queued=CAP)
    bridge.open()
    return bridge


@given(streams())
def test_hostile_frames_end_in_one_loss_and_stay_below_the_cap(pieces: list[bytes]) -> None:
    calls: list[Any] = []
    bridge = bridged(pieces, calls)
    bridge._thread.join(10)
    assert not bridge._thread.is_alive()
    assert bridge.events.waiting <= CAP + max(map(len, pieces), default=0) + FRAME_COST
    with pytest.raises(ConnectionLost):
        bridge.send({"op": "run"})
    last = bridge.events.get(0)[0]
    with contextlib.suppress(queue.Empty):
        while True:
            last = bridge.events.get(0)[0]
    assert last["op"] == "lost"
    bridge.close()


@given(streams())
def test_hostile_frames_end_a_cell_and_give_only_clean_text(pieces: list[bytes]) -> None:
    bridge = bridged(pieces, [])
    cell = CellRun(bridge, 1, timeout=20, rescue=lambda: None, waited=lambda: 0.0, memory_limit=1 << 30)
    outputs = list(cell.stream("1", 1024))
    assert cell.status in ("ok", "error", "timeout", "interrupted", "died", "refused")
    text = repr(outputs)
    assert text.isprintable()
    text.encode("utf-8")
    bridge.close()
