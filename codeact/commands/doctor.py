"""`codeact doctor`: whether engine, image, limits and model hold, and what to do where they do not."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import asdict
from itertools import groupby
from typing import TYPE_CHECKING, Any

import click

from codeact.commands.invocation import NO_MODEL, NO_SANDBOX, as_json, load_settings, put

if TYPE_CHECKING:
    from sandbox.checks import Check

PIPE_WIDTH = 160
"""Columns of the table where there is no terminal to ask."""


@click.command()
@click.option("--model", "model", multiple=True, metavar="NAME", help="the model to check")
@click.option("--base-url", metavar="URL", help="its endpoint")
@click.option("--image", metavar="NAME", help="the image to check (default: data)")
@click.option("--sandbox", metavar="NAME", help="docker, bubblewrap or auto (default: auto)")
@click.option("--runtime", metavar="NAME", help="the engine's runtime, such as runsc")
@click.option("--json", "as_list", is_flag=True, help="a JSON list of the checks")
def doctor(as_list: bool, **flags: Any) -> int:
    """Check engine, image, limits and model. Each line that fails says how to mend it.

    What is promised of a sandbox is tried in a throw-away one, in a table: promised, tried, seen.
    """
    from codeact.doctor import examine

    found: list[Check] = []
    for is_promise, checks in groupby(examine(load_settings(flags)), lambda check: bool(check.promised)):
        if as_list:
            found += checks
        elif is_promise:
            rows = list(checks)
            put(table(rows))
            found += rows
            for check in rows:
                _say_mend(check)
        else:
            for check in checks:
                put(f"{'ok  ' if check.ok else 'FAIL'}  {check.area}: {check.name}: {check.detail}")
                _say_mend(check)
                found.append(check)
    if as_list:
        put(as_json([asdict(check) for check in found], indent=1))
    failed = {check.area for check in found if not check.ok}
    if failed - {"model"}:
        return NO_SANDBOX
    return NO_MODEL if failed else 0


def _say_mend(check: Check) -> None:
    if not check.ok:
        put(f"      mend {check.name}: {check.mend}")


def table(checks: Iterable[Check]) -> str:
    """What was promised, tried and seen. `weak` is what the backend says that it cannot hold here."""
    from io import StringIO

    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    made = Table("", "", "promised", "tried", "seen", box=box.SIMPLE_HEAD, pad_edge=False)
    for check in checks:
        state = "FAIL" if not check.ok else "ok" if check.enforced else "weak"
        made.add_row(*map(Text, (state, check.name, check.promised, check.tried, check.detail)))
    text = StringIO()
    console = Console(file=text, width=None if sys.stdout.isatty() else PIPE_WIDTH, no_color=True)
    console.print(made)
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines() if line.strip())
