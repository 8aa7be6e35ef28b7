"""What is made of a run that was made: verdicts, reports, tables."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from benchmarks.attempts import Attempt
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
    rows = [_flat(made) for made in store.attempts()]
    columns = [each.name for each in dataclasses.fields(Attempt)]
    if form == "csv":
        text = io.StringIO()
        table = csv.DictWriter(text, columns, lineterminator="\n")
        table.writeheader()
        table.writerows(rows)
        if out is None:
            put(text.getvalue().removesuffix("\n"))
        else:
            write(out, text.getvalue())
        return
    target = out or folder / f"attempts.{form}"
    (_parquet if form == "parquet" else _sqlite)(rows, columns, target)
    click.echo(str(target))


def _flat(made: Attempt) -> dict[str, Any]:
    """An attempt as plain cells."""
    return {
        name: json.dumps(value, ensure_ascii=False, default=str)
        if isinstance(value, Mapping | list | tuple) or name == "answer"
        else value
        for name, value in dataclasses.asdict(made).items()
    }


def _parquet(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], target: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    table = pa.table({name: [row[name] for row in rows] for name in columns})
    sink = pa.BufferOutputStream()
    parquet.write_table(table, sink)
    write(target, sink.getvalue().to_pybytes())


def _sqlite(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], target: Path) -> None:
    import sqlite3

    with sqlite3.connect(":memory:") as made:
        made.execute(f"create table attempts ({', '.join(columns)})")
        places = ", ".join("?" * len(columns))
        made.executemany(
            f"insert into attempts values ({places})", [[row[name] for name in columns] for row in rows]
        )
        made.commit()
        write(target, made.serialize())
    made.close()
