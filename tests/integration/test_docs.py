"""The documentation, held to what is true: its examples are executed, its tables compared, its links followed.

Fenced blocks are what their language says. `console`: lines after `$ ` are run, and what they print must be what stands
below them; a line `[...]` there stands for any lines. `python`: run as a script, with the `text` block that follows as
its output. `toml`: loaded as settings. `jsonl`: a file of `examples/`. The blocks of one document run in order, in one
folder that holds a copy of `examples/`. A comment `<!-- not run: WHY -->` before a block keeps it from being run, for one
of the reasons below.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import copytree

import click
import pytest

from benchmarks.__main__ import main as benchmarks
from benchmarks.speed import main as speed
from codeact import __version__, config, events
from codeact.cli import cli
from codeact.commands import invocation
from codeact.inside.sources import BY_SUFFIX, WRAPPED
from codeact.models import catalogue
from sandbox import Limits
from tests.command import ROOT, environment

NOT_RUN = {
    "setup": "sets the machine up, or starts these very tests",
    "key": "asks an endpoint, which needs a key and a network",
    "local-model": "loads the model of 1.1 GB, which takes minutes and the machine's memory",
    "slow": "takes minutes",
}
DOCUMENTS = sorted(
    [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/*.md"),
        *ROOT.glob("images/**/*.md"),
        *ROOT.glob("benchmarks/**/*.md"),
    ]
)
LANGUAGES = {"console", "python", "toml", "text", "json", "jsonl", ""}
SECONDS = 60

FENCE = re.compile(
    r"(?:<!-- not run: (?P<why>[\w-]+) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
VARYING = (
    (re.compile(r"\b\d{8}-\d{6}-[0-9a-f]{6}\b"), "RUN"),
    (re.compile(r"\b\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z"), "TIME"),
    (re.compile(r"\b\d+\.\d s\b"), "SECONDS"),
    (re.compile(r"\b\d+\+\d+ tokens\b"), "TOKENS"),
)
"""What differs from run to run, as the README says."""


@dataclass(frozen=True)
class Block:
    """A fenced block; `line` is that of its text in the document."""

    language: str
    text: str
    line: int
    why: str | None


def blocks(document: Path) -> Iterator[Block]:
    text = document.read_text(encoding="utf-8")
    for found in FENCE.finditer(text):
        line = text.count("\n", 0, found.start("text")) + 1
        yield Block(found["language"], found["text"], line, found["why"])


def runnable(document: Path) -> bool:
    return any(block.language in ("console", "python") and block.why is None for block in blocks(document))


def commands(text: str) -> Iterator[tuple[str, str]]:
    """The commands of a `console` block, each with what is shown below it."""
    assert text.startswith("$ ")
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, shown = part.partition("\n")
        yield command, shown


def settled(text: str) -> str:
    for pattern, name in VARYING:
        text = pattern.sub(name, text)
    return text


def matches(shown: str, printed: str) -> bool:
    parts = [re.escape(part) for part in re.split(r"^\[\.\.\.\]\n", settled(shown), flags=re.MULTILINE)]
    return re.fullmatch("(?:.*\n)*".join(parts), settled(printed)) is not None


@dataclass(frozen=True)
class Run:
    """Runs a command as a reader would: in the current folder, with the checkout's programs on the path."""

    folder: Path

    def __call__(self, command: Sequence[str]) -> str:
        env = environment(self.folder)
        env["PATH"] = f"{Path(sys.executable).parent}:{env['PATH']}"
        done = subprocess.run(
            command, cwd=self.folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SECONDS, check=False
        )  # fmt: skip
        printed = done.stdout.decode().replace(str(self.folder), "/home/you")
        assert done.returncode == 0, printed
        return printed


@pytest.fixture
def printed_by(tmp_path: Path) -> Run:
    copytree(ROOT / "examples", tmp_path / "examples")
    return Run(tmp_path)


