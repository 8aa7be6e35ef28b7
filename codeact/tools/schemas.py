"""JSON Schemas as they come, from people and from servers: made safe, written as Python types, used to check values.

What is not JSON Schema is left out, never an error: a keyword with a value of the wrong type, a reference to what is not
there, what lies deeper than MAX_DEPTH. Less is checked then; the tool itself checks too.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import unquote

from codeact.tools.hints import reference, references, referred
from codeact.tools.names import class_name, identifier

MAX_DEPTH = 48
MAX_UNION = 8
MAX_LITERALS = 40
MAX_CLASSES = 500
MAX_ALL_OF = 4

TYPES = {
    "string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None",
    "array": "list", "object": "dict[str, Any]",
}  # fmt: skip

Schema = dict[str, Any]

_ONE = {"additionalProperties", "not", "if", "then", "else", "contains", "propertyNames"}
_SEVERAL = {"anyOf", "oneOf", "allOf", "prefixItems"}
_NAMED = {"properties", "patternProperties", "dependentSchemas"}


def _count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _pattern(value: Any) -> bool:
    try:
        re.compile(value)
    except (re.error, TypeError, RecursionError, OverflowError):
        return False
    return True


def _names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _type(value: Any) -> bool:
    kinds = value if isinstance(value, list) else [value]
    return bool(kinds) and all(isinstance(each, str) and each in TYPES for each in kinds)


_PLAIN: dict[str, Callable[[Any], bool]] = {
    "type": _type, "required": _names, "enum": lambda value: isinstance(value, list), "const": lambda value: True,
    "minimum": _number, "maximum": _number, "exclusiveMinimum": _number, "exclusiveMaximum": _number,
    "multipleOf": lambda value: _number(value) and value > 0, "minLength": _count, "maxLength": _count,
    "pattern": _pattern, "format": _text, "minItems": _count, "maxItems": _count, "minProperties": _count,
    "maxProperties": _count, "uniqueItems": lambda value: isinstance(value, bool), "default": lambda value: True,
    "title": _text, "description": _text,
    "dependentRequired": lambda value: isinstance(value, dict) and all(map(_names, value.values())),
}  # fmt: skip


class Schemas:
    """The schemas of one document. `types` holds the classes that they name, as far as they were read."""

    def __init__(self, document: Any, types: dict[str, Schema] | None = None) -> None:
        """`types` takes the classes, beside those of other documents."""
        self._document = document
        self._by_pointer: dict[tuple[str, bool], str] = {}
        self._sent = False
        self.types: dict[str, Schema] = {} if types is None else types

    def read(self, schema: Any, name: str = "", *, inline: bool = False, sent: bool = False) -> Schema:
        """A schema that validators understand, with references to `types` alone. An object with properties becomes
        one of these, called after its title or `name`, unless it shall stay `inline`. What is `sent` need not have what
        only the server says."""
        self._sent = sent
        return self._read(schema, name, 0, inline=inline)

    def target(self, schema: Schema) -> Schema:
        """What a schema refers to, or itself."""
        name = referred(schema)
        return self.types.get(name, {}) if name else schema

    def _read(self, schema: Any, name: str, depth: int, *, inline: bool = False) -> Schema:
        if schema is False:
            return {"not": {}}
        if not isinstance(schema, dict) or depth > MAX_DEPTH or len(self.types) > MAX_CLASSES:
            return {}
        if isinstance(pointer := schema.get("$ref"), str):
            return self._reference(pointer, schema, depth)
        read = self._keywords(schema, name, depth)
        if inline or not read.get("properties") or (depth == 0 and not name):
            return read
        return self._class(str(read.get("title") or name), read)

    def _class(self, name: str, schema: Schema) -> Schema:
        if self.types.get(class_name(name)) == schema:
            return reference(class_name(name))
        name = class_name(name, self.types)
        self.types[name] = schema
        return reference(name)

    def _reference(self, pointer: str, schema: Mapping[str, Any], depth: int) -> Schema:
        key = (pointer, self._sent and self._has_read_only(pointer))
        if key not in self._by_pointer:
            found = self._resolved(pointer)
            if found is None:
                return {}
            name = class_name(unquote(pointer.rpartition("/")[2]).lstrip("#") or "Root", self.types)
            self._by_pointer[key] = name
            self.types[name] = {}  # known by name from here on, so that a circle ends
            self.types[name] = self._read(found, name, depth + 1, inline=True)
        said = {key: schema[key] for key in ("description", "default") if key in schema}
        return {**reference(self._by_pointer[key]), **said}

    def _has_read_only(self, pointer: str) -> bool:
        """Whether what a pointer leads to has properties, at any depth, that only the server says."""
        seen: set[str] = set()
        waiting: list[Any] = [{"$ref": pointer}]
        looked_at: set[int] = set()
        while waiting:
            found = waiting.pop()
            if id(found) in looked_at:  # YAML can hold a thing in itself
                continue
            match found:
                case {"readOnly": True}:
                    return True
                case {"$ref": str(at)} if at not in seen:
                    seen.add(at)
                    waiting.append(self._resolved(at))
                case dict():
                    looked_at.add(id(found))
                    waiting += found.values()
                case list():
                    looked_at.add(id(found))
                    waiting += found
        return False

    def _read_only(self, schema: Any, level: int = 0) -> set[str]:
        """Properties that only the server says."""
        if isinstance(schema, dict) and isinstance(pointer := schema.get("$ref"), str):
            schema = self._resolved(pointer)
        if not isinstance(schema, dict) or level > MAX_ALL_OF:
            return set()
        own, parts = schema.get("properties"), schema.get("allOf")
        found = {
            name for name, each in (own.items() if isinstance(own, dict) else ()) if self._is_read_only(each)
        }
        return found.union(
            *(self._read_only(each, level + 1) for each in (parts if isinstance(parts, list) else ()))
        )

    def _is_read_only(self, schema: Any) -> bool:
        if not isinstance(schema, dict):
            return False
        found = self._resolved(schema["$ref"]) if isinstance(schema.get("$ref"), str) else None
        return schema.get("readOnly") is True or (isinstance(found, dict) and found.get("readOnly") is True)

    def _resolved(self, pointer: str) -> Any:
        """What a pointer within the document leads to, through other references too."""
        seen: set[str] = set()
        while pointer.startswith("#") and pointer not in seen:
            seen.add(pointer)
            value = self._document
            for part in pointer[1:].strip("/").split("/") if pointer.strip("#/") else []:
                part = unquote(part).replace("~1", "/").replace("~0", "~")
                if isinstance(value, list) and part.isdecimal() and int(part) < len(value):
                    value = value[int(part)]
                else:
                    value = value.get(part) if isinstance(value, dict) else None
            if not (isinstance(value, dict) and isinstance(value.get("$ref"), str)):
                return value
            pointer = value["$ref"]
        return None

    def _keywords(self, schema: Mapping[Any, Any], name: str, depth: int) -> Schema:
        read: Schema = {}
        for key, value in schema.items():
            if key in _PLAIN:
                if _PLAIN[key](value):
                    read[key] = value
            elif key in _ONE and isinstance(value, (dict, bool)):
                read[key] = (
                    value
                    if value is False and key == "additionalProperties"
                    else self._read(value, name, depth + 1)
                )
            elif key in _SEVERAL and isinstance(value, list) and value:
                read[key] = [self._read(each, name, depth + 1, inline=key == "allOf") for each in value]
            elif key in _NAMED and isinstance(value, dict):
                pairs = [
                    (each, self._read(value[each], each, depth + 1))
                    for each in value
                    if isinstance(each, str)
                ]
                read[key] = {
                    each: found for each, found in pairs if key != "patternProperties" or _pattern(each)
                }
            elif key == "items":
                self._items(read, value, name, depth)
        if self._sent and "required" in read:
            unsaid = self._read_only(schema)
            read["required"] = [each for each in read["required"] if each not in unsaid]
        return _modern(read, schema)

    def _items(self, read: Schema, value: Any, name: str, depth: int) -> None:
        singular = name[:-1] if name.endswith("s") else name
        if isinstance(value, list):
            read["prefixItems"] = [self._read(each, singular, depth + 1) for each in value] or [{}]
        else:
            read["items"] = self._read(value, singular, depth + 1)

    def text(self, schema: Any, seen: frozenset[str] = frozenset()) -> str:
        """A schema that was read, as the source of a Python type."""
        if not isinstance(schema, dict):
            return "Any"
        if name := referred(schema):
            return self._named(name, seen)
        if "const" in schema:
            return _literal([schema["const"]]) or "Any"
        if "enum" in schema and (found := _literal(schema["enum"])):
            return found
        if members := schema.get("anyOf") or schema.get("oneOf"):
            return _union([self.text(each, seen) for each in members])
        if members := schema.get("allOf"):
            texts = [self.text(each, seen) for each in members]
            return next((each for each in texts if each != "Any"), "Any")
        kinds = schema.get("type", "object" if "properties" in schema else [])
        kinds = kinds if isinstance(kinds, list) else [kinds]
        return _union([self._kind(kind, schema, seen) for kind in kinds])

    def _named(self, name: str, seen: frozenset[str]) -> str:
        if self.types.get(name, {}).get("properties"):
            return name
        return "Any" if name in seen else self.text(self.types.get(name), seen | {name})

    def _kind(self, kind: str, schema: Schema, seen: frozenset[str]) -> str:
        if kind == "array" and isinstance(schema.get("items"), dict) and schema["items"]:
            return f"list[{self.text(schema['items'], seen)}]"
        if kind == "object" and isinstance(more := schema.get("additionalProperties"), dict) and more:
            return f"dict[str, {self.text(more, seen)}]"
        return TYPES[kind]


def _modern(read: Schema, raw: Mapping[Any, Any]) -> Schema:
    """With the words of earlier drafts and of OpenAPI 3.0 in those of now."""
    for bound, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if raw.get(exclusive) is True and bound in read:
            read[exclusive] = read.pop(bound)
    if raw.get("nullable") is True:
        kinds = read.get("type", [])
        if kinds:
            read["type"] = list(dict.fromkeys([*(kinds if isinstance(kinds, list) else [kinds]), "null"]))
        if "enum" in read:
            read["enum"] = [*read["enum"], None]
    return read


def _union(texts: list[str]) -> str:
    texts = list(dict.fromkeys(texts))
    if not texts or "Any" in texts or len(texts) > MAX_UNION:
        return "Any"
    return " | ".join(sorted(texts, key=lambda text: text == "None"))


def _literal(values: list[Any]) -> str:
    if not 0 < len(values) <= MAX_LITERALS or not all(map(_short, values)):
        return ""
    return f"Literal[{', '.join(dict.fromkeys(map(repr, values)))}]"


def _short(value: Any) -> bool:
    return value is None or isinstance(value, int) or (isinstance(value, str) and len(value) <= 80)


def python_names(given: list[str]) -> dict[str, str]:
    """An identifier for each name; names that are identifiers keep themselves."""
    names = {each: each for each in given if identifier(each) == each and not keyword.iskeyword(each)}
    for each in given:
        if each not in names:
            names[each] = identifier(each, names.values(), "argument")
    return names


def needed(types: Mapping[str, Schema], *schemas: Schema) -> dict[str, Schema]:
    """Those of `types` that the schemas refer to, directly or not."""
    found: dict[str, Schema] = {}
    waiting = list(schemas)
    while waiting:
        for name in references(waiting.pop()):
            if name in types and name not in found:
                found[name] = types[name]
                waiting.append(types[name])
    return found
