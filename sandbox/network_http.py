"""One connection to the proxy: an HTTP request read, checked, and carried out.

HTTPS goes through as it is (CONNECT): what is inside is between the code and the server. Plain HTTP is one request for
each connection, taken apart and put together again by h11 in both directions, so that what is checked is what is sent.
"""

from __future__ import annotations

import asyncio
import re
import socket
import threading
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Protocol

import h11

from sandbox.network import Forbidden, Network
from sandbox.text import clean
from sandbox.types import Connection, Outcome, size_text

MAX_HEAD = 64 * 1024
MAX_HOST = 253
"""Characters that a name of the DNS has; a longer one is told cut."""
HEAD_SECONDS = 30.0
"""For a request to come in whole."""
IDLE_SECONDS = 300.0
"""Without a byte in either direction, after which a connection is closed: mostly one that a program keeps for later."""
CLOSING_SECONDS = 15.0
"""The same when the code has said that it sends no more: it may have gone."""
READ = 64 * 1024
DIALLING = threading.BoundedSemaphore(64)
"""Names may take a system half a minute to resolve; who has gone in the meantime must not leave threads without end."""

_TARGET = re.compile(r"http://([^/?#@\\]+)([/?][^#]*)?", re.IGNORECASE)
_AUTHORITY = re.compile(r"(.*?)(?::(\d{1,5}))?", re.DOTALL)
_HOP_BY_HOP = frozenset(
    b"connection proxy-connection proxy-authorization proxy-authenticate keep-alive te trailer upgrade host".split()
)
_BAD_REQUEST = (
    "this is a proxy for HTTP: it takes CONNECT host:443, and requests such as GET http://host/path"
)


class Stream(Protocol):
    async def read(self) -> bytes: ...

    async def write(self, data: bytes) -> None: ...


class BadRequest(Exception):
    """Not a request that an HTTP proxy can be asked."""


class Cut(Exception):
    """A limit of this connection was reached."""


@dataclass(frozen=True, slots=True)
class Gate:
    """What all connections of a sandbox share: both raise Forbidden where there is no more to be had."""

    admit: Callable[[], None]
    spend: Callable[[int], None]


