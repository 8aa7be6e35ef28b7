"""Solutions that need no model and no sandbox: the tools of a world as plain functions, called in this process."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.suites.base import Task, ToolFault, Verdict, World, check
from codeact.errors import ToolError
from codeact.tools.tool import Tool

Perform = Callable[[Tool, dict[str, Any]], Any]
"""Makes one call, however that is done. Raises what the namespace's `ToolError` is, for a call that failed."""


class Tools:
    """What a reference solution is given as `t`: each tool a function that takes its arguments by place or name."""

    def __init__(self, tools: Sequence[Tool], perform: Perform, *errors: type[Exception]) -> None:
        self.ToolError = errors
        for tool in tools:
            setattr(self, tool.name, _function(tool, perform))


def _function(tool: Tool, perform: Perform) -> Callable[..., Any]:
    names = [each.name for each in tool.parameters]

    def call(*values: Any, **named: Any) -> Any:
        return perform(tool, {**dict(zip(names, values, strict=False)), **named})

    return call


def perform(tool: Tool, arguments: dict[str, Any]) -> Any:
    """Checks and calls a tool here; its result has been JSON, as for every other caller."""
    return json.loads(json.dumps(tool.call(**tool.check(arguments))))


def answer(task: Task, world: World, *, narrow: bool = False) -> Any:
    """The reference solution's answer, and what it did to the world. A task without one is answered with its gold."""
    if task.oracle is None:
        return task.gold_answer
    return task.oracle(Tools(world.tools(), perform, ToolFault, ToolError), narrow=narrow)


def solve(task: Task) -> Verdict:
    """The verdict on the reference solution, in a world without latency."""
    world = task.start(latency=0.0)
    return check(task, answer(task, world), world)
