"""Cells that do not end, end too much, or are ended: what is said, what is kept, and that the next cell works."""

from __future__ import annotations

import signal
import threading
import time

import pytest

from sandbox import CellError, Limits, Notice, Rung, Sandbox, SandboxClosed
from tests.contract.conftest import CALLS, Make, fine, next_cell_works, notices


@pytest.mark.parametrize(
    "code",
    [
        "while True: pass",
        "while True:\n    try: pass\n    except Exception: pass",
        "import time; time.sleep(1000)",
        "import re; re.match(r'(a+)+$', 'a' * 40 + 'b')",
        "10 ** 10 ** 9 % 7",
        "import asyncio; await asyncio.sleep(1000)",
        "import asyncio; await asyncio.Event().wait()",
        "import threading; threading.Event().wait()",
        "import subprocess; subprocess.run(['sleep', '1000'])",
        "import ctypes; ctypes.PyDLL(None).sleep(1000)",
        "import ctypes; ctypes.CDLL(None).pause()",
        "import threading; lock = threading.Lock(); lock.acquire(); lock.acquire()",
        "import queue; queue.Queue().get()",
        "import os; r, w = os.pipe(); os.read(r, 1)",
        "import socket; a, b = socket.socketpair(); b.recv(1)",
    ],
)
def test_interrupted_with_its_variables_kept(box: Sandbox, code: str) -> None:
    fine(box.run("kept = 'still here'"))
    cell = box.run(code, timeout=0.5)
    assert cell.status == "timeout"
    assert "longer than its 0.5 seconds" in notices(cell)
    if cell.lost is None:
        assert box.run("kept").result == "'still here'"
    else:  # one operation of the interpreter's own, that no signal can get into
        assert code.startswith("10 **")
        assert cell.lost == "all variables"
    next_cell_works(box)


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize(
    "code",
    [
        "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass",
        "import signal; signal.signal(signal.SIGINT, lambda *_: None)\nwhile True: pass",
        "sum(range(10**11))",
        "max(iter(int, 1))",
        "import hashlib; hashlib.pbkdf2_hmac('sha256', b'x', b'y', 2**31 - 1)",
        "import sqlite3; sqlite3.connect(':memory:').execute("
        "'with recursive r(n) as (select 1 union all select n + 1 from r) select count(*) from r').fetchone()",
        "import signal, time; signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}); time.sleep(1000)",
        "import time\nwhile True:\n    try: time.sleep(100)\n    except BaseException: pass",
        "import os, time; os.kill(-1, 19); time.sleep(1000)",
        "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)",
        "import os, signal; os.kill(os.getppid(), signal.SIGSTOP)\nwhile True: pass",
    ],
)
def test_what_does_not_stop_is_killed_and_the_loss_said(fresh: Sandbox, code: str) -> None:
    fresh.run("x = 1; open('file.txt', 'w').write('kept')")
    cell = fresh.run(code, timeout=0.3)
    assert (cell.status, cell.lost) == ("timeout", "all variables")
    assert "killed" in notices(cell)
    assert fresh.read("file.txt") == b"kept"
    after = fresh.run("x")
    assert after.error is not None
    assert after.error.name == "NameError"
    next_cell_works(fresh)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import os; os._exit(3)", "exit code 3"),
        ("import ctypes; ctypes.string_at(0)", "SIGSEGV"),
        ("import os; os.abort()", "SIGABRT"),
        ("import os, time; os.kill(-1, 9); time.sleep(20)", "killed from inside"),
        ("import os, time; os.kill(os.getppid(), 9); time.sleep(20)", "killed from inside"),
        ("import os; os.kill(os.getpid(), 9)", "SIGKILL"),
        ("!kill -9 -1", "the kernel"),
        ("import os, time; os.kill(-1, 15); time.sleep(20)", "killed from inside"),
        ("import os, time; os.kill(os.getpid(), 15); time.sleep(20)", "SIGTERM"),
        ("import os; os.kill(os.getpid(), 4)", "SIGILL"),
        ("import os; os.kill(os.getpid(), 3)", "SIGQUIT"),
        ("import os; os.execv('/bin/true', ['true'])", "exit code 0"),
        (
            "import threading, os, time; threading.Thread(target=os._exit, args=(5,)).start(); time.sleep(20)",
            "exit code 5",
        ),
        ("import resource\nresource.setrlimit(resource.RLIMIT_CPU, (1, 20))\nwhile True: pass", "SIGXCPU"),
        (
            "import resource, signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_DFL)\n"
            "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\nopen('long', 'wb').write(bytes(5000))",
            "SIGXFSZ",
        ),
        (
            "import ctypes, sys\nsys.setrecursionlimit(10**8)\n@ctypes.CFUNCTYPE(None)\ndef f(): f()\nf()",
            "SIGSEGV",
        ),
        (
            "import sys; sys.setrecursionlimit(10**9)\n"
            "class Deep:\n    def __init__(self, inner): self.inner = inner\n    def __repr__(self): return repr(self.inner)\n"
            "def f(): return f()\nx = ()\nfor _ in range(10**6): x = (x,)\nrepr(x); hash(x); f()",
            "SIGSEGV",
        ),
    ],
)
def test_a_death_is_noticed_at_once_and_named(box: Sandbox, code: str, said: str) -> None:
    fine(box.run("open('file.txt', 'w').write('kept')"))
    cell = box.run(code, timeout=25)
    assert (cell.status, cell.lost) == ("died", "all variables")
    assert said in notices(cell)
    assert box.read("file.txt") == b"kept"
    next_cell_works(box)