class Exchange:
    """One request and what comes of it."""

    def __init__(self, network: Network, stream: Stream, gate: Gate) -> None:
        self._network, self._stream, self._gate = network, stream, gate
        self._server = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD)
        self._clock: asyncio.Timeout | None = None
        self._deadline = 0.0
        self._idle = HEAD_SECONDS
        self.host, self.port = "", 0
        self._outcome: Outcome = "closed"
        self._reason = ""
        self._sent = self._received = 0

    def told(self, seconds: float) -> Connection:
        return Connection(
            self.host[:MAX_HOST], self.port, self._outcome, self._reason, self._sent, self._received, seconds
        )

    async def run(self) -> bool:
        """Serves the request; whether all that was to be sent was sent."""
        self._deadline = asyncio.get_running_loop().time() + self._network.seconds
        try:
            async with asyncio.timeout(None) as self._clock:
                self._touch()
                return await self._serve()
        except TimeoutError as error:
            if (
                self._clock is None or not self._clock.expired()
            ):  # of a connection that was not made, and no clock of ours
                return await self._failed(error)
            if asyncio.get_running_loop().time() >= self._deadline:
                self._end("cut", f"it lasted longer than {self._network.seconds:g} seconds")
            else:
                self._end("closed", f"no byte went over it for {self._idle:g} seconds")
            return False
        except Forbidden as refusal:
            self._end("cut" if self._answered else "refused", str(refusal))
            return await self._answer(403)
        except Cut as cut:
            self._end("cut", str(cut))
            return False
        except (BadRequest, h11.ProtocolError) as error:
            self._end("failed", str(error) if isinstance(error, BadRequest) else _BAD_REQUEST)
            return await self._answer(400)
        except OSError as error:
            return await self._failed(error)

    async def _failed(self, error: OSError) -> bool:
        reason = error.strerror or str(error) or type(error).__name__
        reached = self._answered or self._sent + self._received
        what = "was reached, and failed" if reached else "could not be reached"
        self._end("failed", f"{self.host} {what}: {_ascii(reason)}")
        return await self._answer(502)

    async def _serve(self) -> bool:
        request = await self._request()
        if request is None:
            return True
        tunnel = request.method == b"CONNECT"
        text = request.target.decode("utf-8", "replace")
        self.host, self.port, path = _authority(text, 443) if tunnel else _absolute(text)
        self._gate.admit()
        self.host = self._network.check(self.host, self.port)
        link = await dial(lambda: self._network.dial(self.host, self.port))
        reader, writer = await asyncio.open_connection(sock=link)
        upstream = Upstream(reader, writer, self._count)
        self._idle = IDLE_SECONDS
        try:
            if tunnel:
                ok = h11.Response(status_code=200, headers=[], reason=b"Connection established")
                await self._say(ok)
                await self._both(self._tunnel_up(upstream), self._tunnel_down(upstream))
            else:
                client = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD)
                upload = self._upload(request, path, client, upstream)
                await self._both(upload, self._download(client, upstream))
            return True
        finally:
            writer.transport.abort()

    async def _request(self) -> h11.Request | None:
        """The request's head, or None where the code closed before it asked."""
        asked = False
        while True:
            event = self._server.next_event()
            if isinstance(event, h11.Request):
                return event
            if event is not h11.NEED_DATA:
                raise BadRequest(_BAD_REQUEST)
            data = await self._stream.read()
            if not data and not asked:
                return None
            asked = True
            self._server.receive_data(data)

    async def _both(self, up: Coroutine[Any, Any, None], down: Coroutine[Any, Any, None]) -> None:
        """Both directions until the server has said all, or one of them fails."""
        tasks = [asyncio.ensure_future(up), asyncio.ensure_future(down)]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if not tasks[1].done() and tasks[0].exception() is None:
                await asyncio.wait(tasks[1:])
            for task in reversed(
                tasks
            ):  # what the server said goes before what became of the code's own words
                if task.done():
                    task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    # -- HTTPS -----------------------------------------------------------------------------------------------------

    async def _tunnel_up(self, upstream: Upstream) -> None:
        early, _ = self._server.trailing_data
        if early:
            await upstream.write(early)
        while data := await self._stream.read():
            await upstream.write(data)
        self._idle = CLOSING_SECONDS
        self._touch()
        upstream.end()

    async def _tunnel_down(self, upstream: Upstream) -> None:
        while data := await upstream.read():
            await self._stream.write(data)

    # -- plain HTTP ------------------------------------------------------------------------------------------------

    async def _upload(
        self, request: h11.Request, path: str, client: h11.Connection, upstream: Upstream
    ) -> None:
        port = "" if self.port == 80 else f":{self.port}"
        headers = [(b"Host", f"{self.host}{port}".encode()), *_end_to_end(request.headers), _CLOSE]
        await upstream.write(
            client.send(h11.Request(method=request.method, target=path.encode(), headers=headers))
        )
        while True:
            event = self._server.next_event()
            if event is h11.NEED_DATA:
                self._server.receive_data(await self._stream.read())
            elif isinstance(event, h11.Data | h11.EndOfMessage):
                await upstream.write(client.send(event) or b"")
                if isinstance(event, h11.EndOfMessage):
                    return
            else:
                return

    async def _download(self, client: h11.Connection, upstream: Upstream) -> None:
        while True:
            try:
                event = client.next_event()
            except h11.RemoteProtocolError:
                raise OSError("it closed early, or answered with what is not HTTP") from None
            if event is h11.NEED_DATA:
                client.receive_data(await upstream.read())
            elif isinstance(event, h11.InformationalResponse):
                if event.status_code != 101:
                    await self._say(event)
            elif isinstance(event, h11.Response):
                headers = [*_end_to_end(event.headers), _CLOSE]
                await self._say(
                    h11.Response(status_code=event.status_code, headers=headers, reason=event.reason)
                )
            elif isinstance(event, h11.Data | h11.EndOfMessage):
                await self._say(event)
                if isinstance(event, h11.EndOfMessage):
                    return
            else:
                return

    # -- what is said, and what is counted -------------------------------------------------------------------------

    @property
    def _answered(self) -> bool:
        return self._server.our_state not in (h11.IDLE, h11.SEND_RESPONSE)

    async def _say(self, event: h11.Event) -> None:
        if data := self._server.send(event):
            await self._stream.write(data)

    async def _answer(self, status: int) -> bool:
        """The reason as the status line's own words: it is what urllib, requests, httpx and pip show."""
        if self._answered:
            return False
        body = self._reason.encode() + b"\n"
        size = str(len(body)).encode()
        headers = [(b"Content-Type", b"text/plain"), (b"Content-Length", size), _CLOSE]
        reason = self._reason.encode()
        try:
            async with asyncio.timeout(HEAD_SECONDS):
                await self._say(h11.Response(status_code=status, headers=headers, reason=reason))
                await self._say(h11.Data(data=body))
                await self._say(h11.EndOfMessage())
        except TimeoutError:
            return False
        except (
            h11.LocalProtocolError
        ):  # such as a request that broke in the middle: a plain line, and the end
            head = f"HTTP/1.1 {status} {self._reason}\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
            await self._stream.write(head.encode() + body)
        return True

    def _end(self, outcome: Outcome, reason: str) -> None:
        self._outcome, self._reason = outcome, _ascii(reason)

    def _count(self, sent: int, received: int) -> None:
        self._sent += sent
        self._received += received
        self._touch()
        self._gate.spend(sent + received)
        limit = int(self._network.connection_bytes)
        if self._sent + self._received > limit:
            raise Cut(f"it carried more than the {size_text(limit)} that one connection may")

    def _touch(self) -> None:
        now = asyncio.get_running_loop().time()
        if self._clock is not None and not self._clock.expired():
            self._clock.reschedule(min(self._deadline, now + self._idle))


