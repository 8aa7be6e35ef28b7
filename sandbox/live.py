"""A sandbox while it is up: what contains it, the one stream into it, and the kernel at its other end."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sandbox.backends import Backend, Ended
from sandbox.bridge import MAX_QUEUED, Bridge
from sandbox.cells import LOST_VARIABLES, death, late
from sandbox.errors import ConnectionLost, SandboxError, StartError
from sandbox.files import Files
from sandbox.guest import more_time
from sandbox.hostcalls import HostCalls, HostFunction, WithCall
from sandbox.network import Network
from sandbox.types import Connection, Limits, Notice, Output, size_text

if TYPE_CHECKING:
    from sandbox.network_proxy import Proxy

START_SECONDS = 60.0
RESTART_SECONDS = 30.0
"""The same for a kernel in a sandbox that runs already; then the sandbox is given up and started afresh."""
RESCUE_SECONDS, RESCUE_LOOK_SECONDS = 5.0, 0.02
KILL_ALL = ("-c", "import os; os.kill(-1, 9)")
WARDEN = ("-m", "sandbox_guest.warden")
WARDENS = 3
"""How often what starts a kernel is started, when it is ended before there is one."""
LOOK_SECONDS = 0.2
"""Seconds between looks whether it has been."""


class Live:
    """`start` brings it up with its kernel, `close` ends and removes it, from any thread. What is lost is not mended
    here: a `Sandbox` then starts another kernel in it, or takes another of these.

    `on_connection` gets each network connection when it is over, on the proxy's thread.
    """

    def __init__(
        self,
        backend: Backend,
        limits: Limits,
        functions: Mapping[str, HostFunction | WithCall],
        network: Network | None,
        on_connection: Callable[[Connection], None],
    ) -> None:
        self.backend = backend
        self.calls = HostCalls(functions)
        max_queued = MAX_QUEUED + 2 * int(limits.output)
        self.bridge = self.calls.bridge = Bridge(
            backend.connect, self._take_call, on_net=self._take_net, max_queued=max_queued
        )
        self.files = Files(self.bridge, int(limits.disk))
        self.kernel_up = False
        self._limits = limits
        self._warden_ended: Ended = lambda: False
        self._stopping = threading.RLock()
        self._closed = False
        self._network, self._on_connection = network, on_connection
        self._proxy: Proxy | None = None

    # -- life ----------------------------------------------------------------------------------------------------

    def start(self, inputs: Mapping[str, Path]) -> None:
        """Returns when the kernel answers. Raises a SandboxError; `close` then leaves nothing."""
        self.backend.start()
        if self._network is not None:
            from sandbox.network_proxy import Proxy  # brings asyncio and h11 with it

            self._proxy = Proxy(self._network, self.bridge.send, self._on_connection)
        failures: list[BaseException] = []
        warden = threading.Thread(target=self._start_warden, args=(failures,), daemon=True)
        warden.start()
        try:
            self.bridge.open()
            self.files.put_inputs(inputs, mounted=self.backend.mounted())
        except ConnectionLost as error:
            raise self._not_up("sandbox", str(error)) from error
        finally:
            warden.join()
        if failures:
            raise failures[0]
        self._await_kernel(START_SECONDS)

    def close(self) -> None:
        """Whoever waits for something from it is told so. Once more, where it was closed while it started: what has come up
        since goes too."""
        self._closed = True
        self.kernel_up = False
        try:
            self.calls.close()
            self.bridge.close()
            if self._proxy is not None:  # after the bridge: what it still has to say waits for nobody
                self._proxy.close()
        finally:
            self._stop()

    def _stop(self) -> None:
        """One thread at a time: who closes a sandbox that is starting, and who starts it, both end it."""
        with self._stopping:
            self.backend.stop()

    # -- the kernel ----------------------------------------------------------------------------------------------

    def restart_kernel(self) -> None:
        """A kernel where there is none any more. Raises a SandboxError."""
        self.bridge.send({"op": "kernel"})
        self._warden_ended = self.backend.run_as_agent(WARDEN, within=RESTART_SECONDS)
        self._await_kernel(RESTART_SECONDS)

    def kill_agent(self) -> None:
        """Kills all that runs as the agent's user. Waits for the end of what kills, but not for ever: code that stops all
        others in a loop stops it too. Raises a SandboxError."""
        deadline = time.monotonic() + RESCUE_SECONDS
        ended = self.backend.run_as_agent(KILL_ALL, within=RESCUE_SECONDS)
        while not ended() and time.monotonic() < deadline:
            time.sleep(RESCUE_LOOK_SECONDS)

    def settle(self) -> tuple[list[Output], str | None]:
        """Takes what came since the last cell: what there is to say of it, and what was lost."""
        said: list[Output] = []
        lost: str | None = None
        with contextlib.suppress(queue.Empty):
            while True:
                header, body = self.bridge.events.get(0)
                match header.get("op"):
                    case "late":
                        said += late(body)
                    case "kernel_died":
                        if self.kernel_up:
                            said.append(Notice(death(header, int(self._limits.memory))))
                            lost = LOST_VARIABLES
                        self.kernel_up = False
                    case "lost":
                        return said, f"everything: {header.get('reason')}"
        return said, lost

    def _start_warden(self, failures: list[BaseException]) -> None:
        try:
            self._warden_ended = self.backend.run_as_agent(WARDEN, within=START_SECONDS)
        except SandboxError as error:
            failures.append(error)

    def _await_kernel(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        wardens = 1
        while not self.kernel_up:
            left = deadline - time.monotonic()
            try:
                header, _ = self.bridge.events.get(min(left, LOOK_SECONDS))
            except queue.Empty:
                if left <= 0:
                    raise self._not_up("kernel", f"it said nothing for {seconds:g} seconds") from None
                if self._warden_ended():
                    wardens += 1
                    self._start_another_warden(wardens)
                continue
            match header.get("op"):
                case "kernel_up":
                    self.kernel_up = True
                case "kernel_died":
                    raise self._not_up("kernel", death(header, int(self._limits.memory)))
                case "lost":
                    raise self._not_up("sandbox", str(header.get("reason")))

    def _start_another_warden(self, number: int) -> None:
        if number > WARDENS:
            raise self._not_up(
                "kernel",
                f"{WARDENS} times, what starts it was killed at once, by another process or by the memory limit",
            )
        self._warden_ended = self.backend.run_as_agent(WARDEN, within=RESTART_SECONDS)

    def _not_up(self, what: str, reason: str) -> StartError:
        limits = self._limits
        allowed = f"{size_text(int(limits.memory))} of memory, {limits.pids} processes, {size_text(int(limits.disk))} of disk"
        return StartError(
            f"the {what} did not come up: {reason}; raise the limit that is too low ({allowed}), or see `codeact doctor`"
        )

    # -- what comes out of it ------------------------------------------------------------------------------------

    def tell(self, op: str, cell: int, **fields: str) -> None:
        """Puts a word of our own between what comes from the kernel; from any thread, and from a signal handler."""
        self.bridge.events.tell({"op": op, "cell": cell, **fields})

    def end_connections(self) -> None:
        """Returns when each network connection has been told to `on_connection`."""
        if self._proxy is not None:
            self._proxy.end_connections()

    def _take_call(self, header: dict[str, Any], body: bytes) -> None:
        """Time is given by whoever waits for the cell to end; all other calls are the functions' own."""
        if header.get("name") == more_time.NAME:
            self.bridge.events.put(header, body)
        elif not self._closed:
            self.calls.take(header, body)

    def _take_net(self, header: dict[str, Any], body: bytes) -> None:
        if self._proxy is not None:
            self._proxy.take(header, body)
