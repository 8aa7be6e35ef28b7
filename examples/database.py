"""A database that code may read and nothing else: `codeact solve ... --tools database.py` with SHOP_DB=shop.sqlite."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from codeact import tool

MAX_ROWS = 10_000


@tool(effects="read", namespace="db", timeout=20)
def query(sql: str, parameters: list[str | int | float | None] | None = None) -> list[dict[str, Any]]:
    """The rows of one SELECT, at most 10,000. `?` in it stands for a parameter.

    Raises:
        OperationalError: The SQL is wrong, or is no reading.
    """
    path = Path(os.environ["SHOP_DB"]).resolve()
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as database:
        database.execute("PRAGMA query_only = on")
        database.set_authorizer(_only_reads)
        database.row_factory = sqlite3.Row
        return [dict(row) for row in database.execute(sql, parameters or []).fetchmany(MAX_ROWS)]


@tool(effects="read", namespace="db")
def tables() -> dict[str, str]:
    """The tables, each with the SQL that made it."""
    rows = query("SELECT name, sql FROM sqlite_master WHERE type = 'table'")
    return {row["name"]: row["sql"] for row in rows}


def _only_reads(action: int, *_: str | None) -> int:
    """No ATTACH, no PRAGMA, no change: what a read-only connection alone would let through, too."""
    reading = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE)
    return sqlite3.SQLITE_OK if action in reading else sqlite3.SQLITE_DENY
