"""Values as JSON, and checked against a JSON Schema, for tools whose source speaks JSON."""

from __future__ import annotations

import base64
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any
from uuid import UUID

import jsonschema
from pydantic import BaseModel

from codeact.tools.arguments import Problem, Wrong

MAX_DEPTH = 64
MAX_ERRORS = 30

_KINDS = {
    "string": "a valid string", "integer": "a valid integer", "number": "a valid number", "boolean": "a valid boolean",
    "array": "a valid list", "object": "a valid dictionary", "null": "None",
}  # fmt: skip
_BOUNDS = {
    "minimum": "Input should be greater than or equal to {}",
    "maximum": "Input should be less than or equal to {}",
    "exclusiveMinimum": "Input should be greater than {}",
    "exclusiveMaximum": "Input should be less than {}",
    "multipleOf": "Input should be a multiple of {}",
    "minLength": "String should have at least {} characters",
    "maxLength": "String should have at most {} characters",
    "pattern": "String should match pattern {!r}",
    "minItems": "List should have at least {} items",
    "maxItems": "List should have at most {} items",
    "minProperties": "Dictionary should have at least {} items",
    "maxProperties": "Dictionary should have at most {} items",
}


def plain(value: Any, path: str = "", depth: int = 0) -> Any:
    """A value as JSON; raises Wrong where there is no JSON for it."""
    if depth > MAX_DEPTH:
        raise Wrong([Problem(path, f"is nested deeper than {MAX_DEPTH}", None, missing=True)])
    match value:
        case Enum():
            return plain(value.value, path, depth)
        case None | bool() | int() | float() | str():
            return value
        case Decimal():
            return (
                int(value)
                if value == value.to_integral_value() and value.as_tuple().exponent == 0
                else float(value)
            )
        case datetime() | date() | time():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case UUID() | PurePath():
            return str(value)
        case bytes() | bytearray() | memoryview():
            return base64.b64encode(value).decode()
        case BaseModel():
            return value.model_dump(mode="json")
        case Mapping():
            return {
                _key(key, path): plain(each, f"{path}[{key!r:.60}]", depth + 1) for key, each in value.items()
            }
        case list() | tuple() | set() | frozenset():
            return [plain(each, f"{path}[{at}]", depth + 1) for at, each in enumerate(value)]
    if is_dataclass(value) and not isinstance(value, type):
        return {
            each.name: plain(getattr(value, each.name), f"{path}.{each.name}", depth + 1)
            for each in fields(value)
        }
    if callable(listed := getattr(value, "tolist", None)):  # an array or a number of NumPy's
        return plain(listed(), path, depth + 1)
    raise Wrong([Problem(path, "cannot be sent as JSON: pass plain values, lists and dicts", value)])


def _key(key: Any, path: str) -> str:
    if isinstance(key, str):
        return key
    if isinstance(key, (int, float, date, UUID, Enum)):
        return str(plain(key))
    raise Wrong([Problem(path, "Keys should be strings", key)])


def converter(schema: Mapping[str, Any], types: Mapping[str, Any]) -> Callable[[Any], Any]:
    """Turns values into JSON that the schema, with `types` as its `$defs`, allows; raises Wrong for others."""
    check = validation(schema, types)

    def convert(value: Any) -> Any:
        found = plain(value)
        check(found)
        return found

    return convert


def validation(schema: Mapping[str, Any], types: Mapping[str, Any]) -> Callable[[Any], None]:
    """Raises Wrong for values that the schema, with `types` as its `$defs`, does not allow."""
    validator = jsonschema.Draft202012Validator({**schema, "$defs": types})

    def check(value: Any) -> None:
        try:
            found = list(itertools.islice(validator.iter_errors(value), MAX_ERRORS))
        except RecursionError:
            raise Wrong([Problem("", "is nested too deeply to be checked", value)]) from None
        except (ValueError, OverflowError):  # jsonschema writes numbers out, and divides them as floats
            raise Wrong([Problem("", "holds a number too large to be checked", value)]) from None
        if found:
            raise Wrong(_problems(found))

    return check


def _problems(errors: Iterable[jsonschema.ValidationError]) -> Iterator[Problem]:
    for error in errors:
        asked: Any = error.validator_value
        schema: Any = error.schema
        found: Any = error.instance
        path = "".join(
            f"[{part}]" if isinstance(part, int) else _dotted(part) for part in error.absolute_path
        )
        match error.validator:
            case "anyOf" | "oneOf" if error.context:
                yield from _closest(error, path)
            case "required":
                absent = [each for each in asked if each not in found]
                yield from (
                    Problem(path + _dotted(each), "is missing", None, missing=True) for each in absent
                )
            case "additionalProperties" if asked is False:
                known = schema.get("properties", {})
                yield from (
                    Problem(path + _dotted(each), "there is no such field", found[each])
                    for each in found
                    if each not in known
                )
            case _:
                yield Problem(path, _words(error), error.instance)


def _closest(error: jsonschema.ValidationError, path: str) -> Iterator[Problem]:
    """Where one member of a union is of the value's type, what is wrong by it; else what each asks for."""
    deep = [each for each in error.context if each.validator not in ("type", "const", "enum") or each.path]
    by_branch = {each.schema_path[0]: each for each in reversed(deep)}
    if len(by_branch) == 1:
        yield from _problems(each for each in error.context if each.schema_path[0] in by_branch)
    elif by_branch:
        wrong = [
            next(iter(_problems([each])))
            for _, each in sorted(by_branch.items(), key=lambda pair: str(pair[0]))
        ]
        words = [
            f"{each.path.removeprefix(path).lstrip('.') or 'it'} {_lower(each.message)}" for each in wrong
        ]
        yield Problem(
            path, "either " + " or ".join(words), error.instance, all(each.missing for each in wrong)
        )
    else:
        yield from (Problem(path, _words(each), error.instance) for each in error.context)


def _lower(message: str) -> str:
    return message[:1].lower() + message[1:]


def _words(error: jsonschema.ValidationError) -> str:
    """As pydantic says it, and without the value."""
    asked: Any = error.validator_value
    match error.validator:
        case "type":
            kinds = asked if isinstance(asked, list) else [asked]
            return "Input should be " + " or ".join(_KINDS[kind] for kind in kinds)
        case "const":
            return f"Input should be {asked!r}"
        case "enum":
            shown = [repr(each) for each in asked]
            return (
                "Input should be "
                + ", ".join(shown[:-1])
                + (" or " if shown[:-1] else "")
                + "".join(shown[-1:])
            )
        case "uniqueItems":
            return "List items should be unique"
        case str() as known if known in _BOUNDS:
            return _BOUNDS[known].format(asked)
    return f"Input does not satisfy {error.validator!r} of the tool's schema"


def _dotted(name: str) -> str:
    return f".{name}" if name.isidentifier() and len(name) <= 60 else f"[{name!r:.60}]"
