"""Tools from what Python can call: functions, methods, partials, objects, and classes of tools."""

from __future__ import annotations

import functools
import inspect
import math
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, TypeVar, overload
from uuid import UUID

from pydantic.fields import FieldInfo

from codeact.errors import ToolSourceError
from codeact.tools import context, docstrings, own, signatures
from codeact.tools.arguments import Check
from codeact.tools.given import check
from codeact.tools.hints import STREAMS, Hints, validator
from codeact.tools.names import identifier, in_tools, snake
from codeact.tools.sources import own_source
from codeact.tools.tool import Effects, Parameter, ParameterKind, Policy, Tool, Where

F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C", bound=type)

MARK = "__codeact_tool__"
SET_MARK = "__codeact_toolset__"
MAX_DEFAULT = 200

_KINDS: dict[inspect._ParameterKind, ParameterKind] = {
    inspect.Parameter.POSITIONAL_ONLY: "positional",
    inspect.Parameter.POSITIONAL_OR_KEYWORD: "normal",
    inspect.Parameter.VAR_POSITIONAL: "rest",
    inspect.Parameter.KEYWORD_ONLY: "keyword",
    inspect.Parameter.VAR_KEYWORD: "options",
}


@dataclass(frozen=True, slots=True)
class Options:
    """What `@tool(...)` says; None where it says nothing."""

    name: str | None = None
    namespace: str | None = None
    description: str | None = None
    effects: Effects | None = None
    timeout: float | None = None
    idempotent: bool | None = None
    retries: int | None = None
    per_minute: float | None = None
    calls: int | None = None
    secret: Sequence[str] = ()
    raises: Sequence[str | type[BaseException]] = ()
    where: Where | None = None

    def policy(self) -> Policy:
        said: dict[str, Any] = {each.name: getattr(self, each.name) for each in fields(Policy)}
        kept: dict[str, Any] = {name: value for name, value in said.items() if value is not None}
        if kept.get("timeout") == math.inf:
            kept["timeout"] = None
        return Policy(**kept)


@overload
def tool(function: F, /) -> F: ...
@overload
def tool(
    *,
    name: str | None = ...,
    namespace: str | None = ...,
    description: str | None = ...,
    effects: Effects | None = ...,
    timeout: float | None = ...,
    idempotent: bool | None = ...,
    retries: int | None = ...,
    per_minute: float | None = ...,
    calls: int | None = ...,
    secret: Sequence[str] = ...,
    raises: Sequence[str | type[BaseException]] = ...,
    where: Where | None = ...,
) -> Callable[[F], F]: ...
def tool(function: Any = None, /, **options: Any) -> Any:
    """Marks a function or method as a tool; it stays what it is and can be called as before.

    `effects` says what a call does: `read`, `write` (the default) or `dangerous`. `timeout` is in seconds,
    `math.inf` for none. `idempotent` lets a failed call be made again, `retries` times. `per_minute` and `calls`
    limit how often it is called, the latter in one run. Values of parameters named in `secret` are in no record.
    `raises` names the errors that code can catch. `where="sandbox"` ships the source of a pure function into the
    sandbox, where it runs. Raises ToolSourceError where an option is wrong.
    """
    if function is None:
        return functools.partial(_mark, options=_options(**options))
    return _mark(function, _options())


def toolset(cls: Any = None, /, *, namespace: str = "", **options: Any) -> Any:
    """Makes the public methods of a class tools, in a namespace: the given one, or the class's name.

    Instances are what agents are given; what their constructors took stays on the host. Options of `tool` hold for
    all methods that do not say otherwise themselves.
    """
    if isinstance(cls, str):
        cls, namespace = None, cls

    def mark(decorated: C) -> C:
        if not isinstance(decorated, type):
            raise ToolSourceError(
                f"@toolset marks classes, not a {type(decorated).__name__}; @tool marks functions"
            )
        name = namespace or identifier(snake(decorated.__name__))
        setattr(decorated, SET_MARK, _options(namespace=name, **options))
        return decorated

    return mark if cls is None else mark(cls)


def _options(**given: Any) -> Options:
    names = [each.name for each in fields(Options)]
    if unknown := set(given) - set(names):
        raise ToolSourceError(f"tool has no option {min(unknown)!r}; it has {', '.join(names)}")
    check("a tool", **given)
    return Options(**{name: value for name, value in given.items() if value is not None})


