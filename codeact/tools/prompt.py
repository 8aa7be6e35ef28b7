"""What the prompt says of the tools: signatures while there is room for them, then only where to look."""

from __future__ import annotations

import builtins
import re
from collections import Counter
from collections.abc import Iterable, Sequence

from codeact.tools.stub_text import cleaned, one_line
from codeact.tools.tool import Tool

BUDGET = 1500
"""Tokens."""
CHARACTERS_PER_TOKEN = 4
MAX_LINE = 160
MAX_SIGNATURE = 400
MAX_NAMESPACES = 20
RESERVED = frozenset(("final_answer", "more_time", "tools", "pd", "np"))
"""Names that a kernel has for something else."""


def describe(tools: Sequence[Tool], budget: int = BUDGET) -> str:
    """Each tool as its signature and its first line, in at most about `budget` tokens; where that is not enough, the
    namespaces with how many tools each has, and how to find them."""
    return (_listed(tools, budget) or _namespaces(tools)) if tools else ""


def imported(tools: Sequence[Tool], budget: int = BUDGET) -> list[str]:
    """Lines that import what `describe` says is imported already: models forget to."""
    paths = [tool.path for tool in tools]
    return preamble(paths if _listed(tools, budget) else (), paths) if tools else []


def preamble(called: Iterable[str], paths: Sequence[str]) -> list[str]:
    """Lines that import `tools`, and of the tools at the paths `called` those whose name stands for one alone of `paths`."""
    alone = _alone(paths)
    return ["import tools", *_imports(path for path in called if path in alone)]


def imports(tools: Sequence[Tool], missing: str, source: str) -> str:
    """The imports of the tools that `source` names, where `missing`, a name that it did not have, is one; else nothing."""
    if missing not in {tool.name for tool in tools}:
        return ""
    words = set(re.findall(r"\w+", source))
    return "; ".join(_imports(tool.path for tool in tools if tool.name in words))


def _listed(tools: Sequence[Tool], budget: int) -> str | None:
    """Every tool, those that are imported already first; None where that is too long."""
    known = {tool.path: tool for tool in tools}
    alone = _alone(list(known))
    rest = [tool for tool in tools if tool.path not in alone]
    lines = []
    for module, paths in _by_module(tool.path for tool in tools if tool.path in alone).items():
        lines.append(f"  Imported already, from {module}:")
        lines += [f"  {_told(known[path])}" for path in paths]
    lines += ["  To be imported:"] if alone and rest else []
    lines += [f"  {_imports([tool.path])[0]}  # {_told(tool)}" for tool in rest]
    whole = "\n".join(lines)
    return whole if len(whole) <= budget * CHARACTERS_PER_TOKEN else None


def _alone(paths: Sequence[str]) -> set[str]:
    """The paths whose last name is that of one tool and of nothing else."""
    counts = Counter(path.rpartition(".")[2] for path in paths)
    taken = {*RESERVED, *dir(builtins), *(name for name, count in counts.items() if count > 1)}
    return {path for path in paths if path.rpartition(".")[2] not in taken}


def _imports(paths: Iterable[str]) -> list[str]:
    """A line for each module."""
    return [
        f"from {module} import {', '.join(path.rpartition('.')[2] for path in these)}"
        for module, these in _by_module(paths).items()
    ]


def _by_module(paths: Iterable[str]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for path in paths:
        groups.setdefault(_module(path), []).append(path)
    return groups


def _module(path: str) -> str:
    namespace = path.rpartition(".")[0]
    return f"tools.{namespace}" if namespace else "tools"


def _told(tool: Tool) -> str:
    text = one_line(tool.signature)
    if first := one_line(cleaned(tool.description, MAX_LINE).split("\n\n")[0]):
        text += f": {first if len(first) < MAX_LINE else first[: MAX_LINE - 1] + '…'}"
    return text if len(text) <= MAX_SIGNATURE else f"{text[: MAX_SIGNATURE - 1]}…"


def _namespaces(tools: Sequence[Tool]) -> str:
    counts = Counter(_module(tool.path) for tool in tools)
    shown = [f"{name} ({count})" for name, count in counts.most_common(MAX_NAMESPACES)]
    more = len(counts) - len(shown)
    listed = ", ".join(shown) + (f", and {more} more" if more > 0 else "")
    return (
        f"  There are {len(tools)} functions, in these modules: {listed}.\n"
        "  Find the ones that you need first: `import tools; tools.search('refund an order')` prints the best with their\n"
        "  signatures, `tools.list('shop')` those of a module, `help(tool)` all of one. Then import and call them."
    )
