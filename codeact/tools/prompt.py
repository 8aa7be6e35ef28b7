"""What the prompt says of the tools: signatures while there is room for them, then only where to look."""

from __future__ import annotations

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


def _line(tool: Tool) -> str:
    text = one_line(tool.signature)
    if first := one_line(cleaned(tool.description, MAX_LINE).split("\n\n")[0]):
        text += f": {first if len(first) < MAX_LINE else first[: MAX_LINE - 1] + '…'}"
    module = f"tools.{tool.namespace}" if tool.namespace else "tools"
    shown = text if len(text) <= MAX_SIGNATURE else f"{text[: MAX_SIGNATURE - 1]}…"
    return f"  from {module} import {tool.name}  # {shown}"


def _namespaces(tools: Sequence[Tool]) -> str:
    counts = Counter(f"tools.{tool.namespace}" if tool.namespace else "tools" for tool in tools)
    shown = [f"{name} ({count})" for name, count in counts.most_common(MAX_NAMESPACES)]
    more = len(counts) - len(shown)
    listed = ", ".join(shown) + (f", and {more} more" if more > 0 else "")
    return (
        f"  There are {len(tools)} functions, in these modules: {listed}.\n"
        "  Find the ones that you need first: `import tools; tools.search('refund an order')` prints the best with their\n"
        "  signatures, `tools.list('shop')` those of a module, `help(tool)` all of one. Then import and call them."
    )
