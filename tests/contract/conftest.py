"""One suite for every backend: `box` is a sandbox that the tests of a module share, `fresh` one that a test may ruin."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Protocol

import docker
import pytest

from sandbox import CellResult, Limits, Notice, Rung, Sandbox, cells
from sandbox.backends import cgroups, facts, spawner
from sandbox.backends.docker import GVISOR, unenforced
from sandbox.backends.machine import look
from sandbox.backends.reaper import reap
from sandbox.engine import find_engine
from sandbox.errors import EngineError
from sandbox.processes import descendants, processes_naming
from sandbox.roots import build_root
from tests.contract.host import assert_as_before, held, keep_no_large_blocks

Make = Callable[..., Sandbox]


@dataclass(frozen=True)
class Kind:
    """One way to have a sandbox: `settings` are those of `Sandbox`; `absent` says why it cannot be had here."""

    settings: Mapping[str, Any]
    absent: Callable[[], str | None]
    unenforced: Callable[[], Mapping[str, str]]


def _engine_unenforced() -> Mapping[str, str]:
    engine = find_engine()
    with closing(engine.client()) as client:
        return unenforced(facts.look(client), None, local=engine.local)


KINDS = {
    "docker": Kind({"backend": "docker"}, lambda: None, _engine_unenforced),
    "bubblewrap": Kind(
        {"backend": "bubblewrap"},
        lambda: None if look().program else "bubblewrap is not installed",
        lambda: look().unenforced,
    ),
}


def _runsc_absent() -> str | None:
    try:
        with closing(find_engine().client()) as client:
            known = client.info().get("Runtimes", {})
    except EngineError as error:
        return str(error)
    return None if "runsc" in known else "the engine has no runtime of that name"


KINDS["runsc"] = Kind({"backend": "docker", "runtime": "runsc"}, _runsc_absent, lambda: GVISOR)
GVISOR_MODULES = ("test_outputs", "test_hostcalls", "test_protocol", "test_gvisor")
"""What runs with gVisor, too: what it does, not how. It is slow, and says no in other words than Linux."""
ABSENT = {name: reason for name, kind in KINDS.items() if (reason := kind.absent())}
declared = cache(lambda name: KINDS[name].unenforced())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "/contract/" in item.path.as_posix():
            item.add_marker(pytest.mark.docker)
    items[:] = [item for item in items if _backend_of(item) != "runsc" or item.path.stem in GVISOR_MODULES]


def _backend_of(item: pytest.Item) -> str | None:
    parameters = getattr(item, "callspec", None)
    return parameters.params.get("backend") if parameters else None


def pytest_terminal_summary(terminalreporter: Any) -> None:
    for name, reason in ABSENT.items():
        terminalreporter.line(f"contract suite without {name}: {reason}")


@pytest.fixture(scope="module", autouse=True)
def as_before() -> Iterator[None]:
    """After each module this process holds what it held before."""
    keep_no_large_blocks()
    spawner.spawn(["true"]).wait()  # its thread stays
    before = held()
    yield
    assert_as_before(before)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips a test that `needs` what its backend says it cannot enforce; nothing else skips a test."""
    name = _backend_of(item)
    for mark in item.iter_markers("needs") if name else ():
        for need in mark.args:
            if need in declared(name):
                pytest.skip(f"{name} does not enforce {need}: {declared(name)[need]}")


@pytest.fixture(scope="module", params=[name for name in KINDS if name not in ABSENT])
def backend(request: pytest.FixtureRequest) -> str:
    """The backend of the sandboxes of a test `box`, `fresh` and `make`; another one is to be given `settings`."""
    name = str(request.param)
    if name == "bubblewrap":
        build_roots()
    return name


@cache
def build_roots() -> None:
    """Only the guest code, where `make images` has been there; a change to it takes a second."""
    for image in ("minimal", "data"):
        build_root(image, on_progress=lambda line: None)


@pytest.fixture(scope="module")
def settings(backend: str) -> Mapping[str, Any]:
    """What `Sandbox` is to be given for this backend."""
    return KINDS[backend].settings


@pytest.fixture(scope="module")
def box(settings: Mapping[str, Any]) -> Iterator[Sandbox]:
    with Sandbox(image="minimal", limits=Limits(), functions=FUNCTIONS, **settings) as sandbox:
        yield sandbox


@pytest.fixture
def fresh(settings: Mapping[str, Any]) -> Iterator[Sandbox]:
    with Sandbox(image="minimal", functions=FUNCTIONS, **settings) as sandbox:
        yield sandbox


@pytest.fixture
def make(settings: Mapping[str, Any]) -> Iterator[Make]:
    """Makes started sandboxes that are closed after the test."""
    made: list[Sandbox] = []

    def start(**more: Any) -> Sandbox:
        sandbox = Sandbox(**{"image": "minimal", **settings, **more})
        made.append(sandbox)
        sandbox.start()
        return sandbox

    yield start
    for sandbox in made:
        sandbox.close()


class Host(Protocol):
    """What is on this machine of the sandboxes with a label, seen from outside; and `reap`, which removes what is left."""

    def existing(self, label: str) -> list[Callable[[], None]]:
        """One for each: it ends that sandbox, as somebody else might."""

    def reap(self) -> int: ...


class EngineHost:
    def __init__(self, client: docker.DockerClient) -> None:
        self._client = client

    def existing(self, label: str) -> list[Callable[[], None]]:
        found = self._client.containers.list(all=True, filters={"label": f"codeact.run={label}"})
        return [partial(container.remove, force=True) for container in found]

    def reap(self) -> int:
        return reap(self._client)


class ProcessHost:
    def existing(self, label: str) -> list[Callable[[], None]]:
        named = processes_naming(f"sandbox_guest.launcher\0{label}")
        return [partial(self._end, pid) for pid in named - descendants(named)]

    def _end(self, pid: int) -> None:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)

    def reap(self) -> int:
        return cgroups.remove_left()


@pytest.fixture(scope="module")
def host(backend: str) -> Iterator[Host]:
    if backend == "bubblewrap":
        yield ProcessHost()
        return
    with closing(find_engine().client()) as client:
        yield EngineHost(client)


def fine(cell: CellResult) -> CellResult:
    """A cell that must have succeeded."""
    assert cell.status == "ok", cell
    return cell


def value(box: Sandbox, code: str, **options: Any) -> Any:
    """What `code` leaves in its variable `value`."""
    cell = fine(box.run(f"{code}\nimport json\nprint(json.dumps(value))", **options))
    return json.loads(cell.stdout)


def notices(cell: CellResult) -> str:
    return "\n".join(output.text for output in cell.outputs if isinstance(output, Notice | Rung))


def next_cell_works(box: Sandbox) -> None:
    cell = box.run("print('to stdout')\n6 * 7")
    assert (cell.status, cell.stdout, cell.result) == ("ok", "to stdout\n", "42"), cell


class Calls:
    """Host functions, and events that tests and functions use to wait for one another."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.release = threading.Event()


CALLS = Calls()


def _hold(argument: Any) -> Any:
    CALLS.entered.set()
    CALLS.release.wait(20)
    return argument


def _fail(argument: Any) -> Any:
    raise LookupError(f"no order {argument}")


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "echo": lambda argument: argument,
    "hold": _hold,
    "fail": _fail,
    "not_json": lambda argument: object(),
    "big": lambda argument: "x" * argument,
}


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same ladder, with less patience."""
    ladder = tuple(cells.Step(step.action, step.says, min(step.patience, 0.5)) for step in cells.LADDER[:2])
    monkeypatch.setattr(cells, "LADDER", (*ladder, *cells.LADDER[2:]))
