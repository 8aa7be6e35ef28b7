"""`codeact runs` and `codeact show`: what was run, from the journals."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from codeact.commands.invocation import as_json, put
from codeact.errors import UsageError

TASK_SHOWN = 60
_TAIL = 64 * 1024


@click.command()
@click.option("--json", "as_list", is_flag=True, help="a JSON list of run, task, status, started, model")
def runs(as_list: bool) -> int:
    """List the runs, newest first."""
    from codeact.home import runs_dir

    found = sorted(summaries(runs_dir()), key=lambda run: (run["started"], run["run"]), reverse=True)
    if as_list:
        put(as_json(found, indent=1))
        return 0
    for run in found:
        put(f"{run['run']}  {run['started']}  {run['status']:<11}  {run['model']}  {_cut(run['task'])}")
    return 0


@click.command()
@click.argument("run")
@click.option("--json", "as_list", is_flag=True, help="the run's events as a JSON list")
@click.option(
    "--tools", "tools", is_flag=True, help="its calls of tools, as a table or with --json as a list"
)
def show(run: str, as_list: bool, tools: bool) -> int:
    """Show RUN (an id, a folder or a run.jsonl): what was done, turn by turn, and the answer."""
    from codeact import journal

    found = list(journal.read(find(run)))
    if not found:
        raise UsageError(f"{run}: holds no event; the run ended before it began")
    if tools:
        return _show_calls(found, as_list)
    if as_list:
        put(as_json(found, indent=1))
        return 0
    from codeact.views import console, recorded

    view = console.View(console.screen(sys.stdout), show_answer=True)
    for event in recorded.events_of(found):
        view(event)
    if found[-1].get("type") != "run_ended":
        view.say("no end is recorded: the run goes on, or was cut off")
    view.close()
    return 0


def _show_calls(found: list[dict[str, Any]], as_list: bool) -> int:
    from codeact.views import calls, recorded

    made = calls.of(recorded.events_of(found))
    put(as_json([asdict(call) for call in made], indent=1) if as_list else "\n".join(calls.table(made)))
    return 0


def find(run: str) -> Path:
    """The folder or file of a run. Raises UsageError."""
    from codeact.home import runs_dir

    for path in (Path(run), runs_dir() / run):
        if path.name and (path.is_file() or (path / "run.jsonl").is_file()):
            return path
    raise UsageError(
        f"{run}: no such run: neither an id in {runs_dir()}, nor a folder or file of one; see `codeact runs`"
    )


def summaries(folder: Path) -> Iterator[dict[str, Any]]:
    """For each run in `folder`: run, task, status, started (ISO 8601, UTC), model. A run without an end is `unfinished`."""
    for path in _journals(folder):
        try:
            first, last = _ends(path)
        except OSError:
            continue
        if first.get("type") == "run_started":
            started = datetime.fromtimestamp(float(first.get("time") or 0), UTC)
            yield {
                "run": str(first.get("run") or path.parent.name),
                "task": str(first.get("task", "")),
                "status": str(last.get("status")) if last.get("type") == "run_ended" else "unfinished",
                "started": started.isoformat(timespec="seconds").replace("+00:00", "Z"),
                "model": str(first.get("model", "")),
            }


def _journals(folder: Path) -> list[Path]:
    try:
        return list(folder.glob("*/run.jsonl"))
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UsageError(
            f"{folder}: cannot be read: {reason}; check its permissions, or set CODEACT_HOME"
        ) from None


def _ends(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The first and the last event of a journal, without reading what is between."""
    with path.open("rb") as file:
        first = _event(file.readline())
        file.seek(max(0, path.stat().st_size - _TAIL))
        lines = file.read().splitlines()
    return first, _event(lines[-1]) if lines else {}


def _event(line: bytes) -> dict[str, Any]:
    try:
        event = json.loads(line)
    except ValueError:
        return {}
    return event if isinstance(event, dict) else {}


def _cut(task: str) -> str:
    from sandbox.text import clean

    text = " ".join(clean(task).split())
    return text if len(text) <= TASK_SHOWN else text[: TASK_SHOWN - 3] + "..."
