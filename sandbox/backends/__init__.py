"""Where a sandbox runs. A backend starts it, opens a stream into it, and removes it; nothing else.

A backend is done when the suite in `tests/contract` passes with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from sandbox.bridge import ByteStream

Ended = Callable[[], bool]


class Backend(Protocol):
    @property
    def unenforced(self) -> Mapping[str, str]:
        """What this backend cannot enforce here → one line why. Known before it is started.

        Names are those of `Limits`, and of what else `docs/sandbox.md` promises.
        """

    def start(self) -> None:
        """Starts the sandbox with its supervisor. Raises a SandboxError."""

    def connect(self) -> ByteStream:
        """A stream to the supervisor, as often as it is asked for.

        Raises OSError when that may succeed later, and a SandboxError when it never will.
        """

    def run_as_agent(self, argv: Sequence[str], *, within: float) -> Ended:
        """Starts Python with `argv` in the sandbox, as the user under whom the agent's code runs.

        Returns what tells whether it has ended; where that is not known, it has not. Raises EngineError, also when it has
        not started `within` so many seconds: code of the same user may stop it before it begins.
        """

    def alive(self) -> bool:
        """Whether the sandbox is still there; its kernel may be dead."""

    def stop(self) -> None:
        """Ends and removes the sandbox with all that runs in it, as far as that can be done. Never raises a SandboxError."""

    def memory_used(self) -> int:
        """Bytes of memory that the sandbox uses now. Raises a SandboxError."""

    def mounted(self) -> frozenset[str]:
        """The names of the inputs that are in `/workspace/data` from the start; the others are to be sent."""

    def relabel(self, label: str) -> None:
        """Makes the sandbox known by another label, where that can be done while it runs. Never raises a SandboxError."""
