"""Locked requirements, and their wheels in the user's cache: fetched on the host, so that image builds need no network."""

from __future__ import annotations

import ensurepip
import hashlib
import importlib.util
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.markers import Marker
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import Version
from platformdirs import user_cache_path

from sandbox.errors import ImageError
from sandbox.held import part_folder

BATCH = 10
_GLIBC_MINORS = range(36, 4, -1)  # the oldest base, Debian bookworm, has glibc 2.36; manylinux begins at 2.5
_LEGACY_MANYLINUX = ("manylinux2014", "manylinux2010", "manylinux1")


@dataclass(frozen=True, slots=True)
class Requirement:
    """One pinned package. `hashes` are `sha256:<hex>`, of every file that may be installed for it."""

    name: str
    version: str
    hashes: frozenset[str]


@dataclass(frozen=True, slots=True)
class Target:
    """The Python inside an image: its marker environment, as PEP 508 names it."""

    markers: Mapping[str, str]

    @property
    def python(self) -> str:
        return self.markers["python_full_version"]

    @property
    def machine(self) -> str:
        return self.markers["platform_machine"]

    @property
    def folder(self) -> str:
        return f"cp{self.markers['python_version'].replace('.', '')}-{self.machine}"

    @property
    def pip_options(self) -> list[str]:
        names = [f"manylinux_2_{minor}" for minor in _GLIBC_MINORS] + list(_LEGACY_MANYLINUX)
        platforms = [option for name in names for option in ("--platform", f"{name}_{self.machine}")]
        return ["--python-version", self.markers["python_version"], "--implementation", "cp", *platforms]


def wheel_cache() -> Path:
    return user_cache_path("codeact") / "wheels"


def read_lock(lock: Path, target: Target) -> list[Requirement]:
    """The requirements of a lock file that apply to `target`. Raises ImageError for a line that is not pinned and hashed."""
    return [
        requirement
        for line in _logical_lines(lock)
        for requirement in [_parse(line, lock, target)]
        if requirement is not None
    ]


def _logical_lines(lock: Path) -> Iterator[str]:
    for line in lock.read_text("utf-8").replace("\\\n", " ").splitlines():
        if line.strip() and not line.lstrip().startswith("#"):
            yield line


def _parse(line: str, lock: Path, target: Target) -> Requirement | None:
    spec, *hashes = (part.strip() for part in line.split("--hash="))
    pin, _, marker = spec.partition(";")
    name, equals, version = pin.strip().partition("==")
    if not equals or not hashes:
        raise ImageError(
            f"{lock}: {spec!r} is not pinned and hashed: make the lock file again (images/README.md says how)"
        )
    if marker and not Marker(marker).evaluate(dict(target.markers)):
        return None
    return Requirement(canonicalize_name(name), version, frozenset(hashes))


def fetch(
    requirements: Sequence[Requirement], target: Target, on_progress: Callable[[str], None]
) -> list[Path]:
    """The wheels of `requirements`, in their order. Downloads what the cache does not hold; a broken file is fetched again.

    Raises ImageError where pip cannot download; what has come so far stays in the cache.
    """
    folder = wheel_cache() / target.folder
    folder.mkdir(parents=True, exist_ok=True)
    missing = [r for r in requirements if _find(folder, r) is None]
    for start in range(0, len(missing), BATCH):
        on_progress(f"downloading wheels {start + 1}-{min(start + BATCH, len(missing))} of {len(missing)}")
        _download(missing[start : start + BATCH], target, folder)
    found = [_find(folder, r) for r in requirements]
    for requirement, wheel in zip(requirements, found, strict=True):
        if wheel is None:
            raise ImageError(
                f"pip brought no wheel of {requirement.name} {requirement.version} for {target.folder}: run it again"
            )
    return [wheel for wheel in found if wheel is not None]


def _find(folder: Path, requirement: Requirement) -> Path | None:
    for wheel in folder.glob("*.whl"):
        try:
            name, version, _, _ = parse_wheel_filename(wheel.name)
        except InvalidWheelFilename:
            continue
        same = (name, version) == (requirement.name, Version(requirement.version))
        if same and _sha256(wheel) in requirement.hashes:
            return wheel
    return None


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return "sha256:" + hashlib.file_digest(file, "sha256").hexdigest()


def _download(requirements: Sequence[Requirement], target: Target, folder: Path) -> None:
    with part_folder(folder) as part:
        listing = Path(part, "requirements.txt")
        listing.write_text("".join(as_line(r) for r in requirements), "utf-8")
        pip = [
            *pip_command(),
            "download",
            "--quiet",
            "--no-input",
            "--progress-bar=off",
            "--disable-pip-version-check",
        ]
        options = ["--only-binary=:all:", "--no-deps", "--require-hashes", *target.pip_options]
        done = subprocess.run(
            [*pip, *options, "--dest", str(part), "--requirement", str(listing)],
            capture_output=True,
            text=True,
            check=False,
        )
        for wheel in Path(part).glob("*.whl"):
            wheel.replace(folder / wheel.name)
    if done.returncode:
        complaints = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or ["pip failed"]
        raise ImageError(
            f"the image's wheels could not be downloaded: {complaints[-1]}: "
            "check the network and pip's index settings (`pip config list`), then run the same command again"
        )


def as_line(requirement: Requirement) -> str:
    hashes = " ".join(f"--hash={value}" for value in sorted(requirement.hashes))
    return f"{requirement.name}=={requirement.version} {hashes}\n"


_PIP = """
import sys
sys.path[:0] = filter(None, [sys.argv.pop(1)])
from pip._internal.cli.main import main
from pip._internal.distributions.sdist import SourceDistribution
from pip._internal.exceptions import InstallationError
def refuse(source, *_, **__):
    raise InstallationError(f"{source.req} is no wheel, and nothing is built on the host")
SourceDistribution.prepare_distribution_metadata = refuse
sys.exit(main())
"""
"""`--only-binary` holds for what an index has; the metadata of a wheel may name sources by their address, and pip would run their
build. Where pip has it otherwise one day, this ends with an error."""


def pip_command() -> list[str]:
    """pip of this Python, or the wheel of it that comes with Python: environments made by uv have none. It builds nothing."""
    if importlib.util.find_spec("pip"):
        return [sys.executable, "-P", "-c", _PIP, ""]
    bundled = sorted(Path(ensurepip.__file__).parent.glob("_bundled/pip-*.whl"))
    if not bundled:
        raise ImageError("this Python has no pip, which downloads an image's wheels: install pip into it")
    return [sys.executable, "-P", "-c", _PIP, str(bundled[-1])]
