"""Calls of tools from tasks and worker processes of a cell, and what becomes of one that is left alone."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from codeact import events
from codeact.tools.context import current_call
from codeact.tools.functions import tool
from tests.integration.test_tools import of, solve

pytestmark = pytest.mark.docker


@pytest.mark.parametrize("coroutine", [False, True])
def test_what_a_task_waits_for_no_more_is_cancelled_while_its_cell_goes_on(
    tmp_path: Path, coroutine: bool
) -> None:
    seen = threading.Event()

    def wait() -> None:
        if current_call().cancelled.wait(30):
            seen.set()

    async def wait_async() -> None:
        try:
            await asyncio.sleep(30)
        finally:
            seen.set()

    @tool(effects="read")
    def was_cancelled() -> bool:
        return seen.wait(10)

    code = (
        "import asyncio\nfrom tools import wait, was_cancelled\n"
        "try: await asyncio.wait_for(wait.aio(), 0.2)\n"
        "except asyncio.TimeoutError: final_answer(was_cancelled())"
    )
    made = tool(name="wait")(wait_async if coroutine else wait)
    result = solve(tmp_path, [code], [made, was_cancelled], approve="never")
    assert result.answer is True
    errors = [(event.tool, event.error and event.error["class"]) for event in of(result, events.ToolReturned)]
    assert errors == [("wait", "CallCancelled"), ("was_cancelled", None)]


WORK = """
import tools
def double(n):
    return tools.double(n)
"""


@pytest.mark.parametrize(
    "pool",
    [
        "multiprocessing.get_context('fork').Pool(3)",
        "multiprocessing.get_context('spawn').Pool(3)",
        "concurrent.futures.ProcessPoolExecutor(3, multiprocessing.get_context('fork'))",
        "concurrent.futures.ProcessPoolExecutor(3, multiprocessing.get_context('spawn'))",
    ],
)
def test_worker_processes_call_tools(tmp_path: Path, pool: str) -> None:
    @tool(effects="read")
    def double(n: int) -> int:
        if n < 0:
            raise LookupError("negative")
        return 2 * n

    code = (
        "import multiprocessing, concurrent.futures, tools\n"
        f"open('work.py', 'w').write({WORK!r})\nimport work\ntools.double(1)\n"
        f"with {pool} as workers:\n"
        "    done = list(workers.map(work.double, range(20)))\n"
        "    try: list(workers.map(work.double, [-1]))\n"
        "    except tools.ToolError as error: failed = type(error).__name__ + ': ' + str(error)\n"
        "final_answer([done, failed])"
    )
    result = solve(tmp_path, [code], [double])
    assert result.answer == [[2 * n for n in range(20)], "LookupError: negative"]
    assert len({event.call for event in of(result, events.ToolCalled)}) == 22


def test_what_a_worker_process_waits_for_ends_with_it(tmp_path: Path) -> None:
    begun, seen = threading.Event(), threading.Event()

    @tool(effects="read")
    def wait() -> None:
        begun.set()
        if current_call().cancelled.wait(30):
            seen.set()

    @tool(effects="read")
    def state(of: str) -> bool:
        return {"begun": begun, "cancelled": seen}[of].wait(10)

    code = (
        "import multiprocessing, tools\n"
        "worker = multiprocessing.get_context('fork').Process(target=tools.wait)\nworker.start()\n"
        "begun = tools.state('begun')\nworker.kill(); worker.join()\n"
        "final_answer([begun, tools.state('cancelled')])"
    )
    assert solve(tmp_path, [code], [wait, state]).answer == [True, True]
