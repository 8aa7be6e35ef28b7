"""Calls tools of the host from code in the sandbox."""

from __future__ import annotations

import builtins
import inspect
from collections.abc import Callable, Iterator
from typing import Any

from sandbox_guest.host import HostCallError, call


class ToolError(Exception):
    """A call of a tool failed. The tool's own errors are classes of that name, and of the built-in one where there is one."""


_KINDS: dict[str, type[ToolError]] = {}


def error(name: str) -> type[ToolError]:
    """The class for errors of that name."""
    if name not in _KINDS:
        known: Any = getattr(builtins, name, None)
        own = isinstance(known, type) and issubclass(known, Exception)
        try:
            _KINDS[name] = type(name, (ToolError, known) if own else (ToolError,), {"__str__": _words})
        except TypeError:  # a built-in one that cannot be combined
            _KINDS[name] = type(name, (ToolError,), {})
    return _KINDS[name]


def _words(self: BaseException) -> str:
    return str(self.args[0]) if self.args else ""


def function(path: str, signature: str, positional: list[str], rest: str, doc: str) -> Callable[..., Any]:
    """The function that calls a tool. `positional` are the names of what may be given by position."""

    def tool(*args: Any, **kwargs: Any) -> Any:
        if len(args) > len(positional) and not rest:
            raise error("ArgumentError")(f"{path}() takes {len(positional)} by position; write {signature}")
        given = dict(zip(positional, args, strict=False))
        if twice := given.keys() & kwargs.keys():
            raise error("ArgumentError")(f"{path}() got {min(twice)} twice; write {signature}")
        if rest and args[len(positional) :]:
            given[rest] = list(args[len(positional) :])
        return _result(_ask("tool", {"tool": path, "arguments": {**given, **kwargs}}))

    tool.__name__ = tool.__qualname__ = path.rpartition(".")[2]
    tool.__doc__ = f"{signature}\n\n{doc}"
    tool.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in positional]
    )
    return tool


def _ask(name: str, payload: Any) -> Any:
    try:
        return call(name, payload)
    except HostCallError as failure:
        raise error(failure.kind)(str(failure)) from None


def _result(answer: Any) -> Any:
    return _items(answer["stream"]) if "stream" in answer else answer["value"]


def _items(stream: int) -> Iterator[Any]:
    try:
        while (answer := _ask("tool_next", stream)) is not None:
            yield answer["item"]
    except GeneratorExit:
        _ask("tool_close", stream)
        raise
