"""Tasks, their checks, and the suites: reference solutions are right, and what is nearly right is not."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest

from benchmarks.suites import OWN, Split, direct, messy, small_tasks, suite, toolworld
from benchmarks.suites.adapters import dabench, spider, wtq
from benchmarks.suites.base import Called, canonical, changes, check, digest, same, suite_hash
from codeact.errors import UsageError
from codeact.tools.tool import Tool

CHANGELOG = Path(toolworld.__file__).parents[1] / "CHANGELOG.md"
VERSIONS = {"toolworld": toolworld.VERSION, "small-tasks": small_tasks.VERSION, "messy": messy.VERSION}


@pytest.mark.parametrize(
    ("gold", "answer", "tolerance", "right"),
    [
        (3, 3.0, 0, True),
        (3, "3", 0, False),
        (3, True, 0, False),
        (1, True, 0, False),
        (None, None, 0, True),
        (None, 0, 0, False),
        (True, 1, 0, False),
        (2.5, 2.501, 0.01, True),
        (2.5, 2.6, 0.01, False),
        (2.5, float("nan"), 0.01, False),
        ("Oslo", " oslo ", 0, True),
        ("Oslo", "in Oslo", 0, False),
        ([1, 2], [2, 1], 0, False),
        ([1, 2], [1, 2, 2], 0, False),
        ({"a": [1.0]}, {"a": [1.001]}, 0.01, True),
        ({"a": 1}, {"a": 1, "b": 2}, 0, False),
    ],
)
def test_answers_are_compared_by_type_and_tolerance(
    gold: Any, answer: Any, tolerance: float, right: bool
) -> None:
    assert same(gold, answer, tolerance) is right


def test_lists_in_any_order_are_compared_as_bags() -> None:
    assert same(["a", "b", "b"], ["b", "a", "b"], unordered=True)
    assert not same(["a", "b", "b"], ["a", "a", "b"], unordered=True)
    assert same([[1, "x"], [2, "y"]], [[2, "y"], [1, "x"]], unordered=True)


def test_states_are_told_apart_place_by_place() -> None:
    before = {"orders": {"O-1": {"status": "open"}, "O-2": {"status": "open"}}, "mail": ["a"]}
    after = {"orders": {"O-1": {"status": "open"}, "O-2": {"status": "sent"}}, "mail": ["a", "b"]}
    assert changes(before, after) == ['mail +"b"', 'orders.O-2.status: "open" -> "sent"']
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1}) != digest({"a": 1, "b": 3})
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical({"a": float("nan")})


def test_the_hash_of_a_task_covers_all_that_it_is() -> None:
    [first, *_] = tasks = suite("small-tasks")
    changed = dataclasses.replace(first, question=first.question + " ")
    other_file = dataclasses.replace(first, data={"sales.csv": tasks[2].data["employees.csv"]})
    assert len({first.hash, changed.hash, other_file.hash}) == 3
    assert suite_hash(tasks) == suite_hash(suite("small-tasks")) != suite_hash([changed, *tasks[1:]])


def test_a_task_is_answered_by_its_gold_and_by_nothing_else() -> None:
    for task in suite("small-tasks"):
        assert direct.solve(task).success
        assert not check(task, None, task.start(0.0)).success


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@dataclasses.dataclass
class Left:
    """A world of which only the state is left."""

    left: Any
    log: tuple[Called, ...] = ()

    def tools(self) -> list[Tool]:
        return []

    def state(self) -> Any:
        return self.left


@pytest.mark.parametrize(
    ("judge", "gold"),
    [
        (None, 2.5),
        (None, deep(20_000)),
        (dabench.judge, {"mean": "2.5"}),
        (wtq.judge, ["2.5"]),
        (spider.judge, [[2.5]]),
    ],
)
def test_an_answer_that_cannot_be_compared_is_wrong(judge: Any, gold: Any) -> None:
    task = dataclasses.replace(suite("small-tasks")[0], judge=judge, gold_answer=gold)
    answers: list[Any] = [
        10**400,
        10**5000,
        float("nan"),
        float("inf"),
        deep(20_000),
        [],
        {},
        {"mean": []},
        None,
    ]
    for value in answers:
        for answer in (value, [value], {"mean": value}, [[value]]):
            made = check(task, answer, task.start(0.0))
            assert (made.success, made.answer_ok) == (False, False)
            assert made.reason


def test_a_state_with_what_no_json_has_is_wrong_and_is_told() -> None:
    before, after = {"price": 1.5, "tags": []}, {"price": float("nan"), "tags": [float("inf")]}
    task = dataclasses.replace(suite("small-tasks")[0], gold_state=digest(before))
    assert not check(task, task.gold_answer, Left(after)).state_ok
    assert check(task, task.gold_answer, Left(before)).success
    assert changes(before, after) == ["price: 1.5 -> nan", "tags +inf"]


def test_what_has_changed_has_a_new_version() -> None:
    """A change of a task or of a tool's text is a new version, with a line in the changelog that has its hash."""
    written = CHANGELOG.read_text(encoding="utf-8")
    for name in OWN:
        splits: tuple[Split, ...] = ("dev", "test") if name == "toolworld" else ("test",)
        for split in splits:
            tasks = suite(name, split)
            assert {task.version for task in tasks} == {VERSIONS[name]}
            row = rf"^\| {name} \| {VERSIONS[name]} \| {split} \| {suite_hash(tasks)[:12]} \|"
            assert re.search(row, written, re.MULTILINE), (name, split, suite_hash(tasks)[:12])


def test_a_suite_that_is_not_there_is_named_in_one_line() -> None:
    with pytest.raises(UsageError, match=r"there is no suite 'tau3'; there are .*small-tasks"):
        suite("tau3")
