"""The filter of system calls: one profile, as JSON for an engine and as a program for the kernel.

libseccomp compiles it: it knows the number of each call on each architecture, which a table of ours would have to.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from sandbox.errors import StartError

PROFILE = Path(__file__).with_name("seccomp.json")
"""The profile that ships with the project, in the format of Docker."""
LIBRARY = "libseccomp.so.2"
ALLOW = 0x7FFF0000
ERRNO = 0x00050000
COMPARE = {"SCMP_CMP_EQ": 4, "SCMP_CMP_MASKED_EQ": 7}
UNKNOWN = -1
"""What libseccomp says for the number of a call that no architecture has."""


class Comparison(ctypes.Structure):
    """`struct scmp_arg_cmp`: for a masked comparison `first` is the mask and `second` the value."""

    _fields_ = (
        ("argument", ctypes.c_uint),
        ("operator", ctypes.c_int),
        ("first", ctypes.c_uint64),
        ("second", ctypes.c_uint64),
    )


def profile() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(PROFILE.read_text("utf-8"))
    return found


@cache
def program() -> bytes:
    """The profile as an array of BPF instructions for this machine. Raises StartError where libseccomp is missing."""
    try:
        library = ctypes.CDLL(LIBRARY)
    except OSError:
        raise StartError(
            f"{LIBRARY} is missing, which makes the filter of system calls: install libseccomp2"
        ) from None
    library.seccomp_init.restype = ctypes.c_void_p
    rules = profile()
    context = ctypes.c_void_p(library.seccomp_init(_action(rules["defaultAction"], rules["defaultErrnoRet"])))
    try:
        for rule in rules["syscalls"]:
            _add(library, context, rule)
        with tempfile.TemporaryFile() as file:
            _check(library.seccomp_export_bpf(context, file.fileno()))
            return os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0)
    finally:
        library.seccomp_release(context)


def _add(library: ctypes.CDLL, context: ctypes.c_void_p, rule: dict[str, Any]) -> None:
    action = _action(rule["action"], rule.get("errnoRet", errno.EPERM))
    wanted = [_comparison(argument) for argument in rule.get("args", ())]
    for name in rule["names"]:
        number = library.seccomp_syscall_resolve_name(name.encode())
        if number != UNKNOWN:  # a call that is newer than the library is forbidden, as all unnamed ones are
            _check(
                library.seccomp_rule_add_array(
                    context, ctypes.c_uint32(action), number, len(wanted), (Comparison * len(wanted))(*wanted)
                )
            )


def _comparison(argument: dict[str, Any]) -> Comparison:
    return Comparison(
        argument["index"], COMPARE[argument["op"]], argument["value"], argument.get("valueTwo", 0)
    )


def _action(name: str, code: int) -> int:
    return ALLOW if name == "SCMP_ACT_ALLOW" else ERRNO | code


def _check(result: int) -> None:
    if result < 0:
        raise StartError(f"the filter of system calls cannot be made: {os.strerror(-result)}")
