"""What a suite is made of: tasks, the worlds in which they are done, and how what came of one is judged.

A task is data, with two callables beside it: `world` makes the state that one attempt works on, `oracle` is a reference
solution. A suite is a function that returns its tasks.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from codeact.tools.tool import Tool
from codeact.types import RunLimits

LATENCY = 0.04
"""Seconds that a call of a simulated tool takes."""
LIMITS = RunLimits(turns=20, seconds=300, tokens=200_000)


UNCOMPARABLE = (ArithmeticError, RecursionError, TypeError, ValueError)
"""What a judge raises for an answer that it cannot compare, such as a number of 400 digits: it is not the right one."""


class ToolFault(ValueError):
    """What a tool of a world raises: its class is the code, `retryable` whether the same call may go well later.

    A ValueError, so that a circuit breaker takes none of them for a tool that is out of order.
    """

    retryable = False


class NotFound(ToolFault):
    pass


class Invalid(ToolFault):
    """An argument makes no sense for this record."""


class Refused(ToolFault):
    """The world's own rules forbid it."""


class Stale(ToolFault):
    """The record was changed or replaced meanwhile."""

    retryable = True


class RateLimited(ToolFault):
    retryable = True


@dataclass(frozen=True, slots=True)
class Called:
    """One call of a tool, as it came: `changed` where the state was another afterwards, `error` the fault's class."""

    tool: str
    arguments: Mapping[str, Any]
    changed: bool
    error: str | None = None
    seconds: float = 0.0


class World(Protocol):
    """The state of one attempt and the tools that work on it. Tools may be called from threads."""

    @property
    def log(self) -> Sequence[Called]:
        """All calls so far, in the order in which they ended."""

    def tools(self) -> Sequence[Tool]: ...

    def state(self) -> Any:
        """What counts of the state, as JSON. Without what may differ between equally good solutions, such as new ids."""


Solve = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Oracle:
    """A reference solution: a plain function `solve(t, **arguments)` that needs nothing but what it imports itself,
    and `Any` for its hints.

    `t` has the tools as functions, and the exception `ToolError`. `narrow` is another way to the same answer, for who
    can see no more of a result than an observation shows; None where `solve` does with that.
    """

    solve: Solve
    arguments: Mapping[str, Any] = field(default_factory=dict)
    narrow: Solve | None = None

    def __call__(self, t: Any, *, narrow: bool = False) -> Any:
        return self.way(narrow=narrow)(t, **self.arguments)

    def way(self, *, narrow: bool) -> Solve:
        return self.narrow if narrow and self.narrow is not None else self.solve

    def cell(self) -> str:
        """The same as code for the sandbox, up to the final answer."""
        source = textwrap.dedent(inspect.getsource(self.solve))
        call = f"{self.solve.__name__}(tools, **{dict(self.arguments)!r})"
        return f"import tools\nfrom typing import Any\n\n{source}\nfinal_answer({call})"


@dataclass(frozen=True, slots=True)
class Task:
    """A question with its right answer, and the state that a right solution leaves.

    `schema` is the JSON Schema of the answer, `tolerance` is absolute, for numbers; `unordered` lists may come in any
    order. `template` is what statistics take as a cluster; `size` the N of tasks that differ in nothing else. A tool in
    `forbidden` must not change the state even for a moment. `data` are files by the name that they get.
    """

    id: str
    suite: str
    version: str
    question: str
    schema: Mapping[str, Any]
    gold_answer: Any
    gold_state: str
    gold_changes: tuple[str, ...] = ()
    world_name: str = ""
    seed: int = 0
    category: str = ""
    template: str = ""
    size: int | None = None
    calls_min: int = 0
    tolerance: float = 0.0
    unordered: bool = False
    forbidden: tuple[str, ...] = ()
    limits: RunLimits = LIMITS
    data: Mapping[str, Path] = field(default_factory=dict)
    latency: float = LATENCY
    world: Callable[[float], World] = field(kw_only=True, repr=False, compare=False)
    oracle: Oracle | None = field(default=None, kw_only=True, repr=False, compare=False)
    judge: Callable[[Task, Any], bool] | None = field(default=None, kw_only=True, repr=False, compare=False)
    """Judges the answer in place of `same`: for suites that brought their own scorer."""

    def start(self, latency: float | None = None) -> World:
        """A world of its own for one attempt; `latency` is seconds a call, the task's where None."""
        return self.world(self.latency if latency is None else latency)

    @property
    def hash(self) -> str:
        """Over all that makes the task what it is, its files among it."""
        told = {
            name: getattr(self, name)
            for name in self.__dataclass_fields__
            if name not in ("data", "limits", "world", "oracle", "judge")
        }
        told["limits"] = [self.limits.turns, self.limits.seconds, self.limits.tokens]
        told["data"] = {name: _file_digest(path) for name, path in self.data.items()}
        return digest(told)


