"""The sandbox that users hold: start it, run cells in it, move files, stop it."""

from __future__ import annotations

import contextlib
import io
import queue
import threading
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from sandbox import given
from sandbox.backends import Backend, Ended
from sandbox.backends.choice import choose, make_backend
from sandbox.bridge import MAX_QUEUED, Bridge
from sandbox.cells import LOST_VARIABLES, CellRun, death, late
from sandbox.errors import ConnectionLost, FileError, SandboxClosed, SandboxError, StartError
from sandbox.files import Files, check_input_name, files_below
from sandbox.guest import more_time
from sandbox.hostcalls import HostCalls, HostFunction, WithCall
from sandbox.image_packages import parse
from sandbox.network import Network
from sandbox.turns import Turns
from sandbox.types import BackendName, CellResult, Connection, FileInfo, Limits, Notice, Output
from sandbox.types import size_text as size_text

if TYPE_CHECKING:
    from sandbox.network_proxy import Proxy
from sandbox.queueing import turn_to_start

START_SECONDS = 60.0
RESTART_SECONDS = 30.0
RESCUE_SECONDS, RESCUE_LOOK_SECONDS = 5.0, 0.02
"""The same for a kernel in a sandbox that runs already; then the sandbox is given up and started afresh."""
KILL_ALL = ("-c", "import os; os.kill(-1, 9)")
ATTEMPTS = 2
"""How often a cell is sent when its kernel is found dead before it has begun."""
WARDEN = ("-m", "sandbox_guest.warden")
WARDENS = 3
"""How often what starts a kernel is started, when it is ended before there is one."""
LOOK_SECONDS = 0.2
"""Seconds between looks whether it has been."""


