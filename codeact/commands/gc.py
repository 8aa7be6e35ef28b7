"""`codeact gc`: removes the sandboxes of processes that are gone."""

from __future__ import annotations

import click

from codeact.commands.invocation import put


@click.command()
def gc() -> int:
    """Remove what processes left that are gone.

    That is sandboxes, also those whose time is up, and temporary files; prints how many.
    """
    from codeact import home, tidying
    from sandbox.leftovers import remove_leftovers

    put(str(tidying.sweep(home.runs_dir()) + remove_leftovers()))
    return 0
