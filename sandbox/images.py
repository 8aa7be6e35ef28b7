"""Sandbox images: what is in one decides its tag, so an image that is there is an image that is right.

An image is built in two steps. The *environment* (base, accounts, locked packages) takes a minute and changes rarely;
the *guest* layer on top of it (the code that owns the kernel) takes a second. Both run without a network: wheels are
downloaded on the host before.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import docker
from docker.errors import DockerException
from docker.errors import ImageNotFound as NoSuchImage
from platformdirs import user_cache_path

from sandbox.build_context import pack
from sandbox.engine import find_engine
from sandbox.errors import ImageError, ImageNotFound, SandboxError
from sandbox.image_base import base_kind, base_target, choose_base, remove_older
from sandbox.image_check import Check, check_facts
from sandbox.run_once import run_once
from sandbox.types import ImageInfo
from sandbox.wheels import fetch, read_lock

FORMAT = "1"
"""Raised when the way of building changes, so that images built the old way are built again."""
REPOSITORY = "codeact"
BUILD_SILENCE = 1800
"""Seconds that one step of a build may take without output."""
_BASE_PARTS = ("bootstrap.sh", "install.sh", "prepare.sh")
_NOT_BUILT = (".md", ".in")
_GUEST = Path(__file__).parent / "guest"

Progress = Callable[[str], None]


def images_folder() -> Path:
    """`images/` of a checkout, or the copy inside an installed package."""
    beside = Path(__file__).parent
    for folder in (beside / "_images", beside.parent / "images"):
        if (folder / "base" / "install.sh").is_file():
            return folder
    raise ImageError("the image definitions are missing from this installation: install codeact again")


def image_names() -> list[str]:
    return sorted(lock.parent.name for lock in images_folder().glob("*/requirements.lock"))


def image_tag(name: str) -> str:
    """`codeact/NAME:HASH`, the hash of all that the image is made of. Raises ImageError for an unknown name."""
    parts = {"environment": environment_tag(name).encode(), **guest_parts()}
    return f"{REPOSITORY}/{name}:{_digest(parts)}"


def guest_hash() -> str:
    """The hash of the code that owns the kernel, by itself."""
    return _digest(guest_parts())


def environment_tag(name: str) -> str:
    """The tag of the image without its guest layer."""
    return f"{REPOSITORY}/{name}:environment-{_digest(environment_parts(name))}"


def tag_of(name: str, kind: str, parts: Mapping[str, bytes]) -> str:
    """A tag for an image on top of the image `name`: what kind it is, and the hash of what it is made of."""
    return f"{REPOSITORY}/{name}:{kind}-{_digest(parts)}"


def find(client: docker.DockerClient, name: str) -> ImageInfo:
    """The built image. Raises ImageNotFound where it is not built, ImageError for an unknown name."""
    image = get(client, image_tag(name))
    if image is None:
        raise ImageNotFound(f"image {name!r} is not built: run `codeact image build {name}`")
    return info(name, image)


def list_images(client: docker.DockerClient) -> list[ImageInfo]:
    """Every image that this version knows, built or not, then those with packages on top that are there."""
    found = ((name, get(client, image_tag(name))) for name in image_names())
    own = [
        info(name, image) if image else ImageInfo(name, image_tag(name), present=False)
        for name, image in found
    ]
    added = client.images.list(filters={"label": "codeact.layer=added"})
    return own + [
        info(f"{image.labels.get('codeact.image')} + {image.labels.get('codeact.asked')}", image, tag)
        for image in added
        for tag in image.tags
        if ":added-" in tag
    ]


def build(
    client: docker.DockerClient, name: str, *, base: str | None = None, on_progress: Progress
) -> ImageInfo:
    """Builds what is missing, and removes our older images of that name that no container uses.

    `base` is `debian`, an image reference, or None for what can be had. Raises ImageError.
    """
    if ready := _ready(client, name, base):
        return ready
    with one_build(on_progress):
        return _ready(client, name, base) or _build(client, name, base, on_progress)


@contextmanager
def one_build(on_progress: Progress) -> Iterator[None]:
    """One build at a time for each user: a second one then finds the work done, and no one's leftovers are taken away."""
    folder = user_cache_path("codeact")
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "build.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_progress("waiting for another build to end")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _ready(client: docker.DockerClient, name: str, base: str | None) -> ImageInfo | None:
    image = get(client, image_tag(name))
    return info(name, image) if image and base in (None, image.labels.get("codeact.base")) else None


def _build(client: docker.DockerClient, name: str, base: str | None, on_progress: Progress) -> ImageInfo:
    environment = get(client, environment_tag(name))
    if not environment or base not in (None, environment.labels.get("codeact.base")):
        environment = _build_environment(client, name, base, on_progress)
    on_progress(f"{name}: adding the guest code")
    arguments = {"ENVIRONMENT": environment_tag(name)}
    image = run_build(client, image_tag(name), guest_parts(), arguments, {"codeact.layer": "guest"})
    remove_older(client, name, keep={image_tag(name), environment_tag(name)})
    on_progress(f"{name}: built {image_tag(name)}")
    return info(name, image)


