"""Answers and deeds that are nearly right, to see that a suite's checks find them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks.suites import direct
from benchmarks.suites.base import Task, Verdict, check, same
from benchmarks.suites.toolworld.world import Service


@dataclass(frozen=True, slots=True)
class Mutant:
    """`how` is what was changed of a right solution."""

    how: str
    verdict: Verdict


def mutants(task: Task) -> Iterator[Mutant]:
    """Solutions with one thing wrong: the answer is off by one or in another unit, or something more or less was done."""
    gold, world = task.gold_answer, task.start(0.0)
    direct.answer(task, world)
    for how, answer in (("off by one", off_by_one(gold, task)), ("another unit", in_another_unit(gold))):
        if not same(gold, answer):
            yield Mutant(how, check(task, answer, world))
    yield Mutant("no answer", check(task, None, world))
    if task.gold_changes:
        yield Mutant("not done", check(task, gold, task.start(0.0)))
    if isinstance(world, Service):
        name, arguments = world.meddle()
        [tool] = [each for each in world.tools() if each.name == name]
        direct.perform(tool, arguments)
        yield Mutant("one more write", check(task, gold, world))


def off_by_one(value: Any, task: Task) -> Any:
    """The nearest wrong answer: the next number, another of the allowed words, the first of a list changed."""
    match value:
        case bool():
            return not value
        case int():
            return value + 1 + int(2 * task.tolerance)
        case float():
            return value + max(0.01, 2 * task.tolerance)
        case str():
            return next((word for word in _allowed(task.schema) if word != value), value + "x")
        case [first, *rest]:
            return [off_by_one(first, task), *rest]
        case dict() if value:
            first = next(iter(value))
            return {**value, first: off_by_one(value[first], task)}
    return "x"


def in_another_unit(value: Any) -> Any:
    match value:
        case bool() | str() | None:
            return value
        case int() | float():
            return value * 1000
        case list():
            return [in_another_unit(each) for each in value]
        case dict():
            return {key: in_another_unit(each) for key, each in value.items()}
    return value


def _allowed(schema: Any) -> Iterator[str]:
    """The words of the enumerations in a schema."""
    if isinstance(schema, dict):
        yield from schema.get("enum", ())
        for each in schema.values():
            yield from _allowed(each)
