"""What a call of a tool can raise, whatever the tool."""

from __future__ import annotations

import builtins
import functools
from typing import Any


class ToolError(Exception):
    """A call of a tool failed; each tool's own errors are classes of this one."""

    def __str__(self) -> str:  # that of KeyError, which some are as well, would quote the message
        return str(self.args[0]) if self.args else ""


class UnknownTool(ToolError):
    """There is no such tool, or it is turned off."""


class ArgumentError(ToolError, TypeError):
    """An argument is unknown, missing or wrong; the message says which and how to write it."""


class CallRefused(ToolError, PermissionError):
    """The call is not allowed: by policy, by a budget, or by a person, whose reason the message gives."""


class ToolTimeout(ToolError, TimeoutError):
    """The tool took longer than it may."""


class CallCancelled(ToolError):
    """The cell that made the call has ended or was interrupted."""


class TooLarge(ToolError, ValueError):
    """An argument or a result is larger than what one call can carry."""


class ToolErrors(ExceptionGroup[Exception]):
    """Some calls of a `map` failed. `results` has a result, or the error in its place, for each item in order."""

    results: list[Any]

    def derive(self, excs: Any) -> ToolErrors:  # type: ignore[override]
        made = ToolErrors(self.message, excs)
        made.results = self.results
        return made


KINDS: dict[str, type[ToolError]] = {
    each.__name__: each
    for each in (ToolError, UnknownTool, ArgumentError, CallRefused, ToolTimeout, CallCancelled, TooLarge)
}
_SAME = {
    "BadArgument": ArgumentError,
    "CellEnded": CallCancelled,
    "TooMany": CallRefused,
    "UnknownFunction": UnknownTool,
}


@functools.cache
def error_class(kind: str) -> type[ToolError]:
    """The class for an error of the host by its name. One that Python has too can be caught as that as well."""
    found = KINDS.get(kind) or _SAME.get(kind)
    if found is not None:
        return found
    if not kind.isidentifier() or len(kind) > 100:
        return ToolError
    builtin = getattr(builtins, kind, None)
    try:
        if isinstance(builtin, type) and issubclass(builtin, Exception):
            made = type(kind, (_Named, builtin), {"__module__": "tools"})
            made("tried")
            return made
    except TypeError:  # such as UnicodeDecodeError, which takes five arguments
        pass
    return type(kind, (_Named,), {"__module__": "tools"})


class _Named(ToolError):
    """An error whose class is known by its name alone, also to another process of the cell."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (type(self).__name__, str(self))


def _again(kind: str, message: str) -> ToolError:
    return error_class(kind)(message)
