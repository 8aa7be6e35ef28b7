"""What can go wrong with a sandbox itself. A failing cell is not an error here: it is a `CellResult`.

SandboxError
├── EngineError            no container engine, or one that refuses us
│   ├── EngineNotFound
│   └── EnginePermission
├── ImageError             an image that is missing or does not build
│   └── ImageNotFound
├── StartError             the sandbox did not come up
├── ConnectionLost         the stream into the sandbox ended and could not be opened again
├── ProtocolError          something inside sent what no honest supervisor sends
├── FileError              a file could not be carried in or out
├── HostCallRefused        raised by a host function: the cell gets the message as an exception
├── SandboxBusy            the same thread has not read its last cell to the end
├── SandboxClosed          used after `close()`
└── PoolClosed             a pool that is used after `close()`
"""

from __future__ import annotations


class SandboxError(Exception):
    """One line: the thing, the reason, the mend."""


class EngineError(SandboxError):
    pass


class EngineNotFound(EngineError):
    pass


class EnginePermission(EngineError):
    pass


class ImageError(SandboxError):
    pass


class ImageNotFound(ImageError):
    pass


class StartError(SandboxError):
    pass


class ConnectionLost(SandboxError):
    pass


class ProtocolError(SandboxError):
    pass


class FileError(SandboxError):
    pass


class HostCallRefused(SandboxError):
    """`name` is the exception class that the cell sees; the message is its text."""

    def __init__(self, message: str, *, name: str = "HostCallRefused") -> None:
        super().__init__(message)
        self.name = name


class SandboxBusy(SandboxError):
    pass


class SandboxClosed(SandboxError):
    pass


class PoolClosed(SandboxError):
    pass
