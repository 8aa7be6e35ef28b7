"""A sandbox in which the manifest's own code describes files, as it does for a run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codeact import workspace
from sandbox import Sandbox

MESSY = Path(__file__).parents[1] / "data" / "messy"
Manifest = dict[str, Any]


@dataclass(frozen=True)
class Guest:
    """``inputs`` holds the manifest of each input by its path, as a run gets it."""

    box: Sandbox
    inputs: dict[str, Manifest]

    def evaluate(self, code: str) -> Any:
        """Runs code that assigns ``answer``, in the working folder; the answer as JSON carries it."""
        cell = self.box.run(f"{code}\nimport json; print('\\n' + json.dumps(answer, default=str))")
        assert cell.status == "ok", cell.error
        return json.loads(cell.stdout.strip().split("\n")[-1])

    def describe(self, *paths: str) -> Manifest:
        """Describes paths of the working folder, where tests put files of their own."""
        code = f"import codeact_inside.manifest as m; answer = m.describe({list(paths)!r})"
        found: Manifest = self.evaluate(code)
        return found


@contextmanager
def guest_with(inputs: dict[str, Path]) -> Iterator[Guest]:
    with Sandbox(image="data", inputs=inputs, timeout=60) as box:
        manifest = workspace.prepare(box, list(inputs))
        files = manifest["files"] if manifest else []
        yield Guest(box, {entry["path"]: manifest | {"files": [entry]} for entry in files})


def one(manifest: Manifest) -> dict[str, Any]:
    """The entry of the only file."""
    (entry,) = manifest["files"]
    found: dict[str, Any] = entry
    return found


def reading_line(text: str) -> str:
    """The line after ``read:`` in the rendered manifest of one file."""
    (line,) = [line for line in text.split("\n") if line.startswith("  read: ")]
    return line.removeprefix("  read: ")
