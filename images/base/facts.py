"""Prints what an image holds, as JSON, for `verify`: run inside a throw-away container as the agent."""

import grp
import importlib
import importlib.metadata
import importlib.util
import json
import os
import platform
import pwd
import stat
import sys
import time
import warnings

SKIPPED = {"/proc", "/sys", "/dev", "/tmp"}  # noqa: S108


def accounts() -> dict[str, list[int]]:
    found = {user.pw_name: [user.pw_uid, user.pw_gid] for user in pwd.getpwall()}
    return {name: found[name] for name in ("supervisor", "agent") if name in found}


def setuid_files() -> list[str]:
    found = []
    for folder, folders, names in os.walk("/"):
        folders[:] = [name for name in folders if os.path.join(folder, name) not in SKIPPED]  # noqa: PTH118
        for name in names:
            path = os.path.join(folder, name)  # noqa: PTH118
            mode = os.lstat(path).st_mode
            if stat.S_ISREG(mode) and mode & (stat.S_ISUID | stat.S_ISGID):
                found.append(path)
    return found


def import_all() -> dict[str, str]:
    """Imports every public top-level module of every distribution; returns what failed, by module.

    A module that asks for a package outside the lock belongs to an optional part of its distribution.
    """
    failed = {}
    provided = importlib.metadata.packages_distributions()
    for module in sorted(provided):
        if module.startswith("_") or not module.isidentifier():
            continue
        try:
            importlib.import_module(module)
        except ModuleNotFoundError as error:
            if error.name is None or error.name.partition(".")[0] in provided:
                failed[module] = f"{type(error).__name__}: {error}"
        except BaseException as error:  # noqa: BLE001 - a module may even call exit()
            failed[module] = f"{type(error).__name__}: {error}"
    return failed


def pyplot_seconds() -> float | None:
    if importlib.util.find_spec("matplotlib") is None:
        return None
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        importlib.import_module("matplotlib.pyplot")
    return time.perf_counter() - start


facts = {
    "python": platform.python_version(),
    "prefix": sys.prefix,
    "uid": os.getuid(),
    "accounts": accounts(),
    "group": grp.getgrgid(10001).gr_name,
    "folders": [path for path in ("/workspace", "/run/k", "/run/s", "/opt/sandbox") if os.path.isdir(path)],  # noqa: PTH112
    "setuid": setuid_files(),
    "packages": {d.metadata["Name"]: d.version for d in importlib.metadata.distributions()},
    "pyplot": pyplot_seconds(),
    "failed": import_all(),
}
print("\n" + json.dumps(facts))
