"""The world of tasks about files: nothing in it changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.suites.base import Called, digest
from codeact.tools.tool import Tool

STATE = digest(None)


class Files:
    """`data` are the files by the name that they get; `latency` is seconds a call."""

    def __init__(self, data: Mapping[str, Path], latency: float) -> None:
        self.data, self.latency = data, latency
        self.log: list[Called] = []

    def tools(self) -> Sequence[Tool]:
        return []

    def state(self) -> None:
        return None
