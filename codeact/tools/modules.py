"""The modules by which code in the sandbox finds tools, and what the prompt says of them."""

from __future__ import annotations

from collections.abc import Sequence

from codeact.tools.tool import Tool

MAX_LINE = 160


def modules(tools: Sequence[Tool]) -> dict[str, str]:
    """Python source by path, below the folder that code imports from. All that comes from tools stands in it as text."""
    spaces: dict[str, list[str]] = {}
    for tool in tools:
        parts = tool.namespace.split(".") if tool.namespace else []
        for depth in range(len(parts) + 1):
            spaces.setdefault("/".join(["tools", *parts[:depth]]), [])
        spaces["/".join(["tools", *parts])].append(_line(tool))
    head = "from codeact_inside.calling import ToolError, error as _error, function as _function\n"
    names = "".join(
        f"{name} = _error({name!r})\n"
        for name in ("ArgumentError", "CallCancelled", "CallRefused", "ToolTimeout", "UnknownTool")
    )
    return {f"{place}/__init__.py": head + names + "".join(lines) for place, lines in spaces.items()}


def _line(tool: Tool) -> str:
    positional = [each.name for each in tool.parameters if each.kind in ("positional", "normal")]
    rest = next((each.name for each in tool.parameters if each.kind == "rest"), "")
    texts = ", ".join(map(ascii, (tool.path, tool.signature, positional, rest, tool.description)))
    return f"{tool.name} = _function({texts})\n"


def described(tools: Sequence[Tool]) -> str:
    """Each tool as a line of the prompt."""
    return "\n".join(f"  from {_module(tool)} import {tool.name}  # {_said(tool)}" for tool in tools)


def _module(tool: Tool) -> str:
    return f"tools.{tool.namespace}" if tool.namespace else "tools"


def _said(tool: Tool) -> str:
    first = " ".join(tool.description.split("\n\n")[0].split())
    text = f"{tool.signature}: {first}" if first else tool.signature
    return text if len(text) <= MAX_LINE else f"{text[:MAX_LINE]}..."
