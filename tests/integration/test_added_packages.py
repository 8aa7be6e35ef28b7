"""Packages on top of an image: built once on a real engine, there in every sandbox that asks for them, and nowhere else."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import docker
import pytest

from sandbox import ImageError, Sandbox, images
from sandbox.engine import find_engine
from sandbox.image_packages import derive
from tests.contract.conftest import value
from tests.wheels import folder, source, wheel

pytestmark = pytest.mark.docker


@pytest.fixture
def client() -> Iterator[docker.DockerClient]:
    """An engine on which the images that a test adds are removed after it."""
    with closing(find_engine().client(timeout=300)) as client:
        before = {tag for image in client.images.list() for tag in image.tags}
        yield client
        for image in client.images.list(filters={"label": "codeact.layer=added"}):
            if NAME in image.labels.get("codeact.asked", ""):
                for tag in set(image.tags) - before:
                    client.images.remove(tag)


NAME = f"alpha{uuid.uuid4().hex[:8]}"
"""A package that no other test, and no earlier run, has asked for."""


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    start_file = {"alpha.pth": "import os; open(f'/tmp/ran-{os.getuid()}', 'w')\n"}
    place = folder(
        tmp_path / "wheels",
        wheel(NAME, "1.2", requires=["beta>=2"], more=start_file),
        wheel("beta", "2.0"),
        source("sourced", "1.0"),
    )
    monkeypatch.setattr("sandbox.wheels.wheel_cache", lambda: tmp_path / "cache")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(place))
    return place


def test_added_once_and_there_ever_after(client: docker.DockerClient, index: Path) -> None:
    said: list[str] = []
    with Sandbox("minimal", packages=[f"{NAME}==1.2"], on_progress=said.append) as box:
        code = f"import {NAME}, beta\nvalue = [{NAME}.VERSION, beta.VERSION]"
        assert value(box, code) == ["1.2", "2.0"]
        child = f"import subprocess, sys\nvalue = subprocess.run([sys.executable, '-c', 'import {NAME}'], capture_output=True, text=True).stderr"
        assert value(box, child) == ""
        ran = "import os\nvalue = [name for name in os.listdir('/tmp') if name.startswith('ran-')]"
        assert value(box, ran) == ["ran-10002"]  # a start file is the agent's, never the supervisor's
        assert f"{NAME}-1.2.dist-info" in value(
            box,
            "import os\nvalue = os.listdir('/opt/added/lib/' + os.listdir('/opt/added/lib')[0] + '/site-packages')",
        )
    assert said[0] == f"minimal: resolving {NAME}==1.2"
    for file in index.iterdir():
        file.unlink()
    said.clear()
    with Sandbox("minimal", packages=[f" {NAME} == 1.2"], on_progress=said.append) as box:
        assert value(box, f"import {NAME}\nvalue = {NAME}.VERSION") == "1.2"
    assert said == []
    listed = {image.name: image for image in images.list_images(client)}
    assert listed[f"minimal + {NAME}==1.2"].packages[NAME] == "1.2"
    with Sandbox("minimal") as box:
        assert box.run(f"import {NAME}").status == "error"


def test_two_that_ask_at_once_build_one(client: docker.DockerClient, index: Path) -> None:
    said: list[str] = []
    tags: list[str] = []

    def ask() -> None:
        tags.append(derive(client, "minimal", [NAME], said.append).tag)

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(tags) == 3
    assert len(set(tags)) == 1
    assert len([line for line in said if "resolving" in line]) == 1


def test_what_is_there_already_needs_no_image(client: docker.DockerClient, index: Path) -> None:
    held = images.find(client, "minimal")
    image = derive(client, "minimal", [f"ipykernel=={held.packages['ipykernel']}"], lambda line: None)
    assert image.packages == held.packages
    client.images.remove(image.tag)
    assert images.find(client, "minimal").tag == held.tag


@pytest.mark.parametrize("package", ["sourced", "nowhere", "ipykernel==1.0"])
def test_what_cannot_be_added_leaves_nothing(client: docker.DockerClient, index: Path, package: str) -> None:
    before = {image.id for image in client.images.list(filters={"label": "codeact.image=minimal"})}
    with pytest.raises(ImageError, match=package.split("=")[0]):
        Sandbox("minimal", packages=[package]).start()
    assert {image.id for image in client.images.list(filters={"label": "codeact.image=minimal"})} == before
