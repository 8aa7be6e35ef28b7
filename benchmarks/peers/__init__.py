"""Other sandboxes, measured with the same engine and image in the same run, each in an environment of its own."""

from __future__ import annotations

import json
import subprocess
import tempfile
import venv
from dataclasses import dataclass
from pathlib import Path

from sandbox.engine import find_engine
from sandbox.images import image_tag

LLM_SANDBOX = "llm-sandbox[docker]==0.3.46"
IPYBOX = ["ipybox==0.9.2", "mcp<2"]
"""It imports names that the newer `mcp` does not have."""


@dataclass(frozen=True, slots=True)
class Peer:
    """Medians in seconds: from nothing to a first result, and for empty code in a sandbox that is up."""

    name: str
    cold_start: float
    empty: float


def llm_sandbox(runs: int, cells: int) -> Peer:
    """llm-sandbox with our image: it starts a process for each run, so no variable is kept from one to the next.

    Raises RuntimeError when it cannot be installed or does not run.
    """
    return _measured(
        "llm-sandbox", [LLM_SANDBOX], [find_engine().url, image_tag("data"), str(runs), str(cells)]
    )


def ipybox(runs: int, cells: int) -> Peer:
    """ipybox as it is by default: a kernel of this machine behind two servers, with nothing that contains the code.

    Raises RuntimeError when it cannot be installed or does not run.
    """
    return _measured("ipybox", IPYBOX, [str(runs), str(cells)])


def ipybox_calls(calls: int) -> float:
    """Median seconds of a trivial call through the module that ipybox generates for an MCP server.

    Raises RuntimeError when it cannot be installed or does not run.
    """
    return float(_said("ipybox_calls", IPYBOX, [str(calls)])["call"])


def _measured(name: str, packages: list[str], arguments: list[str]) -> Peer:
    return Peer(name, **_said(name, packages, arguments))


def _said(name: str, packages: list[str], arguments: list[str]) -> dict[str, float]:
    """What a script says in an environment with these packages."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = str(Path(folder) / "bin" / "python")
        _run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages])
        script = Path(__file__).with_name(f"{name.replace('-', '_')}_script.py")
        said = _run([python, str(script), *arguments])
    found: dict[str, float] = json.loads(said.splitlines()[-1])
    return found


def _run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError((done.stderr or done.stdout).strip().splitlines()[-1])
    return done.stdout
