"""`codeact doctor`: whether engine, image, limits and model hold, and what to do where they do not."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from codeact import config
from codeact.commands.invocation import NO_MODEL, NO_SANDBOX, as_json, put


@click.command()
@click.option("--model", "model", multiple=True, metavar="NAME", help="the model to check")
@click.option("--base-url", metavar="URL", help="its endpoint")
@click.option("--image", metavar="NAME", help="the image to check (default: data)")
@click.option("--sandbox", metavar="NAME", help="what contains the code: docker, bubblewrap or auto")
@click.option("--runtime", metavar="NAME", help="the engine's runtime, such as runsc")
@click.option("--json", "as_list", is_flag=True, help="a JSON list of the checks")
def doctor(as_list: bool, **flags: Any) -> int:
    """Check engine, image, limits and model. Each line that fails says how to mend it."""
    from codeact.doctor import examine

    settings = config.load(flags)
    found = []
    for check in examine(settings):
        found.append(check)
        if not as_list:
            put(f"{'ok  ' if check.ok else 'FAIL'}  {check.area}: {check.name}: {check.detail}")
            if not check.ok:
                put(f"      mend: {check.mend}")
    if as_list:
        put(as_json([asdict(check) for check in found], indent=1))
    failed = {check.area for check in found if not check.ok}
    if failed - {"model"}:
        return NO_SANDBOX
    return NO_MODEL if failed else 0
