"""Tools from JSON Schemas: what code sees, what is sent, what is refused; hostile schemas; the way back to a definition."""

from __future__ import annotations

import ast
import keyword
import sys
from datetime import date
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeact.errors import ArgumentError, ToolSourceError
from codeact.tools.definitions import from_definition, from_schema, schema
from codeact.tools.functions import from_function
from codeact.tools.tool import Tool

WEATHER = {
    "type": "function",
    "function": {
        "name": "get-weather",
        "description": "The weather of a day.",
        "parameters": {
            "type": "object",
            "properties": {
                "unit": {"type": "string", "enum": ["C", "F"], "default": "C"},
                "city": {"type": "string", "description": "Its name."},
                "from": {"type": "string", "format": "date"},
                "class": {"type": ["integer", "null"]},
                "user-id": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
                "place": {
                    "type": "object",
                    "properties": {"lat": {"type": "number"}, "lon": {"type": "number"}},
                    "required": ["lat", "lon"],
                    "additionalProperties": False,
                },
                "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 2},
                "scores": {"type": "object", "additionalProperties": {"type": "number"}},
            },
            "required": ["city", "user-id"],
        },
    },
}


def sent(**values: Any) -> dict[str, Any]:
    return values


def test_a_definition_as_python() -> None:
    made = from_definition(WEATHER, sent)
    assert made.signature == (
        "get_weather(city: str, user_id: int | str, unit: Literal['C', 'F'] = 'C', from_: str = ..., class_: int | None = ...,"
        " place: Place = ..., tags: list[str] = ..., scores: dict[str, float] = ...)"
    )
    assert (made.description, made.parameters[0].description) == ("The weather of a day.", "Its name.")
    assert list(made.types) == ["Place"]


def test_values_are_sent_by_their_own_names_as_json() -> None:
    class Unit(Enum):
        CELSIUS = "C"

    made = from_definition(WEATHER, sent)
    given = {"city": "Ulm", "user_id": UUID(int=1), "unit": Unit.CELSIUS, "from_": date(2024, 5, 1), "class_": None,
             "place": {"lat": Decimal("1.5"), "lon": 2}, "tags": ("a", "b")}  # fmt: skip
    assert made.call(**made.check(given)) == {
        "city": "Ulm", "user-id": "00000000-0000-0000-0000-000000000001", "unit": "C", "from": "2024-05-01", "class": None,
        "place": {"lat": 1.5, "lon": 2}, "tags": ["a", "b"],
    }  # fmt: skip


@pytest.mark.parametrize(
    "allowed", [{"additionalProperties": True}, {"additionalProperties": {"type": ["object", "integer"]}}, {"patternProperties": {"^x": {}}}]
)  # fmt: skip
def test_what_is_given_beside_the_properties_is_sent_among_them(allowed: dict[str, Any]) -> None:
    properties = {"a": {"type": "integer"}, "from": {"type": "integer"}}
    made = from_definition({"name": "f", "parameters": {"properties": properties, **allowed}}, sent)
    cases: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"a": 1}, {"a": 1}),
        ({"a": 1, "more": {"x": 2}}, {"a": 1, "x": 2}),
        ({"a": 1, "x": 2}, {"a": 1, "x": 2}),
        ({"more": {"more": {"x": 2}, "from_": 3}, "from_": 4}, {"more": {"x": 2}, "from_": 3, "from": 4}),
    ]
    for values, expected in cases:
        assert made.call(**made.check(values)) == expected
    with pytest.raises(ArgumentError, match=r"f\(\): more: 'from' is an argument of its own\. Write"):
        made.check({"a": 1, "more": {"from": 5}})


def test_a_property_called_more_is_none_of_the_others() -> None:
    made = from_definition(
        {"name": "f", "parameters": {"properties": {"more": {}}, "additionalProperties": True}}, sent
    )
    assert made.call(**made.check({"more": {"x": 1}, "more_2": {"y": 2}})) == {"more": {"x": 1}, "y": 2}