def _build_environment(
    client: docker.DockerClient, name: str, base: str | None, on_progress: Progress
) -> Any:
    recipe = images_folder() / "base"
    reference = choose_base(client, recipe, base, on_progress)
    target = base_target(client, reference, recipe)
    on_progress(f"{name}: building on {reference} (Python {target.python}, {target.machine})")
    requirements = read_lock(images_folder() / name / "requirements.lock", target)
    wheels = {f"wheels/{wheel.name}": wheel for wheel in fetch(requirements, target, on_progress)}
    labels = {
        "codeact.image": name,
        "codeact.layer": "environment",
        "codeact.base": base_kind(reference),
        "codeact.python": target.python,
        "codeact.packages": json.dumps({r.name: r.version for r in requirements}),
    }
    on_progress(f"{name}: installing {len(wheels)} packages into the image")
    image = run_build(
        client, environment_tag(name), {**environment_parts(name), **wheels}, {"BASE": reference}, labels
    )
    client.images.prune(filters={"dangling": True, "label": "codeact.stage=build"})
    return image


def run_build(
    client: docker.DockerClient,
    tag: str,
    contents: Mapping[str, bytes | Path],
    arguments: dict[str, str],
    labels: dict[str, str],
) -> Any:
    """Builds without a network. Raises ImageError with the last lines of the build's output."""
    output = ""
    with pack(sorted(contents.items())) as archive:
        try:
            for line in client.api.build(
                fileobj=archive,
                custom_context=True,
                tag=tag,
                buildargs=arguments,
                labels=labels,
                network_mode="none",
                rm=True,
                forcerm=True,
                decode=True,
                timeout=BUILD_SILENCE,
            ):
                output += line.get("stream", "")
                if "error" in line:
                    raise ImageError(_failure(tag, output, line["error"]))
        except (DockerException, OSError) as error:
            raise ImageError(_failure(tag, output, str(error))) from None
    return client.images.get(tag)


def _failure(tag: str, output: str, error: str) -> str:
    return f"image {tag} did not build: {error.strip()}: " + " | ".join(output.strip().splitlines()[-3:])


def get(client: docker.DockerClient, tag: str) -> Any | None:
    try:
        return client.images.get(tag)
    except NoSuchImage:
        return None


def info(name: str, image: Any, tag: str | None = None) -> ImageInfo:
    packages = json.loads(image.labels.get("codeact.packages", "{}"))
    return ImageInfo(name, tag or image_tag(name), present=True, size=image.attrs["Size"], packages=packages)


def environment_parts(name: str) -> dict[str, bytes]:
    """Name in the build context → content, of all that an environment is made of but the wheels, which the lock names."""
    if name not in image_names():
        raise ImageError(f"unknown image {name!r}: known are {', '.join(image_names())}")
    folder = images_folder()
    parts = {f"base/{part}": (folder / "base" / part).read_bytes() for part in _BASE_PARTS}
    for path in (folder / name).iterdir():
        if path.is_file() and path.suffix not in _NOT_BUILT:
            parts[path.name] = path.read_bytes()
    return parts


def guest_parts() -> dict[str, bytes]:
    sources = {
        f"sandbox_guest/{path.relative_to(_GUEST).as_posix()}": path.read_bytes()
        for path in _GUEST.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    return {"Dockerfile": (images_folder() / "base" / "guest.Dockerfile").read_bytes(), **sources}


def _digest(parts: Mapping[str, bytes]) -> str:
    digest = hashlib.sha256(FORMAT.encode())
    for name, content in sorted(parts.items()):
        digest.update(f"\0{name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:12]


def verify(client: docker.DockerClient, name: str) -> list[Check]:
    """Runs a throw-away container of the image, and compares what is in it with what should be.

    Each check is (what is checked, whether it holds, detail). Raises ImageNotFound, ImageError.
    """
    image = find(client, name)
    script = (images_folder() / "base" / "facts.py").read_text("utf-8")
    try:
        output = run_once(
            client,
            image.tag,
            ["python", "-c", script],
            user="10002:10001",
            read_only=True,
            tmpfs={"/tmp": "size=64m,mode=1777"},  # noqa: S108 - inside the container
        )
        return check_facts(json.loads(output.splitlines()[-1]), image.packages)
    except (DockerException, OSError, ValueError, IndexError) as error:
        raise ImageError(f"image {name!r} does not run: {error}: build it again") from None


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m sandbox.images", description="Sandbox images.")
    parser.add_argument("command", choices=("build", "list", "verify"))
    parser.add_argument("name", nargs="?", help="an image; all of them where none is named")
    parser.add_argument("--base", help="'debian' or an image reference (default: what can be had)")
    options = parser.parse_args(arguments)
    try:
        with find_engine().connected() as client:
            return _command(client, options)
    except SandboxError as error:
        print(error, file=sys.stderr)
        return 4


def _command(client: docker.DockerClient, options: argparse.Namespace) -> int:
    names = [options.name] if options.name else image_names()
    if options.command == "list":
        for image in list_images(client):
            print(image.tag, f"{image.size / 1e6:.0f} MB" if image.size else "not built")
        return 0
    if options.command == "build":
        for name in names:
            print(build(client, name, base=options.base, on_progress=_say).tag)
        return 0
    checks = [check for name in names for check in verify(client, name)]
    for check in checks:
        print("ok  " if check.ok else "FAIL", check.name, check.detail)
    return 0 if all(check.ok for check in checks) else 1


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
