"""What `run.json` holds: the fields that are read of it, each of the type that it is read as."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jsonschema

_TEXT, _NUMBER, _WHOLE = {"type": "string"}, {"type": "number"}, {"type": "integer"}


def _maybe(form: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"type": [form["type"], "null"]}


def _object(required: str = "", **fields: Any) -> dict[str, Any]:
    return {"type": "object", "required": required.split(), "properties": fields}


def _each(form: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": form}


def _list(form: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": form}


FORM = _object(
    "run started frozen plan",
    run=_TEXT,
    started=_TEXT,
    frozen=_object(
        "suite split model",
        suite=_TEXT,
        split={"enum": ["dev", "test"]},
        model=_TEXT,
        suite_versions=_list(_TEXT),
        suite_hash=_TEXT,
        seed=_maybe(_WHOLE),
        limits=_each(_maybe(_NUMBER)),
        sampling=_each(_maybe(_NUMBER)),
        prompts=_each(_TEXT),
        prices=_TEXT,
        commit=_maybe(_TEXT),
        codeact=_TEXT,
    ),
    plan=_object("arms", arms=_list(_TEXT), path=_maybe(_TEXT)),
    arms={"type": "object"},
    prompt_texts=_each(_TEXT),
    prompt_date=_maybe(_TEXT),
    machine=_object(python=_TEXT, system=_TEXT, processors=_maybe(_WHOLE)),
    providers=_list(_TEXT),
    drift=_list(_object("at changes", at=_TEXT, changes=_list(_TEXT))),
    last=_object("attempts seconds jobs", attempts=_WHOLE, seconds=_NUMBER, jobs=_WHOLE),
)
_VALIDATOR = jsonschema.Draft202012Validator(FORM)


def damage(found: Any) -> str | None:
    """What is not as it should be in a `run.json`, in words; None where all is."""
    error = jsonschema.exceptions.best_match(_VALIDATOR.iter_errors(found))
    if error is None:
        return None
    return f"{error.json_path.removeprefix('$').removeprefix('.') or 'all'}: {error.message[:200]}"
