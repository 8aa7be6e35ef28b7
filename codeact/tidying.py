"""Disk space of runs: how much each holds, and which go when there is too much of it."""

from __future__ import annotations

import contextlib
import json
import shutil
import threading
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from codeact.blobs import sizes
from codeact.journal import FILE, held
from sandbox.held import sweep_parts


@dataclass(frozen=True, slots=True)
class Held:
    """A run's folder, bytes that it holds on the disk, and when it was last written to, in seconds since the epoch."""

    folder: Path
    size: int
    last: float


def sizes_of(runs: Path) -> Iterator[Held]:
    """What the runs in a folder hold."""
    for journal in runs.glob(f"*/{FILE}"):
        with contextlib.suppress(OSError):
            yield Held(journal.parent, sum(sizes(journal.parent)), journal.stat().st_mtime)


def remove(folder: Path) -> bool:
    """Removes a run with all that it kept; False where it is live, or gone already. Raises OSError."""
    doomed = folder.with_name(f".{folder.name}-{uuid.uuid4().hex[:6]}")
    try:
        with held(folder) as ours:
            if not ours:
                return False
            folder.rename(doomed)  # at once: a run is there or not, and not in half
    except FileNotFoundError:
        return False
    shutil.rmtree(doomed)
    return True


def tidy(runs: Path, limit: int) -> list[Path]:
    """Removes runs, those first that were not written to for longest, until what is left holds no more than `limit` bytes; those removed."""
    removed = []
    found = sorted(sizes_of(runs), key=lambda run: run.last)
    total = sum(run.size for run in found)
    for run in found[:-1]:  # the latest stays, however large it is
        if total <= limit:
            break
        with contextlib.suppress(OSError):
            if remove(run.folder):
                total -= run.size
                removed.append(run.folder)
    return removed


def sweep(runs: Path) -> int:
    """Removes what killed processes left half made and half removed, in a folder of runs and where those handed files
    over; how many files and folders."""
    doomed = [path for path in runs.glob(f".*-{'[0-9a-f]' * 6}") if path.is_dir()]
    for path in doomed:
        shutil.rmtree(path, ignore_errors=True)
    places = {place for folder in _handed_over_to(runs) for place in (folder, *folder.glob("*"))}
    return len(doomed) + sweep_parts(runs, *runs.glob("*"), *runs.glob("*/*"), *places)


def _handed_over_to(runs: Path) -> Iterator[Path]:
    """The folders outside that runs named for their artifacts."""
    for journal in runs.glob(f"*/{FILE}"):
        with contextlib.suppress(OSError, ValueError, LookupError, TypeError), journal.open("rb") as file:
            if out := json.loads(file.readline())["settings"]["out"]:
                yield Path(out)


def in_background(runs: Path, limit: int | None) -> None:
    """As `tidy`, on a thread of its own; with None nothing is removed."""
    if limit is not None:
        threading.Thread(target=_quietly, args=(runs, limit), name="tidy", daemon=True).start()


def _quietly(runs: Path, limit: int) -> None:
    with contextlib.suppress(OSError):
        tidy(runs, limit)
