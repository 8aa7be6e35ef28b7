"""One suite for every backend: `box` is a sandbox that the tests of a module share, `fresh` one that a test may ruin."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import docker
import pytest

from sandbox import CellResult, Limits, Notice, Rung, Sandbox, cells
from sandbox.engine import find_engine
from tests.contract.host import assert_as_before, held

Make = Callable[..., Sandbox]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "/contract/" in item.path.as_posix():
            item.add_marker(pytest.mark.docker)


@pytest.fixture(scope="module", autouse=True)
def as_before() -> Iterator[None]:
    """After each module this process holds what it held before."""
    before = held()
    yield
    assert_as_before(before)


@pytest.fixture(scope="module", params=["docker"])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def box(backend: str) -> Iterator[Sandbox]:
    with Sandbox(image="minimal", limits=Limits(), functions=FUNCTIONS) as sandbox:
        yield sandbox


@pytest.fixture
def fresh(backend: str) -> Iterator[Sandbox]:
    with Sandbox(image="minimal", functions=FUNCTIONS) as sandbox:
        yield sandbox


@pytest.fixture
def make(backend: str) -> Iterator[Make]:
    """Makes started sandboxes that are closed after the test."""
    made: list[Sandbox] = []

    def start(**settings: Any) -> Sandbox:
        sandbox = Sandbox(**{"image": "minimal", **settings})
        made.append(sandbox)
        sandbox.start()
        return sandbox

    yield start
    for sandbox in made:
        sandbox.close()


@pytest.fixture(scope="module")
def engine() -> Iterator[docker.DockerClient]:
    with closing(find_engine().client()) as client:
        yield client


def containers(engine: docker.DockerClient, label: str) -> list[Any]:
    return list(engine.containers.list(all=True, filters={"label": f"codeact.run={label}"}))


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
