"""The manifest: what each data file is and how to read it, as JSON. Runs in its own process inside the sandbox.

``python -m PACKAGE.manifest --json PATH...`` prints one JSON document and nothing else. Where the working folder is not
trusted, isolated: ``python -I -c "import sys; sys.path.insert(0, LIBRARY); from PACKAGE.manifest import main; main()"``.
"""

import argparse
import contextlib
import io
import json
import os
import signal
import sys
import time
import warnings
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path, PurePath
from types import FrameType
from typing import Any

if __name__ == "__main__" and not __package__:
    raise SystemExit("run it as a module of its package: python -m PACKAGE.manifest")

from . import sources, texts
from .packages import Missing
from .reading import Line, execute, reason
from .sources import Source

VERSION = 1
_MANY = 24
_EACH_KIND = 3
_MEMBERS = 6
_LAYERS = 3
_BAD_PACKING = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError)


class _TooLong(BaseException):
    """The time for one file is up. No Exception, so that no reader takes it for a broken file."""


def describe(paths: list[str], *, seconds: float = 20, rows: int = 3) -> dict[str, Any]:
    """Describes files and folders: ``{"version", "files": [...], "folders": [...], "left_out"}``, all JSON values.

    ``seconds`` bounds the whole; a file that takes too long keeps what was found so far and a ``problem``.
    Never raises for what the files hold: missing, broken and unreadable files have a ``problem`` line.
    """
    end = time.monotonic() + seconds
    files: list[str] = []
    folders: list[dict[str, Any]] = []
    for path in paths:
        if os.path.isdir(path):  # noqa: PTH112 - names may be no valid text
            found = _walk(path, end)
            if len(found) > _MANY:
                summary, found = _summary(path, found)
                folders.append(summary)
            files += found
        else:
            files.append(path)
    entries: list[dict[str, Any]] = []
    for at, path in enumerate(files):
        left = end - time.monotonic()
        if left <= 0:
            break
        share = max(min(left, 1.0), left / max(1, min(len(files) - at, 4)))
        entries.append(_within(share, path, rows))
    left_out = [_text(path) for path in files[len(entries) :]]
    result = {
        "version": VERSION,
        "files": entries,
        "folders": folders,
        "left_out": left_out[:200],
        "left_out_count": len(left_out),
    }
    return _clean(result)  # type: ignore[no-any-return]


def _walk(folder: str, end: float) -> list[str]:
    found = []
    for parent, folders, names in os.walk(folder):
        folders.sort()
        found += [os.path.join(parent, name) for name in sorted(names)]  # noqa: PTH118 - names may be no valid text
        if time.monotonic() > end or len(found) > 200_000:
            break
    return found


def _summary(folder: str, files: list[str]) -> tuple[dict[str, Any], list[str]]:
    """Counts for a folder of many files, and the first few of each kind to be described."""
    kinds: Counter[str] = Counter()
    chosen: list[str] = []
    size = 0
    for path in files:
        suffix = PurePath(path).suffix.lower() or "(none)"
        kinds[suffix] += 1
        if kinds[suffix] <= _EACH_KIND and len(chosen) < _MANY:
            chosen.append(path)
        with contextlib.suppress(OSError):
            size += os.lstat(path).st_size
    summary = {"path": _text(folder), "files": len(files), "size": size, "extensions": dict(kinds.most_common(12)),
               "first_names": [_text(os.path.relpath(path, folder)) for path in files[:20]], "described": len(chosen)}  # fmt: skip
    return summary, chosen


def _within(seconds: float, path: str, rows: int) -> dict[str, Any]:
    """Describes one file under an alarm, where this thread may set one."""
    entry: dict[str, Any] = {
        "path": path,
        "name": PurePath(path).name,
        "size": None,
        "kind": "unknown",
        "notes": [],
    }
    try:
        with _alarm(seconds):
            _file(entry, path, rows)
    except _TooLong:
        entry["problem"] = f"not fully described within {seconds:.0f} s"
    except MemoryError:
        entry["problem"] = "not enough memory to describe it"
    except Missing as missing:
        entry["problem"] = f"cannot be described: {missing}"
    except _BAD_PACKING as error:
        entry["problem"] = (
            f"broken or cut-off {'/'.join(entry.get('container', [])) or 'file'}: {reason(error)}"
        )
    except OSError as error:
        entry["problem"] = _os_problem(error)
    except Exception as error:  # noqa: BLE001 - one strange file must not cost the manifest
        entry["problem"] = f"cannot be described: {reason(error)}"
    return entry


