"""What is read off a run's events to make its state again: which cells, what they made, how they differ; and whether its data
is what it was."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from codeact import events, exports, inputs, journal
from codeact.answers import Answer
from codeact.run.history import Past, history
from codeact.run.record import Record
from codeact.run.replay import compared
from codeact.run.restore import Restored, answered_otherwise, assigned, difference
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


def test_an_export_leaves_nothing_of_one_that_was_killed_there(tmp_path: Path) -> None:
    (tmp_path / ".part-0123456789abcdef").write_text("half")
    exports.save(DATA / "run-v1", tmp_path / "run.jsonl")
    assert list(tmp_path.iterdir()) == [tmp_path / "run.jsonl"]


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
    assert [*difference(past(*first), again)] == ([] if said is None else [said])


def test_the_same_error_is_no_difference_and_another_one_is() -> None:
    failed = past(CellError("KeyError", "'a'", "Cell 3, line 1"), status="error")
    same = CellResult("error", (CellError("KeyError", "'a'", "Cell 5, line 1"),))
    other = CellResult("error", (CellError("OSError", "no", ""),))
    assert [*difference(failed, same)] == []
    assert [*difference(failed, other)] == [
        "cell 7 now ended with 'OSError: no', and first it ended with \"KeyError: 'a'\""
    ]
    at, elsewhere = (
        CellResult("error", (CellError("TypeError", f"bad <A object at 0x7f{place}>", ""),))
        for place in ("12ab34cd56", "00ab34cd00")
    )
    assert [*difference(Past(7, 1, "", at), elsewhere)] == []
    assert [*difference(failed, OK)] == ["cell 7 now ended well, and first it ended with \"KeyError: 'a'\""]


def given(answer: object, file: str | None = None) -> events.AnswerGiven:
    return events.AnswerGiven(answer=answer, accepted=True, file=file)


def test_which_cell_gave_which_answers() -> None:
    refused = events.AnswerGiven(answer="x", accepted=False, problem="no number")
    found = history(
        (
            *(replied(1, "1", "2"), started(1, 1), started(1, 2), refused, given(1), given(2)),
            *(observed(1, OK, OK), replied(2, "3"), started(2, 3), given(3)),
            *(started(2, 3), given(4), observed(2, OK)),  # carried on after it was cut off
            *(replied(3), given("in words"), observed(3)),
        )
    )
    assert [[answer.answer for answer in past.answers] for past in found.cells] == [[], [1, 2], [4]]


def answers(*values: object) -> list[Answer]:
    return [Answer(value, value) for value in values]


@pytest.mark.parametrize(
    ("first", "now", "said"),
    [
        ([1, {"a": 2}], answers(1, {"a": 2}), None),
        ([1], answers(2), "cell 7 now answers 2 where it first answered 1"),
        ([1, 2], answers(1, 3), "cell 7 now answers 3 where it first answered 2"),
        ([1], answers(), "cell 7 now answers nothing where it first answered 1"),
        ([], answers("a"), "cell 7 now answers 'a' where it first answered nothing"),
        (["a" * 500], answers("b"), f"cell 7 now answers 'b' where it first answered '{'a' * 159}"),
    ],
)
def test_how_the_answers_of_a_cell_differ(
    tmp_path: Path, first: list[object], now: list[Answer], said: str | None
) -> None:
    same = Record("run", tmp_path).is_same
    was = Past(7, 1, "", OK, answers=tuple(map(given, first)))
    assert [*answered_otherwise(was, now, same)] == ([] if said is None else [said])


def test_answers_that_json_names_alone_are_compared_as_they_are(tmp_path: Path) -> None:
    record = Record("run", tmp_path)
    file = record.keep_answer({"$": "bytes", "buffer": 0}, [b"one"])
    was = Past(7, 1, "", OK, answers=(given("DataFrame 1×1", file),))
    for content, said in (
        (b"one", []),
        (b"two", ["cell 7 now answers another 'DataFrame 1×1' where it first answered 'DataFrame 1×1'"]),
    ):
        now = Answer(None, "DataFrame 1×1", ({"$": "bytes", "buffer": 0}, [content]))
        assert [*answered_otherwise(was, [now], record.is_same)] == said
    (tmp_path / file).unlink()
    assert record.is_same(given("DataFrame 1×1", file), now)


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
        ("from math import *\nx = 1", ["x"]),
        ("s = 'a\u2028%b'\nx = 1", ["s", "x"]),
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


def test_a_replay_tells_what_was_not_executed_apart_from_words_that_a_cell_shows() -> None:
    shown = "cell 1 now shows 'job 7 was not run again' where it first showed 'job 7 ok'"
    left_out = "cell 2 was not run again: it took too long, and what it had done until then is missing"
    standing = SimpleNamespace(run="r")
    found = compared(standing, [past()], Restored((1,), (shown, left_out), (left_out,)))  # type: ignore[arg-type]
    assert (found.differences, found.left_out, found.same) == ((shown,), (left_out,), False)
