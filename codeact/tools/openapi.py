"""Tools from OpenAPI 3 documents: one for each operation, called over HTTP by the host with the host's keys."""

from __future__ import annotations

import atexit
import json
import re
from collections.abc import Iterator, Mapping
from http.cookiejar import CookieJar, DefaultCookiePolicy
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import httpx2

from codeact.errors import ToolSourceError
from codeact.tools import references
from codeact.tools.definitions import from_schema
from codeact.tools.given import check, seconds
from codeact.tools.mcp_config import expanded
from codeact.tools.names import identifier, snake
from codeact.tools.openapi_calls import JSON, Field, HttpError, Operation, Style
from codeact.tools.own import secrets
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
_IN_PATH = re.compile(r"{([^{}]+)}")
_NOT_GIVEN = {
    "accept",
    "authorization",
    "connection",
    "content-length",
    "content-type",
    "cookie",
    "host",
    "transfer-encoding",
}
"""Headers that are not for code to say."""
_ANY = "*/*"
_NOT_JSON = ("tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:bool")


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
    check(place, base_url=base_url, headers=headers, query=query, namespace=namespace, timeout=timeout)
    document = source if isinstance(source, Mapping) else _read(str(source))
    version = document.get("openapi") if isinstance(document, Mapping) else None
    if not isinstance(version, (str, float)) or not str(version).startswith("3."):
        raise ToolSourceError(
            f"{place} is no OpenAPI 3 document: it has no openapi: 3.x (Swagger 2 must be converted)"
        )
    base = _base(document, base_url, place)
    limit = seconds(timeout)
    said = {"headers": dict(headers or {}), "query": dict(query or {})}
    own = expanded(said, place)
    hidden = secrets(said["headers"], own["headers"]) + secrets(said["query"], own["query"])
    ours = {("header", each.lower()) for each in own["headers"]} | {("query", each) for each in own["query"]}
    if client is None:
        none = CookieJar(
            DefaultCookiePolicy(allowed_domains=[])
        )  # those of one run would go with the calls of another
        client = httpx2.Client(timeout=limit, cookies=none)
        atexit.register(client.close)
    taken: list[str] = []
    made: list[Tool] = []
    for path, method, item in _operations(document):
        references.check(_used(item), document, f"{place}: {method.upper()} {path:.80}")
        name = identifier(snake(str(item.get("operationId") or f"{method} {path}")), taken, "operation")
        taken.append(name)
        found = _arguments(path, item, document, ours)
        if found is None:
            continue
        properties, required, fields = found
        made.append(
            from_schema(
                name,
                {"type": "object", "properties": properties, "required": required},
                Operation(
                    method.upper(), base + path, fields, client, own["headers"], own["query"], limit, hidden
                ),
                result=_answer(item, document),
                document=document,
                namespace=namespace,
                description=_text(item.get("description")) or _text(item.get("summary")),
                policy=Policy("read" if METHODS[method] else "write", limit, method in IDEMPOTENT),
                errors=(HttpError.__name__,),
                own_secrets=hidden,
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
        status = f"status {error.response.status_code}" if isinstance(error, httpx2.HTTPStatusError) else ""
        reason = getattr(error, "strerror", None) or status or type(error).__name__
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

    class Loader(yaml.SafeLoader):
        """Dates are texts, and so are `no` and `on`, as JSON has them."""

        yaml_implicit_resolvers = {  # noqa: RUF012 - as the class that it is from has it
            first: [pair for pair in pairs if pair[0] not in _NOT_JSON]
            for first, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items()
        }

    Loader.add_implicit_resolver(
        "tag:yaml.org,2002:bool", re.compile("true|True|TRUE|false|False|FALSE"), list("tTfF")
    )
    try:
        return yaml.load(text, Loader)  # noqa: S506 - it is a safe one
    except (yaml.YAMLError, ValueError, RecursionError) as error:
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


def _used(item: Mapping[str, Any]) -> list[Any]:
    return [item["parameters"], item.get("requestBody"), *_good_responses(item)]


def _good_responses(item: Mapping[str, Any]) -> list[Any]:
    """Those of calls that went well."""
    responses = item.get("responses")
    found = responses.items() if isinstance(responses, Mapping) else ()
    return [
        each for status, each in sorted(found, key=lambda pair: str(pair[0])) if str(status).startswith("2")
    ]


def _arguments(
    path: str, item: Mapping[str, Any], document: Mapping[str, Any], ours: set[tuple[str, str]]
) -> tuple[dict[str, Any], list[str], dict[str, Field]] | None:
    """Schemas of arguments, those that are required, and where they go; None where it takes what cannot be sent. What is in
    `ours`, the host gives."""
    properties: dict[str, Any] = {}
    required: list[str] = []
    fields: dict[str, Field] = {}
    known: dict[tuple[str, str], dict[str, Any]] = {}
    for each in item["parameters"]:
        found = _resolved(each, document)
        place, name = _text(found.get("in")), _text(found.get("name"))
        if place == "header" and (name.lower() in _NOT_GIVEN or (place, name.lower()) in ours):
            continue
        if place in ("path", "query", "header") and name and (place, name) not in ours:
            known[place, name] = found  # an operation's own comes after the path's
    for name in _IN_PATH.findall(path):
        known.setdefault(("path", name), {"schema": {"type": "string"}})
    for (place, name), found in known.items():
        key = name if name not in properties else f"{place}_{name}"
        schema: Any = found.get("schema") or next(iter(_content(found).values()), {})
        said = {"description": _text(found.get("description"))} if found.get("description") else {}
        properties[key] = {**schema, **said} if isinstance(schema, Mapping) else {}
        fields[key] = Field(place, name, _style(found))
        required += [key] if place == "path" or found.get("required") is True else []
    body = _resolved(item.get("requestBody"), document)
    bodies = _content(body)
    content = next((each for each in bodies if JSON.match(each)), next(filter(_can_be_sent, bodies), ""))
    if bodies and not content and body.get("required") is True:
        return None
    if content:
        key = "body" if "body" not in properties else "request_body"
        properties[key] = bodies[content]
        fields[key] = Field("body", "application/json" if content == _ANY else content)
        required += [key] if body.get("required") is True else []
    return properties, required, fields


def _can_be_sent(content: str) -> bool:
    return content == _ANY or not (content.startswith("multipart/") or "*" in content)


def _style(parameter: Mapping[str, Any]) -> Style:
    if "content" in parameter:
        return "json"
    if parameter.get("style") == "deepObject":
        return "deep"
    return "comma" if parameter.get("explode") is False else "each"


def _content(holder: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of each content type."""
    found = holder.get("content")
    return {
        str(kind): each.get("schema", {}) if isinstance(each, Mapping) else {}
        for kind, each in (found.items() if isinstance(found, Mapping) else ())
    }


def _answer(item: Mapping[str, Any], document: Mapping[str, Any]) -> Any:
    """The schema of what a call that went well returns as JSON."""
    for response in _good_responses(item):
        for kind, schema in _content(_resolved(response, document)).items():
            if JSON.match(kind):
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
        value = references.target(pointer, document)
    return {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
