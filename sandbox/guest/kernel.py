"""The kernel: ipykernel, set up so that outputs keep their order and errors speak of the author's own lines."""

from __future__ import annotations

import builtins
import contextlib
import contextvars
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from types import FrameType, TracebackType
from typing import Any, ClassVar

import zmq
from ipykernel.iostream import OutStream
from ipykernel.ipkernel import IPythonKernel
from ipykernel.kernelapp import IPKernelApp
from ipykernel.zmqshell import ZMQInteractiveShell
from IPython.core.error import UsageError
from jupyter_client.jsonutil import json_default
from traitlets import Type

from . import installed, tracebacks
from .more_time import more_time
from .variables import survey

WORKSPACE = "/workspace/"
SENDING_SECONDS = 0.0005
MAX_UNSENT = 1024 * 1024
"""Characters that may wait to be sent: code that prints faster than that waits, and fills no memory."""


class OrderedStream(OutStream):
    """Writes to stdout and stderr reach the host in the order they were made: a change of stream flushes the other."""

    last: ClassVar[OrderedStream | None] = None
    _unsent = 0

    def write(self, string: str) -> int:
        other = OrderedStream.last
        if other is not self:
            OrderedStream.last = self
            if other is not None and other.pub_thread is not None:
                other.flush()
        written = super().write(string) or 0
        self._unsent += written
        if self._unsent > MAX_UNSENT:
            self.flush()
        return written

    def flush(self) -> None:
        """Also gives ZMQ's own thread the time to send: a cell that crashes now has its last words heard."""
        super().flush()  # type: ignore[no-untyped-call]
        if self._unsent:
            self._unsent = 0
            time.sleep(SENDING_SECONDS)

    def close(self) -> None:
        """Nothing: a cell that closes its output would take it from all cells after it."""


class Shell(ZMQInteractiveShell):
    def init_environment(self) -> None:
        os.environ.update(TERM="dumb", NO_COLOR="1", PAGER="cat", GIT_PAGER="cat")

    def ask_exit(self) -> None:
        """`exit()` and `quit()` end a person's session; here they would only lose the variables."""
        print("exit() does nothing here: the kernel and its variables stay", file=sys.stderr)

    def showtraceback(
        self,
        exc_tuple: tuple[type[BaseException], BaseException, TracebackType] | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        kind, error, _ = self._get_exc_info(exc_tuple)  # type: ignore[no-untyped-call]
        if isinstance(error, UsageError):
            self.show_usage_error(error)  # type: ignore[no-untyped-call]
        self._showtraceback(kind, error, tracebacks.brief(error, self._name_of))  # type: ignore[no-untyped-call]

    def showsyntaxerror(self, filename: str | None = None, running_compiled_code: bool = False) -> None:
        self.showtraceback()

    def _name_of(self, file: str) -> str | None:
        cell = self.compile.format_code_name(file)
        if cell:
            return f"Cell {self.compile._filename_map.get(file, '?')}"
        name = file.removeprefix(WORKSPACE)
        if name == file or name.startswith("."):  # a hidden folder holds what others put there for the author
            return None
        return name


class Kernel(IPythonKernel):
    shell_class = Type(Shell)

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)  # type: ignore[no-untyped-call]
        self._sound = (builtins.__import__, builtins.print, sys.stdout, sys.stderr)
        self._begun = f"{sys.argv[1].removesuffix('.json')}.begun"
        self._interrupted = self._in_cell = False

    def start(self) -> None:
        super().start()  # type: ignore[no-untyped-call]
        sys.breakpointhook = (
            sys.__breakpointhook__
        )  # the debugger's own does nothing where no debugger is attached
        builtins.more_time = more_time  # type: ignore[attr-defined]
        attribute_threads()  # all that are started from here on: the kernel's own are no cell's

    async def do_execute(self, *args: Any, **kwargs: Any) -> Any:
        """Runs a cell, and puts back what the next one cannot do without, whatever this one did to it.

        The reply to a cell that was interrupted tells which variables there are.
        """
        self._tell_begun()
        self._in_cell = True
        try:
            if self._interrupted:  # before there was anything to interrupt
                raise KeyboardInterrupt
            reply = await super().do_execute(*args, **kwargs)  # type: ignore[no-untyped-call]
        finally:
            self._in_cell = False
            builtins.__import__, builtins.print, sys.stdout, sys.stderr = self._sound
        ended_by = reply.get("ename")
        if self._interrupted or ended_by in ("KeyboardInterrupt", "CancelledError"):  # the latter: an await
            with contextlib.suppress(Exception):  # whatever it finds, the cell has ended
                reply["variables"] = survey(self.shell.user_ns, self.shell.user_ns_hidden)  # type: ignore[union-attr]
        return reply

    def _tell_begun(self) -> None:
        """Where a kernel that dies at once cannot take it back: a cell that had begun is never run a second time."""
        request = self.get_parent("shell")["header"]["msg_id"]  # type: ignore[no-untyped-call]
        with contextlib.suppress(Exception), open(self._begun, "w") as file:
            file.write(request)

    def pre_handler_hook(self) -> None:
        self._interrupted = False
        self.saved_sigint_handler = signal.signal(signal.SIGINT, self._interrupt)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        """Raised in the code of a cell, and nowhere else: it would end the kernel's own loop."""
        self._interrupted = True
        if self._in_cell:
            signal.default_int_handler(number, frame)


class KernelApp(IPKernelApp):
    def init_iopub(self, context: zmq.Context[Any]) -> None:
        # a kernel that prints faster than it is read waits; else messages are lost, the end of the cell among them
        context.setsockopt(zmq.XPUB_NODROP, 1)
        super().init_iopub(context)  # type: ignore[no-untyped-call]


def pack(message: Any) -> bytes:
    """A message as JSON in ASCII: a lone surrogate in a text would else lose the whole message."""
    return json.dumps(message, default=json_default).encode()


def attribute_threads() -> None:
    """Threads write for the cell that started them, and work in a pool for the one that handed it over."""
    start, submit = threading.Thread.start, ThreadPoolExecutor.submit

    def start_in_context(self: threading.Thread) -> None:
        self.run = partial(contextvars.copy_context().run, self.run)  # type: ignore[method-assign]
        start(self)

    def submit_in_context(
        self: ThreadPoolExecutor, work: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> Future[Any]:
        return submit(self, contextvars.copy_context().run, work, *args, **kwargs)

    threading.Thread.start = start_in_context  # type: ignore[method-assign]
    ThreadPoolExecutor.submit = submit_in_context  # type: ignore[method-assign, assignment]


def main() -> None:
    sys.path.append(WORKSPACE.rstrip("/"))  # last, so that no file of the workspace takes a module's place
    installed.set_up()
    KernelApp.launch_instance(
        [
            *("-f", sys.argv[1]),
            "--HistoryManager.enabled=False",
            "--InteractiveShell.colors=nocolor",
            f"--Session.packer={__package__}.kernel.pack",
        ],
        kernel_class=Kernel,
        outstream_class=f"{__package__}.kernel.OrderedStream",
    )


if __name__ == "__main__":
    # by its name, so that the classes above are not loaded a second time as `__main__`
    from . import kernel

    kernel.main()
