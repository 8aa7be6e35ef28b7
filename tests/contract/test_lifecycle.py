"""Cells that do not end, end too much, or are ended: what is said, what is kept, and that the next cell works."""

from __future__ import annotations

import threading
import time

import pytest

from sandbox import CellError, Limits, Notice, Rung, Sandbox, SandboxBusy, SandboxClosed
from sandbox.cells import Step
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
    ],
)
def test_interrupted_with_its_variables_kept(box: Sandbox, code: str) -> None:
    fine(box.run("kept = 'still here'"))
    started = time.monotonic()
    cell = box.run(code, timeout=0.5)
    assert cell.status == "timeout"
    assert "longer than its 0.5 seconds" in notices(cell)
    if cell.lost is None:
        assert time.monotonic() - started < 2.5
        assert box.run("kept").result == "'still here'"
    else:  # one operation of the interpreter's own, that no signal can get into
        assert code.startswith("10 **")
        assert cell.lost == "all variables"
    next_cell_works(box)


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same ladder, with less patience."""
    from sandbox import cells

    ladder = tuple(Step(step.action, step.says, min(step.patience, 0.5)) for step in cells.LADDER[:2])
    monkeypatch.setattr(cells, "LADDER", (*ladder, *cells.LADDER[2:]))


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize(
    "code",
    [
        "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass",
        "import signal; signal.signal(signal.SIGINT, lambda *_: None)\nwhile True: pass",
        "sum(range(10**11))",
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
        ("import os; os.kill(os.getppid(), 9)", "killed from inside"),
        ("import os; os.kill(os.getpid(), 9)", "SIGKILL"),
        ("!kill -9 -1", "the kernel"),
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
    started = time.monotonic()
    cell = box.run(code, timeout=25)
    assert time.monotonic() - started < 10
    assert (cell.status, cell.lost) == ("died", "all variables")
    assert said in notices(cell)
    assert box.read("file.txt") == b"kept"
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
    started = time.monotonic()
    cell = box.run(code, timeout=30)
    assert time.monotonic() - started < 5
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
    assert box._backend is not None
    assert box._bridge is not None
    wait_until(lambda: box._bridge is not None and not box._bridge.events._frames.empty())
    cell = box.run("1 + 1")
    assert (cell.status, cell.result, cell.lost) == ("ok", "2", "all variables")
    assert "exit code 7" in notices(cell)
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
    assert time.monotonic() - started < 3
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


@pytest.mark.parametrize(
    ("code", "rungs"),
    [
        ("while True: pass", ["interrupt"]),
        (
            "import time\ntry: time.sleep(100)\nexcept KeyboardInterrupt: pass\nwhile True: pass",
            ["interrupt", "second_interrupt"],
        ),
        ("import time\ntry: time.sleep(100)\nexcept KeyboardInterrupt: print('caught')", ["interrupt"]),
        ("import asyncio; await asyncio.sleep(1000)", ["interrupt"]),
    ],
)
@pytest.mark.usefixtures("hasty")
def test_what_was_printed_how_far_it_went_and_what_survived(
    fresh: Sandbox, code: str, rungs: list[str]
) -> None:
    fine(fresh.run("words = ['a', 'b']\nname = 'x' * 1000\ndef own(): pass"))
    cell = fresh.run(f"print('begun')\nnumber = 12\n{code}", timeout=0.3)
    assert (cell.status, cell.lost) == ("timeout", None)
    assert cell.stdout.startswith("begun\n")
    assert [rung.action for rung in cell.rungs] == rungs
    assert [rung.step for rung in cell.rungs] == list(range(1, len(rungs) + 1))
    assert all(rung.seconds >= 0.3 for rung in cell.rungs)
    assert cell.survived is not None
    told = {variable.name: (variable.kind, variable.size) for variable in cell.survived}
    assert told["words"] == ("list of 2", None)
    assert told["name"][0] == "str of 1,000"
    assert 1000 < (told["name"][1] or 0) < 1100
    assert told["number"][0] == "int"
    assert told["own"][0] == "function"
    assert not {"more_time", "In", "Out", "get_ipython", "asyncio"} & set(told)
    next_cell_works(fresh)


def test_tables_that_survived_have_their_shape_and_size(make: Make) -> None:
    box = make(image="data")
    fine(
        box.run(
            "import numpy as np, pandas as pd\ndf = pd.DataFrame(np.zeros((60, 4)))\na = np.zeros((3, 5))"
        )
    )
    cell = box.run("while True: pass", timeout=0.3)
    # 60 x 4 numbers of 8 bytes and a range as index; 15 numbers of 8 bytes
    assert {"df (DataFrame 60×4, 2 KiB)", "a (ndarray 3×5, 120 bytes)"} <= set(map(str, cell.survived or ()))


def test_what_survived_is_told_by_no_code_of_theirs(fresh: Sandbox) -> None:
    """What lies about its type, its shape and its length is asked for none of them."""
    cell = fresh.run(
        "class Trap:\n"
        "    def __getattribute__(self, name): open('sprung', 'a').write(name); raise SystemExit\n"
        "    def __len__(self): open('sprung', 'a').write('len'); raise SystemExit\n"
        "class Sub(list):\n"
        "    def __len__(self): open('sprung', 'a').write('len'); raise SystemExit\n"
        "trap, sub = Trap(), Sub()\n"
        "globals().update({'line\\nbreak': 1, 'x' * 10**6: 2, 7: 3})\n"
        "while True: pass",
        timeout=0.3,
    )
    told = {variable.name: variable.kind for variable in cell.survived or ()}
    assert (told["trap"], told["sub"]) == ("Trap", "Sub")
    assert "line break" in told
    assert all(len(name) <= 80 for name in told)
    assert "sprung" not in [file.path for file in fresh.list()]
    next_cell_works(fresh)


TIMER = "import time\nended = time.monotonic() + {}\nwhile time.monotonic() < ended: pass\n"


def busy(seconds: float, indent: str = "") -> str:
    return TIMER.format(seconds).replace("\n", f"\n{indent}").strip()


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (f"with more_time(20):\n    {busy(1.2, '    ')}", "ok"),
        (f"with more_time(20): pass\n{busy(3)}", "timeout"),
        (f"with more_time(0.2):\n    {busy(5, '    ')}", "timeout"),
        (f"with more_time(5):\n    with more_time(5):\n        pass\n    {busy(1.2, '    ')}", "ok"),
        (f"with more_time(0.3):\n    with more_time(20):\n        {busy(1.2, '        ')}", "ok"),
        (f"{busy(0.2)}\nwith more_time(20):\n    {busy(1, '    ')}\n{busy(0.1)}", "ok"),
        (f"def f():\n    with more_time(20):\n        {busy(1.2, '        ')}\n"
         "import threading; t = threading.Thread(target=f); t.start(); t.join()", "ok"),
        ("for _ in range(200):\n    with more_time(1): pass", "ok"),
        (f"async def f():\n    with more_time(20):\n        {busy(1.2, '        ')}\nawait f()", "ok"),
    ],
)  # fmt: skip
def test_more_time(fresh: Sandbox, code: str, status: str) -> None:
    """The cell has 0.8 seconds of its own: what a block had left goes with it."""
    cell = fresh.run(code, timeout=0.8, max_timeout=60)
    assert cell.status == status, cell
    if status == "ok":
        assert cell.stderr == ""
    next_cell_works(fresh)


def test_more_time_is_bounded_by_the_host(fresh: Sandbox) -> None:
    cell = fresh.run(
        "with more_time(1e9) as got: print(round(got))\nwith more_time(5) as got: print(got)", max_timeout=100
    )
    assert cell.stdout == "70\n5.0\n"  # 30 of its own; what is given back can be asked for again
    assert cell.stderr.startswith("more_time(1e+09): 70 more seconds are left")
    cell = fine(fresh.run("with more_time(5) as got: print(got)"))
    assert (cell.stdout, cell.stderr) == ("0.0\n", "more_time(5): 0 more seconds are left, and were given\n")
    forged = "from sandbox_guest.host import call\n"
    for payload in ("None", "7", "{}", "{'seconds': '9'}", "{'seconds': -1}", "{'seconds': float('nan')}",
                    "{'seconds': float('inf')}", "{'end': 'x'}", "{'seconds': [1]}", "'x' * 10_000_000"):  # fmt: skip
        cell = fresh.run(f"{forged}call('sandbox.more_time', {payload})")
        assert cell.error is not None
        assert "more_time takes a number of seconds above 0" in cell.error.message
    assert fresh.run(f"{forged}call('sandbox.more_time', {{'end': 10**30}})").status == "ok"
    for wrong in ("'soon'", "0", "-5", "None", "float('nan')"):
        assert (fresh.run(f"with more_time({wrong}): pass").error or "").name == "ValueError"  # type: ignore[union-attr]
    started = time.monotonic()
    cell = fresh.run(
        f"{forged}for _ in range(500): call('sandbox.more_time', {{'seconds': 1e300}})\nwhile True: pass",
        timeout=0.3,
        max_timeout=1.5,
    )
    assert cell.status == "timeout"
    assert "longer than its 0.3 seconds and the 1.2 more that it had asked for" in notices(cell)
    assert time.monotonic() - started < 8
    next_cell_works(fresh)


def test_more_time_of_a_thread_does_not_reach_the_next_cell(fresh: Sandbox) -> None:
    fine(
        fresh.run(
            "import threading\nheld = threading.Event()\n"
            "def hold():\n    with more_time(50): print('in', flush=True); held.wait(20)\n"
            "threading.Thread(target=hold).start()",
            max_timeout=100,
        )
    )
    cell = fresh.run("while True: pass", timeout=0.3, max_timeout=100)
    assert cell.status == "timeout"
    assert "longer than its 0.3 seconds\n" in notices(cell) + "\n"
    fine(fresh.run("held.set()"))
    next_cell_works(fresh)


def test_host_calls_count_for_nothing_however_they_overlap(fresh: Sandbox) -> None:
    """Two that overlap, with the cell busy meanwhile, take longer than its seconds; after them the deadline goes on."""
    CALLS.entered.clear()
    CALLS.release.clear()
    timer = threading.Timer(1.5, CALLS.release.set)
    timer.start()
    cell = fresh.run(
        "from sandbox_guest.host import call\nimport threading, time\n"
        "calls = [threading.Thread(target=call, args=('hold', n)) for n in range(2)]\n"
        "for c in calls: c.start()\n"
        f"{busy(1)}\n"
        "for c in calls: c.join()\nprint('both')\nwhile True: pass",
        timeout=0.7,
    )
    timer.join()
    assert (cell.status, cell.stdout) == ("timeout", "both\n")
    assert cell.seconds >= 1.5 + 0.3
    next_cell_works(fresh)


def test_a_cell_beside_one_that_is_half_read_is_refused(box: Sandbox) -> None:
    cell = box.stream("print('one', flush=True)\nprint('two')")
    next(cell)
    for call in (lambda: box.run("1"), box.restart):
        with pytest.raises(SandboxBusy, match="take its outputs to the end"):
            call()
    seen: list[object] = []
    other = threading.Thread(target=lambda: seen.extend(cell))  # another thread may read on
    other.start()
    next_cell_works(box)
    other.join()
    assert len(seen) == 1
    with pytest.raises(SandboxBusy):
        box.run("print('x')", on_output=lambda output: next_cell_works(box))
    next_cell_works(box)


def test_a_process_that_kills_all_others_costs_the_sandbox(
    fresh: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No kernel can come up beside it, so that only a new container helps; that is said."""
    monkeypatch.setattr("sandbox.session.RESTART_SECONDS", 3.0)
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
    assert "started afresh" in notices(after)
    next_cell_works(fresh)


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
    assert fresh._bridge is not None
    threading.Event().wait(1)  # the flood's own time
    assert fresh._bridge.events.waiting < 1024**2
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
