"""A recorded run in other forms: a notebook, one HTML page, its events."""

from __future__ import annotations

import json
from pathlib import Path

from codeact import events, journal
from codeact.errors import UsageError
from codeact.views import recorded, story
from sandbox.held import replacing, sweep_parts

FORMS = {"ipynb": ".ipynb", "html": ".html", "jsonl": ".jsonl"}
"""What a run can be written as, and how such a file ends."""


def text(run: Path, form: str, beside: Path) -> str:
    """A run, given by its folder or file, as the text of a file that will lie in the folder `beside`.

    Raises UsageError where there is no run, or none that began.
    """
    folder = run if run.is_dir() else run.parent
    lines = list(journal.read(run))
    if not lines:
        raise UsageError(f"{run}: holds no event; the run ended before it began")
    if form == "jsonl":
        return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    standing = events.standing(recorded.events_of(lines))
    if not any(isinstance(event, events.RunStarted) for event in standing):
        raise UsageError(f"{run}: no task was done yet, or all were undone; do one first")
    told = story.tell(standing)
    if form == "ipynb":
        import nbformat

        from codeact.views import ipynb

        return f"{nbformat.writes(ipynb.notebook(told, folder, beside))}\n"
    from codeact.views import report

    return report.render(told, folder)


def save(run: Path, target: Path) -> None:
    """As `write`, in the form that the file's ending names. Raises UsageError."""
    form = next((form for form, ending in FORMS.items() if ending == target.suffix), None)
    if form is None:
        raise UsageError(
            f"{target}: ends in none of {', '.join(FORMS.values())}; give it the ending of what it is to be"
        )
    write(run, form, target)


def write(run: Path, form: str, target: Path) -> None:
    """Writes a run to a file, whole or not at all. Raises UsageError."""
    content = text(run, form, target.absolute().parent)
    try:
        with replacing(target) as file:
            file.write(content.encode("utf-8", "replace"))
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UsageError(f"{target}: cannot be written: {reason}; name another file") from error
    sweep_parts(target.absolute().parent)  # of an export that was killed here
