"""Calls as records show them: without secrets, shortened, with a digest by which a call is known again."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePath
from typing import Any
from urllib.parse import quote, quote_plus

from codeact.inside import values
from codeact.paths import exists
from codeact.tools.python import source
from codeact.tools.shown import short
from codeact.tools.tool import Tool
from sandbox.text import clean

SECRET = "(secret)"  # noqa: S105 - what stands in place of one
MAX_ARGUMENT = 16 * 1024
"""Characters of one argument, as JSON, in a record."""
MAX_MESSAGE = 2000
MIN_SECRET = 4
"""Characters of a secret that is taken out wherever it stands. A shorter one is part of everything: it is taken out of the
messages of errors where it stands as a word, and a result keeps it."""
SHOWN_ARGUMENT = 200
ASKED_ARGUMENT, ASKED_CALL = 20_000, 100_000
"""Characters of one argument and of a call that a person is asked about: what is shown is what will be done, so a cut is
said, and leaves the beginning and the end."""
_PATH = re.compile(r"(?<![\w:/.~-])(?:/[^\s/'\":;,()<>\[\]{}]+){1,}/?")
_ENCODINGS = {"latin-1": b"*", "utf-8": b"*", "utf-16-le": b"*\0", "utf-32-le": b"*\0\0\0"}
_INSIDE = ("/workspace", "/dev/null")


def digest(tool: Tool, arguments: Mapping[str, Any]) -> str:
    """Of a call's arguments as they came out of the sandbox: the same in every process, whatever the order of keys.

    Where some are secret it takes effort to try values against it.
    """
    made, buffers = values.encode(dict(arguments), path=_inside)
    parts = [tool.path, made, [hashlib.sha256(buffer).hexdigest() for buffer in buffers]]
    text = json.dumps(parts if buffers else parts[:2], sort_keys=True, separators=(",", ":")).encode()
    if tool.secret:
        return hashlib.scrypt(text, salt=tool.path.encode(), n=2**12, r=8, p=1, dklen=32).hex()
    return hashlib.sha256(text).hexdigest()


def recorded(tool: Tool, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments for a record, each of MAX_ARGUMENT characters as JSON."""
    return {
        clean(name)[:200]: SECRET if _is_secret(tool, name) else _short(value)
        for name, value in arguments.items()
    }


def _is_secret(tool: Tool, name: str) -> bool:
    """Where a tool has secrets, a name that it does not know may be a misspelled one."""
    known = (parameter.name for parameter in tool.parameters)
    return bool(tool.secret) and (name in tool.secret or name not in known)


def _short(value: Any) -> Any:
    try:
        text = json.dumps(value, ensure_ascii=False, default=_told)
        made = json.loads(text, object_pairs_hook=_object) if len(text) <= MAX_ARGUMENT else None
    except (TypeError, ValueError):  # keys that JSON has not
        text = json.dumps(_told(value), ensure_ascii=False)
        made = json.loads(text) if len(text) <= MAX_ARGUMENT else None
    if len(text) <= MAX_ARGUMENT:
        return made
    return f"{text[:SHOWN_ARGUMENT]}... ({len(text):,} characters as JSON)"


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("two keys, such as 1 and '1', are the same in JSON")
    return made


def _inside(path: PurePath) -> str:
    """A file as code inside calls it."""
    return str(getattr(path, "inside", path))


def _told(value: Any) -> str:
    """A value that JSON has not: a table or an array by its shape, anything else as it says itself."""
    if isinstance(value, PurePath):
        return _inside(value)
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple) and shape:
        return f"{type(value).__name__} {'×'.join(map(str, shape))}"
    if isinstance(value, (bytes, bytearray, memoryview)):
        return f"{len(value):,} bytes"
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - a number too large to be written, or code of whoever made the value
        return short(value)


def as_python(tool: Tool, arguments: Mapping[str, Any]) -> str:
    """The call as a person is asked about it: cleaned, without secrets, each value as what it is, and whole but for what
    nobody could read."""
    parts = [
        f"{clean(name)[:200]}={SECRET if _is_secret(tool, name) else _asked(value)}"
        for name, value in arguments.items()
    ]
    line = f"{tool.path}({', '.join(parts)})"
    if len(line) > 100 and len(parts) > 1:
        line = f"{tool.path}(\n    " + ",\n    ".join(parts) + ",\n)"
    return _without_middle(line, ASKED_CALL)


def _asked(value: Any) -> str:
    return _without_middle(clean(source(value, ASKED_ARGUMENT)), ASKED_ARGUMENT)


