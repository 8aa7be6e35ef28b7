"""Type hints: as text for a signature, as JSON Schema, and as what checks and converts values."""

from __future__ import annotations

import inspect
import types
import typing
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import is_dataclass
from enum import Enum
from pathlib import PurePath
from typing import Annotated, Any, Literal, NotRequired, Required
from urllib.parse import quote, unquote

import typing_extensions
from pydantic import BaseModel, ConfigDict, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic.warnings import ArbitraryTypeWarning
from pydantic_core import SchemaValidator, core_schema

from codeact.tools.names import identifier

DEFINITIONS = "#/$defs/"

_CLASSES = ("model", "dataclass", "typed-dict")
_FIELDS = ("model-fields", "dataclass-args", "typed-dict")
_PLAIN = {
    ("datetime", "datetime"), ("datetime", "date"), ("datetime", "time"), ("datetime", "timedelta"),
    ("decimal", "Decimal"), ("uuid", "UUID"),
}  # fmt: skip
_TABLES = {"pandas", "polars", "pyarrow", "numpy"}
_GENERIC = {
    list: "list", dict: "dict", set: "set", frozenset: "frozenset", tuple: "tuple", type: "Any",
    "Sequence": "list", "MutableSequence": "list", "Collection": "list", "Iterable": "list",
    "Mapping": "dict", "MutableMapping": "dict", "Set": "set", "MutableSet": "set",
    "Iterator": "Iterator", "AsyncIterator": "Iterator", "Generator": "Iterator", "AsyncGenerator": "Iterator",
    "AsyncIterable": "Iterator", "Awaitable": "", "Coroutine": "",
}  # fmt: skip
STREAMS = ("Iterator", "AsyncIterator", "Generator", "AsyncGenerator", "AsyncIterable")
Mode = Literal["validation", "serialization"]
_LOOSE = ConfigDict(arbitrary_types_allowed=True)


def adapter(hint: Any) -> TypeAdapter[Any]:
    """What pydantic makes of a hint; anything goes where it can make nothing of it."""
    for config in (_LOOSE, None):  # a model has a configuration of its own, and takes no other
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ArbitraryTypeWarning)
                made = TypeAdapter(_known(hint), config=config)
            if made.pydantic_complete:  # it is not where a class names one that cannot be found
                return made
        except Exception:  # noqa: BLE001, S112 - a hint is any expression, and pydantic fails on them in many ways
            continue
    return TypeAdapter(Any)


def validator(hint: Any) -> Callable[[Any], Any]:
    """Converts as pydantic does in its lax mode, but takes no bool for a number, and no text for a file: a path that
    comes from the sandbox is one of the workspace, and text would name one of the host. Raises ValidationError."""
    found = adapter(hint)
    if found.core_schema["type"] in ("any", "invalid"):
        return found.validate_python
    strict = SchemaValidator(_careful(found.core_schema), _use_prebuilt=False)
    return strict.validate_python


def _careful(schema: Any, *, lenient: bool = False) -> Any:
    """A core schema whose numbers refuse True and False, whose paths refuse text, and whose classes refuse fields that they do
    not have, at any depth. `lenient`: the class around it says itself what is to be done with such fields."""
    if isinstance(schema, (list, tuple)):
        return type(schema)(_careful(each, lenient=lenient) for each in schema)
    if not isinstance(schema, dict):
        return schema
    if schema.get("custom_error_type") == "path_type" or _is_path(schema):
        return _FILE
    if (
        schema.get("type") == "generator"
    ):  # pydantic checks its items as they are taken, and they can be taken once
        listed = {key: schema[key] for key in schema.keys() & {"items_schema", "min_length", "max_length"}}
        return _careful({"type": "list", **listed}, lenient=lenient)
    if schema.get("type") in _CLASSES:
        lenient = "extra_fields_behavior" in schema.get("config", {})
    fields = schema.get("type") in _FIELDS
    if fields and not lenient:
        schema = {**schema, "extra_behavior": "forbid"}
    kept = ("metadata", "serialization", "default", "expected")
    inner = {
        key: value if key in kept else _careful(value, lenient=lenient and not fields)
        for key, value in schema.items()
    }
    if inner.get("type") not in ("int", "float", "decimal"):
        return inner
    reference = inner.pop("ref", None)
    return core_schema.no_info_before_validator_function(_not_bool, inner, ref=reference)


