"""Runs tasks and keeps what came of each: one line of `attempts.jsonl`, written when the attempt has ended."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.task import Task
from codeact.agent import Agent
from codeact.errors import CodeActError
from codeact.events import CodeStarted
from codeact.types import Model, Result, RunLimits
from sandbox import SandboxError

SCHEMA_VERSION = 1
STOP_REASONS = {
    "answered": "submitted",
    "no_answer": "refused",
    "limit": "limit",
    "interrupted": "interrupted",
}


@dataclass(frozen=True, slots=True)
class Attempt:
    """One task, once. `success` is None where the infrastructure failed: such an attempt is run again, never scored."""

    suite: str
    task: str
    arm: str
    model: str
    repeat: int
    success: bool | None
    answer: Any
    stop_reason: str
    llm_calls: int
    tool_calls: int
    code_cells: int
    prompt_tokens: int
    completion_tokens: int
    wall_s: float
    run: str
    error: str | None = None
    schema_version: int = SCHEMA_VERSION


def attempt(suite: str, task: Task, model: Model, repeat: int, limits: RunLimits, runs: Path) -> Attempt:
    """Runs one task with the `code` arm."""
    began = time.monotonic()
    try:
        result = Agent(model, limits=limits, runs=runs).run(task.question, task.data)
    except (CodeActError, SandboxError) as error:
        result = Result(None, "failed", run="", error=str(error))
    failed = result.status == "failed"
    return Attempt(
        suite=suite,
        task=task.id,
        arm="code",
        model=model.name,
        repeat=repeat,
        success=None if failed else result.status == "answered" and task.is_right(result.answer),
        answer=result.answer,
        stop_reason="infra_error" if failed else STOP_REASONS[result.status],
        llm_calls=result.usage.calls,
        tool_calls=0,
        code_cells=sum(isinstance(event, CodeStarted) for event in result.events),
        prompt_tokens=result.usage.prompt_tokens,
        completion_tokens=result.usage.completion_tokens,
        wall_s=round(time.monotonic() - began, 2),
        run=result.run,
        error=result.error,
    )


def append(folder: Path, made: Attempt) -> None:
    with (folder / "attempts.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(made), ensure_ascii=False) + "\n")


def read(folder: Path) -> list[dict[str, Any]]:
    """The attempts of a run; a torn last line is passed over, and of two for the same task the later counts."""
    path = folder / "attempts.jsonl"
    latest = {}
    for made in _lines(path.read_text(encoding="utf-8").splitlines() if path.exists() else []):
        latest[made["task"], made["arm"], made["repeat"]] = made
    return list(latest.values())


def _lines(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    for line in lines:
        try:
            yield json.loads(line)
        except ValueError:
            continue