class Upstream:
    """The connection to the server; what goes over it is counted before it goes on."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, count: Callable[[int, int], None]
    ) -> None:
        self._reader, self._writer, self._count = reader, writer, count

    async def read(self) -> bytes:
        data = await self._reader.read(READ)
        self._count(0, len(data))
        return data

    async def write(self, data: bytes) -> None:
        self._count(len(data), 0)
        self._writer.write(data)
        await self._writer.drain()

    def end(self) -> None:
        if self._writer.can_write_eof():
            self._writer.write_eof()


_CLOSE = (b"Connection", b"close")


def _end_to_end(headers: Any) -> list[tuple[bytes, bytes]]:
    """Headers that are for the other end, and not for the connection to the proxy."""
    named = {
        word.strip().lower() for name, value in headers if name == b"connection" for word in value.split(b",")
    }
    framing = {b"content-length", b"transfer-encoding"}
    dropped = _HOP_BY_HOP | (named - framing)
    return [(name, value) for name, value in headers.raw_items() if name.lower() not in dropped]


def _authority(text: str, port: int) -> tuple[str, int, str]:
    found = _AUTHORITY.fullmatch(text)
    if not found or not found[1]:
        raise BadRequest(_BAD_REQUEST)
    number = int(found[2]) if found[2] else port
    if not 0 < number < 65536:
        raise BadRequest(f"{number} is no port")
    return found[1], number, ""


def _absolute(text: str) -> tuple[str, int, str]:
    """`http://host:port/path?query` → its parts. Raises BadRequest."""
    found = _TARGET.fullmatch(text)
    if not found:
        raise BadRequest(_BAD_REQUEST)
    host, port, _ = _authority(found[1], 80)
    path = found[2] or "/"
    return host, port, path if path.startswith("/") else f"/{path}"


def _ascii(text: str) -> str:
    return " ".join(clean(text).encode("ascii", "replace").decode().split())[:1000]


def dial(connect: Callable[[], socket.socket]) -> Awaitable[socket.socket]:
    """`connect()` on a thread of its own, which no one waits for when the program ends."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[socket.socket] = loop.create_future()
    if not DIALLING.acquire(blocking=False):
        future.set_exception(OSError("too many connections are being opened"))
        return future

    def deliver(link: socket.socket | None, error: BaseException | None) -> None:
        if future.cancelled():
            if link is not None:
                link.close()
        elif error is not None:
            future.set_exception(error)
        elif link is not None:
            link.setblocking(False)
            future.set_result(link)

    def work() -> None:
        link: socket.socket | None = None
        error: BaseException | None = None
        try:
            link = connect()
        except Exception as problem:  # noqa: BLE001 - it is raised where the connection is waited for
            error = problem
        finally:
            DIALLING.release()
        try:
            loop.call_soon_threadsafe(deliver, link, error)
        except RuntimeError:  # the sandbox was closed in the meantime
            if link is not None:
                link.close()

    threading.Thread(target=work, name="sandbox-dial", daemon=True).start()
    return future
