"""The report of a run: `summary.md`, `summary.json`, one HTML page, and each plot with its table."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import math
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.analysis import Analysis, analyse
from benchmarks.report.page import page
from benchmarks.report.plots import plots
from benchmarks.report.words import caption, markdown
from benchmarks.store import REPORT, Store, write


def write_report(store: Store) -> str:
    """Writes the folder `report` of a run anew; the Markdown of it. Raises UsageError where there is no run."""
    about, found = _analysed(store)
    drawn = plots(found)
    text = markdown(about, found)
    files = {
        "summary.md": text,
        "summary.json": json.dumps(summary(about, found), indent=1, ensure_ascii=False) + "\n",
        "report.html": page(about, found, drawn),
        **{f"tables/{plot.name}.csv": _csv(plot.columns, plot.rows) for plot in drawn},
        **{
            f"plots/{plot.name}.svg": plot.canvas.svg(caption(about, found)) + "\n"
            for plot in drawn
            if plot.canvas is not None
        },
    }
    with store.reporting():
        _replace(store.folder / REPORT, files)
    return text


def page_of(store: Store) -> str:
    """The page of a report, of the run as it is now. Raises UsageError where there is no run."""
    about, found = _analysed(store)
    return page(about, found, plots(found))


def _analysed(store: Store) -> tuple[dict[str, Any], Analysis]:
    about = store.about()
    model = about["frozen"]["model"]
    others = {made.model for made in store.lines()} - {model, ""}
    about |= {"other_models": sorted(others), "unread_lines": store.unread}
    return about, analyse(store.attempts(model), about["plan"]["arms"])


def summary(about: Mapping[str, Any], found: Analysis) -> dict[str, Any]:
    """All figures, as JSON."""
    told = dataclasses.asdict(dataclasses.replace(found, kept=()))
    del told["kept"]
    return _finite({"run": about["run"], "started": about["started"], "frozen": about["frozen"], **told})  # type: ignore[no-any-return]


def _finite(value: Any) -> Any:
    """What JSON has no number for becomes null."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {key: _finite(each) for key, each in value.items()}
    return [_finite(each) for each in value] if isinstance(value, list | tuple) else value


def _csv(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(columns)
    table.writerows(rows)
    return text.getvalue()


def _replace(folder: Path, files: Mapping[str, str]) -> None:
    """These files, and no others, in a folder that is never half written."""
    made, old = (folder.with_name(f".{folder.name}.{each}") for each in ("part", "old"))
    for each in (made, old):
        shutil.rmtree(each, ignore_errors=True)
    try:
        for name, content in files.items():
            write(made / name, content)
    except OSError:
        shutil.rmtree(made, ignore_errors=True)
        raise
    if folder.exists():
        folder.rename(old)
    made.rename(folder)
    shutil.rmtree(old, ignore_errors=True)


__all__ = ["page_of", "summary", "write_report"]