def test_a_function_gets_nothing_that_nobody_gave() -> None:
    def add(a: int) -> int:
        return a + 1

    made = from_definition(
        {"name": "add", "parameters": {"properties": {"a": {}}, "additionalProperties": True}}, add
    )
    assert made.call(**made.check({"a": 1})) == 2


def test_all_that_is_wrong() -> None:
    with pytest.raises(ArgumentError) as caught:
        from_definition(WEATHER, sent).check(
            {
                "user_id": 1.5,
                "unit": "K",
                "place": {"lat": "1", "alt": 3},
                "tags": ["a", 1, "c"],
                "form_": "x",
            }
        )
    message, _, signature = str(caught.value).partition(". Write ")
    assert signature.startswith("get_weather(city: str,")
    assert message.removeprefix("get_weather(): ").split("; ") == [
        "city is missing",
        "user_id: Input should be a valid integer or Input should be a valid string, got 1.5 (float)",
        "unit: Input should be 'C' or 'F', got 'K' (str)",
        "place.lat: Input should be a valid number, got '1' (str)",
        "place.lon: is missing",
        "place.alt: there is no such field, got 3 (int)",
        "tags[1]: Input should be a valid string, got 1 (int)",
        "tags: List should have at most 2 items, got ['a', 1, 'c'] (list)",
        "and 1 more",
    ]


