"""The sandbox that users hold: start it, run cells in it, move files, stop it."""

from __future__ import annotations

import contextlib
import io
import queue
import threading
import time
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sandbox import images
from sandbox.backends import Backend
from sandbox.backends.docker import DockerBackend
from sandbox.bridge import Bridge
from sandbox.cells import CellRun
from sandbox.engine import find_engine
from sandbox.errors import FileError, SandboxClosed, SandboxError, StartError
from sandbox.files import Files
from sandbox.hostcalls import HostCalls, HostFunction
from sandbox.types import CellResult, FileInfo, Limits, Output

START_SECONDS = 60.0
KILL_ALL = ("-c", "import os; os.kill(-1, 9)")
WARDEN = ("-m", "sandbox_guest.warden")


class Sandbox:
    """A persistent Python kernel in a hardened container.

    `image` is the name of one of the images in `images/`. `timeout` is in seconds, for one cell. `inputs` are files and
    folders of the host by the name under which they lie, read-only, in `/workspace/data`. `functions` are what code
    inside may call on the host. `label` is written on the container, to find it again.

    A cell that fails never raises here: see `CellResult.status`. What is wrong with the sandbox itself raises a
    `SandboxError`. One sandbox may be used from several threads: cells run one after the other.
    """

    def __init__(
        self,
        image: str = "data",
        *,
        limits: Limits | None = None,
        timeout: float = 30.0,
        inputs: Mapping[str, Path] | None = None,
        functions: Mapping[str, HostFunction] | None = None,
        runtime: str | None = None,
        label: str = "",
    ) -> None:
        self.image = image
        self.limits = limits or Limits()
        self.timeout = timeout
        self._inputs = dict(inputs or {})
        self._functions = functions or {}
        self._runtime = runtime
        self._label = label
        self._backend: Backend | None = None
        self._bridge: Bridge | None = None
        self._calls: HostCalls | None = None
        self._files: Files | None = None
        self._running = threading.Lock()
        self._cell = 0
        self._kernel_up = False
        self._closed = False

    # -- life ----------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        self.close()

    def start(self) -> None:
        """Starts container and kernel; returns when the kernel answers. Raises a SandboxError, and leaves nothing."""
        if self._closed:
            raise SandboxClosed("this sandbox is closed; make a new one")
        try:
            self._start()
        except BaseException:
            self._tear_down()
            raise

    def _start(self) -> None:
        engine = find_engine()
        with contextlib.closing(engine.client()) as client:
            tag = images.find(client, self.image).tag
        backend = DockerBackend(
            engine, tag, limits=self.limits, inputs=self._inputs, runtime=self._runtime, label=self._label
        )
        self._backend = backend
        backend.start()
        self._calls = HostCalls(self._functions)
        self._bridge = self._calls.bridge = Bridge(backend.connect, self._calls.take)
        self._files = Files(self._bridge, int(self.limits.disk))
        failures: list[BaseException] = []
        warden = threading.Thread(target=self._start_warden, args=(backend, failures), daemon=True)
        warden.start()
        try:
            self._bridge.open()
            self._send_inputs(backend.mounted())
        finally:
            warden.join()
        if failures:
            raise failures[0]
        self._await_kernel()

    def _start_warden(self, backend: Backend, failures: list[BaseException]) -> None:
        try:
            backend.run_as_agent(WARDEN)
        except SandboxError as error:
            failures.append(error)

    def _await_kernel(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        bridge = self._connected()
        while not self._kernel_up:
            try:
                header, _ = bridge.events.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise StartError(f"the kernel did not come up within {START_SECONDS:g} seconds") from None
            match header.get("op"):
                case "kernel_up":
                    self._kernel_up = True
                case "kernel_died":
                    raise StartError(f"the kernel ended while it started (exit code {header.get('exit')})")
                case "lost":
                    raise StartError(f"the sandbox ended while it started: {header.get('reason')}")

    def close(self) -> None:
        """Ends and removes the sandbox. What runs in it is killed; nothing of it is kept. May be called twice."""
        self._closed = True
        self._tear_down()

    def _tear_down(self) -> None:
        bridge, self._bridge = self._bridge, None
        backend, self._backend = self._backend, None
        calls, self._calls = self._calls, None
        self._kernel_up = False
        if calls is not None:
            calls.close()
        if bridge is not None:
            bridge.close()
        if backend is not None:
            backend.stop()

    # -- cells ---------------------------------------------------------------------------------------------------

    def run(
        self, code: str, *, timeout: float | None = None, on_output: Callable[[Output], None] | None = None
    ) -> CellResult:
        """Runs one cell to its end. `on_output` gets each output as it comes."""
        cell = self.stream(code, timeout=timeout)
        while True:
            try:
                output = next(cell)
            except StopIteration as ended:
                result: CellResult = ended.value
                return result
            if on_output is not None:
                on_output(output)

    def stream(self, code: str, *, timeout: float | None = None) -> Generator[Output, None, CellResult]:
        """Runs one cell, yields its outputs as they come and returns its result; closing it interrupts the cell.

        A kernel that is gone is started afresh first, and the result says what was lost when it went.
        """
        with self._running:
            bridge = self._alive()
            self._cell += 1
            cell = CellRun(
                bridge,
                self._cell,
                timeout=self.timeout if timeout is None else timeout,
                rescue=self._kill_agent,
                memory_limit=size_text(int(self.limits.memory)),
            )
            result = yield from cell.stream(code, int(self.limits.output))
            if result.lost is not None:
                self._kernel_up = False
                if result.lost.startswith("everything"):
                    self._tear_down()
            return result

    def interrupt(self) -> None:
        """Interrupts the cell that runs now, if one does. May be called from any thread, and from a signal handler."""
        bridge = self._bridge
        if bridge is not None:
            bridge.events.put(({"op": "interrupt", "cell": self._cell}, b""))

    def restart(self) -> None:
        """A fresh kernel: variables and background processes are gone, files stay."""
        with self._running:
            self._kernel_up = False
            self._alive()

    def _alive(self) -> Bridge:
        """The bridge, with a kernel that can run a cell behind it."""
        if self._closed:
            raise SandboxClosed("this sandbox is closed; make a new one")
        if self._bridge is None or self._backend is None:
            self.start()
        elif not self._kernel_up:
            self._kill_agent()
            self._bridge.send({"op": "kernel"})
            self._backend.run_as_agent(WARDEN)
            self._await_kernel()
        return self._connected()

    def _kill_agent(self) -> None:
        if self._backend is not None:
            self._backend.run_as_agent(KILL_ALL)

    def _connected(self) -> Bridge:
        if self._bridge is None:
            raise SandboxClosed("this sandbox is not started: use it in a `with` block")
        return self._bridge

    # -- files ---------------------------------------------------------------------------------------------------

    def put(self, source: str | Path, path: str) -> None:
        """Copies a file of the host into the workspace; a folder with all that is in it. Raises FileError."""
        source = Path(source)
        try:
            if source.is_dir():
                for file in sorted(p for p in source.rglob("*") if p.is_file()):
                    self.put(file, f"{path.rstrip('/')}/{file.relative_to(source).as_posix()}")
                return
            with source.open("rb") as file_object:
                self._transfers().put(file_object, path, mode=0o444 if _is_input(path) else 0o664)
        except OSError as error:
            raise FileError(f"{source}: cannot be read on the host: {error.strerror}") from error

    def write(self, path: str, content: bytes | str) -> None:
        """Writes a file of the workspace. Raises FileError."""
        data = content.encode() if isinstance(content, str) else content
        self._transfers().put(io.BytesIO(data), path, mode=0o444 if _is_input(path) else 0o664)

    def get(self, path: str, target: str | Path) -> int:
        """Copies a file of the workspace to the host, whole or not at all; its size in bytes. Raises FileError."""
        return self._transfers().get_to(path, Path(target))

    def read(self, path: str) -> bytes:
        """A file of the workspace. Raises FileError."""
        content = io.BytesIO()
        self._transfers().get(path, content)
        return content.getvalue()

    def list(self, path: str = "") -> tuple[FileInfo, ...]:
        """All files and folders under a folder of the workspace. Raises FileError."""
        return self._transfers().list(path)

    def _transfers(self) -> Files:
        self._connected()
        assert self._files is not None
        return self._files

    def _send_inputs(self, mounted: frozenset[str]) -> None:
        for name, source in self._inputs.items():
            if name not in mounted:
                self.put(source, f"data/{name}")


def _is_input(path: str) -> bool:
    return path.removeprefix("/workspace/").startswith("data/")


def size_text(size: float) -> str:
    """Bytes as people read them: `1.5 GiB`."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            return f"{size:.3g} {unit}"
        size /= 1024
    raise AssertionError
