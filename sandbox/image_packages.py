"""Packages on top of an image: resolved and downloaded on the host, installed in a build without a network, kept.

Nothing of a package is executed on the host: only wheels are taken. What the image holds stays as it is, and what is
asked for must get along with it.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
from packaging.requirements import InvalidRequirement
from packaging.requirements import Requirement as Asked
from packaging.utils import canonicalize_name

from sandbox import images
from sandbox.engine import Engine
from sandbox.errors import ImageError
from sandbox.held import scratch_folder
from sandbox.image_base import base_target, remove_older
from sandbox.types import ImageInfo
from sandbox.wheels import Requirement, Target, as_line, fetch, pip_command

ROUNDS = 8
"""How often pip is asked again for what its own Python does not need and the image's does."""
SHOWN_VERSIONS = 5


@dataclass(frozen=True, slots=True)
class Resolved:
    """A package that pip chose. `requires` are its own requirements, `extras` those of its extras that were asked for."""

    requirement: Requirement
    requires: tuple[str, ...]
    extras: tuple[str, ...]


def parse(text: str) -> Asked:
    """`name`, `name==1.2`, `name[extra]>=1`. Raises ValueError with one line."""
    try:
        asked = Asked(text.strip())
    except InvalidRequirement:
        raise ValueError(f"{text!r} is not a package; write name or name==1.2") from None
    if asked.url:
        raise ValueError(
            f"{text!r} is a URL; name a package of your index, or put its folder into PIP_FIND_LINKS and name it"
        )
    return asked


def find_or_derive(
    engine: Engine, name: str, packages: Sequence[str], on_progress: Callable[[str], None]
) -> ImageInfo:
    """The image `name`, or with `packages` the one that has them on top. Raises ImageError."""
    with engine.connected() as client:
        return derive(client, name, packages, on_progress) if packages else images.find(client, name)


def derive(
    client: docker.DockerClient, name: str, packages: Sequence[str], on_progress: Callable[[str], None]
) -> ImageInfo:
    """The image `name` with `packages` (as `parse` takes them). What was asked for before is there, and not resolved again.

    Raises ImageNotFound where the image is not built, ImageError where the packages cannot be had or do not fit it.
    """
    image = images.find(client, name)
    asked = sorted({str(parse(package)) for package in packages})
    known = images.tag_of(name, "request", {"image": image.tag.encode(), "asked": "\n".join(asked).encode()})
    if ready := _existing(client, name, known):
        return ready
    with images.one_build(on_progress):
        return _existing(client, name, known) or _derive(client, image, asked, known, on_progress)


def _existing(client: docker.DockerClient, name: str, tag: str) -> ImageInfo | None:
    image = images.get(client, tag)
    return images.info(name, image, tag) if image else None


def _derive(
    client: docker.DockerClient,
    image: ImageInfo,
    asked: list[str],
    known: str,
    on_progress: Callable[[str], None],
) -> ImageInfo:
    base = images.images_folder() / "base"
    target = base_target(client, image.tag, base)
    on_progress(f"{image.name}: resolving {', '.join(asked)}")
    added = resolve(asked, image.packages, target)
    lock = "".join(map(as_line, added)).encode()
    dockerfile = (base / "packages.Dockerfile").read_bytes()
    tag = images.tag_of(
        image.name, "added", {"image": image.tag.encode(), "lock": lock, "Dockerfile": dockerfile}
    )
    built = images.get(client, tag if added else image.tag)
    if built is None:
        wheels = {f"wheels/{wheel.name}": wheel for wheel in fetch(added, target, on_progress)}
        on_progress(f"{image.name}: adding {', '.join(f'{r.name} {r.version}' for r in added)}")
        labels = {
            "codeact.layer": "added",
            "codeact.asked": " ".join(asked),
            "codeact.packages": json.dumps({**image.packages, **{r.name: r.version for r in added}}),
        }
        contents: dict[str, bytes | Path] = {"Dockerfile": dockerfile, "requirements.lock": lock, **wheels}
        built = images.run_build(client, tag, contents, {"IMAGE": image.tag}, labels)
        client.images.prune(filters={"dangling": True, "label": "codeact.stage=build"})
    repository, _, label = known.rpartition(":")
    built.tag(repository, label)
    keep = {image.tag, images.environment_tag(image.name), known, *built.tags}
    remove_older(client, image.name, keep=keep)
    return images.info(image.name, built, known)


