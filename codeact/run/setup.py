"""What the runs of one agent have in common."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codeact.actions.styles import Style
from codeact.answers import AnswerCheck
from codeact.tools import runner
from codeact.types import Model, OnDeath, RunLimits
from sandbox import Limits, Network, Pool
from sandbox.types import BackendName


@dataclass(frozen=True, slots=True)
class Setup:
    """See `Agent` for what each setting means."""

    model: Model
    style: Style
    limits: RunLimits
    check: AnswerCheck
    image: str
    sandbox_limits: Limits
    cell_timeout: float
    backend: BackendName
    runtime: str | None
    network: Network | None
    packages: tuple[str, ...]
    pool: Pool | None
    tools: runner.Setup
    on_death: OnDeath
    started_with: dict[str, Any]
    on_progress: Callable[[str], None]
    out: Path | None
    runs: Path
