"""What the runs of one agent have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codeact.actions.styles import Style
from codeact.answers import Check
from codeact.tools import runner
from codeact.types import Model, OnDeath, RunLimits
from sandbox import Connection, Limits, Network, Pool, Sandbox
from sandbox.hostcalls import HostFunction, WithCall
from sandbox.types import BackendName


@dataclass(frozen=True, slots=True)
class Setup:
    """See `Agent` for what each setting means."""

    model: Model
    style: Style
    limits: RunLimits
    check: Check
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
    runs_size: int | None
    show: bool

    def sandbox(
        self,
        *,
        inputs: Mapping[str, Path],
        functions: Mapping[str, HostFunction | WithCall],
        on_connection: Callable[[Connection], None],
        label: str,
    ) -> Sandbox:
        """One for a run: of the pool, where there is one, else a new one, which is not started. Raises SandboxError."""
        if self.pool is not None and self.style.code:
            return self.pool.take(
                inputs=inputs, functions=functions, on_connection=on_connection, label=label
            )
        return Sandbox(
            self.image,
            limits=self.sandbox_limits,
            timeout=self.cell_timeout,
            inputs=inputs,
            functions=functions,
            backend=self.backend,
            runtime=self.runtime,
            network=self.network,
            on_connection=on_connection,
            packages=self.packages,
            on_progress=self.on_progress,
            label=label,
        )
