"""Many sandboxes at once: each answers, and none sees what is another's."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from benchmarks.scale import growth, many
from sandbox import Sandbox
from tests.contract.conftest import Host, fine

CELLS = 3


def test_twenty_at_once_without_crosstalk(settings: Mapping[str, Any], host: Host) -> None:
    use_many(20, settings, host)


@pytest.mark.parametrize("backend", ["docker"], indirect=True)
def test_fifty_at_once_without_crosstalk(settings: Mapping[str, Any], host: Host) -> None:
    use_many(50, settings, host)


def use_many(count: int, settings: Mapping[str, Any], host: Host) -> None:
    def use(numbered: tuple[int, Sandbox]) -> list[Any]:
        number, box = numbered
        said: list[Any] = []
        fine(box.run(f"import os\nname = 'box-{number}'\nopen('f', 'w').write(name)\nsaid = []"))
        for cell in range(CELLS):
            said.append(fine(box.run(f"said.append({cell})\nprint(name, open('f').read(), said)")).stdout)
        box.write("sent", str(number))
        return [
            *said,
            box.read("sent"),
            [file.path for file in box.list() if not file.path.startswith(".") and file.kind == "file"],
        ]

    with many(count, **settings) as boxes, ThreadPoolExecutor(count) as users:
        found = list(users.map(use, enumerate(boxes)))
    for number, said in enumerate(found):
        lines = [f"box-{number} box-{number} {list(range(cell + 1))}\n" for cell in range(CELLS)]
        assert said[:-1] == [*lines, str(number).encode()]
        assert sorted(said[-1]) == ["f", "sent"]
    assert [host.existing(f"many-{number}") for number in range(count)] == [[]] * count


def test_growth_is_measured() -> None:
    found = growth(2)
    assert [started.alive for started in found] == [1, 2]
    for started in found:
        assert started.seconds > 0
        assert 10 * 1024**2 < started.memory < 256 * 1024**2
