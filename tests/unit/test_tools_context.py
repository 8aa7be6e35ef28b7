"""Tools that ask for the call which they answer, as a parameter that code does not see."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any

import pytest

from codeact.errors import ToolError, ToolSourceError
from codeact.tools.context import RunContext, ToolContext
from codeact.tools.definitions import from_definition, schema
from codeact.tools.functions import from_function, tool
from codeact.tools.stubs import modules
from codeact.tools.tool import Tool
from tests.unit.test_tools_runner import Bench

MIA = RunContext(user="mia")


def first(call: ToolContext, n: int) -> str:
    return f"{call.context.user} {call.call} {n}"


def last(n: int, *, call: ToolContext) -> str:
    return f"{call.context.user} {call.call} {n}"


def positional(call: ToolContext, /, n: int) -> str:
    return f"{call.context.user} {call.call} {n}"


def optional(n: int, call: ToolContext | None = None) -> str:
    return f"{call.context.user} {call.call} {n}" if call is not None else f"nobody {n}"


def annotated(n: int, call: Annotated[ToolContext, "the call"]) -> str:
    return f"{call.context.user} {call.call} {n}"


async def coroutine(call: ToolContext, n: int) -> str:
    return f"{call.context.user} {call.call} {n}"


class Desk:
    def method(self, call: ToolContext, n: int) -> str:
        return f"{call.context.user} {call.call} {n}"


@pytest.mark.parametrize("function", [first, last, positional, optional, annotated, coroutine, Desk().method])
def test_the_call_is_filled_in_and_in_no_signature(function: Any) -> None:
    made = from_function(function)
    assert [each.name for each in made.parameters] == ["n"]
    assert list(schema(made)["function"]["parameters"]["properties"]) == ["n"]
    assert "ToolContext" not in "".join(modules([made]).values())
    bench = Bench(function, context=MIA)
    assert bench.call(made.name, n=7) == "mia c1 7"
    assert "there is no argument 'call'" in bench.fails(made.name, n=7, call="forged")[1]


def test_options_of_any_name_cannot_forge_it() -> None:
    def take(call: ToolContext, **options: Any) -> str:
        return call.context.user

    bench = Bench(take, context=MIA)
    assert bench.call("take", options={"a": 1}) == "mia"
    assert bench.fails("take", options={"call": "forged"})[0] == "TypeError"


def test_streams_know_it_too() -> None:
    async def items(call: ToolContext) -> AsyncIterator[str]:
        yield call.call

    assert list(Bench(items).call("items")) == ["c1"]


def test_functions_of_definitions_get_it_as_well() -> None:
    def pay(n: int, call: ToolContext) -> str:
        return f"{call.key} {n}"

    definition = {"name": "pay", "parameters": {"type": "object", "properties": {"n": {"type": "integer"}}}}
    made: Tool = from_definition(definition, pay)
    with pytest.raises(ToolError, match="only in a tool"):
        made.call(n=1)
    bench = Bench()
    bench.runner._tools["pay"] = made
    assert bench.call("pay", n=1) == "r-c1 1"
    assert from_definition({"name": "print"}, print).call is print


def test_outside_of_a_call_defaults_hold() -> None:
    assert from_function(optional).call(n=1) == "nobody 1"
    with pytest.raises(ToolError, match="only in a tool"):
        from_function(first).call(n=1)


def test_what_runs_in_the_sandbox_cannot_have_it() -> None:
    @tool(where="sandbox")
    def inside(call: ToolContext) -> None:
        pass

    with pytest.raises(ToolSourceError, match="it takes call, a ToolContext, which only the host has"):
        from_function(inside)
