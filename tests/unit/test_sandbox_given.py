"""What a sandbox is given by mistake: one line that names it, what it got and what it takes. None of these starts anything."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sandbox import Limits, Network, Pool, Sandbox
from sandbox.given import SETTINGS
from sandbox.pool import Settings

sandbox: Callable[..., Sandbox] = Sandbox  # whatever a caller without a type checker gives
pool: Callable[..., Pool] = Pool

WRONG: list[tuple[str, Any, str]] = [
    ("image", 5, "image: is of type int; give the name of an image"),
    ("image", " ", "image: is empty; give"),
    ("limits", {"memory": "1g"}, "limits: is of type dict; give Limits, as in"),
    ("timeout", "60", "timeout: is of type str; give seconds above 0"),
    ("timeout", True, "timeout: is of type bool; give"),
    ("timeout", 0, "timeout: is 0; give"),
    ("timeout", math.nan, "timeout: is nan; give"),
    ("timeout", 10**400, "timeout: is 1000"),
    ("max_timeout", -1, "max_timeout: is -1; give"),
    ("network", 5, "network: is of type int; give host names"),
    ("network", ["http://x"], "network: 'http://x' is not a host name; write the host alone: x; give"),
    ("on_connection", None, "on_connection: is of type NoneType; give a function"),
    ("packages", "numpy", "packages: is a text; give names of packages in a list"),
    ("packages", [5], "packages: has 5 in it, which is no text; give"),
    ("on_progress", "print", "on_progress: is of type str; give a function"),
    ("inputs", ["a.csv"], "inputs: is of type list; give Paths by name"),
    ("inputs", {"a.csv": "a.csv"}, "inputs: 'a.csv' is of type str; give Paths by name"),
    ("inputs", {5: Path("a.csv")}, "inputs: 5 is of type int; give Paths by name"),
    ("functions", {"f": 5}, "functions: 'f' is of type int; give functions by name"),
    ("runtime", 5, "runtime: is of type int; give the name of a runtime"),
    ("label", None, "label: is of type NoneType; give a text"),
    ("backend", "podman", "backend: 'podman' is not known; give auto or docker or bubblewrap"),
]


@pytest.mark.parametrize(("name", "value", "message"), WRONG)
def test_settings_that_are_none(name: str, value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        sandbox(**{name: value})
    if name in ("image", *Settings.__annotations__):
        with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
            pool(**{name: value})


def test_every_setting_is_checked_and_what_fits_is_taken() -> None:
    assert set(SETTINGS) == set(inspect.signature(Sandbox).parameters)
    assert {name for name, _, _ in WRONG} == set(SETTINGS)
    box = sandbox(
        "minimal",
        limits=Limits(memory="1g"),
        timeout=1,
        max_timeout=math.inf,
        network=Network.parse("a.example"),
        inputs={},
        functions={"len": len},
        packages=(),
        runtime=None,
    )
    assert (box.timeout, box.max_timeout) == (1, math.inf)


@pytest.mark.parametrize(
    "once", [iter, lambda values: (each for each in values), lambda values: map(str, values)]
)
def test_what_can_be_read_only_once_is_not_lost_to_the_check(once: Callable[[list[str]], Any]) -> None:
    box = sandbox("minimal", packages=once(["humanize"]), network=once(["a.example"]))
    assert (box._packages, str(box._network)) == (["humanize"], "a.example")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda box: box.run(None), "code: is of type NoneType; give Python as a text"),
        (lambda box: box.run(b"1"), "code: is of type bytes; give"),
        (lambda box: box.run("1", timeout="5"), "timeout: is of type str; give seconds"),
        (lambda box: box.run("1", timeout=10**400), "timeout: is 1000"),
        (lambda box: list(box.stream("1", max_timeout=[])), "max_timeout: is of type list; give seconds"),
        (lambda box: box.write(5, "a"), "path: is of type int; give a path within /workspace"),
        (lambda box: box.write("a", 5), "content: is of type int; give text or bytes"),
    ],
)
def test_what_is_no_cell_and_no_file(call: Callable[[Any], object], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        call(Sandbox("minimal"))
