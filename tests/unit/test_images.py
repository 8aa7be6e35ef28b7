"""What an image is made of, decided on the host without an engine."""

from __future__ import annotations

import datetime
import hashlib
import shutil
import tarfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from packaging.requirements import Requirement as Pep508

from sandbox import images
from sandbox.build_context import pack
from sandbox.errors import ImageError
from sandbox.image_base import base_kind, remove_older, split_reference
from sandbox.image_check import Check, check_facts
from sandbox.wheels import Requirement, Target, fetch, read_lock, wheel_cache


def target(python: str = "3.12.4", machine: str = "x86_64") -> Target:
    return Target(
        {
            "implementation_name": "cpython",
            "implementation_version": python,
            "os_name": "posix",
            "platform_machine": machine,
            "platform_python_implementation": "CPython",
            "platform_release": "",
            "platform_system": "Linux",
            "platform_version": "",
            "python_full_version": python,
            "python_version": ".".join(python.split(".")[:2]),
            "sys_platform": "linux",
        }
    )


LOCK = """\
# a comment
alpha==1.0 \\
    --hash=sha256:aa \\
    --hash=sha256:bb
Beta_Two==2.0 ; python_full_version < '3.12' \\
    --hash=sha256:cc
beta-two==2.5 ; python_full_version >= '3.12' \\
    --hash=sha256:dd
windows-only==1 ; sys_platform == 'win32' \\
    --hash=sha256:ee
"""
ALPHA = Requirement("alpha", "1.0", frozenset({"sha256:aa", "sha256:bb"}))


@pytest.mark.parametrize(
    ("python", "second"),
    [
        ("3.11.2", Requirement("beta-two", "2.0", frozenset({"sha256:cc"}))),
        ("3.12.0", Requirement("beta-two", "2.5", frozenset({"sha256:dd"}))),
    ],
)
def test_markers_are_read_for_the_python_in_the_image(
    tmp_path: Path, python: str, second: Requirement
) -> None:
    lock = tmp_path / "requirements.lock"
    lock.write_text(LOCK)
    assert read_lock(lock, target(python)) == [ALPHA, second]


@pytest.mark.parametrize("line", ["alpha>=1.0 --hash=sha256:aa", "alpha==1.0", "--index-url somewhere"])
def test_a_line_that_is_not_pinned_and_hashed_is_refused(tmp_path: Path, line: str) -> None:
    lock = tmp_path / "requirements.lock"
    lock.write_text(line + "\n")
    with pytest.raises(ImageError, match="is not pinned and hashed"):
        read_lock(lock, target())


@pytest.mark.parametrize("name", ["minimal", "data"])
@pytest.mark.parametrize("python", ["3.11.2", "3.12.4"])
@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_locks_hold_what_their_sources_ask_for(name: str, python: str, machine: str) -> None:
    folder = images.images_folder()
    locked = {
        r.name: r.version for r in read_lock(folder / name / "requirements.lock", target(python, machine))
    }
    sources = (folder / "minimal" / "requirements.in", folder / name / "requirements.in")
    lines = [line for source in sources for line in source.read_text().splitlines() if line[:1].isalpha()]
    assert lines
    for wanted in map(Pep508, lines):
        assert wanted.specifier.contains(locked[wanted.name])


@pytest.mark.parametrize("name", ["minimal", "data"])
def test_the_locks_name_no_host(name: str) -> None:
    text = (images.images_folder() / name / "requirements.lock").read_text()
    assert "://" not in text
    assert "--index-url" not in text


def _wheel(name: str, content: bytes) -> tuple[Path, str]:
    folder = wheel_cache() / "cp312-x86_64"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_bytes(content)
    return path, "sha256:" + hashlib.sha256(content).hexdigest()


def test_wheels_in_the_cache_are_not_downloaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path, digest = _wheel("alpha-1.0-py3-none-any.whl", b"wheel")
    said: list[str] = []
    assert fetch([Requirement("alpha", "1.0", frozenset({digest}))], target(), said.append) == [path]
    assert said == []


@pytest.mark.parametrize("content", [b"changed", b""])
def test_a_broken_wheel_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    path, digest = _wheel("alpha-1.0-py3-none-any.whl", b"wheel")
    path.write_bytes(content)
    said: list[str] = []
    with pytest.raises(
        ImageError, match=r"No matching distribution found for alpha==1\.0.*run the same command again"
    ):
        fetch([Requirement("alpha", "1.0", frozenset({digest}))], target(), said.append)
    assert said == ["downloading wheels 1-1 of 1"]
    assert not list(path.parent.glob(".part-*"))


def test_an_unknown_image_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ImageError, match="unknown image 'dta': known are data, minimal"):
        images.image_tag("dta")


def test_a_tag_follows_the_guest_code_and_an_environment_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(images, "_GUEST", tmp_path)
    (tmp_path / "supervisor.py").write_text("x = 1\n")
    tag, environment = images.image_tag("minimal"), images.environment_tag("minimal")
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "supervisor.pyc").write_bytes(b"compiled")
    assert images.image_tag("minimal") == tag
    (tmp_path / "supervisor.py").write_text("x = 2\n")
    assert images.image_tag("minimal") != tag
    assert images.environment_tag("minimal") == environment


