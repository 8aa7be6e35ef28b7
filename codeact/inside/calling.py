"""What the generated modules of `tools` are made with: calls of the host, in the form of plain functions."""

from __future__ import annotations

import ast
import asyncio
import contextvars
import functools
import inspect
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from sandbox_guest import host

from . import mapping, values
from .large import LargeResult, opened
from .records import Record, made
from .toolerrors import ArgumentError, TooLarge, ToolError, error_class

F = TypeVar("F", bound=Callable[..., Any])

FUNCTION = "tool"
"""The host's function that answers calls of tools."""
IN_FLIGHT = 32
last: tuple[str, Any] | None = None
"""The tool that this cell called last, and what it gave."""


def call(path: str, /, **arguments: Any) -> Any:
    """Calls the tool `path` on the host; an argument that is its default is left out. Raises ToolError."""
    global last
    request, sent = _request(path, arguments)
    try:
        reply, buffers = host.call_with_buffers(FUNCTION, request, sent)
        value = _result(path, reply, buffers)
    except host.CallTooLarge as error:
        raise _too_large(request, sent, error) from None
    except host.HostCallError as error:
        raise _error(path, error) from None
    last = path, value
    return value


def stream(path: str, /, **arguments: Any) -> Iterator[Any]:
    """The items that the tool `path` yields, as they come. What is not read is not made, once this is closed."""
    request, sent = _request(path, arguments)
    items = host.stream(FUNCTION, request, sent)
    try:
        for reply, buffers in items:
            yield _result(path, reply, buffers)
    except host.CallTooLarge as error:
        raise _too_large(request, sent, error) from None
    except host.HostCallError as error:
        raise _error(path, error) from None
    finally:
        items.close()


def _request(path: str, arguments: dict[str, Any]) -> tuple[dict[str, Any], list[values.Buffer]]:
    defaults = _defaults(path)
    given = {
        name: value.load() if isinstance(value, LargeResult) else value
        for name, value in arguments.items()
        if value is not defaults.get(name, ...)
    }
    try:
        encoded, buffers = values.encode_arguments(given)
    except values.CannotCross as error:
        raise ArgumentError(f"{path}(): {error}") from None
    return {"tool": path, "arguments": encoded}, buffers


@functools.cache
def _defaults(path: str) -> dict[str, Any]:
    """What is not sent, since the host has it as well: an argument that is the default, or `*args` that are none."""
    function = getattr(_module(path), path.rpartition(".")[2], None)
    if function is None:
        return {}
    parameters = inspect.signature(function).parameters.values()
    return {
        each.name: () if each.kind is each.VAR_POSITIONAL else each.default
        for each in parameters
        if each.kind is each.VAR_POSITIONAL or each.default is not each.empty
    }


def _result(path: str, reply: Any, buffers: list[values.Buffer]) -> Any:
    module = _module(path)
    decode = functools.partial(values.decode, record=functools.partial(_record, module), path=_file)
    try:
        value = decode(reply, buffers, other=lambda made: _large(path, module, made, decode))
    except values.BadValue as error:
        raise ToolError(f"{path}(): its result cannot be read here: {error}") from None
    if type(value) not in (dict, list) or module is None:
        return value
    return shaped(value, _returned(_annotation(module, path)), module)


def _annotation(module: ModuleType, path: str) -> str:
    function = getattr(module, path.rpartition(".")[2], None)
    return str(getattr(function, "__annotations__", {}).get("return", ""))


def _large(
    path: str, module: ModuleType | None, made: dict[str, Any], decode: Callable[[Any], Any]
) -> LargeResult:
    hint = _returned(_annotation(module, path)) if module is not None else None
    if made.get("kind") == "list":
        hint = hint.slice if isinstance(hint, ast.Subscript) else None
    result = opened(made, decode, lambda value: shaped(value, hint, module) if module is not None else value)
    print(
        f"{path}() returned a LargeResult, which is read when it is used: {result.about()}", file=sys.stderr
    )
    return result


def _module(path: str) -> ModuleType | None:
    namespace = path.rpartition(".")[0]
    return sys.modules.get(f"tools.{namespace}" if namespace else "tools")


def _record(module: ModuleType | None, name: str, fields: dict[str, Any]) -> Record:
    known = getattr(module, name, None)
    return made(name, fields, known if isinstance(known, type) and issubclass(known, Record) else None)


def _file(path: str) -> Any:
    return Path(values.WORKSPACE / path)


def _error(path: str, error: host.HostCallError) -> ToolError:
    found = getattr(_module(path), error.kind, None)
    kind = found if isinstance(found, type) and issubclass(found, ToolError) else error_class(error.kind)
    return kind(str(error))


def _too_large(request: dict[str, Any], sent: list[values.Buffer], error: host.CallTooLarge) -> TooLarge:
    """Names the largest argument."""
    sizes = {name: values.size(made, sent) for name, made in request["arguments"].items()}
    name = max(sizes, key=lambda each: sizes[each])
    return TooLarge(
        f"{request['tool']}(): {name} is too large: {error.why}; write it to a file and pass its Path"
    )


