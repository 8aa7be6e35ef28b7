"""Processes of this machine, read from /proc."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from pathlib import Path


def processes_naming(text: str) -> set[int]:
    """Ids of processes whose command line names `text`, a path or what is below it: as an argument, or after its `=` or `:`."""
    named = re.compile(rb"(?:^|[\0=:]|://)" + re.escape(os.fsencode(text)) + rb"(?:[/\0:,]|$)")
    return {pid for pid in _ids() if named.search(_read(pid, "cmdline"))}


def descendants(ancestors: set[int]) -> set[int]:
    """Ids of the children of `ancestors`, their children, and so on."""
    children = defaultdict(set)
    for pid in _ids():
        # the program's name, in brackets, may itself hold brackets and spaces
        fields = _read(pid, "stat").rpartition(b") ")[2].split()
        if len(fields) > 1:
            children[int(fields[1])].add(pid)
    found: set[int] = set()
    new = set(ancestors)
    while new:
        new = {child for pid in new for child in children[pid]} - found
        found |= new
    return found


def _ids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""
