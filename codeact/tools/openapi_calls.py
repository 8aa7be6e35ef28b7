"""One operation of an OpenAPI document as a call over HTTP: what is sent, and what is made of the answer."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import quote, urlencode, urlsplit

import httpx2

from codeact.errors import ToolError

MAX_BODY = 256 << 20
MAX_MESSAGE = 500
JSON = re.compile(r"application/(?:[\w.+-]+\+)?json\b", re.IGNORECASE)
FORM = "application/x-www-form-urlencoded"
_TEXT = re.compile(r"text/|application/(?:[\w.+-]+\+)?(?:xml|yaml|x-ndjson|javascript)\b", re.IGNORECASE)
_HEADER = re.compile(r"[\t\x20-\x7e]*")
_PASSING = (408, 425, 429)
"""Statuses below 500 that say nothing of the request."""

Style = Literal["each", "comma", "deep", "json"]
"""How lists and objects are written: an item, or a field, as a parameter of its own; with commas; `name[field]`; as JSON."""


class HttpError(ToolError):
    """The server answered with a status of 300 or above, or did not answer; the message is the server's. `transient` says
    that the same request may go well later, after `retry_after` seconds where the server says so."""

    def __init__(self, message: str, *, transient: bool = False, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.transient, self.retry_after = transient, retry_after


@dataclass(frozen=True, slots=True)
class Field:
    """Where an argument goes: `path`, `query`, `header`, or `body` with a content type as its name."""

    place: str
    name: str
    style: Style = "each"


@dataclass(frozen=True)
class Operation:
    """What a call sends. `headers` and `query` are the host's own and stay out of any `repr`; what of them is `secret` is
    taken out of answers."""

    method: str
    url: str
    fields: Mapping[str, Field]
    client: httpx2.Client = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    query: Mapping[str, str] = field(repr=False)
    timeout: float | None
    secrets: tuple[str, ...] = field(repr=False, default=())

    def __call__(self, **values: Any) -> Any:
        url, headers = self.url, dict(self.headers)
        query: list[tuple[str, str | int | float | bool | None]] = list(self.query.items())
        body: bytes | None = None
        for key, value in values.items():
            at = self.fields[key]
            match at.place:
                case "path":
                    url = url.replace(f"{{{at.name}}}", _segment(at, value))
                case "query":
                    query += _pairs(at, value)
                case "header":
                    headers[at.name] = _header(at, value)
                case _:
                    headers["Content-Type"] = at.name
                    body = _body(at.name, value)
        try:
            with self.client.stream(
                self.method, url, headers=headers, params=query, content=body
            ) as response:
                return self._result(response, time.monotonic())
        except httpx2.HTTPError as error:
            raise HttpError(
                f"the server could not be asked: {type(error).__name__}", transient=True
            ) from None

    def _result(self, response: httpx2.Response, began: float) -> Any:
        read = bytearray()
        for chunk in response.iter_bytes():
            read += chunk
            if len(read) > MAX_BODY:
                raise HttpError(f"the answer is larger than {MAX_BODY >> 20} MB")
            if self.timeout is not None and time.monotonic() - began > self.timeout:
                raise HttpError(f"the answer took longer than {self.timeout:g} seconds", transient=True)
        body = bytes(read)
        for secret in self.secrets:  # some servers repeat what they were sent
            body = body.replace(secret.encode(), b"***")
        if response.status_code >= 300:
            raise _refused(response, body)
        return _content(response, body)


# -- what is sent ----------------------------------------------------------------------------------------------------


def _pairs(at: Field, value: Any) -> Iterator[tuple[str, str]]:
    """The parts of a query that one argument makes."""
    match value, at.style:
        case None, _:
            return
        case _, "json":
            yield at.name, json.dumps(value)
        case dict(), "deep":
            yield from ((f"{at.name}[{key}]", _flat(each)) for key, each in value.items())
        case dict(), "each":
            yield from ((str(key), _flat(each)) for key, each in value.items())
        case list(), "each" | "deep":
            yield from ((at.name, _flat(each)) for each in value if each is not None)
        case _:
            yield at.name, _with_commas(value)


def _with_commas(value: Any) -> str:
    match value:
        case list():
            return ",".join(map(_flat, value))
        case dict():
            return ",".join(_flat(part) for pair in value.items() for part in pair)
    return _flat(value)


def _flat(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _segment(at: Field, value: Any) -> str:
    text = _with_commas(value)
    if text in ("", ".", ".."):
        raise HttpError(f"{at.name} is {text!r}, which names another address; give what the path asks for")
    return quote(text, safe=",")


def _header(at: Field, value: Any) -> str:
    text = _with_commas(value)
    if not _HEADER.fullmatch(text):
        raise HttpError(f"{at.name} is a header, which takes one line of ASCII")
    return text


def _body(kind: str, value: Any) -> bytes:
    if kind == FORM and isinstance(value, dict):
        pairs = [
            pair for key, each in value.items() for pair in _pairs(Field("query", str(key)), _plain(each))
        ]
        return urlencode(pairs).encode()
    if isinstance(value, bytes):
        return value
    if isinstance(value, str) and not JSON.match(kind):
        return value.encode()
    return json.dumps(value).encode()


def _plain(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, dict) else value


# -- what came -------------------------------------------------------------------------------------------------------


def _content(response: httpx2.Response, body: bytes) -> Any:
    kind = response.headers.get("content-type", "")
    if not body:
        return None
    if JSON.match(kind):
        try:
            return json.loads(_text(response, body))
        except (ValueError, RecursionError):
            raise HttpError("the server sent what is not JSON as JSON") from None
    return _text(response, body) if _TEXT.match(kind) else body


def _text(response: httpx2.Response, body: bytes) -> str:
    try:
        return body.decode(response.charset_encoding or "utf-8", "replace")
    except (LookupError, UnicodeError):  # the server names what is no encoding of text
        return body.decode("utf-8", "replace")


def _refused(response: httpx2.Response, body: bytes) -> HttpError:
    status = response.status_code
    said = f"{status} {response.reason_phrase}: {_message(body)}".rstrip(": ")
    if status < 400:
        to = urlsplit(response.headers.get("location", ""))
        where = f" to {to.scheme or 'the same server'}://{to.hostname}" if to.hostname else ""
        return HttpError(f"{said}: the server leads elsewhere{where}, and redirects are not followed")
    after = _seconds(response.headers.get("retry-after", ""))
    if after:
        said += f" (try again in {after:g} seconds)"
    return HttpError(said, transient=status >= 500 or status in _PASSING, retry_after=after)


def _seconds(text: str) -> float:
    """Of a `Retry-After` header; 0 where it says none, or a date."""
    return float(text) if text.isascii() and text.isdecimal() and len(text) < 8 else 0.0


def _message(body: bytes) -> str:
    """What the server says is wrong."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        found = body.decode(errors="replace")
    while isinstance(found, dict):
        inner = next((found[key] for key in ("message", "detail", "error", "title") if found.get(key)), None)
        if inner is None:
            break
        found = inner
    text = found if isinstance(found, str) else json.dumps(found)
    return " ".join(text.split())[:MAX_MESSAGE]
