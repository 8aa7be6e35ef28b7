"""Arrow streams, written without a copy too many, and read as what a stranger sent.

A stream may say that its buffers are compressed and open to a thousand times their size, have types whose arrays share
or repeat their content, or offsets that point outside of it. The first two are refused, the last is checked.
"""

from __future__ import annotations

import struct
from typing import Any

MAX_OBJECTS = 10_000_000
"""Cells of a table that may become Python objects, each many times as large as in the stream."""
MAX_ROWS = 2**31
EXTENSIONS = frozenset(["pandas.period", "pandas.interval", "arrow.uuid", "arrow.json", "arrow.bool8"])
MAX_DEPTH = 32
_HEADER, _COMPRESSION, _DICTIONARY_DATA = 2, 3, 1
"""The numbers of fields of the tables Message, RecordBatch and DictionaryBatch in Arrow's Message.fbs."""


class BadType(Exception):
    """A table has what may not cross; the message goes on after the table's name."""


def write(table: Any) -> memoryview:
    """A pyarrow.Table as a stream, in one buffer of just its size. Raises BadType."""
    import pyarrow as pa

    table = _cast(table)
    for column in table.schema:
        _check(column.type, column.name)
    size = pa.MockOutputStream()
    _write(table, size)
    buffer = pa.allocate_buffer(size.size())
    _write(table, pa.FixedSizeBufferWriter(buffer))
    return memoryview(buffer)


def _write(table: Any, sink: Any) -> None:
    import pyarrow as pa

    with pa.ipc.new_stream(sink, table.schema) as writer:
        if table.num_rows:
            writer.write_table(table)
        else:  # which has no batch of its own, and so would lose the values of its dictionaries
            columns = [
                column.chunk(0) if column.num_chunks else column.combine_chunks() for column in table.columns
            ]
            writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=table.schema))


def _cast(table: Any) -> Any:
    """Views as what they are views of: many views of one long text would be as many texts to a reader."""
    import pyarrow as pa

    views = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}
    for index, column in enumerate(table.schema):
        if column.type in views:
            plain = column.with_type(views[column.type])
            table = table.set_column(index, plain, table.column(index).cast(plain.type))
    return table


def read(data: memoryview) -> Any:
    """A stream as a pyarrow.Table that lies in `data`. Raises BadType, or what pyarrow raises for what is no stream."""
    import pyarrow as pa

    buffer = pa.py_buffer(data)
    for message in pa.ipc.MessageReader.open_stream(buffer):
        if message.type in ("record batch", "dictionary") and _compressed(
            message.metadata.to_pybytes(), message.type
        ):
            raise BadType("is compressed")
    table = pa.ipc.open_stream(buffer).read_all()
    for column in table.schema:
        _check(column.type, column.name)
    if table.num_rows > MAX_ROWS:
        raise BadType(f"has {table.num_rows:,} rows")
    table.validate(full=True)
    return table


def _compressed(metadata: bytes, kind: str) -> bool:
    """Whether a message's record batch names a compression; the flatbuffer was verified when it was read."""
    batch = _table(metadata, _field(metadata, _table(metadata, 0), _HEADER))
    if kind == "dictionary":
        batch = _table(metadata, _field(metadata, batch, _DICTIONARY_DATA))
    return _field(metadata, batch, _COMPRESSION) is not None


def _table(data: bytes, reference: int | None) -> int:
    if reference is None:
        raise BadType("has a message without content")
    try:
        return reference + int(struct.unpack_from("<I", data, reference)[0])
    except struct.error:
        raise BadType("has a broken message") from None


def _field(data: bytes, table: int, number: int) -> int | None:
    try:
        shape = table - struct.unpack_from("<i", data, table)[0]
        entry = 4 + 2 * number
        if entry >= struct.unpack_from("<H", data, shape)[0]:
            return None
        offset = struct.unpack_from("<H", data, shape + entry)[0]
    except struct.error:
        raise BadType("has a broken message") from None
    return table + offset if offset else None


def _check(kind: Any, name: str, depth: int = 0) -> None:
    """Raises BadType for types whose values could be more than their buffers, or that Arrow does not know itself."""
    import pyarrow as pa

    types = pa.types
    if depth > MAX_DEPTH:
        raise BadType(f"has the column {name!r:.60}, nested deeper than {MAX_DEPTH}")
    if isinstance(kind, pa.BaseExtensionType):
        if kind.extension_name not in EXTENSIONS:
            raise BadType(f"has the column {name!r:.60} of the extension type {kind.extension_name!r:.60}")
        _check(kind.storage_type, name, depth + 1)
    elif types.is_dictionary(kind) and isinstance(kind.value_type, pa.BaseExtensionType):
        raise BadType(
            f"has the column {name!r:.60} of the type {kind}"
        )  # which Arrow writes, and does not read
    elif (
        types.is_dictionary(kind)
        or types.is_list(kind)
        or types.is_large_list(kind)
        or types.is_fixed_size_list(kind)
    ):
        _check(kind.value_type, name, depth + 1)
    elif types.is_struct(kind):
        for index in range(kind.num_fields):
            _check(kind.field(index).type, name, depth + 1)
    elif types.is_map(kind):
        _check(kind.key_type, name, depth + 1)
        _check(kind.item_type, name, depth + 1)
    elif not _is_flat(kind):
        raise BadType(f"has the column {name!r:.60} of the type {kind}")


def _is_flat(kind: Any) -> bool:
    from pyarrow import types

    flat = (
        types.is_primitive,
        types.is_null,
        types.is_string,
        types.is_large_string,
        types.is_binary,
        types.is_large_binary,
        types.is_fixed_size_binary,
        types.is_decimal,
    )
    return any(is_of(kind) for is_of in flat)


def check_objects(table: Any, error: type[Exception]) -> None:
    """Raises `error` where pandas would make more Python objects of a table than the host's memory should hold."""
    count = sum(_objects(chunk) for column in table.columns for chunk in column.chunks)
    if count > MAX_OBJECTS:
        raise error(
            f"a table has {count:,} cells that become Python objects (dates, lists, bytes), at most {MAX_OBJECTS:,}; "
            "send it as an Arrow table, or in parts"
        )


def _objects(array: Any) -> int:
    import pyarrow as pa

    types, kind = pa.types, array.type
    if isinstance(kind, pa.BaseExtensionType):
        return len(array) + _objects(array.storage)
    if types.is_dictionary(kind):
        return _objects(array.dictionary)
    if types.is_struct(kind):
        return len(array) + sum(_objects(array.field(index)) for index in range(kind.num_fields))
    if types.is_map(kind):
        return len(array) + _objects(array.keys) + _objects(array.items)
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return len(array) + len(array.values) + _objects(array.values)
    cheap = (types.is_integer, types.is_floating, types.is_boolean, types.is_timestamp, types.is_duration)
    text = types.is_string(kind) or types.is_large_string(kind)
    return 0 if text or any(is_of(kind) for is_of in cheap) else len(array)
