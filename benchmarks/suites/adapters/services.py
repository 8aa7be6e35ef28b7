"""BFCL multi-turn, tau2 retail and M3ToolEval: tasks over the code of others, run in a process of its own."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from benchmarks.suites.adapters import process
from benchmarks.suites.base import Oracle, Task, digest, same
from codeact.types import RunLimits

BFCL, TAU2, M3, M3_ORIGINAL = "bfcl-multi-turn", "tau2-retail", "m3toolval", "m3toolval-original"
VERSION = "1"
DONE = {"type": "string", "enum": ["done", "not possible"]}
TOLERANCE = 0.005
"""Of the mended scorer of M3ToolEval: its answers are asked for with two decimals."""


def bfcl(path: Path, seed: int | None = None) -> list[Task]:
    """The turns of the base set, as steps of one request; the state at the end and the results on the way count."""
    return [
        _stateful(
            BFCL,
            "bfcl",
            path,
            told,
            "Do these things one after the other; each is done before the next is begun.\n\n"
            + "\n".join(f"{number}. {turn}" for number, turn in enumerate(told["turns"], 1))
            + '\n\nNobody can be asked. When all is done, answer "done".',
        )
        for told in _solvable("bfcl", path)
    ]


def tau2(path: Path, seed: int | None = None) -> list[Task]:
    """The retail domain without a simulated customer: the whole scenario is one request; the database at the end counts."""
    return [
        _stateful(
            TAU2,
            "tau2",
            path,
            told,
            f"You serve a customer of a shop. This is the policy that you keep to:\n\n{told['policy']}\n\nThe customer has called and told "
            f"you, in words meant for themselves:\n\n{told['request']}\n\nThe customer cannot be asked anything more, and agrees to whatever "
            'the policy wants confirmed. Do what the policy allows of what they want. When that is done, answer "done"; where nothing of it '
            'is possible, "not possible".',
        )
        for told in _solvable("tau2", path)
    ]


def _solvable(kind: str, path: Path) -> list[dict[str, Any]]:
    """The tasks but for those whose published solution makes calls that the published definitions do not allow."""
    return [told for told in process.listed(kind, path) if process.fits(told["tools"], told["solution"])]


def _stateful(suite: str, kind: str, path: Path, told: dict[str, Any], question: str) -> Task:
    calls = len(told["solution"])
    return Task(
        id=f"{suite}-{told['id']}",
        suite=suite,
        version=VERSION,
        question=question,
        schema=DONE,
        gold_answer="done",
        gold_state=digest(process.outcome(told["state"])),
        template=f"{suite}-{told['id']}",
        calls_min=calls,
        limits=RunLimits(turns=max(20, calls + 10), seconds=600, tokens=200_000 + 15_000 * calls),
        world=functools.partial(_world, kind, path, told),
        oracle=Oracle(solve_by_calls, {"calls": told["solution"]}),
        judge=_any_word,
    )


def solve_by_calls(t: Any, calls: Any) -> Any:
    for name, arguments in calls:
        try:
            getattr(t, name)(**arguments)
        except t.ToolError:
            pass  # also what fails is part of the published solution
    return "done"


def _world(kind: str, path: Path, told: dict[str, Any], latency: float) -> process.Foreign:
    return process.Foreign(kind, path, told["id"], told["tools"], latency, told.get("wanted", ()))


def _any_word(task: Task, answer: Any) -> bool:
    """The state is what is judged; that an answer was given shows that the work had an end."""
    return answer in DONE["enum"]


def m3(path: Path, seed: int | None = None) -> list[Task]:
    """M3ToolEval with a mended scorer: typed, numbers within a tolerance, one answer and no word on whether it is right."""
    return [_m3(M3, path, told) for told in process.listed("m3tooleval", path)]


def m3_original(path: Path, seed: int | None = None) -> list[Task]:
    """M3ToolEval with the scorer that it came with, flaws and all, so that figures can be set beside published ones."""
    return [_m3(M3_ORIGINAL, path, told) for told in process.listed("m3tooleval", path)]


def _m3(suite: str, path: Path, told: dict[str, Any]) -> Task:
    original = suite == M3_ORIGINAL
    return Task(
        id=f"{suite}-{told['id'].replace('/', '-')}",
        suite=suite,
        version=VERSION,
        question=f"{told['instruction'].strip()}\n\nAnswer with nothing but what is asked for.",
        schema={} if original else _schema(told["expected"]),
        gold_answer=told["expected"],
        gold_state=digest(process.outcome(told["state"])),
        template=f"{suite}-{told['id'].partition('/')[0]}",
        tolerance=0.0 if original else TOLERANCE,
        world=functools.partial(_world, "m3tooleval", path, told),
        judge=functools.partial(_scored_by_theirs, path, told) if original else _mended,
    )


def _schema(expected: Any) -> dict[str, Any]:
    match expected:
        case bool():
            return {"type": "boolean"}
        case int() | float():
            return {"type": "number"}
        case str():
            return {"type": "string"}
        case [first, *rest] if all(_schema(each) == _schema(first) for each in rest):
            return {"type": "array", "items": _schema(first)}
        case list():
            return {"type": "array"}
    return {"type": "object"} if isinstance(expected, dict) else {}


def _mended(task: Task, answer: Any) -> bool:
    return same(task.gold_answer, answer, task.tolerance)


def _scored_by_theirs(path: Path, told: dict[str, Any], task: Task, answer: Any) -> bool:
    if answer is None:
        return False
    world = _world("m3tooleval", path, told, 0.0)
    try:
        return world.score(answer)
    finally:
        world.close()
