"""What is read off a run's events to make its state again: which cells, what they made, how they differ; and whether its data
is what it was."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from codeact import events, inputs, journal
from codeact.run.history import Past, history
from codeact.run.restore import assigned, difference
from codeact.run.resume import standing
from codeact.types import Code, Reading, Usage
from sandbox.types import CellError, CellResult, Dropped, Rich, Stream

DATA = Path(__file__).parents[1] / "data"
OK = CellResult("ok")


def replied(turn: int, *sources: str) -> events.Replied:
    reading = Reading("", tuple(Code(source) for source in sources))
    return events.Replied(
        turn=turn, text="", reading=reading, finish="stop", usage=Usage(), model="", seconds=0
    )


def started(turn: int, cell: int) -> events.CodeStarted:
    return events.CodeStarted(turn=turn, source=f"code {cell}", cell=cell)


def observed(turn: int, *cells: CellResult) -> events.Observed:
    return events.Observed(turn=turn, text="", cell=cells[-1] if cells else None, earlier=cells[:-1])


def restarted(*cells: int) -> events.SandboxRestarted:
    return events.SandboxRestarted(reason="", lost="", restored=cells)


TURNS = (
    replied(1, "1", "2"),
    started(1, 1),
    started(1, 2),
    observed(1, OK, CellResult("error")),
    replied(2),
    observed(2),
    replied(3, "3"),
    started(3, 3),
)


@pytest.mark.parametrize(
    ("log", "ended", "alive"),
    [
        ((), [], []),
        (TURNS, [1, 2], [1, 2]),
        ((*TURNS, observed(3, OK)), [1, 2, 3], [1, 2, 3]),
        ((*TURNS, restarted(1, 2), observed(3, CellResult("died", lost="all variables"))), [1, 2, 3], [1, 2]),
        ((*TURNS, restarted(), observed(3, CellResult("died", lost="all variables"))), [1, 2, 3], []),
        ((*TURNS, restarted(1, 2), started(3, 3), observed(3, OK)), [1, 2, 3], [1, 2, 3]),
        ((*TURNS, restarted(1, 2), started(3, 3)), [1, 2], [1, 2]),
    ],
)
def test_which_cells_ended_and_which_are_in_the_kernel(
    log: tuple[events.Event, ...], ended: list[int], alive: list[int]
) -> None:
    found = history(log)
    assert [past.number for past in found.cells] == ended
    assert [past.number for past in found.alive] == alive


def test_cells_of_the_first_schema_have_numbers_too() -> None:
    found = history(journal.load(DATA / "run-v1"))
    assert [(past.number, past.turn, past.status) for past in found.cells] == [
        (1, 1, "ok"),
        (2, 1, "ok"),
        (3, 2, "error"),
        (4, 3, "ok"),
    ]
    assert standing(DATA / "run-v1").turn == 4


def past(*outputs: object, status: str = "ok") -> Past:
    return Past(7, 1, "", CellResult(status, outputs))  # type: ignore[arg-type]


def out(text: str) -> Stream:
    return Stream("stdout", text)


@pytest.mark.parametrize(
    ("first", "now", "said"),
    [
        ((out("a\nb\n"),), (out("a\n"), out("b\n")), None),
        ((out("a"), Stream("stderr", "10%")), (out("a"), Stream("stderr", "20%")), None),
        ((out("<A at 0x7f12ab34cd56>"),), (out("<A at 0x7f00ab34cd00>"),), None),
        ((out("a\nb\n"),), (out("a\nc\n"),), "cell 7 now shows 'c' where it first showed 'b'"),
        ((out("a\n"),), (), "cell 7 now shows nothing where it first showed 'a'"),
        ((), (Rich("result", {"text/plain": "5"}),), "cell 7 now shows '5' where it first showed nothing"),
        ((out("a"), Dropped(5, "much")), (out("b"), Dropped(5, "much")), None),
    ],
)
def test_how_a_cell_differs_from_its_first_execution(
    first: tuple[object, ...], now: tuple[object, ...], said: str | None
) -> None:
    again = past(*now).result
    assert again is not None
    assert difference(past(*first), again) == said


def test_the_same_error_is_no_difference_and_another_one_is() -> None:
    failed = past(CellError("KeyError", "'a'", "Cell 3, line 1"), status="error")
    same = CellResult("error", (CellError("KeyError", "'a'", "Cell 5, line 1"),))
    other = CellResult("error", (CellError("OSError", "no", ""),))
    assert difference(failed, same) is None
    assert difference(failed, other) == (
        "cell 7 now ended with 'OSError: no', and first it ended with \"KeyError: 'a'\""
    )
    assert difference(failed, OK) == "cell 7 now ended well, and first it ended with \"KeyError: 'a'\""


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("a = b = 1; c: int = 2; d += 1", ["a", "b", "c", "d"]),
        ("import os.path, numpy as np\nfrom json import dumps as d", ["os", "np", "d"]),
        ("def f(x):\n    y = 1\nclass C:\n    z = 2", ["f", "C"]),
        ("for i, (j, *k) in x:\n    if (n := i): pass\nwith a as b: pass", ["i", "j", "k", "n", "b"]),
        ("[v for v in x]; _hidden = 1; x.y = 2; x[0] = 3", []),
        ("%pip install x\n!ls\nafter = 1", ["after"]),
        ("not python at all", []),
    ],
)
def test_the_names_that_a_cell_makes(source: str, names: list[str]) -> None:
    assert assigned(source) == names


def test_data_is_known_by_its_content_or_by_size_and_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a.txt"
    file.write_text("one")
    known = inputs.fingerprint(file)
    os.utime(file, (5, 5))
    assert inputs.change(file, known) is None
    file.write_text("two")
    assert inputs.change(file, known) == "has changed since the run began"
    assert inputs.change(file, None) is None
    monkeypatch.setattr(inputs, "READ", 2)
    large = inputs.fingerprint(file)
    assert inputs.change(file, large) is None
    os.utime(file, (6, 6))
    assert inputs.change(file, large) == "has changed since the run began"
    file.unlink()
    assert inputs.change(file, known) == "is not there any more"


def test_a_folder_is_known_by_its_files(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "b").write_text("b")
    known = inputs.fingerprint(tmp_path)
    assert inputs.change(tmp_path, known) is None
    (tmp_path / "c").write_text("")
    assert inputs.change(tmp_path, known) == "has changed since the run began"