class Sandbox:
    """A persistent Python kernel in a hardened container.

    `image` is the name of one of the images in `images/`. `timeout` is in seconds, for one cell. `inputs` are files and
    folders of the host by the name under which they lie, read-only, in `/workspace/data`. `max_timeout` is up to how many
    seconds, in all, the code of a cell may ask for more with `more_time`; it gets none by default. `functions` are what code
    inside may call on the host. `label` is written on the container, to find it again. `backend` is what contains the
    code: an engine where one answers, else bubblewrap, or the one that is named; `runtime` is one of the engine's.

    `network` says which hosts the code may reach: `"api.example.com,*.example.org"`, the same one by one, or a `Network`;
    none by default. `on_connection` gets each connection when it is over, on another thread; it must not raise or block.

    `packages` (`"name"`, `"name==1.2"`) are on top of the image's: the first sandbox that asks for them builds an image,
    those after it start from that; `on_progress` gets a line for each step. Raises ValueError for what is not what a setting
    takes, a host or a package.

    A cell that fails never raises here: see `CellResult.status`. What is wrong with the sandbox itself raises a
    `SandboxError`. One sandbox may be used from several threads: cells run one after the other.
    """

    def __init__(
        self,
        image: str = "data",
        *,
        limits: Limits | None = None,
        timeout: float = 30.0,
        max_timeout: float | None = None,
        network: str | Iterable[str] | Network | None = None,
        on_connection: Callable[[Connection], None] = lambda connection: None,
        packages: Iterable[str] = (),
        on_progress: Callable[[str], None] = lambda line: None,
        inputs: Mapping[str, Path] | None = None,
        functions: Mapping[str, HostFunction | WithCall] | None = None,
        runtime: str | None = None,
        label: str = "",
        backend: BackendName = "auto",
    ) -> None:
        given.check_settings(
            image=image,
            limits=limits,
            timeout=timeout,
            max_timeout=max_timeout,
            network=network,
            on_connection=on_connection,
            packages=packages,
            on_progress=on_progress,
            inputs=inputs,
            functions=functions,
            runtime=runtime,
            label=label,
            backend=backend,
        )
        self.image = image
        self.limits = limits or Limits()
        self.timeout = timeout
        self.max_timeout = timeout if max_timeout is None else max_timeout
        self._inputs = dict(inputs or {})
        self._functions = functions or {}
        self._network = network if network is None or isinstance(network, Network) else Network.parse(network)
        self._on_connection = on_connection
        self._packages = [str(parse(package)) for package in packages]
        self._on_progress = on_progress
        self._runtime = runtime
        self._label = label
        self.backend: BackendName = backend
        """What was asked for; from the start on what it is, `docker` or `bubblewrap`."""
        self.notice: str | None = None
        """One line, where no engine answered: what contains the code instead, and what is weaker for it."""
        self.unenforced: Mapping[str, str] = {}
        """What cannot be enforced here → one line why; known from the start on."""
        self._backend: Backend | None = None
        self._bridge: Bridge | None = None
        self._calls: HostCalls | None = None
        self._files: Files | None = None
        self._proxy: Proxy | None = None
        self._warden_ended: Ended = lambda: False
        self._turns = Turns()
        self._stopping = threading.RLock()
        self._cell = 0
        self._kernel_up = False
        self._untold: str | None = None
        """What was lost, and in no cell's result yet."""
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
        """Starts container and kernel; returns when the kernel answers, at once where it is started.

        Raises a SandboxError, and leaves nothing.
        """
        for name in self._inputs:
            check_input_name(name)
        if self._closed:
            raise SandboxClosed("this sandbox is closed; make a new one")
        if self._backend is not None:
            return
        try:
            self._start()
        except BaseException:
            self._tear_down()
            raise

    def _start(self) -> None:
        chosen = choose(self.backend, self._runtime)
        self.backend = chosen.name
        if chosen.notice is not None:
            self.notice = chosen.notice
            self._on_progress(chosen.notice)
        backend = make_backend(
            chosen,
            self.image,
            self._packages,
            self._on_progress,
            limits=self.limits,
            inputs=self._inputs,
            runtime=self._runtime,
            label=self._label,
            network=self._network is not None,
        )
        self.unenforced = backend.unenforced
        try:
            with turn_to_start(chosen.engine.url if chosen.engine else chosen.name, lambda: self._closed):
                self._bring_up(backend)
            if self._closed:
                raise SandboxClosed("this sandbox was closed while it started")
        except BaseException:
            if self._backend is not backend:  # not ours yet, or no more, since another thread closed us
                self._stop(backend)
            raise

    def _bring_up(self, backend: Backend) -> None:
        self._backend = backend
        backend.start()
        self._calls = HostCalls(self._functions)
        max_queued = MAX_QUEUED + 2 * int(self.limits.output)
        self._bridge = self._calls.bridge = Bridge(
            backend.connect, self._take_call, on_net=self._take_net, max_queued=max_queued
        )
        if self._network is not None:
            from sandbox.network_proxy import Proxy  # brings asyncio and h11 with it

            self._proxy = Proxy(self._network, self._bridge.send, self._connection_ended)
        self._files = Files(self._bridge, int(self.limits.disk))
        failures: list[BaseException] = []
        warden = threading.Thread(target=self._start_warden, args=(backend, failures), daemon=True)
        warden.start()
        try:
            self._bridge.open()
            self._send_inputs(backend.mounted())
        except ConnectionLost as error:
            raise self._not_up("sandbox", str(error)) from error
        finally:
            warden.join()
        if failures:
            raise failures[0]
        self._await_kernel(START_SECONDS)

    def _take_call(self, header: dict[str, Any], body: bytes) -> None:
        """Time is given by whoever waits for the cell to end; all other calls are the functions' own."""
        if header.get("name") == more_time.NAME:
            self._connected().events.put(header, body)
        elif self._calls is not None:
            self._calls.take(header, body)

    def _start_warden(self, backend: Backend, failures: list[BaseException]) -> None:
        try:
            self._warden_ended = backend.run_as_agent(WARDEN, within=START_SECONDS)
        except SandboxError as error:
            failures.append(error)

    def _await_kernel(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        bridge = self._connected()
        wardens = 1
        while not self._kernel_up:
            left = deadline - time.monotonic()
            try:
                header, _ = bridge.events.get(min(left, LOOK_SECONDS))
            except queue.Empty:
                if left <= 0:
                    raise self._not_up("kernel", f"it said nothing for {seconds:g} seconds") from None
                if self._warden_ended():
                    wardens += 1
                    self._start_another_warden(wardens)
                continue
            match header.get("op"):
                case "kernel_up":
                    self._kernel_up = True
                case "kernel_died":
                    raise self._not_up("kernel", death(header, int(self.limits.memory)))
                case "lost":
                    raise self._not_up("sandbox", str(header.get("reason")))

    def _not_up(self, what: str, reason: str) -> StartError:
        limits = self.limits
        allowed = f"{size_text(int(limits.memory))} of memory, {limits.pids} processes, {size_text(int(limits.disk))} of disk"
        return StartError(
            f"the {what} did not come up: {reason}; raise the limit that is too low ({allowed}), or see `codeact doctor`"
        )

    def close(self) -> None:
        """Ends and removes the sandbox. What runs in it is killed; nothing of it is kept. May be called twice."""
        self._closed = True
        self._tear_down()

    def _start_another_warden(self, number: int) -> None:
        if number > WARDENS:
            raise self._not_up(
                "kernel",
                f"{WARDENS} times, what starts it was killed at once, by another process or by the memory limit",
            )
        if self._backend is not None:
            self._warden_ended = self._backend.run_as_agent(WARDEN, within=RESTART_SECONDS)

    def _take_net(self, header: dict[str, Any], body: bytes) -> None:
        if self._proxy is not None:
            self._proxy.take(header, body)

    def _connection_ended(self, connection: Connection) -> None:
        """What the code cannot see at its end of a connection is said in the cell's outputs."""
        if connection.outcome == "cut" and self._bridge is not None:
            said = f"the connection to {connection.host} was ended: {connection.reason}"
            self._bridge.events.tell({"op": "notice", "cell": self._cell, "text": said})
        self._on_connection(connection)

    def end_connections(self) -> None:
        """Ends the network connections that are open; each has been told to `on_connection` when this returns."""
        if self._proxy is not None:
            self._proxy.end_connections()

    def _tear_down(self) -> None:
        bridge, self._bridge = self._bridge, None
        backend, self._backend = self._backend, None
        calls, self._calls = self._calls, None
        proxy, self._proxy = self._proxy, None
        self._kernel_up = False
        try:
            if calls is not None:
                calls.close()
            if bridge is not None:
                bridge.close()
            if proxy is not None:  # after the bridge: what it still has to say waits for nobody
                proxy.close()
        finally:
            if backend is not None:
                self._stop(backend)

    # -- for a pool ----------------------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        """Whether `close()` was called."""
        return self._closed

    def answers(self, seconds: float) -> bool:
        """Whether the kernel runs an empty cell in so many seconds, and nothing was lost; nothing is mended."""
        self._turns.check()
        with self._turns.lock:
            if self._backend is None or self._settle()[1] is not None or not self._kernel_up:
                return False
            cell = self._stream(self._next_cell([], seconds, seconds), "")
            while True:
                try:
                    next(cell)
                except StopIteration as ended:
                    result: CellResult = ended.value
                    return result.status == "ok" and result.lost is None

    def hand_over(
        self,
        *,
        inputs: Mapping[str, Path],
        functions: Mapping[str, HostFunction | WithCall],
        on_connection: Callable[[Connection], None],
        label: str,
    ) -> None:
        """Gives a started sandbox to its user, with what is that user's; inputs are sent. Raises FileError."""
        for name in inputs:
            check_input_name(name)
        self._inputs, self._functions, self._on_connection = dict(inputs), functions, on_connection
        if self._calls is not None:
            self._calls.functions = functions
        if label:
            self._label = label
            if self._backend is not None:
                self._backend.relabel(label)
        self._send_inputs(frozenset())

    def _stop(self, backend: Backend) -> None:
        """One thread at a time: who closes a sandbox that is starting, and who starts it, both end it."""
        with self._stopping:
            try:
                backend.stop()
            except BaseException:  # Ctrl-C: once more, for a sandbox that is left would go on for a while
                backend.stop()
                raise

    # -- cells ---------------------------------------------------------------------------------------------------

    def run(
        self,
        code: str,
        *,
        timeout: float | None = None,
        max_timeout: float | None = None,
        on_output: Callable[[Output], None] | None = None,
    ) -> CellResult:
        """Runs one cell to its end. `on_output` gets each output as it comes."""
        cell = self.stream(code, timeout=timeout, max_timeout=max_timeout)
        try:
            while True:
                try:
                    output = next(cell)
                except StopIteration as ended:
                    result: CellResult = ended.value
                    return result
                if on_output is not None:
                    on_output(output)
        finally:
            cell.close()  # now: whoever catches what was raised may keep this frame for long

    def stream(
        self,
        code: str,
        *,
        timeout: float | None = None,
        max_timeout: float | None = None,
        afresh: bool = True,
    ) -> Generator[Output, None, CellResult]:
        """Runs one cell, yields its outputs as they come and returns its result; closing it interrupts the cell.

        A kernel that is gone is started afresh first, and the result says what was lost when it went; without `afresh`, the
        cell is not run then, and its status is `refused`. `timeout` and
        `max_timeout` are for this cell. Raises SandboxBusy when this thread has not read its last cell to the end.
        """
        given.check_code(code, timeout, max_timeout)
        self._turns.check()
        with self._turns.lock:
            outputs = self._attempts(code, timeout, max_timeout, afresh)
            try:
                while True:
                    self._turns.reader = threading.get_ident()
                    try:
                        output = next(outputs)
                    except StopIteration as ended:
                        result: CellResult = ended.value
                        return result
                    yield output
            finally:
                try:
                    outputs.close()
                finally:
                    self._turns.reader = 0

    def _attempts(
        self, code: str, timeout: float | None, max_timeout: float | None, afresh: bool
    ) -> Generator[Output, None, CellResult]:
        said: list[Output] = []
        lost: str | None = None
        for attempt in range(ATTEMPTS):
            news, lost_now = self._ready()
            lost = lost_now or lost
            yield from news
            if lost is not None and not afresh:
                return CellResult("refused", tuple(news), lost=lost)
            cell = self._next_cell([*said, *news], timeout, max_timeout)
            result = yield from self._stream(cell, code)
            lost = result.lost or lost
            said = list(result.outputs)
            if result.status != "refused" or not cell.kernel_gone or attempt == ATTEMPTS - 1 or not afresh:
                break
        return replace(result, lost=lost)

    def _next_cell(self, said: list[Output], timeout: float | None, max_timeout: float | None) -> CellRun:
        assert self._calls is not None
        self._cell += 1
        return CellRun(
            self._connected(),
            self._cell,
            timeout=self.timeout if timeout is None else timeout,
            max_timeout=self.max_timeout if max_timeout is None else max_timeout,
            rescue=self._kill_agent,
            waited=self._calls.waited,
            memory_limit=int(self.limits.memory),
            outputs=said,
        )

    def _stream(self, cell: CellRun, code: str) -> Generator[Output, None, CellResult]:
        result: CellResult | None = None
        try:
            result = yield from cell.stream(code, int(self.limits.output))
            return result
        finally:
            if cell.kernel_gone or (cell.begun and cell.status is None):
                self._kernel_up = False  # None: not even waited for, after a second Ctrl-C
            if result is None and not self._kernel_up:
                self._untold = cell.lost or LOST_VARIABLES
            if cell.sandbox_gone:
                self._tear_down()

    def interrupt(self) -> None:
        """Interrupts the cell that runs now, if one does. May be called from any thread, and from a signal handler."""
        bridge = self._bridge
        if bridge is not None:
            bridge.events.tell({"op": "interrupt", "cell": self._cell})

    def memory(self) -> int:
        """Bytes of memory that the sandbox uses now, its workspace included. Raises a SandboxError."""
        self._connected()
        assert self._backend is not None
        return self._backend.memory_used()

    def restart(self, inputs: Mapping[str, Path] | None = None) -> None:
        """A fresh kernel: variables and background processes are gone, files stay. With `inputs` the sandbox is a fresh one, which
        has these, and no other file. Raises a SandboxError."""
        self._turns.check()
        with self._turns.lock:
            if inputs is not None:
                self._tear_down()
                self._inputs = dict(inputs or {})
            self._kernel_up = False
            self._ready()

    def revive(self) -> tuple[tuple[Output, ...], str | None]:
        """Sees to it that a kernel is up, which the next cell would do too: what there is to say of the time since the last
        cell, and what was lost in it. Raises a SandboxError."""
        self._turns.check()
        with self._turns.lock:
            said, lost = self._ready()
        return tuple(said), lost

    def _ready(self) -> tuple[list[Output], str | None]:
        """Sees to it that a kernel can run a cell: what there is to say of the time since the last one, and what was lost."""
        if self._closed:
            raise SandboxClosed("this sandbox is closed; make a new one")
        said = self._brought_up()
        lost, self._untold = self._untold, None
        return said, lost

    def _brought_up(self) -> list[Output]:
        if self._backend is None:
            self.start()
            return []
        said, _ = self._settle()
        if self._untold is None or self._untold == LOST_VARIABLES:
            if self._kernel_up:
                return said
            try:
                self._restart_kernel(self._backend)
                return said
            except SandboxError as error:
                self._untold = f"everything: {error}"
        self._tear_down()
        self.start()
        said.append(Notice("the sandbox was started afresh: variables and files that were in it are gone"))
        return said

    def _settle(self) -> tuple[list[Output], str | None]:
        """Takes what came since the last cell."""
        said: list[Output] = []
        lost: str | None = None
        with contextlib.suppress(queue.Empty):
            while True:
                header, body = self._connected().events.get(0)
                match header.get("op"):
                    case "late":
                        said += late(body)
                    case "kernel_died":
                        if self._kernel_up:
                            said.append(Notice(death(header, int(self.limits.memory))))
                            lost = self._untold = LOST_VARIABLES
                        self._kernel_up = False
                    case "lost":
                        lost = self._untold = f"everything: {header.get('reason')}"
                        return said, lost
        return said, lost

    def _restart_kernel(self, backend: Backend) -> None:
        self._connected().send({"op": "kernel"})
        self._warden_ended = backend.run_as_agent(WARDEN, within=RESTART_SECONDS)
        self._await_kernel(RESTART_SECONDS)

    def _kill_agent(self) -> None:
        """Waits for the end of what kills, but not for ever: code that stops all others in a loop stops it too."""
        if self._backend is not None:
            deadline = time.monotonic() + RESCUE_SECONDS
            ended = self._backend.run_as_agent(KILL_ALL, within=RESCUE_SECONDS)
            while not ended() and time.monotonic() < deadline:
                time.sleep(RESCUE_LOOK_SECONDS)

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
                for file in files_below(source):
                    self.put(file, f"{path.rstrip('/')}/{file.relative_to(source).as_posix()}")
                return
            if source.exists() and not source.is_file():
                raise FileError(f"{source}: is neither a file nor a folder")
            with source.open("rb") as file_object:
                self._transfers().put(file_object, path, mode=0o444 if _is_input(path) else 0o664)
        except OSError as error:
            raise FileError(f"{source}: cannot be read on the host: {error.strerror}") from error

    def add_input(self, name: str, source: Path) -> None:
        """One more input, as `inputs` has them: it is there too when the sandbox is started afresh. Raises FileError."""
        check_input_name(name)
        self.put(source, f"data/{name}")
        self._inputs[name] = source

    def write(self, path: str, content: bytes | str, *, read_only: bool = False) -> None:
        """Writes a file of the workspace, which code inside may change unless it is `read_only`. Raises FileError."""
        given.check("path", path, given.text, "a path within /workspace, such as 'out/a.csv'")
        given.check("content", content, given.a(str, bytes), "text or bytes")
        data = content.encode() if isinstance(content, str) else content
        mode = 0o444 if read_only or _is_input(path) else 0o664
        self._transfers().put(io.BytesIO(data), path, mode=mode)

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
            if name in mounted:
                continue
            try:
                self.put(source, f"data/{name}")
            except FileError as error:
                refused = f"{source}: was not sent into the sandbox: {error}"
                if error.__cause__ is not None:  # it failed on the host
                    raise FileError(refused) from error
                disk = size_text(int(self.limits.disk))
                raise FileError(
                    f"{refused}; where space is short, raise `disk` ({disk}), or let every user read it, so that it is mounted"
                ) from error


def _is_input(path: str) -> bool:
    return path.removeprefix("/workspace/").startswith("data/")
