"""An interrupt counts whenever it comes: while a sandbox starts, and between any two steps of a turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nbclient
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from codeact import Agent, ScriptedModel, events
from tests.command import environment

CELLS = ("open('ran', 'w').close()", "import os\nfinal_answer(os.path.exists('ran'))")


def agent(tmp_path: Path) -> Agent[Any]:
    replies = [f"On.\n```python\n{cell}\n```" for cell in CELLS]
    return Agent(ScriptedModel(replies), image="minimal", runs=tmp_path / "runs")


class Calling(dict[str, int]):
    """A value that calls a function when it is written down for the sandbox, which is not started yet."""

    def __init__(self, function: Callable[[], None]) -> None:
        super().__init__(a=1)
        self.function = function

    def __iter__(self) -> Iterator[str]:
        self.function()
        return super().__iter__()


@pytest.mark.docker
@pytest.mark.parametrize("why", ["", "because"])
def test_an_interrupt_while_the_sandbox_starts_ends_the_run(tmp_path: Path, why: str) -> None:
    one = agent(tmp_path)
    result = one.run("Go.", {"given": Calling(lambda: one.interrupt(why))})
    assert (result.status, result.error) == ("interrupted", why or "ended by the person")
    assert not any(isinstance(event, events.TurnStarted) for event in result.events)


@pytest.mark.docker
def test_an_interrupt_while_the_sandbox_of_a_session_starts_ends_that_task_alone(tmp_path: Path) -> None:
    with_session = agent(tmp_path).session({"given": Calling(lambda: with_session.interrupt())})
    with_session.interrupt()  # nothing is under way
    result = with_session.run("Go.")
    assert (result.status, result.error) == ("interrupted", "ended by the person")
    with_session.interrupt()
    assert with_session.run("Go on.").answer is True
    with_session.close()


@pytest.mark.docker
@pytest.mark.parametrize(
    ("moment", "ran"),
    [(events.TurnStarted, True), (events.Replied, False), (events.CodeStarted, False)],
)
def test_between_two_steps_it_ends_the_turn(tmp_path: Path, moment: type[events.Event], ran: bool) -> None:
    """`ran` is whether the code of the first reply runs: where it was not written yet, it is written in the next turn."""
    one = agent(tmp_path)
    seen: list[events.Event] = []

    def observe(event: events.Event) -> None:
        if isinstance(event, moment):
            seen.append(event)
            if len(seen) == 1:
                one.interrupt()

    result = one.run("Go.", observers=[observe])
    said = [event.text for event in result.events if isinstance(event, events.Observed)]
    assert said[0].endswith("Go on in a quicker way, or answer with what is known.")
    assert sum("The person interrupted this turn" in text for text in said) == 1
    assert result.answer is ran


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.docker
def test_a_cancelled_cell_of_a_notebook_shows_one_line_and_the_task_is_cancelled(tmp_path: Path) -> None:
    cells = [
        "import asyncio\nfrom codeact import Agent, ScriptedModel\n"
        "one = Agent(ScriptedModel(['```python\\nwhile True: pass\\n```']), image='minimal')",
        "task = asyncio.current_task()\n"
        "await one.arun('Go.', observers=[lambda e: task.cancel() if e.type == 'code_started' else None])",
        "other = asyncio.create_task(one.arun('Go.'))\nawait asyncio.sleep(0)\nother.cancel()\n"
        "try:\n    await other\nexcept asyncio.CancelledError:\n    print('cancelled', other.cancelled())",
    ]
    book = new_notebook(cells=[new_code_cell(cell) for cell in cells])
    client = nbclient.NotebookClient(
        book, timeout=120, allow_errors=True, resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute(env=environment(tmp_path))
    shown = [output for output in book.cells[1].outputs if output.output_type == "error"]
    run = min((tmp_path / "codeact-home" / "runs").iterdir()).name  # the first of two
    assert [output.traceback for output in shown] == [
        [f"codeact: the run was stopped; go on with agent.resume('{run}')"]
    ]
    assert book.cells[2].outputs[-1].text == "cancelled True\n"
