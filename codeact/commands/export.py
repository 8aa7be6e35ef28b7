"""`codeact export`: a run as a notebook, a page, or its events."""

from __future__ import annotations

from pathlib import Path

import click

from codeact.commands.invocation import as_json, put, say
from codeact.commands.runs import find
from codeact.errors import UsageError

FORMS = ("ipynb", "html", "jsonl")


@click.command()
@click.argument("run", required=False)
@click.option(
    "--to", "form", type=click.Choice(FORMS), help="the form (default: by the ending of -o, else html)"
)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="where to (default: RUN.html and the like, here); - is standard output",
)
@click.option("--schema", is_flag=True, help="print the JSON Schema of an event, and no run")
def export(run: str | None, form: str | None, output: str | None, schema: bool) -> int:
    """Write RUN as a notebook, as one HTML page, or as its events."""
    from codeact import exports, journal

    if schema:
        put(as_json(journal.line_schema(), indent=1))
        return 0
    if run is None:
        raise UsageError("RUN: is missing; name one of `codeact runs`")
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
