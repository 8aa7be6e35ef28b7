"""What code in a sandbox cannot do, tried from inside."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest

from sandbox import FileError, Sandbox
from tests.contract.conftest import fine, next_cell_works, value

ATTEMPT = """
import ctypes, errno, os, socket
libc = ctypes.CDLL(None, use_errno=True)
def number(attempt):
    try:
        attempt()
    except OSError as error:
        return errno.errorcode[error.errno]
    return "allowed"
def syscall(*arguments):
    return errno.errorcode[ctypes.get_errno()] if libc.syscall(*arguments) < 0 else "allowed"
"""


def attempt(box: Sandbox, expression: str) -> object:
    return value(box, f"{ATTEMPT}\nvalue = {expression}")


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ("CapInh", "0" * 16),
        ("CapPrm", "0" * 16),
        ("CapEff", "0" * 16),
        ("CapBnd", "0" * 16),
        ("CapAmb", "0" * 16),
        ("NoNewPrivs", "1"),
        ("Seccomp", "2"),
        ("Uid", "10002\t10002\t10002\t10002"),
        ("Groups", ""),
    ],
)
def test_the_kernel_has_no_privileges(box: Sandbox, field: str, expected: str) -> None:
    status = value(box, "value = dict(l.rstrip('\\n').split(':', 1) for l in open('/proc/self/status'))")
    found = status[field].strip()
    assert found in (expected, "10001") if field == "Groups" else found == expected


@pytest.mark.parametrize(
    "place", ["/", "/etc", "/usr/bin", "/opt/venv", "/opt/sandbox/sandbox_guest", "/var", "/home"]
)
def test_nothing_can_be_written_outside(box: Sandbox, place: str) -> None:
    got = attempt(box, f"number(lambda: open({place!r} + '/planted', 'w'))")
    assert got in ("EROFS", "EACCES")
    # and not only because of whose it is: the mount itself is read-only
    flags = value(box, f"import os\nvalue = os.statvfs({place!r}).f_flag & os.ST_RDONLY")
    assert flags == 1


@pytest.mark.parametrize("place", ["/workspace", "/workspace/out", "/tmp"])
def test_the_workspace_can_be_written(box: Sandbox, place: str) -> None:
    assert value(box, f"value = open({place!r} + '/mine', 'w').write('abc')") == 3


@pytest.mark.parametrize("address", ["169.254.169.254", "8.8.8.8", "172.17.0.1", "10.0.0.1"])
def test_no_address_can_be_reached(box: Sandbox, address: str) -> None:
    assert attempt(box, f"number(lambda: socket.create_connection(({address!r}, 80), 3))") == "ENETUNREACH"


def test_no_name_is_resolved_and_only_loopback_exists(box: Sandbox) -> None:
    cell = box.run("import socket\nsocket.getaddrinfo('example.com', 80)")
    assert cell.error is not None
    assert cell.error.name == "gaierror"
    assert value(box, "value = [name for _, name in socket.if_nameindex()]") == ["lo"]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("number(lambda: socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM))", "EPERM"),
        ("number(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))", "EPERM"),
        ("number(lambda: socket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET))", "EPERM"),
        ("number(lambda: socket.socket(socket.AF_BLUETOOTH, socket.SOCK_RAW))", "EPERM"),
        ("number(lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12))", "EPERM"),
        ("number(lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))", "EPERM"),
        ("syscall(272, 0x10000000)", "EPERM"),  # unshare(CLONE_NEWUSER)
        ("syscall(56, 0x10000011, 0, 0, 0, 0)", "EPERM"),  # clone(CLONE_NEWUSER | SIGCHLD)
        ("syscall(435, 0, 0)", "ENOSYS"),  # clone3, whose flags a filter cannot see
        ("syscall(425, 8, 0)", "EPERM"),  # io_uring_setup
        ("syscall(250, 0, -3, 0)", "EPERM"),  # keyctl
        ("syscall(101, 16, 1, 0, 0)", "EPERM"),  # ptrace(PTRACE_ATTACH)
        ("syscall(321, 0, 0, 0)", "EPERM"),  # bpf
        ("syscall(298, 0, 0, -1, -1, 0)", "EPERM"),  # perf_event_open
        ("syscall(323, 0)", "EPERM"),  # userfaultfd
        ("syscall(165, b'x', b'/tmp', b'tmpfs', 0, 0)", "EPERM"),  # mount
        ("syscall(304, 0, 0, 0)", "EPERM"),  # open_by_handle_at
        ("number(lambda: os.chroot('/tmp'))", "EPERM"),
        ("number(lambda: os.setuid(0))", "EPERM"),
        ("number(lambda: os.setuid(10001))", "EPERM"),
        ("number(lambda: os.mknod('/workspace/node', 0o600 | 0o020000, os.makedev(1, 1)))", "EPERM"),
        ("number(lambda: open('/proc/sys/kernel/hostname', 'w'))", "EROFS"),
        ("number(lambda: os.kill(supervisor, 9))", "EPERM"),
        ("number(lambda: os.kill(1, 9))", "EPERM"),
        ("number(lambda: os.listdir('/run/s'))", "EACCES"),
        ("number(lambda: os.listdir(f'/proc/{supervisor}/fd'))", "EACCES"),
        ("number(lambda: open(f'/proc/{supervisor}/mem', 'rb'))", "EACCES"),
        ("number(lambda: open('/workspace/data/new', 'w'))", "EACCES"),
        ("number(lambda: os.rename('/workspace/data', '/workspace/data2'))", "EPERM"),
        ("number(lambda: os.rmdir('/workspace/data'))", "EPERM"),
        ("number(lambda: os.chmod('/workspace', 0o777))", "EPERM"),
        ("number(lambda: os.unlink('/run/k/warden.sock'))", "EPERM"),
        ("number(lambda: os.rename('/run/k/host.sock', '/run/k/other'))", "EPERM"),
    ],
)
@pytest.mark.needs("users", "seccomp")
def test_forbidden(box: Sandbox, expression: str, expected: str) -> None:
    fine(box.run(FIND_SUPERVISOR))
    assert attempt(box, expression) == expected


FIND_SUPERVISOR = """
import os
supervisor = next(int(p) for p in os.listdir('/proc') if p.isdigit() and p != '1'
                  and b'sandbox_guest.supervisor' in open(f'/proc/{p}/cmdline', 'rb').read())
