"""What there is in place of what failing code took for given."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from codeact.tools import prompt
from codeact.tools.tool import Tool
from sandbox import CellError, CellResult, Sandbox, SandboxError

MAX_FILES = 20
"""Named at most."""
MAX_NAME = 100
MAX_SHAPE = 400
"""Characters."""
_MISSING = re.compile(r"name '(\w+)' is not defined")


def hints(
    source: str, cell: CellResult, tools: Sequence[Tool], box: Sandbox, said: Mapping[str, str]
) -> Iterator[str]:
    """Lines for the model about a cell that failed: how to import a tool, which files there are, what a
    loop goes through, where `return` can stand."""
    match cell.error:
        case CellError("NameError", message) if missing := _MISSING.match(message):
            if lines := prompt.imports(tools, missing[1], source):
                yield said["not_imported"].format(name=missing[1], imports=lines)
        case CellError("FileNotFoundError") if cell.lost is None:
            yield _files(box, said)
        case CellError("SyntaxError", message) if "'return' outside function" in message:
            yield said["outside"]
        case CellError("TypeError", message) if message.startswith("string indices must be integers"):
            yield said["keys"]


def told(call: object, place: object, said: Mapping[str, str]) -> Iterator[str]:
    """The same, of what code in the sandbox said: what the last call gave, and where a key is."""
    match call:
        case [str() as tool, str() as gave]:
            yield said["gave"].format(tool=tool[:MAX_NAME], gave=gave[:MAX_SHAPE])
    match place:
        case [str() as key, str() as path]:
            yield said["place"].format(key=key[:MAX_NAME], path=path[:MAX_SHAPE])


def _files(box: Sandbox, said: Mapping[str, str]) -> str:
    try:
        names = [file.path for file in box.list("data")]
    except SandboxError:
        return ""
    more = f" and {len(names) - MAX_FILES} more" if len(names) > MAX_FILES else ""
    shown = ", ".join(f"data/{name[:MAX_NAME]}" for name in names[:MAX_FILES]) + more
    return said["files"].format(names=shown) if names else said["no_files"]
