"""Runs that were cut off, as a reader follows them: each cell and each call once."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from bs4 import BeautifulSoup

from codeact import events, exports
from codeact.errors import UsageError
from codeact.run.record import Record
from codeact.types import Code, Reading, Usage
from codeact.views.ipynb import notebook
from codeact.views.notebook.page import Page
from codeact.views.report import render
from codeact.views.story import tell
from sandbox.types import CellResult

OK = CellResult("ok")
READING = Reading("", (Code("a = pay(1)"), Code("b = pay(2)")))
BEGUN: list[events.Event] = [
    events.TurnStarted(turn=1),
    events.Replied(turn=1, text="", reading=READING, finish="stop", usage=Usage(), model="", seconds=0),
]
RESUMED: list[events.Event] = [
    events.RunResumed(model="", task=None, text=""),
    events.TurnStarted(turn=1),
]


def started(cell: int) -> events.CodeStarted:
    return events.CodeStarted(turn=1, source=f"code {cell}", cell=cell)


def called(call: str, cell: int, key: str) -> events.ToolCalled:
    return events.ToolCalled(call=call, cell=cell, tool="pay", arguments={}, digest="", key=key)


def returned(call: str) -> events.ToolReturned:
    return events.ToolReturned(call=call, tool="pay", ok=True)


def observed(*earlier: CellResult) -> events.Observed:
    return events.Observed(turn=1, text="", cell=OK, earlier=earlier)


def test_a_cell_that_was_cut_off_and_started_once_more_stands_once() -> None:
    log = [*BEGUN, started(1), *RESUMED, started(1), observed()]
    [turn] = tell(log).turns
    assert [(cell.source, cell.number, cell.result) for cell in turn.cells] == [("code 1", 1, OK)]


def test_so_do_those_before_it_in_its_turn_and_their_calls() -> None:
    log = [
        *BEGUN,
        started(1),
        called("c1", 1, "k1"),
        returned("c1"),
        started(2),
        called("c2", 2, "k2"),  # its end is not known
        *RESUMED,
        started(1),
        dataclasses.replace(returned("c1"), replayed=True),
        started(2),
        called("c3", 2, "k2"),
        returned("c3"),
        observed(OK),
    ]
    [turn] = tell(log).turns
    assert [(cell.number, cell.result, [call.ok for call in cell.calls]) for cell in turn.cells] == [
        (1, OK, [True]),
        (2, OK, [True]),
    ]


def test_a_call_that_a_person_changed_has_the_arguments_that_it_was_made_with(tmp_path: Path) -> None:
    first = dataclasses.replace(called("c1", 1, "k1"), arguments={"amount": 5000, "to": "Ann"})
    written = {"amount": 1, "note": "x"}
    said = events.ApprovalGiven(call="c1", tool="pay", allowed=True, by="person", arguments=written)
    story = tell([*BEGUN, started(1), first, said, returned("c1"), observed()])
    [call] = story.turns[0].cells[0].calls
    assert call.arguments == {"amount": 1, "to": "Ann", "note": "x"}
    page = render(story, tmp_path)
    assert "amount=1, to=Ann, note=x (changed from amount=5000, note=(not given))" in page
    setup, told, *_ = notebook(story, tmp_path, tmp_path).cells[1:]
    assert "'arguments': {'amount': 5000, 'to': 'Ann'}" in setup.source  # what the code there gives
    assert "amount=1, note='x' in place of amount=5000, note=(not given)" in told.source


def test_a_cell_that_was_cut_off_for_good_stays_with_its_calls() -> None:
    [turn] = tell([*BEGUN, started(1), called("c1", 1, "k1")]).turns
    assert [(cell.result, [call.ok for call in cell.calls]) for cell in turn.cells] == [(None, [None])]


def answered(answer: object) -> list[events.Event]:
    """A turn that ends a task."""
    ended = events.RunEnded(status="answered", answer=answer, usage=Usage(), seconds=1)
    return [*BEGUN, started(1), observed(), ended]


def asked(task: str) -> events.RunStarted:
    return events.RunStarted(task=task, model="m", settings={}, system="", first="", run="r1")


def further(task: str | None) -> events.RunResumed:
    return events.RunResumed(model="m", task=task, text="")


def test_each_task_of_a_run_stands_with_its_own_answer(tmp_path: Path) -> None:
    failed = events.RunEnded(status="limit", answer=None, usage=Usage(), seconds=1, error="too long")
    second: list[events.Event] = [events.TurnStarted(turn=2), *answered(6)[1:]]
    log = [asked("How many orders?"), *answered(34), further("How many <products>?"), failed]
    story = tell([*log, further(None), *second, further("And customers?"), failed])
    assert [(task.text, len(task.turns), task.status, task.answer) for task in story.tasks] == [
        ("How many orders?", 1, "answered", 34),
        ("How many <products>?", 1, "answered", 6),  # stopped by a limit, and carried on
        ("And customers?", 0, "limit", None),
    ]
    assert story.seconds == 4  # one for each time that it ended
    page = BeautifulSoup(render(story, tmp_path), "html.parser")
    assert [tag.get_text(" ", strip=True) for tag in page.select("h1, .turn h2, .answer")] == [
        "How many orders?", "Turn 1", "Answer 34",
        "How many <products>?", "Turn 2", "Answer 6",
        "And customers?", "No answer: limit too long",
    ]  # fmt: skip
    cells = notebook(story, tmp_path, tmp_path).cells
    assert [cell.source.split("\n\nModel")[0] for cell in cells if cell.cell_type == "markdown"] == [
        "# How many orders?", "**Answer**\n\n    34",
        "## How many <products>?", "**Answer**\n\n    6",
        "## And customers?", "**No answer** (limit): too long",
    ]  # fmt: skip


def test_a_page_of_one_task_begins_with_its_answer(tmp_path: Path) -> None:
    page = BeautifulSoup(render(tell([asked("How many?"), *answered(34)]), tmp_path), "html.parser")
    assert [tag.get_text(" ", strip=True) for tag in page.select("h1, .turn h2, .answer pre")] == [
        "How many?", "34", "Turn 1",
    ]  # fmt: skip


def test_what_is_not_as_it_was_is_told_also_before_there_is_a_turn(tmp_path: Path) -> None:
    lost = events.SandboxRestarted(
        reason="the run was carried on", lost="all", restored=(1,), differences=("cell 2: <late>",), names=("df", "n")
    )  # fmt: skip
    said = ["The sandbox was started afresh: the run was carried on; lost: all", "cell 2: <late>", "Missing variables: df, n"]  # fmt: skip
    for after in (answered(1), []):  # a run may end before its first turn
        story = tell([lost, further("And now?"), *after])
        for html in (Page().folded(story, 1), render(story, tmp_path)):
            assert [
                tag.text for tag in BeautifulSoup(html, "html.parser").select("div.remark")
            ] == said  # fmt: skip
        assert "> Missing variables: df, n" in notebook(story, tmp_path, tmp_path).cells[2].source
    story = tell([asked("How many?"), *BEGUN, lost])
    assert story.turns[0].remarks == said


def test_a_run_of_which_all_was_undone_is_not_exported(tmp_path: Path) -> None:
    folder = tmp_path / "20260101-000000-abcdef"
    record = Record(folder.name, folder)
    record.open()
    for event in (asked("How many?"), *answered(1), events.Undone(since=1)):
        record.emit(event)
    record.close()
    for form in ("html", "ipynb"):
        with pytest.raises(UsageError, match="no task was done yet"):
            exports.text(folder, form, tmp_path)
    assert '"undone"' in exports.text(folder, "jsonl", tmp_path)


def test_cells_of_records_without_numbers_all_stand() -> None:
    [turn] = tell([*BEGUN, started(0), started(0), observed(OK)]).turns
    assert [cell.result for cell in turn.cells] == [OK, OK]
