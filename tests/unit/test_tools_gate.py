"""What a call that is refused, waits or is cancelled alone takes from others, and leaves in the record."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from codeact import events
from codeact.tools.approval import Approval, CallRequest
from codeact.tools.context import current_call
from codeact.tools.execution import Waiting
from codeact.tools.functions import from_function, tool
from codeact.tools.policy import Guards, Rate
from sandbox.errors import HostCallRefused
from sandbox.hostcalls import HostCall
from tests.unit.test_tools_runner import Bench

CANCELLED = ("CallCancelled", "the call was cancelled: the code waits for it no more")


class Alone:
    """Calls of one bench, each of which can be cancelled alone."""

    def __init__(self, bench: Bench) -> None:
        self._bench, self._pool = bench, ThreadPoolExecutor(8)

    def call(self, path: str, **arguments: Any) -> tuple[Future[Any], Waiting]:
        waiting = Waiting()
        return self._pool.submit(self._bench.runner.call, path, arguments, waiting), waiting


def refused(future: Future[Any]) -> tuple[str, str]:
    with pytest.raises(HostCallRefused) as raised:
        future.result(5)
    return raised.value.name, str(raised.value)


@pytest.mark.parametrize("coroutine", [False, True])
def test_one_call_is_cancelled_at_once_and_alone(coroutine: bool) -> None:
    begun = {name: threading.Event() for name in "ab"}
    seen = threading.Event()
    go_on = threading.Event()

    def wait(name: str) -> str:
        begun[name].set()
        if name == "a" and current_call().cancelled.wait(20):
            seen.set()
        go_on.wait(20)
        return name

    async def wait_async(name: str) -> str:
        begun[name].set()
        try:
            await asyncio.to_thread(go_on.wait, 20) if name == "b" else await asyncio.sleep(20)
        except asyncio.CancelledError:
            seen.set()
            raise
        return name

    bench = Bench(tool(name="wait")(wait_async if coroutine else wait))
    calls = Alone(bench)
    first, waiting = calls.call("wait", name="a")
    second, _ = calls.call("wait", name="b")
    assert all(event.wait(5) for event in begun.values())
    waiting.cancel()
    assert refused(first) == CANCELLED
    assert seen.wait(5)
    assert not second.done()
    go_on.set()
    assert second.result(5) == "b"
    ended = {event.call: event.error for event in bench.of(events.ToolReturned)}
    assert sorted(error["class"] for error in ended.values() if error) == ["CallCancelled"]
    assert bench.call("wait", name="b") == "b"


def test_a_call_that_was_cancelled_before_it_began_is_not_made() -> None:
    made: list[int] = []
    bench = Bench(tool(name="pay")(lambda n: made.append(n)))
    waiting = Waiting()
    waiting.cancel()
    with pytest.raises(HostCallRefused) as raised:
        bench.runner.call("pay", {"n": 1}, waiting)
    assert (raised.value.name, made) == ("CallCancelled", [])


def test_an_item_that_is_being_made_is_cancelled_with_its_call() -> None:
    begun, cancelled = threading.Event(), threading.Event()

    def items() -> Iterator[int]:
        yield 1
        begun.set()
        if current_call().cancelled.wait(20):
            cancelled.set()

    waiting = Waiting()
    bench = Bench(items)
    stream = bench.runner.call("items", {}, waiting)
    assert next(stream) == 1
    with ThreadPoolExecutor() as pool:
        following = pool.submit(next, stream)
        assert begun.wait(5)
        waiting.cancel()
        assert refused(following) == CANCELLED
    assert cancelled.wait(5)
    assert [event.error["class"] for event in bench.of(events.ToolReturned)] == ["CallCancelled"]


def test_who_asks_to_be_told_is_told_once_whenever_it_asked() -> None:
    told: list[str] = []
    call = HostCall(1, 1, "tool")
    call.when_cancelled(lambda: told.append("before"))
    call.cancel()
    call.cancel()
    call.when_cancelled(lambda: told.append("after"))
    assert told == ["before", "after"]


def no(request: CallRequest) -> bool:
    return False


def forbid(request: CallRequest, context: object) -> str | None:
    return "not now" if request.arguments["n"] < 0 else None


@pytest.mark.parametrize("how", [{"approval": Approval("always", no)}, {"permit": forbid}])
def test_what_is_refused_is_not_taken_from_the_budget(how: dict[str, Any]) -> None:
    made: list[int] = []

    @tool(calls=1)
    def pay(n: int) -> None:
        made.append(n)

    bench = Bench(pay, **how)
    assert {bench.fails("pay", n=-1)[0] for _ in range(3)} == {"CallRefused"}
    assert bench.fails("pay", n="x")[0] == "ArgumentError"
    assert made == []
    allowed: Callable[[CallRequest], bool] = lambda request: True  # noqa: E731
    bench = Bench(pay, approval=Approval("always", allowed))
    bench.call("pay", n=1)
    assert bench.fails("pay", n=2) == ("CallRefused", "pay may be called 1 times in one run, and has been")
    assert made == [1]


def test_a_question_that_is_withdrawn_is_not_taken_from_the_budget() -> None:
    asked, answers = threading.Semaphore(0), iter([False, True])

    def ask(request: CallRequest) -> bool:
        asked.release()
        return next(answers) or not request.cancelled.wait(20)

    @tool(calls=1)
    def pay(n: int) -> int:
        return n

    bench = Bench(pay, approval=Approval("writes", ask))
    first, waiting = Alone(bench).call("pay", n=1)
    assert asked.acquire(timeout=5)
    waiting.cancel()
    assert refused(first) == CANCELLED
    assert bench.call("pay", n=2) == 2
    assert [event.allowed for event in bench.of(events.ApprovalGiven)] == [False, True]


def test_what_is_refused_takes_no_turn_of_a_rate_and_nobody_is_asked_in_vain() -> None:
    answers = iter([False, True])
    asked: list[int] = []

    def ask(request: CallRequest) -> bool:
        asked.append(request.arguments["n"])
        return next(answers)

    @tool(per_minute=1)
    def pay(n: int) -> int:
        return n

    bench = Bench(pay, approval=Approval("writes", ask), guards=Guards([from_function(pay)], lambda: 0.0))
    assert bench.fails("pay", n=1)[0] == "CallRefused"
    assert bench.call("pay", n=2) == 2
    assert "the next call is possible in 60 seconds" in bench.fails("pay", n=3)[1]
    assert asked == [1, 2]


def test_the_time_until_its_turn_is_told() -> None:
    @tool(effects="read", per_minute=600)
    def look() -> None:
        pass

    guards = Guards([from_function(look)])
    guards.rates["look"]._burst = 1.0
    bench = Bench(look, guards=guards)
    bench.call("look")
    bench.call("look")
    first, second = bench.of(events.ToolReturned)
    assert first.waited < 0.05
    assert 0.02 < second.waited < 5
    assert second.seconds < second.waited


def test_to_look_at_a_rate_takes_no_turn() -> None:
    rate = Rate(2, lambda: 0.0)
    for _ in range(9):
        rate.check("t")
    assert [rate.turn("t"), rate.turn("t"), rate.turn("t")] == [0, 0, 30]
