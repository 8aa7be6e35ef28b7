"""`codeact gc`: removes the sandboxes of processes that are gone."""

from __future__ import annotations

import click

from codeact.commands.invocation import put


@click.command()
def gc() -> int:
    """Remove containers that no live process owns, or whose time is up; prints how many."""
    from sandbox.backends.reaper import reap_now
    from sandbox.engine import find_engine

    put(str(reap_now(find_engine())))
    return 0
