"""Files that a run hands over: from `/workspace/out` to the host, under names that are safe there."""

from __future__ import annotations

import re
import unicodedata
from pathlib import Path

from codeact.types import Artifact
from sandbox import FileError, Sandbox
from sandbox.held import sweep_parts

SOURCE = "out"
FOLDER = "artifacts"
"""Where they lie in a run's own folder."""
MAX_FILES = 1000
MAX_NAME = 150


def collect(box: Sandbox, target: Path) -> tuple[list[Artifact], list[str]]:
    """Copies every file under `/workspace/out`; the artifacts, and a line for each file that was not carried."""
    artifacts: list[Artifact] = []
    problems: list[str] = []
    try:
        found = [file for file in box.list(SOURCE) if file.kind != "folder"]
    except FileError:
        return [], []  # the folder was taken away: there is nothing to hand over
    if len(found) > MAX_FILES:
        problems.append(f"out: holds {len(found)} files; the first {MAX_FILES} were taken")
    used: set[str] = set()
    for file in found[:MAX_FILES]:
        name = _free(safe_name(file.path), used)
        path = target / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            size = box.get(f"{SOURCE}/{file.path}", path)
        except FileError as error:
            problems.append(str(error))
        except OSError as error:
            problems.append(f"{path}: cannot be written: {error.strerror}")
        else:
            artifacts.append(Artifact(name, path, size))
    sweep_parts(
        *{artifact.path.parent for artifact in artifacts}
    )  # of a run that was killed here, and carried on
    return artifacts, problems


def safe_name(path: str) -> str:
    """A path from inside as one that stays below a folder of the host and that terminals and shells can bear. Two that macOS would
    take for one, since they differ in how letters are composed, are one here."""
    parts = []
    for part in unicodedata.normalize("NFC", path).split("/"):
        kept = "".join("_" if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") else c for c in part)
        kept = re.sub(r'[\\:*?"<>|]', "_", kept).strip()
        if kept and kept.strip("."):
            ending = Path(kept).suffix[:20]
            parts.append(kept[: MAX_NAME - len(ending)] + ending if len(kept) > MAX_NAME else kept)
    return "/".join(parts) or "file"


def _free(name: str, used: set[str]) -> str:
    stem, dot, ending = name.rpartition(".")
    candidate, number = name, 2
    while candidate.casefold() in used:
        candidate = f"{stem}-{number}.{ending}" if dot else f"{name}-{number}"
        number += 1
    used.add(candidate.casefold())
    return candidate