@pytest.mark.docker
@pytest.mark.parametrize(
    "document", [each for each in DOCUMENTS if runnable(each)], ids=lambda d: d.relative_to(ROOT).as_posix()
)
def test_examples_print_what_is_shown(document: Path, printed_by: Run) -> None:
    found = list(blocks(document))
    for block, following in zip(found, [*found[1:], None], strict=True):
        where = f"{document.name}:{block.line}"
        if block.why is not None:
            continue
        if block.language == "console":
            for command, shown in commands(block.text):
                printed = printed_by(["bash", "-c", command])
                assert matches(shown, printed), f"{where}: $ {command}\n{printed}"
        elif block.language == "python":
            assert following is not None, f"{where}: its output is not shown"
            assert following.language == "text", f"{where}: its output is not shown"
            printed = printed_by([sys.executable, "-W", "error", "-c", block.text])
            assert matches(following.text, printed), f"{where}:\n{printed}"


def test_what_is_not_run_has_a_known_reason() -> None:
    reasons = {block.why for document in DOCUMENTS for block in blocks(document) if block.why is not None}
    assert reasons == set(NOT_RUN)


def test_every_block_says_what_it_is() -> None:
    assert {block.language for document in DOCUMENTS for block in blocks(document)} <= LANGUAGES


def test_settings_files_are_loaded(tmp_path: Path) -> None:
    texts = [block.text for document in DOCUMENTS for block in blocks(document) if block.language == "toml"]
    assert texts
    for text in texts:
        (tmp_path / "codeact.toml").write_text(text, encoding="utf-8")
        assert config.load({}, environ={}, folder=tmp_path) != config.Settings()


def test_scripts_are_those_of_the_examples() -> None:
    texts = {block.text for document in DOCUMENTS for block in blocks(document) if block.language == "jsonl"}
    assert texts
    assert texts <= {path.read_text(encoding="utf-8") for path in ROOT.glob("examples/*.jsonl")}


# -- links ------------------------------------------------------------------------------------------------------------


def links(document: Path) -> Iterator[str]:
    text = FENCE.sub("", document.read_text(encoding="utf-8"))
    yield from re.findall(r"\]\(([^)\s]+)\)", text)


def anchors(document: Path) -> set[str]:
    """The headings of a document as GitHub names them."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", document.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: d.relative_to(ROOT).as_posix())
def test_relative_links_lead_somewhere(document: Path) -> None:
    for link in links(document):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (document.parent / path).resolve() if path else document
        assert target.exists(), f"{document.name}: {link}"
        assert not anchor or anchor in anchors(target), f"{document.name}: {link}"


def test_every_document_is_linked_from_the_readme() -> None:
    linked = {(ROOT / link).resolve() for link in links(ROOT / "README.md") if ":" not in link}
    assert set(ROOT.glob("docs/*.md")) <= linked


# -- tables -----------------------------------------------------------------------------------------------------------


def section(document: str, heading: str) -> str:
    text = (ROOT / document).read_text(encoding="utf-8")
    found = re.search(rf"^(#+) {re.escape(heading)}\n(.*?)(?=^#|\Z)", text, re.MULTILINE | re.DOTALL)
    assert found, f"{document} has no section {heading!r}"
    return found[2]


def rows(document: str, heading: str) -> list[list[str]]:
    """The cells of the tables in a section, without their header rows, code marks and escapes."""
    found = []
    for table in re.findall(r"^\|.*\n\|[-|]+\|\n((?:\|.*\n)+)", section(document, heading), re.MULTILINE):
        for row in table.splitlines():
            cells = re.split(r"(?<!\\)\|", row.strip("|"))
            found.append([cell.strip().replace("`", "").replace("\\|", "|") for cell in cells])
    return found


def leaves(command: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    if not isinstance(command, click.Group) or command.invoke_without_command:
        yield path, command
    if isinstance(command, click.Group):
        for name, below in command.commands.items():
            yield from leaves(below, f"{path} {name}")


def options(command: click.Command) -> set[str]:
    """The long names of a command's options."""
    return {max(each.opts, key=len) for each in command.params if isinstance(each, click.Option)}


COMMANDS: Mapping[str, click.Command] = dict(leaves(cli, "codeact"))


@pytest.mark.parametrize("path", COMMANDS)
def test_every_command_is_described_with_its_flags(path: str) -> None:
    described = {row[0].split()[0] for row in rows("docs/command-line.md", path)}
    assert described == options(COMMANDS[path])


def test_no_command_is_described_that_is_not_there() -> None:
    text = (ROOT / "docs/command-line.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^## (codeact .+)$", text, re.MULTILINE)) == set(COMMANDS)


