"""The image that sandbox images are built from: pulled where a registry answers, else made out of Debian packages."""

from __future__ import annotations

import datetime
import hashlib
import json
import platform
import shutil
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import docker
from docker.errors import APIError, DockerException, ImageNotFound

from sandbox.errors import ImageError
from sandbox.held import scratch_folder
from sandbox.packages import install_packages
from sandbox.run_once import run_once
from sandbox.wheels import Target

REGISTRY_BASE = "python:3.12-slim"
DEBIAN = "debian"
PULL_SILENCE = 20
"""Seconds without a word from the engine after which a registry counts as out of reach."""
KEPT_SECONDS = 7 * 24 * 3600
"""How long an image stays that this checkout has no use for."""
_ENGINE_NAMES = {"x86_64": "amd64", "aarch64": "arm64", "arm64": "arm64"}


def choose_base(
    client: docker.DockerClient, recipe: Path, base: str | None, on_progress: Callable[[str], None]
) -> str:
    """A reference that the engine holds. `base` is `debian`, an image reference, or None for whichever can be had.

    Raises ImageError where it can neither be pulled nor made.
    """
    if base == DEBIAN:
        return _debian(client, recipe, on_progress)
    reference = base or REGISTRY_BASE
    if _present(client, reference):
        return reference
    on_progress(f"pulling {reference}")
    problem = _pull(client, reference)
    if problem is None:
        return reference
    if base:
        raise ImageError(
            f"base image {base!r} could not be pulled: {problem}: check the name, or use --base {DEBIAN}"
        )
    on_progress(f"no registry gives {reference} ({problem}): making a base out of Debian packages")
    return _debian(client, recipe, on_progress)


def base_kind(reference: str) -> str:
    """How a base is named to a user: what `choose_base` takes."""
    return DEBIAN if reference.startswith("codeact/base:") else reference


def base_target(client: docker.DockerClient, reference: str, recipe: Path) -> Target:
    """Asks the Python of a base image what it is. Raises ImageError where there is none."""
    script = (recipe / "markers.py").read_text("utf-8")
    try:
        return Target(json.loads(run_once(client, reference, ["python3", "-c", script])))
    except (DockerException, OSError, ValueError) as error:
        raise ImageError(
            f"base image {reference!r} runs no python3: {_one_line(error)}: use another --base"
        ) from None


def remove_older(client: docker.DockerClient, name: str, keep: set[str]) -> None:
    """Removes our images of that name that are older than a week, but those tagged as in `keep` or used by a container.

    A younger one may be that of another checkout on this engine.
    """
    for image in client.images.list(filters={"label": f"codeact.image={name}"}):
        young = time.time() - _created(image) < KEPT_SECONDS
        for tag in set(image.tags) - keep if not young else ():
            with suppress(APIError):  # a container uses it: a later build removes it
                client.images.remove(tag)


def _created(image: Any) -> float:
    made = str(image.attrs.get("Created", ""))[:19]
    try:
        return datetime.datetime.fromisoformat(made).replace(tzinfo=datetime.UTC).timestamp()
    except ValueError:
        return time.time()


def _present(client: docker.DockerClient, reference: str) -> bool:
    try:
        client.images.get(reference)
    except ImageNotFound:
        return False
    return True


def _pull(client: docker.DockerClient, reference: str) -> str | None:
    """Pulls, and returns why it failed or None. The engine keeps what it has when the registry falls silent."""
    usual, client.api.timeout = client.api.timeout, PULL_SILENCE
    try:
        repository, tag = split_reference(reference)
        for line in client.api.pull(repository, tag=tag, stream=True, decode=True):
            if "error" in line:
                return str(line["error"])
    except (DockerException, OSError) as error:
        return _one_line(error)
    finally:
        client.api.timeout = usual
    return None


def split_reference(reference: str) -> tuple[str, str | None]:
    """`name:tag` → both; the tag of a digest or an untagged reference is None or `latest`."""
    if "@" in reference:
        return reference, None
    head, colon, tag = reference.rpartition(":")
    return (head, tag) if colon and "/" not in tag else (reference, "latest")


def _one_line(error: Exception) -> str:
    text: Any = getattr(error, "explanation", None) or error
    return " ".join(str(text).split())[:300]


def bootstrap_hash(recipe: Path) -> str:
    return hashlib.sha256((recipe / "bootstrap.sh").read_bytes()).hexdigest()[:12]


def bootstrap(recipe: Path, archive: Path, on_progress: Callable[[str], None]) -> None:
    """Writes a root file system with Python, out of Debian packages, to a tar file. Raises ImageError."""
    install_packages({"mmdebstrap": "mmdebstrap"}, on_progress, extra=("debian-archive-keyring",))
    on_progress("bootstrapping Debian (about half a minute)")
    _run(["sh", str(recipe / "bootstrap.sh"), str(archive)])


def _debian(client: docker.DockerClient, recipe: Path, on_progress: Callable[[str], None]) -> str:
    tag = f"{DEBIAN}-{bootstrap_hash(recipe)}"
    reference = f"codeact/base:{tag}"
    if _present(client, reference):
        return reference
    machine, engine = platform.machine(), client.version()["Arch"]
    if _ENGINE_NAMES.get(machine) != engine:
        raise ImageError(
            f"a Debian base made here ({machine}) does not run on the engine ({engine}): use another --base"
        )
    with scratch_folder() as folder:
        archive = Path(folder, "base.tar")
        bootstrap(recipe, archive, on_progress)
        on_progress("importing it")
        with archive.open("rb") as file:
            client.api.import_image(
                src=file,
                repository="codeact/base",
                tag=tag,
                changes=[
                    "LABEL codeact.image=base codeact.layer=base",
                    "ENV PATH=/usr/local/bin:/usr/bin:/bin",
                ],
            )
    if not _present(client, reference):
        raise ImageError(f"the engine did not take the Debian base {reference}: look at the engine's log")
    remove_older(client, "base", keep={reference})
    return reference


def _run(command: list[str]) -> None:
    if not shutil.which(command[0]):
        raise ImageError(f"{command[0]} is not installed: install it, or name a base image with --base")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise ImageError(
            f"the Debian base could not be made: {last}: check the network and apt, or use another --base"
        )
