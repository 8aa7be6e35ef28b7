"""Runs in a Jupyter notebook: drawn in the cell, asked about with buttons, started with `%%codeact`."""

from __future__ import annotations

import sys
import threading


def here() -> bool:
    """Whether this is the thread of a notebook's kernel that executes its cells."""
    if "ipykernel" not in sys.modules or threading.current_thread() is not threading.main_thread():
        return False
    from IPython import get_ipython

    return hasattr(get_ipython(), "kernel")


def cell_number() -> int | None:
    """The number of the cell that is executed; None outside of IPython."""
    if "IPython" not in sys.modules:
        return None
    from IPython import get_ipython

    return getattr(get_ipython(), "execution_count", None)


def progress(line: str) -> None:
    """Shows what takes long before a run can go on, in the runs that are drawn. From any thread."""
    live = sys.modules.get("codeact.views.notebook.live")
    if live is not None:
        live.progress(line)