# -- results by their types ----------------------------------------------------------------------------------------


@functools.cache
def _returned(annotation: str) -> ast.expr | None:
    """What a call returns: of an iterator, an item."""
    node = _parsed(annotation)
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id == "Iterator":
        return node.slice
    return node


@functools.cache
def _parsed(annotation: str) -> ast.expr | None:
    try:
        return ast.parse(annotation, mode="eval").body
    except (SyntaxError, ValueError):
        return None


def shaped(value: Any, hint: ast.expr | None, module: ModuleType) -> Any:
    """A value with its plain dicts as the classes that its hint names."""
    match hint, value:
        case ast.BinOp(left=left, right=right), dict() | list():
            first = shaped(value, left, module)
            return first if first is not value else shaped(value, right, module)
        case ast.Subscript(value=ast.Name(id="list"), slice=inner), list():
            return [shaped(item, inner, module) for item in value]
        case ast.Subscript(value=ast.Name(id="dict"), slice=ast.Tuple(elts=[_, inner])), dict():
            return {key: shaped(item, inner, module) for key, item in value.items()}
        case ast.Name(id=name), dict() if type(value) is dict:
            known = getattr(module, name, None)
            if isinstance(known, type) and issubclass(known, Record):
                hints = getattr(known, "__annotations__", {})
                return known(
                    {key: shaped(item, _parsed(hints.get(key, "")), module) for key, item in value.items()}
                )
    return value


# -- functions with their twins ------------------------------------------------------------------------------------


def tool(function: F) -> F:
    """Gives a function its twins: `.aio(...)` for `await`, and `.map(items)` for many at once."""
    wrapper = _checked(function)
    awaited = inspect.iscoroutinefunction(function)

    @functools.wraps(function)
    async def aio(*args: Any, **kwargs: Any) -> Any:
        return await _in_thread(functools.partial(wrapper, *args, **kwargs), host.Handle())

    @functools.wraps(function)
    def one(*args: Any, **kwargs: Any) -> Any:
        return asyncio.run(function(*args, **kwargs)) if awaited else wrapper(*args, **kwargs)

    wrapper.aio = wrapper if awaited else aio
    wrapper.map = functools.update_wrapper(functools.partial(mapping.run, one), mapping.run)
    return wrapper  # type: ignore[no-any-return]


def streaming_tool(function: F) -> F:
    """Gives a function that returns an iterator its twins: `.aio(...)` for `async for`, and `.map(items)` for many at once,
    whose results are lists."""
    wrapper = _checked(function)

    @functools.wraps(function)
    async def aio(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        items, handle = wrapper(*args, **kwargs), host.Handle()
        try:
            while (item := await _in_thread(functools.partial(next, items, _END), handle)) is not _END:
                yield item
        finally:
            handle.cancel()

    @functools.wraps(function)
    def every(*args: Any, **kwargs: Any) -> list[Any]:
        return list(wrapper(*args, **kwargs))

    wrapper.aio = aio
    wrapper.map = functools.update_wrapper(functools.partial(mapping.run, every), mapping.run)
    return wrapper  # type: ignore[no-any-return]


class _Source(str):
    """Text that is shown as it is."""

    __repr__ = str.__str__


def written(function: Callable[..., Any]) -> str:
    """A function's name and signature as its source has them."""
    found = _signature(function)
    shown = [
        each.replace(default=_Source("...")) if each.default is ... else each
        for each in found.parameters.values()
    ]
    return function.__name__ + str(found.replace(parameters=shown))


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    """Its signature, whose annotations are shown as the source has them."""
    found = inspect.signature(function)
    parameters = [each.replace(annotation=_source(each.annotation)) for each in found.parameters.values()]
    return found.replace(parameters=parameters, return_annotation=_source(found.return_annotation))


def _source(annotation: Any) -> Any:
    return _Source(annotation) if isinstance(annotation, str) else annotation


def _checked(function: Callable[..., Any]) -> Any:
    """The function, whose complaint about how it was called says how to call it."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            if isinstance(error, ToolError) or (error.__traceback__ and error.__traceback__.tb_next):
                raise
            raise ArgumentError(f"{error}; write {written(function)}") from None

    wrapper.__signature__ = _signature(function)  # type: ignore[attr-defined]

    return wrapper


_END = object()


async def _in_thread(work: Callable[[], Any], handle: host.Handle) -> Any:
    """Runs a call on a thread; where its task is cancelled, so is the call."""

    def run() -> Any:
        host.HANDLE.set(handle)
        return work()

    context = contextvars.copy_context()
    try:
        return await asyncio.get_running_loop().run_in_executor(_pool(os.getpid()), context.run, run)
    except asyncio.CancelledError:
        handle.cancel()
        raise


@functools.cache
def _pool(process: int) -> ThreadPoolExecutor:
    """A forked process has none of its parent's threads, and needs some of its own."""
    return ThreadPoolExecutor(IN_FLIGHT, thread_name_prefix="tool")
