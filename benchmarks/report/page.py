"""The report as one HTML page that asks nothing of any other place."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any

from jinja2 import Environment
from markupsafe import Markup

from benchmarks.analysis import Analysis
from benchmarks.report import words
from benchmarks.report.plot import Plot, percent, points
from benchmarks.report.svg import STYLE
from codeact.views.markup import templates

MOST_ROWS = 2000
"""Of one table on the page; the CSV files hold all."""
MOST_FAILURES = 200


def rendered(template: str, **values: Any) -> str:
    """A page of ours: what is given is text, and inert in it."""
    style = _asset("page.css") + STYLE
    hashed = "sha256-" + base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return _environment().get_template(template).render(style=Markup(style), style_hash=hashed, **values)


def page(about: Mapping[str, Any], found: Analysis, drawn: Sequence[Plot]) -> str:
    return rendered(
        "page.html",
        title=f"{about['frozen']['suite']} with {about['frozen']['model']}",
        headline=words.headline(found),
        caption=words.caption(about, found),
        figures=found.figures,
        percent=percent,
        arms=words.arms_table(found),
        more=words.more_table(found),
        pairings=[
            {
                "title": f"{each.ours} against {each.theirs}",
                "success": words.spread(each.difference, points),
                "tasks": words.counted(each.tasks, "task"),
                "clusters": words.counted(each.clusters, "template"),
                "hypotheses": words.hypotheses_table(each),
                "ratios": words.ratios_table(each),
                "categories": words.categories_table(each) if each.categories else None,
            }
            for each in found.pairings
        ],
        plots=[_plot(each) for each in drawn],
        notes=words.notes(about, found),
        method=words.method(),
        settings=words.settings_table(about, found),
        prompts=about.get("prompt_texts", {}),
        failures=(failures := words.failures(found)),
        failed=words.counted(len(failures), "attempt"),
        most_failures=MOST_FAILURES,
    )  # fmt: skip


def _plot(plot: Plot) -> dict[str, Any]:
    return {
        "name": plot.name,
        "title": plot.title,
        "reading": plot.reading,
        "missing": plot.missing,
        "svg": Markup(plot.canvas.svg()) if plot.canvas else None,
        "columns": plot.columns,
        "rows": plot.rows[:MOST_ROWS],
        "left_out": max(0, len(plot.rows) - MOST_ROWS),
    }


def _asset(name: str) -> str:
    return resources.files("benchmarks.report").joinpath(name).read_text(encoding="utf-8")


@cache
def _environment() -> Environment:
    environment = templates("benchmarks.report", ".")
    environment.filters["shown"] = _shown
    environment.tests["numeric"] = lambda value: isinstance(value, int | float)
    return environment


def _shown(value: Any) -> str:
    if value is None:
        return "–"
    return (
        f"{value:,}"
        if isinstance(value, int)
        else f"{value:,.4g}"
        if isinstance(value, float)
        else str(value)
    )
