"""Small wheels and source archives, made by the tests that install them."""

from __future__ import annotations

import hashlib
import io
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path


def wheel(
    name: str,
    version: str,
    *,
    requires: Sequence[str] = (),
    tag: str = "py3-none-any",
    extra: str = "",
    more: Mapping[str, str] = {},
) -> tuple[str, bytes]:
    """File name and content of a wheel with one module that knows its version, and `more` files."""
    info = f"{name}-{version}.dist-info"
    needs = "".join(f"Requires-Dist: {need}\n" for need in requires)
    files = {
        **more,
        f"{name}.py": f"VERSION = {version!r}\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}{extra}",
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: {tag}\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"])
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return f"{name}-{version}-{tag}.whl", packed.getvalue()


def source(
    name: str, version: str, setup: str = "import sys; sys.exit('executed on the host')\n"
) -> tuple[str, bytes]:
    """File name and content of a source archive, whose `setup.py` must never be executed."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for path, text in {
            "setup.py": setup,
            "PKG-INFO": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        }.items():
            entry = tarfile.TarInfo(f"{name}-{version}/{path}")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    return f"{name}-{version}.tar.gz", packed.getvalue()


def folder(place: Path, *files: tuple[str, bytes]) -> Path:
    """A folder that pip takes for `--find-links`."""
    place.mkdir(exist_ok=True)
    for name, content in files:
        (place / name).write_bytes(content)
    return place


def index(*files: tuple[str, bytes]) -> dict[str, bytes]:
    """The pages of a package index (PEP 503): path → content."""
    pages: dict[str, bytes] = {}
    for file, content in files:
        project = f"/simple/{file.split('-')[0].replace('_', '-').lower()}/"
        digest = hashlib.sha256(content).hexdigest()
        pages[project] = (
            pages.get(project, b"") + f'<a href="/files/{file}#sha256={digest}">{file}</a>\n'.encode()
        )
        pages[f"/files/{file}"] = content
    return pages
