"""Tools of MCP servers, over stdio, streamable HTTP and SSE, through the official `mcp` package."""

from __future__ import annotations

import asyncio
import atexit
import threading
from collections.abc import Coroutine, Iterator, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from codeact.errors import ToolSourceError
from codeact.tools.context import CURRENT
from codeact.tools.definitions import from_schema
from codeact.tools.mcp_config import Server, read_config
from codeact.tools.mcp_values import McpError, returned, unwrapped
from codeact.tools.names import identifier
from codeact.tools.tool import Effects, Policy, Tool

if TYPE_CHECKING:
    import mcp_types

    from codeact.tools.mcp_connection import Connection

T = TypeVar("T")

START_SECONDS = 30.0
CLOSE_SECONDS = 10.0
MAX_PAGES = 100


class McpServers:
    """The servers of an `mcpServers` file (or of its content), as an iterable of `Tool`s.

    They are started by `with`, or when the tools are first asked for, and stopped at the end of the `with` block, by
    `close()`, or when the program ends. A server that dies is started again once by the next call.
    """

    def __init__(self, config: str | Path | Mapping[str, Any]) -> None:
        """Reads the file, and starts nothing. Raises ToolSourceError where it cannot be used."""
        self._servers = read_config(config)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._connections: list[Connection] = []
        self._tools: list[Tool] = []
        self._starting = threading.Lock()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Tool]:
        self.start()
        return iter(self._tools)

    def start(self) -> None:
        """Starts all servers at once and lists their tools; another thread waits until that is done. Raises ToolSourceError,
        with none left running."""
        with self._starting:
            if self._loop is None:
                self._start_all()

    def _start_all(self) -> None:
        try:
            from codeact.tools.mcp_connection import Connection
        except ModuleNotFoundError as error:
            raise ToolSourceError("MCP servers need the package mcp: pip install 'codeact[mcp]'") from error
        self._connections = [Connection(each) for each in self._servers]
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="mcp-servers", daemon=True)
        self._thread.start()
        atexit.register(self.close)
        try:
            self._tools = self._do(self._start())
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        loop, self._loop = self._loop, None
        if loop is None or self._thread is None:
            return
        atexit.unregister(self.close)
        closing = asyncio.run_coroutine_threadsafe(self._close(), loop)
        try:
            closing.result(CLOSE_SECONDS)
        except TimeoutError:
            closing.cancel()
        loop.call_soon_threadsafe(loop.stop)
        self._thread.join(CLOSE_SECONDS)
        if not self._thread.is_alive():
            loop.close()

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        assert self._loop is not None
        future: Future[T] = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    async def _start(self) -> list[Tool]:
        outcomes = await asyncio.gather(
            *(self._listed(each) for each in self._connections), return_exceptions=True
        )
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        return [tool for tools in outcomes if isinstance(tools, list) for tool in tools]

    async def _close(self) -> None:
        await asyncio.gather(*(each.close() for each in self._connections), return_exceptions=True)
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _listed(self, connection: Connection) -> list[Tool]:
        name = connection.server.name
        try:
            async with asyncio.timeout(START_SECONDS):
                client = await connection.open()
                tools, cursor = [], None
                for _ in range(MAX_PAGES):
                    page = await client.list_tools(cursor=cursor)
                    tools += page.tools
                    if (cursor := page.next_cursor) is None:
                        break
        except TimeoutError as error:
            raise ToolSourceError(
                f"the MCP server {name} did not answer within {START_SECONDS:g} s{connection.last_words()}"
            ) from error
        except McpError as error:
            raise ToolSourceError(str(error)) from error
        except Exception as error:
            raise ToolSourceError(connection.told("cannot be used", error)) from error
        taken: list[str] = []
        for each in tools:
            taken.append(identifier(each.name, taken, "tool"))
        return [self._tool(connection, each, unique) for each, unique in zip(tools, taken, strict=True)]

    def _tool(self, connection: Connection, tool: mcp_types.Tool, name: str) -> Tool:
        policy = _policy(tool, connection.server)
        asked = unwrapped(tool.output_schema)

        async def call(**values: Any) -> Any:
            if (loop := self._loop) is None:
                raise McpError(
                    f"the MCP server {connection.server.name} was closed; make the call before its `with` block ends"
                )
            current = CURRENT.get(None)
            tell = current.progress if current is not None else lambda done, total, text: None
            work = connection.call(tool.name, values, tell, again=policy.idempotent)
            result = await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop))
            return returned(result, tool.output_schema)

        return from_schema(
            name,
            tool.input_schema,
            call,
            result=asked,
            namespace=identifier(connection.server.name, other="mcp"),
            description=tool.description or tool.title or "",
            policy=policy,
            errors=(McpError.__name__,),
            own_secrets=connection.server.secrets,
        )


def _policy(tool: mcp_types.Tool, server: Server) -> Policy:
    """By what the server says of the tool; one that says nothing writes."""
    said = tool.annotations
    effects: Effects = "write"
    if said is not None and said.read_only_hint:
        effects = "read"
    elif said is not None and said.destructive_hint:
        effects = "dangerous"
    idempotent = said is not None and bool(said.read_only_hint or said.idempotent_hint)
    return Policy(effects=effects, timeout=server.timeout, idempotent=idempotent)
