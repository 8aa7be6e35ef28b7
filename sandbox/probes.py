"""Attempts to break each promise of a sandbox from inside: what is promised, what is tried, and what must come of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sandbox.types import CellResult, Dropped, Limits, Notice, Rung, size_text

LIMITS = Limits(memory="256m", cpus=0.5, pids=64, disk="16m", files=2000, output="64k")
"""Small, so that each of them is reached in a moment."""
CELL_SECONDS = 30.0
MAX_SEEN = 160

Judge = Callable[[CellResult], tuple[bool, str]]


@dataclass(frozen=True, slots=True)
class Probe:
    """A cell that tries something. `judge` says whether the promise held, and what was seen. `needs` is the name under
    which a backend declares that it cannot enforce this."""

    name: str
    promised: str
    tried: str
    code: str
    judge: Judge
    mend: str
    needs: str = ""
    timeout: float = CELL_SECONDS


def _said(cell: CellResult) -> str:
    notices = [output.text for output in cell.outputs if isinstance(output, Notice | Rung)]
    said = [*notices, str(cell.error or ""), cell.stdout.strip()[-MAX_SEEN:]]
    return ("; ".join(part for part in said if part) or cell.status)[:MAX_SEEN]


def _facts(holds: Callable[[Any], bool], seen: Callable[[Any], str]) -> Judge:
    """Judges what a cell printed as JSON."""

    def judge(cell: CellResult) -> tuple[bool, str]:
        try:
            facts = json.loads(cell.stdout)
            return bool(holds(facts)), str(seen(facts))[:MAX_SEEN]
        except (ValueError, TypeError, LookupError, AttributeError):
            return False, _said(cell)

    return judge


def _denied(*expected: str) -> Judge:
    """Judges attempts by name → what came of each: all must have ended with one of these errors."""

    def seen(facts: dict[str, str]) -> str:
        outcomes = sorted(set(facts.values()))
        if set(outcomes) <= set(expected):
            return f"{', '.join(outcomes)} for each of {len(facts)}"
        return ", ".join(f"{name}: {outcome}" for name, outcome in facts.items() if outcome not in expected)

    return _facts(lambda facts: bool(facts) and set(facts.values()) <= set(expected), seen)


def _memory(cell: CellResult) -> tuple[bool, str]:
    said = _said(cell)
    return cell.status == "died" and "memory" in said, said


def _output(cell: CellResult) -> tuple[bool, str]:
    dropped = sum(output.bytes for output in cell.outputs if isinstance(output, Dropped))
    kept = len(cell.stdout)
    return dropped > 0 and kept <= int(LIMITS.output), f"{kept:,} bytes kept, {dropped:,} counted and dropped"


def _stopped(cell: CellResult) -> tuple[bool, str]:
    last = next((output.text for output in reversed(cell.outputs) if isinstance(output, Rung)), "")
    return cell.status == "timeout", f"{cell.status} after {cell.seconds:.1f} s: {last}"


def _values(facts: Any) -> str:
    return ", ".join(f"{name} {value}" for name, value in facts.items())


_TRY = """
import ctypes, errno, json, os, socket
libc = ctypes.CDLL(None, use_errno=True)
def outcome(act):
    try:
        result = act()
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))
    except TimeoutError:
        return "timed out"
    return "done" if result is None else str(result)
def call(number, *arguments):
    if libc.syscall(number, *arguments) == -1:
        raise OSError(ctypes.get_errno(), "")
