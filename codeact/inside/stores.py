"""Typed stores: parquet, feather, sqlite, duckdb. Their own schema is told; nothing is guessed."""

import contextlib
import os
import shutil
import sqlite3
import tempfile
from typing import Any

from . import frames
from .columns import cut
from .packages import Missing, has, need
from .reading import Line, call, execute, reason
from .sources import MIB, Source

_TABLES = 40
_COLUMNS = 300
_LARGE = 200 * MIB
_READ_CELLS = 2_000_000
_BESIDE = ("-wal", "-journal")
"""Files beside a SQLite database, without which it is not as it was last written."""


def describe_arrow(entry: dict[str, Any], source: Source, rows: int) -> None:
    """Parquet or feather (Arrow file): schema, row count, missing counts of files that are not large."""
    import io

    opened: Any = source.path if source.plain else io.BytesIO(source.read(_LARGE))
    try:
        if entry["kind"] == "parquet":
            schema = _parquet(entry, need("pyarrow.parquet").ParquetFile(opened), rows)
        else:
            schema = _feather(entry, need("pyarrow.feather").read_table(opened, memory_map=False), rows)
    except Missing as missing:
        entry["problem"] = f"cannot be described: {missing}"
        return
    except Exception as error:  # noqa: BLE001 - a broken file raises anything
        entry["problem"] = f"the {entry['kind']} file cannot be opened: {reason(error)}"
        return
    if has("pandas"):
        _offer_frame(entry, source, schema, rows)
    else:
        entry["read"] = _frame_line(entry, source, "").text()
        entry["notes"].append("pandas is not in this image")
    odd = [column["name"] for column in entry["columns"] if not column["name"].isidentifier()]
    if odd:
        entry["notes"].append(
            f"unusual column names, use them exactly: {', '.join(repr(cut(name, 30)) for name in odd[:5])}"
        )


def _frame_line(entry: dict[str, Any], source: Source, after: str, **chosen: str) -> Line:
    target, modules = source.binary()
    return Line(f"df = {call('pd.read_' + entry['kind'], target, **chosen)}{after}", (*modules, "pandas"))


def _offer_frame(entry: dict[str, Any], source: Source, schema: Any, rows: int) -> None:
    """The line that makes a DataFrame; of a file that is not large, all is told as that frame has it."""
    line = _frame_line(entry, source, "")
    small = (source.size or 0) < 50 * MIB
    frame = execute(line) if small else schema.empty_table().to_pandas()
    after = _with_index(entry, frame)
    if after:
        line = _frame_line(entry, source, after)
        frame = execute(line) if small else frame
    entry["read"] = line.text()
    if not small:
        return
    if frames.rounded(frame):
        line = _frame_line(entry, source, after, dtype_backend="numpy_nullable")
        entry["read"], frame = line.text(), execute(line)
    entry["read_verified"] = len(frame) == entry["rows"] and not frames.rounded(frame)
    entry["columns"] = frames.columns(frame)
    entry["first_rows"] = frames.first_rows(frame.iloc[:, :_COLUMNS], rows)


def _with_index(entry: dict[str, Any], frame: Any) -> str:
    """What the line needs to have the index that pandas wrote among its columns; where it cannot be, a note."""
    names = list(frame.index.names)
    if names == [None] and type(frame.index).__name__ == "RangeIndex":
        return ""
    apart = set(names).isdisjoint(frame.columns) and frame.columns.nlevels == 1
    if apart and None not in names and len(set(names)) == len(names):
        return ".reset_index()"
    told = ", ".join("without a name" if name is None else repr(cut(str(name), 30)) for name in names[:5])
    entry["notes"].append(f"df has an index of its own ({told}), which is not among its columns: df.index")
    return ""


def _parquet(entry: dict[str, Any], file: Any, rows: int) -> Any:
    schema = file.schema_arrow
    entry["rows"] = file.metadata.num_rows
    small = file.metadata.num_rows * max(1, len(schema)) <= 20_000_000
    table = (
        file.read()
        if small
        and sum(file.metadata.row_group(at).total_byte_size for at in range(file.metadata.num_row_groups))
        < _LARGE
        else None
    )
    entry["columns"] = _arrow_columns(schema, table)
    head = table.slice(0, rows) if table is not None else next(file.iter_batches(batch_size=rows), None)
    entry["first_rows"] = (
        _rows(head.to_pylist(), [field.name for field in schema]) if head is not None else []
    )
    return schema


def _feather(entry: dict[str, Any], table: Any, rows: int) -> Any:
    entry["rows"] = table.num_rows
    entry["columns"] = _arrow_columns(table.schema, table)
    entry["first_rows"] = _rows(table.slice(0, rows).to_pylist(), table.schema.names)
    return table.schema


