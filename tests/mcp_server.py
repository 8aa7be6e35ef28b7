"""An MCP server for tests: `stdio`, or `streamable-http PORT`, or `sse PORT`."""

from __future__ import annotations

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


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def find(name: str, kind: Literal["city", "river"] = "city") -> Place:
    """Finds a place."""
    return Place(name=f"{kind} {name}", lat=48.4)


@server.tool()
def add(a: int, b: int) -> int:
    return a + b


@server.tool(annotations=ToolAnnotations(destructive_hint=True))
def fail(secret: str) -> str:
    raise ToolError(f"no such thing: {secret}")


@server.tool(structured_output=False)
def words() -> Any:
    return '{"text": "stays text"}'


@server.tool(structured_output=False)
def picture() -> Any:
    return ["a dot", Image(data=b"\x89PNG", format="png")]


@server.tool(name="class", annotations=ToolAnnotations(idempotent_hint=True))
def environment(name: str) -> str | None:
    return os.environ.get(name)


@server.tool()
def die() -> str:
    os._exit(3)


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def pid() -> int:
    return os.getpid()


@server.tool()
async def header(context: Context[Any, Any], name: str) -> str:
    request: Any = context.request_context.request
    return str(request.headers.get(name))


if __name__ == "__main__":
    print("a line on standard error", file=sys.stderr)
    if sys.argv[1] == "stdio":
        server.run("stdio")
    else:
        server.run(sys.argv[1], host="127.0.0.1", port=int(sys.argv[2]))  # type: ignore[call-overload]
