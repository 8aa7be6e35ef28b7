"""The examples of tools, as a user would have them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from codeact.agent import Agent
from codeact.models import ScriptedModel
from tests.command import ROOT
from tests.integration.test_agent import block

pytestmark = pytest.mark.docker


def test_a_database_behind_a_reading_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "shop.sqlite"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE orders (id TEXT, city TEXT, total REAL)")
        database.executemany(
            "INSERT INTO orders VALUES (?, ?, ?)", [("1", "Oslo", 2.5), ("2", "Lima", 4), ("3", "Oslo", 1)]
        )
    monkeypatch.setenv("SHOP_DB", str(path))
    before = path.read_bytes()
    code = (
        "from tools.db import query, tables\nsaid = []\n"
        "for sql in ('DELETE FROM orders', 'ATTACH \"/tmp/x.db\" AS x', 'PRAGMA query_only = off', 'DROP TABLE orders',\n"
        "            'SELECT load_extension(\"x\")', 'SELECT 1; SELECT 2', 'SELEC'):\n"
        "    try: query(sql); said.append('ran')\n    except Exception as error: said.append(type(error).__name__)\n"
        "rows = query('SELECT city, sum(total) AS total FROM orders WHERE total > ? GROUP BY city ORDER BY city', [0])\n"
        "final_answer([list(tables()), [[row['city'], row['total']] for row in rows], sorted(set(said))])"
    )
    agent = Agent(
        ScriptedModel([block(code)]),
        image="minimal",
        runs=tmp_path / "runs",
        tools=str(ROOT / "examples" / "database.py"),
        approve="never",
    )
    tables, rows, said = agent.run("Sum up.").answer
    assert tables == ["orders"]
    assert rows == [["Lima", 4.0], ["Oslo", 3.5]]
    assert "ran" not in said
    assert path.read_bytes() == before
    assert not Path("/tmp/x.db").exists()
