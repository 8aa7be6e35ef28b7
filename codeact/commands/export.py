"""`codeact export`: a run as a notebook, a page, or its events."""

from __future__ import annotations

from pathlib import Path

import click

from codeact.commands.invocation import put, say
from codeact.commands.runs import find

FORMS = ("ipynb", "html", "jsonl")


@click.command()
@click.argument("run")
@click.option(
    "--to", "form", type=click.Choice(FORMS), help="the form (default: by the ending of -o, else html)"
)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="where to (default: RUN.html and the like, here); - is standard output",
)
def export(run: str, form: str | None, output: str | None) -> int:
    """Write RUN as a notebook, as one HTML page to look at and to send, or as its events."""
    from codeact import exports

    found = find(run)
    ending = Path(output).suffix if output else ""
    form = form or next((name for name, end in exports.FORMS.items() if end == ending), "html")
    if output == "-":
        put(exports.text(found, form, Path.cwd()).rstrip("\n"))
        return 0
    name = found.name if found.is_dir() else found.stem
    target = Path(output or name + exports.FORMS[form])
    exports.write(found, form, target)
    say(str(target))
    return 0
