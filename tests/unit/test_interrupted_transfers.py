"""Ctrl-C while something is sent into a sandbox: what follows it arrives, and nothing of it stays open inside."""

from __future__ import annotations

import contextlib
import io
import queue
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sandbox.bridge import VERSION, Bridge, Inbox
from sandbox.errors import ConnectionLost, FileError
from sandbox.files import Files
from sandbox.guest import files as guest
from sandbox.guest import frames


class Peer:
    """The other end of a bridge: takes the frames in, over as many streams as are opened."""

    def __init__(self) -> None:
        self.sequence = frames.Sequencer()
        self.got: list[tuple[str, int]] = []
        self.streams: list[Wire] = []

    def connect(self) -> Wire:
        self.streams.append(Wire(self))
        return self.streams[-1]


class Wire:
    """A stream to it, into which the write of more than 1,000 bytes ends half-way with Ctrl-C, once."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._decoder = frames.Decoder()
        self._said: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._closed = False

    def read(self) -> bytes:
        return self._said.get(timeout=10)

    def write(self, data: bytes) -> None:
        if self._closed:
            raise OSError("closed")
        interrupted = len(data) > 1000 and len(self._peer.streams) == 1
        for header, body in self._decoder.feed(data[: len(data) // 2] if interrupted else data):
            if header["op"] == "hello":
                welcome = {"op": "welcome", "version": VERSION, "received": self._peer.sequence.received}
                self._said.put(frames.encode(welcome))
            elif self._peer.sequence.accept(header, body):
                self._peer.got.append((header["op"], len(body)))
        if interrupted:
            raise KeyboardInterrupt

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._said.put(b"")


def test_a_frame_that_was_cut_off_comes_whole_on_the_next_stream() -> None:
    peer = Peer()
    bridge = Bridge(peer.connect, lambda header, body: None)
    bridge.open()
    with pytest.raises(KeyboardInterrupt):
        bridge.send({"op": "file"}, b"x" * 5000)
    bridge.send({"op": "run"}, b"1 + 1")
    bridge.send({"op": "signal"})
    while len(peer.got) < 3 and bridge._thread.is_alive():
        bridge._thread.join(0.01)
    bridge.close()
    assert peer.got == [("file", 5000), ("run", 5), ("signal", 0)]
    assert len(peer.streams) == 2


def test_whatever_ends_the_reader_is_told_to_who_waits() -> None:
    peer = Peer()

    def on_call(header: dict[str, Any], body: bytes) -> None:
        raise RuntimeError("can't start new thread")

    bridge = Bridge(peer.connect, on_call)
    bridge.open()
    peer.streams[0]._said.put(frames.encode({"op": "call", "call": 1, "seq": 1}))
    header, _ = bridge.events.get(10)
    assert header == {"op": "lost", "reason": "RuntimeError: can't start new thread"}
    with pytest.raises(ConnectionLost, match="can't start new thread"):
        bridge.send({"op": "run"})
    bridge.close()


class Loop:
    """A bridge with a folder of this machine at its other end; `cut` is the kind of frame after which Ctrl-C comes, once."""

    def __init__(self, root: Path, cut: str = "") -> None:
        self.guest = guest.Files(str(root))
        self._inboxes: dict[int, Inbox] = {}
        self._cut = cut

    @contextlib.contextmanager
    def answers(self, number: int) -> Iterator[Inbox]:
        self._inboxes[number] = Inbox()
        try:
            yield self._inboxes[number]
        finally:
            del self._inboxes[number]

    def send(self, header: dict[str, Any], body: bytes = b"") -> None:
        answer = self.guest.serve(header, body)
        if answer is not None:
            self._inboxes[header["file"]].put({"op": "file", "file": header["file"], **answer[0]}, answer[1])
        if header["do"] == self._cut:
            self._cut = ""
            raise KeyboardInterrupt


@pytest.mark.parametrize("cut", ["put", "write", "get", "read"])
def test_a_transfer_that_ctrl_c_ends_leaves_nothing(tmp_path: Path, cut: str) -> None:
    (tmp_path / "a").write_bytes(b"old")
    bridge: Any = Loop(tmp_path, cut)
    files = Files(bridge, 10**9)
    sends = cut in ("put", "write")
    with pytest.raises(KeyboardInterrupt):
        _ = files.put(io.BytesIO(b"new"), "a") if sends else files.get("a", io.BytesIO())  # type: ignore[func-returns-value]
    assert (bridge.guest._writing, bridge.guest._reading) == ({}, {})
    assert [(entry.path, entry.size) for entry in files.list()] == [("a", 3)]
    assert (tmp_path / "a").read_bytes() == b"old"
    files.put(io.BytesIO(b"newer"), "a")
    assert (tmp_path / "a").read_bytes() == b"newer"


class Source(io.BytesIO):
    def __init__(self, error: Exception) -> None:
        super().__init__()
        self._error = error

    def read(self, size: int | None = -1) -> bytes:
        raise self._error


@pytest.mark.parametrize(
    ("raised", "told"),
    [
        (OSError(5, "Input/output error"), FileError("a: cannot be read on the host: Input/output error")),
        (RuntimeError("of the caller's"), RuntimeError("of the caller's")),
    ],
)
def test_a_source_that_fails_leaves_nothing(tmp_path: Path, raised: Exception, told: Exception) -> None:
    bridge: Any = Loop(tmp_path)
    with pytest.raises(type(told), match=f"^{told}$"):
        Files(bridge, 10**9).put(Source(raised), "a")
    assert not bridge.guest._writing
    assert not list(tmp_path.iterdir())
