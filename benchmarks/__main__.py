"""`python -m benchmarks`: suites of tasks with right answers, for a model of your choice, acting in several ways.

Exit codes: 0 done, 1 bad input, 2 attempts are left that the infrastructure failed, 3 the cost limit was reached,
130 interrupted. After 2, 3 and 130 the same command carries on.
"""

from __future__ import annotations

import errno
import math
import os
import sys
from pathlib import Path
from typing import Any

import click

from benchmarks import afterwards, commands, settings
from benchmarks.arms import ARMS, PEERS
from benchmarks.commands import DONE, INFRA_LEFT, INTERRUPTED, USAGE, Asked
from benchmarks.runner import Unwritten
from benchmarks.store import RUN, redacted, secrets
from codeact.cli import prepare_signals, prepare_streams, usage_line
from codeact.config import YES, variable
from codeact.errors import CodeActError
from sandbox import SandboxError


class Finite(click.FloatRange):
    """A number within bounds; click takes "nan" for one."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


class Said(click.types.StringParamType):
    """A text that is not empty: a variable that is not set must not become another choice."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = str(super().convert(value, param, ctx))
        if not text.strip():
            self.fail("it is empty; leave it out, or give a value", param, ctx)
        return text


FULL = (errno.ENOSPC, errno.EDQUOT)
DEBUG = variable("debug")
AMOUNT = Finite(min=0, min_open=True)
MOST_REPEATS = 1_000
MOST_SEED = 2**31 - 1
"""What every endpoint takes."""


@click.group(help=__doc__, no_args_is_help=False)
def main() -> None:
    pass


@main.command("list")
@click.option("-s", "--suite", help="the tasks of this suite")
@click.option("--split", type=click.Choice(["dev", "test"]), default="test", show_default=True)
@click.option("--path", type=click.Path(path_type=Path), help="where a suite of others lies")
def list_suites(suite: str | None, split: Any, path: Path | None) -> None:
    """The suites and how many tasks each has, or the tasks of one."""
    commands.list_suites(suite, split, path)


@main.command()
@click.argument("task")
@click.option("-s", "--suite", help="the suite; found by itself where it is one of this project's")
@click.option("--path", type=click.Path(path_type=Path), help="where a suite of others lies")
def show(task: str, suite: str | None, path: Path | None) -> None:
    """A task: its question, tools, limits and right answer."""
    commands.show(task, suite, path)


@main.command()
@click.option("-s", "--suite", required=True, help="the suite; see `list`")
@click.option("--split", type=click.Choice(["dev", "test"]), default="test", show_default=True)
@click.option(
    "-m", "--model", type=Said(), help="as for `codeact solve`; scripted:oracle is the reference solution"
)
@click.option(
    "--arms", default="code", show_default=True, help=f"of {', '.join((*ARMS, *PEERS))}; with commas between"
)
@click.option(
    "-k",
    "--repeats",
    default=1,
    show_default=True,
    type=click.IntRange(1, MOST_REPEATS),
    help="attempts at each task by each arm",
)
@click.option("-j", "--jobs", default=1, show_default=True, type=click.IntRange(1), help="attempts at once")
@click.option(
    "-o",
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="the run's folder; the same again carries on",
)
@click.option("--path", type=click.Path(path_type=Path), help="where a suite of others lies")
@click.option("--category", "categories", default="", help="only tasks of these, with commas between")
@click.option("--task", "tasks", multiple=True, help="only this task; repeatable")
@click.option(
    "--limit", type=click.IntRange(1), help="only so many tasks, from each category in turn; for trying out"
)
@click.option("--max-turns", type=click.IntRange(1), help="turns an attempt; the task's own where not given")
@click.option("--token-limit", type=click.IntRange(1), help="tokens an attempt; likewise")
@click.option("--time-limit", type=AMOUNT, help="seconds an attempt; likewise")
@click.option("--cost-limit", type=AMOUNT, help="USD; once it is reached, no more attempts are begun")
@click.option("--cost-limit-task", type=AMOUNT, help="USD an attempt")
@click.option(
    "--max-retries",
    default=5,
    show_default=True,
    type=click.IntRange(1),
    help="times the endpoint is asked for one reply",
)
@click.option(
    "--temperature",
    type=Finite(0, 2),
    help="sent with each request; the model's own where not given",
)
@click.option(
    "--seed",
    default=7,
    show_default=True,
    type=click.IntRange(0, MOST_SEED),
    help="of the order of attempts, and with the repeat's number added of the model",
)
@click.option("--base-url", type=Said(), help="of the endpoint")
@click.option("--prices", type=click.Path(path_type=Path), help="a table as benchmarks/prices.toml")
@click.option(
    "--allow-drift",
    is_flag=True,
    help="carry on although the configuration has changed; each change is recorded",
)
@click.option("--dry-run", is_flag=True, help="say what there is to do and what it may cost, and end")
@click.option(
    "-c",
    "--config",
    type=click.Path(path_type=Path),
    is_eager=True,
    expose_value=False,
    callback=settings.from_toml,
    help="a TOML file with these settings by name",
)
def run(**given: Any) -> int:
    """Run a suite. The same command again carries on: what has a verdict is not run again."""
    return commands.run(Asked(**given))


