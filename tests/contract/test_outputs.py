"""What a cell writes, shows and raises: all of it, in order, as it comes, and harmless."""

from __future__ import annotations

import base64

from sandbox import CellError, Rich, Sandbox, Stream
from tests.contract.conftest import Make, fine, next_cell_works, notices, value


def test_the_order_of_outputs(box: Sandbox) -> None:
    cell = box.run(
        "import sys\n"
        "print('one')\nprint('two', file=sys.stderr)\ndisplay({'text/plain': 'three'}, raw=True)\nprint('four')\n"
        "print('five', file=sys.stderr)\n1 / 0"
    )
    assert cell.status == "error"
    *written, error = cell.outputs
    assert written == [
        Stream("stdout", "one\n"),
        Stream("stderr", "two\n"),
        Rich("display", {"text/plain": "three"}),
        Stream("stdout", "four\n"),
        Stream("stderr", "five\n"),
    ]
    assert isinstance(error, CellError)
    assert (error.name, error.message) == ("ZeroDivisionError", "division by zero")
    assert error.traceback.splitlines() == [
        "Traceback (most recent call last):",
        f"  {error.traceback.splitlines()[1].split(',')[0].strip()}, line 7, in <module>",
        "    1 / 0",
        "ZeroDivisionError: division by zero",
    ]


def test_the_result_is_the_last_expression(box: Sandbox) -> None:
    assert box.run("'a' + 'b'").result == "'ab'"
    assert box.run("x = 1").result is None
    assert box.run("").status == "ok"


def test_outputs_come_while_the_cell_runs(box: Sandbox) -> None:
    """The cell ends only when it sees a file that is written after its first output has arrived here."""
    cell = box.stream(
        "import os, time\nprint('first', flush=True)\nwhile not os.path.exists('go'): time.sleep(0.01)\nprint('second')",
        timeout=20,
    )
    assert next(cell) == Stream("stdout", "first\n")
    box.write("go", b"")
    assert list(cell) == [Stream("stdout", "second\n")]


def test_terminal_sequences_surrogates_and_progress_bars(box: Sandbox) -> None:
    cell = fine(
        box.run(
            r"""print('\x1b[31mred\x1b[0m \x1b]0;title\x07plain \x1b]8;;http://x\x1b\\link')
print('a\ud800b')
import sys
for i in range(0, 101, 10): print(f'\r{i}%', end='', flush=True)
print()
sys.stdout.write('\x1b[3'); sys.stdout.flush(); sys.stdout.write('1mcut\x1b[0m\n'); sys.stdout.flush()
print('bell\x07 null\x00 back\x08')"""
        )
    )
    assert cell.stdout.splitlines() == ["red plain link", "a?b", "100%", "cut", "bell null back"]


def test_a_figure_arrives_as_a_picture(make: Make) -> None:
    box = make(image="data")
    cell = fine(box.run("import matplotlib.pyplot as plt\nplt.plot([1, 2, 3])\nplt.show()", timeout=60))
    assert [image.mime for image in cell.images] == ["image/png"]
    assert base64.b64decode(cell.images[0].base64)[:8] == b"\x89PNG\r\n\x1a\n"


def test_what_was_written_before_an_end_is_kept(fresh: Sandbox) -> None:
    for code, status in [
        ("print('before'); raise ValueError", "error"),
        ("print('before')\nwhile True: pass", "timeout"),
        ("print('before', flush=True)\nimport os, time; time.sleep(0.1); os._exit(1)", "died"),
    ]:
        cell = fresh.run(code, timeout=3 if status == "timeout" else 60)
        assert (cell.status, cell.stdout) == (status, "before\n")
    next_cell_works(fresh)


def test_children_that_print_are_heard(box: Sandbox) -> None:
    cell = fine(
        box.run("import subprocess\nsubprocess.run(['echo', 'from a child']).returncode\n!echo from a shell")
    )
    assert "from a child" in cell.stdout
    assert "from a shell" in cell.stdout


def test_a_thread_that_prints_late_is_labelled(box: Sandbox) -> None:
    """It prints when the next cell says so, and is not taken for a part of that one."""
    fine(
        box.run(
            "import threading, io, contextvars\ngo, gone = threading.Event(), threading.Event()\n"
            "def late():\n    go.wait(20); print('late words', flush=True); gone.set()\n"
            "threading.Thread(target=late).start()"
        )
    )
    cell = fine(box.run("go.set(); gone.wait(20); print('own words')"))
    following = box.run("")
    said = notices(cell) + notices(following)
    assert cell.stdout == "own words\n"
    assert "late words" in said
    assert "earlier cell" in said


def test_replaced_and_closed_streams_last_for_one_cell(box: Sandbox) -> None:
    for code in [
        "import sys; sys.stdout = None",
        "import sys; sys.stdout.close()",
        "import sys; sys.stderr.close()",
        "import io, sys; sys.stdout = sys.stderr = io.StringIO()",
        "import builtins; builtins.print = None",
        "import builtins; builtins.__import__ = None",
        "print = None; del print",
    ]:
        box.run(code)
        next_cell_works(box)


def test_closed_descriptors(fresh: Sandbox) -> None:
    fresh.run("import os\nos.close(1); os.close(2)")
    next_cell_works(fresh)
    fresh.run("import os\nos.closerange(3, 1000)", timeout=3)
    cell = fresh.run("1")
    if cell.status != "ok":  # the loss was said; the kernel after it works
        assert cell.lost
    next_cell_works(fresh)


def test_errors_in_files_of_the_workspace_name_them(box: Sandbox) -> None:
    box.write("helper.py", "def broken():\n    return {}['key']\n")
    cell = box.run("import helper\nhelper.broken()")
    assert cell.error is not None
    assert "  helper.py, line 2, in broken" in cell.error.traceback
    assert value(box, "value = 1") == 1
