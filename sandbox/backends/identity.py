"""Which process something belongs to, in a way that a later process of the same number does not fit."""

from __future__ import annotations

from pathlib import Path


def process_name(pid: int) -> str:
    """`PID.STARTED`; empty where there is no such process."""
    started = start_time(pid)
    return f"{pid}.{started}" if started else ""


def process_of(name: str) -> int | None:
    """The process that `process_name` named so, while it lives."""
    pid, _, started = name.partition(".")
    if pid.isdigit() and started and start_time(int(pid)) == started:
        return int(pid)
    return None


def start_time(pid: int) -> str:
    """When a process started, in clock ticks since boot. Empty: no such."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""
