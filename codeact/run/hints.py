"""What there is in place of what failing code took for given."""

from __future__ import annotations

import difflib
import re
import typing
from collections.abc import Iterator, Mapping, Sequence

from codeact.tools import prompt
from codeact.tools.tool import Tool
from sandbox import CellError, CellResult, Sandbox, SandboxError

MAX_FILES = 20
"""Named at most."""
MAX_NAME = 100
MAX_SHAPE = 400
"""Characters."""
MAX_TOOLS = 40
MAX_NEAR = 3
_NO_TOOL = re.compile(
    r"(?:cannot import name |module 'tools[\w.]*' has no attribute |^tools has no )'(\w+)'(?! from '(?!tools))"
)
_TWICE = re.compile(r"keyword argument repeated: (\w+)")
_MISSING = re.compile(r"name '(\w+)' is not defined")


def hints(
    source: str, cell: CellResult, tools: Sequence[Tool], box: Sandbox, said: Mapping[str, str]
) -> Iterator[str]:
    """Lines for the model about a cell that failed: how to import a name, which tools and files there are, where `return` can
    stand, how many values a parameter takes."""
    match cell.error:
        case CellError("NameError", message) if missing := _MISSING.match(message):
            if lines := prompt.imports(tools, missing[1], source):
                yield said["not_imported"].format(name=missing[1], imports=lines)
            elif missing[1] in typing.__all__:  # signatures of tools are written with them
                yield said["of_typing"].format(name=missing[1])
            elif tools:
                yield _no_tool(missing[1], tools, said, called=f"{missing[1]}(" in source)
        case CellError("ImportError" | "AttributeError", message) if tools and (
            missing := _NO_TOOL.search(message)
        ):
            yield _no_tool(missing[1], tools, said)
        case CellError("FileNotFoundError") if cell.lost is None:
            yield _files(box, tools, said)
        case CellError("SyntaxError", message) if "'return' outside function" in message:
            yield said["outside"]
        case CellError("SyntaxError", message) if twice := _TWICE.match(message):
            yield said["twice"].format(name=twice[1])


def _no_tool(name: str, tools: Sequence[Tool], said: Mapping[str, str], *, called: bool = True) -> str:
    """Those with a name like it, as they are called; where there are none, and it was `called`, all, or how to find one."""
    near = difflib.get_close_matches(name, [tool.name for tool in tools], n=MAX_NEAR)
    alike = [_called(tool) for each in near for tool in tools if tool.name == each]
    if alike or (called and len(tools) <= MAX_TOOLS):
        known = alike or [tool.path for tool in tools]
        return said["no_tool"].format(name=name, known="; ".join(dict.fromkeys(known)))
    return said["no_tool_like"].format(name=name) if called else ""


def _called(tool: Tool) -> str:
    return f"{tool.namespace}.{tool.signature}" if tool.namespace else tool.signature


def told(found: Mapping[str, object], said: Mapping[str, str]) -> Iterator[str]:
    """The same, of what code in the sandbox said: what the last call gave, where a key is, what a variable is not."""
    match found.get("call"):
        case [str() as tool, str() as gave]:
            yield said["gave"].format(tool=tool[:MAX_NAME], gave=gave[:MAX_SHAPE])
    match found.get("place"):
        case [str() as key, str() as path]:
            yield said["place"].format(key=key[:MAX_NAME], path=path[:MAX_SHAPE])
    match found.get("misread"):
        case [str() as name, ("text" | "key" | "dict" | "list" | "none") as kind, str() as meant]:
            yield said[f"is_{kind}"].format(name=name[:MAX_NAME], meant=meant[:MAX_SHAPE])


def _files(box: Sandbox, tools: Sequence[Tool], said: Mapping[str, str]) -> str:
    try:
        names = [file.path for file in box.list("data")]
    except SandboxError:
        return ""
    more = f" and {len(names) - MAX_FILES} more" if len(names) > MAX_FILES else ""
    shown = ", ".join(f"data/{name[:MAX_NAME]}" for name in names[:MAX_FILES]) + more
    if not names and 0 < len(tools) <= MAX_TOOLS:
        return said["no_files_but_tools"].format(known=", ".join(tool.path for tool in tools))
    return said["files"].format(names=shown) if names else said["no_files"]
