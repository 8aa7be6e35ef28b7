"""Root file systems made by the recipes of the images, without an engine: bubblewrap runs their commands."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sandbox import images
from sandbox.errors import ImageError
from sandbox.held import part_folder, scratch_folder
from sandbox.image_base import DEBIAN, KEPT_SECONDS, bootstrap, bootstrap_hash
from sandbox.recipe import Copy, Run, Stage, parse
from sandbox.roots import about, place_of, roots_folder, run_inside
from sandbox.wheels import Target, fetch, read_lock

HOSTS = "127.0.0.1 localhost\n::1 localhost\n"
FROM_HOST = ("etc/resolv.conf", "etc/hostname", "etc/hosts")
"""What a bootstrap takes over from this machine."""

Progress = Callable[[str], None]


def build(name: str, base: str | None, on_progress: Progress) -> None:
    """Makes the file system of an image and its guest code, each where it is missing. Raises ImageError."""
    roots_folder().mkdir(parents=True, exist_ok=True)
    place = place_of(images.environment_tag(name))
    found = about(place)
    if found is None or base not in (None, found["base"]):
        _build_environment(name, place, base, on_progress)
    guest = roots_folder() / f"guest-{images.guest_hash()}"
    if not guest.is_dir():
        on_progress(f"{name}: adding the guest code")
        _build_guest(place / "root", guest)
    _remove_older(keep={place.name, guest.name})


def _build_environment(name: str, place: Path, base: str | None, on_progress: Progress) -> None:
    start = _base(base, on_progress)
    recipe = images.images_folder() / "base"
    target = Target(
        json.loads(run_inside(start, ["python3", "-c", (recipe / "markers.py").read_text("utf-8")]))
    )
    on_progress(f"{name}: building without an engine (Python {target.python}, {target.machine})")
    requirements = read_lock(images.images_folder() / name / "requirements.lock", target)
    wheels = {f"wheels/{wheel.name}": wheel for wheel in fetch(requirements, target, on_progress)}
    parts = images.environment_parts(name)
    on_progress(f"{name}: installing {len(wheels)} packages")
    stages = parse(parts["Dockerfile"].decode(), {"BASE": str(start)})
    with _new_folder(place) as made:
        finished: dict[str, Path] = {}
        for number, stage in enumerate(stages):
            last = number == len(stages) - 1
            root = made / "root" if last else made / f"stage-{number}"
            _copy_tree(finished.get(stage.base, Path(stage.base)), root)
            _follow(stage, root, {**parts, **wheels}, finished)
            finished[stage.name] = root
        for number in range(len(stages) - 1):
            shutil.rmtree(made / f"stage-{number}")
        facts: dict[str, Any] = {
            "base": base or DEBIAN,
            "environment": dict(stages[-1].environment),
            "packages": {r.name: r.version for r in requirements},
            "size": _size(made / "root"),
        }
        (made / "about.json").write_text(json.dumps(facts), "utf-8")


def _follow(
    stage: Stage, root: Path, context: Mapping[str, bytes | Path], finished: Mapping[str, Path]
) -> None:
    for step in stage.steps:
        match step:
            case Run(command):
                run_inside(root, ["/bin/sh", "-c", command], environment=stage.environment)
            case Copy(sources, target, None):
                _copy_in(root, sources, target, context)
            case Copy(sources, target, other):
                for source in sources:
                    _copy_tree(finished[str(other)] / source.lstrip("/"), root / target.lstrip("/"))


def _copy_in(root: Path, sources: tuple[str, ...], target: str, context: Mapping[str, bytes | Path]) -> None:
    """As COPY does: a folder's content goes into the target, a file into it or, where it is no folder, to its name."""
    place = root / target.lstrip("/")
    for source in sources:
        inside = {name: content for name, content in context.items() if name.startswith(f"{source}/")}
        if inside:
            files = {place / name.removeprefix(f"{source}/"): content for name, content in inside.items()}
        elif source in context:
            files = {place / Path(source).name if target.endswith("/") else place: context[source]}
        else:
            raise ImageError(f"COPY {source}: there is no such file in the image's folder")
        for path, content in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, Path):
                shutil.copyfile(content, path)
            else:
                path.write_bytes(content)


def _build_guest(root: Path, guest: Path) -> None:
    with _new_folder(guest) as made:
        for name, content in images.guest_parts().items():
            if name != "Dockerfile":
                (made / name).parent.mkdir(parents=True, exist_ok=True)
                (made / name).write_bytes(content)
        place = "/opt/sandbox"
        compiling = ["python3", "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash", place]
        run_inside(root, compiling, options=("--bind", str(made), place), read_only=True)


def _base(base: str | None, on_progress: Progress) -> Path:
    """The file system that images are built from, out of Debian packages or of a tar file that somebody made."""
    if base in (None, DEBIAN):
        place = roots_folder() / f"base-{bootstrap_hash(images.images_folder() / 'base')}"
        if not place.is_dir():
            with scratch_folder() as folder, _new_folder(place) as made:
                archive = Path(folder, "base.tar")
                bootstrap(images.images_folder() / "base", archive, on_progress)
                _unpack(archive, made)
        return place
    archive = Path(str(base))
    if not archive.is_file():
        raise ImageError(
            f"base {base!r}: without an engine a base is {DEBIAN!r} or the tar file of a root file system with python3"
        )
    place = roots_folder() / f"base-{archive.stat().st_mtime_ns:x}-{archive.stat().st_size:x}"
    if not place.is_dir():
        with _new_folder(place) as made:
            _unpack(archive, made)
    return place


def _unpack(archive: Path, folder: Path) -> None:
    """Files are ours, whoever they belonged to; devices are left out, as only root can make them."""
    options = ["--no-same-owner", "--preserve-permissions", "--exclude=./dev/*", "--exclude=dev/*"]
    _run(["tar", "--extract", "--file", str(archive), "--directory", str(folder), *options])
    for name in FROM_HOST:
        (folder / name).unlink(missing_ok=True)
    (folder / "etc/hosts").write_text(HOSTS, "ascii")


def _copy_tree(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    _run(["cp", "--archive", "--no-target-directory", "--reflink=auto", str(source), str(target)])


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        said = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise ImageError(f"the image's file system could not be made: {said}")


@contextmanager
def _new_folder(place: Path) -> Iterator[Path]:
    """A folder that gets its name when all is in it; what was there before goes."""
    with part_folder(roots_folder()) as made:
        made.chmod(0o755)
        yield made
        old = made.with_suffix(".old")
        if place.exists():
            place.rename(old)
        os.utime(made)  # a tar file's own folder has the time that it was given in there
        made.rename(place)
        shutil.rmtree(old, ignore_errors=True)


def _remove_older(keep: set[str]) -> None:
    """What no build or sandbox has used for a week; other checkouts may use what is younger."""
    for place in roots_folder().iterdir():
        if place.name not in keep and time.time() - place.stat().st_mtime > KEPT_SECONDS:
            shutil.rmtree(place, ignore_errors=True)


def _size(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
