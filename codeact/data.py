"""What `--data` names, found and checked on the host; the files themselves are never parsed here."""

from __future__ import annotations

import glob
import os
import re
import shutil
import stat
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from codeact.errors import UsageError

STDIN = "stdin"
"""The name under which standard input lies in `/workspace/data`."""
_LONGEST_NAME = 255
_GLOB = re.compile(r"[*?\[]")
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
_IS_ADDRESS = "is an address, and data are files; download it, and give the file"
_SQLITE = b"SQLite format 3\0"
_KINDS = {
    stat.S_IFSOCK: "a socket",
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class Passing(type(Path())):  # type: ignore[misc]
    """The path of a file that will be gone after the run: the run keeps it."""


def collect(specs: Iterable[str], stdin: BinaryIO, scratch: Path) -> dict[str, Path]:
    """Files and folders by the name under which they lie in `/workspace/data`.

    A spec is a path, a glob, `NAME=` and either of them, or `-` for standard input, which is copied into `scratch`.
    Raises UsageError that names what is missing, unreadable, empty, neither file nor folder, or named twice.
    """
    found: dict[str, Path] = {}
    for name, path in (pair for spec in specs for pair in _resolve(spec, stdin, scratch)):
        if name in found and not _same(found[name], path):
            raise UsageError(
                f"--data: {_shown(found[name])} and {_shown(path)} have the same name; give one another: --data NAME={_shown(path)}"
            )
        found[name] = path
    return found


def reads_stdin(spec: str) -> bool:
    return spec == "-" or spec.endswith("=-")


def safe_name(name: str) -> str:
    """A file name for the sandbox: no slash, nothing that cannot be seen, at most 255 bytes (the suffix is kept), and in composed
    form, as code will write it: macOS hands out decomposed names."""
    plain = "".join(
        "_" if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") or c == "/" else c
        for c in unicodedata.normalize("NFC", name)
    )
    if plain.strip(". ") == "":
        plain = "data"
    stem, dot, suffix = plain.rpartition(".")
    if not dot or len(suffix) > 20:
        stem, suffix = plain, ""
    room = _LONGEST_NAME - len(f"{dot}{suffix}".encode()) if suffix else _LONGEST_NAME
    return stem.encode()[:room].decode(errors="ignore") + (f".{suffix}" if suffix else "")


def _resolve(spec: str, stdin: BinaryIO, scratch: Path) -> Iterator[tuple[str, Path]]:
    name, equals, rest = spec.partition("=")
    named = bool(equals and name and rest) and "/" not in name and not os.path.lexists(spec)
    paths = list(_paths(rest if named else spec, stdin, scratch))
    if named and len(paths) > 1:
        raise UsageError(
            f"--data {spec}: {len(paths)} files match, and one name was given; name a single file"
        )
    for path in paths:
        check(path)
        yield safe_name(name if named else path.name or path.resolve().name), path


def _paths(spec: str, stdin: BinaryIO, scratch: Path) -> Iterator[Path]:
    if spec == "-":
        yield _saved(stdin, scratch)
        return
    path = Path(os.path.expanduser(spec))  # noqa: PTH111 - a user that is not known leaves it as it is
    if os.path.lexists(path) or not (_GLOB.search(spec) or _ADDRESS.match(spec)):
        yield path.resolve() if path.name in ("", "..") else path
        return
    if _ADDRESS.match(spec):
        plain = re.sub("//[^/]*@", "//", spec.partition("?")[0])  # without what may be secret in it
        raise UsageError(f"--data {plain}: {_IS_ADDRESS}")
    matches = sorted(glob.glob(str(path), recursive=True))  # noqa: PTH207 - a pattern may be absolute
    if not matches:
        raise UsageError(f"--data {spec}: no file matches; check the pattern and the folder ({Path.cwd()})")
    yield from map(Path, matches)


def _saved(stdin: BinaryIO, scratch: Path) -> Path:
    """A copy of standard input, which the run keeps."""
    path = Passing(scratch / STDIN)
    if path.exists():
        return path
    try:
        with path.open("wb") as file:
            shutil.copyfileobj(stdin, file)
    except OSError as error:
        raise UsageError(
            f"--data -: standard input could not be saved in {scratch}: {error.strerror}"
        ) from None
    if not path.stat().st_size:
        raise UsageError("--data -: standard input is empty; pipe a file into the command")
    return path


def check(path: Path) -> None:
    """Raises UsageError where `path` is not a file or folder that can be read and holds something."""
    shown = _shown(path)
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            with os.scandir(path) as entries:
                empty = next(entries, None) is None
        elif stat.S_ISREG(mode):
            with path.open("rb") as file:
                empty = not file.read(1)
        else:
            what = _KINDS.get(stat.S_IFMT(mode), "a special file")
            raise UsageError(
                f"{shown}: is {what}, not a file or folder; save it as a file, or pipe it in with --data -"
            )
    except FileNotFoundError:
        if path.is_symlink():
            raise UsageError(
                f"{shown}: is a link to {_shown(path.readlink())}, which is not there; mend the link"
            ) from None
        why = f"no such file or folder; check the path (from {Path.cwd()})"
        raise UsageError(f"{shown}: {_IS_ADDRESS if _ADDRESS.match(shown) else why}") from None
    except (OSError, ValueError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise UsageError(f"{shown}: cannot be read: {reason}; check its name and permissions") from None
    if empty:
        raise UsageError(
            f"{shown}: is empty; give a {'folder' if stat.S_ISDIR(mode) else 'file'} with data in it"
        )


def left_behind(files: Mapping[str, Path]) -> list[str]:
    """A line for each SQLite database whose latest changes lie in a file beside it that is not among `files`."""
    return [
        f"{name}: its latest changes lie in {_shown(beside)}, which is not given; give it too, as {name}{end}"
        for name, path in files.items()
        for end in ("-wal", "-journal")
        if f"{name}{end}" not in files
        and _holds(beside := path.with_name(path.name + end))
        and _is_sqlite(path)
    ]


def _holds(path: Path) -> bool:
    try:
        return path.stat().st_size > 0
    except (OSError, ValueError):
        return False


def _is_sqlite(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(_SQLITE)) == _SQLITE
    except OSError:
        return False


def _same(one: Path, other: Path) -> bool:
    return one.resolve() == other.resolve()


def _shown(path: Path) -> str:
    """A path as it is when it can be printed, else as a Python string."""
    text = str(path)
    return text if text.isprintable() else ascii(text)
