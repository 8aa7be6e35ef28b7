# Reads values as the run recorded them: JSON, with marks for what JSON has not, and buffers beside it.
import base64
import datetime
import decimal
import json
import struct
import uuid
import zoneinfo
from pathlib import Path, PurePosixPath


def value_of(made, buffers=(), record=dict):
    """A recorded value. `record` makes objects with named fields, of these."""
    if isinstance(made, list):
        return [value_of(part, buffers, record) for part in made]
    if not isinstance(made, dict):
        return made
    if "$" not in made:
        return record({key: value_of(part, buffers, record) for key, part in made.items()})
    given, kind = made.get("v"), made["$"]
    data = buffers[made["buffer"]] if "buffer" in made else None
    match kind:
        case "answer":
            return value_of(given, [base64.b64decode(part) for part in made["buffers"]], record)
        case "object":
            return record({key: value_of(part, buffers, record) for key, part in given.items()})
        case "dict":
            return {value_of(key, buffers, record): value_of(part, buffers, record) for key, part in given}
        case "tuple" | "set" | "frozenset":
            makers = {"tuple": tuple, "set": set, "frozenset": frozenset}
            return makers[kind](value_of(part, buffers, record) for part in given)
        case "bytes":
            return bytes(data) if data is not None else base64.b64decode(given)
        case "text":
            return str(data, "utf-8", "surrogatepass")
        case "array":
            import numpy

            return numpy.frombuffer(data, made["dtype"]).reshape(made["shape"], order=made["order"]).copy()
        case "pandas" | "series" | "polars" | "polars_series" | "arrow" | "arrow_array":
            return _table(kind, made, buffers, record)
    simple = {
        "float": float,
        "int": lambda text: int(text, 16),
        "complex": complex,
        "path": PurePosixPath,
        "decimal": decimal.Decimal,
        "uuid": uuid.UUID,
        "date": datetime.date.fromisoformat,
        "timedelta": lambda parts: datetime.timedelta(*parts),
        "time": lambda text: _zoned(datetime.time.fromisoformat(text), made),
        "datetime": lambda text: _zoned(datetime.datetime.fromisoformat(text), made),
    }
    if kind not in simple:
        raise RuntimeError(
            f"this value was not recorded whole: {given or made.get('preview') or made.get('what')}"
        )
    return simple[kind](given)


def _zoned(value, made):
    if "zone" not in made:
        return value
    return value.replace(tzinfo=zoneinfo.ZoneInfo(made["zone"]), fold=made.get("fold", 0))


def _table(kind, made, buffers, record):
    import pyarrow

    table = pyarrow.ipc.open_stream(buffers[made["buffer"]]).read_all()
    match kind:
        case "pandas" | "series":
            frame = _frame(table, made, buffers, record)
            return frame if kind == "pandas" else frame.iloc[:, 0].rename(made.get("name"))
        case "arrow":
            return table
        case "arrow_array":
            return table.column(0)
    import polars

    frame = polars.from_arrow(table)
    return frame if kind == "polars" else frame.to_series().alias(made.get("name") or "")


def _frame(table, made, buffers, record):
    import pandas

    frame = table.to_pandas(integer_object_nulls=True)
    columns = {at: table.column(at).to_pylist() for at in made.get("lists", ())}
    for at, number in made.get("cells", {}).items():
        columns[int(at)] = value_of(json.loads(bytes(buffers[number])), buffers, record)
    for at, cells in columns.items():
        frame.isetitem(at, pandas.Series(cells, dtype=object).to_numpy())
    beside = {name: value_of(part, buffers, record) for name, part in made.get("beside", {}).items()}
    if "columns" in beside:
        labels, name = beside["columns"]
        frame.columns = pandas.Index(labels, tupleize_cols=False, name=name)
    if "index" in beside:
        frame.index = frame.index.set_names(beside["index"])
    return frame


def given_from(sources, record):
    """The function that reads a value which the run was given, by its name."""

    def given(name):
        content = Path(sources[name]).read_bytes()
        _, size, count = struct.unpack_from("<8sQQ", content)
        start = 24 + 8 * count
        at, buffers = start + size, []
        for (length,) in struct.iter_unpack("<Q", content[24:start]):
            at += -at % 64
            buffers.append(content[at : at + length])
            at += length
        return value_of(json.loads(content[start : start + size]), buffers, record)

    return given
