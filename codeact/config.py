"""Settings of a run. Each is one field below; a flag beats the environment, which beats the file.

`max_turns` is the flag `--max-turns`, the variable `CODEACT_MAX_TURNS`, and the top-level key `max_turns` of
`codeact.toml` in the current folder. Lists are arrays in the file; in a variable, paths are separated as in `PATH`, packages
and tools by spaces.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from codeact.errors import UsageError

FILE = "codeact.toml"
YES = ("1", "true", "yes", "on")
_NO = ("0", "false", "no", "off")
_DIGITS = 15
"""What a whole number may have; more are a mistake."""


@dataclass(frozen=True, slots=True)
class Kind:
    """How a setting is written. `parse` takes text, and raises ValueError that says what it should be; `types` are
    what a TOML value may be."""

    metavar: str
    types: tuple[type, ...]
    parse: Callable[[str], Any]
    many: bool = False


def _text(text: str) -> str:
    if not text.strip():
        raise ValueError("is empty; leave it out, or give a value")
    return text


def _path(text: str) -> Path:
    return Path(_text(text)).expanduser()


def _whole(text: str) -> int:
    if not text.strip().isdecimal() or len(text) > _DIGITS or int(text) < 1:
        raise ValueError(f"{text[:60]!r} is not a whole number of at least 1; write for example 20")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0
    if not 0 < seconds < 10**9:
        raise ValueError(f"{text!r} is not a number of seconds above 0; write for example 60")
    return seconds


def _limit(name: str) -> Callable[[str], str]:
    """A limit of the sandbox, checked by what enforces it."""

    def parse(text: str) -> str:
        from sandbox.types import Limits  # brings the engine's client with it

        try:
            Limits(**{name: text})
        except ValueError as error:
            reason = (
                str(error)
                if str(error).startswith(repr(text))
                else f"{text!r} is not a number; write for example 1"
            )
            raise ValueError(reason) from None
        return text

    return parse


def _disk(text: str) -> str:
    from sandbox.types import parse_size

    parse_size(text)
    return text


def _hosts(text: str) -> str:
    from sandbox.network import Network

    Network.parse(text)
    return text


def _package(text: str) -> str:
    from sandbox.image_packages import parse  # brings the engine's client with it

    return str(parse(text))


def _choice(*words: str) -> Kind:
    def parse(text: str) -> str:
        if text not in words:
            raise ValueError(f"{text!r} is not known; write {' or '.join(words)}")
        return text

    return Kind("|".join(words), (str,), parse)


def _yes(text: str) -> bool:
    if text.lower() not in YES + _NO:
        raise ValueError(f"{text!r} is neither true nor false; write one of them")
    return text.lower() in YES


SWITCH = Kind("", (bool,), _yes)


def _about(kind: Kind, help_text: str) -> dict[str, Any]:
    return {"kind": kind, "help": help_text}


def _size(name: str) -> Kind:
    return Kind("SIZE", (int, str), _limit(name))


_NAME = Kind("NAME", (str,), _text)
_COUNT = Kind("N", (int,), _whole)
_SECONDS = Kind("SECONDS", (int, float), _seconds)


@dataclass(frozen=True, slots=True)
class Settings:
    """What `solve` can be told beside its task. Sizes are as in `sandbox.Limits`, times in seconds."""

    model: tuple[str, ...] = field(
        default=(),
        metadata=_about(
            Kind("NAME", (str,), _text, many=True),
            "gpt-5-mini, local, scripted:FILE.jsonl, ... (default: the endpoint that is set up, else local)",
        ),
    )
    base_url: str | None = field(
        default=None, metadata=_about(Kind("URL", (str,), _text), "an OpenAI-compatible endpoint")
    )
    data: tuple[str, ...] = field(
        default=(),
        metadata=_about(
            Kind("PATH", (str,), _text, many=True),
            "file, folder, glob, NAME=PATH, or - (standard input); repeatable",
        ),
    )
    output_schema: Path | None = field(
        default=None,
        metadata=_about(Kind("FILE.json", (str,), _path), "JSON Schema that the answer must meet"),
    )
    out: Path | None = field(
        default=None,
        metadata=_about(
            Kind("DIR", (str,), _path), "folder for what the run hands over (default: the run's own)"
        ),
    )
    max_turns: int = field(default=20, metadata=_about(_COUNT, "end the run after so many turns"))
    max_seconds: float = field(default=600.0, metadata=_about(_SECONDS, "end the run after so long"))
    max_tokens: int = field(default=200_000, metadata=_about(_COUNT, "end the run after so many tokens"))
    cell_timeout: float = field(default=60.0, metadata=_about(_SECONDS, "stop a cell after so long"))
    sandbox: str = field(
        default="auto", metadata=_about(_choice("docker", "bubblewrap", "auto"), "what contains the code")
    )
    image: str = field(default="data", metadata=_about(_NAME, "image of the sandbox: data or minimal"))
    memory: str = field(default="1g", metadata=_about(_size("memory"), "memory of the sandbox"))
    cpus: str = field(
        default="1",
        metadata=_about(Kind("N", (int, float, str), _limit("cpus")), "processor cores of the sandbox"),
    )
    pids: str = field(
        default="256",
        metadata=_about(Kind("N", (int, str), _limit("pids")), "processes and threads in the sandbox"),
    )
    disk: str = field(
        default="512m", metadata=_about(_size("disk"), "disk space in the sandbox, held in its memory")
    )
    network: str = field(
        default="none",
        metadata=_about(
            Kind("none|HOST[,HOST...]", (str,), _hosts),
            "hosts that the code may reach: api.example.com, *.example.org",
        ),
    )
    pip: tuple[str, ...] = field(
        default=(),
        metadata=_about(
            Kind("PACKAGE", (str,), _package, many=True),
            "add a package to the image: name or name==1.2; repeatable",
        ),
    )
    tools: tuple[str, ...] = field(
        default=(),
        metadata=_about(
            Kind("MODULE_OR_FILE.py[:NAME]", (str,), _text, many=True),
            "functions of yours that the code may call: what is decorated with @tool there, or NAME; repeatable",
        ),
    )
    mcp: Path | None = field(
        default=None,
        metadata=_about(Kind("CONFIG.json", (str,), _path), "tools of the MCP servers in an mcpServers file"),
    )
    tools_off: tuple[str, ...] = field(
        default=(),
        metadata=_about(
            Kind("NAME", (str,), _text, many=True), "leave out a tool, or a namespace of tools; repeatable"
        ),
    )
    approve: str = field(
        default="writes",
        metadata=_about(
            _choice("never", "writes", "always"),
            "before which calls of tools you are asked: those that write",
        ),
    )
    yes: bool = field(default=False, metadata=_about(SWITCH, "answer each question with yes"))
    on_death: str = field(
        default="restore",
        metadata=_about(
            _choice("restore", "fresh", "stop"),
            "when the kernel dies: make its state again, go on without it, or end the run",
        ),
    )
    runs_size: str = field(
        default="5g",
        metadata=_about(
            Kind("SIZE", (int, str), _disk), "disk space of all runs, beyond which the oldest are removed"
        ),
    )
    actions: str = field(
        default="fenced",
        metadata=_about(
            _choice("fenced", "python-tool", "functions"),
            "how the model acts: code in a block, code as a function's argument, or calls of your tools",
        ),
    )
    runtime: str | None = field(default=None, metadata=_about(_NAME, "the engine's runtime, such as runsc"))
    quiet: bool = field(default=False, metadata=_about(SWITCH, "nothing on standard error but errors"))
    json: bool = field(default=False, metadata=_about(SWITCH, "print one JSON object in place of the answer"))
    debug: bool = field(default=False, metadata=_about(SWITCH, "a traceback with each error"))
    found: tuple[str, ...] = field(default=(), compare=False)
    """Not a setting: the names of those that only the found file gives, which may be somebody else's."""

    @property
    def reaching(self) -> tuple[str, ...]:
        """Those of `found` that reach out of the sandbox: `data` where it does not lie below the folder of the file."""
        return tuple(
            name
            for name in self.found
            if name in REACHING or (name == "data" and any(map(_lies_elsewhere, self.data)))
        )

    @property
    def api_key(self) -> str | None:
        """For `models.resolve`: empty where only the found file names the endpoint, which gets no key of the environment."""
        return "" if "base_url" in self.found else None


