"""Flags that come from a file: the `-c FILE` of `run`, and what `run.json` says was asked for last."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

LISTS = ("arms", "categories")
"""Flags that take words with commas between: in a file, an array of words too."""


def from_toml(ctx: click.Context, parameter: click.Parameter, path: Path | None) -> None:
    """`-c FILE`: a TOML file whose keys are the names of flags; flags beat it."""
    if path is None:
        return
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise click.UsageError(f"{path}: cannot be read as TOML: {error.strerror}; check the path") from error
    except ValueError as error:
        raise click.UsageError(f"{path}: cannot be read as TOML: {error}") from error
    ctx.default_map = defaults(ctx.command, given, str(path))


def defaults(command: click.Command, given: Mapping[str, Any], where: str) -> dict[str, Any]:
    """What a file gives for the flags of a command, by parameter. Raises click.UsageError, which names `where`, for what is no
    flag, is there twice, or is of another type than its flag."""
    known = {
        name: each
        for each in command.params
        if each.expose_value
        for name in (each.name or "", max(each.opts, key=len).lstrip("-"))
    }
    found: dict[str, Any] = {}
    for name, value in given.items():
        if name not in known:
            said = ", ".join(sorted(each for each in known if "_" not in each))
            raise click.UsageError(f"{where}: there is no setting {name!r}; there are {said}")
        parameter = known[name]
        assert parameter.name is not None
        if parameter.name in found:
            raise click.UsageError(f"{where}: {name} is there twice, under two names; keep one")
        if not isinstance(value, str) and parameter.name in LISTS and _is(value, list):
            value = ",".join(value)
        kind, form = _form(parameter)
        if not _is(value, kind):
            raise click.UsageError(f"{where}: {name} is {str(value)[:60]!r}; write {form}")
        found[parameter.name] = value
    return found


def _form(parameter: click.Parameter) -> tuple[type, str]:
    """What a value in a file is, and how to write it."""
    if parameter.multiple:
        return list, 'an array of texts, such as ["a", "b"]'
    match parameter.type:
        case click.types.BoolParamType():
            return bool, "true or false"
        case click.types.IntParamType():
            return int, "a whole number"
        case click.types.FloatParamType():
            return float, "a number"
    return str, 'a text, such as "a"'


def _is(value: Any, kind: type) -> bool:
    if isinstance(value, bool) or kind is bool:
        return isinstance(value, bool) and kind is bool
    if kind is list:
        return isinstance(value, list) and all(isinstance(each, str) for each in value)
    return isinstance(value, int | float if kind is float else kind)
