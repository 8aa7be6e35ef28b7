"""A session that several use at once: whose turn it is, who has gone, and what is closed while it starts."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from codeact import Agent, Reply, ScriptedModel, tool
from codeact.errors import Interrupted, UsageError
from codeact.session import Session
from codeact.turns import Turn, Turns
from tests.unit.test_functions import calls


def test_whoever_gives_up_waiting_ends_nothing_of_others(tmp_path: Path) -> None:
    began, go_on = threading.Event(), threading.Event()

    @tool(effects="read")
    def slow() -> str:
        """Takes a while."""
        began.set()
        return str(go_on.wait(20))

    def answer(value: str) -> Reply:
        return calls(("final_answer", {"value": value}))

    async def use() -> tuple[Any, Any]:
        model = ScriptedModel([calls(("slow", {})), answer("A"), answer("C")])
        agent = Agent(model, actions="functions", tools=[slow], run_python=False, runs=tmp_path)
        async with agent.session() as session:
            first = asyncio.create_task(session.arun("A"))
            await asyncio.to_thread(began.wait, 20)
            second = asyncio.create_task(session.arun("B"))
            await asyncio.sleep(0)  # it stands in line now
            second.cancel()
            with pytest.raises(asyncio.CancelledError):
                await second
            go_on.set()
            return await first, await session.arun("C")

    first, third = asyncio.run(use())
    assert (first.status, first.answer) == ("answered", "A")
    assert (third.status, third.answer) == ("answered", "C")


def test_a_turn_whose_caller_has_gone_does_not_begin() -> None:
    turns, gone, begun = Turns(), Turn(), []
    interrupted: list[str] = []

    def wait() -> None:
        with pytest.raises(Interrupted), turns.taken(gone, lambda: begun.append("gone")):
            begun.append("never")

    mine = Turn()
    with turns.taken(mine, lambda: begun.append("mine")):
        waiting = threading.Thread(target=wait)
        waiting.start()
        turns.leave(gone, lambda: interrupted.append("another's"))
        waiting.join(20)
        assert not waiting.is_alive()
        turns.leave(mine, lambda: interrupted.append("its own"))
        with pytest.raises(UsageError, match="under way"), turns.taken(Turn(), lambda: None):
            pass
    turns.leave(mine, lambda: interrupted.append("one that is over"))
    with turns.taken(Turn(), lambda: begun.append("next")):
        pass
    assert (begun, interrupted) == (["mine", "next"], ["its own"])


class Held:
    """A run whose variables are put once `go_on` is set."""

    def __init__(self) -> None:
        self.began, self.go_on = threading.Event(), threading.Event()
        self.values: list[object] = []

    @property
    def between(self) -> Held:
        return self

    def opened(self) -> nullcontext[None]:
        return nullcontext()

    def put(self, values: dict[str, object]) -> None:
        self.began.set()
        assert self.go_on.wait(20)
        self.values.append(values)


def test_a_value_that_waited_when_its_caller_went_is_not_put() -> None:
    run = Held()
    session: Session[Any] = Session(run, lambda run: iter(()), running)  # type: ignore[arg-type]

    async def use() -> None:
        first = asyncio.create_task(session.aput(a=1))
        await asyncio.to_thread(run.began.wait, 20)
        second = asyncio.create_task(session.aput(b=2))
        await asyncio.sleep(0)
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        run.go_on.set()
        await first
        await session.aput(c=3)

    asyncio.run(use())
    session.close()
    assert run.values == [{"a": 1}, {"c": 3}]


class Starting:
    """A run whose sandbox takes until `go_on` to start."""

    def __init__(self) -> None:
        self.began, self.go_on = threading.Event(), threading.Event()
        self.up = False

    @contextmanager
    def opened(self) -> Iterator[None]:
        self.began.set()
        assert self.go_on.wait(20)
        self.up = True
        try:
            yield
        finally:
            self.up = False


@contextmanager
def running(run: Any) -> Iterator[None]:
    yield


def test_a_session_that_is_given_up_while_it_starts_leaves_no_sandbox() -> None:
    run = Starting()
    session: Session[Any] = Session(run, lambda run: iter(()), running)  # type: ignore[arg-type]

    async def use() -> None:
        entering = asyncio.create_task(session.__aenter__())
        await asyncio.to_thread(run.began.wait, 20)
        entering.cancel()
        await asyncio.sleep(0)
        run.go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await entering

    asyncio.run(use())
    assert not run.up


def test_a_session_that_is_closed_while_it_starts_leaves_no_sandbox() -> None:
    run = Starting()
    session: Session[Any] = Session(run, lambda run: iter(()), running)  # type: ignore[arg-type]

    def enter() -> None:
        with pytest.raises(UsageError, match="the session is closed"):
            session.__enter__()

    entering = threading.Thread(target=enter)
    entering.start()
    assert run.began.wait(20)
    session.close()
    run.go_on.set()
    entering.join(20)
    assert not run.up
