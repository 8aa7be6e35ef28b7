"""Calls of functions in a reply, native or in its text, brought to names that are known and arguments that are objects."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from codeact.actions import arguments
from codeact.actions.calls import INTERPRETER, first_code
from codeact.actions.python import clean, without_returns
from codeact.actions.reading import unwrapped
from codeact.actions.written import Written
from codeact.types import Call

FINAL = "final_answer"
CODE = ("python", "run_python")
"""Names of the function that runs code, in one way of acting and the other."""
MAX_NAME = 64
POSITIONAL = "*"
"""The key under which arguments without names come."""
_EXAMPLES: Mapping[str, Any] = {
    "string": "...",
    "integer": 1,
    "number": 1.5,
    "boolean": True,
    "array": [],
    "object": {},
}

Definitions = Mapping[str, Mapping[str, Any]]
"""Function definitions by the name of the function."""


def written(tool_calls: Iterable[Any]) -> Iterator[tuple[str, str, Any]]:
    """Id, name and arguments of each call of a reply, as they came; OpenAI's wrapping of several calls is taken off.

    What is no call has no name, and itself for arguments, so that the model is told of it."""
    for call in tool_calls:
        inner = call.get("function", call) if isinstance(call, Mapping) else call
        if not isinstance(inner, Mapping):
            yield "", "", inner
            continue
        name, given, call_id = inner.get("name"), inner.get("arguments"), call.get("id")
        name = name if isinstance(name, str) else ""
        several = _several(given) if name.endswith("multi_tool_use.parallel") or name == "parallel" else []
        if several:
            yield from (("", each, made) for each, made in several)
        else:
            yield call_id if isinstance(call_id, str) else "", name, given


def _several(given: Any) -> list[Written]:
    try:
        uses = arguments.read(given).get("tool_uses")
    except arguments.Unreadable:
        return []
    found = uses if isinstance(uses, list) else []
    return [
        (str(use.get("recipient_name", "")), use.get("parameters")) for use in found if isinstance(use, dict)
    ]


def call(call_id: str, name: str, given: Any, known: Definitions) -> Call:
    """A call that was read, as it is to be made. What cannot be read of it is its problem."""
    name = known_name(name, known)
    if name in CODE and name in known:
        return _code_call(call_id, name, given)
    try:
        read = arguments.read(given)
        return Call(call_id, name, _named(read, known.get(name, {})))
    except arguments.Unreadable as error:
        example = json.dumps(_example(known.get(name, {})), ensure_ascii=False)
        return Call(call_id, name, problem=f"{name}(): the arguments {error}. Write {example}")


def known_name(name: str, known: Definitions) -> str:
    """The name of the function that is meant, without what some models put around it; else the name as it may be sent."""
    name = re.sub(r"(?:<[|｜].*|:\d+\s*)\Z", "", name, flags=re.DOTALL).strip()
    tries = [name, name.replace(".", "__"), re.split(r"[.:/]", name)[-1]]
    for each in tries:
        if each in known:
            return each
    lower = {each.lower(): each for each in known}
    for each in tries:
        if each.lower().replace(" ", "_") in lower:
            return lower[each.lower().replace(" ", "_")]
    if INTERPRETER.fullmatch(tries[-1]):
        return next((each for each in CODE if each in known), tries[-1])
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:MAX_NAME] or "unnamed"


def _code_call(call_id: str, name: str, given: Any) -> Call:
    """A call of the function that runs code; many models write the code itself in place of arguments."""
    try:
        read = arguments.read(given)
    except arguments.Unreadable as error:
        code = _bare_code(given)
        if code is None:
            return Call(
                call_id, name, problem=f'{name}(): the arguments {error}. Write {{"code": "print(1 + 1)"}}'
            )
    else:
        positional = read.get(POSITIONAL)
        first = positional[0] if isinstance(positional, list) and positional else None
        code = first if isinstance(first, str) else first_code(read)
        if code is None and len(read) == 1 and isinstance(only := next(iter(read.values())), str):
            code = only
    source = without_returns(clean(unwrapped(code))) if code is not None else ""
    if not source.strip():
        return Call(call_id, name, problem=f'{name}(): code is missing. Write {{"code": "print(1 + 1)"}}')
    return Call(call_id, name, {"code": source})


def _bare_code(given: Any) -> str | None:
    """Code that stands where arguments should, perhaps as a JSON string; None for JSON that is broken."""
    if not isinstance(given, str) or re.match(r'[\s"\\]*[{\[]', given):
        return None
    try:
        decoded = json.loads(given)
    except (ValueError, RecursionError):
        return given
    return decoded if isinstance(decoded, str) else given


def _named(given: dict[str, Any], definition: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments without names by the names that the definition has in their places."""
    if not isinstance(given.get(POSITIONAL), list):
        return given
    values = given.pop(POSITIONAL)
    names = list(_properties(definition))
    if len(values) > len(names):
        raise arguments.Unreadable(f"are {len(values)} without names, where {len(names)} are taken")
    return {**dict(zip(names, values, strict=False)), **given}


def _properties(definition: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = definition.get("parameters", {}).get("properties", {})
    return found


def _example(definition: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments as they are to be written: those that must be given, with a value of their type."""
    required = definition.get("parameters", {}).get("required", ())
    return {
        name: _value(schema)
        for name, schema in _properties(definition).items()
        if name in required or not required
    }


def _value(schema: Any) -> Any:
    if not isinstance(schema, Mapping):
        return "..."
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return schema["enum"][0]
    kinds = schema.get("type", "object" if "$ref" in schema else "string")
    return _EXAMPLES.get(kinds[0] if isinstance(kinds, list) and kinds else str(kinds), "...")