NODE = {"type": "object", "properties": {"value": {"type": "integer"}, "next": {"$ref": "#/$defs/node"}}}
SIGNATURES: list[tuple[Any, str]] = [
    ({}, "f()"),
    (None, "f()"),
    (True, "f(**more: Any)"),
    (False, "f()"),
    ({"type": "object"}, "f()"),
    ({"type": "object", "additionalProperties": {"type": "integer"}}, "f(**more: int)"),
    ({"properties": {"a": True, "b": False, "c": {}, "d": 5}}, "f(a: Any = ..., b: Any = ..., c: Any = ..., d: Any = ...)"),
    ({"properties": {"def": {}, "def_": {}, "__class__": {}, "é": {}, "1": {}, "": {}, "!": {}, "a b": {}, "a.b": {}}},
     "f(def__2: Any = ..., def_: Any = ..., class_: Any = ..., é: Any = ..., _1: Any = ..., argument: Any = ..., a_b: Any = ..., a_b_2: Any = ...)"),
    ({"$defs": {"node": NODE}, "properties": {"list": {"$ref": "#/$defs/node"}}}, "f(list: Node = ...)"),
    ({"definitions": {"node": NODE | {"properties": {}}}, "properties": {"x": {"$ref": "#/definitions/node"}}}, "f(x: dict[str, Any] = ...)"),
    ({"$ref": "#/$defs/args", "$defs": {"args": {"properties": {"a": {"type": "string"}}, "required": ["a"]}}}, "f(a: str)"),
    ({"properties": {"me": {"$ref": "#"}}}, "f(me: Root = ...)"),
    ({"properties": {"x": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}, "f(x: Any = ...)"),
    ({"properties": {"x": {"$ref": "https://example.org/schema.json"}, "y": {"$ref": "#/nowhere"}}}, "f(x: Any = ..., y: Any = ...)"),
    ({"properties": {"x": {"$ref": "#/properties/y"}, "y": {"type": "string"}}}, "f(x: str = ..., y: str = ...)"),
    ({"allOf": [{"properties": {"a": {"type": "integer"}}, "required": ["a"]}, {"properties": {"b": {"type": "boolean"}}}]}, "f(a: int, b: bool = ...)"),
    ({"oneOf": [{"properties": {"a": {}}, "required": ["a"]}, {"properties": {"b": {}}, "required": ["b"]}]}, "f(b: Any = ..., a: Any = ...)"),
    ({"properties": {"x": {"type": "string", "nullable": True}, "y": {"const": 3}}}, "f(x: str | None = ..., y: Literal[3] = ...)"),
    ({"type": 7, "properties": {"x": {"type": "strng", "pattern": "(", "minimum": "a"}}, "required": "x"}, "f(x: Any = ...)"),
    ({"properties": [], "required": ["x"]}, "f()"),
    ({"properties": {"x": {"enum": []}, "y": {"anyOf": []}, "z": {"type": "array", "items": [{"type": "string"}]}}}, "f(x: Any = ..., y: Any = ..., z: list = ...)"),
]  # fmt: skip


@pytest.mark.parametrize(("parameters", "signature"), SIGNATURES, ids=lambda value: str(value)[:40])
def test_schemas_of_all_kinds(parameters: Any, signature: str) -> None:
    assert from_schema("f", parameters, sent).signature == signature


def test_a_cyclic_schema_checks_at_any_depth() -> None:
    made = from_schema("f", {"$defs": {"node": NODE}, "properties": {"list": {"$ref": "#/$defs/node"}}}, sent)
    value: dict[str, Any] = {"value": 1}
    for _ in range(20):
        value = {"value": 1, "next": value}
    assert made.check({"list": value}) == {"list": value}
    with pytest.raises(
        ArgumentError, match=r"list\.next\.value: Input should be a valid integer, got True \(bool\)"
    ):
        made.check({"list": {"next": {"value": True}}})


def test_what_arguments_must_be_together() -> None:
    asked = {"properties": {"id": {"type": "integer"}, "name": {"type": "string"}},
             "oneOf": [{"required": ["id"]}, {"required": ["name"]}]}  # fmt: skip
    made = from_schema("f", asked, sent)
    assert made.check({"id": 1}) == {"id": 1}
    with pytest.raises(ArgumentError, match="the arguments: either id is missing or name is missing"):
        made.check({})
    with pytest.raises(
        ArgumentError, match="the arguments: Input does not satisfy 'oneOf' of the tool's schema"
    ):
        made.check({"id": 1, "name": "n"})


def test_an_absurdly_deep_schema() -> None:
    deep: dict[str, Any] = {"type": "string"}
    for _ in range(20_000):
        deep = {"type": "object", "properties": {"a": deep}}
    made = from_schema("f", deep, sent)
    assert len(made.types) == 48
    assert made.check({"a": {"a": {}}}) == {"a": {"a": {}}}


def test_a_value_that_is_no_json() -> None:
    with pytest.raises(
        ArgumentError, match=r"x\[1\]: cannot be sent as JSON: pass plain values, lists and dicts"
    ):
        from_schema("f", {"properties": {"x": {}}}, sent).check({"x": [1, object()]})


@pytest.mark.parametrize(
    "definition", [{}, {"function": {"name": ""}}, {"function": "f"}, {"name": 5}, None, [], "f"]
)
def test_a_definition_without_a_name(definition: Any) -> None:
    with pytest.raises(ToolSourceError, match="a function definition needs a name"):
        from_definition(definition, sent)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"namespace": 5}, "namespace of the tool f is 5; it takes a text"),
        ({"secret": "pin"}, "secret of the tool f is 'pin'; it takes a list of parameters"),
        ({"secret": ["pni"]}, "the tool f has no parameter 'pni', which secret names"),
        ({"policy": "read"}, "policy of the tool f is 'read'; it takes a Policy"),
    ],
)
def test_what_a_definition_comes_with_is_checked(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ToolSourceError, match=said):
        from_definition(
            {"name": "f", "parameters": {"properties": {"pin": {"type": "string"}}}}, sent, **given
        )


def test_a_secret_is_hidden_also_where_its_name_is_mapped() -> None:
    parameters = {"properties": {"class": {"type": "integer"}}}
    made = from_definition({"name": "f", "parameters": parameters}, sent, secret=["class"])
    assert made.secret == {"class_"}
    with pytest.raises(ArgumentError) as caught:
        made.check({"class_": "s3cret"})
    assert "s3cret" not in str(caught.value)


def test_a_function_as_a_definition() -> None:
    def order(sku: str, amount: int = 1, *notes: str, **more: float) -> None:
        """Orders.

        Args:
            sku: The article.
        """

    assert schema(from_function(order)) == {
        "type": "function",
        "function": {
            "name": "order",
            "description": "Orders.",
            "parameters": {
                "type": "object",
                "properties": {
                    "sku": {"type": "string", "description": "The article."},
                    "amount": {"type": "integer", "default": 1},
                    "notes": {"type": "array", "items": {"type": "string"}},
                },
                "required": ["sku"],
                "additionalProperties": {"type": "number"},
            },
        },
    }