def test_signals_that_its_owner_ignores_are_not_ignored_in_it(make: Make) -> None:
    """As they are for what a shell starts in the background."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGQUIT, signal.SIGHUP)}
    try:
        box = make()
        for number in before:
            cell = box.run(f"import os; os.kill(os.getpid(), {number:d})")
            assert (cell.status, cell.lost) == ("died", "all variables")
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


STOPS_ALL_IN_A_LOOP = """
import os
if os.fork() == 0:
    while True:
        try:
            os.kill(-1, 19)
        except OSError:
            pass
"""


def test_what_stops_all_else_for_ever_costs_the_sandbox_and_no_more(fresh: Sandbox) -> None:
    """Even what would kill it is stopped before it begins; it must not be waited for."""
    started = time.monotonic()
    cell = fresh.run(STOPS_ALL_IN_A_LOOP, timeout=0.3)
    if cell.status == "ok":  # it was over before the loop began
        cell = fresh.run("1", timeout=0.3)
    assert cell.status == "timeout"
    assert cell.lost is not None
    assert cell.lost.startswith("everything")
    next_cell_works(fresh)
    assert time.monotonic() - started < 120


def test_a_death_behind_the_end_of_a_cell_is_told_with_the_next(box: Sandbox) -> None:
    """What ends the kernel may reach it after the cell: then that cell went well, and the next says what was lost."""
    fine(box.run("kept = 1"))
    cell = box.run("import os; os.kill(os.getppid(), 9)")
    while cell.lost is None:  # for how many cells it lives on is the machine's to say; it does end
        assert cell.status == "ok"
        cell = box.run("kept")
        assert cell.result in ("1", None)
    assert cell.lost == "all variables"
    assert "killed from inside" in notices(cell)
    next_cell_works(box)


def test_exit_keeps_the_kernel(box: Sandbox) -> None:
    fine(box.run("kept = 1"))
    for code in ("exit()", "quit()", "exit"):
        assert "exit() does nothing here" in fine(box.run(code)).stderr
    cell = box.run("import sys; sys.exit(2)")
    assert cell.error is not None
    assert (cell.status, cell.error.name) == ("error", "SystemExit")
    assert box.run("kept").result == "1"
    next_cell_works(box)


@pytest.mark.parametrize(
    "code",
    [
        "input('name? ')",
        "breakpoint()\nx = 1",
        "import pdb; pdb.set_trace()",
        "import getpass; getpass.getpass()",
        "get_ipython().kernel._allow_stdin = True\ninput('name? ')",
        "import sys; sys.stdin.readline() or 1 / 0",
    ],
)
def test_asking_for_input_fails_at_once(box: Sandbox, code: str) -> None:
    cell = box.run(code, timeout=30)
    assert cell.status == "error"
    assert cell.error is not None
    next_cell_works(box)


def test_runaway_recursion_is_an_error(box: Sandbox) -> None:
    cell = box.run("def f(): return f()\nf()")
    assert cell.error is not None
    assert cell.error.name == "RecursionError"
    assert len(cell.error.traceback) < 4000
    next_cell_works(box)


def test_background_processes_are_gone_after_a_restart(box: Sandbox) -> None:
    count = (
        "import os\nlen([p for p in os.listdir('/proc') if p.isdigit() and "
        "b'sleep\\0' + b'987' in open(f'/proc/{p}/cmdline', 'rb').read()])"
    )
    fine(
        box.run(
            "import subprocess\nfor _ in range(3): subprocess.Popen(['sleep', '987'], start_new_session=True)"
        )
    )
    assert box.run(count).result == "3"
    box.restart()
    assert box.run(count).result == "0"
    next_cell_works(box)


def test_a_kernel_that_dies_between_cells_is_told_with_the_next(box: Sandbox) -> None:
    fine(box.run("import os, threading\nthreading.Timer(0.2, os._exit, [7]).start()"))
    live = box._live
    assert live is not None
    wait_until(lambda: not live.bridge.events._frames.empty())
    cell = box.run("1 + 1")
    assert (cell.status, cell.result, cell.lost) == ("ok", "2", "all variables")
    assert "exit code 7" in notices(cell)
    next_cell_works(box)


UNTOLD = """
import os, signal, sys, time
kernel, warden = map(int, sys.argv[1:])
while not os.path.exists('go'): pass
os.kill(warden, signal.SIGSTOP)
os.kill(kernel, signal.SIGKILL)
open('dead', 'w')
time.sleep(1)  # in which the next cell is sent; were it later, it would find a kernel that is known to be dead
os.kill(warden, signal.SIGCONT)
"""


def test_a_cell_that_a_dead_kernel_never_began_is_run_by_the_next(fresh: Sandbox) -> None:
    """The kernel is gone, and nobody was told of it when the cell is sent."""
    start = "subprocess.Popen([sys.executable, '-c', code, str(os.getpid()), str(os.getppid())])"
    fine(fresh.run(f"import os, subprocess, sys\ncode = {UNTOLD!r}\n{start}; kept = 1"))
    fresh.write("go", b"")
    wait_until(lambda: "dead" in [info.path for info in fresh.list()])
    cell = fresh.run("open('times', 'a').write('once'); 'kept' in globals()", timeout=10)
    assert (cell.status, cell.result, cell.lost) == ("ok", "False", "all variables")
    assert fresh.read("times") == b"once"
    next_cell_works(fresh)


def test_a_cell_that_ends_its_kernel_at_once_is_not_run_again(box: Sandbox) -> None:
    cell = box.run("import os; open('begun', 'a').write('once'); os.kill(os.getpid(), 9)")
    assert cell.status == "died"
    assert box.read("begun") == b"once"
    next_cell_works(box)


def test_two_runs_from_two_threads_are_one_after_the_other(box: Sandbox) -> None:
    results: dict[str, str] = {}

    def run(name: str) -> None:
        results[name] = box.run(
            f"import time\nprint('{name} in')\ntime.sleep(0.2)\nprint('{name} out')"
        ).stdout

    threads = [threading.Thread(target=run, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {name: f"{name} in\n{name} out\n" for name in "abcd"}


def test_interrupt_from_another_thread(box: Sandbox) -> None:
    fine(box.run("kept = 5"))
    cell = box.stream("print('running', flush=True)\nwhile True: pass", timeout=30)
    next(cell)
    threading.Thread(target=box.interrupt).start()
    rest = list(cell)
    assert [type(output) for output in rest] == [Rung, CellError]
    assert str(rest[0]).startswith("step 1 of 5, after ")
    assert box.run("kept").result == "5"


def test_an_interrupt_never_hits_the_next_cell(box: Sandbox) -> None:
    """It comes at every moment of a short cell; the cell may be hit, its successor never, and no state is lost."""
    fine(box.run("kept = 0"))
    for turn in range(50):
        timer = threading.Timer(turn * 0.0002, box.interrupt)
        timer.start()
        hit = box.run("for _ in range(200): sum(range(200))")
        timer.join()
        assert hit.status in ("ok", "interrupted"), hit
        assert hit.lost is None
        fine(box.run("kept += 1"))
    assert box.run("kept").result == "50"


def test_interrupts_between_cells_do_nothing(box: Sandbox) -> None:
    for _ in range(100):
        box.interrupt()
    next_cell_works(box)


def test_closing_a_stream_early_interrupts_its_cell(box: Sandbox) -> None:
    fine(box.run("kept = 3"))
    cell = box.stream("print('one', flush=True)\nwhile True: pass")
    next(cell)
    started = time.monotonic()
    cell.close()
    assert time.monotonic() - started < 20  # it would go on for the 30 seconds that a cell has
    assert box.run("kept").result == "3"


def test_a_stream_dropped_on_another_thread(box: Sandbox) -> None:
    held = [box.stream("print('one', flush=True)\nwhile True: pass")]
    next(held[0])
    thread = threading.Thread(target=held.clear)
    thread.start()
    thread.join(10)
    next_cell_works(box)


def test_the_deadline_stands_still_while_the_host_works(fresh: Sandbox) -> None:
    CALLS.entered.clear()
    CALLS.release.clear()
    outputs = fresh.stream("from sandbox_guest.host import call\ncall('hold', 'done')", timeout=0.5)
    done = threading.Event()
    collected: list[object] = []

    def consume() -> None:
        collected.extend(outputs)
        done.set()

    threading.Thread(target=consume).start()
    assert CALLS.entered.wait(10)
    assert not done.wait(1.5)  # three times its seconds
    CALLS.release.set()
    assert done.wait(10)
    assert [type(output).__name__ for output in collected] == ["Rich"]
    assert fresh.run("while True: pass", timeout=0.2).status == "timeout"


def test_a_process_that_kills_all_others_costs_the_sandbox(
    fresh: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No kernel can come up beside it, so that only a new container helps; that is seen, not waited for, and said."""
    monkeypatch.setattr("sandbox.live.RESTART_SECONDS", 1000.0)
    cell = fresh.run(
        "import os\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    while True:\n"
        "        try: os.kill(-1, 9)\n"
        "        except ProcessLookupError: pass\n"
        "import time; time.sleep(20)"
    )
    assert (cell.status, cell.lost) == ("died", "all variables")
    after = fresh.run("print('to stdout')\n6 * 7")
    assert (after.status, after.result) == ("ok", "42")
    assert (after.lost or "").startswith("everything")
    assert "was killed at once" in (after.lost or "")
    assert "started afresh" in notices(after)
    next_cell_works(fresh)


