"""What the name of a model tells of it."""

from __future__ import annotations

import re

_SEEING = re.compile(
    r"gpt-4o|gpt-4\.1|gpt-4-turbo|gpt-[5-9]|\bo[13](?!-mini)\b|\bo4|gemini|claude|llava|pixtral|gemma-?[3-9](?!n|[-:](?:1b|270m)\b)|[-_.]vl\b|vision|\d+vl\b",
    re.IGNORECASE,
)
_SIZE = re.compile(r"(?<![\d.x])(?:(\d+)x)?(\d+(?:\.\d+)?)b\b|(?<![\d.x])\d{2,3}m\b", re.IGNORECASE)
_SMALL = 4.0
"""Billions of parameters from which on a model is not small."""


def small_by_name(name: str) -> bool:
    """Whether a name tells of fewer than four billion parameters in all: `-1.5b`, `:3b`, `-360m`, but not `-30b-a3b`."""
    sizes = [float(size or 0) * int(experts or 1) for experts, size in _SIZE.findall(name)]
    return bool(sizes) and max(sizes) < _SMALL


def sees_by_name(name: str) -> bool:
    """Whether a model of this name takes images, as far as names tell: GPT-4o and later, o-series, Gemini, Claude, `-vl`..."""
    return _SEEING.search(name) is not None
