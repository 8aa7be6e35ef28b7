"""The example notebooks, executed as they stand. `python -m tests.notebooks` writes their outputs anew."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbclient
import nbformat

from codeact.home import models_dir
from tests.command import ROOT

FOLDER = ROOT / "examples" / "notebooks"
BOOKS = sorted(FOLDER.glob("*.ipynb"))
SECONDS = 900


def executed(path: Path, folder: Path, model: str | None = None, allow_errors: bool = False) -> Any:
    """A notebook, executed in a copy of its folder, which lies below `folder`. `model` is another than the recorded one; weights
    are the user's own. Raises CellExecutionError."""
    here = folder / "notebooks"
    shutil.copytree(FOLDER, here, dirs_exist_ok=True)
    book = nbformat.read(path, as_version=4)
    for cell in book.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    environment = {**os.environ, "CODEACT_HOME": str(folder / "home")}
    if model is not None:
        environment["CODEACT_MODEL"] = model
        (folder / "home").mkdir()
        (folder / "home" / "models").symlink_to(models_dir(), target_is_directory=True)
    place = {"metadata": {"path": str(here)}}
    client = nbclient.NotebookClient(book, timeout=SECONDS, resources=place, allow_errors=allow_errors)
    client.execute(env=environment)
    nbformat.validate(book)
    return book


def without_times(book: Any) -> Any:
    """When a cell began and ended is of no interest to who reads it."""
    for cell in book.cells:
        cell.metadata.pop("execution", None)
    return book


if __name__ == "__main__":
    for path in BOOKS:
        with tempfile.TemporaryDirectory() as scratch:
            nbformat.write(without_times(executed(path, Path(scratch))), path)
        print(path, file=sys.stderr)
