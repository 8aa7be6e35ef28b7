"""How a cell is ended, told step by step; what survives it; and how code gets more time."""

from __future__ import annotations

import threading

import pytest

from sandbox import Sandbox, SandboxBusy
from tests.contract.conftest import CALLS, Make, fine, next_cell_works, notices


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
    cell = fresh.run(
        f"{forged}for _ in range(500): call('sandbox.more_time', {{'seconds': 1e300}})\nwhile True: pass",
        timeout=0.3,
        max_timeout=1.5,
    )
    assert cell.status == "timeout"
    assert "longer than its 0.3 seconds and the 1.2 more that it had asked for" in notices(cell)
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
    """Two that overlap, with the cell asleep meanwhile, take longer than its seconds; after them the deadline goes on."""
    CALLS.entered.clear()
    CALLS.release.clear()
    timer = threading.Timer(1.5, CALLS.release.set)
    timer.start()
    cell = fresh.run(
        "from sandbox_guest.host import call\nimport threading, time\n"
        "calls = [threading.Thread(target=call, args=('hold', n)) for n in range(2)]\n"
        "for c in calls: c.start()\n"
        "time.sleep(1)\n"
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


COMPUTE = "while True: pass"
WAIT = "from sandbox_guest.host import call\ncall('stuck')"


@pytest.mark.parametrize(
    "code",
    [
        f"import threading\nthreading.Thread(target=exec, args=({WAIT!r},)).start()\n{COMPUTE}",
        f"import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', {COMPUTE!r}])\n{WAIT}",
    ],
    ids=["in another thread", "in another process"],
)
def test_what_is_computed_while_a_function_is_at_work_counts(make: Make, code: str) -> None:
    release = threading.Event()
    box = make(functions={"stuck": lambda _: release.wait(60)})
    try:
        assert box.run(code, timeout=1).status == "timeout"
        assert not release.is_set()
        next_cell_works(box)
    finally:
        release.set()


def test_a_function_that_goes_on_after_its_cell_holds_up_no_later_one(make: Make) -> None:
    release, entered = threading.Event(), threading.Event()

    def stuck(_: object) -> bool:
        entered.set()
        return release.wait(60)

    box = make(functions={"stuck": stuck, "echo": lambda value: value})
    try:
        cell = box.stream(WAIT)
        consumer = threading.Thread(target=list, args=(cell,))
        consumer.start()
        assert entered.wait(20)
        box.interrupt()
        consumer.join(20)
        assert not consumer.is_alive()
        assert box.run("while True: pass", timeout=0.3).status == "timeout"
        assert box.run("from sandbox_guest.host import call\ncall('echo', 5)").result == "5"
        assert not release.is_set()
    finally:
        release.set()
