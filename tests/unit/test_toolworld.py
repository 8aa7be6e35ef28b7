"""The simulated services: reference solutions are right, nothing else is, and the same seed makes the same tasks."""

from __future__ import annotations

import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from benchmarks.suites import direct, suite, toolworld
from benchmarks.suites.base import RateLimited, Task, ToolFault, check
from benchmarks.suites.mutants import mutants
from benchmarks.suites.toolworld.making import make_task
from benchmarks.suites.toolworld.world import Busy, Service
from codeact.observation import BUDGET
from codeact.tools.tool import Tool

TASKS = [*suite("toolworld", "test"), *suite("toolworld", "dev")]
WORLDS = len(toolworld.WORLDS)


def test_there_are_as_many_tasks_of_each_category_in_each_world() -> None:
    for tasks, count in ((suite("toolworld", "test"), 4), (suite("toolworld", "dev"), 1)):
        made = Counter((task.world_name, task.category) for task in tasks)
        assert set(made.values()) == {count}
        assert len(made) == 8 * WORLDS
    assert len({task.id for task in TASKS}) == len(TASKS)
    sizes = [task.size for task in suite("toolworld") if task.category == "C"]
    assert sizes == [3, 10, 30, 100] * WORLDS


def test_no_task_is_in_both_splits() -> None:
    assert len({task.question for task in TASKS}) == len(TASKS) == 40 * WORLDS


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.id)
def test_the_reference_solution_is_right_and_its_mutants_are_not(task: Task) -> None:
    assert direct.solve(task).success
    assert not check(task, None, task.start(0.0)).success
    made = list(mutants(task))
    assert {"no answer", "one more write"} <= {mutant.how for mutant in made}
    assert [mutant.how for mutant in made if mutant.verdict.success] == []


CALLS = {
    "A": (1, 2),
    "B": (3, 6),
    "C": (3, 120),
    "D": (3, 20),
    "E": (5, 40),
    "F": (2, 20),
    "G": (1, 3),
    "H": (0, 4),
}


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.id)
def test_a_task_takes_the_calls_of_its_category_and_what_is_bulky_can_be_had_in_pieces(task: Task) -> None:
    fewest, most = CALLS[task.category]
    assert max(fewest, task.size or 0) <= task.calls_min <= most
    assert task.limits.turns is not None
    assert task.limits.turns >= task.calls_min + 10
    assert task.oracle is not None
    largest = largest_result(task, narrow=False)
    assert (50_000 <= largest <= 500_000) if task.category == "G" else largest < BUDGET
    assert largest_result(task, narrow=True) < BUDGET


def largest_result(task: Task, *, narrow: bool) -> int:
    """Characters of the longest result that the reference solution sees."""
    sizes = []

    def perform(tool: Tool, arguments: dict[str, Any]) -> Any:
        value = direct.perform(tool, arguments)
        sizes.append(len(json.dumps(value)))
        return value

    assert task.oracle is not None
    task.oracle(direct.Tools(task.start(0.0).tools(), perform, ToolFault), narrow=narrow)
    return max(sizes)


def test_the_same_seed_makes_the_same_tasks_and_another_makes_others() -> None:
    world = toolworld.WORLDS[0]
    template = next(each for each in world.templates if each.category == "B")
    first, again, other = (make_task(world, template, "1", seed, 0, "test", set()) for seed in (5, 5, 6))
    assert first.hash == again.hash != other.hash
    assert first.gold_state == again.gold_state != other.gold_state


def test_each_attempt_has_a_world_of_its_own() -> None:
    [task] = [task for task in TASKS if task.id == "shop-price-test-1"]
    first, second = task.start(0.0), task.start(0.0)
    direct.answer(task, first)
    assert [call.changed for call in first.log] == [False, True]
    assert second.log == []
    assert check(task, task.gold_answer, first).success
    assert not check(task, task.gold_answer, second).state_ok


def test_a_forbidden_change_counts_though_it_was_taken_back() -> None:
    [task] = [task for task in TASKS if task.id == "shop-stock-test-1"]
    world = task.start(0.0)
    add = next(tool for tool in world.tools() if tool.name == "add_points")
    for points in (5, -5):
        direct.perform(add, {"user_id": "U-101", "points": points})
    verdict = check(task, task.gold_answer, world)
    assert (verdict.answer_ok, verdict.state_ok, verdict.side_effect) == (True, True, "add_points")
    assert not verdict.success


def test_faults_are_the_same_for_calls_in_turn_and_at_once() -> None:
    [task] = [task for task in TASKS if task.id == "shop-stock-test-1"]
    tables = task.start(0.0)
    assert isinstance(tables, Service)
    world = type(tables)(tables.tables, 0.001, (Busy("get_user", "U-101", times=2),))
    get = next(tool for tool in world.tools() if tool.name == "get_user")
    with ThreadPoolExecutor(8) as threads:
        calls = [threads.submit(get.call, user_id="U-101") for _ in range(8)]
        failed = [call.exception() for call in calls if call.exception()]
    assert [type(each) for each in failed] == [RateLimited, RateLimited]
    assert "retry_after=" in str(failed[0])
    assert Counter(call.error for call in world.log) == {"RateLimited": 2, None: 6}
