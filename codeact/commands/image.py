"""`codeact image`: build, list and verify the images that sandboxes are started from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import click

from codeact.commands.group import Commands
from codeact.commands.invocation import NO_SANDBOX, fail, put, say


@click.group(cls=Commands)
def image() -> None:
    """Sandbox images: build, list, verify."""


@image.command("build")
@click.argument("name", required=False)
@click.option("--base", metavar="BASE", help="'debian' or an image reference (default: what can be had)")
def build(name: str | None, base: str | None) -> int:
    """Build the image NAME, or all; prints their tags. An engine is installed and started where none runs."""
    from sandbox import engine, images

    engine.ensure_engine(say)
    with _client() as client:
        for each in [name] if name else images.image_names():
            put(images.build(client, each, base=base, on_progress=say).tag)
    return 0


@image.command("list")
def list_images() -> int:
    """List the images of this version, built or not."""
    from sandbox import images

    with _client() as client:
        for each in images.list_images(client):
            size = (
                f"{each.size / 1e6:.0f} MB"
                if each.size
                else f"not built; run `codeact image build {each.name}`"
            )
            put(f"{each.name}  {each.tag}  {size}")
    return 0


@image.command("verify")
@click.argument("name", required=False)
def verify(name: str | None) -> int:
    """Compare what is in the image NAME, or in all, with what should be."""
    from sandbox import images

    failed = []
    with _client() as client:
        for each in [name] if name else images.image_names():
            checks = images.verify(client, each)
            for check in checks:
                put(f"{'ok  ' if check.ok else 'FAIL'}  {each}: {check.name}: {check.detail}")
            if not all(check.ok for check in checks):
                failed.append(each)
    if failed:
        fail(
            f"image {', '.join(failed)}: not as it should be; build it again with `codeact image build {failed[0]}`"
        )
    return NO_SANDBOX if failed else 0


@contextmanager
def _client() -> Iterator[Any]:
    from sandbox.engine import find_engine

    with closing(find_engine().client()) as client:
        yield client