@main.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("-j", "--jobs", type=click.IntRange(1), help="attempts at once")
@click.option("--cost-limit", type=AMOUNT, help="USD, with what was spent before")
@click.option("--base-url", type=Said(), help="of the endpoint")
@click.option("--allow-drift", is_flag=True, help="although the configuration has changed")
def resume(folder: Path, **given: Any) -> int:
    """Carry a run on as it was asked for last; what is given here counts in place of what was given then."""
    asked = commands.asked_of(folder, **given)
    with run.make_context("resume", [], default_map=settings.defaults(run, asked, str(folder / RUN))) as ctx:
        return commands.run(Asked(**ctx.params))


@main.command()
@click.argument("folder", type=click.Path(path_type=Path))
def score(folder: Path) -> None:
    """Judge the attempts of a run again, from their traces, with the suite as it is now. Asks no model."""
    afterwards.score(folder)


@main.command()
@click.argument("folder", type=click.Path(path_type=Path))
def report(folder: Path) -> None:
    """What came of a run: Markdown here; pages, plots and tables in the run's folder `report`."""
    afterwards.report(folder)


@main.command()
@click.argument("before", type=click.Path(path_type=Path))
@click.argument("after", type=click.Path(path_type=Path))
def compare(before: Path, after: Path) -> None:
    """Two runs of the same suite, arm by arm, over the tasks that both have."""
    afterwards.compare(before, after)


@main.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--port", default=7676, show_default=True, type=click.IntRange(0, 65535), help="0 for any that is free"
)
def view(folder: Path, port: int) -> None:
    """A run in the browser of this machine: its report, its attempts, and each turn by turn. Until Ctrl-C."""
    afterwards.view(folder, port)


@main.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--csv", "form", flag_value="csv", default=True, help="to standard output")
@click.option(
    "--parquet", "form", flag_value="parquet", help="to attempts.parquet in the run's folder, or -o"
)
@click.option("--sqlite", "form", flag_value="sqlite", help="to attempts.sqlite in the run's folder, or -o")
@click.option("-o", "--out", type=click.Path(dir_okay=False, path_type=Path))
def export(folder: Path, form: str, out: Path | None) -> None:
    """The attempts of a run as a table."""
    afterwards.export(folder, form, out)


def entry() -> int:
    """The exit code of the command line. A signal to end is met as Ctrl-C is: nothing is left behind."""
    prepare_streams()
    prepare_signals()
    try:
        return main(standalone_mode=False, prog_name="python -m benchmarks") or DONE
    except click.ClickException as error:
        return _failed(usage_line(error).replace("`codeact", "`python -m benchmarks"))
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except Unwritten as error:
        return _failed(str(error), INFRA_LEFT)
    except (CodeActError, SandboxError) as error:
        return _failed(str(error))
    except OSError as error:
        where = f"{error.filename}: " if error.filename is not None else ""
        mend = "make room on its disk" if error.errno in FULL else "check the path"
        return _failed(f"{where}{error.strerror or error}; {mend}")
    except Exception as error:  # the last line of defence: a line, not a traceback
        if os.environ.get(DEBUG, "").lower() in YES:
            raise
        said = f"internal: {type(error).__name__}: {error}"
        return _failed(f"{said}; run it again with {DEBUG}=1, and report what it shows")


def _failed(said: str, code: int = USAGE) -> int:
    said = redacted(" ".join(said.split()), secrets(os.environ))
    click.echo(f"benchmarks: error: {said}", err=True)
    return code


if __name__ == "__main__":
    sys.exit(entry())
