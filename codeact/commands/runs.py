"""`codeact runs` and `codeact show`: what was run, from the journals."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click

from codeact.commands.invocation import as_json, fail, put, say
from codeact.errors import UsageError
from codeact.paths import is_file

TASK_SHOWN = 60
_TAIL = 1024 * 1024


@click.group(invoke_without_command=True)
@click.option(
    "--json", "as_list", is_flag=True, help="a JSON list of run, task, status, started, model, size"
)
@click.option(
    "--status", metavar="STATUS", help="only those of a status, such as answered, unfinished or live"
)
@click.option("--model", metavar="TEXT", help="only those whose model's name contains TEXT")
@click.option(
    "--since", metavar="WHEN", help="only those since a date (2026-01-31), or for so long: 90m, 12h, 7d"
)
@click.option("--text", metavar="TEXT", help="only those whose task contains TEXT")
@click.pass_context
def runs(
    context: click.Context,
    as_list: bool,
    status: str | None,
    model: str | None,
    since: str | None,
    text: str | None,
) -> int:
    """List the runs, newest first; or `delete` some."""
    from codeact.home import runs_dir
    from sandbox.types import size_text

    if context.invoked_subcommand is not None:
        return 0
    start = since_when(since, datetime.now(UTC)) if since else ""
    found = [
        run
        for run in sorted(summaries(runs_dir()), key=lambda run: (run["started"], run["run"]), reverse=True)
        if run["status"] == (status or run["status"])
        and (model or "").lower() in run["model"].lower()
        and (text or "").lower() in run["task"].lower()
        and run["started"] >= start
    ]
    if as_list:
        put(as_json(found, indent=1))
        return 0
    for run in found:
        put(f"{run['run']}  {run['started']}  {run['status']:<11}  {run['model']}  {_cut(run['task'])}")
    if sys.stdout.isatty():
        say(f"{len(found)} run{'s' * (len(found) != 1)}, {size_text(sum(run['size'] for run in found))}")
    return 0


@runs.command()
@click.argument("names", metavar="RUN...", nargs=-1, required=True)
def delete(names: tuple[str, ...]) -> int:
    """Delete runs with all that they kept.

    That is journal, figures, values and files handed over. A live run is refused.
    """
    from codeact.home import runs_dir
    from codeact.tidying import remove

    folders = [runs_dir() / name for name in names]
    for name, folder in zip(names, folders, strict=True):
        if folder.parent != runs_dir() or not (folder / "run.jsonl").is_file():
            raise UsageError(f"{name}: no such run in {runs_dir()}; see `codeact runs`")
    kept = 0
    for folder in folders:
        try:
            removed = remove(folder)
        except OSError as error:
            raise UsageError(
                f"{folder}: cannot be deleted: {(error.strerror or str(error)).lower()}"
            ) from None
        if not removed:
            fail(f"{folder.name}: is live, and was not deleted; end it first")
            kept += 1
    return 1 if kept else 0


def since_when(text: str, now: datetime) -> str:
    """The moment from which runs are wanted, as `summaries` writes it. Raises UsageError."""
    units = {"m": "minutes", "h": "hours", "d": "days"}
    try:
        if text[-1:] in units and text[:-1].isdecimal():
            moment = now - timedelta(**{units[text[-1]]: int(text[:-1])})
        else:
            moment = datetime.fromisoformat(text)
            moment = moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)
    except (ValueError, OverflowError):
        raise UsageError(
            f"--since: {text!r} is neither a date nor a length of time; write for example 2026-01-31 or 7d"
        ) from None
    return _written(moment)


def _moment(time: object, made: float) -> datetime:
    """When a run began, by its journal; where that has no time, when the journal was `made`."""
    try:
        return datetime.fromtimestamp(float(time), UTC)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(made, UTC)


def _written(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")


@click.command()
@click.argument("run")
@click.option("--json", "as_list", is_flag=True, help="the run's events as a JSON list")
@click.option(
    "--tools", "tools", is_flag=True, help="its calls of tools, as a table or with --json as a list"
)
def show(run: str, as_list: bool, tools: bool) -> int:
    """Show what was done in RUN, turn by turn, and the answer.

    RUN is an id, a folder or a run.jsonl.
    """
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
        if path.name and (is_file(path) or is_file(path / "run.jsonl")):
            return path
    raise UsageError(
        f"{run}: no such run: neither an id in {runs_dir()}, nor a folder or file of one; see `codeact runs`"
    )


def summaries(folder: Path) -> Iterator[dict[str, Any]]:
    """For each run in `folder`: run, task, status, started (ISO 8601, UTC), model, size (bytes). A run without
    an end is `live` while a process writes it, else `unfinished`; one that did not even begin has no task and no model."""
    from codeact.blobs import sizes
    from codeact.journal import is_live

    for path in _journals(folder):
        try:
            first, last = _ends(path)
            live, made = is_live(path.parent), path.stat().st_mtime
        except OSError:
            continue
        ended = last.get("type") == "run_ended"
        yield {
            "run": str(first.get("run") or path.parent.name),
            "task": str(first.get("task", "")),
            "status": "live" if live else str(last.get("status")) if ended else "unfinished",
            "started": _written(_moment(first.get("time"), made)),
            "model": str(first.get("model", "")),
            "size": sum(sizes(path.parent)),
        }


def _journals(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as entries:
            places = [Path(entry.path) / "run.jsonl" for entry in entries]
    except FileNotFoundError:
        return []  # nothing has run yet
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UsageError(f"{folder}: cannot be listed: {reason}; mend that, or set CODEACT_HOME") from None
    return [place for place in places if place.is_file()]


def _ends(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The first and the last event of a journal, without reading what is between."""
    from codeact.blobs import Blobs

    with path.open("rb") as file:
        first = Blobs(path.parent).inside(_event(file.readline()), pictures=False)
        file.seek(max(0, path.stat().st_size - _TAIL))
        lines = file.read().splitlines()
    if lines and not _event(lines[-1]):
        lines.pop()  # torn by a crash
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