def _mark(function: F, options: Options) -> F:
    if isinstance(function, (staticmethod, classmethod)):
        _mark(function.__func__, options)
        return function
    if not callable(function):
        raise ToolSourceError(f"@tool marks functions, not a {type(function).__name__}")
    try:
        setattr(function, MARK, options)
    except AttributeError as error:
        raise ToolSourceError(
            f"{signatures.name_of(function)} cannot be marked; wrap it in a function"
        ) from error
    return function


def marked(value: Any) -> Options | None:
    """What `@tool` said of a function, method or object."""
    found = inspect.getattr_static(value, MARK, None)
    if found is None and inspect.ismethod(value):
        found = getattr(value.__func__, MARK, None)
    return found if isinstance(found, Options) else None


def is_toolset(value: Any) -> bool:
    cls = value if isinstance(value, type) else type(value)
    return isinstance(getattr(cls, SET_MARK, None), Options)


def from_toolset(instance: Any) -> Iterator[Tool]:
    """A tool for each public method of an instance; of a class too, where it can be made without arguments."""
    if isinstance(instance, type):
        instance = _instance(instance)
    cls = type(instance)
    defaults: Options = getattr(cls, SET_MARK)
    for name in dir(cls):
        member = inspect.getattr_static(cls, name)
        if not name.startswith("_") and isinstance(member, (types.FunctionType, classmethod, staticmethod)):
            method = getattr(instance, name)
            yield from_function(method, _over(defaults, marked(method)))


def _instance(cls: type) -> Any:
    try:
        inspect.signature(cls).bind()
    except (TypeError, ValueError):
        raise ToolSourceError(
            f"the toolset {cls.__name__} takes arguments: give an instance, as in {cls.__name__}(...)"
        ) from None
    return cls()


def _over(defaults: Options, own: Options | None) -> Options:
    if own is None:
        return defaults
    said = {
        each.name: getattr(own, each.name)
        for each in fields(Options)
        if getattr(own, each.name) not in (None, ())
    }
    base = {each.name: getattr(defaults, each.name) for each in fields(Options)}
    return Options(**{**base, **said})


def from_function(function: Callable[..., Any], options: Options | None = None) -> Tool:
    """A tool of whatever can be called. Raises ToolSourceError where it has no signature that can be read."""
    options = options or marked(function) or Options()
    name = _tool_name(function, options)
    inner = signatures.inner(function)
    docs = docstrings.read(options.description or signatures.docstring(function))
    hinted = signatures.hints(inner)
    whole = signatures.signature(function, name)
    hidden = context.hidden(whole, hinted)
    signature = whole.replace(parameters=[each for each in whole.parameters.values() if each not in hidden])
    asked = {each.name: signatures.hint(each, hinted) for each in signature.parameters.values()}
    result = hinted.get("return", inspect.Parameter.empty)
    streams = typing.get_origin(result) is not None and typing.get_origin(result).__name__ in STREAMS
    streams = streams or inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner)
    item = (typing.get_args(result) or (Any,))[0] if streams else result
    hints = Hints(
        {key: each for key, each in (*asked.items(), ("return", item)) if each is not inspect.Parameter.empty}
    )
    secret = frozenset(options.secret)
    if missing := secret - set(asked):
        raise ToolSourceError(f"the tool {name} has no parameter {min(missing)!r}, which secret names")
    parameters: list[Parameter] = []
    for each in signature.parameters.values():
        taken = [known.name for known in parameters]
        parameters.append(_parameter(each, asked[each.name], hints, docs, taken, hidden=each.name in secret))
    concealed = frozenset(each.name for each in parameters if (each.sent or each.name) in secret)
    defaults = [signatures.default(each) for each in signature.parameters.values() if each.name in secret]
    returned = f"Iterator[{hints.text(item) or 'Any'}]" if streams else hints.text(result)
    return Tool(
        name=name,
        call=_call(function, whole, hidden),
        check=Check(name, tuple(parameters), _converters(parameters, asked), concealed),
        namespace=namespace(options.namespace),
        description=docs.text,
        parameters=tuple(parameters),
        returns=returned,
        result={} if item is inspect.Parameter.empty else hints.schema("return"),
        streams=streams,
        types=hints.types,
        errors=_errors(docs, options),
        policy=options.policy(),
        secret=concealed,
        own_secrets=own.texts(defaults),
        bound=own.bound(function),
        where=options.where or "host",
        source=_shipped(function, name, hidden) if options.where == "sandbox" else "",
    )


