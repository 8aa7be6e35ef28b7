"""Images without an engine: root file systems in the user's cache, made by the same recipes and named by the same hashes.

Each is a folder with `root`, the file system, and `about.json`; the guest code is a folder of its own, which a sandbox
mounts at its place. They are made in a folder of another name and renamed, so that what is there is whole.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from platformdirs import user_cache_path

from sandbox import images
from sandbox.errors import ImageError, ImageNotFound
from sandbox.image_check import Check, check_facts
from sandbox.packages import install_packages
from sandbox.types import ImageInfo

PATH = "/usr/local/bin:/usr/bin:/bin"
RUN_SECONDS = 1800

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Root:
    """A root file system and its guest code. `environment` is what the recipe sets, `packages` name → version."""

    name: str
    folder: Path
    guest: Path
    environment: Mapping[str, str]
    packages: Mapping[str, str]
    size: int
    base: str

    @property
    def info(self) -> ImageInfo:
        return ImageInfo(self.name, images.image_tag(self.name), True, self.size, self.packages)


def roots_folder() -> Path:
    return user_cache_path("codeact") / "roots"


def find_root(name: str) -> Root:
    """The built one. Raises ImageNotFound where it is not built, ImageError for an unknown name."""
    root = _find(name)
    if root is None:
        raise ImageNotFound(
            f"image {name!r} is not built for bubblewrap: run `codeact image build {name} --sandbox bubblewrap`"
        )
    for used in (root.folder.parent, root.guest):
        with contextlib.suppress(OSError):  # builds remove what has not been used for a week
            os.utime(used)
    return root


def list_roots() -> list[ImageInfo]:
    """Every image that this version knows, built or not."""
    found = ((name, _find(name)) for name in images.image_names())
    return [
        root.info if root else ImageInfo(name, images.image_tag(name), present=False) for name, root in found
    ]


def build_root(name: str, *, base: str | None = None, on_progress: Progress) -> ImageInfo:
    """Builds what is missing. `base` is `debian` (as is None), or the path of a tar file of a root file system.

    Raises ImageError.
    """
    from sandbox.root_build import build  # which needs what is here

    install_packages({"bwrap": "bubblewrap"}, on_progress)
    if (ready := _find(name)) and base in (None, ready.base):
        return ready.info
    with images.one_build(on_progress):
        if not ((ready := _find(name)) and base in (None, ready.base)):
            build(name, base, on_progress)
    info = find_root(name).info
    on_progress(f"{name}: built {info.tag} for bubblewrap")
    return info


def verify_root(name: str) -> list[Check]:
    """Runs Python in the file system, and compares what is in it with what should be. Raises ImageError."""
    root = find_root(name)
    script = (images.images_folder() / "base" / "facts.py").read_text("utf-8")
    output = run_inside(
        root.folder,
        ["/opt/venv/bin/python", "-c", script],
        environment=root.environment,
        options=("--ro-bind", str(root.guest), "/opt/sandbox", "--uid", "10002", "--gid", "10001"),
        read_only=True,
    )
    try:
        return check_facts(json.loads(output.splitlines()[-1]), root.packages)
    except (ValueError, IndexError) as error:
        raise ImageError(f"image {name!r} does not run: {error}: build it again") from None


def run_inside(
    root: Path,
    command: Sequence[str],
    *,
    environment: Mapping[str, str] | None = None,
    options: Sequence[str] = (),
    read_only: bool = False,
) -> str:
    """Runs a command in a file system, without a network; what it printed. Raises ImageError with its last line."""
    bind = "--ro-bind" if read_only else "--bind"
    rights = () if read_only else ("--uid", "0", "--gid", "0", "--cap-add", "ALL")
    variables = {"PATH": PATH, "LANG": "C.UTF-8", "HOME": "/tmp", **(environment or {})}  # noqa: S108
    settings = [word for name, value in variables.items() for word in ("--setenv", name, value)]
    done = subprocess.run(
        [
            *("bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--clearenv", *settings),
            *(bind, str(root), "/", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"),  # noqa: S108
            *(*rights, *_without_owners(root), *options, "--chdir", "/", "--", *command),
        ],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=RUN_SECONDS,
        check=False,
    )
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()[-3:]
        raise ImageError(f"`{' '.join(command)[:80]}` failed: {' | '.join(said) or done.returncode}")
    return done.stdout


def _without_owners(root: Path) -> Iterator[str]:
    """All files are ours, and one user is mapped: `chown` would fail. Sandboxes mount their own folders over those."""
    program = "usr/bin/chown"
    if (root / program).is_file() and (root / "usr/bin/true").is_file():
        yield from ("--ro-bind", str(root / "usr/bin/true"), f"/{program}")


def _find(name: str) -> Root | None:
    place = place_of(images.environment_tag(name))
    guest = roots_folder() / f"guest-{images.guest_hash()}"
    found = about(place)
    if found is None or not guest.is_dir():
        return None
    return Root(
        name, place / "root", guest, found["environment"], found["packages"], found["size"], found["base"]
    )


def place_of(tag: str) -> Path:
    return roots_folder() / tag.removeprefix(f"{images.REPOSITORY}/").replace(":", "-")


def about(place: Path) -> dict[str, Any] | None:
    try:
        found = json.loads((place / "about.json").read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None
