"""The direction of imports: benchmarks → codeact → sandbox, never back; and what runs inside imports nothing of the host."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MAY_IMPORT = {
    "sandbox": {"sandbox"},
    "codeact": {"codeact", "sandbox"},
    "benchmarks": {"benchmarks", "codeact", "sandbox"},
}
OWN = {"sandbox", "codeact", "benchmarks", "tests", "sandbox_guest"}


def imported(file: Path) -> Iterator[str]:
    """The top-level packages of this project that a file imports, relative imports left out."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [node.module or ""]
        else:
            continue
        yield from (name.partition(".")[0] for name in names if name.partition(".")[0] in OWN)


@pytest.mark.parametrize("package", sorted(MAY_IMPORT))
def test_imports_point_one_way(package: str) -> None:
    inside = {ROOT / "sandbox" / "guest", ROOT / "codeact" / "inside"}
    files = [f for f in (ROOT / package).rglob("*.py") if not inside & set(f.parents)]
    assert files
    wrong = {
        str(f.relative_to(ROOT)): found for f in files if (found := set(imported(f)) - MAY_IMPORT[package])
    }
    assert wrong == {}


@pytest.mark.parametrize(
    ("folder", "allowed"), [("sandbox/guest", set()), ("codeact/inside", {"sandbox_guest"})]
)
def test_what_runs_inside_imports_nothing_of_the_host(folder: str, allowed: set[str]) -> None:
    files = list((ROOT / folder).rglob("*.py"))
    assert files
    wrong = {f.name: found for f in files if (found := set(imported(f)) - allowed)}
    assert wrong == {}


def test_the_sandbox_does_not_speak_of_answers_nor_the_agent_of_containers() -> None:
    """A word of the agent's protocol in `sandbox`, or of the engine in the agent's core, is in the wrong house."""
    for file in (ROOT / "sandbox").rglob("*.py"):
        assert "final_answer" not in file.read_text(encoding="utf-8"), file
    core = ("agent.py", "run/*.py", "context.py", "observation.py", "answers.py", "journal.py")
    for file in (file for pattern in core for file in (ROOT / "codeact").glob(pattern)):
        assert "docker" not in file.read_text(encoding="utf-8").lower(), file
