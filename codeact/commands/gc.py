"""`codeact gc`: removes the sandboxes of processes that are gone."""

from __future__ import annotations

import shutil

import click

from codeact.commands.invocation import put


@click.command()
def gc() -> int:
    """Remove sandboxes that no live process owns, or whose time is up; prints how many."""
    from sandbox.backends.cgroups import remove_left
    from sandbox.backends.reaper import reap_now
    from sandbox.engine import find_engine
    from sandbox.errors import EngineNotFound

    left = (
        remove_left()
    )  # of bubblewrap's, which the kernel ends, only their empty control groups can be left
    try:
        left += reap_now(find_engine())
    except EngineNotFound:
        if not shutil.which("bwrap"):
            raise
    put(str(left))
    return 0
