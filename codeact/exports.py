"""A recorded run in other forms: a notebook, one HTML page, its events."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from codeact import events, journal
from codeact.errors import UsageError
from codeact.views import recorded, story

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
    told = story.tell(events.standing(recorded.events_of(lines)))
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
    with _replaced(target) as half:
        half.write_text(content, encoding="utf-8", errors="replace")


@contextmanager
def _replaced(target: Path) -> Iterator[Path]:
    """A file beside `target` that takes its place at the end."""
    half = None
    try:
        number, name = tempfile.mkstemp(dir=target.absolute().parent, prefix=f".{target.name}.")
        os.close(number)
        half = Path(name)
        yield half
        half.chmod(0o666 & ~_umask())
        half.replace(target)
    except OSError as error:
        if half is not None:
            half.unlink(missing_ok=True)
        reason = (error.strerror or str(error)).lower()
        raise UsageError(f"{target}: cannot be written: {reason}; name another file with -o") from error


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
