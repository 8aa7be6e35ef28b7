"""Recipes of images, read without an engine."""

from __future__ import annotations

import pytest

from sandbox.errors import ImageError
from sandbox.images import environment_parts, image_names
from sandbox.recipe import Copy, Run, parse

TEXT = """# how it is made
ARG BASE
FROM ${BASE} AS build
LABEL a=b
COPY one.sh two/ \\
     /build/
RUN sh /build/one.sh && \\
    echo $HOME

FROM ${BASE}
COPY --from=build /opt/venv /opt/venv
ENV PATH=/opt/venv/bin:/bin LANG="C.UTF-8"
USER 1:1
"""


def test_stages_and_steps() -> None:
    build, last = parse(TEXT, {"BASE": "the base"})
    assert (build.name, build.base) == ("build", "the base")
    assert build.steps == (Copy(("one.sh", "two/"), "/build/"), Run("sh /build/one.sh && echo $HOME"))
    assert last.steps == (Copy(("/opt/venv",), "/opt/venv", "build"),)
    assert last.environment == {"PATH": "/opt/venv/bin:/bin", "LANG": "C.UTF-8"}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("FROM x\nADD a b", "ADD a b: only a container engine"),
        ("FROM x\nCOPY --chown=1 a b", "only a container engine"),
        ("RUN true", "no FROM"),
        ("", "no FROM"),
    ],
)
def test_what_only_an_engine_can_do(text: str, reason: str) -> None:
    with pytest.raises(ImageError, match=reason):
        parse(text, {})


@pytest.mark.parametrize("name", image_names())
def test_our_own_images_are_understood(name: str) -> None:
    stages = parse(environment_parts(name)["Dockerfile"].decode(), {"BASE": "base"})
    assert [stage.base for stage in stages] == ["base", "base"]
    assert stages[-1].environment["PATH"].startswith("/opt/venv/bin:")
