"""What a model is sent of a tool, from its signature and docstring; and that what fits the schema can be called."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Optional

import jsonschema
from pydantic import BaseModel, Field

from codeact import Agent, ScriptedModel, journal, tool
from codeact.actions.styles import style
from codeact.tools.load import tools_from
from codeact.tools.stub_text import one_line
from codeact.tools.stubs import modules
from tests.unit.test_functions import ANSWER, calls


class Line(BaseModel):
    sku: str
    count: int = Field(1, ge=1, description="How many.")


@dataclass
class Where:
    city: str
    code: Optional[str] = None  # noqa: UP045 - as people write it


CALLED: list[dict[str, Any]] = []


@tool(effects="write")
def order(
    lines: list[Line],
    where: Where,
    how: Literal["fast", "slow"] = "slow",
    *,
    note: Optional[str] = None,  # noqa: UP045
    tags: dict[str, int] | None = None,
) -> str:
    """Places an order.

    Args:
        lines: What is ordered.
        note: For the packer.
    """
    CALLED.append({"lines": lines, "where": where, "how": how, "note": note, "tags": tags})
    return "ordered"


def sent() -> dict[str, Any]:
    [definition, _] = style("functions", tools_from([order])).functions
    function: dict[str, Any] = dict(definition["function"])
    return function


def test_signature_and_docstring_become_a_schema() -> None:
    function = sent()
    parameters = function["parameters"]
    jsonschema.Draft202012Validator.check_schema(parameters)
    assert (function["name"], function["description"]) == ("order", "Places an order.")
    assert parameters["required"] == ["lines", "where"]
    assert parameters["additionalProperties"] is False
    assert parameters["properties"]["lines"] == {
        "type": "array", "items": {"$ref": "#/$defs/Line"}, "description": "What is ordered.",
    }  # fmt: skip
    assert parameters["properties"]["how"] == {"enum": ["fast", "slow"], "type": "string", "default": "slow"}
    assert parameters["properties"]["note"] == {
        "anyOf": [{"type": "string"}, {"type": "null"}], "default": None, "description": "For the packer.",
    }  # fmt: skip
    assert parameters["$defs"]["Line"]["properties"]["count"] == {
        "type": "integer", "minimum": 1, "default": 1, "description": "How many.",
    }  # fmt: skip
    assert parameters["$defs"]["Where"]["required"] == ["city"]


def test_names_and_descriptions_are_those_that_code_sees() -> None:
    function = sent()
    [stub] = [source for path, source in modules(tools_from([order])).items() if path == "tools/__init__.py"]
    text = one_line(stub)
    for name in function["parameters"]["properties"]:
        assert f"{name}: " in text
    for said in ("Places an order.", "What is ordered.", "For the packer."):
        assert said in text


def test_what_fits_the_schema_arrives_as_what_the_function_takes(tmp_path: Path) -> None:
    given = {"lines": [{"sku": "x", "count": 2}, {"sku": "y"}], "where": {"city": "Ghent"}, "tags": {"a": 1}}
    jsonschema.validate(given, sent()["parameters"])
    CALLED.clear()
    wrong = {"lines": [{"sku": 5, "count": 0}], "where": {}, "how": "soon"}
    model = ScriptedModel([calls(("order", wrong)), calls(("order", json.dumps(given))), calls(ANSWER)])
    result = Agent(model, actions="functions", tools=[order], runs=tmp_path, approve="never").run("Order.")
    assert [
        {"lines": [Line(sku="x", count=2), Line(sku="y", count=1)], "where": Where("Ghent"), "how": "slow", "note": None, "tags": {"a": 1}}
    ] == CALLED  # fmt: skip
    said = json.loads(model.requests[1].messages[-1].content.split("\n")[0])["error"]["message"]
    for words in (
        "lines[0].sku",
        "lines[0].count",
        "where.city: is missing",
        "how: Input should be 'fast' or 'slow'",
    ):
        assert words in said
    validator = jsonschema.Draft202012Validator(journal.line_schema())
    lines = (tmp_path / result.run / journal.FILE).read_text().splitlines()
    assert [error.message for line in lines for error in validator.iter_errors(json.loads(line))] == []
