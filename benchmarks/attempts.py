"""What came of one attempt, as a line of `attempts.jsonl`, and what is measured of it from the events of its run."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from benchmarks.suites.base import Called, canonical
from codeact import events, schema
from codeact.events import Event
from sandbox.types import CellResult

SCHEMA_VERSION = 2
"""Version 1 had no key, no breakdown of time and no classes of errors; its lines are read with these left empty."""
MOST = 2**53
"""Of any count, seconds or USD, which every table holds exactly: beyond it a line is damaged."""

StopReason = Literal[
    "submitted",
    "turn_limit",
    "token_limit",
    "time_limit",
    "cost_limit",
    "refused",
    "interrupted",
    "infra_error",
]
STOP_REASONS: tuple[StopReason, ...] = get_args(StopReason)
ErrorClass = Literal[
    "format", "unknown tool", "schema", "ToolError", "syntax", "exception", "timeout", "kernel death"
]
ERROR_CLASSES: tuple[ErrorClass, ...] = get_args(ErrorClass)
REFUSED_CALL = re.compile(r'\{"error": \{"type": "(\w+)"')
UNKNOWN_IN_CODE = re.compile(
    r"cannot import name '\w+' from 'tools\b|No module named 'tools\.|tools[\w.]* has no '"
)
"""What Python and the package `tools` say of a tool that is not there."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One task, once, by one arm. Times are in seconds, `observation_chars` are characters sent back to the model.

    `success` is None where the infrastructure failed: such an attempt is run again, never scored. `cost_usd` is None
    where the price of the model is not known. `wall_s` is the sum of `llm_s`, `tool_s`, `sandbox_s` and `overhead_s`: time
    in which code waited for tools counts as the tools'. `served` are the models that the endpoint says have answered,
    `fingerprints` what it says of what it runs. `cached_prompt_tokens` are part of `prompt_tokens`, `reasoning_tokens` of
    `completion_tokens`; where the endpoint does not tell, and in older lines, they are 0.
    `max_parallel` is how many calls of tools were under way at once, `redundant_calls` those with the same arguments as an
    earlier one and no change of state between. `recovered`: there were errors, and it succeeded.
    """

    key: str = ""
    suite: str = ""
    task: str = ""
    template: str = ""
    category: str = ""
    size: int | None = None
    arm: str = "code"
    model: str = ""
    served: tuple[str, ...] = ()
    fingerprints: tuple[str, ...] = ()
    repeat: int = 1
    success: bool | None = None
    answer_ok: bool | None = None
    state_ok: bool | None = None
    side_effect: str | None = None
    reason: str = ""
    answer: Any = None
    stop_reason: StopReason = "infra_error"
    error: str | None = None
    llm_calls: int = 0
    turns: int = 0
    tool_calls: int = 0
    distinct_tools: int = 0
    max_parallel: int = 0
    redundant_calls: int = 0
    code_cells: int = 0
    prompt_tokens: int = 0
    cached_prompt_tokens: int = 0
    completion_tokens: int = 0
    reasoning_tokens: int = 0
    tool_definition_tokens: int = 0
    tokens_estimated: bool = False
    cost_usd: float | None = None
    wall_s: float = 0.0
    llm_s: float = 0.0
    tool_s: float = 0.0
    sandbox_s: float = 0.0
    overhead_s: float = 0.0
    observation_chars: int = 0
    errors: Mapping[str, int] = field(default_factory=dict)
    recovered: bool = False
    infra_failures: int = 0
    run: str = ""
    started: str = ""
    schema_version: int = SCHEMA_VERSION

    @property
    def scored(self) -> bool:
        return self.success is not None

    @property
    def total_tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens


def attempt_key(**parts: Any) -> str:
    """What an attempt is known by: all that its result may depend on."""
    return hashlib.sha256(canonical(parts).encode()).hexdigest()[:32]


def from_json(line: Mapping[str, Any]) -> Attempt:
    """An attempt from a line of `attempts.jsonl`, of this version or an older one. Raises ValueError or TypeError for what is none."""
    if not {"task", "arm", "repeat", "success"} <= line.keys():
        raise ValueError("it is not an attempt: it needs task, arm, repeat and success")
    told = (
        {} if line.get("stop_reason") in STOP_REASONS else {"stop_reason": "turn_limit"}
    )  # version 1 did not say which limit
    made: Attempt = schema.decode(Attempt, {**line, **told})
    for name in schema.fields(Attempt):
        value = getattr(made, name)
        if name == "answer" or not isinstance(value, int | float):
            continue
        least = -MOST if name == "overhead_s" else 0  # what calls at once took is counted in each part
        if not least <= value <= MOST:
            raise ValueError(f"it is not an attempt: {name} is no number that could be")
    if made.repeat < 1:
        raise ValueError("it is not an attempt: repeats are counted from 1")
    return made


# -- what is measured -------------------------------------------------------------------------------------------------


def measured(log: Sequence[Event], began: float, wall: float, *, boxed: bool) -> dict[str, Any]:
    """The fields of an attempt that its events tell; `began` is when it did, in seconds since the epoch, `boxed` whether it
    had a sandbox."""
    cells = [cell for event in log if isinstance(event, events.Observed) for cell in _cells(event)]
    calls = [event for event in log if isinstance(event, events.ToolReturned)]
    replies = [event for event in log if isinstance(event, events.Replied)]
    unanswered = _unanswered(log)
    llm = sum(event.seconds for event in replies) + covered(unanswered)
    tool = covered(_spans(log))
    in_code = covered(_spans(log, in_cells=True))
    sandbox = max(0.0, sum(cell.seconds for cell in cells) - in_code)
    if boxed and log:
        sandbox += max(0.0, log[0].time - began) + max(
            0.0, began + wall - max([_last_step(log), *(end for _, end in unanswered)])
        )
    return {
        "turns": sum(isinstance(event, events.TurnStarted) for event in log),
        "tool_calls": len(calls),
        "distinct_tools": len({call.tool for call in calls}),
        "max_parallel": most_at_once(_spans(log)),
        "code_cells": len(cells),
        "served": tuple(dict.fromkeys(event.model for event in replies if event.model)),
        "fingerprints": tuple(dict.fromkeys(event.fingerprint for event in replies if event.fingerprint)),
        "wall_s": round(wall, 4),
        "llm_s": round(llm, 4),
        "tool_s": round(tool, 4),
        "sandbox_s": round(sandbox, 4),
        "overhead_s": round(wall - llm - tool - sandbox, 4),
        "observation_chars": sum(_sent(event) for event in log if isinstance(event, events.Observed)),
        "errors": dict(Counter(errors(log))),
    }


def _sent(event: events.Observed) -> int:
    """Characters that went back to the model: the results of its calls, where it made some."""
    return sum(len(result.text) for result in event.results) if event.results else len(event.text)


def _unanswered(log: Iterable[Event]) -> list[tuple[float, float]]:
    """From when to when requests were under way of which no reply came: a limit cut them, or the endpoint failed."""
    asked: float | None = None
    spans = []
    for event in log:
        match event:
            case events.TurnStarted():
                asked = event.time
            case events.Replied():
                asked = None
            case events.LimitReached() | events.RunEnded() if asked is not None:
                spans.append((asked, event.time))
                asked = None
    return spans


def _last_step(log: Sequence[Event]) -> float:
    """When the last turn was over: what follows are files that are handed over, and the end of the sandbox."""
    steps = (events.Observed, events.Replied, events.AnswerGiven)
    return max((event.time for event in log if isinstance(event, steps)), default=log[0].time)


def _cells(event: events.Observed) -> tuple[CellResult, ...]:
    return (*event.earlier, event.cell) if event.cell is not None else event.earlier


def _spans(log: Iterable[Event], *, in_cells: bool = False) -> list[tuple[float, float]]:
    """From when to when calls of tools were under way; with `in_cells`, of those that code made."""
    began: dict[str, float] = {}
    spans = []
    for event in log:
        match event:
            case events.ToolCalled() if event.cell or not in_cells:
                began[event.call] = event.time
            case events.ToolReturned() if event.call in began:
                spans.append((began.pop(event.call), event.time))
    return spans


def covered(spans: Iterable[tuple[float, float]]) -> float:
    """Seconds in which at least one span lasted."""
    total, until = 0.0, float("-inf")
    for begin, end in sorted(spans):
        total += max(0.0, end - max(begin, until))
        until = max(until, end)
    return total


def most_at_once(spans: Iterable[tuple[float, float]]) -> int:
    """How many spans lasted at once, at most; one that ends where another begins is over."""
    steps = sorted(step for begin, end in spans for step in ((begin, 1), (end, -1)))
    most = now = 0
    for _, step in steps:
        now += step
        most = max(most, now)
    return most


def errors(log: Iterable[Event]) -> Iterator[ErrorClass]:
    """The class of each error, in order, by the same rules whether code or the model itself makes the calls. An exception of a
    tool, or of a refused answer, that code did not catch is one error, not two."""
    raised: set[str] = set()
    refused: set[str | None] = set()
    for event in log:
        match event:
            case events.CodeStarted():
                raised = set()
            case events.Replied():
                refused = set()
                if event.reading.problem is not None:
                    yield "format"
            case events.ToolReturned(ok=False):
                name = (event.error or {}).get("class", "ToolError")
                raised.add(name)
                yield of_tool(name)
            case events.AnswerGiven(accepted=False):
                refused.add(event.problem)
                yield "schema"
            case events.Observed():
                yield from filter(None, map(_of_call, event.results))
                yield from filter(None, (_of_cell(cell, raised, refused) for cell in _cells(event)))


def of_tool(name: str) -> ErrorClass:
    """The class of an exception that a call of a tool raised."""
    match name:
        case "ArgumentError":
            return "schema"
        case "UnknownTool":
            return "unknown tool"
        case "ToolTimeout":
            return "timeout"
    return "ToolError"


def _of_call(result: events.CallResult) -> ErrorClass | None:
    """Of a call that came to no tool, since there is none of its name or its arguments could not be read."""
    error = None if result.ok or result.made else REFUSED_CALL.match(result.text)
    return of_tool(error[1]) if error else None


def _of_cell(cell: CellResult, raised: set[str], refused: set[str | None]) -> ErrorClass | None:
    if cell.lost is not None or cell.status == "died":
        return "kernel death"
    if cell.status == "timeout":
        return "timeout"
    if cell.error is None or cell.status != "error":
        return None
    name, message = cell.error.name, cell.error.message
    if name in raised or message in refused:
        return None
    if name == "ArgumentError":  # the stub found it, and made no call
        return "schema"
    if name == "UnknownTool" or UNKNOWN_IN_CODE.match(message):
        return "unknown tool"
    return "syntax" if name in ("SyntaxError", "IndentationError", "TabError") else "exception"


def redundant(log: Iterable[Called]) -> int:
    """Calls with the same arguments as an earlier one, when the state did not change between the two."""
    seen: set[str] = set()
    count = 0
    for call in log:
        if call.changed:
            seen.clear()
            continue
        made = json.dumps([call.tool, call.arguments], sort_keys=True, default=repr)  # whatever a model wrote
        count += made in seen
        seen.add(made)
    return count