def _rows(records: list[dict[str, Any]], names: list[str]) -> list[list[str]]:
    return [
        ["" if record.get(name) is None else cut(str(record.get(name)), 60) for name in names[:_COLUMNS]]
        for record in records
    ]


def _arrow_columns(schema: Any, table: Any) -> list[dict[str, Any]]:
    found = []
    for at, field in enumerate(list(schema)[:_COLUMNS]):
        column: dict[str, Any] = {"name": field.name, "type": str(field.type)}
        if table is not None:
            values = table.column(at)
            column["missing"] = values.null_count
            column |= _range(values)
        found.append(column)
    return found


def _range(values: Any) -> dict[str, Any]:
    try:
        ends = need("pyarrow.compute").min_max(values).as_py()
    except Exception:  # noqa: BLE001 - nested types have no order
        return {}
    if ends["min"] is None or isinstance(ends["min"], bool | bytes):
        return {}
    return {"min": cut(str(ends["min"]), 30), "max": cut(str(ends["max"]), 30)}


def describe_sqlite(entry: dict[str, Any], source: Source, rows: int) -> None:
    if not source.plain:
        entry["notes"].append("packed: unpack it to a file before opening it with sqlite3")
        return
    pending = [end for end in _BESIDE if _filled(source.path + end)]
    if pending and _copied(entry, source, rows, pending):
        return
    address = "file:" + _quoted(source.path) + "?mode=ro&immutable=1"
    line = Line(f"con = sqlite3.connect({address!r}, uri=True)", ("sqlite3",))
    try:
        with contextlib.closing(sqlite3.connect(address, uri=True)) as connection:
            count = _tables(entry, connection, rows)
    except sqlite3.Error as error:
        entry["problem"] = f"the database cannot be opened: {reason(error)}"
        return
    if pending:
        entry["read"], entry["read_verified"] = line.text(), False
        entry["notes"].append(
            f"its latest changes lie in the {pending[0]} file beside it and are not seen so: copy both files to one folder in "
            "/workspace and open the copy with sqlite3"
        )
        return
    _finish(entry, line, count)


def _tell_columns(table: dict[str, Any], connection: sqlite3.Connection) -> None:
    query = f"SELECT * FROM {table.pop('identifier')}"  # noqa: S608 - quoted by _identifier
    if has("pandas") and table.get("columns") and not _is_large(table):
        with contextlib.suppress(Exception):  # then the types are those that were declared
            _told_as_read(table, need("pandas").read_sql(query, connection))


def _is_large(table: dict[str, Any]) -> bool:
    return (table.get("rows") or 0) * max(1, len(table["columns"])) > _READ_CELLS


def _tables(entry: dict[str, Any], connection: sqlite3.Connection, rows: int) -> int:
    """Tells the first tables; how many there are."""
    connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
    names = connection.execute(
        "SELECT name, type FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%'"
    ).fetchall()
    entry["tables"] = [_table(connection, name, kind, rows) for name, kind in names[:_TABLES]]
    return len(names)


def _filled(path: str) -> bool:
    with contextlib.suppress(OSError):
        return os.stat(path).st_size > 0  # noqa: PTH116 - names may be no valid text
    return False


