"""Suites of others, read from small samples in their own formats."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.suites import FOREIGN, direct, suite
from benchmarks.suites.adapters.spider import rows_of
from benchmarks.suites.base import Task, check
from codeact.errors import UsageError


def lines(*objects: dict[str, Any]) -> str:
    return "".join(json.dumps(each) + "\n" for each in objects)


def dabench(root: Path) -> None:
    data = root / "examples" / "DA-Agent" / "data"
    (data / "da-dev-tables").mkdir(parents=True)
    (data / "da-dev-tables" / "fares.csv").write_text("fare,ok\n1.5,yes\n2.5,no\n")
    asked = {
        "constraints": "Round to two decimals.",
        "format": "@mean_fare[value]",
        "file_name": "fares.csv",
        "level": "easy",
    }
    (data / "da-dev-questions.jsonl").write_text(
        lines(
            {"id": 0, "question": "The mean fare?", "concepts": ["Summary Statistics"], **asked},
            {"id": 7, "question": "Predict it.", "concepts": ["Machine Learning"], **asked},
        )
    )
    (data / "da-dev-labels.jsonl").write_text(
        lines(
            {"id": 0, "common_answers": [["mean_fare", "2.00"], ["is_normal", "No"]]},
            {"id": 7, "common_answers": [["accuracy", "0.78"]]},
        )
    )


def wtq(root: Path) -> None:
    (root / "data").mkdir()
    (root / "csv" / "204-csv").mkdir(parents=True)
    (root / "csv" / "204-csv" / "1.csv").write_text('"Year","City"\n"1999","Malmö (SE)"\n"2001","Oslo"\n')
    (root / "data" / "pristine-unseen-tables.tsv").write_text(
        "id\tutterance\tcontext\ttargetValue\n"
        "nu-0\twhich cities\\p towns?\tcsv/204-csv/1.csv\tMalmö|Oslo\n"
        "nu-1\thow many?\tcsv/204-csv/1.csv\t1,200\n"
    )


def spider(root: Path) -> None:
    folder = root / "spider" / "database" / "pets"
    folder.mkdir(parents=True)
    database = sqlite3.connect(folder / "pets.sqlite")
    database.execute("CREATE TABLE pet (name TEXT, age INT)")
    database.executemany("INSERT INTO pet VALUES (?, ?)", [("Rex", 3), ("Tom", 1)])
    database.commit()
    database.close()
    queries = [
        "SELECT name, age FROM pet",
        "SELECT name FROM pet ORDER BY age",
        "SELECT name FROM pet WHERE age > 9",
        "SELECT x FROM y",
    ]
    told = [
        {"db_id": "pets", "question": f"Question {n}?", "query": query} for n, query in enumerate(queries)
    ]
    (root / "spider" / "dev.json").write_text(json.dumps(told))


SAMPLES: dict[str, Callable[[Path], None]] = {"dabench": dabench, "wtq": wtq, "spider": spider}


def tasks(name: str, root: Path) -> dict[str, Task]:
    SAMPLES[name](root)
    return {task.id: task for task in suite(name, path=root)}


@pytest.mark.parametrize(
    ("name", "task", "answer", "right"),
    [
        ("dabench", "dabench-0", {"mean_fare": 2, "is_normal": "No"}, True),
        ("dabench", "dabench-0", {"mean_fare": "2.0", "is_normal": "No", "more": 1}, True),
        ("dabench", "dabench-0", {"mean_fare": 2.01, "is_normal": "No"}, False),
        ("dabench", "dabench-0", {"mean_fare": 2}, False),
        ("dabench", "dabench-0", "2.00", False),
        ("wtq", "wtq-nu-0", ["oslo", "Malmo (Sweden)"], True),
        ("wtq", "wtq-nu-0", ["Oslo"], False),
        ("wtq", "wtq-nu-0", ["Oslo", "Malmö", "Graz"], False),
        ("wtq", "wtq-nu-1", [1200], True),
        ("wtq", "wtq-nu-1", ["1200.0"], True),
        ("wtq", "wtq-nu-1", [1201], False),
        ("spider", "spider-0", [["Tom", 1], ["Rex", 3]], True),
        ("spider", "spider-0", [[1, "Tom"], [3, "Rex"]], True),
        ("spider", "spider-0", [["Tom", 1]], False),
        ("spider", "spider-1", [["Tom"], ["Rex"]], True),
        ("spider", "spider-1", [["Rex"], ["Tom"]], False),
    ],
)
def test_answers_are_judged_as_their_makers_do(
    name: str, task: str, answer: Any, right: bool, tmp_path: Path
) -> None:
    found = tasks(name, tmp_path)[task]
    assert check(found, answer, found.start(0.0)).success is right


@pytest.mark.parametrize(
    ("name", "ids"),
    [
        ("dabench", ["dabench-0"]),
        ("wtq", ["wtq-nu-0", "wtq-nu-1"]),
        ("spider", ["spider-0", "spider-1"]),
    ],
)
def test_what_can_be_judged_is_asked_and_the_rest_left_out(name: str, ids: list[str], tmp_path: Path) -> None:
    found = tasks(name, tmp_path)
    assert list(found) == ids
    for task in found.values():
        assert direct.solve(task).success
        assert not check(task, None, task.start(0.0)).success
        assert [tool.name for tool in task.start(0.0).tools()][-1] == "sql"


def test_a_database_is_a_table_for_each_of_its_own(tmp_path: Path) -> None:
    task = tasks("spider", tmp_path)["spider-0"]
    query = {tool.name: tool.call for tool in task.start(0.0).tools()}["sql"]
    assert query(query="SELECT max(age) FROM pet")["rows"] == [[3]]


def test_a_sample_is_the_same_for_the_same_seed(tmp_path: Path) -> None:
    wtq(tmp_path)
    rows = [f"nu-{n}\twhich?\tcsv/204-csv/1.csv\t{n}\n" for n in range(500)]
    (tmp_path / "data" / "pristine-unseen-tables.tsv").write_text(
        "id\tutterance\tcontext\ttargetValue\n" + "".join(rows)
    )
    first, again, other = ([task.id for task in suite("wtq", seed=seed, path=tmp_path)] for seed in (1, 1, 2))
    assert len(first) == 200
    assert first == again != other


@pytest.mark.parametrize("name", sorted(FOREIGN))
def test_a_path_that_is_something_else_is_told_in_one_line(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="give the path of your copy"):
        suite(name)
    for path in (tmp_path / "nowhere", tmp_path):
        with pytest.raises(UsageError) as told:
            suite(name, path=path)
        assert str(path) in str(told.value)
        assert "\n" not in str(told.value)


@pytest.mark.parametrize("name", ["../../../../../secret.txt", "/etc/passwd", "link.csv"])
def test_a_question_reads_no_file_outside_of_its_copy(name: str, tmp_path: Path) -> None:
    """What it reads is shown to a model."""
    copy = tmp_path / "copy"
    dabench(copy)
    (tmp_path / "secret.txt").write_text("secret")
    data = copy / "examples" / "DA-Agent" / "data"
    (data / "da-dev-tables" / "link.csv").symlink_to(tmp_path / "secret.txt")
    asked = data / "da-dev-questions.jsonl"
    asked.write_text(asked.read_text().replace('"fares.csv"', json.dumps(name)))
    with pytest.raises(UsageError, match=r"lies outside of .*da-dev-tables, and the question 0 needs it"):
        suite("dabench", path=copy)


def test_a_copy_is_not_looked_for_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.suites.adapters.reading.MOST_FOLDERS", 3)
    for name in "abc":
        (tmp_path / name).mkdir()
    (tmp_path / "a" / "round").symlink_to(tmp_path)
    with pytest.raises(UsageError, match="holds more than 3 folders; give the one that holds data, csv"):
        suite("wtq", path=tmp_path)
    wtq(tmp_path)
    assert suite("wtq", path=tmp_path)


def test_a_query_of_a_copy_reads_and_makes_no_file(tmp_path: Path) -> None:
    spider(tmp_path)
    other = tmp_path / "other.sqlite"
    for query in (
        f"ATTACH '{other}' AS other",
        f"VACUUM INTO '{other}'",
        "DELETE FROM pet",
        "PRAGMA page_size",
    ):
        assert rows_of(tmp_path / "spider/database/pets/pets.sqlite", query) == []
    assert not other.exists()


@pytest.mark.parametrize(
    ("name", "file", "content", "words"),
    [
        (
            "dabench",
            "examples/DA-Agent/data/da-dev-labels.jsonl",
            '{"id": 0}\n',
            "'0' has no field 'common_answers'",
        ),
        (
            "dabench",
            "examples/DA-Agent/data/da-dev-labels.jsonl",
            "{\n",
            "da-dev-labels.jsonl:1: this is not JSON",
        ),
        ("dabench", "examples/DA-Agent/data/da-dev-tables/fares.csv", None, "which the question 0 needs"),
        ("wtq", "data/pristine-unseen-tables.tsv", "id\tquestion\n", "its first line is"),
        (
            "wtq",
            "data/pristine-unseen-tables.tsv",
            "id\tutterance\tcontext\ttargetValue\nx\ty\n",
            "tsv:2: a line has four fields",
        ),
        ("wtq", "csv/204-csv/1.csv", None, "which the question nu-0 needs"),
        ("spider", "spider/dev.json", "{}", "not a list of questions"),
        ("spider", "spider/dev.json", "[4]", "is not of the form that it has: TypeError"),
        ("spider", "spider/dev.json", '[{"db_id": "pets", "query": "SELECT 1"}]', "KeyError: 'question'"),
        ("spider", "spider/dev.json", "[" * 100_000, "is not of the form that it has: RecursionError"),
        ("spider", "spider/database/pets/pets.sqlite", None, "which the question 0 needs"),
    ],
)
def test_what_is_wrong_in_a_copy_is_told_with_its_file(
    name: str, file: str, content: str | None, words: str, tmp_path: Path
) -> None:
    SAMPLES[name](tmp_path)
    if content is None:
        (tmp_path / file).unlink()
    else:
        (tmp_path / file).write_text(content)
    with pytest.raises(UsageError, match=words):
        suite(name, path=tmp_path)
