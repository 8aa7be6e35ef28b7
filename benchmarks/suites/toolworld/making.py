"""Templates of tasks, and the tasks that come of them."""

from __future__ import annotations

import dataclasses
import functools
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from benchmarks.suites import direct
from benchmarks.suites.base import Oracle, Task, changes, check, digest
from benchmarks.suites.toolworld.world import Busy, Service, Tables, state
from codeact.types import RunLimits

NAME = "toolworld"
MAX_TRIES = 50
NUMBER: Mapping[str, Any] = {"type": "number"}
INTEGER: Mapping[str, Any] = {"type": "integer"}
TEXT: Mapping[str, Any] = {"type": "string"}
TEXTS: Mapping[str, Any] = {"type": "array", "items": {"type": "string"}}


def one_of(*words: str) -> Mapping[str, Any]:
    return {"type": "string", "enum": list(words)}


def fields(**kinds: Mapping[str, Any]) -> Mapping[str, Any]:
    """An object with exactly these fields."""
    return {
        "type": "object",
        "properties": kinds,
        "required": list(kinds),
        "additionalProperties": False,
    }


@dataclass(frozen=True, slots=True)
class Case:
    """One instance of a template. `answer` and `after`, the tables as they shall be (None: as they are), are worked out
    from the tables and not through tools; `arguments` are what the reference solution is told."""

    question: str
    schema: Mapping[str, Any]
    answer: Any
    arguments: Mapping[str, Any] = field(default_factory=dict)
    after: Tables | None = None
    tolerance: float = 0.0
    unordered: bool = False
    busy: tuple[Busy, ...] = ()
    size: int | None = None


@dataclass(frozen=True, slots=True)
class Template:
    """`make` gets a source of chance, tables that it may change, and the number of the instance.

    `narrow` is a reference solution whose results are each small enough for one observation, where `solve`'s are not.
    """

    name: str
    category: str
    make: Callable[[Random, Tables, int], Case]
    solve: Callable[..., Any]
    narrow: Callable[..., Any] | None = None


@dataclass(frozen=True, slots=True)
class World:
    name: str
    service: type[Service]
    generate: Callable[[Random], Tables]
    templates: tuple[Template, ...]


class Disagreement(AssertionError):
    """The reference solution and the computation from the tables differ: a fault of the suite."""


def make_task(
    world: World, template: Template, version: str, seed: int, index: int, split: str, taken: set[str]
) -> Task:
    """A task whose question is not among those taken, to which it is added. Raises Disagreement."""
    for again in range(MAX_TRIES):
        rng = Random(zlib.crc32(f"{split} {world.name} {template.name} {seed} {index} {again}".encode()))
        tables = world.generate(rng)
        case = template.make(rng, tables, index)
        if case.question not in taken:
            break
    else:
        raise Disagreement(f"{template.name} has no other question for the instance {index} than those taken")
    taken.add(case.question)
    known = world.service.known(tables)
    before = state(tables, known)
    after = before if case.after is None else state(case.after, known)
    task = Task(
        id=f"{template.name}-{split}-{index + 1}",
        suite=NAME,
        version=version,
        question=case.question,
        schema=case.schema,
        gold_answer=case.answer,
        gold_state=digest(after),
        gold_changes=() if case.after is None else tuple(changes(before, after)),
        world_name=world.name,
        seed=seed,
        category=template.category,
        template=template.name,
        size=case.size,
        tolerance=case.tolerance,
        unordered=case.unordered,
        world=functools.partial(_start, world.service, tables, busy=case.busy),
        oracle=Oracle(template.solve, case.arguments, narrow=template.narrow),
    )
    return _measured(task)


def _start(service: type[Service], tables: Tables, latency: float, *, busy: tuple[Busy, ...]) -> Service:
    return service(tables, latency, busy)


def _measured(task: Task) -> Task:
    """With what its reference solutions show: the calls that it takes, the limits that follow, and what must not change."""
    logs = []
    ways = (False, True) if task.oracle and task.oracle.narrow else (False,)
    for narrow in ways:
        world = task.start(latency=0.0)
        answer = direct.answer(task, world, narrow=narrow)
        verdict = check(task, answer, world)
        if not verdict.success:
            raise Disagreement(f"{task.id}: {verdict.reason}")
        logs.append(world.log)
    writes = {tool.name for tool in task.start(0.0).tools() if tool.policy.effects != "read"}
    used = {call.tool for log in logs for call in log if call.changed}
    most = max(len(log) for log in logs)
    return dataclasses.replace(
        task,
        calls_min=len(logs[0]),
        forbidden=tuple(sorted(writes - used)),
        limits=RunLimits(turns=max(20, most + 10), seconds=300, tokens=200_000 + 15_000 * most),
    )