def _copied(entry: dict[str, Any], source: Source, rows: int, pending: list[str]) -> bool:
    """Tells a database as a copy has it that was opened with what lies beside it; False where that cannot be done.

    Data are read-only, and SQLite takes in changes by writing.
    """
    size = (source.size or 0) + sum(os.stat(source.path + end).st_size for end in pending)  # noqa: PTH116
    if size > min(_LARGE, shutil.disk_usage(tempfile.gettempdir()).free // 2):
        return False
    ends = ", ".join(map(repr, ["", *pending]))
    line = Line(
        f"folder = tempfile.mkdtemp(); [shutil.copyfile({source.path!r} + end, folder + '/db' + end) for end in ({ends})]; "
        "con = sqlite3.connect(folder + '/db')",
        ("shutil", "sqlite3", "tempfile"),
    )
    try:
        made = execute(line, None)
    except OSError:
        return False
    try:
        with contextlib.closing(made["con"]) as connection:
            count = _tables(entry, connection, rows)
            for table in entry["tables"]:
                _tell_columns(table, connection)
    except sqlite3.Error:
        return False
    finally:
        shutil.rmtree(made["folder"], ignore_errors=True)
    entry |= {"read": line.text(), "read_verified": True}
    entry["notes"].append(
        f"its latest changes lie in the {pending[0]} file beside it: the line copies both and opens the copy"
    )
    _left_out(entry, count)
    return True


def _table(connection: Any, name: str, kind: str, rows: int, schema: str = "") -> dict[str, Any]:
    quoted = _identifier(name, schema)
    table: dict[str, Any] = {
        "name": f"{schema}.{name}" if schema else name,
        "kind": kind,
        "identifier": quoted,
    }
    try:
        table["rows"] = connection.execute(f"SELECT count(*) FROM {quoted}").fetchone()[0]  # noqa: S608 - quoted above
        cursor = connection.execute(f"SELECT * FROM {quoted} LIMIT {int(rows)}")  # noqa: S608 - quoted above
        table["first_rows"] = [
            ["" if cell is None else cut(str(cell), 60) for cell in row] for row in cursor.fetchall()
        ]
        found = [column[0] for column in cursor.description]
        types = {row[1]: str(row[2]) for row in connection.execute(f"PRAGMA table_info({quoted})").fetchall()}
        table["columns"] = [{"name": column, "type": types.get(column, "")} for column in found]
    except Exception as error:  # noqa: BLE001 - sqlite3.Error and duckdb.Error; one bad view must not hide the rest
        table["problem"] = reason(error)
    return table


def _quoted(path: str) -> str:
    return path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")


def _identifier(name: str, schema: str = "") -> str:
    return ".".join('"' + part.replace('"', '""') + '"' for part in (schema, name) if part)


def _reader(line: Line, identifier: str) -> Line:
    query = f"SELECT * FROM {identifier}"  # noqa: S608 - quoted by _identifier
    if "sqlite3" in line.imports:
        return Line(f"{line.code}; df = pd.read_sql({query!r}, con)", (*line.imports, "pandas"))
    return Line(f"{line.code}; df = con.execute({query!r}).df()", line.imports)


def _connects(line: Line) -> bool:
    execute(line, "con").close()
    return True


def _read(table: dict[str, Any], line: Line) -> None:
    """Tries the line on one table, and tells the columns as it makes them."""
    try:
        frame = execute(line)
    except Exception as error:  # noqa: BLE001 - whatever the line raises is the finding
        table["notes"] = [f"the reading line failed: {reason(error)}"]
        return
    table["read_verified"] = _told_as_read(table, frame)


def _told_as_read(table: dict[str, Any], frame: Any) -> bool:
    """Tells the columns as pandas has them; whether that is all that the table holds."""
    lost = frames.rounded(frame)
    if lost:
        names = ", ".join(repr(cut(name, 30)) for name in lost[:5])
        table["notes"] = [f"large numbers with gaps lose digits in {names}: select them as text, with CAST"]
    types = [column["type"] for column in table["columns"]]
    table["columns"] = frames.columns(frame)
    for column, declared in zip(table["columns"], types, strict=False):
        if "DATE" in declared.upper() and column["type"] == "text":
            column["note"] = f"declared {declared}, as text"
    return len(frame) == table["rows"] and not lost


def _finish(entry: dict[str, Any], line: Line, count: int) -> None:
    first = next((table for table in entry["tables"] if table.get("rows")), None)
    if first is None or not has("pandas"):
        entry["read"], entry["read_verified"] = line.text(), _connects(line)
    for table in entry["tables"] if has("pandas") else []:
        identifier = table.pop("identifier")
        if not table.get("columns"):
            continue
        one = _reader(line, identifier)
        table["read"] = one.text()
        if _is_large(table):
            table["notes"] = ["large: select and group in SQL, and read the result"]
            continue
        _read(table, one)
    if first is not None and "read" in first:
        entry |= {"read": first["read"], "read_verified": first.get("read_verified", False)}
    _left_out(entry, count)


def _left_out(entry: dict[str, Any], count: int) -> None:
    if count > _TABLES:
        entry["notes"].append(f"{count - _TABLES} more tables are not described")
    if not count:
        entry["notes"].append("the database has no tables")


def describe_duckdb(entry: dict[str, Any], source: Source, rows: int) -> None:
    if not source.plain:
        entry["notes"].append("packed: unpack it to a file before opening it with duckdb")
        return
    try:
        duckdb = need("duckdb")
        connection = duckdb.connect(source.path, read_only=True)
        names = connection.execute(
            "SELECT table_schema, table_name, table_type FROM information_schema.tables"
        ).fetchall()
        entry["tables"] = [
            _table(
                connection,
                name,
                "view" if kind == "VIEW" else "table",
                rows,
                "" if schema == "main" else schema,
            )
            for schema, name, kind in names[:_TABLES]
        ]
        connection.close()
    except Missing as missing:
        entry["problem"] = f"cannot be described: {missing}"
        return
    except Exception as error:  # noqa: BLE001 - duckdb.Error, known only when the package is there
        entry["problem"] = f"the database cannot be opened: {reason(error)}"
        return
    code = f"con = duckdb.connect({source.path!r}, read_only=True)"
    _finish(entry, Line(code, ("duckdb",)), len(names))
