"""The real command line, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
COMMAND = [sys.executable, "-W", "error", "-m", "codeact.cli"]
SECONDS = 120
ORDINARY = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search", "--"] if os.geteuid() == 0 else []
"""Before a command: file permissions hold for it, as they do not for root."""


@dataclass(frozen=True)
class Ended:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def errors(self) -> list[str]:
        """The lines of standard error that report an error."""
        return [line for line in self.err.splitlines() if line.startswith("codeact: error: ")]


def environment(home: Path, **changes: str) -> dict[str, str]:
    """Variables for a command: nothing of this process's but the way to programs and to the engine."""
    kept = {
        name: os.environ[name] for name in ("PATH", "DOCKER_HOST", "XDG_CACHE_HOME") if name in os.environ
    }
    own = {"HOME": os.environ.get("HOME", str(home)), "CODEACT_HOME": str(home / "codeact-home")}
    return {**kept, **own, "PYTHONPATH": str(ROOT), "LANG": "C.UTF-8", **changes}


def codeact(
    *arguments: str,
    folder: Path,
    stdin: str = "",
    env: dict[str, str] | None = None,
    before: Sequence[str] = (),
) -> Ended:
    """Runs `codeact` with `folder` as its current folder and its home; `before` are words in front of the command."""
    done = subprocess.run(
        [*before, *COMMAND, *arguments],
        cwd=folder,
        env=env or environment(folder),
        input=stdin.encode(),
        capture_output=True,
        timeout=SECONDS,
        check=False,
    )
    return Ended(done.returncode, done.stdout.decode(), done.stderr.decode())
