"""Suites over files: the tools that read them as tables suffice for right answers, and reach nothing else."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.suites import direct, suite
from benchmarks.suites.base import Task, ToolFault, check
from benchmarks.suites.files import Files
from benchmarks.suites.mutants import mutants

TASKS = [*suite("small-tasks"), *suite("messy")]


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.id)
def test_a_query_answers_the_task_and_what_is_nearly_right_does_not(task: Task) -> None:
    assert direct.solve(task).success
    assert not check(task, None, task.start(0.0)).success
    assert [mutant.how for mutant in mutants(task) if mutant.verdict.success] == []


def tools(files: dict[str, Path]) -> dict[str, Callable[..., Any]]:
    return {tool.name: tool.call for tool in Files(files, 0.0).tools()}


def test_a_file_is_there_with_and_without_what_was_made_of_it(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes("Größe;Preis\n007;1,5\n012;\n".encode("cp1252"))
    called = tools({"a.csv": path})
    assert called["list_files"]() == [{"file": "a.csv", "bytes": 25, "tables": ["a"]}]
    found = called["sniff_file"](file="a.csv")
    assert (found["encoding"], found["delimiter"], found["first_rows"][0]) == (
        "cp1252",
        ";",
        ["Größe", "Preis"],
    )
    assert called["read_rows"](table="a", offset=1, limit=5) == [["007", "1,5"], ["012", None]]
    assert called["sql"](query="SELECT c1 FROM a_raw ORDER BY n")["rows"] == [["Größe"], ["007"], ["012"]]
    assert called["sql"](query='SELECT "Größe" FROM a')["columns"] == ["Größe"]
    assert [column["column_name"] for column in called["describe"](table="a")] == ["Größe", "Preis"]


def test_two_files_of_one_name_are_two_tables(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("a,b\n1,2\n")
    (tmp_path / "x.json").write_text('[{"a": 5}]')
    called = tools({"x.csv": tmp_path / "x.csv", "x.json": tmp_path / "x.json"})
    assert [each["tables"] for each in called["list_files"]()] == [["x"], ["x_2"]]
    assert called["sql"](query="SELECT x.a + x_2.a FROM x, x_2")["rows"] == [[6]]


def test_long_results_are_cut_and_it_is_said(tmp_path: Path) -> None:
    path = tmp_path / "n.csv.gz"
    path.write_bytes(gzip.compress(b"n,m\n" + b"".join(b"%d,1\n" % number for number in range(1000))))
    called = tools({"n.csv.gz": path})
    found = called["sql"](query="SELECT * FROM n")
    assert (len(found["rows"]), found["note"]) == (200, "only the first 200 rows")
    assert called["sql"](query="SELECT sum(n) FROM n")["rows"] == [[499500]]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM read_text('/etc/hostname')",
        "COPY a TO '/tmp/should-not-be-there.csv'",
        "ATTACH '/tmp/should-not-be-there.db'",
        "INSTALL httpfs",
        "SET enable_external_access = true",
        "SELECT nothing FROM a",
        "SELEC",
    ],
)
def test_queries_reach_nothing_but_the_tables(query: str, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(ToolFault):
        tools({"a.csv": path})["sql"](query=query)
    assert not list(Path("/tmp").glob("should-not-be-there*"))


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("sniff_file", {"file": "b.csv"}, r"there is no file 'b.csv'; there are a.csv"),
        ("read_rows", {"table": "b"}, "there is no table 'b'; there are a"),
        ("read_rows", {"table": "a", "limit": 500}, "limit is 1 to 200"),
    ],
)
def test_what_is_not_there_is_said(name: str, arguments: dict[str, Any], words: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ToolFault, match=words):
        tools({"a.csv": tmp_path / "a.csv"})[name](
            **{"offset": 0, "limit": 50, **arguments} if name == "read_rows" else arguments
        )
