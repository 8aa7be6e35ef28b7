"""Four simulated services and eight categories of tasks: 128 to test with, 32 others to develop with."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Literal

from benchmarks.suites.base import Task
from benchmarks.suites.toolworld import desk_tasks, ledger_tasks, ops_tasks, shop_tasks
from benchmarks.suites.toolworld.making import NAME, Template, World, make_task

__all__ = ["NAME", "VERSION", "WORLDS", "suite"]

VERSION = "1"
CATEGORIES = "ABCDEFGH"
WORLDS = (shop_tasks.WORLD, desk_tasks.WORLD, ledger_tasks.WORLD, ops_tasks.WORLD)
PER_CATEGORY = {"test": 4, "dev": 1}
"""Tasks of one category in one world."""
DEFAULT_SEED = {"test": 20260630, "dev": 7}


@functools.cache
def suite(split: Literal["dev", "test"], seed: int | None = None) -> tuple[Task, ...]:
    """Its tasks, by world and category. No question of the test tasks is in `dev`, and none comes twice.

    Raises Disagreement where a gold answer cannot be trusted.
    """
    chance = DEFAULT_SEED[split] if seed is None else seed
    taken = {task.question for task in suite("test")} if split == "dev" else set()
    return tuple(
        make_task(world, template, VERSION, chance, index, split, taken)
        for number, world in enumerate(WORLDS)
        for template, index in _instances(world, split, number)
    )


def _instances(world: World, split: str, number: int) -> Iterator[tuple[Template, int]]:
    """The templates of each category in turn; of the dev tasks, not all are of the first."""
    for category in CATEGORIES:
        templates = [each for each in world.templates if each.category == category]
        for turn in range(PER_CATEGORY[split]):
            step = turn + (number if split == "dev" else 0)
            yield templates[step % len(templates)], step // len(templates)
