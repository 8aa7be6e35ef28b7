"""The kernel: ipykernel, set up so that outputs keep their order and errors speak of the author's own lines."""

from __future__ import annotations

import os
import sys
from types import TracebackType
from typing import Any, ClassVar

from ipykernel.iostream import OutStream
from ipykernel.ipkernel import IPythonKernel
from ipykernel.kernelapp import IPKernelApp
from ipykernel.zmqshell import ZMQInteractiveShell
from IPython.core.error import UsageError
from traitlets import Type

from . import tracebacks

WORKSPACE = "/workspace/"


class OrderedStream(OutStream):  # type: ignore[misc]
    """Writes to stdout and stderr reach the host in the order they were made: a change of stream flushes the other."""

    last: ClassVar[OrderedStream | None] = None

    def write(self, string: str) -> int | None:
        other = OrderedStream.last
        if other is not self:
            OrderedStream.last = self
            if other is not None and other.pub_thread is not None:
                other.flush()
        written: int | None = super().write(string)
        return written


class Shell(ZMQInteractiveShell):  # type: ignore[misc]
    def init_environment(self) -> None:
        os.environ.update(TERM="dumb", NO_COLOR="1", PAGER="cat", GIT_PAGER="cat")

    def showtraceback(
        self,
        exc_tuple: tuple[type[BaseException], BaseException, TracebackType] | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        kind, error, _ = self._get_exc_info(exc_tuple)
        if isinstance(error, UsageError):
            self.show_usage_error(error)
        self._showtraceback(kind, error, tracebacks.brief(error, self._name_of))

    def showsyntaxerror(self, filename: str | None = None, running_compiled_code: bool = False) -> None:
        self.showtraceback()

    def _name_of(self, file: str) -> str | None:
        cell = self.compile.format_code_name(file)
        if cell:
            return f"Cell {self.compile._filename_map.get(file, '?')}"
        if file.startswith(WORKSPACE):
            return file.removeprefix(WORKSPACE)
        return None


class Kernel(IPythonKernel):  # type: ignore[misc]
    shell_class = Type(Shell)


def main() -> None:
    sys.path.append(WORKSPACE.rstrip("/"))  # last, so that no file of the workspace takes a module's place
    IPKernelApp.launch_instance(
        ["-f", sys.argv[1], "--HistoryManager.enabled=False", "--InteractiveShell.colors=nocolor"],
        kernel_class=Kernel,
        outstream_class=f"{__package__}.kernel.OrderedStream",
    )


if __name__ == "__main__":
    # by its name, so that the classes above are not loaded a second time as `__main__`
    from . import kernel

    kernel.main()
