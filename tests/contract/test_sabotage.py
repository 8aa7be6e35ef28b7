"""Cells that break what the next one stands on: it works all the same, or the loss is said and the one after it works."""

from __future__ import annotations

import pytest

from sandbox import Sandbox
from tests.contract.conftest import fine, next_cell_works, notices

FRONT_END = """
from ipykernel import get_connection_file
from jupyter_client import BlockingKernelClient
client = BlockingKernelClient()
client.load_connection_file(get_connection_file())
client.start_channels()
"""


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize(
    "code",
    [
        "import sys; sys.modules.clear()",
        "import sys; sys.displayhook = sys.excepthook = None",
        "import sys; sys.setswitchinterval(1000)",
        "import sys\ndef trace(*_): raise RuntimeError\nsys.settrace(trace)",
        "import builtins\nfor name in list(vars(builtins)):\n"
        "    if name != 'delattr':\n        try: delattr(builtins, name)\n        except BaseException: pass",
        "import zmq; zmq.Context.instance().destroy()",
        "import asyncio; asyncio.get_event_loop().stop()",
        "get_ipython().kernel.do_shutdown(False)",
        "get_ipython().run_cell = None",
        "get_ipython().kernel.pre_handler_hook = get_ipython().kernel.do_execute = None",
        "%reset -f",
        "import ctypes, threading\nfor t in threading.enumerate():\n"
        "    if t is not threading.main_thread():\n"
        "        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(t.ident), ctypes.py_object(SystemExit))",
        "import os\nfor name in os.listdir('/run/k'):\n"
        "    try: os.unlink(f'/run/k/{name}')\n    except OSError: pass",
        "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))",
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (1, 1))",
        "import os\nnull = os.open('/dev/null', os.O_RDWR)\n"
        "for fd in range(3, 60):\n    if fd != null: os.dup2(null, fd)",
        "import os; os.mkdir('away'); os.chdir('away'); os.rmdir('/workspace/away')",
        "import os; os.fork()",
        "import os; os.execv('/bin/sleep', ['sleep', '1000'])",
        "import signal\nfor n in range(1, 65):\n    try: signal.signal(n, signal.SIG_IGN)\n    except (OSError, ValueError): pass",
        "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))",
        f"{FRONT_END}client.shutdown()\nimport time; time.sleep(1)",
        f"{FRONT_END}client.execute('while True: pass')",
        f"{FRONT_END}client.execute('import os; os._exit(4)')",
        f"{FRONT_END}for _ in range(300): client.execute('print(1)')",
    ],
)
def test_the_next_cell_works_or_the_loss_is_said(fresh: Sandbox, code: str) -> None:
    fine(fresh.run("kept = 1"))
    cells = [fresh.run(code, timeout=2)]
    for _ in range(5):  # what is left of the code may hold up a cell or two
        cells.append(fresh.run("print('to stdout')\nkept", timeout=2))
        if (cells[-1].status, cells[-1].stdout) == ("ok", "to stdout\n"):
            break
        assert cells[-1].status != "ok"
        assert notices(cells[-1]) or cells[-1].error
    next_cell_works(fresh)
    there = cells[-1].result == "1"
    assert there or any(cell.lost for cell in cells) or "%reset" in code, cells
