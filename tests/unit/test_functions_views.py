"""Runs in which the model calls the tools itself, as people see them: live, as lines, as a page, as a notebook."""

from __future__ import annotations

import io
from pathlib import Path

import nbclient
import nbformat
import pytest

from codeact import Agent, ScriptedModel, exports, journal, toolset
from codeact.types import Result
from codeact.views import calls as calls_view
from codeact.views import story as stories
from codeact.views.console import View
from codeact.views.plain import PlainScreen
from tests.unit.test_functions import ANSWER, calls


@toolset(effects="read")
class Shop:
    def status(self, order_id: str) -> dict[str, str]:
        """Where it is."""
        if order_id == "<b>":
            raise KeyError(order_id)
        return {"id": order_id, "state": "sent"}


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result, list[str]]:
    asked = [("shop__status", {"order_id": name}) for name in ("A", "<b>")]
    model = ScriptedModel([calls(*asked, ("nothing", {}), text="I look at both."), calls(ANSWER)])
    screen = io.StringIO()
    view = View(PlainScreen(screen))
    agent = Agent(model, actions="functions", tools=Shop(), runs=tmp_path_factory.mktemp("runs"))
    result = agent.run("Where?", observers=[view])
    view.close()
    return agent._setup.runs / result.run, result, screen.getvalue().splitlines()


def test_live(played: tuple[Path, Result, list[str]]) -> None:
    _, _, lines = played
    assert "I look at both." in lines
    [called] = [line for line in lines if line.startswith("shop.status(order_id='A') ->")]
    assert "{'id': 'A', 'state': 'sent'}" in called
    assert any(line.startswith("shop.status(order_id='<b>') -> KeyError: <b>") for line in lines)
    assert any(line.startswith("nothing was not called: ") for line in lines)
    assert not any(line.startswith("Result of") for line in lines)


def test_table_and_story(played: tuple[Path, Result, list[str]]) -> None:
    folder, _, _ = played
    log = journal.load(folder)
    table = calls_view.table(calls_view.of(log))
    assert table[-1].startswith("2 calls, 1 failed")
    first = stories.tell(log).turns[0]
    assert [(call.tool, call.ok) for call in first.calls] == [("shop.status", True), ("shop.status", False)]
    assert (first.cells, len(first.remarks)) == ([], 1)


def test_page(played: tuple[Path, Result, list[str]], tmp_path: Path) -> None:
    exports.write(played[0], "html", tmp_path / "run.html")
    page = (tmp_path / "run.html").read_text(encoding="utf-8")
    assert "2 tool calls" in page
    assert "<td>order_id=&lt;b&gt;</td>" in page
    assert "<b>" not in page


def test_notebook(played: tuple[Path, Result, list[str]], tmp_path: Path) -> None:
    exports.write(played[0], "ipynb", tmp_path / "run.ipynb")
    notebook = nbformat.read(tmp_path / "run.ipynb", as_version=4)
    made = [cell for cell in notebook.cells if cell.cell_type == "code"][1:]
    assert made[0].source == "from tools.shop import status\n\nstatus(order_id='A')"
    before = [cell.outputs[0].get("data") for cell in made]
    nbclient.NotebookClient(notebook, resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert [cell.outputs[0].get("data") for cell in made] == before
    assert before == [{"text/plain": "{'id': 'A', 'state': 'sent'}"}, None]