NAMES = st.one_of(
    st.sampled_from(["a", "b", "from", "from_", "x-y", "$ref", "properties", "__init__", "type"]),
    st.text(max_size=8),
)
LEAVES = st.one_of(
    st.booleans(),
    st.builds(lambda kind: {"type": kind}, st.sampled_from(["string", "integer", "number", "boolean", "null", "array", "object"])),
    st.builds(lambda values: {"enum": values}, st.lists(st.one_of(st.text(max_size=3), st.integers(), st.none()), min_size=1, max_size=3)),
    st.builds(lambda name: {"$ref": f"#/$defs/{name}"}, st.sampled_from(["one", "two"])),
)  # fmt: skip


def objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    def build(properties: dict[str, Any], required: set[str], more: Any) -> dict[str, Any]:
        made: dict[str, Any] = {"type": "object", "properties": properties}
        made["required"] = sorted(set(properties) & (required | set(list(properties)[:1])))
        return made if more is None else {**made, "additionalProperties": more}

    return st.builds(
        build, st.dictionaries(NAMES, inner, max_size=4), st.sets(NAMES), st.one_of(st.none(), st.booleans())
    )


PARTS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        objects(inner),
        st.builds(lambda each: {"type": "array", "items": each}, inner),
        st.builds(lambda each: {"anyOf": each}, st.lists(inner, min_size=1, max_size=3)),
    ),
    max_leaves=6,
)
WHOLE = st.builds(
    lambda root, one, two: {**root, "$defs": {"one": one, "two": two}}, objects(PARTS), PARTS, PARTS
)
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=3)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=5,
)
ANY = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.one_of(st.sampled_from(["type", "properties", "$ref", "enum", "items", "anyOf", "allOf", "required", "pattern", "$defs",
                                       "additionalProperties", "default", "title", "const", "not", "minimum", "prefixItems"]), NAMES),
            inner, max_size=4),
    ),
    max_leaves=20,
)  # fmt: skip


def well_formed(made: Tool) -> None:
    names = [made.name, *(each.name for each in made.parameters)]
    assert all(name.isidentifier() and not keyword.iskeyword(name) for name in names)
    assert not any(name.startswith("__") for name in names)
    assert len(set(names[1:])) == len(names[1:])
    for each in made.parameters:
        if each.annotation:
            ast.parse(each.annotation, mode="eval")
    for name, record in made.types.items():
        assert name.isidentifier()
        jsonschema.Draft202012Validator.check_schema(record)


@given(ANY, ANY)
def test_no_schema_crashes(parameters: Any, value: Any) -> None:
    made = from_schema("f", parameters, sent)
    well_formed(made)
    jsonschema.Draft202012Validator.check_schema(schema(made)["function"]["parameters"])
    for names in ({each.name for each in made.parameters}, set()):
        try:
            made.check(dict.fromkeys(names, value))
        except ArgumentError as error:
            assert len(str(error)) < 4000  # noqa: PT017 - both ways are right


@given(WHOLE, st.dictionaries(NAMES, JSON, max_size=4))
def test_there_and_back_the_same_values_are_right(parameters: dict[str, Any], value: dict[str, Any]) -> None:
    made = from_definition({"name": "f", "parameters": parameters}, sent)
    again = from_definition(schema(made), sent)
    well_formed(again)
    assert again.signature == made.signature
    assert accepts(made, value) == accepts(again, value)
    assert [each.sent for each in again.parameters] == [each.sent for each in made.parameters]


def accepts(made: Tool, value: dict[str, Any]) -> bool:
    known = {each.sent or each.name for each in made.parameters}
    try:
        return bool(made.check({key: each for key, each in value.items() if key in known}) or True)
    except ArgumentError:
        return False


def test_the_recursion_limit_is_as_before() -> None:
    assert sys.getrecursionlimit() < 20_000
