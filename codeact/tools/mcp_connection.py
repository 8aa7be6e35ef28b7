"""One MCP server: its process or session, started when it is needed, and again when it died."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TextIO

import httpx2
from mcp import Client, MCPError, StdioServerParameters, stdio_client
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CONNECTION_CLOSED, CallToolResult
from pydantic import ValidationError

from codeact.tools.mcp_config import Server
from codeact.tools.mcp_values import McpError

for _name in ("mcp", "client"):  # the loggers of the package: else its tracebacks would be the user's to read
    logging.getLogger(_name).addHandler(logging.NullHandler())
CONNECT_SECONDS = 10.0
START_SECONDS = 30.0
MAX_WORDS = 4000
MAX_STRAY = 200


class Connection:
    """All of it runs in one event loop. A task of its own holds the client open, as the package asks for."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._words = _Words()
        self._stray = ""
        self._lock = asyncio.Lock()
        self._client: Client | None = None
        self._holder: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()
        self._ready: asyncio.Future[Client] | None = None

    async def open(self) -> Client:
        """The client, which is connected anew where it is not connected. Raises McpError."""
        async with self._lock:
            if self._client is not None:
                return self._client
            await self._end()
            self._stop, self._stray = asyncio.Event(), ""
            ready: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
            self._ready = ready
            self._holder = asyncio.create_task(self._hold(ready))
            try:
                async with asyncio.timeout(START_SECONDS):
                    self._client = await asyncio.shield(ready)
            except TimeoutError:
                await self._end()
                raise McpError(
                    f"the MCP server {self.server.name} did not answer within {START_SECONDS:g} s{self.last_words()}",
                    transient=True,
                ) from None
            return self._client

    async def close(self) -> None:
        await self._end()

    async def call(
        self,
        name: str,
        values: dict[str, Any],
        tell: Callable[[float, float | None, str], None],
        *,
        again: bool,
    ) -> CallToolResult:
        """Where the connection breaks under way, the call is made once more if that does no harm. `tell` gets the
        progress that the server reports. Raises McpError."""

        async def told(progress: float, total: float | None, message: str | None) -> None:
            tell(progress, total, message or "")

        for attempt in (1, 2):
            client = await self.open()
            try:
                return await client.call_tool(name, values, progress_callback=told)
            except Exception as error:  # noqa: BLE001 - servers fail in any way; each becomes one line
                cause = _cause(error)
                unsent = _is_unsent(cause)
                if not (unsent or _is_broken(cause)):
                    raise McpError(self._said(cause)) from None
                if self._client is client:
                    self._client = None
                if attempt == 2 or not (unsent or again):
                    raise McpError(
                        self.told("broke off; whether the call took effect is not known", cause),
                        transient=True,
                    ) from None
        raise AssertionError("unreachable")

    def told(self, what: str, error: BaseException) -> str:
        cause = _cause(error)
        text = self.server.without_secrets(f"{type(cause).__name__}: {self._said(cause)}")
        return f"the MCP server {self.server.name} {what}: {text}{self.last_words()}"

    def last_words(self) -> str:
        """The end of what it wrote to its standard error, and what it wrote where its messages belong."""
        last = self.server.without_secrets(self._words.last())
        stray = self.server.without_secrets(self._stray)
        said = f"; it said: {last}" if last else ""
        return said + (f"; on its standard output came what is no message of MCP: {stray}" if stray else "")

    def _said(self, error: BaseException) -> str:
        text = error.message if isinstance(error, MCPError) else str(error)
        return self.server.without_secrets(text or type(error).__name__)

    async def _end(self) -> None:
        self._client = None
        self._stop.set()
        holder, self._holder = self._holder, None
        if holder is not None:
            if self._ready is not None and not self._ready.done():
                holder.cancel()  # it waits for the server's first words, not for the stop
            await asyncio.wait([holder])

    async def _hold(self, ready: asyncio.Future[Client]) -> None:
        try:
            async with Client(self._transport(), cache=None) as client:
                if not ready.done():
                    ready.set_result(client)
                await self._stop.wait()
        except Exception as error:  # noqa: BLE001 - whatever goes wrong at the start is told; later, calls tell
            await asyncio.to_thread(self._words.wait)
            if not ready.done():
                ready.set_exception(
                    McpError(
                        self.told("does not start" if self.server.command else "cannot be reached", error),
                        transient=True,
                    )
                )
        finally:
            self._client = None

    @asynccontextmanager
    async def _transport(self) -> AsyncIterator[Any]:
        """The two streams to the server; where the server closes its one, the next call starts it again."""
        async with self._streams() as (read, write):
            yield _Watched(read, self._ended, self._heard), write

    def _ended(self) -> None:
        self._client = None

    def _heard(self, error: Exception) -> None:
        if isinstance(error, ValidationError) and self.server.transport == "stdio":
            first = error.errors(include_url=False)[0]
            self._stray = str(first["input"])[:MAX_STRAY]

    @asynccontextmanager
    async def _streams(self) -> AsyncIterator[Any]:
        server = self.server
        match server.transport:
            case "stdio":
                asked = StdioServerParameters(
                    command=server.command, args=list(server.args), env=dict(server.env), cwd=server.cwd
                )
                with self._words.pipe() as words:
                    async with stdio_client(asked, errlog=words) as streams:
                        yield streams
            case "http":
                timeout = httpx2.Timeout(CONNECT_SECONDS, read=None)
                async with (
                    httpx2.AsyncClient(headers=dict(server.headers), timeout=timeout) as http,
                    streamable_http_client(server.url, http_client=http) as streams,
                ):
                    yield streams
            case "sse":
                async with sse_client(server.url, headers=dict(server.headers)) as streams:
                    yield streams


