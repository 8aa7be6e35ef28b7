"""A kernel of this machine without any sandbox: the floor of cells and starts."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager


@contextlib.contextmanager
def plain_kernel() -> Iterator[BlockingKernelClient]:
    manager = KernelManager(kernel_name="python3", transport="ipc")
    with tempfile.TemporaryDirectory() as folder:
        manager.ip = f"{folder}/k"
        manager.start_kernel(extra_arguments=["--HistoryManager.enabled=False"])
        client = manager.blocking_client()
        client.start_channels()
        try:
            client.wait_for_ready(timeout=60)
            yield client
        finally:
            client.stop_channels()
            manager.shutdown_kernel(now=True)


def execute(kernel: BlockingKernelClient, code: str) -> None:
    """Runs a cell until the kernel is idle and has replied, as the sandbox does."""
    request = kernel.execute(code, allow_stdin=False)
    while True:
        message = kernel.get_iopub_msg(timeout=120)
        if (
            message["parent_header"].get("msg_id") == request
            and message["content"].get("execution_state") == "idle"
        ):
            break
    while kernel.get_shell_msg(timeout=120)["parent_header"].get("msg_id") != request:
        pass