@pytest.mark.parametrize(
    "changed", ["minimal/Dockerfile", "minimal/requirements.lock", "base/prepare.sh", "base/guest.Dockerfile"]
)
def test_a_tag_follows_each_part_of_the_definition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: str
) -> None:
    definitions = tmp_path / "images"
    shutil.copytree(images.images_folder(), definitions)
    monkeypatch.setattr(images, "images_folder", lambda: definitions)
    tag = images.image_tag("minimal")
    with (definitions / changed).open("a") as file:
        file.write("# changed\n")
    assert images.image_tag("minimal") != tag


def test_a_tag_tells_files_apart_by_name_and_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tags = set()
    for number, files in enumerate([{"a": "12"}, {"b": "12"}, {"a": "1", "b": "2"}, {"a1": "2"}]):
        folder = tmp_path / str(number)
        folder.mkdir()
        for name, text in files.items():
            (folder / name).write_text(text)
        monkeypatch.setattr(images, "_GUEST", folder)
        tags.add(images.image_tag("minimal"))
    assert len(tags) == 4


def test_a_context_depends_on_nothing_but_names_and_contents(tmp_path: Path) -> None:
    path = tmp_path / "from-disk"
    path.write_bytes(b"disk")
    path.chmod(0o700)
    with (
        pack([("a", b"memory"), ("b/c", path)]) as first,
        pack([("a", b"memory"), ("b/c", b"disk")]) as second,
    ):
        assert first.read() == second.read()
        first.seek(0)
        with tarfile.open(fileobj=first) as tar:
            assert [(m.name, m.mode, m.mtime, m.uid, m.size) for m in tar] == [
                ("a", 0o644, 0, 0, 6),
                ("b/c", 0o644, 0, 0, 4),
            ]


@pytest.mark.parametrize(
    ("reference", "parts"),
    [
        ("python:3.12-slim", ("python", "3.12-slim")),
        ("python", ("python", "latest")),
        ("host:5000/python", ("host:5000/python", "latest")),
        ("host:5000/team/python:3", ("host:5000/team/python", "3")),
        ("python@sha256:00ff", ("python@sha256:00ff", None)),
    ],
)
def test_references_are_split(reference: str, parts: tuple[str, str | None]) -> None:
    assert split_reference(reference) == parts


@pytest.mark.parametrize(
    ("reference", "kind"), [("codeact/base:debian-0123", "debian"), ("python:3.12-slim", "python:3.12-slim")]
)
def test_bases_are_named_as_users_name_them(reference: str, kind: str) -> None:
    assert base_kind(reference) == kind


def facts(**changed: object) -> dict[str, object]:
    """What a sound image of one package says of itself."""
    return {
        "python": "3.12.4",
        "prefix": "/opt/venv",
        "accounts": {"supervisor": [10001, 10001], "agent": [10002, 10001]},
        "group": "codeact",
        "folders": ["/workspace", "/run/k", "/run/s", "/opt/sandbox"],
        "setuid": [],
        "packages": {"Alpha_One": "1.0"},
        "pyplot": None,
        "failed": {},
    } | changed


def failing(checks: list[Check]) -> list[str]:
    return [check.name for check in checks if not check.ok]


@pytest.mark.parametrize(
    ("changed", "names"),
    [
        ({}, []),
        ({"prefix": "/usr"}, ["python"]),
        ({"accounts": {"agent": [10002, 10001]}}, ["accounts"]),
        ({"group": "staff"}, ["accounts"]),
        ({"folders": ["/workspace"]}, ["folders"]),
        ({"setuid": ["/usr/bin/su"]}, ["no setuid files"]),
        ({"packages": {}}, ["locked packages"]),
        ({"packages": {"alpha-one": "1.1"}}, ["locked packages"]),
        ({"packages": {"alpha-one": "1.0", "pip": "24"}}, ["locked packages"]),
        ({"failed": {"alpha": "ImportError: no"}}, ["imports"]),
        ({"pyplot": 0.4}, []),
        ({"pyplot": 9.0}, ["pyplot"]),
    ],
)
def test_each_departure_fails_its_check(changed: dict[str, object], names: list[str]) -> None:
    assert failing(check_facts(facts(**changed), {"alpha-one": "1.0"})) == names


class Engine:
    """As much of a client as `remove_older` needs: images with tags and the time they were made."""

    def __init__(self, made: dict[str, str]) -> None:
        self.made = made
        self.images = self

    def list(self, filters: dict[str, str]) -> list[Any]:
        return [SimpleNamespace(tags=[tag], attrs={"Created": created}) for tag, created in self.made.items()]

    def remove(self, tag: str) -> None:
        del self.made[tag]


def test_an_image_of_another_checkout_stays_for_a_week() -> None:
    now = datetime.datetime.now(datetime.UTC)
    ages = {"kept": 30, "old": 8, "young": 6}
    made = {tag: (now - datetime.timedelta(days=days)).isoformat() for tag, days in ages.items()}
    engine = Engine(made | {"odd": "never"})
    remove_older(engine, "data", keep={"kept"})
    assert sorted(engine.made) == ["kept", "odd", "young"]
