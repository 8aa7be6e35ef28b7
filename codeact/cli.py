"""The command line: arguments to commands, errors to one line and an exit code."""

from __future__ import annotations

import io
import os
import signal
import sys
import traceback
from collections.abc import Sequence

import click

from codeact import __version__
from codeact.commands.chat import chat
from codeact.commands.doctor import doctor
from codeact.commands.export import export
from codeact.commands.gc import gc
from codeact.commands.group import Commands, Stopped, meant
from codeact.commands.image import image
from codeact.commands.invocation import (
    ENDING,
    INTERRUPTED,
    USAGE,
    Invocation,
    as_json,
    exit_code,
    fail,
    outcome,
    put,
)
from codeact.commands.model import model
from codeact.commands.resume import replay, resume
from codeact.commands.runs import runs, show
from codeact.commands.solve import solve
from codeact.config import YES, flag, variable
from codeact.errors import CodeActError


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="codeact", message="%(prog)s %(version)s")
def cli() -> None:
    """An agent that answers questions by writing Python, run in a hardened container.

    Example: codeact solve "Which region grew most?" --data sales.csv
    """


for command in (solve, chat, image, model, doctor, gc, resume, runs, show, export, replay):
    cli.add_command(command)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; its exit code. Only `--debug` shows tracebacks."""
    given = sys.argv[1:] if arguments is None else arguments
    words = [word for word in given if word != flag("debug")]  # any command may be asked for it
    prepare_streams()
    prepare_signals()
    invocation = Invocation(
        json=words[:1] in (["solve"], ["chat"], ["resume"]) and _switched_on("json", words),
        debug=_switched_on("debug", given),
    )
    try:
        code = cli.main(words, prog_name="codeact", standalone_mode=False, obj=invocation)
        sys.stdout.flush()
    except (Stopped, click.Abort) as error:
        code = _fail(invocation, str(error) or "interrupted", INTERRUPTED, "interrupted")
    except click.ClickException as error:
        code = _fail(invocation, usage_line(error), USAGE)
    except Exception as error:  # noqa: BLE001 - the last line of defence: a line, not a traceback
        if invocation.debug:
            traceback.print_exc()
        code = _fail(invocation, explained(error), exit_code(type(error).__name__))
    return code if isinstance(code, int) else 0


def _switched_on(name: str, words: Sequence[str]) -> bool:
    """Whether a switch was asked for, as far as can be told before the words are understood."""
    return flag(name) in words or os.environ.get(variable(name), "").lower() in YES


def _fail(invocation: Invocation, message: str, code: int, status: str = "failed") -> int:
    fail(message)
    if invocation.json:
        try:
            put(as_json(outcome(None, " ".join(message.split()), status)))
        except CodeActError as error:
            fail(str(error))
    return code


def explained(error: Exception) -> str:
    """An error that is no usage error, as one line."""
    from sandbox.errors import SandboxError
    from sandbox.text import clean

    if isinstance(error, CodeActError | SandboxError):
        return clean(str(error))
    return f"internal: {type(error).__name__}: {clean(str(error))}; run it again with --debug, and report what it shows"


def usage_line(error: click.ClickException) -> str:
    """An error of the arguments, as one line with its mend."""
    help_hint = "see `codeact --help`"
    if isinstance(error, click.UsageError) and error.ctx is not None:
        help_hint = f"see `{error.ctx.command_path} --help`"
    match error:
        case click.NoSuchOption():
            known = [name for p in error.ctx.command.params for name in p.opts] if error.ctx else []
            return f"{error.option_name}: no such option; {meant(error.option_name, known) if known else help_hint}"
        case click.MissingParameter() if isinstance(error.param, click.Option):
            return f"{error.param.opts[-1]}: is missing; {help_hint}"
        case click.MissingParameter() if error.param is not None:
            return f"{error.param.make_metavar(error.ctx) if error.ctx else error.param.name}: is missing; {help_hint}"
        case click.BadParameter() if error.param is not None:
            return f"{error.param.opts[-1]}: {error.message.rstrip('.')}; {help_hint}"
        case click.BadOptionUsage():
            return f"{error.option_name}: {error.message.rstrip('.')}; {help_hint}"
    if isinstance(error, click.UsageError) and "extra argument" in error.message and _takes_task(error.ctx):
        help_hint = f"put the task in quotes, or {help_hint}"
    return f"{error.message.rstrip('.')}; {help_hint}"


def _takes_task(ctx: click.Context | None) -> bool:
    return ctx is not None and any(param.name == "task" for param in ctx.command.params)


def prepare_streams() -> None:
    """Text is UTF-8 on standard output, and never fails to be encoded on standard error. A closed stream is empty, or a
    sink."""
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115 - open as long as the process
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - open as long as the process
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="replace")
    if isinstance(sys.stderr, io.TextIOWrapper):
        sys.stderr.reconfigure(errors="backslashreplace")


def prepare_signals() -> None:
    """A signal to end is met as Ctrl-C is, so that what a command holds is removed; an ignored one stays ignored."""
    for number in ENDING:
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, signal.default_int_handler)


if __name__ == "__main__":
    sys.exit(main())
