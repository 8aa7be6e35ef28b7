"""`tools.search(words)` and `tools.list(namespace)`: the tools that there are, without asking the host."""

from __future__ import annotations

import builtins
import difflib
import functools
import importlib
import inspect
import math
import pkgutil
import re
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from .calling import written

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_]+|\d+")
_COMMON = frozenset(
    [
        "a",
        "an",
        "and",
        "are",
        "as",
        "at",
        "by",
        "for",
        "from",
        "in",
        "is",
        "it",
        "its",
        "of",
        "on",
        "or",
        "that",
        "the",
        "this",
        "to",
        "with",
    ]
)
_SATURATION, _LENGTH = 1.2, 0.75
"""k1 and b of BM25."""
_TYPO = 0.8


@dataclass(frozen=True, slots=True)
class Found:
    """A tool: call it, or read what it takes."""

    path: str
    function: Callable[..., Any]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    @property
    def signature(self) -> str:
        return written(self.function)

    @property
    def doc(self) -> str:
        return inspect.getdoc(self.function) or ""

    @property
    def source(self) -> str:
        return inspect.getsource(self.function)

    def __repr__(self) -> str:
        module, _, name = f"tools.{self.path}".rpartition(".")
        first = self.doc.partition("\n")[0]
        return f"from {module} import {name}  # {self.signature}: {first}"


class Tools(builtins.list[Found]):
    """Tools, one a line."""

    def __repr__(self) -> str:
        return "\n".join(map(repr, self)) or "no tool"


def search(words: str, limit: int = 10) -> Tools:
    """The tools that best fit some words, the best first."""
    index = _index()
    scores: dict[int, float] = {}
    for word in dict.fromkeys(_words(str(words))):
        for known, weight in index.like(word).items():
            for number, score in index.scores(known):
                scores[number] = scores.get(number, 0.0) + score * weight
    best = sorted(scores, key=lambda number: (-scores[number], number))
    return Tools(index.tools[number] for number in best[:limit])


def list(namespace: str = "") -> Tools:  # noqa: A001 - what it is called in `tools`
    """The tools of a namespace and of those in it; without one, all."""
    wanted = str(namespace).removeprefix("tools").strip(".")
    return Tools(
        each
        for each in _index().tools
        if not wanted or f".{each.path}".startswith(f".{wanted}.") or each.path == wanted
    )


def attribute(name: str) -> Any:
    """What `import tools` has not read yet: a namespace, for `tools.shop.order_status(...)`."""
    if not name.startswith("_"):
        try:
            return importlib.import_module(f"tools.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"tools.{name}":
                raise
    near = difflib.get_close_matches(name, names(), 3)
    meant = f"did you mean {' or '.join(near)}?" if near else "tools.search('some words') finds tools"
    raise AttributeError(f"tools has no {name!r}; {meant}", name=name)


def names() -> builtins.list[str]:
    """What is in `tools`, the namespaces that were not imported yet too."""
    root = sys.modules["tools"]
    return sorted({*vars(root), *(module.name for module in pkgutil.iter_modules(root.__path__))})


class _Index:
    """BM25 over the words of names, descriptions and parameters; those of the name count as three."""

    def __init__(self, tools: Tools) -> None:
        self.tools = tools
        texts = [Counter(_text(each)) for each in tools]
        self._lengths = [text.total() for text in texts]
        self._mean = sum(self._lengths) / max(1, len(texts)) or 1
        self._by_word: dict[str, builtins.list[tuple[int, int]]] = {}
        for number, text in enumerate(texts):
            for word, count in text.items():
                self._by_word.setdefault(word, []).append((number, count))

    def like(self, word: str) -> dict[str, float]:
        """The words of the index that are this one, begin alike, or are written much like it."""
        if word in self._by_word:
            return {word: 1.0}
        longer = {each: 0.7 for each in self._by_word if len(word) > 2 and each.startswith(word)}
        near = difflib.get_close_matches(word, self._by_word, 3, _TYPO) if len(word) > 3 else []
        return {**dict.fromkeys(near, 0.6), **longer}

    def scores(self, word: str) -> builtins.list[tuple[int, float]]:
        places = self._by_word[word]
        rarity = math.log(1 + (len(self.tools) - len(places) + 0.5) / (len(places) + 0.5))
        return [(number, rarity * self._weight(number, count)) for number, count in places]

    def _weight(self, number: int, count: int) -> float:
        length = 1 - _LENGTH + _LENGTH * self._lengths[number] / self._mean
        return count * (_SATURATION + 1) / (count + _SATURATION * length)


def _text(tool: Found) -> builtins.list[str]:
    names = _words(tool.path.replace(".", " "))
    parameters = _words(" ".join(inspect.signature(tool.function).parameters))
    return names * 3 + parameters + _words(tool.doc)


def _words(text: str) -> builtins.list[str]:
    found = [word.lower() for word in _WORD.findall(text)]
    return [_stem(word) for word in found if word not in _COMMON]


def _stem(word: str) -> str:
    """Without the endings by which English words differ most."""
    for ending, kept in (("ies", "y"), ("ing", ""), ("ed", ""), ("es", ""), ("s", "")):
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith("ss"):
            return word[: -len(ending)] + kept
    return word


@functools.cache
def _index() -> _Index:
    root = importlib.import_module("tools")
    found = _of(root, "")
    for module in pkgutil.walk_packages(root.__path__, "tools."):
        found += _of(importlib.import_module(module.name), module.name.removeprefix("tools."))
    return _Index(Tools(found))


def _of(module: ModuleType, namespace: str) -> builtins.list[Found]:
    return [
        Found(f"{namespace}.{name}" if namespace else name, value)
        for name, value in vars(module).items()
        if callable(value) and hasattr(value, "aio")
    ]
