"""Whether a container engine answers at a unix socket, and if not, why."""

from __future__ import annotations

import re
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

PROBE_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Silence:
    """Nobody answers at `where`: the place is `absent`, this user is `denied`, or it is `mute` (there, but no answer)."""

    kind: Literal["absent", "denied", "mute"]
    where: str
    reason: str


def ping(path: Path) -> Silence | None:
    """None where an engine answers.

    Written out, because the client library wraps its errors so deep that a refusal looks like an absence.
    """
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(PROBE_SECONDS)
        try:
            connection.connect(str(path))
            connection.sendall(b"GET /_ping HTTP/1.0\r\nHost: engine\r\n\r\n")
            status = connection.recv(64).split(b"\r\n")[0]
        except PermissionError:
            return Silence("denied", str(path), "permission denied")
        except (FileNotFoundError, NotADirectoryError):
            return Silence("absent", str(path), "no such socket")
        except OSError as error:
            return Silence("mute", str(path), error.strerror or str(error))
    if not re.match(rb"HTTP/1\.[01] 200 ", status):
        return Silence("mute", str(path), f"it answered {status.decode('ascii', 'replace')!r}")
    return None
