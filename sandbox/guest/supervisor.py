"""The supervisor: one process, one loop, between the host's stream and the kernel.

It runs as a user of its own, so that nothing the agent's user does can end it, and owns the kernel's channels, the
workspace's files and the sockets on which code in the kernel calls the host. It ends when no host has held the stream
for `LEASE` seconds, so that a sandbox whose host died goes by itself.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import socket
import sys
import time
from collections.abc import Callable
from typing import Any

import zmq

from . import frames
from .files import Files, Refused
from .kernel_link import KernelLink
from .outputs import OutputGate
from .pipes import Pipe

VERSION = 1
LEASE = 60.0
MAX_CALLERS = 64
MAX_LATE = 64 * 1024
BACKLOG = 4 * 1024 * 1024
"""Bytes waiting for the host at which the kernel's outputs are no longer read."""
OOM_FILES = ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control")


class Supervisor:
    def __init__(self, private: str, shared: str, workspace: str) -> None:
        self._shared, self._workspace = shared, workspace
        self._context: zmq.Context[Any] = zmq.Context()
        self._poller = zmq.Poller()
        self._handlers: dict[Any, Callable[[int], None]] = {}
        self._bridge: Pipe | None = None
        self._bridge_link: socket.socket | None = None
        self._sequencer = frames.Sequencer()
        self._alone_since = time.monotonic()
        self._stopping = False

        self._files = Files(workspace)
        self._kernel: KernelLink | None = None
        self._generation = 0
        self._expecting_warden = True
        self._info_id = ""
        self._heard_iopub = self._kernel_ready = False
        self._ooms = _oom_kills()

        self._cell = 0
        self._request = ""
        self._gate: OutputGate | None = None
        self._idle = False
        self._replied: dict[str, Any] | None = None
        self._late = 0

        self._calls: dict[int, Pipe] = {}
        self._callers: set[Pipe] = set()
        self._last_call = 0

        os.umask(0)
        self._listen(os.path.join(private, "bridge.sock"), self._meet_relay)
        self._listen(os.path.join(shared, "warden.sock"), self._meet_warden)
        self._listen(os.path.join(shared, "host.sock"), self._meet_caller)

    # -- the loop ------------------------------------------------------------------------------------------------

    def run(self) -> None:
        while not self._stopping:
            for source, event in self._poller.poll(1000):
                handler = self._handlers.get(source)
                if handler is not None:
                    handler(event)
            if self._bridge is None and time.monotonic() - self._alone_since > LEASE:
                return

    def _watch(self, source: Any, handler: Callable[[int], None], flags: int = zmq.POLLIN) -> None:
        self._handlers[source] = handler
        self._poller.register(source, flags)

    def _forget(self, source: Any) -> None:
        if self._handlers.pop(source, None) is not None:
            self._poller.unregister(source)

    def _listen(self, path: str, greet: Callable[[socket.socket], None]) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        os.chmod(path, 0o660)
        listener.listen(64)
        listener.setblocking(False)

        def accept(_: int) -> None:
            with contextlib.suppress(OSError):
                link, _address = listener.accept()
                greet(link)

        self._watch(listener.fileno(), accept)

    def _open(self, pipe: Pipe, handle: Callable[[Pipe, dict[str, Any], bytes], None], gone: Callable[[Pipe], None]) -> None:
        """Watches a pipe; its frames go to `handle`. `gone` is called once, when it ends or breaks."""

        def readable(_: int) -> None:
            try:
                for header, body in pipe.receive():
                    handle(pipe, header, body)
            except (EOFError, OSError, frames.FrameError):
                gone(pipe)

        def writable(event: int) -> None:
            try:
                pipe.flush()
            except OSError:
                gone(pipe)
                return
            if not pipe.pending:
                if pipe.reads is pipe.writes:
                    self._poller.modify(pipe.writes.fileno(), zmq.POLLIN)
                else:
                    self._forget(pipe.writes.fileno())
                self._listen_to_kernel()

        def either(event: int) -> None:
            if event & (zmq.POLLIN | zmq.POLLERR):
                readable(event)
            if pipe.pending and not pipe.closed:
                writable(event)

        def want_write() -> None:
            flags = zmq.POLLIN | zmq.POLLOUT if pipe.reads is pipe.writes else zmq.POLLOUT
            self._watch(pipe.writes.fileno(), either, flags)

        pipe.on_pending = want_write
        self._watch(pipe.reads.fileno(), either)

    def _close(self, pipe: Pipe) -> None:
        self._forget(pipe.reads.fileno())
        self._forget(pipe.writes.fileno())
        pipe.close()

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
        self._open(self._bridge, self._hear_host, self._lose_bridge)

    def _lose_bridge(self, pipe: Pipe | None) -> None:
        if pipe is None or pipe is not self._bridge:
            return
        self._close(pipe)
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
            return
        if not self._sequencer.accept(header, body):
            return
        answer = self._operations.get(op)
        if answer is not None:
            answer(self, header, body)
        ack = self._sequencer.ack()
        if ack is not None:
            pipe.send_bytes(ack)

    def _send(self, header: dict[str, Any], body: bytes = b"") -> None:
        frame = self._sequencer.wrap(header, body)
        if self._bridge is not None and self._bridge.greeted:
            try:
                self._bridge.send_bytes(frame)
            except OSError:
                self._lose_bridge(self._bridge)

    def _stop(self, header: dict[str, Any], body: bytes) -> None:
        self._stopping = True

    # -- the kernel ----------------------------------------------------------------------------------------------

    def _expect_kernel(self, header: dict[str, Any], body: bytes) -> None:
        """The host is about to start a warden afresh: what is left of the last kernel is let go."""
        self._drop_kernel()
        self._expecting_warden = True

    def _meet_warden(self, link: socket.socket) -> None:
        if not self._expecting_warden:
            link.close()
            return
        self._expecting_warden = False
        self._generation += 1
        self._ooms = _oom_kills()
        link.settimeout(5)
        self._kernel = kernel = KernelLink(self._context, self._shared, self._workspace, self._generation, link)
        link.setblocking(False)
        self._heard_iopub = self._kernel_ready = False
        self._watch(link.fileno(), self._hear_warden)
        self._watch(kernel.shell, lambda _: self._drain(kernel, kernel.shell, self._hear_shell))
        self._watch(kernel.stdin, lambda _: self._drain(kernel, kernel.stdin, self._hear_stdin))
        self._listen_to_kernel()
        self._info_id = kernel.ask_info()

    def _drop_kernel(self) -> None:
        kernel, self._kernel = self._kernel, None
        if kernel is not None:
            for link in kernel.sockets:
                self._forget(link)
            self._forget(kernel.warden.fileno())
            kernel.close()

    def _listen_to_kernel(self) -> None:
        """Outputs are read only while the host takes them."""
        kernel = self._kernel
        if kernel is None:
            return
        full = self._bridge is not None and self._bridge.pending > BACKLOG
        if full:
            self._forget(kernel.iopub)
        elif kernel.iopub not in self._handlers:
            self._watch(kernel.iopub, lambda _: self._drain(kernel, kernel.iopub, self._hear_iopub))

    def _drain(self, kernel: KernelLink, link: zmq.Socket[Any], hear: Callable[[str, str, dict[str, Any]], None]) -> None:
        """Takes a few messages, so that no channel starves another."""
        with contextlib.suppress(zmq.Again):
            for _ in range(50):
                message = kernel.receive(link)
                if message is not None:
                    hear(*message)
                if self._kernel is not kernel:
                    return

    def _hear_warden(self, _: int) -> None:
        kernel = self._kernel
        if kernel is None:
            return
        kernel.hear_warden()
        if kernel.ended is not None:
            self._end_kernel(kernel)
        elif not kernel.signals_under_way:
            self._maybe_done()

    def _end_kernel(self, kernel: KernelLink) -> None:
        ended = kernel.ended or {}
        with contextlib.suppress(zmq.Again):  # what it had said before it died
            while True:
                message = kernel.receive(kernel.iopub)
                if message is not None:
                    self._hear_iopub(*message)
        self._drop_kernel()
        if self._gate is not None:
            self._gate.finish()
        out_of_memory = _oom_kills() > self._ooms
        self._send({"op": "kernel_died", "cell": self._cell, "exit": ended.get("exit"), "oom": out_of_memory})
        self._end_cell()

    def _hear_shell(self, kind: str, parent: str, content: dict[str, Any]) -> None:
        if parent == self._info_id and not self._kernel_ready:
            self._greet_kernel()
        elif kind == "execute_reply" and parent == self._request:
            self._replied = content
            self._maybe_done()

    def _greet_kernel(self) -> None:
        """Ready is: it answers, and its outputs arrive. A subscription that came too late is asked for again."""
        if self._kernel is None:
            return
        if self._heard_iopub:
            self._kernel_ready = True
            self._send({"op": "kernel_up", "generation": self._generation, "pid": self._kernel.pid})
        else:
            self._info_id = self._kernel.ask_info()

    def _hear_iopub(self, kind: str, parent: str, content: dict[str, Any]) -> None:
        self._heard_iopub = True
        if parent != self._request or self._gate is None:
            if kind == "stream" and self._kernel_ready:
                self._hear_late(str(content.get("text", "")))
            return
        match kind:
            case "stream":
                name = "stderr" if content.get("name") == "stderr" else "stdout"
                self._gate.stream(name, str(content.get("text", "")))
            case "execute_result" | "display_data" | "update_display_data":
                data = content.get("data")
                if isinstance(data, dict):
                    self._gate.rich("result" if kind == "execute_result" else "display", data)
            case "error":
                lines = content.get("traceback")
                text = "\n".join(map(str, lines)) if isinstance(lines, list) else ""
                self._gate.error(str(content.get("ename", "")), str(content.get("evalue", "")), text)
            case "status" if content.get("execution_state") == "idle":
                self._idle = True
                self._maybe_done()

    def _hear_late(self, text: str) -> None:
        """A thread of an earlier cell wrote something: labelled, bounded, never part of another cell's output."""
        if self._late < MAX_LATE:
            self._late += len(text)
            self._send({"op": "late", "text": text[:MAX_LATE]})

    def _hear_stdin(self, kind: str, parent: str, content: dict[str, Any]) -> None:
        """Code asked for input in spite of being told that there is none: it is interrupted, not left to wait."""
        if kind == "input_request" and self._kernel is not None and self._gate is not None:
            self._send({"op": "notice", "cell": self._cell, "text": "the cell asked for input; nobody can answer it here"})
            self._kernel.signal("I")

    # -- cells ---------------------------------------------------------------------------------------------------

    def _run_cell(self, header: dict[str, Any], body: bytes) -> None:
        cell = int(header["cell"])
        if self._kernel is None or not self._kernel_ready or self._request:
            self._send({"op": "done", "cell": cell, "status": "refused"})
            return
        self._cell = cell
        self._ooms = _oom_kills()
        self._gate = OutputGate(int(header["limit"]), lambda output: self._send({"op": "output", "cell": cell, **output}))
        self._idle, self._replied, self._late = False, None, 0
        self._request = self._kernel.execute(body.decode("utf-8", "surrogatepass"))

    def _maybe_done(self) -> None:
        """A cell ends on idle and reply, and not while a signal for it is under way."""
        if not self._idle or self._replied is None or self._gate is None:
            return
        if self._kernel is not None and self._kernel.signals_under_way:
            return
        self._gate.finish()
        status = "ok" if self._replied.get("status") == "ok" else "error"
        self._send({"op": "done", "cell": self._cell, "status": status})
        self._end_cell()

    def _end_cell(self) -> None:
        self._request, self._gate = "", None
        for number, caller in list(self._calls.items()):
            self._answer_caller(caller, {"ok": False, "kind": "CellEnded"}, b'"the cell that made this call has ended"')
            self._calls.pop(number, None)

    def _signal(self, header: dict[str, Any], body: bytes) -> None:
        """Only for the cell it was meant for: a late interrupt never touches the next one."""
        if self._kernel is not None and header.get("cell") == self._cell and self._request:
            if header["how"] == "nudge":
                self._kernel.ask_info()
            else:
                self._kernel.signal(header["how"])

    # -- calls of the host from the kernel -----------------------------------------------------------------------

    def _meet_caller(self, link: socket.socket) -> None:
        if len(self._callers) >= MAX_CALLERS:
            link.close()
            return
        pipe = Pipe(link, link)
        self._callers.add(pipe)
        self._open(pipe, self._hear_caller, self._lose_caller)

    def _lose_caller(self, pipe: Pipe) -> None:
        if pipe not in self._callers:
            return
        self._callers.discard(pipe)
        for number in [number for number, caller in self._calls.items() if caller is pipe]:
            del self._calls[number]
            self._send({"op": "call_gone", "call": number})
        self._close(pipe)

    def _hear_caller(self, pipe: Pipe, header: dict[str, Any], body: bytes) -> None:
        if self._gate is None:
            self._answer_caller(pipe, {"ok": False, "kind": "CellEnded"}, b'"no cell is running"')
            return
        self._last_call += 1
        self._calls[self._last_call] = pipe
        self._send({"op": "call", "call": self._last_call, "cell": self._cell, "name": str(header.get("name"))[:200]}, body)

    def _return(self, header: dict[str, Any], body: bytes) -> None:
        caller = self._calls.pop(int(header["call"]), None)
        if caller is not None:
            self._answer_caller(caller, {"ok": bool(header["ok"]), "kind": header.get("kind", "")}, body)

    def _answer_caller(self, caller: Pipe, header: dict[str, Any], body: bytes) -> None:
        try:
            caller.send_bytes(frames.encode(header, body))
        except OSError:
            self._lose_caller(caller)

    # -- files ---------------------------------------------------------------------------------------------------

    def _file(self, header: dict[str, Any], body: bytes) -> None:
        number = int(header["file"])
        try:
            answer, content = self._file_operation(str(header["do"]), number, header, body)
        except Refused as refusal:
            answer, content = {"error": str(refusal)}, b""
        except OSError as error:
            answer, content = {"error": f"failed: {error.strerror}"}, b""
        if answer is not None:
            self._send({"op": "file", "file": number, **answer}, content)

    def _file_operation(
        self, do: str, number: int, header: dict[str, Any], body: bytes
    ) -> tuple[dict[str, Any] | None, bytes]:
        path = str(header.get("path", ""))
        match do:
            case "put":
                self._files.put(number, path, int(header["mode"]))
                return None, b""
            case "write":
                self._files.write(number, body)
                return None, b""
            case "finish":
                self._files.finish(number)
                return {"ok": True}, b""
            case "abandon":
                self._files.abandon(number)
                return None, b""
            case "get":
                return {"ok": True, "size": self._files.get(number, path)}, b""
            case "read":
                return {"ok": True}, self._files.read(number, frames.CHUNK)
            case "close":
                self._files.close(number)
                return None, b""
            case "list":
                return {"ok": True, "entries": self._files.list(path)}, b""
        raise Refused(f"cannot be asked to {do}")

    _operations: dict[Any, Callable[[Supervisor, dict[str, Any], bytes], None]] = {
        "run": _run_cell,
        "signal": _signal,
        "kernel": _expect_kernel,
        "return": _return,
        "file": _file,
        "stop": _stop,
    }


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
    arguments = parser.parse_args()
    Supervisor(arguments.private, arguments.shared, arguments.workspace).run()
    sys.stdout.flush()
    os._exit(0)  # zmq's clean-up may wait for a kernel that is gone


if __name__ == "__main__":
    main()
