"""How a function is read: its name, its text, its parameters, and the hints that can be resolved."""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from codeact.errors import ToolSourceError
from codeact.tools.names import snake


def name_of(function: Any) -> str:
    """Of a callable object, its class's; nothing of the object itself."""
    while isinstance(function, functools.partial):
        function = function.func
    return function.__name__ if inspect.isroutine(function) else snake(type(function).__name__)


def inner(function: Any) -> Any:
    """The function with the hints and docstring."""
    while isinstance(function, functools.partial):
        function = function.func
    if not inspect.isroutine(function):
        function = type(function).__call__
    return inspect.unwrap(function)


def docstring(function: Any) -> str | None:
    while isinstance(function, functools.partial):
        function = function.func
    if inspect.isroutine(function):
        return inspect.getdoc(function)
    return inspect.getdoc(type(function).__call__) or inspect.getdoc(type(function))


def signature(function: Any, name: str) -> inspect.Signature:
    """Without what a partial has bound."""
    try:
        found = inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise ToolSourceError(f"the signature of {name} cannot be read; wrap it in a function") from error
    bound = function.keywords if isinstance(function, functools.partial) else {}
    kept = [each for each in found.parameters.values() if each.name not in bound]
    return found.replace(parameters=kept)


def hints(function: Any) -> dict[str, Any]:
    """Its type hints; those that name what cannot be found are left out."""
    function = getattr(function, "__func__", function)
    try:
        return typing.get_type_hints(function, include_extras=True)
    except Exception:  # noqa: BLE001 - a hint is any expression, and evaluating it may do anything
        return dict(_resolvable(function))


def _resolvable(function: Any) -> Iterator[tuple[str, Any]]:
    scope = dict(getattr(function, "__globals__", {}))
    scope.update(
        zip(
            function.__code__.co_freevars, (c.cell_contents for c in function.__closure__ or ()), strict=False
        )
    )
    for name, hint in getattr(function, "__annotations__", {}).items():
        try:
            while isinstance(hint, str):
                hint = eval(hint, scope)  # noqa: S307 - the user's own source, as typing.get_type_hints does
        except Exception:  # noqa: BLE001, S112 - as above
            continue
        yield name, hint


def hint(parameter: inspect.Parameter, hints: Mapping[str, Any]) -> Any:
    hint = hints.get(parameter.name, inspect.Parameter.empty)
    if isinstance(parameter.default, FieldInfo):
        return Annotated[Any if hint is inspect.Parameter.empty else hint, parameter.default]
    return hint


def field_of(hint: Any) -> FieldInfo | None:
    metadata = getattr(hint, "__metadata__", ())
    return next((each for each in metadata if isinstance(each, FieldInfo)), None)


def default(found: inspect.Parameter) -> Any:
    """Its default, `...` where only the host can make it, or `Parameter.empty`."""
    if not isinstance(found.default, FieldInfo):
        return found.default
    if found.default.default_factory is not None:
        return ...
    value = found.default.default
    return inspect.Parameter.empty if value in (PydanticUndefined, ...) else value
