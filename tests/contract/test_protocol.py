"""The kernel's key can be read by the code in it: whatever that forges, the supervisor and the host go on."""

from __future__ import annotations

import struct
import threading

import pytest

from sandbox import ProtocolError, Sandbox
from sandbox.bridge import VERSION, Bridge
from sandbox.guest import frames
from tests.contract.conftest import fine, next_cell_works, notices
from tests.contract.test_containment import break_stream

FORGE = """
kernel = get_ipython().kernel
def publish(kind, content, parent=None):
    kernel.session.send(kernel.iopub_socket, kind, content, parent=parent or kernel.get_parent('shell'))
def raw(*parts):
    kernel.iopub_thread.send_multipart(list(parts))
"""


@pytest.mark.parametrize(
    "code",
    [
        "publish('status', {'execution_state': 'idle'})",
        "publish('status', {'execution_state': [1]})",
        "publish('stream', {'name': 5, 'text': {'a': [[[]]]}})",
        "publish('stream', 'not an object')",
        "publish('stream', {})",
        "publish('execute_result', {'data': ['x']})",
        "publish('display_data', {'data': {'text/plain': 5, 'x': None}})",
        "publish('error', {'ename': None, 'evalue': [], 'traceback': [1, [2], None]})",
        "publish('error', {'traceback': 'text'})",
        "publish('no such kind', {'x': 1})",
        "publish('x' * 100_000, {})",
        "publish('clear_output', {'wait': 7})",
        "publish('stream', {'name': 'stdout', 'text': ''}, parent={'header': {'msg_id': [1, 2]}})",
    ],
)
def test_forged_messages(box: Sandbox, code: str) -> None:
    cell = box.run(f"{FORGE}\n{code}\nprint('to the end')")
    assert cell.status == "ok", cell
    assert "to the end" in cell.stdout
    next_cell_works(box)


@pytest.mark.parametrize(
    "code",
    [
        "raw(b'junk')",
        "raw(b'', b'', b'')",
        "raw(*[b'x'] * 500)",
        "raw(b'<IDS|MSG>', b'', b'{}', b'{}', b'{}', b'{}')",
        "raw(b'topic', b'<IDS|MSG>', b'0' * 64, b'[]', b'1', b'null', b'\\xff')",
        "deep = b'[' * 200_000 + b']' * 200_000\n"
        "s = kernel.session\n"
        "parts = [s.pack({'msg_id': 'a', 'msg_type': 'stream'}), s.pack({}), s.pack({}), deep]\n"
        "raw(b'<IDS|MSG>', s.sign(parts), *parts)",
    ],
)
def test_junk_is_thrown_away_and_counted(box: Sandbox, code: str) -> None:
    cell = fine(box.run(f"{FORGE}\n{code}\nprint('to the end')"))
    assert cell.stdout == "to the end\n"
    assert "1 messages that were not the kernel's own" in notices(cell)
    next_cell_works(box)


def test_a_forged_end_ends_only_the_cell_that_forged_it(box: Sandbox) -> None:
    """Its own outcome is its own to lie about; what it does afterwards is not taken for the next cell's."""
    cell = box.run(
        f"{FORGE}\nimport threading, time\n"
        "kernel.session.send(kernel.shell_stream or kernel.shell_socket, 'execute_reply', {'status': 'ok'},\n"
        "    parent=kernel.get_parent('shell'), ident=kernel._get_shell_context_var(kernel._shell_parent_ident))\n"
        "publish('status', {'execution_state': 'idle'})\n"
        "time.sleep(0.3)\nprint('written after the end')"
    )
    assert cell.status in ("ok", "error")
    following = box.run("print('to stdout')\n6 * 7")
    assert (following.status, following.stdout, following.result) == ("ok", "to stdout\n", "42")
    next_cell_works(box)


def test_a_message_sent_twice_counts_once(box: Sandbox) -> None:
    cell = fine(
        box.run(
            f"{FORGE}\ns = kernel.session\n"
            "parts = s.serialize(s.msg('stream', {'name': 'stdout', 'text': 'once '}, parent=kernel.get_parent('shell')))\n"
            "raw(*parts); raw(*parts)\nprint('end')"
        )
    )
    assert cell.stdout == "once end\n"
    assert "1 messages" in notices(cell)


