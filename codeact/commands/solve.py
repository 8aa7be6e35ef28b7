"""`codeact solve`: one task, to an answer."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from codeact import config, data
from codeact.commands.invocation import INTERRUPTED, Invocation, as_json, outcome, put, result_code, say
from codeact.config import Settings
from codeact.errors import UsageError

if TYPE_CHECKING:
    from codeact.agent import Agent
    from codeact.types import Result
    from codeact.views.console import View


def settings_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """A flag for each setting; values stay as written, for `config.load` to read."""
    for name in reversed(config.KINDS):
        kind = config.KINDS[name]
        switch = kind is config.SWITCH
        option = click.option(
            config.flag(name),
            name,
            is_flag=switch,
            default=None,
            multiple=kind.many,
            metavar=None if switch else kind.metavar,
            help=_help(name),
        )
        command = option(command)
    return command


def _help(name: str) -> str:
    default = config.DEFAULTS[name]
    shown = f" (default: {default:g})" if isinstance(default, float | int) and not isinstance(default, bool) else ""
    return config.HELP[name] + (f" (default: {default})" if isinstance(default, str) else shown)


@click.command(epilog="Each flag can be set in codeact.toml (max_turns = 5) and as a variable (CODEACT_MAX_TURNS=5); a flag beats the variable, which beats the file.")
@click.argument("task")
@settings_options
@click.pass_obj
def solve(invocation: Invocation, task: str, **flags: Any) -> int:
    """Solve one TASK: its answer goes to standard output, all else to standard error.

    TASK is the text itself, @FILE to read it from a file, or - to read it from standard input.
    """
    settings = config.load(flags)
    invocation.json, invocation.debug = settings.json, settings.debug
    with tempfile.TemporaryDirectory(prefix="codeact-") as scratch:
        return _solve(task, settings, Path(scratch))


def _solve(task: str, settings: Settings, scratch: Path) -> int:
    text = read_task(task, settings)
    schema = read_schema(settings.output_schema)
    inputs = data.collect(settings.data, sys.stdin.buffer, scratch)
    out = prepare_out(settings.out)
    with _view(settings) as view:
        agent = _agent(settings, schema, out, view)
        with _signals(agent, view) as stopped:
            result = agent.run(text, inputs, observers=[view] if view else [])
    _print(result, settings)
    return stopped.code or result_code(result)
