"""Calls of tools on the host: checked, allowed, executed, recorded."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest

from codeact import events
from codeact.errors import ArgumentError, CallRefused, ToolError
from codeact.tools import crossing, execution, policy, runner
from codeact.tools.approval import Approval, CallRequest, Decision
from codeact.tools.context import RunContext, ToolContext, current_call
from codeact.tools.definitions import from_definition
from codeact.tools.functions import from_function, tool
from codeact.tools.policy import Guards
from codeact.tools.runner import ToolRunner
from codeact.tools.tool import Tool
from sandbox.errors import HostCallRefused


class Bench:
    """A runner with its record."""

    def __init__(self, *functions: Callable[..., Any], **settings: Any) -> None:
        self.events: list[Any] = []
        self.tools = [from_function(function) for function in functions]
        guards = settings.pop("guards", None) or Guards(self.tools)
        how = {name: settings.pop(name) for name in ("approval", "permit") if name in settings}
        how.setdefault("approval", Approval("never"))
        setup = runner.Setup(tuple(self.tools), guards=guards, **how)
        self.runner = ToolRunner(setup, run="r", emit=self.events.append, **settings)
        self.runner.begin(1)

    def call(self, path: str, **arguments: Any) -> Any:
        return self.runner.call(path, arguments)

    def fails(self, path: str, **arguments: Any) -> tuple[str, str]:
        with pytest.raises(HostCallRefused) as raised:
            self.call(path, **arguments)
        return raised.value.name, str(raised.value)

    def of(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


@tool(effects="read")
def double(n: int) -> int:
    return 2 * n


def test_a_call_is_recorded_before_it_is_made_and_after() -> None:
    seen: list[list[str]] = []

    def look(n: int) -> int:
        seen.append([event.type for event in bench.events])
        return n

    bench = Bench(look)
    assert bench.call("look", n=3) == 3
    assert seen == [["tool_called"]]
    called, returned = bench.events
    assert (called.call, called.cell, called.tool, called.arguments) == ("c1", 1, "look", {"n": 3})
    assert (returned.call, returned.ok, returned.value, returned.attempts) == ("c1", True, 3, 1)


def test_a_digest_is_of_the_arguments_and_stable() -> None:
    bench = Bench(double)
    for arguments in ({"n": 1}, {"n": 2}, {"n": 1}):
        bench.call("double", **arguments)
    first, second, third = (event.digest for event in bench.of(events.ToolCalled))
    assert first == third != second
    assert (
        first == "348aaa626a9d6410002e8836c19740ea6cccaba512f8cfbd4a4a85236894ad66"
    )  # of '["double",{"n":1}]' by sha256sum


@pytest.mark.parametrize(
    ("path", "arguments", "kind", "message"),
    [
        ("duble", {}, "UnknownTool", "there is no tool 'duble'; did you mean double?"),
        ("\x1b[31mx" * 99, {}, "UnknownTool", "see tools.list()"),
        ("double", {}, "ArgumentError", "n is missing"),
        ("double", {"n": "two"}, "ArgumentError", "got 'two' (str)"),
        ("double", {"n": 1, "m": 2}, "ArgumentError", "there is no argument 'm'"),
    ],
)
def test_what_is_wrong_with_a_call_is_said(
    path: str, arguments: Mapping[str, Any], kind: str, message: str
) -> None:
    name, said = Bench(double).fails(path, **arguments)
    assert name == kind
    assert message in said
    assert len(said) < 400
    assert said.isprintable()


def raising(error: BaseException) -> Callable[[], None]:
    def fail() -> None:
        raise error

    return fail


class Odd(Exception):
    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (LookupError("no order 7"), "LookupError", "no order 7"),
        (KeyError("A-7"), "KeyError", "A-7"),
        (SystemExit(3), "SystemExit", "3"),
        (KeyboardInterrupt(), "KeyboardInterrupt", "KeyboardInterrupt without a message"),
        (Odd(), "Odd", "Odd without a message"),
        (TimeoutError("its own"), "TimeoutError", "its own"),
        (OSError(f"cannot open {sys.prefix}/lib/secret.db"), "OSError", "cannot open .../secret.db"),
        (ValueError("GET https://a.example/usr/orders/7: 404"), "ValueError", "GET https://a.example/usr/orders/7: 404"),
        (ValueError("no /workspace/data/a.csv, no /orders/7"), "ValueError", "no /workspace/data/a.csv, no /orders/7"),
        (ValueError("\x1b[31mred\x1b[0m"), "ValueError", "red"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("coroutine", [False, True])
def test_a_tools_own_exception_arrives_by_name_without_the_host(
    error: BaseException, kind: str, message: str, coroutine: bool
) -> None:
    async def fail_later() -> None:
        raise error

    function = fail_later if coroutine else raising(error)
    bench = Bench(function, double)
    assert bench.fails(function.__name__) == (kind, message)
    assert bench.call("double", n=2) == 4
    assert bench.of(events.ToolReturned)[0].error == {"class": kind, "message": message}


def test_coroutines_share_one_loop_and_know_their_call() -> None:
    loops = []

    async def where() -> tuple[str, str, int]:
        loops.append(asyncio.get_running_loop())
        await asyncio.sleep(0)
        call = current_call()
        return call.call, call.key, call.attempt

    bench = Bench(where, context=RunContext(user="ann"))
    assert [bench.call("where"), bench.call("where")] == [("c1", "r-c1", 1), ("c2", "r-c2", 1)]
    assert loops[0] is loops[1]


def test_a_tool_sees_who_the_run_is_for() -> None:
    def who() -> str:
        return current_call().context.user

    assert Bench(who, context=RunContext(user="ann", roles=frozenset({"clerk"}))).call("who") == "ann"


def test_items_stream_and_are_recorded() -> None:
    async def later(n: int) -> AsyncIterator[int]:
        for i in range(n):
            yield i

    def now(n: int) -> Iterator[int]:
        yield from range(n)
        if n > 3:
            raise LookupError("no more")

    bench = Bench(later, now)
    assert list(bench.call("later", n=3)) == [0, 1, 2]
    assert list(bench.call("now", n=3)) == [0, 1, 2]
    stream = bench.call("now", n=9)
    assert next(stream) == 0
    stream.close()
    with pytest.raises(HostCallRefused, match="no more") as raised:
        list(bench.call("now", n=4))
    assert raised.value.name == "LookupError"
    assert [(event.ok, event.value) for event in bench.of(events.ToolReturned)] == [
        (True, [0, 1, 2]),
        (True, [0, 1, 2]),
        (True, [0]),
        (False, None),
    ]


@pytest.mark.parametrize("read", [3, 5, 9])
def test_a_stream_that_the_record_did_not_keep_whole_says_so_when_it_is_replayed(
    read: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "MAX_STREAMED", 3)

    def count() -> Iterator[int]:
        yield from range(6)

    first = Bench(count)
    stream = first.call("count")
    made = [item for _, item in zip(range(read), stream, strict=False)]
    stream.close()
    assert made == list(range(min(read, 6)))
    again = Bench(count, recorded=Recorded(*first.of(events.ToolReturned)))
    replayed = map(crossing.answer_of, again.call("count"))
    assert [next(replayed).value for _ in range(3)] == [0, 1, 2]
    if read == 3:
        assert list(replayed) == []
    else:
        with pytest.raises(ToolError, match=f"its result \\({min(read, 6) - 3} more items\\) was too large"):
            next(replayed)


def test_a_stream_ends_with_its_cell() -> None:
    closed = threading.Event()

    def endless() -> Iterator[int]:
        try:
            while True:
                yield 1
        finally:
            closed.set()

    bench = Bench(endless)
    begun, untouched = bench.call("endless"), bench.call("endless")
    assert next(begun) == 1
    bench.runner.end()
    assert closed.wait(5)
    assert list(begun) == list(untouched) == []
    assert [(event.call, event.ok) for event in bench.of(events.ToolReturned)] == [
        ("c1", True),
        ("c2", False),
    ]


def test_an_interrupt_never_hits_the_next_cell() -> None:
    held = threading.Event()
    bench = Bench(double)
    execution.loop().call_soon_threadsafe(held.wait, 5)  # the interrupt comes late
    bench.runner.interrupt()
    bench.runner.end()
    bench.runner.begin(2)
    held.set()
    done = threading.Event()
    execution.loop().call_soon_threadsafe(done.set)
    assert done.wait(5)
    assert bench.call("double", n=2) == 4


def test_a_record_that_fails_fails_the_call_without_a_path() -> None:
    made: list[int] = []

    def pay(n: int) -> None:
        made.append(n)

    def full(event: events.Event) -> None:
        raise OSError("/home/ann/runs: no space left")

    calls = ToolRunner(runner.Setup((from_function(pay),), Approval("never")), run="r", emit=full)
    calls.begin(1)
    with pytest.raises(HostCallRefused) as raised:
        calls.call("pay", {"n": 1})
    assert (raised.value.name, str(raised.value)) == (
        "ToolError",
        "the call could not be made or recorded (OSError)",
    )
    assert made == []


@pytest.mark.parametrize("which", ["permit", "approval"])
def test_a_check_or_an_approval_that_fails_refuses(which: str) -> None:
    def fail(*_: Any) -> bool:
        raise LookupError("/home/ann: no such user")

    how = {"permit": fail} if which == "permit" else {"approval": Approval("always", fail)}
    kind, message = Bench(double, **how).fails("double", n=1)
    assert kind == "CallRefused"
    assert message.endswith("failed (LookupError)")
    assert "ann" not in message


# -- time, cancellation, retries ---------------------------------------------------------------------------------


@pytest.mark.parametrize("coroutine", [False, True])
def test_a_timeout_is_told_at_once_whatever_the_function_does(coroutine: bool) -> None:
    go_on = threading.Event()
    cancelled = threading.Event()

    @tool(timeout=0.05)
    def stubborn() -> None:
        go_on.wait(20)

    @tool(name="stubborn", timeout=0.05)
    async def patient() -> None:
        try:
            await asyncio.sleep(20)
        finally:
            cancelled.set()

    bench = Bench(patient if coroutine else stubborn)
    assert bench.fails("stubborn") == (
        "ToolTimeout",
        "stubborn took longer than 0.05 seconds and was given up",
    )
    assert cancelled.wait(5) or not coroutine
    go_on.set()


def test_no_work_is_taken_that_nobody_would_do() -> None:
    workers = execution.Workers()
    done = threading.Event()
    workers.submit(done.set)
    workers.close()
    assert done.wait(5)
    with pytest.raises(CallRefused, match="the run has ended"):
        workers.submit(done.clear)


def test_functions_that_go_on_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("codeact.tools.execution.MAX_ABANDONED", 2)
    go_on = threading.Event()

    @tool(timeout=0.01)
    def stubborn() -> None:
        go_on.wait(20)

    bench = Bench(stubborn)
    assert [bench.fails("stubborn")[0] for _ in range(3)] == ["ToolTimeout", "ToolTimeout", "CallRefused"]
    go_on.set()
    while bench.runner._workers.abandoned:
        threading.Event().wait(0.01)
    assert bench.call("stubborn") is None


def test_a_run_that_ends_soon_bounds_its_calls() -> None:
    go_on = threading.Event()

    def wait() -> None:
        go_on.wait(20)

    assert Bench(wait, left=lambda: 0.05).fails("wait")[0] == "ToolTimeout"
    go_on.set()


@pytest.mark.parametrize("interrupt", [False, True])
def test_the_end_of_a_cell_cancels_its_calls(interrupt: bool) -> None:
    begun = threading.Event()
    contexts: list[ToolContext] = []

    def wait() -> None:
        contexts.append(current_call())
        begun.set()
        contexts[0].cancelled.wait(20)

    bench = Bench(wait)
    with ThreadPoolExecutor() as pool:
        failed = pool.submit(bench.fails, "wait")
        assert begun.wait(5)
        (bench.runner.interrupt if interrupt else bench.runner.end)()
        assert failed.result(5) == ("CallCancelled", "the call was cancelled: its cell has ended")
    assert contexts[0].cancelled.is_set()
    assert bench.fails("wait") == ("CallCancelled", "no cell is running")
    assert [event.error["class"] for event in bench.of(events.ToolReturned)] == ["CallCancelled"]


def test_thirty_two_at_once_and_a_slow_one_delays_none() -> None:
    together = threading.Barrier(32)
    go_on = threading.Event()

    def meet() -> int:
        return together.wait(10)

    def slow() -> None:
        go_on.wait(20)

    bench = Bench(meet, slow)
    with ThreadPoolExecutor(33) as pool:
        last = pool.submit(bench.call, "slow")
        assert sorted(pool.map(lambda _: bench.call("meet"), range(32))) == list(range(32))
        assert not last.done()
        go_on.set()
    ids = [event.call for event in bench.of(events.ToolCalled)]
    assert len(set(ids)) == 33


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy, "RETRY_SECONDS", 0.0)


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize(
    ("idempotent", "error", "attempts"),
    [(True, ConnectionError("gone"), 3), (False, ConnectionError("gone"), 1), (True, LookupError("no 7"), 1)],
)
def test_only_what_is_idempotent_is_tried_again_with_one_key(
    idempotent: bool, error: Exception, attempts: int
) -> None:
    keys: list[tuple[str, int]] = []

    @tool(idempotent=idempotent)
    def fetch() -> None:
        keys.append((current_call().key, current_call().attempt))
        raise error

    bench = Bench(fetch)
    assert bench.fails("fetch")[0] == type(error).__name__
    assert keys == [("r-c1", n + 1) for n in range(attempts)]
    assert bench.of(events.ToolReturned)[0].attempts == attempts


# -- policy ------------------------------------------------------------------------------------------------------


def test_a_budget_is_of_one_run() -> None:
    @tool(calls=2)
    def once() -> int:
        return 1

    bench = Bench(once)
    assert [bench.call("once"), bench.call("once")] == [1, 1]
    assert bench.fails("once") == ("CallRefused", "once may be called 2 times in one run, and has been")


def test_a_breaker_opens_tries_once_and_closes() -> None:
    now = [0.0]
    works = [False]

    def service(n: int = 0) -> int:
        if n < 0:
            raise ValueError("n is negative")
        if not works[0]:
            raise ConnectionError("gone")
        return n

    made = from_function(service)
    bench = Bench(service, guards=Guards([made], lambda: now[0]))
    for _ in range(4):
        assert bench.fails("service")[0] == "ConnectionError"
    assert bench.fails("service", n=-1)[0] == "ValueError"  # it answered
    for _ in range(5):
        assert bench.fails("service")[0] == "ConnectionError"
    kind, message = bench.fails("service")
    assert (kind, message) == (
        "CallRefused",
        "service failed 5 times in a row, the last time with ConnectionError; it is called again in 30 seconds",
    )
    now[0] = 31.0
    assert bench.fails("service")[0] == "ConnectionError"  # on trial
    assert bench.fails("service")[0] == "CallRefused"
    now[0], works[0] = 62.0, True
    assert [bench.call("service", n=n) for n in (1, 2)] == [1, 2]


def test_a_rate_lets_calls_through_evenly() -> None:
    now = [0.0]
    rate = policy.Rate(2, lambda: now[0])
    assert [rate.turn("t"), rate.turn("t"), rate.turn("t")] == [0, 0, 30]
    with pytest.raises(
        CallRefused, match="t may be called 2 times a minute; the next call is possible in 60"
    ):
        rate.turn("t")
    now[0] = 30.0
    assert rate.turn("t") == 30


class Busy(Exception):
    def __init__(self, transient: object, retry_after: object) -> None:
        super().__init__("busy")
        self.transient, self.retry_after = transient, retry_after


@pytest.mark.parametrize(
    ("error", "declared", "tries", "wait"),
    [
        (Busy(True, 0), True, 3, 0.5),  # what it says itself counts, also where it is declared
        (Busy(False, 0), False, 1, None),
        (Busy(None, "soon"), False, 3, 0.5),
        (Busy("yes", 0), True, 1, None),
        (Busy(True, 7), False, 3, 7.0),
        (Busy(True, policy.RATE_PATIENCE + 1), False, 1, None),
    ],
)
def test_an_error_says_itself_whether_and_when_it_may_go_well(
    monkeypatch: pytest.MonkeyPatch, error: Busy, declared: bool, tries: int, wait: float | None
) -> None:
    waits: list[float] = []
    monkeypatch.setattr(runner, "pause", lambda call, seconds: waits.append(seconds))
    made: list[int] = []

    @tool(idempotent=True, retries=2, raises=[Busy] if declared else [])
    def ask() -> None:
        made.append(1)
        raise error

    assert Bench(ask).fails("ask") == ("Busy", "busy")
    assert (len(made), waits[:1]) == (tries, [] if wait is None else [wait])


def test_permission_sees_the_call_and_who_it_is_for() -> None:
    seen: list[tuple[str, Mapping[str, Any], str]] = []

    def permit(request: CallRequest, context: RunContext) -> str | None:
        seen.append((request.source, request.arguments, context.tenant))
        return None if "clerk" in context.roles else "only clerks may"

    bench = Bench(double, permit=permit, context=RunContext(tenant="t1"))
    assert bench.fails("double", n=1) == ("CallRefused", "double is not permitted: only clerks may")
    assert seen == [("double(n=1)", {"n": 1}, "t1")]
    allowed = Bench(double, permit=permit, context=RunContext(roles=frozenset({"clerk"})))
    assert allowed.call("double", n=1) == 2


@tool(name="close")
def close_account(number: int, reasons: Iterable[str] = ()) -> str:
    return f"{number} {list(reasons)}"


@pytest.mark.parametrize("number", [7, "7", 7.0, "+7", " 7 "])
@pytest.mark.parametrize("how", ["permit", "approve"])
def test_what_is_judged_is_what_will_be_done(number: Any, how: str) -> None:
    def judge(request: CallRequest, context: RunContext | None = None) -> str | None:
        kept = request.arguments["number"] == 7 or "error" in request.arguments.get("reasons", ())
        return "it is to be kept" if kept else None

    ask: Approval = Approval("writes", lambda request: judge(request) or True)
    bench = Bench(close_account, **({"permit": judge} if how == "permit" else {"approval": ask}))
    refused = "close is not permitted" if how == "permit" else "close was refused"
    assert bench.fails("close", number=number) == ("CallRefused", f"{refused}: it is to be kept")
    assert bench.fails("close", number=8, reasons=("error",))[1] == f"{refused}: it is to be kept"
    assert bench.call("close", number=8, reasons=("left",)) == "8 ['left']"


def test_a_name_of_the_source_is_judged_shown_and_hidden_as_that_of_code() -> None:
    asked: list[CallRequest] = []
    properties = {"from": {"type": "string"}, "pass": {"type": "string"}}
    pay = from_definition(
        {"name": "pay", "parameters": {"properties": properties}}, lambda **values: values, secret=["pass"]
    )

    def permit(request: CallRequest, context: RunContext) -> str | None:
        return "not from there" if request.arguments.get("from_") == "main" else None

    def ask(request: CallRequest) -> Decision:
        asked.append(request)
        return Decision(True, arguments={"from": "petty"})

    made: list[Any] = []
    setup = runner.Setup((pay,), approval=Approval("writes", ask), permit=permit)
    calls = ToolRunner(setup, run="r", emit=made.append)
    calls.begin(1)
    for name in ("from", "from_"):
        with pytest.raises(HostCallRefused, match="pay is not permitted: not from there"):
            calls.call("pay", {name: "main"})
        sent = calls.call("pay", {name: "side", "pass": "hunter2"})
        assert sent == {"from": "petty", "pass": "hunter2"}
    assert [each.arguments for each in asked] == [{"from_": "side", "pass_": "hunter2"}] * 2
    assert [each.source for each in asked] == ["pay(from_='side', pass_=(secret))"] * 2
    assert "hunter2" not in repr(made)


def test_changed_arguments_are_judged_as_they_will_be_done() -> None:
    answers = iter([Decision(True, arguments={"number": "7"}), Decision(True, arguments={"number": "9"})])
    bench = Bench(
        close_account,
        approval=Approval("writes", lambda request: next(answers)),
        permit=lambda request, context: "no" if request.arguments["number"] == 7 else None,
    )
    assert bench.call("close", number=8) == "9 []"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("", "no reason was given"),
        ("  ", "no reason was given"),
        (False, "the permission check returned bool; it allows with None, and refuses with a text"),
        (True, "the permission check returned bool"),
        (0, "the permission check returned int"),
        (b"no", "the permission check returned bytes"),
    ],
)
def test_only_none_permits(answer: Any, said: str) -> None:
    kind, message = Bench(double, permit=lambda request, context: answer).fails("double", n=1)
    assert (kind, message.startswith(f"double is not permitted: {said}")) == ("CallRefused", True)


def test_what_is_turned_off_is_no_tool() -> None:
    paths = ["a", "shop.a", "shop.b", "shop.old.a", "shopping.a"]
    tools = [
        Tool(name, call=lambda: None, check=lambda given: given, namespace=space)
        for space, _, name in (path.rpartition(".") for path in paths)
    ]

    def left(*off: str) -> list[str]:
        return [each.path for each in policy.without(tools, off)]

    assert left("shop") == ["a", "shopping.a"]
    assert left("shop.a", "a") == ["shop.b", "shop.old.a", "shopping.a"]


# -- approval ----------------------------------------------------------------------------------------------------


def refund(order: str, amount: int = 1) -> str:
    return f"{order}:{amount}"


refund_tool = tool(effects="dangerous")(refund)


@pytest.mark.parametrize(
    ("mode", "asked"), [("never", []), ("writes", ["refund"]), ("always", ["double", "refund"])]
)
def test_what_is_asked_about(mode: Any, asked: list[str]) -> None:
    names: list[str] = []

    def ask(request: CallRequest) -> bool:
        names.append(request.tool.path)
        return True

    bench = Bench(double, refund_tool, approval=Approval(mode, ask))
    bench.call("double", n=1)
    bench.call("refund", order="A")
    assert names == asked
    assert [event.by for event in bench.of(events.ApprovalGiven)] == ["callback"] * len(asked)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"mode": "alway"}, "approve='alway' is not known; write never, writes, always, or give a function"),
        ({"mode": True}, "approve=True is not known"),
        ({"ask": "me"}, "ask of an Approval is a str; give a function, or None"),
    ],
)
def test_an_approval_of_no_known_kind(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ToolError, match=said):
        Approval(**given)


untyped: Callable[..., Decision] = Decision  # what a caller without a type checker makes


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (True, "A:1"),
        (Decision(True, arguments={"amount": 5}), "A:5"),
        (False, "refund was refused; no reason was given"),
        ("too much", "refund was refused: too much"),
        (Decision(False, "not today"), "refund was refused: not today"),
        (None, "refund was refused: the approval function returned NoneType, which allows nothing"),
        (1, "refund was refused: the approval function returned int, which allows nothing"),
        *(
            (
                made,
                f"refund was refused: the approval function returned a Decision with {kinds}, which allows nothing",
            )
            for made, kinds in [
                (
                    untyped("no"),
                    "allowed of type str, always of type bool, reason of type str, arguments of type dict",
                ),
                (
                    untyped(True, always="no"),
                    "allowed of type bool, always of type str, reason of type str, arguments of type dict",
                ),
                (
                    untyped(True, arguments=[]),
                    "allowed of type bool, always of type bool, reason of type str, arguments of type list",
                ),
            ]
        ),
    ],
)
@pytest.mark.parametrize("coroutine", [False, True])
def test_what_may_be_answered(answer: Any, expected: str, coroutine: bool) -> None:
    async def later(request: CallRequest) -> Any:
        await asyncio.sleep(0)
        return answer

    bench = Bench(refund_tool, approval=Approval("writes", later if coroutine else lambda request: answer))
    if expected.startswith("A:"):
        assert bench.call("refund", order="A") == expected
    else:
        assert bench.fails("refund", order="A") == ("CallRefused", expected)
    assert [event.allowed for event in bench.of(events.ApprovalGiven)] == [expected.startswith("A:")]


def test_changed_arguments_are_checked_again() -> None:
    answers = iter([Decision(True, arguments={"amount": "much"}), Decision(True, arguments={"amount": 3})])
    problems: list[str] = []

    def ask(request: CallRequest) -> Decision:
        problems.append(request.problem)
        return next(answers)

    bench = Bench(refund_tool, approval=Approval("writes", ask))
    assert bench.call("refund", order="A", amount=9) == "A:3"
    assert problems[0] == ""
    assert "amount: Input should be a valid integer" in problems[1]
    assert bench.of(events.ApprovalGiven)[0].arguments == {"amount": 3}
    assert bench.of(events.ToolCalled)[0].arguments == {"order": "A", "amount": 9}


def test_changed_arguments_need_permission_too_and_stay_secret() -> None:
    answers = iter(
        [
            Decision(True, arguments={"amount": 900}),
            Decision(True, arguments={"amount": 5, "pin": "4711-new"}),
        ]
    )
    problems: list[str] = []

    @tool(secret=["pin"])
    def pay(amount: int, pin: str) -> str:
        return f"{amount} {pin}"

    def ask(request: CallRequest) -> Decision:
        problems.append(request.problem)
        return next(answers)

    def permit(request: CallRequest, context: RunContext) -> str | None:
        return None if request.arguments["amount"] < 100 else "too much"

    bench = Bench(pay, approval=Approval("writes", ask), permit=permit)
    assert bench.call("pay", amount=9, pin="4711-old") == "5 4711-new"
    assert problems == ["", "pay is not permitted: too much"]
    assert "4711" not in repr(bench.events)


def test_people_are_waited_for_once_however_many_calls_wait() -> None:
    together = threading.Barrier(8)

    def ask(request: CallRequest) -> bool:
        together.wait(5)
        threading.Event().wait(0.3)
        return True

    bench = Bench(refund_tool, approval=Approval("writes", ask))
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: bench.call("refund", order=str(n)), range(8)))
    each = [event.waited for event in bench.of(events.ToolReturned)]
    assert min(each) >= 0.3
    assert 0.3 <= bench.runner.waited < sum(each)


def test_always_is_for_one_tool_and_for_those_who_wait() -> None:
    asked: list[str] = []
    first = threading.Event()

    def ask(request: CallRequest) -> Decision:
        asked.append(request.call)
        first.wait(5)
        return Decision(True, always=True)

    bench = Bench(refund_tool, double, approval=Approval("always", ask, one_at_a_time=True))
    with ThreadPoolExecutor() as pool:
        calls = [pool.submit(bench.call, "refund", order=str(n)) for n in range(5)]
        first.set()
        assert [call.result(5) for call in calls] == [f"{n}:1" for n in range(5)]
    assert len(asked) == 1
    bench.call("double", n=1)
    assert len(asked) == 2


def test_where_nobody_can_be_asked_a_call_is_refused_with_the_flag() -> None:
    bench = Bench(refund_tool, double, approval=Approval())
    kind, message = bench.fails("refund", order="A")
    assert kind == "CallRefused"
    assert "--approve never" in message
    assert bench.call("double", n=1) == 2


def test_a_request_ends_with_its_cell() -> None:
    asked = threading.Event()

    def ask(request: CallRequest) -> bool:
        asked.set()
        request.cancelled.wait(20)
        return True

    made: list[str] = []

    def refund(order: str) -> None:
        made.append(order)

    bench = Bench(refund, approval=Approval("writes", ask))
    with ThreadPoolExecutor() as pool:
        failed = pool.submit(bench.fails, "refund", order="A")
        assert asked.wait(5)
        bench.runner.end()
        assert failed.result(5)[0] == "CallCancelled"
    assert made == []
    assert [event.allowed for event in bench.of(events.ApprovalGiven)] == [False]


# -- secrets and the record --------------------------------------------------------------------------------------


def test_secrets_are_in_no_record_and_no_request() -> None:
    secret = "hunter2-and-more"
    sources: list[str] = []

    @tool(secret=["password"])
    def login(user: str, password: str) -> dict[str, str]:
        if user == "bad":
            raise PermissionError(f"{password} is wrong")
        return {"token": f"for {password}", password: "x"}

    def ask(request: CallRequest) -> bool:
        sources.append(request.source)
        return True

    bench = Bench(login, approval=Approval("writes", ask))
    assert bench.call("login", user="ann", password=secret)["token"] == f"for {secret}"
    bench.fails("login", user="bad", password=secret)
    bench.fails("login", user="ann", pasword=secret)
    bench.fails("login", user="ann", password=[secret])
    assert secret not in repr(bench.events)
    assert sources[0] == "login(user='ann', password=(secret))"
    assert bench.of(events.ToolReturned)[0].value == {"token": "for (secret)", "(secret)": "x"}


def test_large_arguments_are_recorded_by_their_beginning() -> None:
    def take(value: str) -> int:
        return len(value)

    bench = Bench(take)
    assert bench.call("take", value="x" * 10**6) == 10**6
    assert len(json.dumps(bench.events[0].arguments)) < 1000
    assert "1,000,002 characters" in bench.events[0].arguments["value"]


@dataclass(frozen=True)
class Unknown:
    call: str
    key: str


class Recorded:
    def __init__(self, *known: Any) -> None:
        self.known = list(known)

    def take(self, path: str, digest: str) -> Any:
        return self.known.pop(0) if self.known else None


def test_a_recorded_call_is_not_made_again() -> None:
    made: list[int] = []

    def pay(n: int) -> int:
        made.append(n)
        return n

    known = events.ToolReturned(call="c1", tool="pay", ok=True, value=7, seconds=3.0)
    failed = events.ToolReturned(
        call="c2", tool="pay", ok=False, error={"class": "LookupError", "message": "no 7"}
    )
    bench = Bench(pay, recorded=Recorded(known, failed, Unknown("c3", "old-key")))
    assert bench.call("pay", n=1) == 7
    assert bench.fails("pay", n=1) == ("LookupError", "no 7")
    kind, message = bench.fails("pay", n=1)
    assert kind == "CallRefused"
    assert "whether it was carried out is not known" in message
    assert made == []
    assert [event.replayed for event in bench.of(events.ToolReturned)] == [True, True, False]
    assert bench.call("pay", n=5) == 5


def test_an_unknown_call_of_an_idempotent_tool_is_made_with_its_old_key() -> None:
    @tool(idempotent=True)
    def put() -> str:
        return current_call().key

    assert Bench(put, recorded=Recorded(Unknown("c3", "old-key"))).call("put") == "old-key"


def test_a_check_that_fails_oddly_fails_the_call_alone() -> None:
    def check(given: Mapping[str, Any]) -> Mapping[str, Any]:
        raise ArgumentError("never right")

    made = Tool("odd", call=lambda: None, check=check)
    recorded: list[events.Event] = []
    calls = ToolRunner(runner.Setup((made,)), run="r", emit=recorded.append)
    calls.begin(1)
    with pytest.raises(HostCallRefused, match="never right"):
        calls.call("odd", {})
    assert [event.type for event in recorded] == ["tool_called", "tool_returned"]
