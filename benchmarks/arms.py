"""The arms: how the same model acts on the same tasks with the same tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from benchmarks.suites.base import Task
from benchmarks.suites.tables import Tables
from codeact import context, workspace
from codeact.actions.styles import style
from codeact.agent import Agent
from codeact.tools.tool import Tool
from codeact.types import Model, RunLimits
from sandbox import Pool

IMAGE = "data"
Actions = Literal["fenced", "functions"]


@dataclass(frozen=True, slots=True)
class Arm:
    """`actions` is how the model acts; with `parallel` it may call several functions in one reply, with `python` one of
    them runs code, which cannot call the others."""

    name: str
    about: str
    actions: Actions = "functions"
    parallel: bool = True
    python: bool = False

    @property
    def runs_code(self) -> bool:
        return self.python or self.actions == "fenced"


ARMS: Mapping[str, Arm] = {
    arm.name: arm
    for arm in (
        Arm("code", "Python in a persistent kernel; tools are functions", "fenced"),
        Arm("json", "native function calls, several in one reply"),
        Arm("json-serial", "native function calls, one in a reply", parallel=False),
        Arm(
            "json+python",
            "native function calls, and one function runs Python without the others",
            python=True,
        ),
    )
}


PEERS: Mapping[str, str] = {"smolagents": "smolagents' CodeAgent, as a peer, in an environment of its own"}
"""Arms that are other packages."""


def agent(
    arm: Arm,
    model: Model,
    task: Task,
    tools: Sequence[Tool],
    limits: RunLimits,
    pool: Pool | None,
    runs: Path,
) -> Agent:
    """The agent of one attempt. All that is not the arm's is the same in every arm."""
    return Agent(
        model,
        limits=limits,
        output_schema=dict(task.schema),
        actions=arm.actions,
        parallel_calls=arm.parallel,
        run_python=arm.python,
        tools=list(tools),
        approve="never",
        pool=pool if arm.runs_code else None,
        runs=runs,
    )


def data(arm: Arm, task: Task) -> Mapping[str, Path]:
    """The files that an attempt gets in its sandbox; an arm without one reads them with its tools."""
    return task.data if arm.runs_code else {}


def question(arm: Arm, task: Task) -> str:
    """The task's question. Where the files lie in a sandbox, what they hold is told with them; without one it is told here."""
    if arm.runs_code or not task.data:
        return task.question
    return f"{task.question}\n\nFiles, as tables for the functions:\n{Tables(task.data).told()}"


def settings(arm: Arm) -> dict[str, Any]:
    """What the arm is, for the record."""
    return {"actions": arm.actions, "parallel": arm.parallel, "python": arm.python}


def prompt(arm: Arm) -> str:
    """The system prompt of an arm, before its tools."""
    acting = style(arm.actions, run_python=arm.python, parallel=arm.parallel)
    where = context.where_text(workspace.described(IMAGE), workspace.network(None)) if acting.code else ""
    return context.system_text(acting.how, where, "")
