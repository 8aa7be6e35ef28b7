"""How a run begins in its record: what it was told, what it is made of, and the task as the model reads it."""

from __future__ import annotations

import dataclasses
from typing import Any

from codeact import context, data, events, manifest, workspace
from codeact.run.between import Held
from codeact.run.cells import Cells
from codeact.run.setup import Setup
from codeact.tools import prompt
from sandbox import Sandbox


def started(task: str, setup: Setup, held: Held, box: Sandbox, cells: Cells) -> events.RunStarted:
    described = manifest.render(cells.described) if held.files or held.values else ""
    return events.RunStarted(
        task=task,
        model=setup.model.name,
        settings={**_settings(setup, box), **held.recorded(), "loaded": list(cells.loaded)},
        system=_rules(setup, files=bool(held.files or held.values)),
        first=context.first_text(task, described, context.asked(setup.check)),
        problems=(*manifest.problems(cells.described), *data.left_behind(held.files)),
    )


def _settings(setup: Setup, box: Sandbox) -> dict[str, Any]:
    return {
        "image": setup.image,
        "limits": dataclasses.asdict(setup.limits),
        "sandbox_limits": dataclasses.asdict(setup.sandbox_limits),
        "cell_timeout": setup.cell_timeout,
        "network": "none" if setup.network is None else str(setup.network),
        "packages": list(setup.packages),
        "actions": setup.style.name,
        "parallel_calls": not setup.style.one_call,
        "run_python": setup.style.code and not setup.style.imports,
        "tools": [tool.path for tool in setup.tools.tools],
        "sandbox": box.backend,
        "unenforced": dict(box.unenforced),
        "runtime": setup.runtime,
        "output_schema": setup.check.schema,
        "on_death": setup.on_death,
        "started_with": setup.started_with,
        "out": str(setup.out) if setup.out else None,
    }


def _rules(setup: Setup, *, files: bool) -> str:
    """The system message."""
    where = ""
    if setup.style.code:
        installed = workspace.described(setup.image, setup.packages)
        where = context.where_text(installed, workspace.network(setup.network), files=files)
    tools = prompt.describe(setup.tools.tools) if setup.style.imports else ""
    return context.system_text(setup.style.how, where, tools)
