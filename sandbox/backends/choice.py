"""Which backend a sandbox gets: the one that was asked for, else an engine where one answers, else bubblewrap."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from sandbox import roots
from sandbox.backends import Backend
from sandbox.backends.bubblewrap import BubblewrapBackend
from sandbox.backends.docker import DockerBackend
from sandbox.backends.machine import look
from sandbox.engine import Engine, find_engine
from sandbox.errors import EngineError, EngineNotFound, ImageError
from sandbox.image_packages import find_or_derive
from sandbox.types import BackendName, Limits


class Chosen(NamedTuple):
    """`engine` is None for bubblewrap; `notice` is one line on what is weaker than it would be otherwise."""

    engine: Engine | None
    notice: str | None

    @property
    def name(self) -> BackendName:
        return "docker" if self.engine else "bubblewrap"


def choose(wanted: BackendName, runtime: str | None = None) -> Chosen:
    """Raises EngineError where no backend can be had.

    An engine that was named (DOCKER_HOST, or a runtime of it) is never replaced by something else.
    """
    if wanted == "bubblewrap":
        if runtime:
            raise EngineError(
                f"runtime {runtime!r} is a container engine's: leave it out, or use --sandbox docker"
            )
        return Chosen(None, None)
    try:
        return Chosen(find_engine(), None)
    except EngineError as error:
        if wanted == "docker" or runtime or os.environ.get("DOCKER_HOST"):
            raise
        if not shutil.which("bwrap"):
            raise EngineNotFound(f"{error}, or install bubblewrap") from None
        reason = str(error).partition(":")[0]
    weaker = "; ".join(look().unenforced.values())
    enforced = f"weaker: {weaker}" if weaker else "its limits are enforced, by the kernel alone"
    return Chosen(None, f"{reason}: bubblewrap contains the code ({enforced})")


def make_backend(
    chosen: Chosen,
    image: str,
    packages: Sequence[str],
    on_progress: Callable[[str], None],
    *,
    limits: Limits,
    inputs: Mapping[str, Path],
    runtime: str | None,
    label: str,
    network: bool,
) -> Backend:
    """A backend, not yet started. Raises ImageNotFound, EngineError."""
    if chosen.engine is None:
        if packages:
            raise ImageError(
                "packages on top of an image need a container engine: start one, or leave them out"
            )
        root = roots.find_root(image)
        return BubblewrapBackend(root, limits=limits, inputs=inputs, label=label, network=network)
    tag = find_or_derive(chosen.engine, image, packages, on_progress).tag
    return DockerBackend(
        chosen.engine, tag, limits=limits, inputs=inputs, runtime=runtime, label=label, network=network
    )