def test_junk_on_the_socket_of_host_calls(box: Sandbox) -> None:
    fine(
        box.run(
            "import socket, struct, json\n"
            "def talk(data):\n"
            "    with socket.socket(socket.AF_UNIX) as s:\n"
            "        s.connect('/run/k/host.sock'); s.sendall(data); s.settimeout(5); return s.recv(100)\n"
            "def frame(header): return struct.pack('>II', len(header), 0) + header\n"
            "assert talk(b'\\xff' * 100) == b''\n"
            "assert talk(frame(b'[]')) == b''\n"
            "assert talk(struct.pack('>II', 2**31, 2**31)) == b''\n"
            "assert b'BadCall' in talk(frame(b'{\"name\": [1]}'))\n"
            "many = [socket.socket(socket.AF_UNIX) for _ in range(200)]\n"
            "for s in many:\n"
            "    try: s.connect('/run/k/host.sock')\n"
            "    except BlockingIOError: pass\n"  # where a full queue is told
            "for s in many: s.close()"
        )
    )
    fine(box.run("from sandbox_guest.host import call\nassert call('echo', 1) == 1"))


def test_a_false_warden_is_turned_away(box: Sandbox) -> None:
    fine(
        box.run(
            "import socket\ns = socket.socket(socket.AF_UNIX); s.connect('/run/k/warden.sock'); s.settimeout(5)\n"
            "assert s.recv(10) == b''"
        )
    )
    next_cell_works(box)


def test_a_lost_stream_loses_nothing(fresh: Sandbox) -> None:
    """Cut many times while a cell counts: every number arrives, once."""
    cell = fresh.stream(
        "import time\nfor i in range(300): print(i, flush=True); time.sleep(0.002)", timeout=60
    )
    text = ""
    for number, output in enumerate(cell):
        text += getattr(output, "text", "")
        if number % 50 == 10:
            break_stream(fresh)
    assert text.split() == [str(i) for i in range(300)]
    next_cell_works(fresh)


def test_a_file_survives_a_lost_stream(fresh: Sandbox) -> None:
    content = bytes(range(256)) * 40_000
    cut = threading.Timer(0.02, break_stream, [fresh])
    cut.start()
    fresh.write("big.bin", content)
    cut.join()
    break_stream(fresh)
    assert fresh.read("big.bin") == content


class Script:
    """A stream that says what a hostile sandbox might."""

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = list(pieces)

    def read(self) -> bytes:
        return self._pieces.pop(0) if self._pieces else b""

    def write(self, data: bytes) -> None:
        pass

    def close(self) -> None:
        pass


WELCOME = frames.encode({"op": "welcome", "version": VERSION, "received": 0})


@pytest.mark.parametrize(
    "piece",
    [
        b"\xff" * 64,
        struct.pack(">II", 2**31, 0),
        struct.pack(">II", 5, 0) + b"hello",
        struct.pack(">II", 2, 0) + b"[]",
        frames.encode({"op": "output", "seq": 7}),
        frames.encode({"op": "output", "seq": "1"}),
        frames.encode({"op": "x" * 100_000, "seq": 1}),
        b"".join(frames.encode({"op": "late", "seq": n + 1}, bytes(2**20)) for n in range(80)),
    ],
    ids=["noise", "size", "text", "list", "gap", "type", "header", "flood"],
)
def test_a_hostile_stream_is_given_up_with_its_reason(piece: bytes) -> None:
    bridge = Bridge(lambda: Script(WELCOME, piece), lambda header, body: None)
    bridge.open()
    bridge._thread.join(20)
    frame = bridge.events.get(10)
    while frame[0].get("op") != "lost":
        frame = bridge.events.get(10)
    assert "the sandbox sent" in frame[0]["reason"]
    bridge.close()


def test_another_version_is_refused() -> None:
    bridge = Bridge(
        lambda: Script(frames.encode({"op": "welcome", "version": 999})), lambda header, body: None
    )
    with pytest.raises(ProtocolError, match="codeact image build"):
        bridge.open()
