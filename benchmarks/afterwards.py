"""What is made of a run that was made: verdicts, reports, tables."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from benchmarks import tables
from benchmarks.comparing import compared
from benchmarks.report import write_report
from benchmarks.scoring import rescored
from benchmarks.store import Store, write
from benchmarks.suites import suite
from codeact.errors import UsageError


def put(text: str) -> None:
    """To standard output, as far as somebody reads it: what the command does beside that is done all the same."""
    try:
        click.echo(text)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def score(folder: Path) -> None:
    """Raises UsageError where an attempt cannot be judged, once all others are."""
    store = Store(folder)
    about = store.about()
    frozen, plan = about["frozen"], about["plan"]
    path = Path(plan["path"]) if plan.get("path") else None
    tasks = {task.id: task for task in suite(frozen["suite"], frozen["split"], None, path)}
    judged, changed = 0, 0
    unjudged: list[str] = []
    with store.held():
        for made in [made for made in store.attempts(frozen["model"]) if made.scored]:
            name = f"{made.task} {made.arm} {made.repeat}"
            try:
                if made.task not in tasks:
                    raise UsageError(f"the suite {frozen['suite']} has no such task any more")
                again = rescored(tasks[made.task], made, store.read_trace(made.key))
            except UsageError as error:
                unjudged.append(f"{name}: {error}")
                continue
            judged += 1
            if again != made:
                store.append(again)
                changed += 1
                click.echo(f"{name}  {made.success} → {again.success}  {again.reason}", err=True)
    click.echo(f"{judged} attempts judged again, {changed} verdicts changed")
    if unjudged:
        for each in unjudged[1:]:
            click.echo(each, err=True)
        raise UsageError(
            f"{folder}: {len(unjudged)} could not be judged, and keep their verdicts: {unjudged[0]}"
        )


def report(folder: Path) -> None:
    put(write_report(Store(folder)))


def view(folder: Path, port: int) -> None:
    from benchmarks.view import Viewer

    store = Store(folder)
    store.about()
    try:
        with Viewer(store, port) as server:
            click.echo(server.url)
            server.serve_forever()
    except KeyboardInterrupt:
        pass


def compare(before: Path, after: Path) -> None:
    put(compared(Store(before), Store(after)))


def export(folder: Path, form: str, out: Path | None) -> None:
    store = Store(folder)
    store.about()
    if out is not None and not out.absolute().parent.is_dir():
        raise UsageError(f"{out}: there is no folder {out.parent} to write it into; make it, or name another")
    made = store.attempts()
    if form == "csv" and out is None:
        put(tables.as_csv(made).removesuffix("\n"))
        return
    target = out or folder / f"attempts.{form}"
    write(target, tables.FORMS[form](made))
    if form != "csv":
        click.echo(str(target))
