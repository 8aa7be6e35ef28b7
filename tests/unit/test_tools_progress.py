"""How far a call is, for those who watch."""

from __future__ import annotations

from typing import Any

import pytest

from codeact import events
from codeact.tools import progress
from codeact.tools.call import Call
from codeact.tools.context import ToolContext
from codeact.tools.execution import Waiting
from codeact.tools.functions import from_function, tool
from codeact.tools.record import Scrub
from codeact.views import calls
from tests.unit.test_tools_runner import Bench


@tool(secret=["key"])
def load(key: str, call: ToolContext) -> int:
    call.progress(0, 3, f"with {key}")
    call.progress(1, 3)
    call.progress(3, 3, "\x1b[31mdone")
    return 3


def test_a_tool_tells_how_far_it_is() -> None:
    bench = Bench(load)
    assert bench.call("load", key="hunter2!") == 3
    assert [event.type for event in bench.events] == [
        "tool_called",
        "tool_progress",
        "tool_progress",
        "tool_returned",
    ]
    seen = bench.of(events.ToolProgress)
    assert [(each.call, each.tool, each.done, each.total, each.text) for each in seen] == [
        ("c1", "load", 0, 3, "with (secret)"),
        ("c1", "load", 3, 3, "done"),
    ]
    assert [calls.progress(each) for each in seen] == [
        "calling load: 0 of 3 (with (secret))",
        "calling load: 3 of 3 (done)",
    ]


@pytest.mark.parametrize(
    ("told", "seen"),
    [
        ([(0.0, 1, None), (0.1, 2, None), (0.3, 3, None), (0.4, 4, None)], [1, 3]),
        ([(0.0, 1, 9), (0.1, 9, 9)], [1, 9]),
        ([(0.0, float("nan"), 1), (1.0, float("inf"), 1), (2.0, "x", 1), (3.0, True, 1), (4.0, 1, "x")], [1]),
    ],
)
def test_what_is_told_too_often_or_is_no_number_is_passed_over(told: list[Any], seen: list[float]) -> None:
    now = [0.0]
    made = from_function(load)
    emitted: list[Any] = []
    call = Call(made, {}, {}, "c1", "r-c1", Scrub(made, {}), Waiting())
    tell = progress.teller(call, emitted.append, lambda: now[0])
    for at, done, total in told:
        now[0] = at
        tell(done, total, "")
    assert [event.done for event in emitted] == seen
    call.waiting.cancel()
    now[0] = 99.0
    tell(1, None, "")
    assert len(emitted) == len(seen)
