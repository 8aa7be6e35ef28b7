"""Calls of host functions from code in the sandbox."""

from __future__ import annotations

import threading

import pytest

from sandbox import Sandbox
from tests.contract.conftest import CALLS, fine, next_cell_works, value

CALL = "from sandbox_guest.host import call, HostCallError\n"


@pytest.mark.parametrize(
    "code",
    [
        "{'a': [1, 2.5, None, True], 'b': {'c': 'é🎉'}}",
        "[]",
        "'x' * 1_000_000",
        "None",
        "'line\\nline\\x00'",
        "2 ** 80",
    ],
)
def test_values_go_there_and_back(box: Sandbox, code: str) -> None:
    assert value(box, f"{CALL}sent = {code}\nvalue = call('echo', sent) == sent") is True


@pytest.mark.parametrize(
    ("expression", "kind", "message"),
    [
        ("call('fail', 7)", "LookupError", "no order 7"),
        ("call('missing', 7)", "UnknownFunction", "the host has no function 'missing'"),
        ("call('not_json')", "BadResult", "the host function returned what is not a JSON value"),
        (
            "call('big', 20_000_000)",
            "TooLarge",
            "the result is too large to hand over: 20,000,002 bytes as JSON, at most 16 MiB; "
            "a table, an array or bytes may be larger",
        ),
        (
            "call('echo', 'x' * 20_000_000)",
            "TooLarge",
            "the value for echo is too large: 20,000,002 bytes as JSON, at most 16 MiB; "
            "a table, an array or bytes may be larger",
        ),
    ],
)
def test_failures_are_exceptions_in_the_cell(box: Sandbox, expression: str, kind: str, message: str) -> None:
    cell = box.run(f"{CALL}try: {expression}\nexcept HostCallError as error: print(error.kind); print(error)")
    assert fine(cell).stdout == f"{kind}\n{message}\n"
    next_cell_works(box)


def test_no_line_of_the_host_is_told(box: Sandbox) -> None:
    cell = box.run(f"{CALL}call('fail', 7)")
    assert cell.error is not None
    assert cell.error.message == "no order 7"
    assert "conftest" not in cell.error.traceback


def test_from_threads_and_from_worker_processes(box: Sandbox) -> None:
    code = (
        f"{CALL}from concurrent.futures import ThreadPoolExecutor\nimport multiprocessing\n"
        "with ThreadPoolExecutor(8) as pool: threads = list(pool.map(lambda n: call('echo', n), range(100)))\n"
        "context = multiprocessing.get_context('fork')\n"
        "def work(n): return call('echo', n)\n"
        "with context.Pool(2) as workers: processes = workers.map(work, range(50))\n"
        "value = [threads == list(range(100)), processes == list(range(50))]"
    )
    assert value(box, code) == [True, True]


def test_thirty_two_at_once(fresh: Sandbox) -> None:
    """Each waits on the host until all have come: the last one lets them go."""
    CALLS.entered.clear()
    CALLS.release.clear()
    cell = fresh.stream(
        f"{CALL}from concurrent.futures import ThreadPoolExecutor\n"
        "pool = ThreadPoolExecutor(32)\nheld = [pool.submit(call, 'hold', n) for n in range(31)]\n"
        "print(call('echo', 'through'), flush=True)\n[h.result() for h in held] == list(range(31))",
        timeout=20,
    )
    assert next(cell).text == "through\n"  # type: ignore[union-attr]
    CALLS.release.set()
    assert [output.data["text/plain"] for output in cell] == ["True"]  # type: ignore[union-attr]


def test_a_call_after_the_end_of_its_cell_is_refused(box: Sandbox) -> None:
    fine(
        box.run(
            f"{CALL}import threading, time\nsaid = []\nready = threading.Event()\n"
            "def late():\n"
            "    while not ready.is_set():\n"
            "        try: call('echo', 1)\n"
            "        except HostCallError as error: said.append(error.kind); ready.set()\n"
            "        time.sleep(0.005)\n"
            "threading.Thread(target=late, daemon=True).start()"
        )
    )
    threading.Event().wait(0.5)  # no cell runs, and the thread goes on calling
    assert value(box, "value = said") == ["CellEnded"]


def test_a_call_whose_cell_is_interrupted(fresh: Sandbox) -> None:
    CALLS.entered.clear()
    CALLS.release.clear()
    cell = fresh.stream(f"{CALL}kept = 1\ncall('hold', 1)", timeout=30)

    def interrupt() -> None:
        assert CALLS.entered.wait(10)
        fresh.interrupt()

    threading.Thread(target=interrupt).start()
    list(cell)
    CALLS.release.set()
    assert fresh.run("kept").result == "1"
    assert value(fresh, f"{CALL}value = call('echo', 'next')") == "next"
