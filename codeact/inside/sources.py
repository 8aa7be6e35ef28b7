"""Files as byte streams: what wraps them (gzip, zip, zst), what kind they are, and how Python opens them."""

import bz2
import gzip
import lzma
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import IO, Any

from .packages import need

MIB = 1 << 20
CHUNK = MIB
_WRAPPERS = {"gzip": b"\x1f\x8b", "zst": b"\x28\xb5\x2f\xfd", "bz2": b"BZh", "xz": b"\xfd7zXZ\x00"}
_MAGIC = (
    ("parquet", b"PAR1"),
    ("feather", b"ARROW1"),
    ("feather", b"FEA1"),
    ("sqlite", b"SQLite format 3\x00"),
    ("xls", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"),
    ("xls", b"\x09\x00\x04\x00"),
    ("xls", b"\x09\x02\x06\x00"),
    ("xls", b"\x09\x04\x06\x00"),
    ("pdf", b"%PDF-"),
    ("image", b"\x89PNG\r\n\x1a\n"),
    ("image", b"\xff\xd8\xff"),
    ("image", b"GIF8"),
    ("image", b"BM"),
    ("image", b"II*\x00"),
    ("image", b"MM\x00*"),
)
WORKBOOKS = tuple(magic for kind, magic in _MAGIC if kind == "xls")
BY_SUFFIX = {
    ".csv": "csv", ".tsv": "tsv", ".tab": "tsv", ".psv": "csv", ".json": "json", ".geojson": "json", ".jsonl": "jsonl",
    ".ndjson": "jsonl", ".xml": "xml", ".html": "html", ".htm": "html", ".txt": "txt", ".log": "txt", ".md": "txt",
    ".dat": "txt", ".xlsx": "xlsx", ".xlsm": "xlsx", ".xls": "xls", ".ods": "ods", ".parquet": "parquet", ".feather": "feather",
    ".arrow": "feather", ".sqlite": "sqlite", ".db": "sqlite", ".sqlite3": "sqlite", ".duckdb": "duckdb", ".pdf": "pdf",
    ".png": "image", ".jpg": "image", ".jpeg": "image", ".gif": "image", ".bmp": "image", ".tif": "image", ".tiff": "image",
    ".webp": "image",
}  # fmt: skip
BINARY = frozenset(["xlsx", "xls", "ods", "parquet", "feather", "sqlite", "duckdb", "pdf", "image"])
_OPENERS = {"gzip": gzip.open, "bz2": bz2.open, "xz": lzma.open}
WRAPPED = (".gz", ".zst", ".bz2", ".xz", ".zip", ".gzip")


@dataclass(frozen=True)
class Source:
    """A file, or what it holds. ``layers`` run from the outside in; a zip layer is ``zip:MEMBER``."""

    path: str
    name: str
    layers: tuple[str, ...] = ()
    size: int | None = None

    def open(self) -> IO[bytes]:
        stream: IO[bytes] = open(self.path, "rb")  # noqa: SIM115 - the caller closes it
        for layer in self.layers:
            stream = _unwrap(stream, layer)
        return stream

    def read(self, limit: int) -> bytes:
        """At most ``limit`` bytes from the start."""
        with self.open() as stream:
            return read_up_to(stream, limit)

    def chunks(self, limit: int) -> Iterator[bytes]:
        with self.open() as stream:
            left = limit
            while left > 0 and (chunk := stream.read(min(CHUNK, left))):
                left -= len(chunk)
                yield chunk

    def inside(self, layer: str, name: str, size: int | None) -> "Source":
        return replace(self, layers=(*self.layers, layer), name=name, size=size)

    @property
    def plain(self) -> bool:
        return not self.layers

    def expression(self) -> tuple[str, list[str]]:
        """Python that opens the bytes, and the modules it needs: ``gzip.open('data/a.gz')``."""
        text = repr(self.path)
        modules: list[str] = []
        for layer in self.layers:
            kind, _, member = layer.partition(":")
            if kind == "zip":
                text, modules = f"zipfile.ZipFile({text}).open({member!r})", [*modules, "zipfile"]
            elif kind == "zst":
                inner = text if text.endswith(")") else f"open({text}, 'rb')"
                text, modules = f"zstandard.open({inner})", [*modules, "zstandard"]
            else:
                module = {"gzip": "gzip", "bz2": "bz2", "xz": "lzma"}[kind]
                text, modules = f"{module}.open({text})", [*modules, module]
        return text, modules

    def binary(self) -> tuple[str, list[str]]:
        """What readers of whole binary files take: the path, or the bytes in memory."""
        if self.plain:
            return repr(self.path), []
        text, modules = self.expression()
        return f"io.BytesIO({text}.read())", [*modules, "io"]


def read_up_to(stream: IO[bytes], limit: int) -> bytes:
    parts, left = [], limit
    while left > 0 and (part := stream.read(min(CHUNK, left))):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def _unwrap(stream: IO[bytes], layer: str) -> IO[bytes]:
    kind, _, member = layer.partition(":")
    if kind == "zip":
        return _member(zipfile.ZipFile(stream), member)
    opener: Any = need("zstandard").open if kind == "zst" else _OPENERS[kind]
    return opener(stream)  # type: ignore[no-any-return]


def _member(archive: zipfile.ZipFile, member: str) -> IO[bytes]:
    return archive.open(member)


def wrapper(head: bytes) -> str | None:
    """``gzip``, ``zst``, ``bz2`` or ``xz`` by the first bytes; zip files are told by `zip_kind`."""
    return next((kind for kind, magic in _WRAPPERS.items() if head.startswith(magic)), None)


def database_of(path: str) -> str:
    """The name of the SQLite database that keeps its changes, or an index of them, in this file; empty where there is none."""
    for end in ("-wal", "-shm", "-journal"):
        whole = path.removesuffix(end)
        if whole != path and Path(whole).is_file() and Source(whole, whole).read(6) == b"SQLite":
            return PurePath(whole).name
    return ""


def unwrapped_name(name: str) -> str:
    suffix = PurePath(name).suffix.lower()
    return name[: -len(suffix)] if suffix in WRAPPED else name


def zip_kind(source: Source) -> tuple[str, list[zipfile.ZipInfo]]:
    """``xlsx``, ``ods`` or ``zip`` with its file members. Raises `zipfile.BadZipFile` for a broken one."""
    with source.open() as stream, zipfile.ZipFile(stream) as archive:
        members = [member for member in archive.infolist() if not member.is_dir()]
        names = {member.filename for member in members}
        if "xl/workbook.xml" in names or "xl/workbook.bin" in names:
            return "xlsx", members
        if "mimetype" in names and b"opendocument.spreadsheet" in archive.read("mimetype")[:100]:
            return "ods", members
        return "zip", members


def kind_of(head: bytes, name: str) -> str:
    """The kind by first bytes, then by name; text kinds are told apart by their content later."""
    for kind, magic in _MAGIC:
        if head.startswith(magic) and (magic != b"BM" or b"\0" in head[:20]):
            return kind
    if head[8:12] == b"DUCK":
        return "duckdb"
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return "image"
    return BY_SUFFIX.get(PurePath(unwrapped_name(name)).suffix.lower(), "unknown")
