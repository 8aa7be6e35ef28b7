"""A group of commands that meets an unknown one with the nearest known, and Ctrl-C with an error like any other."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

import click

from codeact.errors import CodeActError, UsageError


class Stopped(CodeActError):
    """A command was ended by a signal before it was done."""


class Commands(click.Group):
    """Raises UsageError for a command that is unknown or missing, and Stopped."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args:
            known = ", ".join(self.list_commands(ctx))
            raise UsageError(f"a command is missing; known are {known}; see `{ctx.command_path} --help`")
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            raise UsageError(f"{name!r}: no such command; {meant(name, self.list_commands(ctx))}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise Stopped("interrupted: the command was ended; start it again") from None
        except (
            BrokenPipeError
        ) as error:  # click takes each for that of standard output, which `put` has seen to
            raise CodeActError(
                "a connection to the engine or the model broke; start the command again"
            ) from error


def meant(word: str, known: Sequence[str]) -> str:
    """The known word that is nearest, or all of them."""
    close = get_close_matches(word, known, 1)
    return f"did you mean {close[0]}?" if close else f"known are {', '.join(known)}"