REACHING = frozenset(
    ("base_url", "out", "sandbox", "network", "tools", "mcp", "approve", "yes", "runs_size", "runtime")
)
"""Settings that reach out of the sandbox: who is told, what runs here, what is written or removed, what is allowed."""


def _lies_elsewhere(spec: str) -> bool:
    path = os.path.expanduser(spec.rpartition("=")[2])  # noqa: PTH111 - a user that is not known leaves it as it is
    return not Path(path).resolve().is_relative_to(Path.cwd())


_SETTINGS = [f for f in fields(Settings) if f.metadata]
KINDS: Mapping[str, Kind] = {f.name: f.metadata["kind"] for f in _SETTINGS}
HELP: Mapping[str, str] = {f.name: f.metadata["help"] for f in _SETTINGS}
DEFAULTS: Mapping[str, Any] = {f.name: f.default for f in _SETTINGS}


def flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def variable(name: str) -> str:
    return f"CODEACT_{name.upper()}"


def load(
    flags: Mapping[str, Any],
    environ: Mapping[str, str] = os.environ,
    folder: Path | None = None,
    recorded: Mapping[str, Any] | None = None,
) -> Settings:
    """Settings from `flags` (by field name; None where not given), `environ` and `folder`'s codeact.toml. `recorded` are
    those of a run that is carried on: only a flag beats them; its `found` is what a file gave then.

    Raises UsageError that names the flag, the variable, or the file and the key.
    """
    file = _from_file((folder or Path()) / FILE)
    variables = {
        name: _parsed(kind, variable(name), _separated(name, text))
        for name, kind in KINDS.items()
        if (text := environ.get(variable(name)))
    }
    kept = {name: value for name, value in (recorded or {}).items() if name in KINDS}
    given = {
        name: value
        if isinstance(value, bool)
        else _parsed(KINDS[name], flag(name), [value] if isinstance(value, str) else value)
        for name, value in flags.items()
        if value is not None and value != ()
    }
    values = file | variables | kept | given
    found = (
        file.keys() - variables.keys() - kept.keys() | {*(recorded or {}).get("found", ())}
    ) - given.keys()
    if "base_url" in found and _is_endpoint_of(environ, values.get("base_url", "")):
        found -= {"base_url"}
    return Settings(**values, found=tuple(name for name in KINDS if name in found))


