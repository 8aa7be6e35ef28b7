"""The supervisor: one process, one loop, between the host's stream and the kernel.

It runs as a user of its own, so that nothing the agent's user does can end it, and owns the kernel's channels, the
workspace's files and the sockets on which code in the kernel calls the host. It ends when no host has held the stream
for the time of its lease, so that a sandbox whose host died goes by itself.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import socket
import sys
import time
from collections.abc import Callable
from typing import Any, ClassVar

import zmq

from . import frames, network
from .callers import Callers
from .files import Files
from .kernel_link import KernelLink
from .loop import Loop
from .network import Streams
from .outputs import OutputGate
from .pipes import Pipe
from .work import Work

VERSION = 3
LEASE = 60.0
WAKE_MS = 1000
MAX_LATE = 64 * 1024
LATE_OVERHEAD = 100
MAX_TOLD = 64 * 1024
"""Bytes of what a kernel says of its variables."""
BACKLOG = 4 * 1024 * 1024
"""Bytes that the host has not got at which the kernel's outputs are no longer read."""
LAST_WORDS_MS = 30
"""Milliseconds without a message after which a kernel that died has nothing more to say."""
OOM_FILES = ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control")


class Supervisor:
    def __init__(
        self, private: str, shared: str, workspace: str, lease: float, *, networked: bool = False
    ) -> None:
        self._shared, self._workspace, self._lease = shared, workspace, lease
        self._context: zmq.Context[Any] = zmq.Context()
        self._loop = Loop()
        self._bridge: Pipe | None = None
        self._bridge_link: socket.socket | None = None
        self._sequencer = frames.Sequencer()
        self._alone_since = time.monotonic()

        self._files = Files(workspace)
        self._callers = Callers(self._loop, self._send, lambda: self._sequencer.unacked_bytes)
        self._work = Work(self._callers.waited)
        self._streams: Streams | None = None
        if networked:
            self._streams = Streams(self._loop, self._send, lambda: self._sequencer.unacked_bytes)

        self._kernel: KernelLink | None = None
        self._expecting_warden = True
        self._heard_iopub = self._kernel_ready = False

        self._cell = 0
        self._request = ""
        self._nudge = ""
        self._gate: OutputGate | None = None
        self._busy = self._idle = self._signalled = False
        self._replied: dict[str, Any] | None = None
        self._late = 0
        self._ooms = _oom_kills()
        self._junk = 0

        os.umask(0)
        os.chmod(shared, 0o1770)  # noqa: S103 - sticky: the agent may put things there, and not take these sockets away
        self._loop.listen(os.path.join(private, "bridge.sock"), self._meet_relay)
        self._loop.listen(os.path.join(shared, "warden.sock"), self._meet_warden)
        self._loop.listen(os.path.join(shared, "host.sock"), self._callers.meet)

    def run(self) -> None:
        """Until no host has held the stream for the time of the lease."""
        while self._bridge is not None or time.monotonic() - self._alone_since < self._lease:
            if not self._loop.turn(WAKE_MS):
                self._wake_kernel()
            self._tell_of_work()

    def _tell_of_work(self) -> None:
        """The host stops a cell's clock while one of its functions is at work; it does not see what the code does then."""
        if self._request:
            seconds = self._work.overlap(time.monotonic())
            if seconds:
                self._send({"op": "worked", "cell": self._cell, "seconds": round(seconds, 3)})

    # -- the host ------------------------------------------------------------------------------------------------

    def _meet_relay(self, link: socket.socket) -> None:
        link.settimeout(5)
        _, descriptors, _, _ = socket.recv_fds(link, 1, 2)
        if len(descriptors) != 2:
            link.close()
            return
        self._lose_bridge(self._bridge)
        self._bridge_link = link
        self._bridge = Pipe(os.fdopen(descriptors[0], "rb", 0), os.fdopen(descriptors[1], "wb", 0))
        self._bridge.greeted = False
        self._loop.open(self._bridge, self._hear_host, self._lose_bridge)

    def _lose_bridge(self, pipe: Pipe | None) -> None:
        if pipe is None or pipe is not self._bridge:
            return
        self._loop.close(pipe)
        if self._bridge_link is not None:
            self._bridge_link.close()
        self._bridge = self._bridge_link = None
        self._alone_since = time.monotonic()

    def _hear_host(self, pipe: Pipe, header: dict[str, Any], body: bytes) -> None:
        op = header.get("op")
        if op == "hello":
            pipe.greeted = True
            welcome = {"op": "welcome", "version": VERSION, "received": self._sequencer.received}
            pipe.send_bytes(frames.encode(welcome) + self._sequencer.resume(header.get("received")))
            self._go_on()
            return
        fresh = self._sequencer.accept(header, body)
        self._go_on()
        if not fresh:
            return
        answer = self._operations.get(str(op))
        if answer is not None:
            answer(self, header, body)
        ack = self._sequencer.ack()
        if ack is not None:
            pipe.send_bytes(ack)

    def _go_on(self) -> None:
        """The host may have caught up: what waited for it is read again."""
        self._listen_to_kernel()
        self._callers.resume()
        if self._streams is not None:
            self._streams.resume()

    def _send(self, header: dict[str, Any], body: bytes = b"") -> None:
        frame = self._sequencer.wrap(header, body)
        if self._bridge is not None and self._bridge.greeted:
            try:
                self._bridge.send_bytes(frame)
            except OSError:
                self._lose_bridge(self._bridge)
        if self._kernel is not None and self._sequencer.unacked_bytes > BACKLOG:
            self._loop.forget(self._kernel.iopub)

    # -- the kernel ----------------------------------------------------------------------------------------------

    def _expect_kernel(self, header: dict[str, Any], body: bytes) -> None:
        """The host is about to start a warden afresh: what is left of the last kernel is let go."""
        self._drop_kernel()
        self._expecting_warden = True

    def _meet_warden(self, link: socket.socket) -> None:
        """The last one that comes before the kernel is up is it: it has ended all else that might pose as a warden."""
        if not self._expecting_warden:
            link.close()
            return
        self._drop_kernel()
        link.settimeout(5)
        try:
            env = network.variables() if self._streams is not None else {}
            self._kernel = kernel = KernelLink(self._context, self._shared, self._workspace, link, env)
        except OSError:
            link.close()
            self._send({"op": "kernel_died", "cell": self._cell, "exit": None, "oom": False})
            return
        link.setblocking(False)
        self._heard_iopub = self._kernel_ready = False
        self._begin_count()
        self._loop.watch(link.fileno(), self._hear_warden)
        self._loop.watch(kernel.shell, lambda _: self._drain(kernel, kernel.shell, self._hear_shell))
        self._loop.watch(kernel.stdin, lambda _: self._drain(kernel, kernel.stdin, self._hear_stdin))
        self._listen_to_kernel()
        kernel.ask_info()

    def _drop_kernel(self) -> None:
        kernel, self._kernel = self._kernel, None
        if kernel is not None:
            for link in kernel.sockets:
                self._loop.forget(link)
            self._loop.forget(kernel.warden.fileno())
            kernel.close()

    def _listen_to_kernel(self) -> None:
        """Outputs are read only while the host takes them."""
        kernel = self._kernel
        if kernel is None or self._sequencer.unacked_bytes > BACKLOG or self._loop.watches(kernel.iopub):
            return
        self._loop.watch(kernel.iopub, lambda _: self._drain(kernel, kernel.iopub, self._hear_iopub))

    def _drain(
        self, kernel: KernelLink, link: zmq.Socket[Any], hear: Callable[[str, str, dict[str, Any]], None]
    ) -> None:
        """Takes a few messages, so that no channel starves another."""
        with contextlib.suppress(zmq.Again):
            for _ in range(50):
                message = kernel.receive(link)
                if message is not None:
                    hear(*message)
                if self._kernel is not kernel or not self._loop.watches(link):
                    return

    def _hear_warden(self, _: int) -> None:
        kernel = self._kernel
        if kernel is None:
            return
        under_way = kernel.signals_under_way
        kernel.hear_warden()
        if kernel.ended is not None:
            self._end_kernel(kernel)
        elif kernel.signals_under_way < under_way:
            # a stuck `await` sees a signal only when the kernel's loop wakes; and a signal that came before the cell's
            # code began may have eaten its reply: an answer to what was asked later says that the cell is over
            self._nudge = kernel.ask_info()
            self._maybe_done()

    def _end_kernel(self, kernel: KernelLink) -> None:
        ended = kernel.ended or {}
        while kernel.iopub.poll(LAST_WORDS_MS):  # what it had said before it died is on its way to us
            message = kernel.receive(kernel.iopub)
            if message is not None:
                self._hear_iopub(*message)
        self._drop_kernel()
        if not self._kernel_ready and ended.get("exit") is None:
            return  # no warden, or one that was ended by the warden that comes now
        if self._gate is not None:
            self._gate.finish()
        unbegun = self._request and not self._busy and not kernel.began(self._request)
        self._send(
            {
                "op": "kernel_died",
                "cell": None if unbegun else self._cell,
                "exit": ended.get("exit"),
                "oom": self._out_of_memory(),
                "broken": kernel.broken,
            }
        )
        self._end_cell()

    def _hear_shell(self, kind: str, parent: str, content: dict[str, Any]) -> None:
        if kind == "kernel_info_reply" and not self._kernel_ready:
            self._greet_kernel()
        elif kind == "execute_reply" and parent == self._request:
            self._replied = content
            self._maybe_done()
        elif (
            kind == "kernel_info_reply" and parent == self._nudge and self._request and self._replied is None
        ):
            self._end_without_reply(self._kernel)

    def _end_without_reply(self, kernel: KernelLink | None) -> None:
        """The kernel is past the cell and gave no reply: an interrupt ate it, or it runs cells no more."""
        if self._signalled or kernel is None:
            self._replied = {"status": "error"}
            self._maybe_done()
        else:
            kernel.broken = True
            kernel.signal("K")

    def _wake_kernel(self) -> None:
        """A request that came while the kernel was about to wait may lie there until the next one comes."""
        if self._kernel is not None and self._idle and self._request and self._replied is None:
            self._nudge = self._kernel.ask_info()
            return
        unheard = not self._kernel_ready or (self._request and not self._busy)
        if self._kernel is not None and unheard:
            self._kernel.ask_info()

    def _greet_kernel(self) -> None:
        """Ready is: it answers, and its outputs arrive. A subscription that came too late is asked for again."""
        if self._kernel is None:
            return
        if self._heard_iopub:
            self._kernel_ready = True
            self._expecting_warden = False
            self._send({"op": "kernel_up"})
        else:
            self._kernel.ask_info()

    def _hear_iopub(self, kind: str, parent: str, content: dict[str, Any]) -> None:
        self._heard_iopub = True
        if parent != self._request or self._gate is None:
            if kind == "stream" and self._kernel_ready:
                self._hear_late(_text(content.get("text")))
            return
        match kind:
            case "stream":
                name = "stderr" if content.get("name") == "stderr" else "stdout"
                self._gate.stream(name, _text(content.get("text")))
            case "execute_result" | "display_data" | "update_display_data":
                data = content.get("data")
                if isinstance(data, dict):
                    self._gate.rich("result" if kind == "execute_result" else "display", data)
            case "error":
                lines = content.get("traceback")
                text = "\n".join(map(_text, lines)) if isinstance(lines, list) else ""
                self._gate.error(_text(content.get("ename")), _text(content.get("evalue")), text)
            case "status":
                self._busy = True
                self._idle = self._idle or content.get("execution_state") == "idle"
                self._maybe_done()

    def _hear_late(self, text: str) -> None:
        """A thread of an earlier cell wrote something: labelled, bounded, never part of another cell's output."""
        if self._late < MAX_LATE:
            text = text[:MAX_LATE]
            self._late += len(text) + LATE_OVERHEAD
            self._send({"op": "late"}, text.encode("utf-8", "replace"))

    def _hear_stdin(self, kind: str, parent: str, content: dict[str, Any]) -> None:
        """Code asked for input in spite of being told that there is none: it is interrupted, not left to wait."""
        if kind == "input_request" and self._kernel is not None and self._gate is not None:
            said = "the cell asked for input; nobody can answer it here"
            self._send({"op": "notice", "cell": self._cell, "text": said})
            self._kernel.signal("I")

    # -- cells ---------------------------------------------------------------------------------------------------

    def _run_cell(self, header: dict[str, Any], body: bytes) -> None:
        cell = int(header["cell"])
        if self._kernel is None or not self._kernel_ready or self._request:
            self._send({"op": "done", "cell": cell, "status": "refused"})
            return
        self._cell = cell
        self._begin_count()
        self._callers.begin(cell)
        self._work = Work(self._callers.waited)
        self._gate = OutputGate(
            int(header["limit"]),
            lambda output, data: self._send({"op": "output", "cell": cell, **output}, data),
        )
        self._busy = self._idle = self._signalled = False
        self._replied, self._late = None, 0
        self._request = self._kernel.execute(body.decode("utf-8", "replace"))

    def _maybe_done(self) -> None:
        """A cell ends on idle and reply, and not while a signal for it is under way."""
        if not self._idle or self._replied is None or self._gate is None or self._kernel is None:
            return
        if self._kernel.signals_under_way:
            return
        self._gate.finish()
        done = {
            "op": "done",
            "cell": self._cell,
            "status": "ok" if self._replied.get("status") == "ok" else "error",
            "signalled": self._signalled,
            "oom": self._out_of_memory(),
            "junk": self._kernel.junk - self._junk,
        }
        told = json.dumps({"variables": self._replied.get("variables")}).encode() if self._signalled else b""
        self._send(done, told if len(told) <= MAX_TOLD else b"")
        self._end_cell()

    def _end_cell(self) -> None:
        self._request, self._nudge, self._gate = "", "", None
        self._callers.end()

    def _begin_count(self) -> None:
        self._ooms = _oom_kills()
        self._junk = self._kernel.junk if self._kernel is not None else 0

    def _out_of_memory(self) -> bool:
        return _oom_kills() > self._ooms

    def _signal(self, header: dict[str, Any], body: bytes) -> None:
        """Only for the cell it was meant for: a late interrupt never touches the next one."""
        if self._kernel is not None and header.get("cell") == self._cell and self._request:
            self._signalled = True
            self._kernel.signal(header["how"])
            self._callers.cancel("CallCancelled", "the call was cancelled: its cell is being ended")
        else:  # it has ended, or never came: whoever missed that is told again
            kernel = self._kernel is not None and self._kernel_ready
            self._send({"op": "done", "cell": header.get("cell"), "status": "over", "kernel": kernel})

    def _return(self, header: dict[str, Any], body: bytes) -> None:
        self._callers.answer(header, body)

    def _net(self, header: dict[str, Any], body: bytes) -> None:
        if self._streams is not None:
            self._streams.hear(header, body)

    def _file(self, header: dict[str, Any], body: bytes) -> None:
        answer = self._files.serve(header, body)
        if answer is not None:
            fields, content = answer
            self._send({"op": "file", "file": header["file"], **fields}, content)

    _operations: ClassVar[dict[str, Callable[[Supervisor, dict[str, Any], bytes], None]]] = {
        "run": _run_cell,
        "signal": _signal,
        "kernel": _expect_kernel,
        "return": _return,
        "part": _return,
        "file": _file,
        "net": _net,
    }


def _text(value: object) -> str:
    """What should be text, from a message of the kernel; nothing where it is not."""
    return value if isinstance(value, str) else ""


def _oom_kills() -> int:
    for path in OOM_FILES:
        with contextlib.suppress(OSError, ValueError), open(path) as file:
            for line in file:
                if line.startswith("oom_kill "):
                    return int(line.split()[1])
    return 0


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--private", default="/run/s")
    parser.add_argument("--shared", default="/run/k")
    parser.add_argument("--workspace", default="/workspace")
    parser.add_argument(
        "--network", action="store_true", help="listen for connections, and carry them to the host"
    )
    parser.add_argument("--lease", type=float, default=LEASE, help="seconds without a host until it ends")
    arguments = parser.parse_args()
    folders = (arguments.private, arguments.shared, arguments.workspace)
    try:
        supervisor = Supervisor(*folders, arguments.lease, networked=arguments.network)
    except OSError as error:
        sys.exit(f"the supervisor cannot listen: {error}")
    supervisor.run()
    sys.stdout.flush()
    os._exit(0)  # zmq's clean-up may wait for a kernel that is gone


if __name__ == "__main__":
    main()
