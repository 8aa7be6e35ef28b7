"""An MCP server for tests: `stdio`, or `streamable-http PORT`, or `sse PORT`."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any, Literal

from mcp.server.mcpserver import Context, Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations
from pydantic import BaseModel

server = MCPServer("test")


class Place(BaseModel):
    name: str
    lat: float


def find(name: str, kind: Literal["city", "river"] = "city") -> Place:
    """Finds a place."""
    return Place(name=f"{kind} {name}", lat=48.4)


def add(a: int, b: int) -> int:
    return a + b


def fail(secret: str) -> str:
    raise ToolError(f"no such thing: {secret}")


def words() -> Any:
    return '{"text": "stays text"}'


def picture() -> Any:
    return ["a dot", Image(data=b"\x89PNG", format="png")]


def environment(name: str) -> str | None:
    return os.environ.get(name)


def die() -> str:
    os._exit(3)


def pid() -> int:
    return os.getpid()


CANCELLED = asyncio.Event()


async def forever() -> str:
    try:
        await asyncio.Event().wait()
    finally:
        CANCELLED.set()
    return "never"


async def was_cancelled() -> bool:
    """Whether a call of `forever` was cancelled; waits for it."""
    await CANCELLED.wait()
    return True


async def count(context: Context[Any, Any], to: int) -> int:
    """Counts, and says how far it is."""
    for number in range(1, to + 1):
        await context.report_progress(number, to, f"at {number}")
    return to


async def header(context: Context[Any, Any], name: str) -> str:
    request: Any = context.request_context.request
    return str(request.headers.get(name))


server.add_tool(find, annotations=ToolAnnotations(read_only_hint=True))
server.add_tool(add)
server.add_tool(fail, annotations=ToolAnnotations(destructive_hint=True))
server.add_tool(words, structured_output=False)
server.add_tool(picture, structured_output=False)
server.add_tool(environment, name="class", annotations=ToolAnnotations(idempotent_hint=True))
server.add_tool(die)
server.add_tool(pid, annotations=ToolAnnotations(read_only_hint=True))
server.add_tool(header)
server.add_tool(forever)
server.add_tool(was_cancelled)
server.add_tool(count)

if __name__ == "__main__":
    print("a line on standard error", file=sys.stderr)
    if sys.argv[1] == "stdio":
        server.run("stdio")
    else:
        run: Any = server.run
        run(sys.argv[1], host="127.0.0.1", port=int(sys.argv[2]))
