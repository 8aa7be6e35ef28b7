"""What an image says of itself (`images/base/facts.py`) against what it should be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from packaging.utils import canonicalize_name

ACCOUNTS = {"supervisor": [10001, 10001], "agent": [10002, 10001]}
FOLDERS = ["/workspace", "/run/k", "/run/s", "/opt/sandbox"]
PYPLOT_SECONDS = 5.0
"""Longer than any import takes on a busy machine, shorter than building the font list and importing."""


class Check(NamedTuple):
    """`ok` is whether the named thing holds; `detail` says what was found."""

    name: str
    ok: bool
    detail: str


def check_facts(facts: Mapping[str, Any], packages: Mapping[str, str]) -> list[Check]:
    """`packages` is name → version as locked for the image's Python."""
    installed: dict[str, str] = {
        canonicalize_name(name): version for name, version in facts["packages"].items()
    }
    differing = sorted(
        f"{name} {installed.get(name, 'missing')} (locked: {packages.get(name, 'not')})"
        for name in {*installed, *packages}
        if installed.get(name) != packages.get(name)
    )
    failed = [f"{module}: {error}" for module, error in facts["failed"].items()]
    checks = [
        Check("python", facts["prefix"] == "/opt/venv", f"{facts['python']} in {facts['prefix']}"),
        Check(
            "accounts", facts["accounts"] == ACCOUNTS and facts["group"] == "codeact", str(facts["accounts"])
        ),
        Check("folders", facts["folders"] == FOLDERS, " ".join(facts["folders"])),
        Check("no setuid files", not facts["setuid"], " ".join(facts["setuid"])),
        Check(
            "locked packages", not differing, ", ".join(differing) or f"{len(installed)} at their versions"
        ),
        Check("imports", not failed, "; ".join(failed) or "all of them"),
    ]
    if facts["pyplot"] is not None:
        checks.append(
            Check("pyplot", facts["pyplot"] < PYPLOT_SECONDS, f"imported in {facts['pyplot']:.1f} s")
        )
    return checks
