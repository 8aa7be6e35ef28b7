"""The sandbox that users hold: start it, run cells in it, move files, stop it."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from sandbox import given
from sandbox.backends.choice import choose, make_backend
from sandbox.cells import LOST_VARIABLES, CellRun
from sandbox.errors import SandboxClosed, SandboxError
from sandbox.files import Files, check_input_name, is_input
from sandbox.hostcalls import HostFunction, WithCall
from sandbox.image_packages import parse
from sandbox.live import Live
from sandbox.network import Network
from sandbox.queueing import turn_to_start
from sandbox.turns import Turns
from sandbox.types import BackendName, CellResult, Connection, FileInfo, Limits, Notice, Output
from sandbox.types import size_text as size_text

ATTEMPTS = 2
"""How often a cell is sent when its kernel is found dead before it has begun."""

CLOSED = "this sandbox is closed; make a new one"
CLOSED_EARLY = "this sandbox was closed while it started"


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
        network, packages = given.read_once(network), given.read_once(packages)
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
        self._live: Live | None = None
        """While it is up, and while it comes up."""
        self._turns = Turns()
        self._cell = 0
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
        live = self._live
        if live is not None and live.kernel_up:
            return
        self._turns.check()
        with self._turns.lock:  # what another thread wants to run waits until it is up
            self._start()

    def _start(self) -> None:
        for name in self._inputs:
            check_input_name(name)
        if self._closed:
            raise SandboxClosed(CLOSED)
        if self._live is not None:
            return
        live, starts_at = self._made()
        try:
            with turn_to_start(starts_at, lambda: self._closed):
                self._live = live
                live.start(self._inputs)
        except BaseException as error:
            self._end(live)  # also where another thread closed it already: something may have come up since
            if self.closed and isinstance(error, Exception):
                raise SandboxClosed(CLOSED_EARLY) from error
            raise
        if self.closed:  # by another thread
            self._end(live)
            raise SandboxClosed(CLOSED_EARLY)

    def _made(self) -> tuple[Live, str]:
        """One that is not started yet, and where it will be."""
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
        live = Live(backend, self.limits, self._functions, self._network, self._connection_ended)
        return live, chosen.engine.url if chosen.engine else chosen.name

    def close(self) -> None:
        """Ends and removes the sandbox. What runs in it is killed; nothing of it is kept. May be called twice."""
        self._closed = True
        self._tear_down()

    def _connection_ended(self, connection: Connection) -> None:
        """What the code cannot see at its end of a connection is said in the cell's outputs."""
        live = self._live
        if connection.outcome == "cut" and live is not None:
            said = f"the connection to {connection.host} was ended: {connection.reason}"
            live.tell("notice", self._cell, text=said)
        self._on_connection(connection)

    def end_connections(self) -> None:
        """Ends the network connections that are open; each has been told to `on_connection` when this returns."""
        live = self._live
        if live is not None:
            live.end_connections()

    def _tear_down(self) -> None:
        live = self._live
        if live is not None:
            self._end(live)

    def _end(self, live: Live) -> None:
        try:
            live.close()
        except BaseException:  # Ctrl-C: once more, for a sandbox that is left would go on for a while
            live.close()
            raise
        finally:
            if self._live is live:
                self._live = None

    # -- for a pool ----------------------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        """Whether `close()` was called."""
        return self._closed

    def answers(self, seconds: float) -> bool:
        """Whether the kernel runs an empty cell in so many seconds, and nothing was lost; nothing is mended."""
        self._turns.check()
        with self._turns.lock:
            live = self._live
            if live is None or self._settle(live)[1] is not None or not live.kernel_up:
                return False
            cell = self._stream(live, self._next_cell(live, [], seconds, seconds), "")
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
        self._label = label or self._label
        live = self._live
        if live is not None:  # else it is started with what is set now
            live.calls.functions = functions
            if label:
                live.backend.relabel(label)
            live.files.put_inputs(inputs)

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
            live, news, lost_now = self._ready()
            lost = lost_now or lost
            yield from news
            if lost is not None and not afresh:
                return CellResult("refused", tuple(news), lost=lost)
            cell = self._next_cell(live, [*said, *news], timeout, max_timeout)
            result = yield from self._stream(live, cell, code)
            lost = result.lost or lost
            said = list(result.outputs)
            if result.status != "refused" or not cell.kernel_gone or attempt == ATTEMPTS - 1 or not afresh:
                break
        return replace(result, lost=lost)

    def _next_cell(
        self, live: Live, said: list[Output], timeout: float | None, max_timeout: float | None
    ) -> CellRun:
        self._cell += 1
        return CellRun(
            live.bridge,
            self._cell,
            timeout=self.timeout if timeout is None else timeout,
            max_timeout=self.max_timeout if max_timeout is None else max_timeout,
            rescue=live.kill_agent,
            waited=live.calls.waited,
            memory_limit=int(self.limits.memory),
            outputs=said,
        )

    def _stream(self, live: Live, cell: CellRun, code: str) -> Generator[Output, None, CellResult]:
        result: CellResult | None = None
        try:
            result = yield from cell.stream(code, int(self.limits.output))
            return result
        finally:
            if cell.kernel_gone or (cell.begun and cell.status is None):
                live.kernel_up = False  # None: not even waited for, after a second Ctrl-C
            if result is None and not live.kernel_up:
                self._untold = cell.lost or LOST_VARIABLES
            if cell.sandbox_gone:
                self._tear_down()

    def interrupt(self) -> None:
        """Interrupts the cell that runs now, if one does. May be called from any thread, and from a signal handler."""
        live = self._live
        if live is not None:
            live.tell("interrupt", self._cell)

    def memory(self) -> int:
        """Bytes of memory that the sandbox uses now, its workspace included. Raises a SandboxError."""
        return self._connected().backend.memory_used()

    def restart(self, inputs: Mapping[str, Path] | None = None) -> None:
        """A fresh kernel: variables and background processes are gone, files stay. With `inputs` the sandbox is a fresh one, which
        has these, and no other file. Raises a SandboxError."""
        self._turns.check()
        with self._turns.lock:
            if inputs is not None:
                self._tear_down()
                self._inputs = dict(inputs)
            elif self._live is not None:
                self._live.kernel_up = False
            self._ready()

    def revive(self) -> tuple[tuple[Output, ...], str | None]:
        """Sees to it that a kernel is up, which the next cell would do too: what there is to say of the time since the last
        cell, and what was lost in it. Raises a SandboxError."""
        self._turns.check()
        with self._turns.lock:
            _, said, lost = self._ready()
        return tuple(said), lost

    def _ready(self) -> tuple[Live, list[Output], str | None]:
        """Sees to it that a kernel can run a cell: where, what there is to say of the time since the last one, and what was lost."""
        if self._closed:
            raise SandboxClosed(CLOSED)
        said = self._brought_up()
        lost, self._untold = self._untold, None
        return self._connected(), said, lost

    def _brought_up(self) -> list[Output]:
        live = self._live
        if live is None:
            self._start()
            return []
        said, _ = self._settle(live)
        if self._untold is None or self._untold == LOST_VARIABLES:
            if live.kernel_up:
                return said
            try:
                live.restart_kernel()
                return said
            except SandboxError as error:
                self._untold = f"everything: {error}"
        self._tear_down()
        self._start()
        said.append(Notice("the sandbox was started afresh: variables and files that were in it are gone"))
        return said

    def _settle(self, live: Live) -> tuple[list[Output], str | None]:
        """Takes what came since the last cell."""
        said, lost = live.settle()
        self._untold = lost or self._untold
        return said, lost

    def _connected(self) -> Live:
        live = self._live
        if live is None:
            raise SandboxClosed(
                CLOSED if self._closed else "this sandbox is not started: use it in a `with` block"
            )
        return live

    # -- files ---------------------------------------------------------------------------------------------------

    def put(self, source: str | Path, path: str) -> None:
        """Copies a file of the host into the workspace; a folder with all that is in it. Raises FileError."""
        self._transfers().put_from(Path(source), path)

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
        mode = 0o444 if read_only or is_input(path) else 0o664
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
        return self._connected().files
