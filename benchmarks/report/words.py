"""What a run came to, in words and tables: the same text for the terminal, `summary.md` and the page."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from benchmarks import stats
from benchmarks.analysis import Analysis, ArmFigures, Hypothesis, Pairing, Ratio
from benchmarks.report.plot import percent, points
from benchmarks.stats import Interval

CHARACTERS_PER_TOKEN = 4
MOST_SERVED = 5
CLAIM = 5
"""Repeats that a published claim needs."""
Table = tuple[tuple[str, ...], list[tuple[str, ...]]]
"""Heads, and rows of words."""


def spread(interval: Interval | None, show: Callable[[float], str]) -> str:
    if interval is None:
        return "–"
    if interval.low is None or interval.high is None:
        return show(interval.estimate)
    return f"{show(interval.estimate)} [{show(interval.low)}, {show(interval.high)}]"


def ratio(value: float) -> str:
    return f"{value:.2f}"


def p_value(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def p_said(value: float) -> str:
    """As a part of a sentence."""
    return f"p {'' if value < 0.001 else '= '}{p_value(value)}"


def counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _number(value: float | None, form: str = ",.0f") -> str:
    return "–" if value is None else format(value, form)


def caption(about: Mapping[str, Any], found: Analysis) -> str:
    """What every figure is of."""
    frozen = about["frozen"]
    return (
        f"n = {counted(found.tasks, 'task')}, {repeats(found)}, {frozen['suite']} ({frozen['split']}), model {frozen['model']}, "
        f"{about['started'][:10]}, run {about['run']}"
    )


def repeats(found: Analysis) -> str:
    return f"k = {found.k}" if found.k == found.most else f"k = {found.k} to {found.most}"


def headline(found: Analysis) -> list[str]:
    """The outcome, a sentence or two for each pair of arms."""
    if not found.figures:
        return ["No attempt has a verdict in every arm yet."]
    said = ", ".join(f"{each.arm} {percent(each.success.estimate)}" for each in found.figures)
    return [f"Solved of {counted(found.tasks, 'task')}: {said}.", *map(_in_a_sentence, found.pairings)]


def _in_a_sentence(pairing: Pairing) -> str:
    ours, theirs, interval = pairing.ours, pairing.theirs, pairing.difference
    by = points(abs(interval.estimate)).lstrip("+")
    if pairing.same and pairing.solved == 0:
        success = f"Neither {ours} nor {theirs} solves a task"
    elif pairing.same:
        success = f"{ours} and {theirs} solve the same tasks"
    elif interval.low is None or interval.high is None or pairing.clusters < stats.FEW:
        success = f"Too few templates of tasks to tell by success whether {ours} or {theirs} is better"
    elif interval.low > 0:
        success = f"{ours} solves more than {theirs}, by {by} points"
    elif interval.high < 0:
        success = f"{ours} solves fewer than {theirs}, by {by} points"
    elif by == "0":
        success = f"{ours} and {theirs} solve as many tasks, within {points(interval.low)} to {points(interval.high)} points"
    else:
        more, fewer = (ours, theirs) if interval.estimate > 0 else (theirs, ours)
        success = f"{more} solves {by} points more than {fewer}, which could be chance"
    needs = [
        f"{spread(each.all, ratio)} times the {name}"
        for each, name in (
            (ratio_named(pairing, "model calls"), "model calls"),
            (ratio_named(pairing, "tokens"), "tokens"),
        )
        if each is not None and each.all is not None
    ]
    return f"{success}; {ours} needs {' and '.join(needs)}." if needs else f"{success}."


def ratio_named(pairing: Pairing, measure: str) -> Ratio | None:
    return next((each for each in pairing.ratios if each.measure == measure), None)


def arms_table(found: Analysis) -> Table:
    k = found.k
    heads = ("arm", "success", f"all {k} of {k}" if k > 1 else "solved", "model calls", "calls a success", "tool calls", "tokens", "USD", "seconds", "errors met", "recovered")  # fmt: skip
    return heads, [
        (
            each.arm,
            spread(each.success, percent),
            percent(each.pass_k),
            _number(each.means["model calls"], ".1f"),
            _number(each.calls_per_success, ".1f"),
            f"{each.tool_calls:.1f}",
            ("about " if each.estimated else "") + _number(each.means["tokens"]),
            _number(each.means["USD"], ".4f") if each.means["USD"] else "–",
            _number(each.means["seconds"], ".1f"),
            f"{each.with_errors} of {each.attempts}",
            f"{each.recovered} of {each.with_errors}",
        )
        for each in found.figures
    ]


def more_table(found: Analysis) -> Table:
    heads = ("arm", "answer right", "state right", "side effects", "redundant calls", "calls at once, most", "tokens of tool definitions", "prompt from cache", "thinking in completion", "characters observed", "model / tools / sandbox / rest", "infrastructure failures")  # fmt: skip
    return heads, [
        (
            each.arm,
            *("–" if share is None else percent(share) for share in (each.answer_ok, each.state_ok)),
            str(each.side_effects),
            f"{each.redundant_calls:.1f}",
            str(each.most_parallel),
            f"about {each.definition_tokens:,.0f}" if each.definition_tokens else "–",
            percent(each.cached_share),
            percent(each.reasoning_share),
            f"{each.observation_chars:,.0f}",
            _parts(each),
            str(each.infra_failures),
        )
        for each in found.figures
    ]


def _parts(each: ArmFigures) -> str:
    whole = sum(each.seconds.values()) or 1.0
    return " / ".join(percent(each.seconds[name] / whole) for name in ("llm", "tool", "sandbox", "overhead"))


def ratios_table(pairing: Pairing) -> Table:
    heads = (f"{pairing.ours} over {pairing.theirs}", "all tasks", "tasks that both solve")
    return heads, [
        (
            each.measure,
            f"{spread(each.all, ratio)} ({each.tasks[0]})",
            f"{spread(each.solved, ratio)} ({each.tasks[1]})",
        )
        for each in pairing.ratios
        if each.all is not None
    ]


def hypotheses_table(pairing: Pairing) -> Table:
    heads = ("", "claim", "estimate", "p (Holm)", "holds")
    return heads, [
        (each.name, each.claim, _estimate(each), p_value(each.p_value), "yes" if each.holds else "not shown")
        for each in pairing.hypotheses
    ]


def _estimate(each: Hypothesis) -> str:
    return (
        f"{spread(each.estimate, points)} points"
        if each.name == "H1"
        else f"{spread(each.estimate, ratio)} times"
    )


def notes(about: Mapping[str, Any], found: Analysis) -> list[str]:
    """What a careful reader wants to know before believing a figure."""
    lines = []
    if found.detectable is not None and found.pairings:
        lines.append(
            f"With {found.tasks} tasks an exact McNemar test finds differences of success of {found.detectable * 100:.0f} points and more in 8 of 10 "
            "experiments, where tasks have nothing in common; smaller ones are often missed. Where no difference is shown, none of that size is likely, and no more is said."
        )
    elif found.pairings:
        lines.append(
            f"{counted(found.tasks, 'task')} cannot show a difference of success reliably, whatever its size."
        )
    lines += [
        f"{pairing.ours} against {pairing.theirs}, first attempts: {counted(pairing.only_ours, 'task')} only {pairing.ours} solves, {pairing.only_theirs} only {pairing.theirs}; "
        f"exact McNemar {p_said(pairing.mcnemar)}."
        for pairing in found.pairings
    ]
    lines += [
        f"{pairing.ours} against {pairing.theirs}: no task is solved by both, so H2 has nothing to go by."
        for pairing in found.pairings
        if not any(each.name == "H2" for each in pairing.hypotheses)
    ]
    if few := _few(found):
        lines.append(
            f"Intervals of fewer than {stats.FEW} templates ({few}) are too narrow: they are hardly more than the range that was seen."
        )
    if found.slopes:
        said = ", ".join(f"{arm} {spread(slope, ratio)}" for arm, slope in found.slopes.items())
        lines.append(f"As tasks grow, tokens grow with this power of their size: {said}.")
    if found.without:
        lines.append(f"Without any verdict, and so left out: {', '.join(found.without)}.")
    if found.dropped:
        shown = ", ".join(f"{task} (repeat {repeat})" for task, repeat in found.dropped[:10])
        more = f" and {len(found.dropped) - 10} more" if len(found.dropped) > 10 else ""
        lines.append(f"Left out of every arm, since one of them has no verdict there: {shown}{more}.")
    if any(each.estimated for each in found.figures):
        lines.append("Tokens are partly estimated as characters by four: some replies came without a count.")
    for field, what in SERVED.items():
        count, said = _served(found, field)
        if count > 1:
            lines.append(
                f"The endpoint named {count} {what}, so what has answered was not the same throughout: {said}; in brackets the attempts."
            )
    if others := about.get("other_models"):
        lines.append(f"Attempts with {', '.join(others)} lie in this folder too, and do not count.")
    if unread := about.get("unread_lines"):
        lines.append(
            f"{counted(unread, 'line')} of attempts.jsonl cannot be read and did not count; a crash leaves one."
        )
    if about.get("uncommitted"):
        lines.append("The code differed from the commit that is named.")
    for each in about.get("drift", []):
        lines.append(f"Since {each['at']} with another configuration: {'; '.join(each['changes'])}.")
    if found.most == 1:
        lines.append("k = 1: chance within a task is not measured; a published claim needs 5 repeats.")
    elif 0 < found.k < CLAIM:
        lines.append(f"{repeats(found)}: a published claim needs {CLAIM} repeats.")
    return lines


TAG = re.compile(r"<(?=[A-Za-z/!?])")
SERVED = {"served": "models", "fingerprints": "system fingerprints"}
"""What the endpoint says has answered, where it says so: behind one name there may be more than one thing."""


def _served(found: Analysis, field: str) -> tuple[int, str]:
    """How many of a kind the endpoint named, and those of most attempts, with the number of these."""
    counts = Counter(name for made in found.kept for name in getattr(made, field))
    said = [f"{name} ({count})" for name, count in counts.most_common(MOST_SERVED)]
    more = [f"{len(counts) - MOST_SERVED} more"] if len(counts) > MOST_SERVED else []
    return len(counts), ", ".join(said + more)


def _few(found: Analysis) -> str:
    """Where intervals stand on few templates."""
    counts: dict[str, int] = {}
    for pairing in found.pairings:
        counts["all tasks"] = pairing.clusters
        counts |= {each.category or "no category": each.clusters for each in pairing.categories}
        both = f"tasks that {pairing.ours} and {pairing.theirs} solve"
        counts[both] = max(
            (each.clusters[1] for each in pairing.ratios if each.clusters[1] < pairing.clusters), default=0
        )
    return ", ".join(f"{name}: {count}" for name, count in counts.items() if 1 < count < stats.FEW)


def method() -> list[str]:
    return [
        "Intervals are 95 %. Those of differences and ratios are BCa bootstrap intervals over templates of tasks (10,000 draws, fixed seed), those of "
        "success are Wilson's with tasks as the unit. A ratio is one of geometric means, task by task, of the geometric mean of the repeats. H1 to H3 are the primary family; their p values are "
        "the bootstrap's, adjusted by Holm within each pair of arms; H1 has one side, H2 and H3 have two. What no template has shown may still occur as often as goes with its not being seen: "
        "where no template speaks against an arm, intervals and p values of success are those of an exact test, and none is below that of a sign test.",
        "Attempts that met a limit count as failed, with what they had spent; a request that the limit cut is in their seconds, and not in their calls and tokens, "
        "which nobody counted. Giving up early is cheap in the figures over all tasks; the figures over tasks "
        "that both solve hide failures. Read both.",
    ]


def settings_table(about: Mapping[str, Any], found: Analysis) -> Table:
    frozen, machine = about["frozen"], about.get("machine", {})
    limits, sampling = frozen.get("limits", {}), frozen.get("sampling", {})
    facts = [
        ("suite", f"{frozen['suite']} ({frozen['split']}), version {', '.join(frozen.get('suite_versions', []))}, hash {frozen.get('suite_hash', '')[:12]}"),
        ("model", str(frozen["model"])),
        ("answered by", "; ".join(filter(None, (_served(found, field)[1] for field in SERVED))) or "not said"),
        ("limits an attempt", ", ".join([*(f"{name} {value:g}" for name, value in limits.items() if value is not None), "all else each task's own"])),
        ("temperature", "the model's own" if sampling.get("temperature") is None else f"{sampling['temperature']:g}"),
        ("seed", str(frozen.get("seed"))),
        ("prices", str(frozen.get("prices"))),
        ("code", f"codeact {frozen.get('codeact')}, commit {(frozen.get('commit') or 'unknown')[:12]}; prompts last changed {about.get('prompt_date') or 'unknown'}"),
        ("machine", f"{machine.get('system', '')}, Python {machine.get('python', '')}, {machine.get('processors', '')} processors"),
        ("started", about["started"]),
    ]  # fmt: skip
    if hosts := about.get("providers"):
        facts.insert(2, ("asked of", ", ".join(hosts)))
    for name, hashed in frozen.get("prompts", {}).items():
        if text := about.get("prompt_texts", {}).get(name, ""):
            tokens = f"about {-(-len(text) // CHARACTERS_PER_TOKEN)} tokens before tools and task"
            facts.append((f"prompt of {name}", f"hash {hashed[:12]}, {tokens}"))
        else:
            facts.append((f"prompt of {name}", "its own"))
    if last := about.get("last"):
        facts.append(
            (
                "last command",
                f"{last['attempts']} attempts in {last['seconds']:.0f} s, {last['jobs']} at once",
            )
        )
    return ("setting", "value"), [(name, value) for name, value in facts]


# -- Markdown ---------------------------------------------------------------------------------------------------------


def markdown(about: Mapping[str, Any], found: Analysis) -> str:
    text = "\n".join(_markdown(about, found)).rstrip() + "\n"
    return TAG.sub(
        r"\\<", text
    )  # what an endpoint or a suite calls itself stays text where Markdown is shown


def _markdown(about: Mapping[str, Any], found: Analysis) -> Iterator[str]:
    yield f"# {about['frozen']['suite']} with {about['frozen']['model']}"
    yield ""
    yield from (f"- {line}" for line in headline(found))
    yield ""
    yield f"{caption(about, found)}\n"
    if found.figures:
        yield from _table(arms_table(found))
        yield from _table(more_table(found))
    for pairing in found.pairings:
        yield f"\n## {pairing.ours} against {pairing.theirs}\n"
        yield f"Success: {spread(pairing.difference, points)} points over {counted(pairing.tasks, 'task')} of {counted(pairing.clusters, 'template')}.\n"
        yield from _table(hypotheses_table(pairing))
        yield from _table(ratios_table(pairing))
        if pairing.categories:
            yield from _table(categories_table(pairing))
    lines = notes(about, found)
    if lines:
        yield "\n## Notes\n"
        yield from (f"- {line}" for line in lines)
    yield "\n## How it was measured\n"
    yield from (f"{line}\n" for line in method())
    yield from _table(settings_table(about, found))


def categories_table(pairing: Pairing) -> Table:
    heads = ("category", "tasks", "success, points", "model calls", "tokens")
    return heads, [
        (each.category, str(each.tasks), spread(each.difference, points), spread(each.calls, ratio), spread(each.tokens, ratio))
        for each in pairing.categories
    ]  # fmt: skip


def _table(table: Table) -> Iterator[str]:
    heads, rows = table
    yield f"| {' | '.join(map(_cell, heads))} |"
    yield "|" + "---|" * len(heads)
    yield from (f"| {' | '.join(map(_cell, row))} |" for row in rows)
    yield ""


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def failures(found: Analysis) -> Sequence[tuple[str, ...]]:
    """Attempts that were not right, with why."""
    return [
        (
            made.task,
            made.arm,
            str(made.repeat),
            made.stop_reason,
            "; ".join(filter(None, (made.error, made.reason))),
        )
        for made in _wrong(found)
    ]


def _wrong(found: Analysis) -> Iterable[Any]:
    return (made for made in found.kept if not made.success)
