"""Tools from JSON Schemas: the function definitions of OpenAI's API, to and from."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from codeact.errors import ToolSourceError
from codeact.tools import context, own, signatures
from codeact.tools.arguments import Check
from codeact.tools.functions import crossing
from codeact.tools.functions import namespace as as_namespace
from codeact.tools.given import check
from codeact.tools.names import identifier, in_tools
from codeact.tools.plain import converter, validation
from codeact.tools.schemas import Schema, Schemas, needed, python_names
from codeact.tools.tool import Parameter, Policy, Tool

MAX_FUNCTION_NAME = 64
MAX_LEVELS = 4
_BASIC = {
    "type",
    "properties",
    "required",
    "additionalProperties",
    "title",
    "description",
    "default",
    "$defs",
    "format",
}


def from_definition(
    definition: Mapping[str, Any],
    call: Callable[..., Any],
    *,
    namespace: str = "",
    policy: Policy | None = None,
    secret: Collection[str] = frozenset(),
) -> Tool:
    """A tool from a function definition, with or without its `{"type": "function", "function": ...}`, or from one with
    `input_schema`. `call` gets JSON values by the names in the definition, and the ToolContext where it has a parameter
    annotated as that. Raises ToolSourceError where it has no name.
    """
    inner = definition.get("function", definition) if isinstance(definition, Mapping) else None
    if not isinstance(inner, Mapping) or not isinstance(inner.get("name"), str) or not inner["name"]:
        raise ToolSourceError(
            "a function definition needs a name, as in {'name': 'add', 'parameters': {...}}"
        )
    if not callable(call):
        raise ToolSourceError(f"the definition of {inner['name']:.60} comes with no function to call")
    found = (inner[key] for key in ("parameters", "input_schema", "inputSchema") if key in inner)
    description = inner.get("description")
    return from_schema(
        inner["name"],
        next(found, {}),
        _with_context(call),
        namespace=namespace,
        description=description if isinstance(description, str) else "",
        policy=policy,
        secret=secret,
        bound=own.bound(call),
    )


def _with_context(call: Callable[..., Any]) -> Callable[..., Any]:
    try:
        signature = inspect.signature(call)
    except (TypeError, ValueError):  # such as of a function of C
        return call
    hidden = context.hidden(signature, signatures.hints(signatures.inner(call)))
    return (lambda **values: call(**values, **context.values(hidden))) if hidden else call


def from_schema(
    name: str,
    parameters: Any,
    call: Callable[..., Any],
    *,
    result: Any = None,
    document: Any = None,
    namespace: str = "",
    description: str = "",
    policy: Policy | None = None,
    secret: Collection[str] = frozenset(),
    errors: tuple[str, ...] = (),
    own_secrets: Collection[str] = (),
    bound: Collection[str] = (),
) -> Tool:
    """A tool from the JSON Schema of its arguments. References are looked up in `document`, else in the schema."""
    check(f"the tool {name:.60}", namespace=namespace, secret=secret)
    schemas = Schemas(parameters if document is None else document)
    root = schemas.read(parameters, inline=True, sent=document is not None)
    properties, required, more = _members(root, schemas, 0)
    names = python_names(list(properties))
    defaults = [each.pop("default", None) for sent, each in properties.items() if sent in secret]
    made = [
        _parameter(names[sent], sent, properties[sent], schemas, required=sent in required)
        for sent in sorted(properties, key=lambda each: each not in required)
    ]
    convert = {each.name: converter(properties[each.sent or each.name], schemas.types) for each in made}
    if more is not None or parameters is True:
        more = more or {}
        options = identifier("more", convert)
        made.append(Parameter(options, "options", schemas.text(more), False, None, _own(more, schemas)))
        convert[options] = converter(more, schemas.types)
        call = _among_the_others(call, options)
    if missing := set(secret) - {each.sent or each.name for each in made}:
        raise ToolSourceError(f"the tool {name:.60} has no parameter {min(missing)!r}, which secret names")
    tool_name = in_tools(name, namespace)
    returned = Schemas(result, schemas.types) if document is None else schemas
    hidden = frozenset(each.name for each in made if (each.sent or each.name) in secret)
    outcome = returned.read(result, f"{tool_name} result") if result is not None else {}
    return Tool(
        name=tool_name,
        call=call,
        check=Check(tool_name, tuple(made), convert, hidden, _whole(root, schemas)),
        namespace=as_namespace(namespace),
        description=description,
        parameters=tuple(made),
        returns=returned.text(outcome) if outcome else "",
        result=_own(outcome, returned),
        types=needed(schemas.types, outcome, *(dict(each.schema) for each in made)),
        errors=errors,
        policy=policy or Policy(),
        secret=hidden,
        own_secrets=own.texts(defaults) | frozenset(own_secrets),
        bound=frozenset(bound),
    )


def _members(
    schema: Schema, schemas: Schemas, level: int
) -> tuple[dict[str, Schema], set[str], Schema | None]:
    """The properties of an object, those that it must have, and the schema of others; None where there are none."""
    schema = schemas.target(schema)
    properties = dict(schema.get("properties", {}))
    required = set(schema.get("required", ()))
    more = schema.get("additionalProperties")
    if more is None and "patternProperties" in schema:
        more = {}
    if level < MAX_LEVELS:
        for key in ("allOf", "anyOf", "oneOf"):
            parts = [_members(each, schemas, level + 1) for each in schema.get(key, ())]
            for part in parts:
                properties = {**part[0], **properties}
            if parts:
                both = set.union if key == "allOf" else set.intersection
                required |= both(*(part[1] for part in parts))
    properties.pop("", None)  # what has no name cannot be given
    return properties, required & set(properties), more if isinstance(more, dict) else None


def _among_the_others(call: Callable[..., Any], options: str) -> Callable[..., Any]:
    """A call that gets what code gave beside the properties as the source knows it: by name, like the properties."""

    def called(**values: Any) -> Any:
        more = values.pop(options, {})
        return call(**{**more, **values})

    return called


def _whole(root: Schema, schemas: Schemas) -> Callable[[Any], None] | None:
    """Checks what no argument alone can break."""
    return validation(root, schemas.types) if set(schemas.target(root)) - _BASIC else None


def _own(schema: Schema, schemas: Schemas) -> Schema:
    """The schema with what it refers to."""
    definitions = needed(schemas.types, schema)
    return {**schema, "$defs": definitions} if definitions else schema


def _parameter(name: str, sent: str, schema: Schema, schemas: Schemas, *, required: bool) -> Parameter:
    described = schema.get("description") or schemas.target(schema).get("description", "")
    return Parameter(
        name=name,
        annotation=schemas.text(schema),
        required=required,
        default=None if required else crossing(schema["default"]) if "default" in schema else ...,
        schema=_own(schema, schemas),
        description=described,
        sent="" if name == sent else sent,
    )


def function_name(tool: Tool) -> str:
    """The tool's path as a name that endpoints accept: letters, digits, `_` and `-`, at most 64."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", tool.path.replace(".", "__"))[:MAX_FUNCTION_NAME]


def schema(tool: Tool) -> dict[str, Any]:
    """The function definition of a tool, with the names that its source gives the arguments."""
    definitions: dict[str, Any] = {}
    properties: dict[str, Any] = {}
    required: list[str] = []
    more: Any = False
    for each in tool.parameters:
        own = {key: value for key, value in each.schema.items() if key != "$defs"}
        definitions.update(each.schema.get("$defs", {}))
        if each.kind == "options":
            more = own or True
            continue
        if each.kind == "rest":
            own = {"type": "array", "items": own}
        if each.description:
            own.setdefault("description", each.description)
        if not each.required and each.default is not ... and each.kind != "rest" and _is_json(each.default):
            own.setdefault("default", each.default)
        name = each.sent or each.name
        properties[name] = own
        required += [name] if each.required and each.kind != "rest" else []
    parameters: dict[str, Any] = {"type": "object", "properties": properties, "required": required}
    parameters["additionalProperties"] = more
    if definitions:
        parameters["$defs"] = definitions
    said = {"name": function_name(tool), "description": tool.description, "parameters": parameters}
    return {"type": "function", "function": said}


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return False
    return True
