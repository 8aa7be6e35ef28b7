"""Images built and looked into on a real engine."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import docker
import pytest

from sandbox import images
from sandbox.engine import find_engine
from sandbox.errors import ImageError, ImageNotFound
from sandbox.image_check import ACCOUNTS

pytestmark = pytest.mark.docker

READ_ALL_FORMATS = Path(__file__).with_name("read_all_formats.py")


@pytest.fixture(scope="module")
def client() -> Iterator[docker.DockerClient]:
    with closing(find_engine().client(timeout=300)) as client:
        yield client


@pytest.fixture(scope="module", params=["minimal", "data"])
def built(request: pytest.FixtureRequest, client: docker.DockerClient) -> str:
    """The name of an image that is built."""
    name = str(request.param)
    images.build(client, name, on_progress=print)
    return name


def run_as_agent(client: docker.DockerClient, name: str, source: str, *, stderr: bool = True) -> bytes:
    """Runs Python as sandboxes run it: read-only, no network, no rights. Returns what it printed."""
    output = client.containers.run(
        images.image_tag(name),
        ["python", "-c", source],
        user="10002:10001",
        network_mode="none",
        read_only=True,
        cap_drop=["ALL"],
        security_opt=["no-new-privileges:true"],
        tmpfs={"/tmp": "size=64m,mode=1777", "/workspace": "size=64m,uid=10002,mode=0700"},
        remove=True,
        stderr=stderr,
    )
    assert isinstance(output, bytes)
    return output


def test_an_image_holds_what_is_locked(client: docker.DockerClient, built: str) -> None:
    checks = images.verify(client, built)
    assert len(checks) >= 6
    assert [check for check in checks if not check.ok] == []


def test_building_again_does_nothing(client: docker.DockerClient, built: str) -> None:
    said: list[str] = []
    before = images.find(client, built)
    assert images.build(client, built, on_progress=said.append) == before
    assert said == []
    assert before in images.list_images(client)
    assert before.packages["ipykernel"].split(".")[0] >= "7"


def test_accounts_and_folders(client: docker.DockerClient, built: str) -> None:
    source = (
        "import os, json; print(json.dumps([os.getuid(), os.getgid(), os.path.expanduser('~'), os.getcwd()]))"
    )
    assert json.loads(run_as_agent(client, built, source)) == [*ACCOUNTS["agent"], "/workspace", "/workspace"]


def test_bytecode_of_the_guest_code_is_there(client: docker.DockerClient, built: str) -> None:
    source = (
        "from pathlib import Path\n"
        "sources = list(Path('/opt/sandbox/sandbox_guest').glob('*.py'))\n"
        "compiled = list(Path('/opt/sandbox/sandbox_guest/__pycache__').glob('*.pyc'))\n"
        "print(len(sources) > 0, len(sources) == len(compiled))"
    )
    assert run_as_agent(client, built, source) == b"True True\n"


@pytest.fixture(scope="module")
def data(client: docker.DockerClient) -> str:
    images.build(client, "data", on_progress=print)
    return "data"


def test_the_first_plot_is_quick_and_silent(client: docker.DockerClient, data: str) -> None:
    source = (
        "import matplotlib.pyplot as plt, matplotlib.font_manager as fonts, os\n"
        "plt.plot([1, 2]); plt.title('x'); plt.savefig('/workspace/a.png')\n"
        "print(os.path.getsize('/workspace/a.png') > 1000)"
    )
    assert run_as_agent(client, data, source) == b"True\n"


def test_every_promised_format_is_read(client: docker.DockerClient, data: str) -> None:
    output = json.loads(run_as_agent(client, data, READ_ALL_FORMATS.read_text("utf-8"), stderr=False))
    table = [[1, "a"], [2, "ü"]]
    tables = [
        "csv",
        "tsv",
        "xlsx",
        "xls",
        "ods",
        "parquet",
        "feather",
        "json",
        "jsonl",
        "sqlite",
        "duckdb",
        "xml",
        "html",
        "csv.gz",
        "csv.zip",
        "csv.zst",
    ]
    assert output == dict.fromkeys(tables, table) | {
        "pdf": "Hello pdf",
        "png": [2, 3],
        "txt": "Fünf Äpfel kosten zehn Euro, sagte die Bäuerin über den Zaun.",
        "soup": 4,
    }


def test_an_image_that_is_not_built(client: docker.DockerClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "FORMAT", "never built")
    with pytest.raises(ImageNotFound, match="image 'data' is not built: run `codeact image build data`"):
        images.find(client, "data")
    assert [image.present for image in images.list_images(client)] == [False, False]


@pytest.fixture
def tiny(
    client: docker.DockerClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Path, Path]]:
    """Definitions of an image `tiny` with one package, free to change: its folder, and the folder of its guest code."""
    definitions, guest = tmp_path / "images", tmp_path / "guest"
    own = images.images_folder()
    shutil.copytree(own / "base", definitions / "base")
    (definitions / "tiny").mkdir()
    shutil.copy(own / "minimal" / "Dockerfile", definitions / "tiny")
    blocks = (
        (own / "minimal" / "requirements.lock").read_text().replace("\n    --hash", "    --hash").splitlines()
    )
    lines = [line.replace("\\    ", " ") for line in blocks if line.startswith("comm==")]
    (definitions / "tiny" / "requirements.lock").write_text("\n".join(lines) + "\n")
    guest.mkdir()
    (guest / "__init__.py").write_text("VERSION = 1\n")
    monkeypatch.setattr(images, "images_folder", lambda: definitions)
    monkeypatch.setattr(images, "_GUEST", guest)
    yield definitions / "tiny", guest
    for image in ours(client):
        for tag in image.tags:
            client.images.remove(tag, force=True)


def ours(client: docker.DockerClient) -> list[Any]:
    return list(client.images.list(filters={"label": "codeact.image=tiny"}))


def test_changed_guest_code_rebuilds_one_layer_and_leaves_the_image_of_another_checkout(
    client: docker.DockerClient, tiny: tuple[Path, Path]
) -> None:
    _, guest = tiny
    first = images.build(client, "tiny", on_progress=print)
    (guest / "__init__.py").write_text("VERSION = 2\n")
    said: list[str] = []
    second = images.build(client, "tiny", on_progress=said.append)
    assert [line for line in said if not line.startswith("waiting")] == [
        "tiny: adding the guest code",
        f"tiny: built {second.tag}",
    ]
    assert {tag for image in ours(client) for tag in image.tags} == {
        first.tag,  # less than a week old
        second.tag,
        images.environment_tag("tiny"),
    }
    assert first.tag != second.tag
    assert first.packages == second.packages
    assert [*second.packages] == ["comm"]
    layers = [
        client.images.get(tag).attrs["RootFS"]["Layers"]
        for tag in (images.environment_tag("tiny"), second.tag)
    ]
    assert layers[1][: len(layers[0])] == layers[0]
    assert len(layers[1]) - len(layers[0]) == 2


def test_an_image_in_use_is_kept(client: docker.DockerClient, tiny: tuple[Path, Path]) -> None:
    _, guest = tiny
    first = images.build(client, "tiny", on_progress=print)
    container = client.containers.run(
        first.tag, ["python", "-c", "input()"], stdin_open=True, network_mode="none", detach=True
    )
    try:
        (guest / "__init__.py").write_text("VERSION = 2\n")
        images.build(client, "tiny", on_progress=print)
        assert client.images.get(first.tag)
    finally:
        container.remove(force=True)


def test_verify_sees_what_does_not_belong(client: docker.DockerClient, tiny: tuple[Path, Path]) -> None:
    folder, _ = tiny
    dockerfile = folder / "Dockerfile"
    wrong = (
        "USER 0:0\n"
        "RUN chmod u+s /usr/bin/env && echo 'raise OSError(7)' > $(python -c 'import comm; print(comm.__file__)') \\\n"
        " && rm -r /opt/venv/lib/python3*/site-packages/comm/__pycache__\n"
    )
    dockerfile.write_text(dockerfile.read_text() + wrong)
    images.build(client, "tiny", on_progress=print)
    checks = {check.name: check for check in images.verify(client, "tiny")}
    assert [name for name, check in checks.items() if not check.ok] == ["no setuid files", "imports"]
    assert checks["no setuid files"].detail == "/usr/bin/env"
    assert checks["imports"].detail == "comm: OSError: 7"


def test_a_wheel_that_is_not_the_locked_one_is_refused(
    client: docker.DockerClient, tiny: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, _ = tiny
    (folder / "requirements.lock").write_text(f"comm==0.2.3 --hash=sha256:{'0' * 64}\n")
    with pytest.raises(ImageError, match="could not be downloaded"):
        images.build(client, "tiny", on_progress=print)
    assert ours(client) == []


def test_a_failing_step_is_told_with_its_output(client: docker.DockerClient, tiny: tuple[Path, Path]) -> None:
    folder, _ = tiny
    (folder / "Dockerfile").write_text("ARG BASE\nFROM ${BASE}\nRUN echo deep trouble && exit 3\n")
    with pytest.raises(
        ImageError, match=r"codeact/tiny:environment-\w+ did not build: .*code: 3.*deep trouble"
    ):
        images.build(client, "tiny", on_progress=print)
    assert [tag for image in ours(client) for tag in image.tags] == []


def test_a_build_has_no_network(client: docker.DockerClient, tiny: tuple[Path, Path]) -> None:
    folder, _ = tiny
    (folder / "Dockerfile").write_text(
        "ARG BASE\nFROM ${BASE}\nRUN cat /proc/net/dev | tail -n +3 && exit 3\n"
    )
    with pytest.raises(ImageError) as caught:
        images.build(client, "tiny", on_progress=print)
    assert "lo:" in str(caught.value)
    assert "eth0" not in str(caught.value)


def test_a_base_that_is_not_there(client: docker.DockerClient, tiny: tuple[Path, Path]) -> None:
    with pytest.raises(ImageError, match=r"base image 'no/such-base:1' could not be pulled: .*--base debian"):
        images.build(client, "tiny", base="no/such-base:1", on_progress=print)
