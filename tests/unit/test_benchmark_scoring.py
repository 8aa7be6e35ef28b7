"""Judging attempts again from their traces, whatever these hold by then."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks import afterwards
from benchmarks.attempts import Attempt
from benchmarks.store import Store
from benchmarks.suites import suite
from codeact.errors import UsageError

Trace = list[dict[str, Any]]
FIRST, SECOND = suite("small-tasks")[:2]


def trace(answer: Any, question: str = FIRST.question) -> Trace:
    return [
        {"type": "attempt", "question": question},
        {"type": "outcome", "answer": answer, "state": None, "calls": []},
    ]


def run(folder: Path, first: Trace) -> Store:
    """Two attempts that are wrong so far: the trace of one is as given, that of the other holds the right answer."""
    store = Store(folder)
    store.begin({
        "run": "r", "started": "2026-01-01T00:00:00Z", "plan": {"arms": ["code"]},
        "frozen": {"suite": "small-tasks", "split": "test", "model": "m"},
    })  # fmt: skip
    for task, lines in ((FIRST, first), (SECOND, trace(SECOND.gold_answer, SECOND.question))):
        key = task.id
        store.append(Attempt(key=key, task=task.id, model="m", success=False, stop_reason="submitted"), lines)
    return store


def outcome(**changes: Any) -> Trace:
    began, ended = trace(1)
    return [began, {name: value for name, value in {**ended, **changes}.items() if value != "absent"}]


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (trace(1)[:1], "its trace has no outcome"),
        (trace(1, question="another"), "its question is another one now"),
        (outcome(calls=5), "its trace has no outcome"),
        (outcome(calls=[1]), "its trace is damaged"),
        (outcome(calls=[{"tool": 1}]), "its trace is damaged"),
        (outcome(calls=[{"tool": "a"}]), "its trace is damaged"),
        (outcome(state="absent"), "its trace has no outcome"),
        (outcome(answer="absent"), "its trace has no outcome"),
    ],
)
def test_what_cannot_be_judged_keeps_its_verdict_and_the_others_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], lines: Trace, words: str
) -> None:
    store = run(tmp_path, lines)
    with pytest.raises(UsageError, match=rf"1 could not be judged, and keep their verdicts: {FIRST.id} code 1: {words}"):  # fmt: skip
        afterwards.score(tmp_path)
    assert capsys.readouterr().out == "1 attempts judged again, 1 verdicts changed\n"
    assert {made.task: made.success for made in store.attempts()} == {FIRST.id: False, SECOND.id: True}


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9])


def spoilt(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:20] + b"\0\0\0\0" + content[24:])


def foreign(path: Path) -> None:
    with gzip.open(path, "wt") as file:
        file.writelines(f"{json.dumps(each)}\n" for each in (1, None, [2]))


@pytest.mark.parametrize("damage", [Path.unlink, cut, spoilt, foreign])
def test_a_damaged_trace_costs_its_attempt_alone(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    store = run(tmp_path, trace(FIRST.gold_answer))
    damage(store.trace(FIRST.id))
    with pytest.raises(UsageError, match=f"1 could not be judged.*{FIRST.id}"):
        afterwards.score(tmp_path)
    assert {made.task: made.success for made in store.attempts()} == {FIRST.id: False, SECOND.id: True}


def test_attempts_with_another_model_that_lie_there_too_are_left_alone(tmp_path: Path) -> None:
    store = run(tmp_path, trace(FIRST.gold_answer))
    store.append(Attempt(key="other", task=FIRST.id, model="other", success=False))
    afterwards.score(tmp_path)
    assert [made.success for made in store.attempts("m")] == [True, True]