def _without_middle(text: str, most: int) -> str:
    left_out = len(text) - most
    if left_out <= 0:
        return text
    return f"{text[: most // 2]} ...({left_out:,} characters are not shown)... {text[-most // 2 :]}"


class Scrub:
    """Takes out of texts what must not leave the host, or must not be recorded: secrets, given ones and the host's own, and
    paths of the host."""

    def __init__(self, tool: Tool, arguments: Mapping[str, Any], before: Scrub | None = None) -> None:
        """`before` knows the secrets that the call had with other arguments."""
        found = {text for name in tool.secret for text in texts(arguments.get(name)) if text}
        found |= before._secrets if before is not None else tool.own_secrets
        self._secrets: frozenset[str] = frozenset(found)
        self._long = _longest_first(self._secrets)
        self._unsaid = _longest_first(self._secrets | tool.bound) if tool.bound else self._long
        short = [re.escape(text) for text in self._secrets if len(text) < MIN_SECRET]
        self._short = re.compile(rf"(?<!\w)(?:{'|'.join(short)})(?!\w)") if short else None

    def message(self, text: str) -> str:
        """An exception's message for code in the sandbox."""
        text = _without(clean(text), self._unsaid)
        if self._short is not None:
            text = self._short.sub(SECRET, text)
        text = _PATH.sub(_without_folders, text)
        return text if len(text) <= MAX_MESSAGE else f"{text[:MAX_MESSAGE]}... ({len(text):,} characters)"

    def text(self, text: str) -> str:
        return _without(text, self._long)

    def value(self, value: Any) -> Any:
        """A JSON value for a record."""
        if not self._long:
            return value
        match value:
            case str():
                return self.text(value)
            case {values.TAG: "bytes", "v": str(data)}:
                return {**value, "v": self._binary(data)}
            case {values.TAG: "answer", "v": made, "buffers": list(buffers)}:
                return {**value, "v": self.value(made), "buffers": [self._binary(each) for each in buffers]}
            case list() | tuple():
                return [self.value(item) for item in value]
            case dict():
                return {self.text(str(key)): self.value(item) for key, item in value.items()}
            case bool() | None:
                return value
        return SECRET if str(value) in self._long else value

    def _binary(self, data: str) -> str:
        """Bytes as base64, in which stars stand for each secret, as many as it has bytes: what surrounds it keeps its place."""
        found = base64.b64decode(data)
        for secret in self._long:
            for encoding, star in _ENCODINGS.items():
                with contextlib.suppress(UnicodeEncodeError):
                    written = secret.encode(encoding)
                    found = found.replace(written, star * (len(written) // len(star)))
        return base64.b64encode(found).decode()


def _without(text: str, secrets: Iterable[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, SECRET)
    return text


def _longest_first(secrets: Iterable[str]) -> list[str]:
    """All spellings of those that can be known wherever they stand."""
    long = {each for text in secrets if len(text) >= MIN_SECRET for each in _spellings(text)}
    return sorted(long, key=len, reverse=True)


def _spellings(text: str) -> set[str]:
    """A text as it stands in messages and results: as it is, cleaned, and as Python, also as bytes, JSON and addresses write
    it."""
    quoted = repr(text), json.dumps(text), json.dumps(text, ensure_ascii=False)
    forms = {how(text, safe="", errors="replace") for how in (quote, quote_plus)}
    for encoding in ("latin-1", "utf-8"):
        with contextlib.suppress(UnicodeEncodeError):
            forms.add(repr(text.encode(encoding))[2:-1])
    return {text, clean(text), quote(text, errors="replace"), *forms, *(each[1:-1] for each in quoted)}


def texts(value: Any) -> Iterator[str]:
    """A secret as the texts that would show it."""
    match value:
        case bool() | None:
            return
        case str():
            yield value
        case bytes() | bytearray() | memoryview():
            yield str(value, "latin-1")  # a character for each byte
            with contextlib.suppress(UnicodeDecodeError):
                yield str(value, "utf-8")
        case Mapping():
            yield from _all_texts(value.values())
        case list() | tuple() | set() | frozenset():
            yield from _all_texts(value)
        case _:
            yield _told(value)


def _all_texts(values: Iterable[Any]) -> Iterator[str]:
    for value in values:
        yield from texts(value)


def _without_folders(found: re.Match[str]) -> str:
    """A path of the host keeps its last part. What merely looks like one, such as the path of an URL, is left."""
    path = found.group()
    if path.startswith(_INSIDE) or path.count("/") < 2 or not exists(f"/{path.split('/')[1]}"):
        return path
    return f".../{path.rstrip('/').rpartition('/')[2]}"
