"""What a run is given as `data`: files by their path, and values, which become variables in its kernel.

A value is written once, beside the journal, as `inside.values` encodes it; the kernel reads it from there. Nothing is pickled.
"""

from __future__ import annotations

import builtins
import keyword
import shutil
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from codeact.data import Passing, check
from codeact.errors import UsageError
from codeact.inside import packed, values
from codeact.paths import is_file
from sandbox.held import replacing

FOLDER = "inputs"
"""Where values, and files that do not outlive the run, lie in the run's folder."""
TAKEN = frozenset(("final_answer", "more_time", "tools", "pd", "np"))


@dataclass(frozen=True, slots=True)
class Inputs:
    """`files` by the name that they get in the sandbox, `values` by that of their variable."""

    files: Mapping[str, Path]
    values: Mapping[str, Any]

    @classmethod
    def of(cls, data: Mapping[str, Any] | None) -> Inputs:
        """Tells files from values. Raises UsageError for what is no mapping, for a file that `data.check` refuses, and for what is
        no name of a variable."""
        if data is not None and not isinstance(data, Mapping):
            raise UsageError(
                f'data: is of type {type(data).__name__}; give values and Paths by name, such as data={{"sales": table}}'
            )
        files: dict[str, Path] = {}
        found: dict[str, Any] = {}
        for name, value in (data or {}).items():
            if isinstance(value, Path):
                check(value)
                files[unicodedata.normalize("NFC", name)] = value
            else:
                _check_name(name)
                _check_text(name, value)
                found[unicodedata.normalize("NFKC", name)] = value  # as Python reads it in code
        return cls(files, found)


def _check_name(name: str) -> None:
    if not name.isidentifier() or keyword.iskeyword(name) or name.startswith("_"):
        mend = "give a value a name such as sales; only a file, as a Path, may have any other"
        raise UsageError(f"data {name[:80]!r}: is no name for a variable; {mend}")
    if name in TAKEN or hasattr(builtins, name):
        raise UsageError(f"data {name!r}: is what something else is called in the sandbox; give it another")


def _check_text(name: str, value: Any) -> None:
    """A text is a value. That of a file's path is taken for a slip."""
    if not isinstance(value, str) or len(value) > 1000 or "\n" in value:
        return
    if PurePath(value).suffix and is_file(value):
        raise UsageError(
            f"data {name!r}: {value!r} is a text, and a file is there; write Path({value!r}) for the file"
        )


def keep(inputs: Inputs, folder: Path) -> tuple[dict[str, Path], dict[str, Path]]:
    """Files and values as paths, by name: what would be gone after the run, and each value, is written below `folder`.

    Raises UsageError that names what cannot be handed over, or not be written.
    """
    moved: dict[Path, Path] = {}
    files = {name: _kept(name, path, folder, moved) for name, path in inputs.files.items()}
    return files, {name: store(name, value, folder) for name, value in inputs.values.items()}


def _kept(name: str, path: Path, folder: Path, moved: dict[Path, Path]) -> Path:
    if not isinstance(path, Passing):
        return path
    if path in moved:  # it has two names
        return moved[path]
    target = folder / FOLDER / name
    try:
        target.parent.mkdir(exist_ok=True)
        shutil.move(path, target)
    except OSError as error:
        raise UsageError(f"{target}: cannot be written: {error.strerror}; free some space") from error
    moved[path] = target
    return target


def store(name: str, value: Any, folder: Path) -> Path:
    """Writes a value below the run's folder; the file, whose name begins with `name`. Raises UsageError."""
    try:
        made, buffers = values.encode(value, f"data {name!r}", path=_no_path)
    except values.CannotCross as error:
        raise UsageError(str(error)) from None
    target = _free(folder / FOLDER, name)
    try:
        target.parent.mkdir(exist_ok=True)
        with replacing(target, 0o600) as file:
            packed.write(file, made, buffers)
        target.chmod(0o644)  # the sandbox reads it as another user; the run's folder is closed to all others
    except OSError as error:
        raise UsageError(
            f"{target}: cannot be written: {error.strerror}; free some space, or set CODEACT_HOME"
        ) from error
    return target


def _free(folder: Path, name: str) -> Path:
    number, target = 1, folder / f"{name}.value"
    while target.exists():
        number += 1
        target = folder / f"{name}-{number}.value"
    return target


def _no_path(path: PurePath) -> str:
    raise ValueError("is a path, which means nothing to the sandbox")


def in_sandbox(given: Mapping[str, Path]) -> dict[str, Path]:
    """The files of values by the name that they have in `/workspace/data`."""
    return {f".{path.name}": path for path in given.values()}


def line(name: str, path: Path) -> str:
    """The code that makes a given value a variable."""
    return f"{name} = _given({path.stem!r})"
