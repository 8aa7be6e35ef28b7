"""What came of a run, as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def markdown(made: Sequence[dict[str, Any]]) -> str:
    """A table of attempts and their sums."""
    rows = [
        "| task | right | answer | calls | tokens | seconds | ended |",
        "|---|---|---|---|---|---|---|",
    ]
    for one in made:
        right = {True: "yes", False: "no", None: "not scored"}[one["success"]]
        tokens = f"{one['prompt_tokens']}+{one['completion_tokens']}"
        rows.append(
            f"| {one['task']} | {right} | {_cell(one['answer'])} | {one['llm_calls']} | {tokens} "
            f"| {one['wall_s']:.1f} | {one['stop_reason']} |"
        )
    scored = [one for one in made if one["success"] is not None]
    right_count = sum(one["success"] for one in scored)
    rows += ["", f"{right_count} of {len(scored)} right" + _not_scored(len(made) - len(scored))]
    if scored:
        calls = sum(one["llm_calls"] for one in scored) / len(scored)
        seconds = sum(one["wall_s"] for one in scored) / len(scored)
        rows.append(
            f"{calls:.1f} model calls and {seconds:.0f} s a task on average; model {scored[0]['model']}"
        )
    return "\n".join(rows)


def _not_scored(count: int) -> str:
    return f"; {count} not scored, because the infrastructure failed" if count else ""


def _cell(value: object) -> str:
    text = " ".join(str(value).split()).replace("|", "\\|")
    return text if len(text) <= 40 else f"{text[:40]}…"