def _is_endpoint_of(environ: Mapping[str, str], base_url: str) -> bool:
    from codeact.models.openai import OPENAI  # takes a second: where it is needed, it will be anyway

    return base_url.rstrip("/") == (environ.get("OPENAI_BASE_URL") or OPENAI).rstrip("/")


def remark(settings: Settings, environ: Mapping[str, str] = os.environ) -> str | None:
    """What to say of a found file before anything is done: one line with each setting of it that reaches out of the
    sandbox. None where there is none, or the person wants no lines."""
    if not settings.reaching or (settings.quiet and "quiet" not in settings.found):
        return None
    said = listed({name: getattr(settings, name) for name in settings.reaching})
    unkeyed = settings.api_key is not None and environ.get("OPENAI_API_KEY")
    mend = "; that endpoint gets no OPENAI_API_KEY unless you name it with --base-url" if unkeyed else ""
    return f"{FILE} sets {said}{mend}"


_SECRET_IN_ADDRESS = re.compile(r"(?<=//)[^/]*@|[?#].*", re.DOTALL)


def endpoint(url: str) -> str:
    """An address without what may be secret in it: a name with a password, and what follows its path."""
    return _SECRET_IN_ADDRESS.sub("", url)


def listed(values: Mapping[str, object]) -> str:
    """Settings that somebody else may have written, within a line."""
    return ", ".join(f"{name} = {_shown(name, value)}" for name, value in values.items())


def _shown(name: str, value: object) -> str:
    """A value of a file, which may be made to deceive, within a line; of an address without what may be secret in it."""
    if name == "base_url":
        value = endpoint(str(value))
    text = _toml(
        list(value) if isinstance(value, tuple) else str(value) if isinstance(value, Path) else value
    )
    return text if text.isprintable() else ascii(text)


def _separated(name: str, text: str) -> list[str]:
    """The values in a variable."""
    if name == "data":
        return text.split(os.pathsep)
    return text.split() if name in ("pip", "tools", "tools_off") else [text]


def _parsed(kind: Kind, where: str, texts: list[str]) -> Any:
    try:
        values = [kind.parse(text) for text in texts]
    except ValueError as error:
        raise UsageError(f"{where}: {error}") from None
    return tuple(values) if kind.many else values[-1]


def _from_file(path: Path) -> dict[str, Any]:
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}; mend or remove it") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path}: is not UTF-8 text; save it as such") from None
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path}: is not TOML: {error}; mend that line") from None
    return {key: _from_toml(f"{path}: {key}", key, value) for key, value in table.items()}


def _from_toml(where: str, key: str, value: object) -> Any:
    if key not in KINDS:
        raise UsageError(f"{where}: unknown key; {_meant(key)}")
    kind = KINDS[key]
    items = value if kind.many and isinstance(value, list) else [value]
    for item in items:
        if not isinstance(item, kind.types) or isinstance(item, bool) != (kind is SWITCH):
            raise UsageError(f"{where}: {_toml(item)} is of the wrong type; write {_example(key, kind)}")
    return _parsed(kind, where, [str(item) for item in items])


def _meant(key: str) -> str:
    close = get_close_matches(key, KINDS, 1)
    return f"did you mean {close[0]}?" if close else f"known are {', '.join(KINDS)}"


def _toml(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else repr(value)[:60]


def _example(key: str, kind: Kind) -> str:
    if kind is SWITCH:
        return f"{key} = true"
    if kind.many:
        return f'{key} = ["{kind.metavar}"]'
    default = DEFAULTS[key]
    return (
        f"{key} = {default:g}" if isinstance(default, int | float) else f'{key} = "{default or kind.metavar}"'
    )