"""


@pytest.mark.needs("users")
def test_supervisor_and_kernel_are_two_users(box: Sandbox) -> None:
    fine(box.run(FIND_SUPERVISOR))
    assert value(box, "value = [os.stat(f'/proc/{supervisor}').st_uid, os.getuid()]") == [10001, 10002]


def test_the_environment_is_an_allow_list(
    settings: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-for-the-sandbox")
    monkeypatch.setenv("HTTPS_PROXY", "http://user:secret@proxy:1")
    with Sandbox(image="minimal", **settings) as box:
        names = set(value(box, "import os\nvalue = list(os.environ)"))
        text = value(box, "value = open('/proc/self/environ').read() + repr(dict(os.environ))")
    assert "not-for-the-sandbox" not in text
    assert "secret" not in text
    assert names <= {
        *("PATH", "HOME", "HOSTNAME", "LANG", "MPLBACKEND", "MPLCONFIGDIR", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"),
        *("PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "IPYTHONDIR", "JPY_PARENT_PID", "TERM", "NO_COLOR", "PAGER"),
        *("PIP_PREFIX", "PIP_NO_CACHE_DIR", "PIP_NO_INPUT", "PIP_NO_WARN_SCRIPT_LOCATION", "PIP_RETRIES"),
        *("PIP_DISABLE_PIP_VERSION_CHECK", "PIP_PROGRESS_BAR", "PIP_CONSTRAINT"),
        *("GIT_PAGER", "CLICOLOR", "FORCE_COLOR", "CLICOLOR_FORCE", "PYDEVD_USE_FRAME_EVAL", "TZ", "VIRTUAL_ENV"),
        *("GPG_KEY", "PYTHON_VERSION", "PYTHON_SHA256"),  # of the registry's image of Python
        "container",  # by which Podman says that one is in a container
    }  # fmt: skip


def test_no_descriptor_is_inherited(box: Sandbox) -> None:
    links, table = value(
        box,
        "import os\nlinks = []\n"
        "for fd in os.listdir('/proc/self/fd'):\n"
        "    try: links.append(os.readlink(f'/proc/self/fd/{fd}'))\n"
        "    except OSError: pass\n"
        "value = links, [line.split() for line in open('/proc/net/unix')]",
    )
    own = {link[len("socket:[") : -1] for link in links if link.startswith("socket:")}
    paths = {row[7] for row in table if len(row) > 7 and row[6] in own}
    assert {re.sub("[0-9a-f]{16}-[1-5]", "*", path) for path in paths} == {"/run/k/*"}
    others = {link.split(":")[0] for link in links if not link.startswith(("socket:", "/proc/"))}
    assert others == {"/dev/null", "anon_inode", "pipe"}


def test_no_engine_socket_and_no_setuid_program(box: Sandbox) -> None:
    found = value(
        box,
        "import os, stat\nvalue = []\n"
        "for folder, _, files in os.walk('/', onerror=lambda e: None):\n"
        "    if folder.startswith(('/proc', '/sys')): continue\n"
        "    for name in files:\n"
        "        path = os.path.join(folder, name)\n"
        "        try: mode = os.lstat(path).st_mode\n"
        "        except OSError: continue\n"
        "        if 'docker.sock' in name or mode & (stat.S_ISUID | stat.S_ISGID): value.append(path)",
    )
    assert found == []


def test_inputs_cannot_be_changed_by_any_way(fresh: Sandbox) -> None:
    fresh.write("data/sales.csv", "a,b\n1,2\n")
    tries = [
        "open('/workspace/data/sales.csv', 'a')",
        "__import__('os').unlink('/workspace/data/sales.csv')",
        "__import__('os').chmod('/workspace/data/sales.csv', 0o666)",
        "__import__('os').rename('/workspace/data/sales.csv', '/workspace/x')",
        "__import__('os').link('/workspace/data/sales.csv', '/workspace/x')",
    ]
    for code in tries:
        cell = fresh.run(code)
        assert cell.error is not None, code
        assert cell.error.name in ("PermissionError", "OSError"), cell
    assert fresh.read("data/sales.csv") == b"a,b\n1,2\n"


def test_modules_planted_in_the_workspace_are_not_run_by_ours(fresh: Sandbox) -> None:
    fine(
        fresh.run(
            "for name in ('socket', 'json', 'select', 'signal', 'sandbox_guest', 'frames', 'struct', 'time', 'zmq'):\n"
            "    open(f'/workspace/{name}.py', 'w').write(\n"
            '        \'import os\\nopen("/workspace/ran", "w").write(str(os.getuid()))\\nraise SystemExit\')'
        )
    )
    break_stream(fresh)  # a relay is started afresh, as the supervisor's user
    fresh.restart()  # so are a warden and a kernel
    next_cell_works(fresh)
    with pytest.raises(FileError, match="is not there"):
        fresh.read("ran")


def break_stream(box: Sandbox) -> None:
    """Cuts the stream under the bridge, as a network would."""
    assert box._live is not None
    stream = box._live.bridge._stream
    assert stream is not None
    stream.close()
