"""What is measured of an attempt, from events that were written by hand."""

from __future__ import annotations

import pytest

from benchmarks.attempts import covered, errors, measured, most_at_once, redundant
from benchmarks.suites.base import Called
from codeact import events
from codeact.events import Event
from codeact.types import Reading, Usage
from sandbox.types import CellError, CellResult


def called(call: str, at: float, *, cell: int = 1, tool: str = "look") -> events.ToolCalled:
    return events.ToolCalled(time=at, call=call, cell=cell, tool=tool, arguments={}, digest="", key="")


def returned(call: str, at: float, *, tool: str = "look", error: str | None = None) -> events.ToolReturned:
    said = None if error is None else {"class": error, "message": ""}
    return events.ToolReturned(time=at, call=call, tool=tool, ok=error is None, error=said)


def replied(
    seconds: float, *, at: float = 0.0, problem: str | None = None, fingerprint: str = ""
) -> events.Replied:
    return events.Replied(time=at, turn=1, text="", reading=Reading("", problem=problem), finish="stop", usage=Usage(), model="m", seconds=seconds, fingerprint=fingerprint)  # fmt: skip


def observed(*cells: CellResult, at: float = 0.0, text: str = "seen") -> events.Observed:
    return events.Observed(time=at, turn=1, text=text, cell=cells[-1] if cells else None, earlier=cells[:-1])


def failed(name: str, message: str = "") -> CellResult:
    return CellResult("error", (CellError(name, message, ""),), 0.1)


def answered(problem: str | None) -> events.AnswerGiven:
    return events.AnswerGiven(answer="x", accepted=problem is None, problem=problem)


def test_time_is_split_without_counting_any_of_it_twice() -> None:
    log: list[Event] = [
        events.RunStarted(time=101.0, task="", model="m", settings={}, system="", first=""),
        events.TurnStarted(turn=1),
        events.Retrying(attempt=1, reason="429", wait=0.5),
        replied(2.5, at=103.5),  # the wait is a part of it
        called("c1", 104.0),
        called("c2", 104.5),
        returned("c1", 105.0),
        returned("c2", 105.5),
        observed(CellResult("ok", (), 3.0), at=106.5),
        events.RunEnded(time=107.0, status="answered", answer=1, usage=Usage(), seconds=6.0),
    ]
    made = measured(log, began=100.0, wall=7.5, boxed=True)
    assert made["llm_s"] == 2.5
    assert made["tool_s"] == 1.5  # from 104 to 105.5, both at once for half a second
    assert (
        made["sandbox_s"] == 1.0 + (3.0 - 1.5) + 1.0
    )  # start, cell without tools, from the last cell to the end
    assert made["overhead_s"] == pytest.approx(0.0)
    assert (made["max_parallel"], made["tool_calls"], made["distinct_tools"], made["turns"]) == (2, 2, 1, 1)
    assert made["observation_chars"] == 4
    assert made["served"] == ("m",)


def test_what_the_endpoint_says_it_runs_is_told_once_each() -> None:
    log = [replied(1.0, fingerprint=name) for name in ("fp_1", "", "fp_2", "fp_1")]
    assert measured(log, began=0.0, wall=4.0, boxed=False)["fingerprints"] == ("fp_1", "fp_2")


def test_calls_that_the_model_makes_itself_are_not_taken_from_cells() -> None:
    log = [
        events.RunStarted(time=100.0, task="", model="m", settings={}, system="", first=""),
        replied(1.0, at=101.0),
        called("c1", 101.0, cell=0),
        returned("c1", 102.0),
        observed(at=102.0),
    ]
    made = measured(log, began=100.0, wall=2.0, boxed=False)
    assert (made["tool_s"], made["sandbox_s"], made["overhead_s"]) == (1.0, 0.0, 0.0)


