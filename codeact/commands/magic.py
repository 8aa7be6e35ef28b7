"""`%%codeact`: a cell of a notebook whose text is the task, with the flags of the command line on its first line."""

from __future__ import annotations

import keyword
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from codeact import data
from codeact.cli import explained, usage_line
from codeact.commands.invocation import load_settings
from codeact.commands.solve import make_agent, mcp_servers, prepare_out, read_schema, settings_options
from codeact.errors import UsageError
from codeact.paths import exists
from codeact.views import notebook

LEFT_OUT = ("json", "debug")
"""What means something at a terminal only."""


class MagicError(Exception):
    """What went wrong, as one line: a notebook shows no traceback of it, and goes no further."""

    def _render_traceback_(self) -> list[str]:
        return [f"codeact: error: {self}"]


def load(shell: Any) -> None:
    """Gives a notebook, or any IPython, the magic."""
    shell.register_magic_function(_magic(shell), magic_kind="cell", magic_name="codeact")


def _magic(shell: Any) -> Callable[[str, str], None]:
    def codeact(line: str, cell: str) -> None:
        """%%codeact --data df --model gpt-5-mini --out totals

        The cell is the task. --data takes variables of the notebook by name, and all that it takes at a terminal; --out names
        the variable for the result, which is `result` otherwise. %%codeact --help lists the other flags.
        """
        try:
            _command(cell, shell.user_ns).main(_words(line), prog_name="%%codeact", standalone_mode=False)
        except click.ClickException as error:
            raise MagicError(usage_line(error).replace("`codeact`", "`%%codeact`")) from None
        except click.Abort as abort:
            stopped = abort.__cause__  # with what is to be shown of it, where it is ours
            raise (stopped if isinstance(stopped, KeyboardInterrupt) else KeyboardInterrupt()) from None
        except Exception as error:  # noqa: BLE001 - the last line of defence: a line, not a traceback
            raise MagicError(explained(error)) from None

    return codeact


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError as error:
        raise UsageError(f"%%codeact {line}: {str(error).lower()}; close the quotation") from None


def _command(task: str, variables: dict[str, Any]) -> click.Command:
    @click.command(help="The cell is the task.")
    @click.option("--out", "name", default="result", metavar="NAME", help="the variable for the result")
    @click.option("--files", "out", metavar="DIR", help="the folder for files that the run hands over")
    @settings_options("out", *LEFT_OUT)
    def command(name: str, **flags: Any) -> None:
        if not name.isidentifier() or keyword.iskeyword(name):
            raise UsageError(f"--out {name}: is not the name of a variable; write for example --out totals")
        settings = load_settings(flags)
        given = inputs(settings.data, variables)
        schema = read_schema(settings.output_schema)
        out = prepare_out(settings.out)
        with mcp_servers(settings) as servers:
            agent = make_agent(settings, schema, out, None, servers, 0, notebook.progress)
            variables[name] = agent.run(task, given)

    return command


def inputs(specs: Sequence[str], variables: Mapping[str, Any]) -> dict[str, Any]:
    """What `--data` names: variables by `NAME` or `OTHER=NAME`, else files as at a terminal. Raises UsageError."""
    values: dict[str, Any] = {}
    files: list[str] = []
    for spec in specs:
        name, _, variable = spec.rpartition("=")
        if data.reads_stdin(spec):
            raise UsageError(f"--data {spec}: a notebook has no standard input; name a variable or a file")
        if variable in variables and (name.isidentifier() or not name):
            _free(name or variable, values)
            values[name or variable] = variables[variable]
        elif spec.isidentifier() and not exists(spec):
            raise UsageError(
                f"--data {spec}: is neither a variable of this notebook nor a file; check the name"
            )
        else:
            files.append(spec)
    collected = data.collect(files, sys.stdin.buffer, Path())
    for name in collected:
        _free(name, values)
    return values | collected


def _free(name: str, values: Mapping[str, Any]) -> None:
    if name in values:
        raise UsageError(
            f"--data: {name} is there twice; call one of them differently, as in --data OTHER=NAME"
        )