"""
_STATUS = """
import json, os
status = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\\t" in line)
"""
_ENVIRONMENT = (
    *("PATH", "HOME", "HOSTNAME", "LANG", "TERM", "TZ", "PAGER", "GIT_PAGER", "NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE"),
    *("FORCE_COLOR", "container", "GPG_KEY", "VIRTUAL_ENV", "JPY_PARENT_PID", "IPYTHONDIR", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"),
)  # fmt: skip
_ENVIRONMENT_PREFIXES = ("PYTHON", "MPL", "PIP_", "PYDEVD_")
_ENGINE_MEND = "use a current Docker or Podman, or --sandbox bubblewrap; others may not know this setting"
_IMAGE_MEND = "build the image again: `codeact image build`"

PROBES = (
    Probe(
        "privileges",
        "no capabilities, none to be gained, seccomp on",
        "reads /proc/self/status",
        _STATUS
        + "print(json.dumps({key: status.get(key) for key in ('CapEff', 'CapBnd', 'NoNewPrivs', 'Seccomp')}))",
        _facts(
            lambda f: (
                int(f["CapEff"], 16) == int(f["CapBnd"], 16) == 0
                and f["NoNewPrivs"] == "1"
                and f["Seccomp"] == "2"
            ),
            _values,
        ),
        "the engine must know `no-new-privileges` and seccomp: see `docker info`",
        needs="seccomp",
    ),
    Probe(
        "system calls",
        "no namespaces, mounts, io_uring, keyrings, odd sockets",
        "unshare, mount, io_uring_setup, add_key, AF_VSOCK, AF_ALG, raw sockets",
        _TRY + "arm = os.uname().machine == 'aarch64'  # whose calls have other numbers\n"
        "print(json.dumps({\n"
        "    'unshare': outcome(lambda: call(97 if arm else 272, 0x10000000)),\n"
        "    'mount': outcome(lambda: call(40 if arm else 165, b'none', b'/tmp', b'tmpfs', 0, None)),\n"
        "    'io_uring': outcome(lambda: call(425, 1, ctypes.create_string_buffer(120))),\n"
        "    'add_key': outcome(lambda: call(217 if arm else 248, b'user', b'k', b'v', 1, -3)),\n"
        "    'vsock': outcome(lambda: socket.socket(40, socket.SOCK_STREAM).close()),\n"
        "    'alg': outcome(lambda: socket.socket(38, socket.SOCK_SEQPACKET).close()),\n"
        "    'raw': outcome(lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1).close()),\n"
        "}))",
        _denied("EPERM", "EACCES", "ENOSYS"),
        "the engine must apply the seccomp profile that it is given: see `docker info`",
        needs="seccomp",
    ),
    Probe(
        "users",
        "the code runs as another user than its supervisor, neither of them root",
        "compares the two",
        "import json, os\nprint(json.dumps({'code': os.getuid(), 'supervisor': os.stat('/run/s').st_uid}))",
        _facts(lambda f: f["code"] != f["supervisor"] and 0 not in f.values(), _values),
        _IMAGE_MEND,
        needs="users",
    ),
    Probe(
        "root",
        "read-only but for /workspace and /tmp",
        "writes to /, /etc, /opt/venv, /usr/bin, /workspace/data",
        _TRY + "def write(folder):\n"
        "    open(os.path.join(folder, 'doctor'), 'w').close()\n"
        "print(json.dumps({f: outcome(lambda: write(f)) for f in ('/', '/etc', '/opt/venv', '/usr/bin', '/workspace/data')}))",
        _denied("EROFS", "EACCES", "EPERM"),
        _ENGINE_MEND,
    ),
    Probe(
        "network",
        "none",
        "connects to a public, a private and the metadata address, asks a name server",
        _TRY + "def connect(address):\n"
        "    with socket.socket() as s:\n"
        "        s.settimeout(3)\n"
        "        s.connect((address, 80))\n"
        "found = {a: outcome(lambda: connect(a)) for a in ('192.0.2.1', '10.0.0.1', '169.254.169.254')}\n"
        "def ask():\n"
        "    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:\n"
        "        s.sendto(b'x', ('192.0.2.53', 53))\n"
        "found['dns'] = outcome(ask)\n"
        # gVisor's word for it; with another interface it would mean that a network is there
        "others = [line.split(':')[0].strip() for line in open('/proc/net/dev') if ':' in line]\n"
        "if others == ['lo']:\n"
        "    found = {a: 'no route' if o == 'EHOSTUNREACH' else o for a, o in found.items()}\n"
        "print(json.dumps(found))",
        _denied("ENETUNREACH", "no route", "EPERM", "EACCES"),
        "the sandbox was given a network although none was asked for: " + _ENGINE_MEND,
    ),
    Probe(
        "engine",
        "no socket of an engine inside",
        "looks for /var/run/docker.sock and its kin",
        "import json, os\nplaces = ('/var/run/docker.sock', '/run/docker.sock', '/run/podman/podman.sock', '/run/containerd/containerd.sock')\n"
        "print(json.dumps([place for place in places if os.path.exists(place)]))",
        _facts(lambda f: f == [], lambda f: ", ".join(f) or "none of them is there"),
        "do not mount the engine's socket into images",
    ),
    Probe(
        "environment",
        "nothing of the host's variables",
        "lists the names of all",
        "import json, os\nprint(json.dumps(sorted(os.environ)))",
        _facts(
            lambda f: (
                "PATH" in f and all(n in _ENVIRONMENT or n.startswith(_ENVIRONMENT_PREFIXES) for n in f)
            ),
            lambda f: f"{len(f)} variables of the image's and the kernel's own",
        ),
        "unset what the engine adds to containers, such as `proxies` in ~/.docker/config.json",
    ),
    Probe(
        "pids",
        f"{LIMITS.pids} processes and threads",
        "forks twice as many",
        "import errno, json, os, signal, time\n"
        "children, stopped = [], None\n"
        f"for _ in range({2 * int(LIMITS.pids)}):\n"
        "    try:\n"
        "        child = os.fork()\n"
        "    except OSError as error:\n"
        "        stopped = errno.errorcode[error.errno]\n"
        "        break\n"
        "    if not child:\n"
        "        time.sleep(60)\n"
        "        os._exit(0)\n"
        "    children.append(child)\n"
        "for child in children:\n"
        "    os.kill(child, signal.SIGKILL)\n"
        "    os.waitpid(child, 0)\n"
        "print(json.dumps({'started': len(children), 'then': stopped}))",
        _facts(
            lambda f: f["then"] == "EAGAIN" and f["started"] < int(LIMITS.pids),
            lambda f: f"{f['then']} after {f['started']} more",
        ),
        "the machine needs the pids controller of cgroups",
        needs="pids",
    ),
    Probe(
        "open files",
        "1,024 a process",
        "opens 2,000",
        "import errno, json, os\n"
        "held, stopped = [], None\n"
        "try:\n"
        "    for _ in range(2000):\n"
        "        held.append(os.open('/dev/null', os.O_RDONLY))\n"
        "except OSError as error:\n"
        "    stopped = errno.errorcode[error.errno]\n"
        "for number in held:\n"
        "    os.close(number)\n"
        "print(json.dumps({'opened': len(held), 'then': stopped}))",
        _facts(
            lambda f: f["then"] == "EMFILE" and f["opened"] < 1024,
            lambda f: f"{f['then']} after {f['opened']} more",
        ),
        _ENGINE_MEND,
    ),
    Probe(
        "disk",
        f"{size_text(int(LIMITS.disk))} in /workspace",
        "writes three files of half of that",
        "import errno, json, os\n"
        "stopped = None\n"
        "try:\n"
        "    for number in range(3):\n"
        "        with open(f'fill-{number}', 'wb') as file:\n"
        f"            file.write(bytes({int(LIMITS.disk) // 2}))\n"
        "except OSError as error:\n"
        "    stopped = errno.errorcode[error.errno]\n"
        "for number in range(3):\n"
        "    if os.path.exists(f'fill-{number}'):\n"
        "        os.remove(f'fill-{number}')\n"
        "print(json.dumps({'then': stopped}))",
        _facts(lambda f: f["then"] == "ENOSPC", lambda f: str(f["then"])),
        "the engine must know sized tmpfs mounts: " + _ENGINE_MEND,
        needs="disk",
    ),
    Probe(
        "file size",
        f"{size_text(int(LIMITS.disk))} a file",
        "makes a sparse file of twice that",
        "import errno, json, os, signal\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "stopped = None\n"
        "try:\n"
        "    with open('sparse', 'wb') as file:\n"
        f"        file.truncate({2 * int(LIMITS.disk)})\n"
        "except OSError as error:\n"
        "    stopped = errno.errorcode[error.errno]\n"
        "os.path.exists('sparse') and os.remove('sparse')\n"
        "print(json.dumps({'then': stopped}))",
        _facts(lambda f: f["then"] == "EFBIG", lambda f: str(f["then"])),
        _ENGINE_MEND,
    ),
    Probe(
        "files",
        f"{LIMITS.files} files in /workspace",
        "makes more",
        "import errno, json, os, shutil\n"
        "os.mkdir('many')\n"
        "made, stopped = 0, None\n"
        "try:\n"
        f"    for number in range({2 * int(LIMITS.files)}):\n"
        "        open(f'many/{number}', 'w').close()\n"
        "        made += 1\n"
        "except OSError as error:\n"
        "    stopped = errno.errorcode[error.errno]\n"
        "shutil.rmtree('many')\n"
        "print(json.dumps({'made': made, 'then': stopped}))",
        _facts(
            lambda f: f["then"] == "ENOSPC" and f["made"] < int(LIMITS.files),
            lambda f: f"{f['then']} after {f['made']}",
        ),
        _ENGINE_MEND,
        needs="files",
    ),
    Probe(
        "cpus",
        f"{float(LIMITS.cpus):g} of a core",
        "computes for 1.5 seconds",
        "import json, time\n"
        "began, used = time.monotonic(), time.process_time()\n"
        "while time.monotonic() - began < 1.5:\n"
        "    sum(range(1000))\n"
        "print(json.dumps((time.process_time() - used) / (time.monotonic() - began)))",
        _facts(lambda f: f < 1.3 * float(LIMITS.cpus), lambda f: f"{f:.2f} of a core"),
        "the machine needs the cpu controller of cgroups, with quotas (CONFIG_CFS_BANDWIDTH)",
        needs="cpus",
    ),
    Probe(
        "output",
        f"{size_text(int(LIMITS.output))} a cell",
        "prints 1 MB",
        "print('x' * 1_000_000)",
        _output,
        _IMAGE_MEND,
    ),
    Probe(
        "time",
        "1 second, where that is a cell's timeout",
        "computes without end in C code",
        "sum(range(10**12))",
        _stopped,
        _IMAGE_MEND,
        timeout=1.0,
    ),
    Probe(
        "memory",
        size_text(int(LIMITS.memory)),
        "holds twice that",
        f"held = bytearray({2 * int(LIMITS.memory)})\nprint('held', len(held))",
        _memory,
        "the machine needs the memory controller of cgroups (on Debian: cgroup_enable=memory swapaccount=1)",
        needs="memory",
    ),
)
