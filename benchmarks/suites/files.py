"""The world of tasks about files: nothing in it changes, and its tools read the files as tables."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.suites.base import Called, digest
from benchmarks.suites.tables import Tables
from codeact.tools.functions import from_function, tool
from codeact.tools.tool import Tool

T = TypeVar("T")

STATE = digest(None)


class Files:
    """`data` are the files by the name that they get; they are read when the first tool is called."""

    def __init__(self, data: Mapping[str, Path], latency: float) -> None:
        self.data, self.latency = data, latency
        self.log: list[Called] = []
        self._tables: Tables | None = None
        self._lock = threading.Lock()

    def tools(self) -> list[Tool]:
        if not self.data:
            return []
        return [
            from_function(each)
            for each in (self.list_files, self.sniff_file, self.read_rows, self.describe, self.sql)
        ]

    def state(self) -> None:
        return None

    def _called(self, name: str, arguments: dict[str, Any], does: Callable[[Tables], T]) -> T:
        began = time.monotonic()
        error = None
        if self.latency:
            time.sleep(self.latency)
        with self._lock:
            try:
                if self._tables is None:
                    self._tables = Tables(self.data)
                return does(self._tables)
            except Exception as raised:
                error = type(raised).__name__
                raise
            finally:
                self.log.append(Called(name, arguments, False, error, time.monotonic() - began))

    @tool(effects="read")
    def list_files(self) -> list[dict[str, Any]]:
        """The files, each with its name, bytes and tables.

        A table can be queried by its name, with the header and types that were found, and as NAME_raw: the file's rows as
        they are, with n (1 is the first row of the file) and the cells as text in c1, c2 and so on.
        """
        return self._called("list_files", {}, lambda tables: tables.listed())

    @tool(effects="read")
    def sniff_file(self, file: str) -> dict[str, Any]:
        """What a file is: kind, encoding, delimiter, its tables with their sheets, and its first rows as they are."""
        return self._called("sniff_file", {"file": file}, lambda tables: tables.sniffed(file))

    @tool(effects="read")
    def read_rows(self, table: str, offset: int = 0, limit: int = 50) -> list[list[Any]]:
        """Rows of a table's file as they are, every cell as text, header and all.

        Args:
            table: As list_files gives it.
            offset: How many rows to pass over.
            limit: How many to give, 200 at most.
        """
        arguments = {"table": table, "offset": offset, "limit": limit}
        return self._called("read_rows", arguments, lambda tables: tables.rows(table, offset, limit))

    @tool(effects="read")
    def describe(self, table: str) -> list[dict[str, Any]]:
        """The columns of a table: name, type, smallest and largest value, mean, how many values, how many are missing."""
        return self._called("describe", {"table": table}, lambda tables: tables.described(table))

    @tool(effects="read")
    def sql(self, query: str) -> dict[str, Any]:
        """Runs a query in DuckDB's SQL over the tables; gives columns and rows, 200 rows at most."""
        return self._called("sql", {"query": query}, lambda tables: tables.query(query))


def solve_by_query(t: Any, query: str) -> Any:
    return t.sql(query)["rows"][0][0]