def resolve(asked: Sequence[str], installed: Mapping[str, str], target: Target) -> list[Requirement]:
    """What has to be added to `installed` (name → version) for `asked`, by name. Raises ImageError."""
    wanted = _missing(map(parse, asked), installed, target)
    chosen: dict[str, Resolved] = {}
    for _ in range(ROUNDS if wanted else 0):
        chosen = {r.requirement.name: r for r in _ask_pip(wanted, installed, target)}
        have = {**installed, **{name: r.requirement.version for name, r in chosen.items()}}
        # pip judges markers by the Python that it runs on, which need not be the one inside
        unmet = [
            need
            for r in chosen.values()
            for extra in ("", *r.extras)
            for need in _missing(map(Asked, r.requires), have, target, extra)
        ]
        if set(unmet) <= set(wanted):  # what has extras is asked for once, and never there by its name alone
            break
        wanted = list(dict.fromkeys([*wanted, *unmet]))
    found = [
        r.requirement for name, r in sorted(chosen.items()) if installed.get(name) != r.requirement.version
    ]
    for requirement in found:
        if not requirement.hashes:
            raise ImageError(
                f"{requirement.name}: the index gives no SHA-256 hash of it: put its wheel into a folder of PIP_FIND_LINKS"
            )
    return found


def _missing(asked: Iterable[Asked], have: Mapping[str, str], target: Target, extra: str = "") -> list[str]:
    """What of `asked` applies inside and is not there. Raises ImageError where another version is."""
    missing = []
    for need in asked:
        if need.marker and not need.marker.evaluate({**target.markers, "extra": extra}):
            continue
        version = have.get(canonicalize_name(need.name))
        if version is None or (need.extras and not extra):
            missing.append(str(Asked(str(need).split(";")[0])))
        elif not need.specifier.contains(version, prereleases=True):
            raise ImageError(
                f"{need.name}{need.specifier} does not fit the image, which has {need.name} {version}:"
                " ask for another version, or use another --image"
            )
    return missing


def _ask_pip(wanted: Sequence[str], installed: Mapping[str, str], target: Target) -> list[Resolved]:
    with scratch_folder() as folder:
        report, locked, log = (Path(folder, name) for name in ("report.json", "constraints.txt", "log"))
        locked.write_text("".join(f"{name}=={version}\n" for name, version in installed.items()), "utf-8")
        options = ["--dry-run", "--ignore-installed", "--only-binary=:all:", "--constraint", str(locked)]
        options += ["--target", str(folder), "--report", str(report), "--log", str(log), *target.pip_options]
        options += ["--no-input", "--disable-pip-version-check", "--no-color"]
        done = subprocess.run(
            [*pip_command(), "install", *options, *wanted], capture_output=True, text=True, check=False
        )
        if done.returncode:
            said = f"{done.stdout}\n{done.stderr}"
            raise ImageError(_complaint(said, log.read_text("utf-8", "replace"), target))
        return [_resolved(item) for item in json.loads(report.read_text("utf-8"))["install"]]


def _resolved(item: Mapping[str, Any]) -> Resolved:
    metadata, archive = item["metadata"], item["download_info"].get("archive_info", {})
    digest = archive.get("hashes", {}).get("sha256")
    return Resolved(
        Requirement(
            canonicalize_name(metadata["name"]),
            metadata["version"],
            frozenset({f"sha256:{digest}"} if digest else ()),
        ),
        tuple(metadata.get("requires_dist", ())),
        tuple(item.get("requested_extras", ())),
    )


def _unfit(name: str, log: str) -> bool:
    """Whether pip's log tells of files of this package that it may not, or cannot, install."""
    why = r"(?:No sources permitted for \S+|none of the wheel's tags .*?)"
    found = re.findall(rf"Skipping link: {why}: \w+://[^\s#]*/([^/#?\s]+)", log)
    return any(canonicalize_name(file).startswith(f"{canonicalize_name(name)}-") for file in found)


def _complaint(said: str, log: str, target: Target) -> str:
    """What pip said, as one line that says what to do."""
    inside = f"Python {target.markers['python_version']} on {target.machine}"
    if found := re.search(r"satisfies the requirement (.+?) \(from versions: (.*)\)", said):
        need = found[1].partition(" (from ")[0]  # and whose dependency it is
        versions = [v.strip() for v in found[2].split(",") if v.strip() not in ("", "none")]
        if "Retrying (" in said:
            return f"{need}: the package index cannot be reached: check the network and `pip config list`"
        if versions:
            latest = ", ".join(versions[-SHOWN_VERSIONS:])
            return f"{need}: there is no such version with a wheel for {inside}: there are {latest}"
        if _unfit(Asked(need).name, log):
            return (
                f"{need}: has no wheel for {inside}, and nothing is built on the host, since that executes the package's"
                " code: build one (`pip wheel`), put its folder into PIP_FIND_LINKS, and run the same command again"
            )
        return f"{need}: your package index has no such package: check the name and `pip config list`"
    if "The conflict is caused by:" in said:
        block = said.split("The conflict is caused by:")[1].split("\n\n")[0]
        causes = [
            line.strip().replace("The user requested (constraint)", "the image has")
            for line in block.splitlines()
        ]
        return (
            f"the packages do not get along: {'; '.join(filter(None, causes))}:"
            " ask for other versions, or use another --image"
        )
    complaints = [line for line in said.splitlines() if line.startswith("ERROR")] or ["pip failed"]
    return f"the packages could not be resolved: {complaints[-1]}: check `pip config list`"
