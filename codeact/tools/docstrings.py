"""What a docstring says, in the styles of Google, NumPy and reStructuredText."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field

import docstring_parser


@dataclass(frozen=True, slots=True)
class Docs:
    """`text` is all that is not about parameters and errors; `raises` names exceptions without their modules."""

    text: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)
    raises: tuple[str, ...] = ()


def read(docstring: str | None) -> Docs:
    text = inspect.cleandoc(docstring or "")
    try:
        found = docstring_parser.parse(text)
    except docstring_parser.ParseError:
        return Docs(text)
    parts = [found.description or ""]
    if found.returns is not None and found.returns.description:
        word = "Yields" if found.returns.is_generator else "Returns"
        parts.append(f"{word}: {found.returns.description}")
    named = {each.arg_name.lstrip("*"): (each.description or "").strip() for each in found.params}
    raised = [(each.type_name or "").rpartition(".")[2] for each in found.raises]
    return Docs(
        "\n\n".join(part.strip() for part in parts if part),
        {name: described for name, described in named.items() if described},
        tuple(dict.fromkeys(name for name in raised if name.isidentifier())),
    )