def namespace(name: str | None) -> str:
    """A namespace as identifiers with dots between them."""
    if not name:
        return ""
    first, *others = name.split(".")
    return ".".join([in_tools(first, other="tools"), *(identifier(each, other="tools") for each in others)])


def _tool_name(function: Any, options: Options) -> str:
    name = options.name or signatures.name_of(function)
    return in_tools("tool" if name == "<lambda>" else name, options.namespace or "")


def _parameter(
    found: inspect.Parameter,
    hint: Any,
    hints: Hints,
    docs: docstrings.Docs,
    taken: list[str],
    *,
    hidden: bool,
) -> Parameter:
    name = identifier(found.name, taken, "argument")
    annotated = signatures.field_of(hint)
    starred = found.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    default = signatures.default(found)
    schema = {} if hint is inspect.Parameter.empty else hints.schema(found.name)
    schema.pop("default", None)  # it may be one that does not cross
    return Parameter(
        name=name,
        kind=_KINDS[found.kind],
        annotation=hints.text(hint),
        required=default is inspect.Parameter.empty and not starred,
        default=None if default is inspect.Parameter.empty else ... if hidden else crossing(default),
        schema=schema,
        description=(annotated.description if annotated else None) or docs.parameters.get(found.name, ""),
        sent="" if name == found.name else found.name,
    )


def crossing(value: Any, depth: int = 0) -> Any:
    """A default as code in the sandbox may see it; `...` for what stays on the host."""
    match value:
        case Enum():
            return crossing(value.value, depth)
        case None | bool() | int() | datetime() | date() | time() | timedelta() | Decimal() | UUID():
            return value if type(value).__module__ in ("builtins", "datetime", "decimal", "uuid") else ...
        case float():
            return value if math.isfinite(value) else ...
        case str() | bytes():
            return value if type(value) in (str, bytes) and len(value) <= MAX_DEFAULT else ...
        case list() | tuple() if depth < 4 and len(value) <= 20 and type(value) in (list, tuple):
            items = [crossing(each, depth + 1) for each in value]
            return ... if any(each is ... for each in items) else type(value)(items)
        case dict() if depth < 4 and len(value) <= 20 and all(type(key) is str for key in value):
            pairs = {key: crossing(each, depth + 1) for key, each in value.items()}
            return ... if any(each is ... for each in pairs.values()) else pairs
    return ...


def _converters(parameters: list[Parameter], asked: Mapping[str, Any]) -> dict[str, Callable[[Any], Any]]:
    hints = {each.name: asked[each.sent or each.name] for each in parameters}
    return {
        name: (lambda value: value) if hint is inspect.Parameter.empty else validator(hint)
        for name, hint in hints.items()
    }


def _shipped(function: Callable[..., Any], name: str, hidden: Sequence[inspect.Parameter]) -> str:
    if hidden:
        raise ToolSourceError(
            f"{name} cannot run in the sandbox: it takes {hidden[0].name}, a ToolContext, which only the host has"
        )
    return own_source(function, name)


def _call(
    function: Callable[..., Any], signature: inspect.Signature, hidden: Sequence[inspect.Parameter]
) -> Callable[..., Any]:
    """Takes all values by name, also those that the function wants by position; makes the hidden ones."""
    made = {
        name: each.default
        for name, each in signature.parameters.items()
        if isinstance(each.default, FieldInfo)
    }

    def call(**values: Any) -> Any:
        filled = {
            name: field.get_default(call_default_factory=True, validated_data={})
            for name, field in made.items()
        }
        filled.update(values)
        filled.update(context.values(hidden))
        ordered = {name: filled[name] for name in signature.parameters if name in filled}
        bound = inspect.BoundArguments(signature, ordered)
        bound.apply_defaults()
        return function(*bound.args, **bound.kwargs)

    return call


def _errors(docs: docstrings.Docs, options: Options) -> tuple[str, ...]:
    said = [each if isinstance(each, str) else each.__name__ for each in options.raises]
    return tuple(dict.fromkeys((*said, *docs.raises)))
