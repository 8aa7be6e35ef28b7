"""What the prompt says of the tools: signatures while there is room for them, then only where to look."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from codeact.tools.stub_text import cleaned, one_line
from codeact.tools.tool import Tool

BUDGET = 1500
"""Tokens."""
CHARACTERS_PER_TOKEN = 4
MAX_LINE = 160
MAX_SIGNATURE = 400
MAX_NAMESPACES = 20


def describe(tools: Sequence[Tool], budget: int = BUDGET) -> str:
    """Each tool as an import and its first line, in at most about `budget` tokens; where that is not enough, the
    namespaces with how many tools each has, and how to find them."""
    if not tools:
        return ""
    whole = "\n".join(_line(tool) for tool in tools)
    return whole if len(whole) <= budget * CHARACTERS_PER_TOKEN else _namespaces(tools)


def imports(tools: Sequence[Tool], missing: str, source: str) -> str:
    """The imports of the tools that `source` names, where `missing`, a name that it did not have, is one; else nothing."""
    if missing not in {tool.name for tool in tools}:
        return ""
    words = set(re.findall(r"\w+", source))
    by_module: dict[str, list[str]] = {}
    for tool in tools:
        if tool.name in words:
            by_module.setdefault(_module(tool), []).append(tool.name)
    return "; ".join(f"from {module} import {', '.join(names)}" for module, names in by_module.items())


def _module(tool: Tool) -> str:
    return f"tools.{tool.namespace}" if tool.namespace else "tools"


def _line(tool: Tool) -> str:
    text = one_line(tool.signature)
    if first := one_line(cleaned(tool.description, MAX_LINE).split("\n\n")[0]):
        text += f": {first if len(first) < MAX_LINE else first[: MAX_LINE - 1] + '…'}"
    shown = text if len(text) <= MAX_SIGNATURE else f"{text[: MAX_SIGNATURE - 1]}…"
    return f"  from {_module(tool)} import {tool.name}  # {shown}"


def _namespaces(tools: Sequence[Tool]) -> str:
    counts = Counter(map(_module, tools))
    shown = [f"{name} ({count})" for name, count in counts.most_common(MAX_NAMESPACES)]
    more = len(counts) - len(shown)
    listed = ", ".join(shown) + (f", and {more} more" if more > 0 else "")
    return (
        f"  There are {len(tools)} functions, in these modules: {listed}.\n"
        "  Find the ones that you need first: `import tools; tools.search('refund an order')` prints the best with their\n"
        "  signatures, `tools.list('shop')` those of a module, `help(tool)` all of one. Then import and call them."
    )
