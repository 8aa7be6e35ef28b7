"""Notebooks of runs with values: what was given and what tools gave are there, as what they were."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import nbclient
import nbformat
import pandas as pd
import pytest

from codeact import Agent, ScriptedModel, tool

pytestmark = pytest.mark.docker


@dataclass
class Order:
    number: str
    at: datetime.datetime
    price: Decimal


@tool(effects="read")
def order(number: str) -> Order:
    """An order."""
    return Order(number, datetime.datetime(2026, 1, 31, 12, tzinfo=datetime.UTC), Decimal("1.10"))


@tool(effects="read")
def orders() -> pd.DataFrame:
    """All orders."""
    return pd.DataFrame({"n": [1, 2], "at": pd.to_datetime(["2026-01-01", "2026-01-02"])})


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_notebook_has_the_values_that_the_run_had(tmp_path: Path) -> None:
    first = "from tools import order, orders\none = order('A-1')\nprint(one.price * 2, one.at.year, orders().n.sum() + sales.n.sum(), sales.tags[1] | {3})"
    cells = [
        f"```python\n{code}\n```"
        for code in (first, "final_answer(1)", "print(more['rate'] * 3)\nfinal_answer(2)")
    ]
    agent = Agent(ScriptedModel(cells), runs=tmp_path / "runs", tools=[order, orders])
    with agent.session({"sales": pd.DataFrame({"n": [10, 20], "tags": [{1}, {2}]})}) as session:
        session.run("One?")
        session.put(more={"rate": Decimal("0.5")})
        result = session.run("Two?")
    result.to_notebook(tmp_path / "run.ipynb")
    notebook = nbformat.read(tmp_path / "run.ipynb", as_version=4)
    nbclient.NotebookClient(notebook, timeout=60, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    said = "".join(output.text for output in outputs if output.output_type == "stream")
    assert said == "2.20 2026 33 {2, 3}\nanswer: 1\n1.5\nanswer: 2\n"
