"""Lines of Python that read a file: written, executed here, and offered only when they do what they should."""

import contextlib
import io
import warnings
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Line:
    """``code`` assigns ``name``; ``imports`` are the modules it uses."""

    code: str
    imports: tuple[str, ...] = ()

    def text(self) -> str:
        names = [f"{name} as pd" if name == "pandas" else name for name in dict.fromkeys(self.imports)]
        return (f"import {', '.join(names)}; " if names else "") + self.code


def call(function: str, *arguments: str, **options: Any) -> str:
    """Source of a call: arguments are source already, options are written with repr."""
    return f"{function}({', '.join([*arguments, *(f'{key}={value!r}' for key, value in options.items())])})"


def execute(line: Line, name: str | None = "df") -> Any:
    """Runs the line and returns what it assigned, or without a name all that it did. Raises what the line raises."""
    space: dict[str, Any] = {}
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        warnings.simplefilter("ignore")
        exec(compile(line.text(), "<read>", "exec"), space)  # noqa: S102 - our own text, and this is the sandbox
    return space if name is None else space[name]


def reason(error: BaseException) -> str:
    """One short line for an exception."""
    words = " ".join(str(error).split())
    return f"{type(error).__name__}: {words[:150]}" if words else type(error).__name__
