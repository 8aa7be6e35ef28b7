"""What an agent can be told beside its model and the type of its answers; each option documented beneath it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

from codeact.tools.approval import Approval, Ask, Mode, Permit
from codeact.tools.context import RunContext
from codeact.types import ActionStyle, OnDeath, RunLimits
from sandbox import Limits, Network, Pool
from sandbox.types import BackendName


class Options(TypedDict, total=False):
    limits: RunLimits | None
    """When a run ends without an answer; by default after 20 turns, 600 seconds, or 200,000 tokens."""
    output_schema: dict[str, Any] | None
    """A JSON Schema that an answer must fit, in place of an `output_type`."""
    image: str
    """What the sandbox holds: `data`, which is the default, or `minimal`."""
    sandbox_limits: Limits | None
    """Memory, processors, processes and disk of the sandbox."""
    cell_timeout: float
    """Seconds of one piece of code; 60 by default."""
    backend: BackendName
    """What contains the code: `docker`, `bubblewrap`, or `auto`, which is the default."""
    runtime: str | None
    """The engine's runtime, such as `runsc`."""
    network: str | Iterable[str] | Network | None
    """The hosts that the code may reach, as `Sandbox` takes them; none by default."""
    packages: Iterable[str]
    """Packages that the code has beside the image's, as `Sandbox` takes them."""
    pool: Pool | None
    """Where runs take their sandboxes from. What the pool says of image, limits, network, packages, runtime and backend
    counts."""
    actions: ActionStyle
    """How the model acts: in blocks of code (`fenced`, the default), in code as the argument of a function (`python-tool`), or by
    calling the tools itself (`functions`)."""
    parallel_calls: bool
    """Whether it may make several calls a turn, which run at the same time; True by default."""
    run_python: bool | None
    """With `functions`, whether there is a function that runs code; by default where a run has data."""
    tools: Any
    """What code may call on the host, as `codeact.tools.load.tools_from` takes it."""
    tools_off: Sequence[str]
    """Paths and namespaces of tools that are left out."""
    approve: Approval | Mode | Ask
    """Which calls of tools are asked about (`never`, `writes`, which is the default, or `always`), or the function that is
    asked before a call that writes."""
    permit: Permit | None
    """Asked before each call of a tool, with `context`."""
    context: RunContext | None
    """Who the runs are for."""
    on_death: OnDeath
    """When a kernel dies: its state is made again (`restore`, the default), the next one starts without it (`fresh`), or the
    run ends (`stop`)."""
    started_with: Mapping[str, Any] | None
    """Recorded among the run's settings, for whoever resumes it: no secrets."""
    on_progress: Callable[[str], None]
    """Gets a line for each step while packages are added, and where the code is contained by something weaker than an engine. A notebook shows it by
    default."""
    out: Path | None
    """The folder that artifacts are copied to; by default they stay in the run's own."""
    runs: Path | None
    """The folder of runs; by default that in `CODEACT_HOME`."""
    runs_size: int | str | None
    """Disk space of all runs, such as `5g`, which is the default: beyond it the oldest are removed when a run starts. With None
    none are."""
    show: bool
    """Whether, in a notebook, a run draws itself in the cell; True by default."""
