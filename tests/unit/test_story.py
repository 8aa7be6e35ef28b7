"""Runs that were cut off, as a reader follows them: each cell and each call once."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from codeact import events
from codeact.types import Code, Reading, Usage
from codeact.views.ipynb import notebook
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


def test_cells_of_records_without_numbers_all_stand() -> None:
    [turn] = tell([*BEGUN, started(0), started(0), observed(OK)]).turns
    assert [cell.result for cell in turn.cells] == [OK, OK]
