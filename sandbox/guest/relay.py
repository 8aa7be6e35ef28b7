"""Hands this process's standard input and output to the supervisor, then waits until it lets go of them.

The host opens the stream by executing this in the container. The supervisor gets the two descriptors themselves, so
that no byte is copied here.
"""

from __future__ import annotations

import socket
import sys
import time

SOCKET = "/run/s/bridge.sock"
PATIENCE = 20.0
"""Seconds in which the supervisor must have begun to listen."""


def meet(path: str) -> socket.socket:
    """Connects to a socket of the supervisor, which may still be starting. Raises OSError when it does not come up."""
    deadline = time.monotonic() + PATIENCE
    while True:
        link = socket.socket(socket.AF_UNIX)
        try:
            link.connect(path)
            return link
        except (FileNotFoundError, ConnectionRefusedError):
            link.close()
            if time.monotonic() > deadline:
                raise
            time.sleep(0.005)


def main() -> None:
    with meet(sys.argv[1] if len(sys.argv) > 1 else SOCKET) as link:
        socket.send_fds(link, [b"!"], [0, 1])
        link.recv(1)


if __name__ == "__main__":
    main()
