"""`codeact image`: build, list and verify the images that sandboxes are started from."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, cast

import click

from codeact.commands.group import Commands
from codeact.commands.invocation import NO_SANDBOX, fail, put, say

if TYPE_CHECKING:
    from sandbox.types import BackendName


@click.group(cls=Commands)
def image() -> None:
    """Sandbox images: build, list, verify."""


def _sandbox(command: Callable[..., int]) -> Callable[..., int]:
    kinds = click.Choice(["docker", "bubblewrap", "auto"])
    said = "the images of what: an engine, or bubblewrap (default: an engine where one answers)"
    return click.option("--sandbox", "kind", type=kinds, default="auto", help=said)(command)


@image.command("build")
@click.argument("name", required=False)
@click.option(
    "--base", metavar="BASE", help="'debian', an image reference or a tar file (default: what can be had)"
)
@click.option(
    "--sandbox",
    "kind",
    type=click.Choice(["docker", "bubblewrap"]),
    default="docker",
    help="for an engine, or for bubblewrap (default: for an engine)",
)
def build(name: str | None, base: str | None, kind: str) -> int:
    """Build the image NAME, or all; prints their tags. An engine is installed and started where none runs."""
    from sandbox import engine, images, roots

    names = [name] if name else images.image_names()
    if kind == "bubblewrap":
        for each in names:
            put(roots.build_root(each, base=base, on_progress=say).tag)
        return 0
    engine.ensure_engine(say)
    with _client() as client:
        for each in names:
            put(images.build(client, each, base=base, on_progress=say).tag)
    return 0


@image.command("list")
@_sandbox
def list_images(kind: str) -> int:
    """List the images of this version, built or not."""
    from sandbox import images, roots

    if _for_engine(kind):
        with _client() as client:
            found, option = images.list_images(client), ""
    else:
        found, option = roots.list_roots(), " --sandbox bubblewrap"
    for each in found:
        size = (
            f"{each.size / 1e6:.0f} MB"
            if each.size
            else f"not built; run `codeact image build {each.name}{option}`"
        )
        put(f"{each.name}  {each.tag}  {size}")
    return 0


@image.command("verify")
@click.argument("name", required=False)
@_sandbox
def verify(name: str | None, kind: str) -> int:
    """Compare what is in the image NAME, or in all, with what should be."""
    from sandbox import images, roots

    names = [name] if name else images.image_names()
    if _for_engine(kind):
        with _client() as client:
            checked = {each: images.verify(client, each) for each in names}
    else:
        checked = {each: roots.verify_root(each) for each in names}
    for each, checks in checked.items():
        for check in checks:
            put(f"{'ok  ' if check.ok else 'FAIL'}  {each}: {check.name}: {check.detail}")
    failed = [each for each, checks in checked.items() if not all(check.ok for check in checks)]
    if failed:
        fail(
            f"image {', '.join(failed)}: not as it should be; build it again with `codeact image build {failed[0]}`"
        )
    return NO_SANDBOX if failed else 0


def _for_engine(kind: str) -> bool:
    from sandbox.backends.choice import choose

    return choose(cast("BackendName", kind)).engine is not None


def _client() -> AbstractContextManager[Any]:
    from sandbox.engine import find_engine

    return find_engine().connected()