def test_settings_are_described_with_their_names_and_defaults() -> None:
    described = [row[:4] for row in rows("docs/command-line.md", "codeact solve")]
    assert described == [
        [
            f"{config.flag(name)} {kind.metavar}".strip(),
            config.variable(name),
            name,
            ""
            if config.DEFAULTS[name] in (None, (), False)
            else f"{config.DEFAULTS[name]}".removesuffix(".0"),
        ]
        for name, kind in config.KINDS.items()
    ]


def test_limits_in_the_readme_are_the_defaults() -> None:
    described = {
        flag: default
        for flags, defaults, _ in rows("README.md", "Limits and exit codes")
        for flag, default in zip(flags.split(", "), defaults.split(", "), strict=True)
    }
    named = {config.flag(name): f"{default}".removesuffix(".0") for name, default in config.DEFAULTS.items()}
    assert described.items() <= named.items()
    assert len(described) == 8


def test_exit_codes_are_those_of_the_command_line() -> None:
    codes = [
        invocation.ANSWERED,
        invocation.NO_ANSWER,
        invocation.USAGE,
        invocation.LIMIT,
        invocation.NO_SANDBOX,
        invocation.NO_MODEL,
        invocation.INTERRUPTED,
    ]
    assert [row[0] for row in rows("docs/command-line.md", "Exit codes")] == [str(code) for code in codes]


def test_events_are_described_with_their_fields() -> None:
    text = (ROOT / "docs/events.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^### (\w+)", text, re.MULTILINE)) == set(events.BY_TYPE)
    head = set(events.field_names(events.Event))
    for name, kind in events.BY_TYPE.items():
        described = {row[0] for row in rows("docs/events.md", name)}
        assert described == set(events.field_names(kind)) - head, name
        assert kind.live_only == ("not in the journal" in section("docs/events.md", name)), name


def test_what_every_event_has_is_described() -> None:
    described = {row[0] for row in rows("docs/events.md", "What every event has")}
    assert described == {"v", "type", *events.field_names(events.Event)}


def test_limits_of_the_sandbox_are_described_with_their_defaults() -> None:
    described = {row[0]: row[1] for row in rows("docs/sandbox.md", "Limits")}
    named = {name: described[name] for name in Limits.__dataclass_fields__}
    assert Limits(**named) == Limits()


def test_local_models_are_described() -> None:
    described = [row[:4] for row in rows("docs/models.md", "The local model")]
    assert described == [
        [each.name, f"{each.size / 1e6:,.0f} MB", f"{each.memory / 1e9:.1f} GB", each.licence]
        for each in catalogue.CATALOGUE.values()
    ]
    assert described[0][0] == catalogue.DEFAULT


def test_data_formats_are_described() -> None:
    described = {suffix: row[0] for row in rows("docs/data.md", "Formats") for suffix in row[1].split()}
    assert described == {**BY_SUFFIX, **dict.fromkeys(WRAPPED, "wrapped")}


def test_flags_of_the_benchmarks_are_described() -> None:
    assert isinstance(benchmarks, click.Group)
    for document, heading, command in (
        ("docs/comparison.md", "Flags", benchmarks.commands["run"]),
        ("docs/benchmarks.md", "Speed", speed),
    ):
        words = (row[0].split()[:1] for row in rows(document, heading))  # the first word, of what has one
        described = {word.rstrip(",") for found in words for word in found if word.startswith("--")}
        assert described == options(command), heading


def test_make_targets_are_described() -> None:
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    described = {row[0].removeprefix("make ") for row in rows("CONTRIBUTING.md", "Commands")}
    assert described == set(targets) - {"help"}


def test_the_changelog_begins_with_this_version() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    found = re.search(r"^## ([\d.]+)", text, re.MULTILINE)
    assert found is not None
    assert found[1] == __version__


def test_each_promise_names_tests_that_there_are() -> None:
    text = (ROOT / "docs/security.md").read_text(encoding="utf-8")
    files = {path.name: path for path in (ROOT / "tests").rglob("*.py")}
    named = set(re.findall(r"`(?:tests/\w+/)?(\w+\.py)`", text))
    assert len(named) > 10
    assert named <= set(files)
    code = "\n".join(files[name].read_text(encoding="utf-8") for name in named)
    for test in re.findall(r"`(test_\w+)`", text):
        assert f"def {test}(" in code, test
