"""Packages beside those of the image: what was added to it for this sandbox, and what the code installs itself.

Only the kernel and what it starts have them on their path, behind all else: the supervisor loads nothing that others
brought, and no package takes the place of one of the image.
"""

from __future__ import annotations

import contextlib
import os
import site
import sys
import sysconfig

ADDED = "/opt/added"
OWN = "/workspace/.packages"
_LIBRARY = f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"


def set_up() -> None:
    """For this process and those it starts: where packages are found, and where pip puts them."""
    own, added = os.path.join(OWN, _LIBRARY), os.path.join(ADDED, _LIBRARY)
    with contextlib.suppress(OSError):  # a folder that is there from the start is looked into later on
        os.makedirs(own, exist_ok=True)
    sys.path.append(own)
    if os.path.isdir(added):
        site.addsitedir(added)
    constraints = os.path.join(OWN, "constraints.txt")
    with contextlib.suppress(
        OSError
    ):  # no room: pip then finds out by itself that the image cannot be written to
        pin(constraints, sysconfig.get_path("purelib"), added)
        os.environ["PIP_CONSTRAINT"] = constraints
    os.environ.update(
        PYTHONPATH=os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), own, added))),
        PATH=os.pathsep.join((os.environ.get("PATH", os.defpath), f"{OWN}/bin", f"{ADDED}/bin")),
        PIP_PREFIX=OWN,
        PIP_NO_CACHE_DIR="1",
        PIP_NO_INPUT="1",
        PIP_NO_WARN_SCRIPT_LOCATION="1",
        PIP_DISABLE_PIP_VERSION_CHECK="1",
        PIP_PROGRESS_BAR="off",
        PIP_RETRIES="2",  # a host that is refused stays refused
    )


def pin(path: str, *libraries: str) -> None:
    """Writes what is installed in `libraries` as constraints, so that pip says at once what it cannot replace."""
    names = [name for library in libraries if os.path.isdir(library) for name in os.listdir(library)]
    known = [name.removesuffix(".dist-info") for name in names if name.endswith(".dist-info")]
    pinned = [name.rpartition("-")[::2] for name in known if "-" in name]
    with open(path, "w") as file:
        file.writelines(f"{name}=={version}\n" for name, version in pinned)
