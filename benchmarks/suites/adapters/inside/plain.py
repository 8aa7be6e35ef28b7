"""What the suites have in common."""

from __future__ import annotations

import hashlib
import importlib
import json
import math
import sys
from pathlib import Path
from typing import Any


class NotACopy(Exception):
    """The path is not what was expected."""


def as_json(value: Any, inside: tuple[int, ...] = ()) -> Any:
    """JSON of anything: objects as their public attributes, what holds itself cut short."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if id(value) in inside:
        return "(itself)"
    inside = (*inside, id(value))
    if isinstance(value, dict):
        return {str(key): as_json(each, inside) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_json(each, inside) for each in value]
    if isinstance(value, (set, frozenset)):
        return sorted((as_json(each, inside) for each in value), key=str)
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if hasattr(value, "__dict__"):
        return {key: as_json(each, inside) for key, each in vars(value).items() if not key.startswith("_")}
    return str(value)


def digest(value: Any) -> str:
    """Of a state, which may be megabytes."""
    return hashlib.sha256(json.dumps(as_json(value), sort_keys=True).encode()).hexdigest()


def imported(name: str, root: Path, package: str = "") -> Any:
    sys.path.insert(0, str(root))
    try:
        return importlib.import_module(name)
    except ImportError as error:
        where = f"{package} with " if package else ""
        raise NotACopy(
            f"{name} cannot be imported by {sys.executable} ({error}); install {where}its requirements in PATH/.venv"
        ) from error


def jsonl(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def json_schema(told: Any) -> Any:
    """Their schemas, with the types that JSON Schema has."""
    kinds = {
        "dict": "object",
        "float": "number",
        "tuple": "array",
        "list": "array",
        "bool": "boolean",
        "int": "integer",
        "str": "string",
    }
    if isinstance(told, list):
        return [json_schema(each) for each in told]
    if not isinstance(told, dict):
        return told
    made = {key: json_schema(each) for key, each in told.items()}
    if isinstance(made.get("type"), str):
        made["type"] = kinds.get(made["type"], made["type"])
        if made["type"] == "any":
            del made["type"]
    return made