def _is_path(schema: Mapping[str, Any]) -> bool:
    """Whether this is pydantic's schema of a path, which takes text too."""
    match schema:
        case {
            "type": "lax-or-strict",
            "strict_schema": {"python_schema": {"type": "is-instance", "cls": type() as cls}},
        }:
            return issubclass(cls, PurePath)
    return False


_FILE = core_schema.custom_error_schema(
    core_schema.is_instance_schema(PurePath),
    "file",
    custom_error_message="a file of the workspace is asked for, which code passes as Path('data/a.csv')",
)


def _not_bool(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("a number is asked for, not a bool")
    return value


class _Schemas(GenerateJsonSchema):
    """JSON Schemas that say nothing of what JSON has no word for."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default", "skipped-discriminator"}  # noqa: RUF012

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def handle_invalid_for_json_schema(self, schema: Any, error_info: str) -> JsonSchemaValue:
        return {}


class Hints:
    """The hints of one function, read together, so that one class has one name in all of them."""

    def __init__(self, hints: Mapping[str, Any]) -> None:
        """`hints` by name; the result's is called `return`."""
        self.classes: dict[Any, str] = {}
        for hint in hints.values():
            self._collect(hint, set())
        inputs: list[tuple[Any, Mode, TypeAdapter[Any]]]
        inputs = [(name, "validation", adapter(hint)) for name, hint in hints.items()]
        inputs += [(index, "validation", adapter(cls)) for index, cls in enumerate(self.classes)]
        schemas, shared = TypeAdapter.json_schemas(inputs, schema_generator=_Schemas)
        definitions = shared.get("$defs", {})
        for index, cls in enumerate(self.classes):
            self.classes[cls] = referred(schemas[index, "validation"]) or identifier(cls.__name__)
            definitions.setdefault(self.classes[cls], schemas[index, "validation"])
        self.types: dict[str, Any] = definitions
        self._schemas = {name: schemas[name, "validation"] for name in hints}

    def schema(self, name: str) -> dict[str, Any]:
        """With what it refers to in `$defs`."""
        return with_definitions(dict(self._schemas[name]), self.types)

    def _collect(self, hint: Any, seen: set[int]) -> None:
        if _is_record(hint) and not _is_named_tuple(hint):
            self.classes.setdefault(_known(hint), "")
        for argument in typing.get_args(hint):
            if typing.get_origin(hint) is not Literal and id(argument) not in seen:
                self._collect(argument, seen | {id(argument)})

    def text(self, hint: Any) -> str:
        """A hint as Python source; empty where there is none."""
        if hint is inspect.Parameter.empty:
            return ""
        origin, arguments = typing.get_origin(hint), typing.get_args(hint)
        if origin in (Annotated, Required, NotRequired, typing.ClassVar, typing.Final):
            return self.text(arguments[0])
        if origin in (typing.Union, types.UnionType):
            return " | ".join(dict.fromkeys(map(self.text, arguments)))
        if origin is Literal:
            return _literal(arguments)
        if origin is not None:
            return self._generic(origin, arguments)
        return self._plain(hint)

    def _generic(self, origin: Any, arguments: tuple[Any, ...]) -> str:
        if origin in self.classes or (isinstance(origin, type) and issubclass(origin, BaseModel)):
            return self.classes.get(origin, "Any")
        name = _GENERIC.get(origin, _GENERIC.get(getattr(origin, "__name__", ""), "Any"))
        if name == "":
            return self.text(arguments[-1])
        if name == "Any":
            return name
        shown = arguments[:1] if name == "Iterator" else arguments
        return f"{name}[{', '.join(map(self._argument, shown))}]" if shown else name

    def _argument(self, argument: Any) -> str:
        return "..." if argument is Ellipsis else self.text(argument)

    def _plain(self, hint: Any) -> str:
        if hint in (None, type(None)):
            return "None"
        if isinstance(hint, typing.TypeVar):
            return self.text(hint.__bound__) if hint.__bound__ else "Any"
        if isinstance(hint, typing.NewType):
            return self.text(hint.__supertype__)
        if (
            isinstance(value := getattr(hint, "__value__", None), object)
            and type(hint).__name__ == "TypeAliasType"
        ):
            return self.text(value)
        if not isinstance(hint, type):
            return "Any"
        if (found := self.classes.get(_known(hint))) is not None:
            return found
        return _class(hint, self)


def _class(hint: type, hints: Hints) -> str:
    module, _, _ = hint.__module__.partition(".")
    if module == "builtins" and hint is not object:
        return hint.__name__
    if (hint.__module__, hint.__name__) in _PLAIN:
        return hint.__name__
    if module == "pathlib":
        return "Path"
    if module in _TABLES:
        return f"{module}.{hint.__qualname__}"
    if issubclass(hint, Enum):
        return _literal(tuple(hint))
    if _is_named_tuple(hint):
        return f"tuple[{', '.join(map(hints.text, typing.get_type_hints(hint).values()))}]"
    simple = next((base for base in (str, int, float, bytes) if issubclass(hint, base)), None)
    if simple is not None:
        return simple.__name__
    return _GENERIC.get(hint.__name__, "Any") if module in ("collections", "typing") else _by_schema(hint)


def _by_schema(hint: type) -> str:
    """Types of pydantic, such as EmailStr, are told by their schema."""
    kind = adapter(hint).json_schema(schema_generator=_Schemas).get("type")
    return {"string": "str", "integer": "int", "number": "float", "boolean": "bool"}.get(str(kind), "Any")


def _literal(values: Iterable[Any]) -> str:
    plain = [value.value if isinstance(value, Enum) else value for value in values]
    if not plain or not all(value is None or isinstance(value, (str, int, bool, bytes)) for value in plain):
        return "Any"
    return f"Literal[{', '.join(dict.fromkeys(map(repr, plain)))}]"


def _is_record(hint: Any) -> bool:
    """Whether it is a class with named, typed fields."""
    if not isinstance(hint, type) or typing.get_origin(hint) is not None:
        return False
    return is_dataclass(hint) or issubclass(hint, BaseModel) or typing_extensions.is_typeddict(hint)


def _is_named_tuple(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, tuple) and hasattr(hint, "_fields")


_REBUILT: dict[Any, Any] = {}


def _known(hint: Any) -> Any:
    """The hint with each `typing.TypedDict` in it as the one of typing_extensions, which pydantic asks for before 3.12."""
    if isinstance(hint, type) and typing_extensions.is_typeddict(hint) and type(hint).__module__ == "typing":
        if hint not in _REBUILT:
            _REBUILT[hint] = hint  # a class that refers to itself stays as it is in there
            _REBUILT[hint] = _rebuilt(hint)
        return _REBUILT[hint]
    arguments = typing.get_args(hint)
    if not arguments or typing.get_origin(hint) in (Literal, Annotated):
        return hint
    known = tuple(map(_known, arguments))
    if known == arguments:
        return hint
    if isinstance(hint, types.UnionType):
        return typing.Union[known]  # noqa: UP007 - the members are known at run time only
    return hint.copy_with(known) if hasattr(hint, "copy_with") else typing.get_origin(hint)[known]


def _rebuilt(hint: Any) -> Any:
    fields = {
        key: Required[_known(each)] if key in hint.__required_keys__ else NotRequired[_known(each)]
        for key, each in typing.get_type_hints(hint).items()
    }
    return typing_extensions.TypedDict(hint.__name__, fields)  # type: ignore[operator]


def with_definitions(schema: dict[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """The schema with those of the definitions that it refers to, directly or not, in `$defs`."""
    needed: dict[str, Any] = {}
    waiting = [schema]
    while waiting:
        for name in references(waiting.pop()):
            if name in definitions and name not in needed:
                needed[name] = definitions[name]
                waiting.append(definitions[name])
    return {**schema, "$defs": needed} if needed else schema


def reference(name: str) -> dict[str, str]:
    """A schema that is the definition of this name."""
    return {"$ref": f"{DEFINITIONS}{quote(name)}"}


def referred(schema: Mapping[str, Any]) -> str:
    """The name of the definition that a schema refers to; empty where it refers to none."""
    pointer = schema.get("$ref")
    if not isinstance(pointer, str) or not pointer.startswith(DEFINITIONS):
        return ""
    return unquote(pointer.removeprefix(DEFINITIONS))


def references(schema: Any) -> set[str]:
    """The names of the definitions that a schema refers to."""
    found: set[str] = set()
    waiting = [schema]
    while waiting:
        match waiting.pop():
            case dict() as mapping:
                if name := referred(mapping):
                    found.add(name)
                waiting += mapping.values()
            case list() as items:
                waiting += items
    return found