@dataclass(frozen=True, slots=True)
class Verdict:
    """`side_effect` names the forbidden tool that changed something; `reason` says in a line what is wrong."""

    success: bool
    answer_ok: bool
    state_ok: bool
    side_effect: str | None = None
    reason: str = ""


def check(task: Task, answer: Any, world: World) -> Verdict:
    """Judges an attempt by its answer, the state that it left, and what it did on the way."""
    try:
        answer_ok = (task.judge or same_answer)(task, answer)
    except UNCOMPARABLE:
        answer_ok = False
    state_ok = not task.gold_state or _is_gold(world.state(), task.gold_state)
    wrong = next((call.tool for call in world.log if call.changed and call.tool in task.forbidden), None)
    reasons = [
        "" if answer_ok else f"the answer is {_short(answer)}, not {_short(task.gold_answer)}",
        "" if state_ok else "the state is not the one that a right solution leaves",
        "" if wrong is None else f"{wrong} must not change anything here, and did",
    ]
    return Verdict(
        success=answer_ok and state_ok and wrong is None,
        answer_ok=answer_ok,
        state_ok=state_ok,
        side_effect=wrong,
        reason="; ".join(filter(None, reasons)),
    )


def _is_gold(state: Any, gold: str) -> bool:
    try:
        return digest(state) == gold
    except ValueError:  # it holds NaN or an infinity, which no right solution writes
        return False


def same_answer(task: Task, answer: Any) -> bool:
    return same(task.gold_answer, answer, task.tolerance, unordered=task.unordered)


def same(gold: Any, answer: Any, tolerance: float = 0.0, *, unordered: bool = False) -> bool:
    """Whether an answer is the right one: of its type, numbers within the tolerance, text but for case and outer spaces."""
    match gold, answer:
        case (bool() | None, _) | (_, bool() | None):
            return gold is answer
        case (int() | float(), int() | float()):
            return abs(gold - answer) <= tolerance
        case str(), str():
            return gold.strip().casefold() == answer.strip().casefold()
        case list(), list() if unordered:
            return _same_set(gold, answer, tolerance)
        case list(), list():
            return len(gold) == len(answer) and all(
                same(one, other, tolerance, unordered=unordered)
                for one, other in zip(gold, answer, strict=True)
            )
        case dict(), dict():
            return gold.keys() == answer.keys() and all(
                same(gold[key], answer[key], tolerance, unordered=unordered) for key in gold
            )
    return False


def _same_set(gold: Sequence[Any], answer: Sequence[Any], tolerance: float) -> bool:
    left = list(answer)
    for one in gold:
        found = next((i for i, other in enumerate(left) if same(one, other, tolerance, unordered=True)), None)
        if found is None:
            return False
        del left[found]
    return not left


def canonical(value: Any) -> str:
    """JSON in one form only. Raises ValueError for NaN and infinities, TypeError for what is not JSON."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest(value: Any) -> str:
    return hashlib.sha256(canonical(value).encode()).hexdigest()


def changes(before: Any, after: Any, path: str = "") -> list[str]:
    """How two states differ, a line for each place, as `orders.O-17.status: "open" -> "cancelled"`."""
    if isinstance(before, dict) and isinstance(after, dict):
        keys = sorted({*before, *after})
        return [
            line
            for key in keys
            for line in changes(before.get(key), after.get(key), f"{path}.{key}" if path else str(key))
        ]
    if isinstance(before, list) and isinstance(after, list):
        gone = [f"{path} -{_told_of(each)}" for each in before if each not in after]
        return gone + [f"{path} +{_told_of(each)}" for each in after if each not in before]
    return [] if before == after else [f"{path}: {_told_of(before)} -> {_told_of(after)}"]


def _told_of(value: Any) -> str:
    """A part of a state in words: as `canonical`, whatever was written into it."""
    try:
        return canonical(value)
    except ValueError:
        return repr(value)


def suite_hash(tasks: Iterable[Task]) -> str:
    """Over the tasks, and the signatures and texts of the tools that they are done with."""
    tasks = list(tasks)
    kinds = {task.world_name or task.id: task for task in tasks}
    tools = {name: [_told(tool) for tool in task.start(0.0).tools()] for name, task in kinds.items()}
    return digest({"tasks": {task.id: task.hash for task in tasks}, "tools": tools})


def _told(tool: Tool) -> list[str]:
    return [tool.signature, tool.description, *(each.description for each in tool.parameters)]


@functools.cache
def _file_digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _short(value: Any) -> str:
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # a number of more digits than Python writes
        text = f"of type {type(value).__name__}, too large to be shown"
    return text if len(text) <= 80 else f"{text[:79]}…"
