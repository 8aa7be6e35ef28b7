"""The contract of a sandbox: what goes in, what comes out, in which units."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal

BackendName = Literal["auto", "docker", "bubblewrap"]
"""What contains the code; `auto` is an engine where one answers, else bubblewrap."""
Status = Literal["ok", "error", "timeout", "interrupted", "died", "refused"]
RungAction = Literal["interrupt", "second_interrupt", "kill", "kill_from_outside", "give_up"]

_UNITS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?", re.IGNORECASE)


def parse_size(value: int | float | str) -> int:
    """`"512m"`, `"1.5g"`, `"20k"` or a number → an integer; units are powers of 1024.

    Raises ValueError for anything else, and for zero.
    """
    if isinstance(value, str):
        found = _SIZE.fullmatch(value.strip())
        if not found:
            raise ValueError(
                f"{value!r} is not a size: write a number of bytes, or one with k, m or g such as '512m'"
            )
        number = float(found[1]) * _UNITS[found[2].lower()]
    else:
        number = float(value)
    if not 1 <= number < 2**63:
        raise ValueError(f"{value!r} is not a size: it must be at least 1")
    return int(number)


def size_text(size: float) -> str:
    """Bytes as people read them: `1.5 GiB`."""
    unit = "bytes"
    for larger in ("KiB", "MiB", "GiB"):
        if size >= 1024:
            size, unit = size / 1024, larger
    return f"{size:.0f} {unit}" if size >= 999.5 else f"{size:.3g} {unit}"


@dataclass(frozen=True, slots=True)
class Limits:
    """What one sandbox may use. Every limit is on by default; sizes are bytes, or strings such as `"512m"`."""

    memory: int | str = "1g"
    """Memory of all processes and of the in-memory workspace together; no swap."""
    cpus: float | str = 1
    """Processor time, in cores."""
    pids: int | str = 256
    """Processes and threads at one moment."""
    disk: int | str = "512m"
    """Bytes in `/workspace`."""
    files: int | str = "20k"
    """Files and folders in `/workspace`."""
    output: int | str = "1m"
    """Bytes of output that one cell may send out; what is beyond is counted and dropped."""

    def __post_init__(self) -> None:
        for name in ("memory", "pids", "disk", "files", "output"):
            object.__setattr__(self, name, parse_size(getattr(self, name)))
        cpus = float(self.cpus)
        if not 0.01 <= cpus <= 1024:
            raise ValueError(f"{self.cpus!r} is not a number of cores: write for example 1 or 0.5")
        object.__setattr__(self, "cpus", cpus)


@dataclass(frozen=True, slots=True)
class Stream:
    """Text that a cell wrote, in the order it was written."""

    name: Literal["stdout", "stderr"]
    text: str


@dataclass(frozen=True, slots=True)
class Rich:
    """A cell's last expression (`result`) or something it displayed: MIME type → text, base64 for binary types."""

    kind: Literal["result", "display"]
    data: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class CellError:
    """The exception that ended a cell. `traceback` has no terminal colours."""

    name: str
    message: str
    traceback: str

    def __str__(self) -> str:
        return f"{self.name}: {self.message}" if self.message else self.name


@dataclass(frozen=True, slots=True)
class Dropped:
    """Output that was not kept: how much, and why."""

    bytes: int
    reason: str


@dataclass(frozen=True, slots=True)
class Notice:
    """What the sandbox itself has to say of this cell, such as why it is being ended."""

    text: str


@dataclass(frozen=True, slots=True)
class Rung:
    """A step of the ladder that ends a cell, each firmer than the one before and taken only if that did not help.

    `step` counts from 1 to `STEPS`; `seconds` is when it was taken, after the cell's start.
    """

    STEPS: ClassVar[int] = 5

    step: int
    action: RungAction
    text: str
    seconds: float

    def __str__(self) -> str:
        return f"step {self.step} of {self.STEPS}, after {self.seconds:.3g} s: {self.text}"


Output = Stream | Rich | CellError | Dropped | Notice | Rung


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of the kernel as its type describes it: `DataFrame 60×4`. `size` in bytes, None where it is not known."""

    name: str
    kind: str
    size: int | None = None

    def __str__(self) -> str:
        size = "" if self.size is None else f", {size_text(self.size)}"
        return f"{self.name} ({self.kind}{size})"


@dataclass(frozen=True, slots=True)
class CellResult:
    """What one cell did. `seconds` is wall time on the host; `lost` says which state is gone, if any is.

    `survived` are the variables that there are after a cell that was stopped, the latest ones last; None where the cell
    was not stopped, or the kernel did not tell.
    """

    status: Status
    outputs: tuple[Output, ...] = ()
    seconds: float = 0.0
    lost: str | None = None
    survived: tuple[Variable, ...] | None = None

    @property
    def rungs(self) -> tuple[Rung, ...]:
        """The steps that were taken to end the cell, in order."""
        return tuple(output for output in self.outputs if isinstance(output, Rung))

    @property
    def stdout(self) -> str:
        return "".join(o.text for o in self.outputs if isinstance(o, Stream) and o.name == "stdout")

    @property
    def stderr(self) -> str:
        return "".join(o.text for o in self.outputs if isinstance(o, Stream) and o.name == "stderr")

    @property
    def result(self) -> str | None:
        """The last expression's value as text (its `repr`), or None where there is none."""
        for output in self.outputs:
            if isinstance(output, Rich) and output.kind == "result":
                return output.data.get("text/plain")
        return None

    @property
    def error(self) -> CellError | None:
        """The exception that ended the cell: the last one, since code may show others that it caught."""
        for output in reversed(self.outputs):
            if isinstance(output, CellError):
                return output
        return None

    @property
    def images(self) -> tuple[Image, ...]:
        """Raster images that the cell displayed, in order; never decoded on the host."""
        return tuple(
            Image(mime, output.data[mime])
            for output in self.outputs
            if isinstance(output, Rich)
            for mime in ("image/png", "image/jpeg")
            if mime in output.data
        )


@dataclass(frozen=True, slots=True)
class Image:
    mime: str
    base64: str


Outcome = Literal["closed", "refused", "failed", "cut"]


@dataclass(frozen=True, slots=True)
class Connection:
    """One connection that code asked for, told when it is over. `sent` and `received` are bytes, as the code sees them.

    `refused`: not allowed, and never made. `failed`: nothing answered. `cut`: ended by a limit. `reason` says which.
    """

    host: str
    port: int
    outcome: Outcome
    reason: str = ""
    sent: int = 0
    received: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class FileInfo:
    """One entry of the workspace. `path` is relative to `/workspace`, `size` in bytes."""

    path: str
    size: int
    kind: Literal["file", "folder", "other"] = "file"


@dataclass(frozen=True, slots=True)
class ImageInfo:
    """A sandbox image of this checkout: `tag` holds the hash of what it is made of."""

    name: str
    tag: str
    present: bool
    size: int | None = None
    packages: Mapping[str, str] = field(default_factory=dict)
