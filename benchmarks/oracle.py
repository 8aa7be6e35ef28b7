"""`-m scripted:oracle`: the reference solution of a task, as a model that acts in the way of each arm.

In code it is one cell. By functions it is a solution in a thread, the one that needs to see no more than an observation
shows: each call that it makes becomes a reply, and what comes back with the next request is what the call returns.
"""

from __future__ import annotations

import contextlib
import json
import queue
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks.arms import ARMS
from benchmarks.suites.base import Task
from benchmarks.suites.direct import Tools
from codeact.actions.native import FINAL
from codeact.models import ScriptedModel, wire
from codeact.tools.definitions import function_name
from codeact.tools.tool import Tool
from codeact.types import Message, Model, Reply, Request

NAME = "scripted:oracle"


@contextlib.contextmanager
def oracle(task: Task, arm: str, tools: Sequence[Tool]) -> Iterator[Model]:
    """A model for one attempt at the task."""
    if ARMS[arm].actions == "fenced":
        cell = task.oracle.cell() if task.oracle else f"final_answer({task.gold_answer!r})"
        yield ScriptedModel([f"```python\n{cell}\n```"], NAME)
        return
    model = Caller(task, tools)
    try:
        yield model
    finally:
        model.close()


class CallFailed(Exception):
    """A call came back with an error."""


class _Over(BaseException):
    """The attempt is over: nobody asks any more."""


class Caller:
    """The reference solution as a model that calls one function in a reply."""

    name, sees, small = NAME, False, False

    def __init__(self, task: Task, tools: Sequence[Tool]) -> None:
        self._task = task
        self._tools = {tool.name: tool for tool in tools}
        self._says: queue.Queue[tuple[str, dict[str, Any]]] = queue.Queue()
        self._hears: queue.Queue[str | None] = queue.Queue()
        self._calls = 0
        self._last: tuple[str, dict[str, Any]] | None = None
        self._thread = threading.Thread(target=self._solve, name="oracle", daemon=True)

    def close(self) -> None:
        self._hears.put(None)
        if self._thread.is_alive():
            self._thread.join()

    def __call__(self, request: Request) -> Iterator[Reply]:
        if self._last is None:
            self._thread.start()
        elif self._last[0] != FINAL:
            self._hears.put(_result(request.messages, f"oracle{self._calls}"))
        if self._last is None or self._last[0] != FINAL:
            self._last = self._says.get()
        name, arguments = self._last  # an answer that was refused is given again, until the run ends
        self._calls += 1
        function = {"name": name, "arguments": json.dumps(arguments)}
        call = {"id": f"oracle{self._calls}", "type": "function", "function": function}
        written = name + function["arguments"]
        yield Reply("", "tool_calls", wire.estimate(request, written), self.name, (call,))

    # -- in the thread ---------------------------------------------------------------------------------------------

    def _solve(self) -> None:
        try:
            tools = Tools(list(self._tools.values()), self._perform, CallFailed)
            answer = self._task.oracle(tools, narrow=True) if self._task.oracle else self._task.gold_answer
        except _Over:
            return
        except BaseException as error:  # noqa: BLE001 - the attempt fails, with this as its answer; it is waited for
            answer = f"the reference solution failed: {type(error).__name__}: {error}"
        self._says.put((FINAL, {"value": answer}))

    def _perform(self, tool: Tool, arguments: dict[str, Any]) -> Any:
        self._says.put((function_name(tool), arguments))
        said = self._hears.get()
        if said is None:
            raise _Over
        return _value(said)


def _result(messages: Sequence[Message], call_id: str) -> str:
    return next(message.content for message in reversed(messages) if message.call_id == call_id)


def _value(said: str) -> Any:
    """What a call returned; what follows it is said to a model. Raises CallFailed for an error."""
    head = said.split("\n\n")[0]
    try:
        value = json.loads(head)
    except ValueError:
        return head
    if isinstance(value, dict) and set(value) == {"error"}:
        raise CallFailed(f"{value['error'].get('type')}: {value['error'].get('message')}")
    return value
