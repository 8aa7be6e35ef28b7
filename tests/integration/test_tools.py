"""Tools of the host, called by a scripted model's code in a real sandbox."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from codeact import journal
from codeact.agent import Agent
from codeact.models import ScriptedModel
from codeact.tools.context import current_call
from codeact.tools.functions import tool
from codeact.types import Result
from tests.integration.test_agent import block

pytestmark = pytest.mark.docker


def solve(tmp_path: Path, cells: Sequence[str], tools: Sequence[Callable[..., Any]], **how: Any) -> Result:
    model = ScriptedModel([block(cell) for cell in cells])
    agent = Agent(model, image="minimal", runs=tmp_path / "runs", tools=tools, **how)
    return agent.run("Do it.")


def of(result: Result, kind: type[Any]) -> list[Any]:
    return [event for event in result.events if isinstance(event, kind)]


STATES = {"A-1": "sent", "A-2": "paid"}


@tool(effects="read", namespace="shop")
def order_status(order_id: str, *, details: bool = False) -> dict[str, Any]:
    """Where an order is."""
    return {"id": order_id, "state": STATES[order_id], "details": details}


@tool(effects="dangerous", namespace="shop")
def refund(order_id: str, amount: float) -> str:
    """Pays money back."""
    return f"{order_id}: {amount:g} paid back by {current_call().context.user}"


def test_code_loops_over_tools_and_composes_them(tmp_path: Path) -> None:
    result = solve(
        tmp_path,
        [
            "from tools.shop import order_status\nfrom tools import add\n"
            "states = {i: order_status(i)['state'] for i in ('A-1', 'A-2')}\n"
            "try: order_status('A-3')\nexcept KeyError as error: missing = str(error)\n"
            "try: add('x')\nexcept Exception as error: wrong = f'{type(error).__name__}: {error}'\n"
            "final_answer([states, missing, wrong, add(2, b=3)])"
        ],
        [order_status, tool(effects="read", name="add")(lambda a, b: a + b)],
    )
    states, missing, wrong, total = result.answer
    assert (states, missing, total) == (STATES, "A-3", 5)
    assert wrong.startswith("ArgumentError: add(): b is missing")
    lines = list(journal.read(tmp_path / "runs" / result.run))
    calls = [line for line in lines if line["type"].startswith("tool_")]
    assert [line["type"] for line in calls] == ["tool_called", "tool_returned"] * 5
    assert calls[0]["arguments"] == {"order_id": "A-1"}
    assert calls[0]["cell"] == 1
    assert calls[5]["error"] == {"class": "KeyError", "message": "A-3"}
    assert "from tools.shop import order_status  # order_status(order_id: str" in lines[0]["system"]
