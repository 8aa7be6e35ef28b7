"""Tools from OpenAPI 3 documents: one for each operation, called over HTTP by the host with the host's keys."""

from __future__ import annotations

import atexit
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urljoin

import httpx2

from codeact.errors import ToolError, ToolSourceError
from codeact.tools.definitions import from_schema
from codeact.tools.mcp_config import expanded
from codeact.tools.names import identifier, snake
from codeact.tools.tool import Policy, Tool

METHODS = {
    "get": True,
    "head": True,
    "options": True,
    "put": False,
    "delete": False,
    "post": False,
    "patch": False,
}
"""Whether it only reads."""
IDEMPOTENT = {"get", "head", "options", "put", "delete"}
MAX_BODY = 256 << 20
MAX_MESSAGE = 500
_JSON = re.compile(r"application/(?:[\w.+-]+\+)?json\b", re.IGNORECASE)
_NOT_GIVEN = {"accept", "content-type", "authorization"}


class HttpError(ToolError):
    """The server answered with a status of 400 or above, or did not answer; the message is the server's."""


@dataclass(frozen=True, slots=True)
class Field:
    """Where an argument goes: `path`, `query`, `header`, or `body` with a content type."""

    place: str
    name: str


@dataclass(frozen=True)
class Operation:
    """What a call sends. `headers` and `query` are the host's own and stay out of any `repr`."""

    method: str
    url: str
    fields: Mapping[str, Field]
    content: str
    client: httpx2.Client = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    query: Mapping[str, str] = field(repr=False)

    def __call__(self, **values: Any) -> Any:
        url, headers = self.url, dict(self.headers)
        query: list[tuple[str, str | int | float | bool | None]] = list(self.query.items())
        body: dict[str, Any] = {}
        for key, value in values.items():
            at = self.fields[key]
            match at.place:
                case "path":
                    url = url.replace(f"{{{at.name}}}", _segment(at.name, value))
                case "query":
                    query += [
                        (at.name, _flat(each))
                        for each in (value if isinstance(value, list) else [value])
                        if each is not None
                    ]
                case "header":
                    headers[at.name] = _flat(value)
                case _:
                    body = self._body(value)
        try:
            with self.client.stream(self.method, url, headers=headers, params=query, **body) as response:
                return _result(response)
        except httpx2.HTTPError as error:
            raise HttpError(f"the server could not be asked: {type(error).__name__}") from None

    def _body(self, value: Any) -> dict[str, Any]:
        if self.content == "application/x-www-form-urlencoded" and isinstance(value, dict):
            return {"data": value}
        if _JSON.match(self.content):
            return {"json": value}
        return {"content": value if isinstance(value, (str, bytes)) else json.dumps(value)}


def from_openapi(
    source: str | Path | Mapping[str, Any],
    *,
    base_url: str = "",
    headers: Mapping[str, str] | None = None,
    query: Mapping[str, str] | None = None,
    namespace: str = "",
    timeout: float = 60.0,
    client: httpx2.Client | None = None,
) -> list[Tool]:
    """The operations of a document: its path, its URL, or itself. `headers` and `query` go with each call; `${NAME}` in
    them stands for a variable of the host's environment. Raises ToolSourceError where there is nothing to call."""
    place = "the OpenAPI document" if isinstance(source, Mapping) else str(source)
    document = source if isinstance(source, Mapping) else _read(str(source))
    version = document.get("openapi") if isinstance(document, Mapping) else None
    if not isinstance(version, str) or not version.startswith("3."):
        raise ToolSourceError(
            f"{place} is no OpenAPI 3 document: it has no openapi: 3.x (Swagger 2 must be converted)"
        )
    base = _base(document, base_url, place)
    own = expanded({"headers": dict(headers or {}), "query": dict(query or {})}, place)
    if client is None:
        client = httpx2.Client(timeout=timeout)
        atexit.register(client.close)
    taken: list[str] = []
    made: list[Tool] = []
    for path, method, item in _operations(document):
        name = identifier(snake(str(item.get("operationId") or f"{method} {path}")), taken, "operation")
        taken.append(name)
        properties, required, fields, content = _arguments(item, document)
        made.append(
            from_schema(
                name,
                {"type": "object", "properties": properties, "required": required},
                Operation(method.upper(), base + path, fields, content, client, own["headers"], own["query"]),
                result=_answer(item, document),
                document=document,
                namespace=namespace,
                description=_text(item.get("description")) or _text(item.get("summary")),
                policy=Policy("read" if METHODS[method] else "write", timeout, method in IDEMPOTENT),
                errors=(HttpError.__name__,),
            )
        )
    if not made:
        raise ToolSourceError(f"{place} describes no operation under paths")
    return made


