"""Every limit is set, and holds."""

from __future__ import annotations

import pytest

from sandbox import Dropped, Limits, Sandbox, Stream
from tests.contract.conftest import Make, fine, next_cell_works, notices, value

CGROUP = """
def first(*paths):
    for path in paths:
        try:
            return open(path).read().split()
        except OSError:
            pass
"""


@pytest.mark.needs("memory", "pids", "cpus")
def test_what_the_control_group_says(make: Make) -> None:
    box = make(limits=Limits(memory="300m", cpus=0.5, pids=100))
    root = "/sys/fs/cgroup"
    memory = value(
        box, f"{CGROUP}\nvalue = first('{root}/memory.max', '{root}/memory/memory.limit_in_bytes')"
    )
    assert memory == [str(300 * 1024**2)]
    assert value(box, f"value = first('{root}/pids.max', '{root}/pids/pids.max')") == ["100"]
    quota, period = value(
        box,
        f"value = first('{root}/cpu.max') or "
        f"first('{root}/cpu/cpu.cfs_quota_us') + first('{root}/cpu/cpu.cfs_period_us')",
    )
    assert int(quota) / int(period) == 0.5
    swap = value(box, f"value = first('{root}/memory.swap.max', '{root}/memory/memory.memsw.limit_in_bytes')")
    assert swap in (["0"], [str(300 * 1024**2)])


def test_resource_limits_of_processes(box: Sandbox) -> None:
    limits = value(
        box,
        "import resource as r\nvalue = [r.getrlimit(r.RLIMIT_NOFILE), r.getrlimit(r.RLIMIT_CORE), r.getrlimit(r.RLIMIT_FSIZE)]",
    )
    assert limits == [[1024, 1024], [0, 0], [512 * 1024**2, 512 * 1024**2]]


@pytest.mark.needs("memory")
def test_a_memory_bomb_is_named_and_files_stay(make: Make) -> None:
    box = make(limits=Limits(memory="256m"))
    fine(box.run("open('kept.txt', 'w').write('here'); print('before')"))
    cell = box.run("print('last words', flush=True)\nx = [bytearray(10**7) for _ in range(100)]")
    assert (cell.status, cell.lost, cell.stdout) == ("died", "all variables", "last words\n")
    assert "the memory limit of 256 MiB was reached" in notices(cell)
    assert box.read("kept.txt") == b"here"
    next_cell_works(box)


@pytest.mark.needs("memory")
def test_a_child_killed_for_memory_is_told_of(make: Make) -> None:
    box = make(limits=Limits(memory="256m"))
    cell = box.run(
        "import subprocess, sys\n"
        'code = \'open("/proc/self/oom_score_adj", "w").write("1000"); x = [bytearray(10**7) for _ in range(100)]\'\n'
        "subprocess.run([sys.executable, '-c', code]).returncode"
    )
    assert (cell.status, cell.result) == ("ok", "-9")
    assert "the memory limit of 256 MiB was reached" in notices(cell)
    next_cell_works(box)


@pytest.mark.needs("pids")
def test_fork_bomb_thread_storm_and_descriptors(make: Make) -> None:
    box = make(limits=Limits(pids=64))
    fork = box.run("import os, time\nfor _ in range(1000):\n    if os.fork() == 0: time.sleep(1000)")
    assert fork.error is not None
    assert fork.error.name == "BlockingIOError"
    box.restart()
    next_cell_works(box)
    threads = box.run(
        "import threading, time\nfor _ in range(1000): threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()"
    )
    assert threads.error is not None
    assert "can't start new thread" in threads.error.message
    box.restart()
    next_cell_works(box)
    files = box.run("opened = [open('/dev/null') for _ in range(5000)]")
    assert files.error is not None
    assert "Too many open files" in files.error.message
    box.run("opened = None")
    box.restart()
    next_cell_works(box)


@pytest.mark.needs("disk", "files")
def test_disk_inodes_and_file_size(make: Make) -> None:
    box = make(limits=Limits(disk="20m", files=200))
    full = box.run("open('/workspace/big', 'wb').write(bytes(30 * 2**20))")
    assert full.error is not None
    assert full.error.name == "OSError"
    assert "No space left" in full.error.message or "File too large" in full.error.message
    box.run("import os\nos.unlink('/workspace/big')")
    pieces = box.run("for i in range(30): open(f'/workspace/p{i}', 'wb').write(bytes(2**20))")
    assert pieces.error is not None
    assert "No space left" in pieces.error.message
    next_cell_works(box)
    box.run("for i in range(30):\n    try: os.unlink(f'/workspace/p{i}')\n    except OSError: pass")
    many = box.run("for i in range(1000): open(f'/workspace/n{i}', 'w').close()")
    assert many.error is not None
    assert "No space left" in many.error.message
    box.restart()  # a kernel comes up in a full workspace, too
    next_cell_works(box)


