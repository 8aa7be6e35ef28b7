"""Seconds that a cell asks for, and numbers that are none: each is answered, and none ends the run."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from sandbox.cells import CellRun
from sandbox.guest import more_time

REFUSED = "more_time takes a number of seconds above 0"


class Bridge:
    def __init__(self) -> None:
        self.sent: list[tuple[dict[str, Any], bytes]] = []

    def send(self, header: dict[str, Any], body: bytes = b"") -> None:
        self.sent.append((header, body))


@pytest.mark.parametrize("most", [60.0, math.inf])
@pytest.mark.parametrize(
    ("seconds", "granted"),
    [("5", 5.0), ("1" + "0" * 400, None), ("1e309", None), ("NaN", None), ("-1", None), ('"5"', None)],
)
def test_time_is_granted_or_refused(seconds: str, granted: float | None, most: float) -> None:
    bridge: Any = Bridge()
    cell = CellRun(
        bridge, 1, timeout=1, rescue=lambda: None, waited=lambda: 0.0, memory_limit=1, max_timeout=most
    )
    header = {"op": "call", "cell": 1, "call": 7, "name": more_time.NAME}
    assert cell._take((header, b'{"seconds": %s}' % seconds.encode())) == []
    cell._take(({"op": "worked", "cell": 1, "seconds": 10**400}, b""))
    ((header, body),) = bridge.sent
    answer = json.loads(body)
    assert (answer["seconds"] if header["ok"] else answer) == (REFUSED if granted is None else granted)
