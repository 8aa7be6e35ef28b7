"""What pip chooses for the Python inside, and what is said where it cannot: with wheels and sources of the test's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from sandbox import image_packages
from sandbox.errors import ImageError
from sandbox.image_packages import Resolved, parse, resolve
from sandbox.wheels import Target, fetch
from tests.sites import Site
from tests.wheels import folder, source, wheel
from tests.wheels import index as pages

INSTALLED = {"numpy": "2.0.0", "pip": "26.3"}
FOREIGN = "cp311-cp311-win_amd64"


def target(python: str = "3.11.2", machine: str = "x86_64") -> Target:
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


@pytest.fixture(autouse=True)
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """pip sees this folder and nothing else; only its end is what the user's settings would be."""
    wheels = folder(
        tmp_path / "wheels",
        wheel("alpha", "1.0"),
        wheel(
            "alpha",
            "1.2",
            requires=["beta>=2", "gamma; python_version < '3.12'", "delta; python_version >= '3.12'"],
        ),
        wheel("beta", "2.0"),
        wheel("gamma", "0.1"),
        wheel("delta", "0.2"),
        wheel("needs_old", "1.0", requires=["numpy<2"]),
        wheel("needs_any", "1.0", requires=["numpy"]),
        wheel("plus", "1.0", requires=["beta; extra == 'more'"], extra="Provides-Extra: more\n"),
        wheel("needs_more", "1.0", requires=["plus[more]"]),
        wheel("needs_newer", "1.0", requires=["alpha>=9"]),
        wheel("needs_foreign", "1.0", requires=["foreign>=3"]),
        wheel("numpy", "1.9.0"),
        wheel("numpy", "2.0.0"),
        wheel("foreign", "3.0", tag=FOREIGN),
        source("sourced", "1.0"),
    )
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    return wheels


def chosen(*asked: str, python: str = "3.11.2") -> dict[str, str]:
    return {r.name: r.version for r in resolve(asked, INSTALLED, target(python))}


@pytest.mark.parametrize(
    ("asked", "added"),
    [
        (["alpha==1.0"], {"alpha": "1.0"}),
        (["alpha"], {"alpha": "1.2", "beta": "2.0", "gamma": "0.1"}),
        (["Alpha<1.2", "beta"], {"alpha": "1.0", "beta": "2.0"}),
        (["needs_any"], {"needs-any": "1.0"}),
        (["numpy"], {}),
        (["numpy>=2", "beta"], {"beta": "2.0"}),
        (["plus"], {"plus": "1.0"}),
        (["plus[more]"], {"plus": "1.0", "beta": "2.0"}),
        (["needs_more"], {"needs-more": "1.0", "plus": "1.0", "beta": "2.0"}),
        (["beta; sys_platform == 'win32'"], {}),
    ],
)
def test_what_is_added(asked: list[str], added: dict[str, str]) -> None:
    assert chosen(*asked) == added


def test_a_dependency_with_extras_is_asked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []
    ask = image_packages._ask_pip

    def counted(wanted: Sequence[str], installed: Mapping[str, str], inside: Target) -> list[Resolved]:
        asked.append(list(wanted))
        return ask(wanted, installed, inside)

    monkeypatch.setattr(image_packages, "_ask_pip", counted)
    chosen("needs_more")
    assert asked == [["needs_more"], ["needs_more", "plus[more]"]]


def test_what_the_python_inside_needs_is_added_whatever_pip_runs_on() -> None:
    assert "delta" in chosen("alpha", python="3.12.4")
    assert "gamma" in chosen("alpha", python="3.11.2")


def test_hashes_are_those_of_the_files(index: Path) -> None:
    import hashlib

    (added,) = resolve(["beta"], INSTALLED, target())
    assert added.hashes == {
        "sha256:" + hashlib.sha256((index / "beta-2.0-py3-none-any.whl").read_bytes()).hexdigest()
    }


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (["nowhere"], "nowhere: your package index has no such package: check the name"),
        (
            ["alpha==9"],
            "alpha==9: there is no such version with a wheel for Python 3.11 on x86_64: there are 1.0, 1.2",
        ),
        (["foreign"], "foreign: has no wheel for Python 3.11 on x86_64"),
        (["needs_newer"], "alpha>=9: there is no such version with a wheel for Python 3.11 on x86_64"),
        (["needs_foreign"], "foreign>=3: has no wheel for Python 3.11 on x86_64"),
        (["sourced"], "sourced: has no wheel for Python 3.11 on x86_64, and nothing is built on the host"),
        (["numpy==1.9.0"], "numpy==1.9.0 does not fit the image, which has numpy 2.0.0"),
        (["needs_old"], "needs-old 1.0 depends on numpy<2; the image has numpy==2.0.0"),
        (["alpha==1.0", "alpha==1.2"], "alpha==1.0"),
    ],
)
def test_what_cannot_be_had_is_said_in_one_line(asked: list[str], said: str) -> None:
    with pytest.raises(ImageError) as caught:
        chosen(*asked)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "executed on the host" not in str(caught.value)


def test_sources_that_a_wheel_names_by_their_address_are_not_built(index: Path, tmp_path: Path) -> None:
    executed = tmp_path / "executed"
    name, packed = source("inner", "1.0", f"open({str(executed)!r}, 'w')")
    inner = tmp_path / name
    inner.write_bytes(packed)
    folder(index, wheel("outer", "1.0", requires=[f"inner @ {inner.as_uri()}"]))
    with pytest.raises(ImageError, match=r"inner@.* is no wheel, and nothing is built on the host"):
        chosen("outer")
    assert not executed.exists()


def test_a_wheel_is_found_however_its_version_is_written(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder(index, wheel("dated", "2020.04.05"))
    inside = target()
    (found,) = fetch(resolve(["dated"], INSTALLED, inside), inside, lambda _: None)
    assert found.name == "dated-2020.04.05-py3-none-any.whl"


def test_an_index_that_cannot_be_reached_is_not_a_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "1")
    with pytest.raises(ImageError, match="the package index cannot be reached: check the network"):
        chosen("nowhere")


@pytest.mark.parametrize("asked", ["foreign", "sourced"])
def test_an_index_tells_of_files_that_do_not_fit(monkeypatch: pytest.MonkeyPatch, asked: str) -> None:
    with Site(pages(wheel("foreign", "3.0", tag=FOREIGN), source("sourced", "1.0"))) as site:
        monkeypatch.delenv("PIP_NO_INDEX")
        monkeypatch.delenv("PIP_FIND_LINKS")
        monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{site.port}/simple")
        with pytest.raises(ImageError, match=f"{asked}: has no wheel for Python 3.11 on x86_64"):
            chosen(asked)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is not a package"),
        ("a b", "is not a package"),
        ("-r file.txt", "is not a package"),
        ("--index-url=http://x", "is not a package"),
        ("./folder", "is not a package"),
        ("a @ https://example.org/a.whl", "is a URL"),
        ("a @ file:///etc/passwd", "is a URL"),
    ],
)
def test_what_is_no_package_is_refused(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said) as caught:
        parse(text)
    assert "\n" not in str(caught.value)
