"""`codeact model`: the local models, their weights and their servers."""

from __future__ import annotations

import click

from codeact.commands.group import Commands
from codeact.commands.invocation import put, say


@click.group(cls=Commands)
def model() -> None:
    """Local models: list, fetch, serve, stop."""


@model.command("list")
def list_models() -> int:
    """List the local models.

    Of each its size, licence, memory, whether it is here, and where it is served.
    """
    from codeact.models import embedded

    for each in embedded.list_models():
        here = "here" if each.fetched else f"not fetched; run `codeact model fetch {each.name}`"
        served = f"; served at {each.url}" if each.url else ""
        put(
            f"{each.name}  {each.size / 1e6:.0f} MB  {each.licence}  needs {each.memory / 1e9:.1f} GB memory  {here}{served}"
        )
    return 0


@model.command("fetch")
@click.argument("name", required=False)
def fetch(name: str | None) -> int:
    """Download the weights of NAME; prints their path.

    By default it is the first that `list` shows.
    """
    from codeact.models import catalogue, embedded

    put(str(embedded.fetch(name or catalogue.DEFAULT, say)))
    return 0


@model.command("serve")
@click.argument("name", required=False)
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="default: a free one")
def serve(name: str | None, port: int) -> int:
    """Serve NAME on a loopback port until Ctrl-C.

    It is an OpenAI-compatible endpoint.
    """
    from codeact.models import catalogue, embedded

    embedded.serve(name or catalogue.DEFAULT, say, port)
    return 0


@model.command("stop")
@click.argument("name", required=False)
def stop(name: str | None) -> int:
    """End the server of NAME, or all."""
    from codeact.models import catalogue, embedded

    stopped = embedded.stop_server(catalogue.find(name).name if name else None)
    say(f"stopped: {', '.join(stopped)}" if stopped else "no local model is served")
    return 0