@pytest.mark.needs("pids")
def test_a_true_fork_bomb(make: Make) -> None:
    box = make(limits=Limits(pids=64))
    cell = box.run(
        "import os\nwhile True:\n    try: os.fork()\n    except BlockingIOError: pass", timeout=0.5
    )
    assert cell.status == "timeout"
    box.restart()
    next_cell_works(box)


def test_a_flood_between_cells_costs_the_host_nothing(fresh: Sandbox) -> None:
    """A thread prints without end after its cell; what is not read of it is not kept here."""
    fine(
        fresh.run(
            "import threading\ncount = 0\ndef flood():\n    global count\n"
            "    while True: print('x' * 10_000, flush=True); count += 1\n"
            "threading.Thread(target=flood, daemon=True).start()"
        )
    )
    assert fresh._live is not None
    threading.Event().wait(1)  # the flood's own time
    assert fresh._live.bridge.events.waiting < 1024**2
    cell = fresh.run("count")
    assert cell.status == "ok"
    assert int(cell.result or 0) > 20
    assert sum(len(output.text) for output in cell.outputs if isinstance(output, Notice)) < 1024**2
    fresh.restart()
    next_cell_works(fresh)


def test_closing_ends_a_running_cell(make: Make) -> None:
    box = make()
    cells: list[object] = []
    cell = box.stream("print('in', flush=True)\nwhile True: pass", timeout=60)
    next(cell)
    thread = threading.Thread(target=lambda: cells.extend(cell))
    thread.start()
    box.close()
    thread.join(5)
    assert not thread.is_alive()
    with pytest.raises(SandboxClosed):
        box.run("1")


def wait_until(condition: object, seconds: float = 10) -> None:
    assert callable(condition)
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)
