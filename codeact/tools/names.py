"""Names of any source as Python names: identifiers, no keywords, no dunders, no two alike."""

from __future__ import annotations

import keyword
import re
import unicodedata
from collections.abc import Iterable

MAX_NAME = 60
ERRORS = (
    "ArgumentError",
    "CallCancelled",
    "CallRefused",
    "TooLarge",
    "ToolError",
    "ToolErrors",
    "ToolTimeout",
    "UnknownTool",
)
DISCOVERY = ("list", "search")
OWN = frozenset((*ERRORS, *DISCOVERY, "errors"))
"""What the package `tools` has itself."""


def identifier(name: str, taken: Iterable[str] = (), other: str = "value", joint: str = "_") -> str:
    """`name` as an identifier that is not in `taken`; `other` where nothing of it can be kept."""
    text = re.sub(r"\W+", "_", unicodedata.normalize("NFKC", name)).strip("_")[:MAX_NAME]
    kept = name if name.strip("_") == text and not name.startswith("__") else text
    if kept and kept[0].isdigit():
        kept = f"_{kept}"
    if not kept.isidentifier() or not kept.strip("_"):
        kept = other
    if keyword.iskeyword(kept):
        kept += "_"
    taken, found, number = set(taken), kept, 2
    while found in taken:
        found, number = f"{kept}{joint}{number}", number + 1
    return found


def in_tools(name: str, namespace: str = "", other: str = "tool") -> str:
    """The name of a tool, or of a namespace, as an identifier for which `tools` has no use of its own: `search` as `search_`."""
    made = identifier(name, other=other)
    return f"{made}_" if not namespace and made in OWN else made


def moved(names: Iterable[str]) -> list[str]:
    """Of the full names of tools, those that `in_tools` changed."""
    return sorted({first for name in names if (first := name.partition(".")[0]).removesuffix("_") in OWN})


def snake(name: str) -> str:
    """`OrderDesk` as `order_desk`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def class_name(name: str, taken: Iterable[str] = ()) -> str:
    """`line item` as `LineItem`; what looks like the name of a class stays."""
    name = unicodedata.normalize("NFKC", name)
    if not (identifier(name) == name and name[:1].isupper()):
        name = "".join(part[:1].upper() + part[1:] for part in re.split(r"[\W_]+", name))
    return identifier(name, taken, "Value", joint="")