class _Watched:
    """A stream that tells when it ends, and of what came that is no message."""

    def __init__(self, stream: Any, ended: Callable[[], None], heard: Callable[[Exception], None]) -> None:
        self._stream, self._ended, self._heard = stream, ended, heard

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __aiter__(self) -> _Watched:
        return self

    async def __anext__(self) -> Any:
        try:
            item = await self._stream.__anext__()
        except StopAsyncIteration:
            self._ended()
            raise
        if isinstance(item, Exception):
            self._heard(item)
        return item

    async def __aenter__(self) -> _Watched:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> Any:
        return await self._stream.__aexit__(*error)


class _Words:
    """What a process writes to its standard error: read, so that it never waits, and only the end kept."""

    def __init__(self) -> None:
        self._kept = b""
        self._reader: threading.Thread | None = None

    def pipe(self) -> TextIO:
        reading, writing = os.pipe()
        self._kept = b""
        self._reader = threading.Thread(target=self._read, args=(reading,), name="mcp-stderr", daemon=True)
        self._reader.start()
        return os.fdopen(writing, "w")

    def wait(self) -> None:
        """Until the process has closed it, for a moment."""
        if self._reader is not None:
            self._reader.join(1.0)

    def last(self) -> str:
        lines = self._kept.decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else ""

    def _read(self, descriptor: int) -> None:
        with open(descriptor, "rb", buffering=0) as stream:
            while chunk := stream.read(65536):
                self._kept = (self._kept + chunk)[-MAX_WORDS:]


def _cause(error: BaseException) -> BaseException:
    """The first error in a group of errors."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _is_unsent(error: BaseException) -> bool:
    """Whether the call cannot have reached the server."""
    if isinstance(error, MCPError):
        return bool(error.message == "Session terminated")
    return isinstance(error, (httpx2.ConnectError, httpx2.ConnectTimeout))


def _is_broken(error: BaseException) -> bool:
    if isinstance(error, MCPError):
        return bool(error.code == CONNECTION_CLOSED)
    return isinstance(error, (httpx2.TransportError, OSError, RuntimeError))
