"""Two runs of the same suite beside one another."""

from __future__ import annotations

import math
from collections.abc import Iterator

from benchmarks import stats
from benchmarks.analysis import MEASURES, Paired, paired, ratio_of
from benchmarks.attempts import Attempt
from benchmarks.report.plot import percent, points
from benchmarks.report.words import counted, p_said, ratio, spread
from benchmarks.store import Store, differences
from codeact.errors import UsageError

MOST_CHANGED = 20


def compared(before: Store, after: Store) -> str:
    """What the second run does better or worse than the first, arm by arm, over the tasks that both have, as Markdown.

    Raises UsageError for runs of different suites.
    """
    one, other = before.about(), after.about()
    suites = [(each["frozen"]["suite"], each["frozen"]["split"]) for each in (one, other)]
    if suites[0] != suites[1]:
        raise UsageError(
            f"{after.folder}: is a run of {' '.join(suites[1])}, {before.folder} one of {' '.join(suites[0])}; compare runs of one suite"
        )
    lines = [f"# {after.folder.name} against {before.folder.name}", ""]
    changed = differences(one["frozen"], other["frozen"])
    lines += [f"- {each}" for each in changed] or ["The configurations are the same."]
    if one["frozen"].get("suite_hash") != other["frozen"].get("suite_hash"):
        lines += ["", "The suites differ: tasks with the same name may ask for something else."]
    old, new = (store.attempts(each["frozen"]["model"]) for store, each in ((before, one), (after, other)))
    arms = [arm for arm in dict.fromkeys(made.arm for made in old) if arm in {made.arm for made in new}]
    if not arms:
        raise UsageError(f"{before.folder} and {after.folder} have no arm in common")
    for arm in arms:
        pairs = paired(_scored(new, arm), _scored(old, arm))
        lines += ["", f"## {arm}", "", *_arm(pairs)]
    return "\n".join(lines)


def _scored(attempts: list[Attempt], arm: str) -> list[Attempt]:
    return [made for made in attempts if made.arm == arm and made.scored]


def _arm(pairs: list[Paired]) -> Iterator[str]:
    if not pairs:
        yield "No task has a verdict in both runs."
        return
    made = stats.difference([pair.difference for pair in pairs], [pair.template for pair in pairs])
    shares = [
        sum(sum(bool(m.success) for m in side) / len(side) for side in sides) / len(pairs)
        for sides in ([pair.theirs for pair in pairs], [pair.ours for pair in pairs])
    ]
    yield (
        f"Success over {counted(len(pairs), 'task')}: {percent(shares[0])} → {percent(shares[1])}, "
        f"{spread(made.interval(), points)} points, {p_said(made.p_value(0.0))}."
    )
    yield ""
    yield "| after over before | all tasks | tasks that both solve |"
    yield "|---|---|---|"
    for measure in MEASURES:
        found = ratio_of(measure, pairs)
        if found.all is not None and math.isfinite(found.all.estimate):
            yield f"| {measure} | {spread(found.all, ratio)} | {spread(found.solved, ratio)} |"
    for words, sign in (("Worse", -1), ("Better", 1)):
        names = [pair.task for pair in pairs if pair.difference * sign > 0]
        if names:
            more = f" and {len(names) - MOST_CHANGED} more" if len(names) > MOST_CHANGED else ""
            yield ""
            yield f"{words}: {', '.join(names[:MOST_CHANGED])}{more}."
