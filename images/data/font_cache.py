"""Gives Matplotlib its prebuilt font list.

Matplotlib reads the list only from a folder that it may write to, and the image is read-only: without this, the first
import of every kernel warns, and searches all fonts for a second. Python runs this file whenever it starts (from a
`.pth` file), so it imports nothing that is not loaded anyway.
"""

import os

AGENT_UID = 10002
PREBUILT = "/opt/matplotlib"


def copy_to(folder: str) -> None:
    os.mkdir(folder, 0o700)  # noqa: PTH102
    for name in os.listdir(PREBUILT):  # noqa: PTH208
        with open(f"{PREBUILT}/{name}", "rb") as source, open(f"{folder}/{name}", "xb") as target:
            target.write(source.read())


if os.getuid() == AGENT_UID:
    try:
        copy_to(os.environ.setdefault("MPLCONFIGDIR", "/tmp/matplotlib"))  # noqa: S108
    except OSError:
        pass  # there already, or no room: Matplotlib then builds the list itself
