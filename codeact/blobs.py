"""Large values of a journal, in files beside it that are named by their digest.

In a line stands `{"$blob": SHA-256, "form": ..., "bytes": ...}`: `text` and `json` are what they say, `raw` is JSON in which nothing
stands for a file, `base64` is binary. A picture that is kept as a figure already is not kept twice: `file` names it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sandbox.held import replacing

FOLDER = "blobs"
KEY = "$blob"
LARGE = 32 * 1024
"""Characters of a text, or of a field as JSON, beyond which it lies beside the journal."""
PICTURES = {"image/png": "png", "image/jpeg": "jpg", "image/gif": "gif", "application/pdf": "pdf"}
"""Binary MIME types, which outputs carry as base64."""
PICTURE = "(picture)"
"""What stands for a picture where nobody looks at it."""
_DIGEST = re.compile(r"[0-9a-f]{64}")
_FIGURE = re.compile(r"figures/figure-\d{1,9}\.[a-z]{3}")


class Blobs:
    """The files beside one journal, which is in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._figures: dict[str, str] = {}

    def figure(self, content: bytes, path: Path) -> None:
        """Says that a picture is kept under a path in the folder."""
        self._figures[hashlib.sha256(content).hexdigest()] = path.relative_to(self._folder).as_posix()

    # -- out of lines --------------------------------------------------------------------------------------------

    def outside(self, value: Any) -> Any:
        """A field's value as it stands in a line: what is large in it is written to files. Raises OSError."""
        value = self._walk(value)
        text = json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else ""
        return self._put(text.encode("utf-8", "replace"), "json") if len(text) > LARGE else value

    def _walk(self, value: Any) -> Any:
        match value:
            case str() if len(value) > LARGE:
                return self._put(value.encode("utf-8", "replace"), "text")
            case dict() if KEY in value:  # not ours
                return self._put(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"), "raw")
            case dict():
                return {
                    k: self._picture(v) if k in PICTURES and isinstance(v, str) else self._walk(v)
                    for k, v in value.items()
                }
            case list():
                return [self._walk(item) for item in value]
        return value

    def _picture(self, text: str) -> Any:
        try:
            content = base64.b64decode(text, validate=False)
        except (ValueError, binascii.Error):
            return self._walk(text)
        same = base64.b64encode(content).decode() == "".join(text.split())
        return self._put(content, "base64") if same and content else self._walk(text)

    def _put(self, content: bytes, form: str) -> dict[str, Any]:
        digest = hashlib.sha256(content).hexdigest()
        found = {KEY: digest, "form": form, "bytes": len(content)}
        if form == "base64" and digest in self._figures:
            return {**found, "file": self._figures[digest]}
        path = self._folder / FOLDER / digest
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            with replacing(path, 0o600) as file:
                file.write(content)
        return found

    # -- back into lines -----------------------------------------------------------------------------------------

    def inside(self, value: Any, *, pictures: bool) -> Any:
        """A value of a line with all that belongs in it; what is lost is said in its place. Pictures only if they are
        asked for."""
        match value:
            case {"$blob": str() as digest, "form": str() as form}:
                return self._get(digest, form, value, pictures)
            case dict():
                return {k: self.inside(v, pictures=pictures) for k, v in value.items()}
            case list():
                return [self.inside(item, pictures=pictures) for item in value]
        return value

    def _get(self, digest: str, form: str, marker: dict[str, Any], pictures: bool) -> Any:
        if form == "base64" and not pictures:
            return PICTURE
        content = self._read(digest, marker.get("file"))
        if content is None:
            return f"(lost: {marker.get('bytes')} bytes, blobs/{digest[:64]})"
        if form == "base64":
            return base64.b64encode(content).decode()
        text = content.decode("utf-8", "replace")
        if form == "text":
            return text
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return text
        return value if form == "raw" else self.inside(value, pictures=pictures)

    def _read(self, digest: str, figure: Any) -> bytes | None:
        if not _DIGEST.fullmatch(digest):
            return None
        named = isinstance(figure, str) and _FIGURE.fullmatch(figure)
        try:
            content = (self._folder / (figure if named else f"{FOLDER}/{digest}")).read_bytes()
        except OSError:
            return None
        return content if hashlib.sha256(content).hexdigest() == digest else None


def sizes(folder: Path) -> Iterator[int]:
    """The sizes of all files below a folder, in bytes."""
    for path in folder.rglob("*"):
        try:
            if not path.is_dir():
                yield path.lstat().st_size
        except OSError:
            continue
