"""Checks that a machine can run sandboxes, and that what contains the code holds there: each limit is tried."""

from __future__ import annotations

import platform
import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sandbox import images, roots
from sandbox.backends.choice import Chosen, choose
from sandbox.backends.reaper import LABEL
from sandbox.engine import Engine
from sandbox.errors import SandboxError
from sandbox.private_engine import Places
from sandbox.probe import ping
from sandbox.probes import CELL_SECONDS, LIMITS, PROBES
from sandbox.session import Sandbox
from sandbox.types import BackendName

CLOSE_SECONDS = 1.0
"""How long it may take to end a sandbox, as is promised."""


@dataclass(frozen=True, slots=True)
class Check:
    """`ok` is whether the named thing holds; `detail` says what was found, `mend` what to do where it does not hold.

    Where something was promised and tried, the two say what. `enforced` is False where the backend declares that it
    cannot hold this promise on this machine: then nothing was tried, and `detail` says why.
    """

    area: str
    name: str
    ok: bool
    detail: str
    mend: str
    promised: str = ""
    tried: str = ""
    enforced: bool = True


def check_sandbox(
    image: str = "data", runtime: str | None = None, backend: BackendName = "auto"
) -> Iterator[Check]:
    """Engine, image, a throw-away sandbox and its limits, one after the other. Ends at the first that the next ones need."""
    try:
        chosen = choose(backend, runtime)
    except SandboxError as error:
        mend = "start Docker, run `make engine`, set DOCKER_HOST, or install bubblewrap"
        yield Check("engine", "answers", False, str(error), mend)
        return
    if chosen.engine is None:
        yield from _without_engine(chosen, image)
        return
    yield _engine(chosen.engine)
    yield _private_engine()
    try:
        with chosen.engine.connected() as client:
            found = images.find(client, image)
    except SandboxError as error:
        yield Check("image", image, False, *_with_mend(str(error), _build(image)))
        return
    yield Check("image", image, True, f"{found.tag}, {(found.size or 0) / 1e6:.0f} MB", "")
    yield from _limits(image, runtime, chosen)


def _without_engine(chosen: Chosen, image: str) -> Iterator[Check]:
    yield Check("engine", "not needed", True, chosen.notice or "bubblewrap contains the code", "")
    try:
        found = roots.find_root(image)
    except SandboxError as error:
        yield Check("image", image, False, *_with_mend(str(error), _build(image, " --sandbox bubblewrap")))
        return
    yield Check("image", image, True, f"{found.info.tag}, {found.size / 1e6:.0f} MB", "")
    yield from _limits(image, None, chosen)


def _build(image: str, flags: str = "") -> str:
    """How there will be an image."""
    known = images.image_names()
    return (
        f"run `codeact image build {image}{flags}`" if image in known else f"name one of {', '.join(known)}"
    )


def _with_mend(reason: str, mend: str) -> tuple[str, str]:
    """A reason that may end with the very mend, and the mend, so that it is said once."""
    return reason.removesuffix(mend).rstrip(" :;") or reason, mend


def _engine(engine: Engine) -> Check:
    mend = "restart the engine, and look into its log"
    try:
        with engine.connected() as client:
            info = client.info()
    except SandboxError as error:
        return Check("engine", "answers", False, str(error), mend)
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
    said = f"runs at {places.socket}" if runs else "does not run, none is needed"
    return Check("engine", "private engine", True, said, "")


def _limits(image: str, runtime: str | None, chosen: Chosen) -> Iterator[Check]:
    began = time.monotonic()
    label = f"doctor-{secrets.token_hex(4)}"
    box = Sandbox(
        image, limits=LIMITS, timeout=CELL_SECONDS, runtime=runtime, backend=chosen.name, label=label
    )
    try:
        with box:
            yield Check("sandbox", "starts", True, f"in {time.monotonic() - began:.1f} s", "")
            for probe in PROBES:
                if probe.needs in box.unenforced:
                    reason = box.unenforced[probe.needs]
                    yield Check(
                        "sandbox", probe.name, True, reason, probe.mend, probe.promised, "nothing", enforced=False
                    )  # fmt: skip
                    continue
                ok, seen = probe.judge(box.run(probe.code, timeout=probe.timeout))
                yield Check("sandbox", probe.name, ok, seen, probe.mend, probe.promised, probe.tried)
            for name in sorted(box.unenforced.keys() - {probe.needs for probe in PROBES}):
                reason = box.unenforced[name]
                yield Check("sandbox", name, True, reason, "", name, "nothing", enforced=False)
            began = time.monotonic()
    except SandboxError as error:
        mend = "run `codeact image verify`; if that holds, look into the engine's log"
        yield Check("sandbox", "starts", False, str(error), mend)
        return
    yield _closed(time.monotonic() - began, _left(chosen.engine, label))


def _closed(seconds: float, left: int) -> Check:
    return Check(
        "sandbox",
        "close",
        left == 0 and seconds < CLOSE_SECONDS,
        f"closed in {seconds:.2f} s, {left} left",
        "run `codeact gc`; where it is slow, the engine is: look into its log",
        f"under {CLOSE_SECONDS:g} second, nothing left",
        "closes it, and looks for what is left",
    )


def _left(engine: Engine | None, label: str) -> int:
    """Containers of this name, or child processes, that are still there."""
    if engine is None:
        tasks = Path("/proc/self/task").glob("*/children")
        return sum(
            "bwrap" in Path(f"/proc/{pid}/comm").read_text()
            for task in tasks
            for pid in task.read_text().split()
            if Path(f"/proc/{pid}/comm").exists()
        )
    with engine.connected() as client:
        return len(client.api.containers(all=True, filters={"label": f"{LABEL}.run={label}"}))
