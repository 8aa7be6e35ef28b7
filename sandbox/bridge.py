"""The host's end of the one stream into a sandbox. All that comes in is treated as hostile.

A reader thread takes frames in and puts them where they are waited for: what belongs to the running cell into one inbox,
answers of the file operations into theirs, calls of host functions to their handler. When the stream ends it is opened
again, and both ends send what the other has not got.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from sandbox.errors import ConnectionLost, ProtocolError, SandboxError
from sandbox.guest import frames
from sandbox.text import clean

VERSION = 3
MAX_HEADER = 8 * 1024
WINDOW = 16 * 1024 * 1024
"""Bytes under way to the sandbox at which `send` waits for the other end to catch up."""
STALLED_SECONDS = 60.0
MAX_QUEUED = 64 * 1024 * 1024
"""Bytes that may wait in an inbox; no honest sandbox sends so much unasked."""
FRAME_COST = 512
PAUSES = (0.0, 0.2, 1.0, 3.0)
"""Seconds before each attempt to open a stream again."""
RECONNECTS = 5
"""Streams in a row that may end soon, without having carried anything new."""
SOON = 10.0
WELCOME_SECONDS = 20.0

Frame = frames.Frame


class ByteStream(Protocol):
    """What a backend's `connect` returns. `read` returns b"" at the end; all raise OSError when it is broken."""

    def read(self) -> bytes: ...

    def write(self, data: bytes) -> None: ...

    def close(self) -> None: ...


class Inbox:
    """Frames that wait to be taken, bounded in bytes: one thread puts them in, one takes them out."""

    def __init__(self, max_bytes: int = MAX_QUEUED) -> None:
        self._frames: queue.SimpleQueue[tuple[Frame, int]] = queue.SimpleQueue()
        self._max_bytes = max_bytes
        self._came = self._went = 0  # each written by one thread alone

    @property
    def waiting(self) -> int:
        """Bytes that wait, about."""
        return self._came - self._went

    def put(self, header: dict[str, Any], body: bytes = b"") -> None:
        """A frame from the sandbox. Raises ProtocolError when there is no room for it."""
        cost = len(body) + FRAME_COST
        self._came += cost
        if self.waiting > self._max_bytes:
            raise ProtocolError("the sandbox sent far more than was asked of it")
        self._frames.put(((header, body), cost))

    def tell(self, header: dict[str, Any]) -> None:
        """A frame of our own making; from any thread, and from a signal handler."""
        self._frames.put(((header, b""), 0))

    def get(self, timeout: float) -> Frame:
        """The next frame, or queue.Empty after `timeout` seconds."""
        frame, cost = self._frames.get(timeout=max(0.0, timeout))
        self._went += cost
        return frame

    def lose(self, reason: str) -> None:
        """Puts the last frame that there will be: `{"op": "lost"}`."""
        self.tell({"op": "lost", "reason": reason})


