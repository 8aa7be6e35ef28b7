"""Whether a sandbox can be had on this machine and its limits hold: tried, not read from settings."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from docker.errors import DockerException

from sandbox import images, roots
from sandbox.backends.choice import Chosen, choose
from sandbox.engine import Engine
from sandbox.errors import SandboxError
from sandbox.private_engine import Places
from sandbox.probe import ping
from sandbox.session import Sandbox
from sandbox.types import BackendName, CellResult, Dropped, Limits, Notice

LIMITS = Limits(memory="256m", pids=64, disk="16m", output="64k")
"""Small, so that each of them is reached in a moment."""
CELL_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Check:
    """`ok` is whether the named thing holds; `detail` says what was found, `mend` what to do where it does not hold."""

    area: str
    name: str
    ok: bool
    detail: str
    mend: str


@dataclass(frozen=True, slots=True)
class Probe:
    """A cell that tries something, and what its result must be: `judge` says whether it is, and what was seen."""

    name: str
    code: str
    judge: Callable[[CellResult], tuple[bool, str]]
    mend: str
    needs: str = ""
    """What a backend may declare that it cannot enforce: it is not tried then."""


def check_sandbox(
    image: str = "data", runtime: str | None = None, backend: BackendName = "auto"
) -> Iterator[Check]:
    """Engine, image, a throw-away sandbox and its limits, one after the other. Ends at the first that the next ones need."""
    try:
        chosen = choose(backend, runtime)
    except SandboxError as error:
        yield Check(
            "engine", "answers", False, str(error), "start Docker, run `make engine`, or set DOCKER_HOST"
        )
        return
    if chosen.engine is None:
        yield from _without_engine(chosen, image)
        return
    engine = chosen.engine
    yield _engine(engine)
    yield _private_engine()
    try:
        with closing(engine.client()) as client:
            found = images.find(client, image)
    except (SandboxError, DockerException) as error:
        yield Check("image", image, False, str(error), f"run `codeact image build {image}`")
        return
    yield Check("image", image, True, f"{found.tag}, {(found.size or 0) / 1e6:.0f} MB", "")
    yield from _limits(image, runtime, "docker")


def _without_engine(chosen: Chosen, image: str) -> Iterator[Check]:
    yield Check("engine", "not needed", True, chosen.notice or "bubblewrap contains the code", "")
    try:
        found = roots.find_root(image)
    except SandboxError as error:
        mend = f"run `codeact image build {image} --sandbox bubblewrap`"
        yield Check("image", image, False, str(error), mend)
        return
    yield Check("image", image, True, f"{found.info.tag}, {found.size / 1e6:.0f} MB", "")
    yield from _limits(image, None, "bubblewrap")


def _engine(engine: Engine) -> Check:
    mend = "restart the engine, and look into its log"
    try:
        with closing(engine.client()) as client:
            info = client.info()
    except DockerException as error:
        return Check("engine", "answers", False, f"{engine.url}: {error}", mend)
    facts = [
        engine.url,
        f"version {info.get('ServerVersion')}",
        f"storage {info.get('Driver')}",
        f"cgroup v{info.get('CgroupVersion', '1')}",
        f"kernel {info.get('KernelVersion', platform.release())}",
    ]
    return Check("engine", "answers", True, ", ".join(facts), mend)


def _private_engine() -> Check:
    places = Places.for_user()
    runs = ping(places.socket) is None
    return Check(
        "engine",
        "private engine",
        True,
        f"runs at {places.socket}" if runs else "does not run, none is needed",
        "",
    )


def _limits(image: str, runtime: str | None, backend: BackendName) -> Iterator[Check]:
    began = time.monotonic()
    box = Sandbox(
        image, limits=LIMITS, timeout=CELL_SECONDS, runtime=runtime, backend=backend, label="doctor"
    )
    try:
        with box:
            seconds = time.monotonic() - began
            yield Check("sandbox", "starts", True, f"in {seconds:.1f} s", "")
            for name, reason in box.unenforced.items():
                yield Check("sandbox", f"not enforced: {name}", True, reason, "")
            for probe in PROBES:
                if probe.needs in box.unenforced:
                    continue
                ok, detail = probe.judge(box.run(probe.code))
                yield Check("sandbox", probe.name, ok, detail, probe.mend)
    except SandboxError as error:
        mend = "run `codeact image verify`; if that holds, look into the engine's log"
        yield Check("sandbox", "starts", False, str(error), mend)


def _said(cell: CellResult) -> str:
    notices = [output.text for output in cell.outputs if isinstance(output, Notice)]
    said = [*notices, str(cell.error or ""), cell.stdout.strip()[-200:]]
    return "; ".join(part for part in said if part) or cell.status


def _facts(expected: Callable[[Any], bool]) -> Callable[[CellResult], tuple[bool, str]]:
    """Judges what a cell printed as JSON."""

    def judge(cell: CellResult) -> tuple[bool, str]:
        try:
            return bool(expected(json.loads(cell.stdout))), cell.stdout.strip()[:300]
        except (ValueError, TypeError, LookupError):
            return False, _said(cell)[:300]

    return judge


def _memory(cell: CellResult) -> tuple[bool, str]:
    said = _said(cell)
    return cell.status == "died" and "memory" in said, said


def _output(cell: CellResult) -> tuple[bool, str]:
    dropped = sum(output.bytes for output in cell.outputs if isinstance(output, Dropped))
    kept = len(cell.stdout)
    return dropped > 0 and kept <= int(LIMITS.output), f"{kept:,} bytes kept, {dropped:,} dropped"


_STATUS = """
import json, os
def status(of):
    return dict(line.split(":\\t", 1) for line in open(f"/proc/{of}/status").read().splitlines() if ":\\t" in line)
