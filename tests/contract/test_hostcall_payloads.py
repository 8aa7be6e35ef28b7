"""Calls that carry buffers, that stream, and that are given up: of functions of the host that see the whole call."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from sandbox import Limits, Sandbox
from sandbox.hostcalls import Answer, HostCall, WithCall
from tests.contract.conftest import Make, fine, next_cell_works, value

CALL = "from sandbox_guest.host import call, call_with_buffers, stream, HostCallError\n"
MEGABYTE = 1024 * 1024


class Host:
    """Functions, and what they saw."""

    def __init__(self) -> None:
        self.made: list[int] = []
        self.closed = threading.Event()
        self.entered = threading.Event()
        self.cancelled = threading.Event()
        self.calls: list[HostCall] = []

    def functions(self) -> Mapping[str, Any]:
        return {
            "echo": lambda argument: argument,
            "digest": WithCall(self.digest),
            "give": WithCall(lambda call: Answer({"n": call.value}, [b"x" * size for size in call.value])),
            "count": WithCall(self.count),
            "hold": WithCall(self.hold),
        }

    def digest(self, call: HostCall) -> Answer:
        self.calls.append(call)
        digests = [hashlib.sha256(buffer).hexdigest() for buffer in call.buffers]
        return Answer([call.value, digests], call.buffers)

    def count(self, call: HostCall) -> Iterator[Answer]:
        try:
            for number in range(call.value["items"]):
                self.made.append(number)
                if number == call.value.get("fail"):
                    raise LookupError("no more")
                yield Answer(number, [bytes(call.value.get("size", 0))])
        finally:
            self.closed.set()

    def hold(self, call: HostCall) -> Answer:
        self.entered.set()
        if call.cancelled.wait(20):
            self.cancelled.set()
        return Answer(None)


@pytest.fixture(scope="module")
def host() -> Host:
    return Host()


@pytest.fixture(scope="module")
def box(settings: Mapping[str, Any], host: Host) -> Iterator[Sandbox]:
    limits = Limits(memory="1536m")
    with Sandbox(image="minimal", functions=host.functions(), limits=limits, **settings) as sandbox:
        yield sandbox


@pytest.mark.parametrize(
    "sizes",
    [[], [0], [1], [0, 7, 0], [256 * 1024 - 12], [256 * 1024], [3 * MEGABYTE + 1, 5, 700_000], [1] * 3000],
    ids=str,
)
def test_buffers_go_there_and_back(box: Sandbox, sizes: list[int]) -> None:
    code = (
        f"{CALL}import hashlib, random\nrandom.seed(1)\nsent = [random.randbytes(n) for n in {sizes}]\n"
        "(answer, digests), back = call_with_buffers('digest', {'é': [1]}, sent)\n"
        "value = [answer == {'é': [1]}, digests == [hashlib.sha256(b).hexdigest() for b in sent],"
        " [bytes(b) for b in back] == sent]"
    )
    assert value(box, code.replace(str([1] * 3000), "[1] * 3000")) == [True, True, True]


def test_the_function_sees_which_call_it_is(box: Sandbox, host: Host) -> None:
    host.calls.clear()
    fine(box.run(f"{CALL}for _ in range(2): call_with_buffers('digest', 1)"))
    first, second = host.calls
    assert (first.name, first.cell) == ("digest", second.cell)
    assert first.number < second.number
    assert not first.cancelled.is_set()


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (
            "call_with_buffers('digest', None, [bytes(256 << 20)])",
            "the value for digest is too large: 268,435,468 bytes, at most 256 MiB",
        ),
        ("call_with_buffers('give', [256 << 20])", "268,435,482 bytes, at most 256 MiB"),
    ],
)
def test_what_is_too_large_is_an_error_both_ways(box: Sandbox, expression: str, message: str) -> None:
    cell = box.run(f"{CALL}try: {expression}\nexcept HostCallError as error: print(error.kind, error)")
    assert fine(cell).stdout.startswith("TooLarge ")
    assert message in cell.stdout
    next_cell_works(box)


def test_a_large_one_holds_up_neither_calls_nor_outputs(make: Make, host: Host) -> None:
    """The host hears of small calls and of outputs while a result of 200 MB is not read to its end."""
    box = make(functions=host.functions(), limits=Limits(memory="1g"))
    code = (
        f"{CALL}from sandbox_guest import host\nconnection = host._connect()\n"
        f"connection.ask('give', [{200 * MEGABYTE}], [])\n"
        "print(call('echo', 'through'), flush=True)\n"
        "_, (answer, buffers) = connection.answer()\nlen(buffers[0])"
    )
    cell = box.run(code, timeout=60)
    assert (fine(cell).stdout, cell.result) == ("through\n", str(200 * MEGABYTE))


def test_items_are_made_as_they_are_asked_for(box: Sandbox, host: Host) -> None:
    host.made.clear()
    code = f"{CALL}items = stream('count', {{'items': 5, 'size': 600_000}})\nfirst = next(items)[0]\nvalue = first"
    assert value(box, code) == 0
    assert host.made == [0]


def test_items_arrive_in_order_with_their_buffers_and_other_calls_between(box: Sandbox) -> None:
    code = (
        f"{CALL}value = []\nfor number, [buffer] in stream('count', {{'items': 30, 'size': 600_000}}):\n"
        "    value.append([number, len(buffer), call('echo', number)])"
    )
    assert value(box, code) == [[number, 600_000, number] for number in range(30)]


def test_a_stream_that_is_left_is_closed_on_the_host(box: Sandbox, host: Host) -> None:
    host.made.clear()
    host.closed.clear()
    code = f"{CALL}for number, _ in stream('count', {{'items': 1_000_000}}):\n    if number == 3: break"
    fine(box.run(code))
    assert host.closed.wait(10)
    assert host.made == [0, 1, 2, 3]


def test_a_stream_that_fails_says_so_after_its_items(box: Sandbox) -> None:
    code = (
        f"{CALL}value = []\ntry:\n    for number, _ in stream('count', {{'items': 9, 'fail': 2}}): value.append(number)\n"
        "except HostCallError as error: value += [error.kind, str(error)]"
    )
    assert value(box, code) == [0, 1, "LookupError", "no more"]


def test_more_streams_than_the_host_has_threads_for_small_calls(box: Sandbox) -> None:
    code = (
        f"{CALL}open = [stream('count', {{'items': 3}}) for _ in range(40)]\n"
        "value = [[next(each)[0] for each in open] for _ in range(3)] + [call('echo', 1)]"
    )
    assert value(box, code) == [[0] * 40, [1] * 40, [2] * 40, 1]


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_worker_processes_have_connections_of_their_own(box: Sandbox, method: str) -> None:
    fine(
        box.run(
            f"%%writefile /workspace/work_{method}.py\n{CALL}"
            "def work(n): return call_with_buffers('digest', n, [bytes(n)])[0][0], call('echo', n)"
        )
    )
    code = (
        f"{CALL}import multiprocessing\nfrom work_{method} import work\ncall('echo', 0)\n"
        f"with multiprocessing.get_context('{method}').Pool(3) as pool: done = pool.map(work, range(30))\n"
        "value = done == [(n, n) for n in range(30)] and call('echo', 1) == 1"
    )
    assert value(box, code, timeout=60) is True


def test_an_interrupt_cancels_the_calls_of_threads_too(make: Make, host: Host) -> None:
    host.entered.clear()
    host.cancelled.clear()
    box = make(functions=host.functions())
    code = (
        f"{CALL}from concurrent.futures import ThreadPoolExecutor\nkept = 1\n"
        "with ThreadPoolExecutor(2) as pool: list(pool.map(lambda _: call('hold'), range(2)))"
    )

    def interrupt() -> None:
        assert host.entered.wait(20)
        box.interrupt()

    thread = threading.Thread(target=interrupt)
    thread.start()
    cell = box.run(code, timeout=30)
    thread.join()
    assert cell.status == "interrupted"
    assert host.cancelled.wait(10)
    assert box.run("kept").result == "1"
    assert value(box, f"{CALL}value = call('echo', 'next')") == "next"


def test_a_call_whose_caller_is_gone_is_cancelled(box: Sandbox, host: Host) -> None:
    host.entered.clear()
    host.cancelled.clear()
    code = (
        f"{CALL}import threading\nfrom sandbox_guest import host\nhandle, said = host.Handle(), []\n"
        "def hold():\n    host.HANDLE.set(handle)\n    try: call('hold')\n"
        "    except HostCallError as error: said.append(error.kind)\n"
        "thread = threading.Thread(target=hold)\nthread.start()\n"
    )
    fine(box.run(code + "handle.cancel()\nthread.join()"))
    assert value(box, "value = said") in (["ConnectionLost"], ["CallCancelled"])
    if host.entered.is_set():
        assert host.cancelled.wait(10)
    next_cell_works(box)


@pytest.mark.parametrize(
    "frame",
    [
        "{'op': 'call', 'name': 'digest', 'json': 1, 'buffers': 1, 'size': 5}",
        "{'op': 'call', 'name': 'digest', 'json': -1}",
        "{'op': 'call', 'name': 'digest', 'json': 1, 'size': 1 << 60, 'buffers': 1}",
        "{'op': 'call', 'name': 'digest', 'json': 1, 'buffers': 1 << 40, 'size': 1 << 20}",
        "{'op': 'more'}",
        "{'op': 'part'}",
        "{'op': ['call']}",
        "{'op': 'call', 'name': ['digest']}",
    ],
)
def test_hostile_frames_are_refused_and_others_served(box: Sandbox, frame: str) -> None:
    code = (
        f"{CALL}import socket\nfrom sandbox_guest import frames\nlink = socket.socket(socket.AF_UNIX)\n"
        f"link.connect('/run/k/host.sock')\nlink.sendall(frames.encode({frame}, b'1' * 9) * 3)\nlink.close()\n"
        "value = call('echo', 2)"
    )
    assert value(box, code) == 2
    next_cell_works(box)