@pytest.mark.parametrize("boxed", [True, False])
@pytest.mark.parametrize("answered_before", [True, False])
def test_time_in_a_request_that_a_limit_cut_is_the_models(boxed: bool, answered_before: bool) -> None:
    log: list[Event] = [
        events.RunStarted(time=100.0, task="", model="m", settings={}, system="", first=""),
        *([events.TurnStarted(time=100.0, turn=1), replied(10.0, at=110.0)] if answered_before else []),
        events.TurnStarted(time=110.0, turn=2),
        events.LimitReached(time=180.0, limit="seconds", value=80),
        events.RunEnded(time=180.0, status="limit", answer=None, usage=Usage(), seconds=80.0),
    ]
    made = measured(log, began=100.0, wall=80.0, boxed=boxed)
    assert made["llm_s"] == (80.0 if answered_before else 70.0)
    assert made["sandbox_s"] == 0.0


def test_a_run_that_never_began_has_no_figures_and_no_fault() -> None:
    assert measured([], began=1.0, wall=0.5, boxed=True)["overhead_s"] == 0.5


@pytest.mark.parametrize(
    ("spans", "seconds", "most"),
    [
        ([], 0.0, 0),
        ([(0, 1), (2, 3)], 2.0, 1),
        ([(0, 1), (1, 2)], 2.0, 1),
        ([(0, 4), (1, 2), (1.5, 3)], 4.0, 3),
        ([(5, 6), (0, 1)], 2.0, 1),
    ],
)
def test_spans(spans: list[tuple[float, float]], seconds: float, most: int) -> None:
    assert (covered(spans), most_at_once(spans)) == (seconds, most)


@pytest.mark.parametrize(
    ("log", "classes"),
    [
        ([replied(1, problem="no code")], ["format"]),
        ([observed(failed("SyntaxError"))], ["syntax"]),
        ([observed(failed("KeyError"))], ["exception"]),
        ([observed(CellResult("timeout"))], ["timeout"]),
        ([observed(CellResult("died", lost="everything"))], ["kernel death"]),
        ([observed(CellResult("ok"), failed("ValueError"))], ["exception"]),
        ([returned("c", 1, error="ArgumentError")], ["schema"]),
        ([returned("c", 1, error="UnknownTool")], ["unknown tool"]),
        ([returned("c", 1, error="ToolTimeout")], ["timeout"]),
        ([returned("c", 1, error="RateLimited"), observed(failed("RateLimited"))], ["ToolError"]),
        ([returned("c", 1, error="RateLimited"), observed(failed("KeyError"))], ["ToolError", "exception"]),
        ([replied(1), returned("c", 1), observed(CellResult("ok"))], []),
        ([replied(1), answered(None), observed(CellResult("ok"))], []),
        ([replied(1), answered("not a number"), observed(failed("TypeError", "not a number"))], ["schema"]),
        ([replied(1), answered("not a number"), observed(failed("KeyError", "k"))], ["schema", "exception"]),
        ([observed(failed("ArgumentError", "look() missing 1 argument"))], ["schema"]),
        (
            [observed(failed("ImportError", "cannot import name 'nope' from 'tools' (/x.py)"))],
            ["unknown tool"],
        ),
        ([observed(failed("ImportError", "cannot import name 'nope' from 'toolz' (/x.py)"))], ["exception"]),
        (
            [observed(failed("AttributeError", "tools.shop has no 'nope'; did you mean 'note'?"))],
            ["unknown tool"],
        ),
        ([observed(failed("ModuleNotFoundError", "No module named 'tools.nope'"))], ["unknown tool"]),
    ],
)
def test_classes_of_errors(log: list[Event], classes: list[str]) -> None:
    assert list(errors(log)) == classes


def test_a_call_is_redundant_until_the_state_changes() -> None:
    def call(tool: str, changed: bool = False, **arguments: object) -> Called:
        return Called(tool, arguments, changed)

    log = [call("look", id=1), call("look", id=1), call("look", id=2), call("put", True, id=1), call("look", id=1), call("look", id=1)]  # fmt: skip
    assert redundant(log) == 2


def test_whatever_a_model_wrote_can_be_compared() -> None:
    log = [Called("put", {"value": float("nan"), "what": b"x"}, False)] * 2
    assert redundant(log) == 1
