"""Results of tools that are too large for one call: files of the workspace that are read when they are used."""

from __future__ import annotations

import functools
import json
import mmap
import os
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from . import packed, tables, values

TAG = "large"
FOLDER = ".results"
"""Below the workspace."""
KINDS: Mapping[str, tuple[str, str]] = {
    "text": (".txt", "characters"),
    "bytes": (".bin", "bytes"),
    "list": (".jsonl", "items"),
    "value": (".json", ""),
    "table": (".arrows", "rows"),
    "frame": (".value", "rows"),
    "array": (".raw", ""),
}
"""By kind: how the name of its file ends, and of what there are `count`."""
FIRST = 100
"""Items of a list that are read without the others."""
_TYPES: Mapping[str, type] = {"text": str, "bytes": bytes, "list": list}

Shape = Callable[[Any], Any]
"""Makes a value, or an item of a list, of the class that the tool's signature names."""


class LargeResult:
    """A result of a tool that lies in a file: `path`, which functions that open files take the result itself for too.

    It can be used as the value that it is: `len`, `for`, `in`, `[...]` and methods. A list is then read item by item, as
    far as it is asked for; anything else as a whole. `load()` gives the plain value, `preview` is how it begins,
    `about()` says what and how much it is.
    """

    def __init__(self, made: Mapping[str, Any], decode: Callable[[Any], Any], shape: Shape) -> None:
        """`made` is what `codeact.tools.large` says of the file; `decode` reads values that were encoded as JSON."""
        self.path = Path(values.WORKSPACE / str(made["path"]))
        self._kind, self._size, self._count = str(made["kind"]), int(made["bytes"]), made.get("count")
        self.preview = str(made["preview"])
        self._made, self._decode, self._shape = made, decode, shape
        if not self.path.is_file():
            raise values.BadValue(
                f"the call was made before the run was cut off, and its result ({self._size:,} bytes) was too large for the record"
            )

    def load(self) -> Any:
        """The value itself."""
        return self._value

    @functools.cached_property
    def _value(self) -> Any:
        match self._kind:
            case "text":
                return self.path.read_bytes().decode("utf-8", "surrogatepass")
            case "bytes":
                return self.path.read_bytes()
            case "list":
                return list(self._items())
            case "value":
                return self._shape(self._decode(json.loads(self.path.read_bytes())))
        with self.path.open("rb") as file:
            data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        if self._kind == "frame":
            return values.decode(*packed.read(data))
        return tables.decode(self._made["tag"], tables.Came(self._made["fields"]), data)

    def _items(self) -> Iterator[Any]:
        with self.path.open("rb") as lines:
            for line in lines:
                yield self._shape(self._decode(json.loads(line)))

    @property
    def _unread(self) -> bool:
        return self._kind == "list" and "_value" not in self.__dict__

    # -- as the value that it is -----------------------------------------------------------------------------------

    def __len__(self) -> int:
        return self._count if isinstance(self._count, int) else len(self._value)

    def __iter__(self) -> Iterator[Any]:
        return self._items() if self._unread else iter(self._value)

    def __getitem__(self, key: Any) -> Any:
        if self._unread and isinstance(key, int) and 0 <= key < min(FIRST, len(self)):
            return next(islice(self._items(), key, None))
        if (
            self._unread
            and isinstance(key, slice)
            and 0 <= (key.stop or -1) <= FIRST
            and not key.start
            and not key.step
        ):
            return list(islice(self._items(), key.stop))
        return self._value[key]

    def __contains__(self, item: Any) -> bool:
        return item in self._value

    def __eq__(self, other: object) -> Any:
        return self._value == (other.load() if isinstance(other, LargeResult) else other)

    def __hash__(self) -> int:  # `open` asks for it
        return hash(self.path)

    def __getattr__(self, name: str) -> Any:
        known = _TYPES.get(self.__dict__.get("_kind", ""))
        if name.startswith("_") or (known is not None and not hasattr(known, name)):
            raise AttributeError(f"{self!r} has no {name!r}")
        return getattr(self._value, name)

    def __fspath__(self) -> str:
        return os.fspath(self.path)

    def __bytes__(self) -> bytes:
        return self._value.encode() if self._kind == "text" else bytes(self._value)

    def __str__(self) -> str:
        return self._value if self._kind == "text" else repr(self)

    def __repr__(self) -> str:
        return f"LargeResult({self.about()}), which begins:\n{self.preview}"

    def about(self) -> str:
        """What and how much it is, and where, in one line."""
        unit = KINDS[self._kind][1]
        count = f" of {self._count:,} {unit}" if isinstance(self._count, int) and unit else ""
        return f"{self._made.get('what', self._kind)}{count}, {self._size / 1e6:,.1f} MB in {self.path}"


def opened(made: Mapping[str, Any], decode: Callable[[Any], Any], shape: Shape) -> LargeResult:
    """Raises BadValue where the file is not there, or the description is none."""
    try:
        return LargeResult(made, decode, shape)
    except (LookupError, TypeError, ValueError) as error:
        raise error if isinstance(error, values.BadValue) else values.BadValue(str(error)) from None