def _os_problem(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return "no such file"
    if isinstance(error, PermissionError):
        return "no permission to read it"
    return f"cannot be read: {reason(error)}"


@contextlib.contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    def ring(number: int, frame: FrameType | None) -> None:
        raise _TooLong

    try:
        before = signal.signal(signal.SIGALRM, ring)
    except ValueError:  # not the main thread: sizes alone bound the work
        yield
        return
    signal.setitimer(signal.ITIMER_REAL, max(0.05, seconds))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _file(entry: dict[str, Any], path: str, rows: int) -> None:
    status = os.stat(path)  # noqa: PTH116 - names may be no valid text
    if not Path(path).is_file():
        entry["problem"] = "not a regular file"
        return
    entry["size"] = status.st_size
    if whole := sources.database_of(path):
        entry |= {"kind": "sqlite", "notes": [f"belongs to the database {whole!r}: it is no file of its own"]}
        return
    if not status.st_size:
        entry |= {
            "kind": sources.BY_SUFFIX.get(PurePath(path).suffix.lower(), "unknown"),
            "problem": "the file is empty",
        }
        return
    _describe(entry, Source(path, entry["name"], (), status.st_size), rows)


def _describe(entry: dict[str, Any], source: Source, rows: int) -> None:
    """Unwraps what is packed, then hands the content to the describer of its kind."""
    head = source.read(64)
    packed = sources.wrapper(head)
    if packed is not None:
        if len(source.layers) >= _LAYERS:
            entry["problem"] = f"packed more than {_LAYERS} times: not opened"
            return
        entry.setdefault("container", []).append(packed)
        _describe(entry, source.inside(packed, sources.unwrapped_name(source.name), None), rows)
        return
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        kind, members = sources.zip_kind(source)
        if kind == "zip":
            _archive(entry, source, members, rows)
            return
    else:
        kind = sources.kind_of(head, source.name)
    _misnamed(entry, source, kind)
    entry["kind"] = kind
    if kind not in sources.BINARY:
        texts.describe(entry, source, kind, rows)
        return
    from . import documents, stores, workbooks  # most data is text, and needs none of them

    if kind in ("xlsx", "xls", "ods"):
        if head.startswith((b"PK", *sources.WORKBOOKS)):
            workbooks.describe(entry, source, rows)
        else:
            texts.describe(entry, source, "unknown", rows)
            entry["notes"].append(f"named like a workbook ({kind}), but it is none")
    elif kind in ("parquet", "feather") and head[:4] in (b"PAR1", b"ARRO", b"FEA1"):
        stores.describe_arrow(entry, source, rows)
    elif kind == "sqlite" and head.startswith(b"SQLite"):
        stores.describe_sqlite(entry, source, rows)
    elif kind == "duckdb" and head[8:12] == b"DUCK":
        stores.describe_duckdb(entry, source, rows)
    elif kind == "pdf" and head.startswith(b"%PDF"):
        documents.describe_pdf(entry, source)
    elif kind == "image":
        documents.describe_image(entry, source)
    else:
        texts.describe(entry, source, "unknown", rows)
        entry["problem"] = f"named {kind}, but its first bytes are not those of a {kind} file"


def _misnamed(entry: dict[str, Any], source: Source, kind: str) -> None:
    named = sources.BY_SUFFIX.get(PurePath(source.name).suffix.lower())
    if kind in ("xlsx", "xls", "ods", "parquet", "feather", "pdf", "image") and named != kind:
        what = f" inside {' in '.join(reversed(entry['container']))}" if entry.get("container") else ""
        entry["notes"].append(f"it is {kind}{what}, whatever the name says")


def _archive(entry: dict[str, Any], source: Source, members: list[zipfile.ZipInfo], rows: int) -> None:
    """A zip: its members listed, the first few described as files of their own."""
    entry["kind"] = "zip"
    entry["members_count"] = len(members)
    entry["members"] = [{"name": member.filename, "size": member.file_size} for member in members[:50]]
    if any(member.flag_bits & 1 for member in members):
        entry["problem"] = "members are protected by a password"
        return
    useful = [
        member
        for member in members
        if not PurePath(member.filename).name.startswith((".", "._")) and "__MACOSX" not in member.filename
    ]
    expression, modules = source.expression()
    line = Line(f"names = zipfile.ZipFile({expression}).namelist()", (*modules, "zipfile"))
    entry |= {"read": line.text(), "read_verified": len(execute(line, "names")) >= len(members)}
    if len(source.layers) >= _LAYERS:
        entry["notes"].append("packed several times: members are not described")
        return
    entry["described"] = []
    for member in useful[:_MEMBERS]:
        inner: dict[str, Any] = {
            "path": f"{source.path} : {member.filename}",
            "name": member.filename,
            "size": member.file_size,
            "kind": "unknown",
            "notes": [],
        }
        if member.file_size > 200 * max(1, member.compress_size) and member.file_size > 64 * sources.MIB:
            inner["problem"] = "unpacks to over 200 times its size: not opened"
        elif member.file_size == 0:
            inner["problem"] = "the file is empty"
        else:
            try:
                _describe(
                    inner,
                    source.inside(f"zip:{member.filename}", PurePath(member.filename).name, member.file_size),
                    rows,
                )
            except (*_BAD_PACKING, OSError, Missing, RuntimeError) as error:
                inner["problem"] = f"cannot be described: {reason(error)}"
        entry["described"].append(inner)
    if len(useful) == 1 and entry["described"][0].get("read"):
        entry |= {
            "read": entry["described"][0]["read"],
            "read_verified": entry["described"][0].get("read_verified", False),
        }


def _text(value: str) -> str:
    """A string that JSON and UTF-8 can carry: undecodable bytes of names become replacement characters."""
    return (
        value.encode("utf-8", "surrogateescape").decode("utf-8", "replace") if not value.isascii() else value
    )


def _clean(value: Any) -> Any:
    match value:
        case str():
            return value.encode("utf-8", "replace").decode("utf-8")
        case dict():
            return {_clean(str(key)): _clean(item) for key, item in value.items()}
        case list() | tuple() | set():
            return [_clean(item) for item in value]
        case bool() | int() | None:
            return value
        case float():
            return value if value == value and abs(value) != float("inf") else None
        case _:
            return str(value)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="manifest", description="Describe data files as one JSON document.")
    parser.add_argument("--json", action="store_true", help="the only output there is; named for clarity")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--rows", type=int, default=3)
    parser.add_argument("paths", nargs="*")
    chosen = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        found = describe(chosen.paths, seconds=chosen.seconds, rows=chosen.rows)
    sys.stdout.buffer.write(json.dumps(found, ensure_ascii=True).encode("ascii") + b"\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