class Bridge:
    """Frames out with `send`, frames in through inboxes.

    `connect` opens the stream: it raises OSError when that may succeed later, and a SandboxError when it never will.
    `on_call` gets each frame of a call of a host function, `on_net` each frame of a network stream, on the reader's thread.
    """

    def __init__(
        self,
        connect: Callable[[], ByteStream],
        on_call: Callable[[dict[str, Any], bytes], None],
        *,
        on_net: Callable[[dict[str, Any], bytes], None] | None = None,
        max_queued: int = MAX_QUEUED,
    ) -> None:
        self._connect = connect
        self._on_call = on_call
        self._on_net = on_net
        self.events = Inbox(max_queued)
        """Frames about the kernel and its cells."""
        self._answers: dict[int, Inbox] = {}
        self._sequencer = frames.Sequencer()
        # entered itself, and not by way of the condition, whose own code Ctrl-C may end before it lets go of the lock
        self._lock = threading.Lock()
        self._progress = threading.Condition(self._lock)
        self._stream: ByteStream | None = None
        self._decoder = frames.Decoder()
        self._ended = threading.Event()
        self._lost: str | None = None
        self._thread = threading.Thread(target=self._read, name="sandbox-bridge", daemon=True)

    def open(self) -> None:
        """Connects and waits for the supervisor's welcome. Raises ConnectionLost or ProtocolError."""
        try:
            self._shake_hands()
        except OSError as error:
            raise ConnectionLost(f"the stream into the sandbox broke: {error}") from error
        self._thread.start()

    def send(self, header: dict[str, Any], body: bytes = b"") -> None:
        """Sends one frame. Raises ConnectionLost when the sandbox cannot be reached any more."""
        with self._lock:
            while self._sequencer.unacked_bytes > WINDOW and self._lost is None:
                if not self._progress.wait(STALLED_SECONDS):
                    self._lose("the sandbox takes nothing in any more")
            if self._lost is not None:
                raise ConnectionLost(self._lost)
            try:
                self._write(self._sequencer.wrap(header, body))
            except BaseException:  # Ctrl-C: it is counted as sent, and goes out whole on the next stream
                if self._stream is not None:
                    self._stream.close()
                raise

    @contextlib.contextmanager
    def answers(self, number: int) -> Iterator[Inbox]:
        """An inbox for the answers to a file operation."""
        inbox = self._answers[number] = Inbox(2 * MAX_QUEUED)
        if self._lost is not None:
            inbox.lose(self._lost)
        try:
            yield inbox
        finally:
            del self._answers[number]

    def close(self) -> None:
        """Ends the stream. Who waits for something from it is told so."""
        self._ended.set()
        with self._lock:
            self._lose("the sandbox was closed")
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(timeout=2)

    def _write(self, data: bytes) -> None:
        """Called with the lock held. What a broken stream did not take is sent again on the next one."""
        if self._stream is not None:
            try:
                self._stream.write(data)
            except OSError:
                self._stream.close()  # a part of a frame may be out: nothing may follow it; the reader sees the end

    def _shake_hands(self) -> None:
        """Opens a stream, exchanges what has been received, and sends what got lost."""
        stream = self._connect()
        try:
            early = self._greet(stream)
        except BaseException:
            stream.close()
            raise
        for header, body in early:
            self._take(header, body)

    def _greet(self, stream: ByteStream) -> list[Frame]:
        decoder = frames.Decoder(max_header=MAX_HEADER)
        stream.write(frames.encode({"op": "hello", "received": self._sequencer.received}))
        deadline = time.monotonic() + WELCOME_SECONDS
        early: list[Frame] = []
        while not early:
            data = stream.read()
            if not data or time.monotonic() > deadline:
                raise OSError("the supervisor in the sandbox does not answer")
            try:
                early.extend(decoder.feed(data))
            except frames.FrameError:  # not the supervisor: the engine says why there is none
                raise OSError(" ".join(clean(data[:500].decode("utf-8", "replace")).split())) from None
        welcome, _ = early.pop(0)
        if welcome.get("op") != "welcome" or welcome.get("version") != VERSION:
            raise ProtocolError("the sandbox image is of another version; build it: `codeact image build`")
        with self._lock:
            if self._lost is not None:
                raise ConnectionLost(self._lost)
            again = self._sequencer.resume(welcome.get("received"))
            self._decoder, self._stream = decoder, stream
            self._write(again)
        return early

    def _read(self) -> None:
        silent = 0
        while not self._ended.is_set():
            try:
                silent = 0 if self._read_stream() else silent + 1
                self._reconnect(silent)
            except Exception as error:  # noqa: BLE001 - whatever it is, who waits for this thread is told
                expected = isinstance(error, SandboxError | OSError)
                with self._lock:
                    self._lose(str(error) if expected else f"{type(error).__name__}: {error}")
                return

    def _read_stream(self) -> bool:
        """Reads until the stream ends; whether it lasted, or anything new came in."""
        heard = False
        started = time.monotonic()
        stream = self._stream
        while stream is not None:
            try:
                data = stream.read()
            except OSError:
                data = b""
            if not data:
                break
            for header, body in _decoded(self._decoder, data):
                heard = self._take(header, body) or heard
        return heard or time.monotonic() - started > SOON

    def _reconnect(self, silent: int) -> None:
        with self._lock:
            stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()
        if silent > RECONNECTS:
            raise ConnectionLost("the stream into the sandbox ends as soon as it is opened")
        reason: OSError | None = None
        for pause in PAUSES:
            if self._ended.wait(pause):
                return
            try:
                self._shake_hands()
                return
            except OSError as error:
                reason = error
        raise ConnectionLost(f"the stream into the sandbox could not be opened again: {reason}") from reason

    def _take(self, header: dict[str, Any], body: bytes) -> bool:
        """Puts a frame where it is waited for; whether it is new."""
        with self._lock:
            try:
                fresh = self._sequencer.accept(header, body)
            except frames.FrameError as error:
                raise ProtocolError(f"the sandbox sent a frame out of its turn: {error}") from error
            ack = self._sequencer.ack()
            if ack is not None:
                self._write(ack)
            self._progress.notify_all()
        if not fresh:
            return False
        match header.get("op"):
            case "call" | "part" | "more" | "room" | "cancel":
                self._on_call(header, body)
            case "file":
                number = header.get("file")
                inbox = self._answers.get(number) if type(number) is int else None
                if inbox is not None:
                    inbox.put(header, body)
            case "net":
                if self._on_net is not None:
                    self._on_net(header, body)
            case "ack":
                pass
            case _:
                self.events.put(header, body)
        return True

    def _lose(self, reason: str) -> None:
        """Called with the lock held; the first reason stays."""
        if self._lost is not None:
            return
        self._lost = reason
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()
        self._progress.notify_all()
        self.events.lose(reason)
        for inbox in list(self._answers.values()):
            inbox.lose(reason)


def _decoded(decoder: frames.Decoder, data: bytes) -> Iterator[Frame]:
    try:
        yield from decoder.feed(data)
    except frames.FrameError as error:
        raise ProtocolError(f"the sandbox sent what is not a frame: {error}") from error
