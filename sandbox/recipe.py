"""The part of Dockerfiles that our images are written in, so that one recipe makes an image with an engine and without.

Known are ARG, FROM, COPY, RUN and ENV; LABEL, WORKDIR and USER are for engines alone.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from sandbox.errors import ImageError

_FOR_ENGINES = ("LABEL", "WORKDIR", "USER", "CMD")
_VARIABLE = re.compile(r"\$\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class Copy:
    """`sources` go into `target`: from the build context, or from an earlier `stage`."""

    sources: tuple[str, ...]
    target: str
    stage: str | None = None


@dataclass(frozen=True, slots=True)
class Run:
    command: str


@dataclass(frozen=True, slots=True)
class Stage:
    """One file system: `base` is a reference or the name of an earlier stage."""

    name: str
    base: str
    steps: tuple[Copy | Run, ...]
    environment: Mapping[str, str] = field(default_factory=dict)


def parse(text: str, arguments: Mapping[str, str]) -> list[Stage]:
    """The stages of a recipe, the last of which is the image. Raises ImageError for what only an engine can do."""
    stages: list[Stage] = []
    steps: list[Copy | Run] = []
    environment: dict[str, str] = {}
    name = base = ""
    for word, rest in _instructions(text):
        rest = _VARIABLE.sub(lambda found: arguments.get(found[1], found[0]), rest)
        match word:
            case "FROM":
                if base:
                    stages.append(Stage(name, base, tuple(steps), environment))
                base, _, name = (part.strip() for part in re.sub(" as ", " AS ", rest).partition(" AS "))
                steps, environment = [], {}
            case "COPY":
                steps.append(_copy(rest))
            case "RUN":
                steps.append(Run(rest))
            case "ENV":
                environment |= dict(pair.split("=", 1) for pair in shlex.split(rest) if "=" in pair)
            case "ARG":
                pass
            case _ if word not in _FOR_ENGINES:
                raise ImageError(
                    f"{word} {rest}: only a container engine can do that: build the image with one"
                )
    if not base:
        raise ImageError("the recipe of the image has no FROM line")
    return [*stages, Stage(name, base, tuple(steps), environment)]


def _instructions(text: str) -> Iterator[tuple[str, str]]:
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        word, _, rest = line.strip().partition(" ")
        if word:
            yield word.upper(), " ".join(rest.split())


def _copy(rest: str) -> Copy:
    words = shlex.split(rest)
    options = [word for word in words if word.startswith("--")]
    *sources, target = [word for word in words if not word.startswith("--")]
    stages = [option.removeprefix("--from=") for option in options if option.startswith("--from=")]
    if len(stages) != len(options):
        raise ImageError(f"COPY {rest}: only a container engine can do that: build the image with one")
    return Copy(tuple(sources), target, stages[0] if stages else None)
