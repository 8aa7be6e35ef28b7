"""The usual `mcpServers` file: which MCP servers there are, and how to reach them."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from codeact.errors import ToolSourceError
from codeact.tools.given import check
from codeact.tools.own import secrets

Transport = Literal["stdio", "http", "sse"]
_VARIABLE = re.compile(r"\$\{(?:env:)?(\w+)(?::-([^}]*))?\}")
_TRANSPORTS: dict[str, Transport] = {
    "stdio": "stdio", "http": "http", "streamable-http": "http", "streamable_http": "http", "streamableHttp": "http", "sse": "sse",
}  # fmt: skip
SHORTEST_SECRET = 4


@dataclass(frozen=True, slots=True)
class Server:
    """One entry. What may hold secrets is in no `repr`. `timeout` is in seconds, for a call."""

    name: str
    transport: Transport
    command: str = ""
    args: tuple[str, ...] = field(default=(), repr=False)
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    cwd: str | None = None
    url: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout: float = 60.0
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """What of it is secret: what the environment brought in, and what has such a name."""

    def without_secrets(self, text: str) -> str:
        """A text for people, with nothing in it that the file or the environment brought in."""
        hidden = [*self.env.values(), *self.headers.values(), *self.args, self.url]
        hidden += [part for value in self.headers.values() for part in value.split()]
        for secret in sorted(hidden, key=len, reverse=True):
            if len(secret) >= SHORTEST_SECRET:
                text = text.replace(secret, "***")
        return " ".join(text.split())[:400]


def read_config(config: str | Path | Mapping[str, Any]) -> list[Server]:
    """The servers that are not disabled. Raises ToolSourceError, which names the file, the entry and the mend."""
    if isinstance(config, Mapping):
        return _servers(config, "the configuration", None)
    path = Path(config)
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ToolSourceError(
            f"{path}: {error.strerror or error}; --mcp takes a file with mcpServers"
        ) from error
    except (ValueError, RecursionError) as error:
        raise ToolSourceError(f"{path} is not JSON: {error}") from error
    return _servers(found, str(path), path.resolve().parent)


def _servers(config: Any, place: str, folder: Path | None) -> list[Server]:
    entries = config.get("mcpServers", config.get("servers")) if isinstance(config, Mapping) else None
    if not isinstance(entries, Mapping):
        raise ToolSourceError(
            f'{place} has no mcpServers: write {{"mcpServers": {{"time": {{"command": "mcp-server-time"}}}}}}'
        )
    return [
        _server(str(name), entry, f"{place}: server {name}", folder)
        for name, entry in entries.items()
        if not (isinstance(entry, Mapping) and entry.get("disabled") is True)
    ]


def _server(name: str, entry: Any, place: str, folder: Path | None) -> Server:
    if not isinstance(entry, Mapping):
        raise ToolSourceError(f"{place} must be an object with a command or a url")
    said = {key: expanded(value, place) for key, value in entry.items()}
    kind = said.get("type", said.get("transport", "stdio" if "command" in said else "http"))
    transport = _TRANSPORTS.get(str(kind))
    if transport is None:
        raise ToolSourceError(f"{place}: type is {kind!r:.40}; it must be stdio, http or sse")
    if not {"command", "url", "type", "transport"} & set(said):
        raise ToolSourceError(f"{place} needs a command, of a program to start, or a url")
    asked = "command" if transport == "stdio" else "url"
    if not isinstance(said.get(asked), str) or not said[asked]:
        raise ToolSourceError(f"{place} needs a {asked}, as a text")
    if transport != "stdio" and not re.match(r"https?://", said["url"]):
        raise ToolSourceError(f"{place}: its url must start with http:// or https://")
    timeout = said.get("timeout", 60.0)
    check(place, timeout=timeout)
    return Server(
        name=name,
        transport=transport,
        command=said.get("command", ""),
        args=tuple(_texts(said.get("args", []), place, "args")),
        env=_pairs(said.get("env", {}), place, "env"),
        cwd=_folder(said.get("cwd"), folder),
        url=said.get("url", ""),
        headers=_pairs(said.get("headers", {}), place, "headers"),
        timeout=float(timeout),
        secrets=secrets(_settings(entry), _settings(said)),
    )


def _settings(entry: Mapping[str, Any]) -> dict[str, str]:
    """All texts of an entry, by names that tell secrets: an argument's is the option before its value."""
    named = {"url": str(entry.get("url", ""))}
    for key in ("env", "headers"):
        named.update({f"{key} {name}": str(each) for name, each in entry.get(key, {}).items()})
    before = ""
    for at, each in enumerate(map(str, entry.get("args", []))):
        option, equals, value = each.partition("=")
        named[f"{at} {option if equals else before}"] = value if equals else each
        before = each if each.startswith("-") else ""
    for name, _, value in (each.partition("=") for each in urlsplit(named["url"]).query.split("&")):
        named[f"url {name}"] = value
    return named


def _folder(cwd: Any, folder: Path | None) -> str | None:
    """Relative to the file, as people expect who keep both together."""
    if not isinstance(cwd, str):
        return None
    return str((folder or Path.cwd()) / Path(cwd).expanduser())


def _texts(value: Any, place: str, key: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(each, (str, int, float)) for each in value):
        raise ToolSourceError(f"{place}: {key} must be a list of texts")
    return [str(each) for each in value]


def _pairs(value: Any, place: str, key: str) -> dict[str, str]:
    if not isinstance(value, Mapping) or not all(
        isinstance(each, (str, int, float)) for each in value.values()
    ):
        raise ToolSourceError(f"{place}: {key} must be an object of texts")
    return {str(name): str(each) for name, each in value.items()}


def expanded(value: Any, place: str) -> Any:
    """A value with the host's environment in place of `${NAME}` and `${NAME:-otherwise}`."""

    def known(found: re.Match[str]) -> str:
        name, otherwise = found.groups()
        text = os.environ.get(name, otherwise)
        if text is None:
            raise ToolSourceError(
                f"{place}: the environment has no {name}; set it, or write ${{{name}:-otherwise}}"
            )
        return text

    match value:
        case str():
            return _VARIABLE.sub(known, value)
        case list():
            return [expanded(each, place) for each in value]
        case Mapping():
            return {key: expanded(each, place) for key, each in value.items()}
    return value
