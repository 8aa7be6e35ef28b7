"""A command at a terminal of its own, as a person would use it."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.command import COMMAND, environment

SECONDS = 60


class Terminal:
    """Runs `codeact` with a pseudo-terminal as its controlling one. Standard output goes to a pipe, as in `answer=$(...)`."""

    def __init__(self, arguments: Sequence[str], folder: Path) -> None:
        self.shown = ""
        self._keys, screen = pty.openpty()
        self._process = subprocess.Popen(
            ["setsid", "--ctty", "--wait", *COMMAND, *arguments],
            cwd=folder,
            env=environment(folder, TERM="xterm", COLUMNS="200", LINES="50"),
            stdin=screen,
            stdout=subprocess.PIPE,
            stderr=screen,
        )
        os.close(screen)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self._process.terminate()
        self._process.wait(SECONDS)
        if self._process.stdout is not None:
            self._process.stdout.close()
        os.close(self._keys)

    def wait_for(self, text: str, times: int = 1) -> None:
        """Reads until `text` has been shown so often."""
        until = time.monotonic() + SECONDS
        while self.shown.count(text) < times:
            if not self._read(until):
                raise AssertionError(f"{text!r} was not shown:\n{self.shown}")

    def type(self, text: str) -> None:
        os.write(self._keys, text.encode())

    def end(self) -> tuple[int, str]:
        """Reads to the end; the exit code and the standard output."""
        until = time.monotonic() + SECONDS
        while self._read(until):
            pass
        assert self._process.stdout is not None
        return self._process.wait(SECONDS), self._process.stdout.read().decode()

    def _read(self, until: float) -> bool:
        ready, _, _ = select.select([self._keys], [], [], max(0.0, until - time.monotonic()))
        try:
            piece = os.read(self._keys, 65536) if ready else b""
        except OSError:  # the other end is closed
            return False
        self.shown += piece.decode("utf-8", "replace")
        return bool(piece)
