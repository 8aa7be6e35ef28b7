"""`python -m benchmarks list | run | report`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from benchmarks import attempts, report
from benchmarks.suites import SUITES
from codeact.errors import CodeActError
from codeact.models import resolve
from codeact.types import RunLimits


@click.group()
def main() -> None:
    """Suites of tasks with right answers, for a model of your choice."""


@main.command("list")
def list_suites() -> None:
    """The suites and how many tasks each has."""
    for name, tasks in SUITES.items():
        click.echo(f"{name}  {len(tasks())} tasks")


@main.command()
@click.option("-s", "--suite", type=click.Choice(sorted(SUITES)), required=True)
@click.option("-m", "--model", "model_name", help="as for `codeact solve`")
@click.option("-k", "--repeats", default=1, show_default=True, type=click.IntRange(1))
@click.option("--task", "only", multiple=True, help="run only this task; repeatable")
@click.option("--max-turns", default=10, show_default=True, type=click.IntRange(1))
@click.option("--time-limit", default=600.0, show_default=True, help="seconds a task")
@click.option("-o", "--out", type=click.Path(file_okay=False, path_type=Path), required=True)
def run(
    suite: str,
    model_name: str | None,
    repeats: int,
    only: tuple[str, ...],
    max_turns: int,
    time_limit: float,
    out: Path,
) -> None:
    """Run a suite. The same command again carries on: what has a verdict is not run again."""
    try:
        model = resolve(model_name, on_progress=lambda line: click.echo(line, err=True))
    except CodeActError as error:
        raise click.ClickException(str(error)) from error
    out.mkdir(parents=True, exist_ok=True)
    limits = RunLimits(turns=max_turns, seconds=time_limit)
    settings = {"suite": suite, "model": model.name, "arm": "code", "turns": max_turns, "seconds": time_limit}
    (out / "run.json").write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")
    done = {(made["task"], made["repeat"]) for made in attempts.read(out) if made["success"] is not None}
    for repeat in range(1, repeats + 1):
        for task in SUITES[suite]():
            if (task.id, repeat) in done or (only and task.id not in only):
                continue
            made = attempts.attempt(suite, task, model, repeat, limits, out / "runs")
            attempts.append(out, made)
            verdict = {True: "right", False: "wrong", None: "failed"}[made.success]
            click.echo(
                f"{task.id}  {verdict}  {made.answer!r}  {made.llm_calls} calls  {made.wall_s:.1f} s",
                err=True,
            )
    click.echo(report.markdown(attempts.read(out)))


@main.command("report")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
def show(folder: Path) -> None:
    """What came of a run, as Markdown."""
    click.echo(report.markdown(attempts.read(folder)))


if __name__ == "__main__":
    sys.exit(main())
