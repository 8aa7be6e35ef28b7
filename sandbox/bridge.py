"""The host's end of the one stream into a sandbox. All that comes in is treated as hostile.

A reader thread takes frames in and puts them where they are waited for: what belongs to the running cell into one queue,
answers of the file operations into theirs, calls of host functions to their handler. When the stream ends it is opened
again, and both ends send what the other has not got.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

from sandbox.errors import ConnectionLost, ProtocolError, SandboxError
from sandbox.guest import frames

VERSION = 1
WINDOW = 16 * 1024 * 1024
"""Bytes under way to the sandbox at which `send` waits for the other end to catch up."""
RECONNECTS = 3
WELCOME_SECONDS = 20.0

Frame = frames.Frame


class ByteStream(Protocol):
    """What a backend's `connect` returns. `read` returns b"" at the end; all raise OSError when it is broken."""

    def read(self) -> bytes: ...

    def write(self, data: bytes) -> None: ...

    def close(self) -> None: ...


class Bridge:
    """Frames out with `send`, frames in through queues.

    `connect` opens the stream; `on_call` gets each call of a host function, on the reader's thread.
    """

    def __init__(self, connect: Callable[[], ByteStream], on_call: Callable[[dict[str, Any], bytes], None]) -> None:
        self._connect = connect
        self._on_call = on_call
        self.events: queue.Queue[Frame] = queue.Queue()
        """Frames about the kernel and its cells, and `{"op": "lost"}` as the last when the stream is gone for good."""
        self._answers: dict[int, queue.Queue[Frame]] = {}
        self._sequencer = frames.Sequencer()
        self._lock = threading.Lock()
        self._progress = threading.Condition(self._lock)
        self._stream: ByteStream | None = None
        self._closed = False
        self._lost: str | None = None
        self._thread = threading.Thread(target=self._read, name="sandbox-bridge", daemon=True)

    def open(self) -> None:
        """Connects and waits for the supervisor's welcome. Raises ConnectionLost or ProtocolError."""
        self._shake_hands()
        self._thread.start()

    def send(self, header: dict[str, Any], body: bytes = b"") -> None:
        """Sends one frame. Raises ConnectionLost when the sandbox cannot be reached any more."""
        with self._progress:
            while self._sequencer.unacked_bytes > WINDOW and not self._lost and not self._closed:
                if not self._progress.wait(timeout=60):
                    raise ConnectionLost("the sandbox takes nothing in any more; it is to be started again")
            if self._lost or self._closed:
                raise ConnectionLost(self._lost or "the sandbox is closed")
            frame = self._sequencer.wrap(header, body)
            stream = self._stream
            if stream is not None:
                with contextlib.suppress(OSError):  # the reader notices, connects again, and it is sent then
                    stream.write(frame)

    @contextlib.contextmanager
    def answers(self, number: int) -> Any:
        """A queue for the answers to a file operation."""
        answers = self._answers[number] = queue.Queue()
        try:
            yield answers
        finally:
            del self._answers[number]

    def close(self) -> None:
        with self._progress:
            self._closed = True
            stream, self._stream = self._stream, None
            self._progress.notify_all()
        if stream is not None:
            stream.close()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(timeout=2)

    def _shake_hands(self) -> None:
        """Opens a stream, exchanges what has been received, and sends what got lost."""
        stream = self._connect()
        decoder = frames.Decoder()
        try:
            stream.write(frames.encode({"op": "hello", "received": self._sequencer.received}))
            deadline = time.monotonic() + WELCOME_SECONDS
            early: list[Frame] = []
            while not early:
                data = stream.read()
                if not data or time.monotonic() > deadline:
                    raise ConnectionLost("the supervisor in the sandbox does not answer")
                early.extend(decoder.feed(data))
            welcome, _ = early.pop(0)
            if welcome.get("op") != "welcome" or welcome.get("version") != VERSION:
                raise ProtocolError("the sandbox image is of another version; build it: `codeact image build`")
            with self._lock:
                again = self._sequencer.resume(welcome.get("received"))
                self._decoder, self._stream = decoder, stream
                if again:
                    stream.write(again)
        except frames.FrameError as error:
            stream.close()
            raise ProtocolError(f"the sandbox sent what is not a frame: {error}") from error
        except OSError as error:
            stream.close()
            raise ConnectionLost(f"the stream into the sandbox broke: {error}") from error
        except SandboxError:
            stream.close()
            raise
        for header, body in early:
            self._take(header, body)

    def _read(self) -> None:
        failures = 0
        while not self._closed:
            try:
                failures = 0 if self._read_stream() else failures + 1
                self._reconnect(failures)
            except (ProtocolError, ConnectionLost) as error:
                self._lose(str(error))
                return

    def _read_stream(self) -> bool:
        """Reads until the stream ends; whether anything came in."""
        heard = False
        stream = self._stream
        while stream is not None:
            try:
                data = stream.read()
            except OSError:
                data = b""
            if not data:
                return heard
            heard = True
            try:
                for header, body in self._decoder.feed(data):
                    self._take(header, body)
            except frames.FrameError as error:
                raise ProtocolError(f"the sandbox sent what is not a frame: {error}") from error
        return heard

    def _reconnect(self, failures: int) -> None:
        with self._lock:
            stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()
        if self._closed:
            return
        if failures > RECONNECTS:
            raise ConnectionLost("the stream into the sandbox ends as soon as it is opened")
        self._shake_hands()

    def _take(self, header: dict[str, Any], body: bytes) -> None:
        with self._progress:
            fresh = self._sequencer.accept(header, body)
            ack = self._sequencer.ack()
            if ack is not None and self._stream is not None:
                with contextlib.suppress(OSError):
                    self._stream.write(ack)
            self._progress.notify_all()
        if not fresh:
            return
        match header.get("op"):
            case "call":
                self._on_call(header, body)
            case "file":
                number = header.get("file")
                waiting = self._answers.get(number) if type(number) is int else None
                if waiting is not None:
                    waiting.put((header, body))
            case "ack":
                pass
            case _:
                self.events.put((header, body))

    def _lose(self, reason: str) -> None:
        with self._progress:
            self._lost = reason
            stream, self._stream = self._stream, None
            self._progress.notify_all()
        if stream is not None:
            stream.close()
        lost: Frame = ({"op": "lost", "reason": reason}, b"")
        self.events.put(lost)
        for waiting in list(self._answers.values()):
            waiting.put(lost)