"""
_ENGINE_MEND = "use a current Docker or Podman; others may not know this setting"
PROBES = (
    Probe(
        "no privileges",
        _STATUS + "mine = status('self')\n"
        "print(json.dumps({key: mine.get(key) for key in ('CapEff', 'CapBnd', 'NoNewPrivs', 'Seccomp')}))",
        _facts(
            lambda f: (
                int(f["CapEff"], 16) == int(f["CapBnd"], 16) == 0
                and f["NoNewPrivs"] == "1"
                and f["Seccomp"] == "2"
            )
        ),
        "the engine must know `no-new-privileges` and seccomp: see `docker info`",
    ),
    Probe(
        "two users",
        _STATUS + "print(json.dumps({'code': os.getuid(), 'supervisor': os.stat('/run/s').st_uid}))",
        _facts(lambda f: f["code"] != f["supervisor"] and 0 not in f.values()),
        "build the image again: `codeact image build`",
        "users",
    ),
    Probe(
        "root is read-only",
        "import json, os\nprint(json.dumps({'read_only': bool(os.statvfs('/').f_flag & os.ST_RDONLY)}))",
        _facts(lambda f: f["read_only"]),
        _ENGINE_MEND,
    ),
    Probe(
        "no network",
        "import errno, json, socket\n"
        "def reached(address):\n"
        "    with socket.socket() as s:\n"
        "        s.settimeout(3)\n"
        "        return errno.errorcode.get(s.connect_ex(address), 'yes')\n"
        "print(json.dumps({a: reached((a, 80)) for a in ('192.0.2.1', '169.254.169.254')}))",
        _facts(lambda f: set(f.values()) <= {"ENETUNREACH", "EPERM", "EACCES"}),
        "the engine gave a network although none was asked for: " + _ENGINE_MEND,
    ),
    Probe(
        "process limit",
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
        _facts(lambda f: f["then"] == "EAGAIN" and f["started"] < int(LIMITS.pids)),
        "the engine's machine needs the pids controller of cgroups",
        "pids",
    ),
    Probe(
        "disk limit",
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
        _facts(lambda f: f["then"] == "ENOSPC"),
        "the engine must know sized tmpfs mounts: " + _ENGINE_MEND,
    ),
    Probe("output limit", "print('x' * 1_000_000)", _output, "build the image again: `codeact image build`"),
    Probe(
        "memory limit",
        f"held = bytearray({2 * int(LIMITS.memory)})\nprint('held', len(held))",
        _memory,
        "the engine's machine needs the memory controller of cgroups (on Debian: cgroup_enable=memory swapaccount=1)",
        "memory",
    ),
)