def test_full_temporary_folders_do_not_keep_a_kernel_from_starting(fresh: Sandbox) -> None:
    fine(
        fresh.run(
            "for folder in ('/tmp', '/run/k'):\n"
            "    try:\n"
            "        with open(folder + '/full', 'wb', buffering=0) as f:\n"
            "            while True: f.write(bytes(65536))\n"
            "    except OSError: pass"
        )
    )
    fresh.restart()
    next_cell_works(fresh)


def test_output_is_capped_with_its_end_kept_and_the_loss_counted(make: Make) -> None:
    box = make(limits=Limits(output="10k"))
    cell = fine(box.run("print('first line')\nprint('x' * 50_000)\nprint('last line')"))
    dropped = [output.bytes for output in cell.outputs if isinstance(output, Dropped)]
    written = len("first line\n" + "x" * 50_000 + "\n" + "last line\n")
    assert len(dropped) == 1
    assert len(cell.stdout) + dropped[0] == written
    assert 5_000 < len(cell.stdout) <= 10 * 1024
    assert cell.stdout.startswith("first line\nxxx")
    assert cell.stdout.endswith("xxx\nlast line\n")
    next_cell_works(box)


def test_endless_output_is_stopped_and_said(make: Make) -> None:
    box = make(limits=Limits(output="10k"))
    fine(box.run("kept = 1"))
    cell = box.run("while True: print('x' * 1000)", timeout=300)
    assert cell.status == "interrupted"
    assert "far more output" in notices(cell)
    assert len(cell.stdout) <= 10 * 1024
    assert sum(output.bytes for output in cell.outputs if isinstance(output, Dropped)) > 64 * 10 * 1024
    assert box.run("kept").result == "1"


@pytest.mark.parametrize(
    "code",
    [
        "import sys\nwhile True: print('x' * 1000, file=sys.stderr)",
        "import os\nwhile True: os.write(1, b'x' * 1000)",
        "import os\nwhile True: os.write(2, bytes(range(256)) * 10)",
        "import subprocess; subprocess.run(['yes'])",
        "!yes",
        "import sys\ni = 0\nwhile True: sys.stdout.write(f'\\r{i}'); i += 1",
        "while True: print('', end='x', flush=True)",
        "while True: print('\\ud800' * 1000)",
        "while True: print('\\x00' * 100_000)",
        "import threading\ndef f():\n    while True: print('x' * 100)\n"
        "threads = [threading.Thread(target=f, daemon=True) for _ in range(50)]\n"
        "for t in threads: t.start()\nfor t in threads: t.join()",
        "import warnings\nwarnings.simplefilter('always')\nwhile True: warnings.warn('x' * 1000)",
        "while True: display({'text/html': '<b>' * 1000}, raw=True)",
    ],
)
def test_floods_of_every_kind_are_stopped_and_fill_no_memory(make: Make, code: str) -> None:
    box = make(limits=Limits(output="10k", memory="300m"))
    fine(box.run("kept = 1"))
    cell = box.run(code, timeout=300)
    # fifty that compete with the one that is to be interrupted: it may not come to its turn in time
    threads = "threading" in code
    assert cell.status == "interrupted"
    assert cell.lost is None or threads, cell
    assert "far more output" in notices(cell)
    # three quarters first, then one before each error, of which there may be four, and one at the end
    assert sum(len(output.text) for output in cell.outputs if isinstance(output, Stream)) <= 2 * 10 * 1024
    assert sum(output.bytes for output in cell.outputs if isinstance(output, Dropped)) > 0
    if threads:  # they go on, and are heard of as what they are
        box.restart()
    else:
        assert box.run("kept").result == "1"
    next_cell_works(box)


def test_a_giant_line(box: Sandbox) -> None:
    cell = fine(box.run("print('y' * 50_000_000)"))
    dropped = sum(output.bytes for output in cell.outputs if isinstance(output, Dropped))
    assert len(cell.stdout) + dropped == 50_000_001
    next_cell_works(box)


def test_a_flood_of_displays(box: Sandbox) -> None:
    cell = box.run("for i in range(20_000): display({'text/plain': ''}, raw=True)\nprint('end')", timeout=300)
    assert cell.status in ("ok", "interrupted")
    assert len(cell.outputs) < 20_000
    assert any(isinstance(output, Dropped) for output in cell.outputs)
    next_cell_works(box)


def test_a_flood_of_shown_errors(make: Make) -> None:
    box = make(limits=Limits(output="10k"))
    cell = fine(
        box.run("try: 1/0\nexcept ZeroDivisionError:\n    for _ in range(500): get_ipython().showtraceback()")
    )
    assert len(cell.outputs) < 60
    next_cell_works(box)