def _read(place: str) -> Any:
    try:
        if place.startswith(("http://", "https://")):
            text = httpx2.get(place, timeout=30, follow_redirects=True).raise_for_status().text
        else:
            text = Path(place).read_text(encoding="utf-8")
    except (OSError, httpx2.HTTPError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise ToolSourceError(
            f"{place} cannot be read: {reason}; give the path or URL of an OpenAPI document"
        ) from error
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return _yaml(text, place)


def _yaml(text: str, place: str) -> Any:
    try:
        import yaml
    except ModuleNotFoundError as error:
        raise ToolSourceError(f"{place} is not JSON; for YAML, pip install pyyaml") from error
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        raise ToolSourceError(f"{place} is neither JSON nor YAML") from error


def _base(document: Mapping[str, Any], given: str, place: str) -> str:
    """The address that paths are added to, without a slash at its end."""
    servers = document.get("servers")
    first = servers[0] if isinstance(servers, list) and servers and isinstance(servers[0], Mapping) else {}
    url = given or _text(first.get("url"))
    variables = first.get("variables", {})
    for name, variable in variables.items() if isinstance(variables, Mapping) else ():
        url = url.replace(
            f"{{{name}}}", str(variable.get("default", "")) if isinstance(variable, Mapping) else ""
        )
    if place.startswith(("http://", "https://")):
        url = urljoin(place, url)
    if not url.startswith(("http://", "https://")):
        raise ToolSourceError(f"{place} does not say where its server is: give base_url='https://...'")
    return url.rstrip("/")


def _operations(document: Mapping[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    paths = document.get("paths")
    for path, item in paths.items() if isinstance(paths, Mapping) else ():
        item = _resolved(item, document)
        for method in METHODS:
            operation = item.get(method)
            if isinstance(operation, Mapping) and isinstance(path, str):
                shared = [*_list(item.get("parameters")), *_list(operation.get("parameters"))]
                yield path, method, {**operation, "parameters": shared}


def _arguments(
    item: Mapping[str, Any], document: Mapping[str, Any]
) -> tuple[dict[str, Any], list[str], dict[str, Field], str]:
    properties: dict[str, Any] = {}
    required: list[str] = []
    fields: dict[str, Field] = {}
    known: dict[tuple[str, str], dict[str, Any]] = {}
    for each in item["parameters"]:
        found = _resolved(each, document)
        place, name = _text(found.get("in")), _text(found.get("name"))
        if place in ("path", "query", "header") and name and name.lower() not in _NOT_GIVEN:
            known[place, name] = found  # an operation's own comes after the path's
    for (place, name), found in known.items():
        key = name if name not in properties else f"{place}_{name}"
        schema: Any = found.get("schema") or next(iter(_content(found).values()), {})
        said = {"description": _text(found.get("description"))} if found.get("description") else {}
        properties[key] = {**schema, **said} if isinstance(schema, Mapping) else {}
        fields[key] = Field(place, name)
        required += [key] if place == "path" or found.get("required") is True else []
    body = _resolved(item.get("requestBody"), document)
    bodies = _content(body)
    content = next((each for each in bodies if _JSON.match(each)), next(iter(bodies), ""))
    if content:
        key = "body" if "body" not in properties else "request_body"
        properties[key], fields[key] = bodies[content], Field("body", content)
        required += [key] if body.get("required") is True else []
    return properties, required, fields, content


def _content(holder: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of each content type."""
    found = holder.get("content")
    return {
        str(kind): each.get("schema", {}) if isinstance(each, Mapping) else {}
        for kind, each in (found.items() if isinstance(found, Mapping) else ())
    }


def _answer(item: Mapping[str, Any], document: Mapping[str, Any]) -> Any:
    """The schema of what a call that went well returns as JSON."""
    responses = item.get("responses")
    for status, response in (
        sorted(responses.items(), key=lambda pair: str(pair[0])) if isinstance(responses, Mapping) else ()
    ):
        if str(status).startswith("2"):
            for kind, schema in _content(_resolved(response, document)).items():
                if _JSON.match(kind):
                    return schema
    return None


def _resolved(value: Any, document: Mapping[str, Any]) -> dict[str, Any]:
    """An object of the document, through references within it."""
    for _ in range(16):
        if not isinstance(value, Mapping):
            return {}
        pointer = value.get("$ref")
        if not isinstance(pointer, str):
            return dict(value)
        value = document
        for part in pointer.removeprefix("#/").split("/"):
            value = (
                value.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(value, Mapping) else None
            )
    return {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _flat(value: Any) -> str:
    if isinstance(value, (bool, dict, list)):
        return json.dumps(value)
    return str(value)


def _segment(name: str, value: Any) -> str:
    text = _flat(value)
    if text in ("", ".", ".."):
        raise HttpError(f"{name} is {text!r}, which names another address; give what the path asks for")
    return quote(text, safe="")


def _result(response: httpx2.Response) -> Any:
    read = bytearray()
    for chunk in response.iter_bytes():
        read += chunk
        if len(read) > MAX_BODY:
            raise HttpError(f"the answer is larger than {MAX_BODY >> 20} MB")
    body = bytes(read)
    kind = response.headers.get("content-type", "")
    if response.status_code >= 300:
        raise HttpError(f"{response.status_code} {response.reason_phrase}: {_message(body)}".rstrip(": "))
    if not body:
        return None
    if _JSON.match(kind):
        try:
            return json.loads(body)
        except (ValueError, RecursionError):
            raise HttpError("the server sent what is not JSON as JSON") from None
    return body.decode(response.encoding or "utf-8", "replace") if kind.startswith("text/") else body


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
