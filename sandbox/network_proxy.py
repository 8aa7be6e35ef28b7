"""The host's end of a sandbox's network: streams that come over the bridge, each a connection to the proxy.

All of it runs on one thread of its own. A stream has a window in each direction, so that one that is slow, or never
read, holds up neither the others nor the cells; what a sandbox sends beyond its window ends that stream.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable
from typing import Any

from sandbox.bridge import Inbox
from sandbox.errors import SandboxError
from sandbox.guest.frames import MAX_STREAMS, STREAM_CHUNK, STREAM_WINDOW
from sandbox.network import Forbidden, Network
from sandbox.network_http import Exchange, Gate
from sandbox.types import Connection, size_text

QUEUED = 2 * MAX_STREAMS * STREAM_WINDOW
CLOSING_SECONDS = 2.0

Send = Callable[[dict[str, Any], bytes], None]


class Proxy:
    """An HTTP proxy for one sandbox: `take` gets the frames of its streams, `send` sends ours.

    `on_connection` gets each connection when it is over, on the proxy's thread; it must not raise or block.
    """

    def __init__(self, network: Network, send: Send, on_connection: Callable[[Connection], None]) -> None:
        self._network, self._send, self._on_connection = network, send, on_connection
        self._inbox = Inbox(QUEUED)
        self._streams: dict[int, BridgeStream] = {}
        self._asked = 0
        self._spent = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="sandbox-network", daemon=True)
        self._thread.start()

    def take(self, header: dict[str, Any], body: bytes) -> None:
        """A frame of a stream, from the bridge's thread. Raises ProtocolError where far more comes than may."""
        self._inbox.put(header, body)
        with contextlib.suppress(RuntimeError):  # closed: nobody waits for it
            self._loop.call_soon_threadsafe(self._hear)

    def end_connections(self) -> None:
        """Ends all connections, and returns when each has been told to `on_connection`."""
        with contextlib.suppress(RuntimeError, TimeoutError):
            asyncio.run_coroutine_threadsafe(self._end_all(), self._loop).result(CLOSING_SECONDS)

    def close(self) -> None:
        """Ends all connections, and the thread. May be called twice."""
        if self._thread.is_alive():
            self.end_connections()
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(CLOSING_SECONDS)

    def _run(self) -> None:
        try:
            self._loop.run_forever()
        finally:
            self._loop.close()

    async def _end_all(self) -> None:
        tasks = [stream.task for stream in self._streams.values() if stream.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _hear(self) -> None:
        """One frame from the sandbox: hostile; what makes no sense is passed over."""
        try:
            header, body = self._inbox.get(0)
        except queue.Empty:
            return
        number, do = header.get("stream"), header.get("do")
        if type(number) is not int:
            return
        stream = self._streams.get(number)
        if do == "open":
            if stream is None and len(self._streams) < MAX_STREAMS:
                self._open(number)
            else:
                self._tell({"op": "net", "stream": number, "do": "close"})
        elif stream is not None and not stream.hear(do, header, body) and stream.task is not None:
            stream.task.cancel()

    def _open(self, number: int) -> None:
        self._streams[number] = stream = BridgeStream(number, self._tell)
        stream.task = self._loop.create_task(self._serve(stream))

    async def _serve(self, stream: BridgeStream) -> None:
        self._asked += 1
        exchange = Exchange(self._network, stream, Gate(self._admit, self._spend))
        began = self._loop.time()
        whole = False
        try:
            whole = await exchange.run()
        finally:
            del self._streams[stream.number]
            self._tell({"op": "net", "stream": stream.number, "do": "end" if whole else "close"})
            if exchange.host:
                self._on_connection(exchange.told(self._loop.time() - began))

    def _admit(self) -> None:
        if self._asked > self._network.connections:
            raise Forbidden(
                f"refused: this sandbox has made its {self._network.connections:,} connections; ask for less,"
                " or several things on one connection"
            )
        self._spend(0)

    def _spend(self, count: int) -> None:
        self._spent += count
        limit = int(self._network.total_bytes)
        if self._spent > limit:
            raise Forbidden(
                f"refused: this sandbox has used up the {size_text(limit)} that all its connections may carry"
            )

    def _tell(self, header: dict[str, Any], body: bytes = b"") -> None:
        with contextlib.suppress(SandboxError):  # the sandbox has gone, and its streams go with it
            self._send(header, body)


class BridgeStream:
    """One stream: `read` what the code sends, `write` what it gets."""

    def __init__(self, number: int, tell: Callable[..., None]) -> None:
        self.number = number
        self.task: asyncio.Task[None] | None = None
        self._tell = tell
        self._incoming = asyncio.StreamReader()
        self._held = 0
        self._room = STREAM_WINDOW
        self._roomy = asyncio.Event()
        self._roomy.set()

    def hear(self, do: object, header: dict[str, Any], body: bytes) -> bool:
        """A frame of this stream; False where it has to end."""
        match do:
            case "data" if self._held + len(body) <= STREAM_WINDOW and not self._incoming.at_eof():
                self._held += len(body)
                with contextlib.suppress(AssertionError):  # data behind its own end
                    self._incoming.feed_data(body)
            case "end":
                self._incoming.feed_eof()
            case "room":
                count = header.get("bytes")
                if type(count) is not int or not 0 < count <= STREAM_WINDOW - self._room:
                    return False
                self._room += count
                self._roomy.set()
            case _:
                return False
        return True

    async def read(self) -> bytes:
        """Some bytes, or none at the end."""
        data = await self._incoming.read(STREAM_CHUNK)
        if data:
            self._held -= len(data)
            self._tell({"op": "net", "stream": self.number, "do": "room", "bytes": len(data)})
        return data

    async def write(self, data: bytes) -> None:
        """Sends all of it; waits while the code does not take it."""
        view = memoryview(data)
        while view:
            await self._roomy.wait()
            piece = view[: min(self._room, STREAM_CHUNK)]
            self._room -= len(piece)
            if self._room == 0:
                self._roomy.clear()
            self._tell({"op": "net", "stream": self.number, "do": "data"}, bytes(piece))
            view = view[len(piece) :]
            await asyncio.sleep(0)  # the other streams have their turn
