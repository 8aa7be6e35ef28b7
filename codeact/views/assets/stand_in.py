# Stands in for what the code had around it when it was recorded: its data, final_answer, tools.
import contextlib
import os
import shutil
import sys
import types
from pathlib import Path


def data_files(sources):
    """Puts each file where the code expects it: a link in data/, or a copy where links cannot be made."""
    Path("out").mkdir(exist_ok=True)
    for name, source in sources.items():
        place = Path("data", name)
        if place.exists():
            continue
        if not Path(source).exists():
            print(f"{source} is not there: put the file into {place}", file=sys.stderr)
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        try:
            place.symlink_to(os.path.relpath(source, place.parent))
        except OSError:
            (shutil.copytree if Path(source).is_dir() else shutil.copy)(source, place)


def final_answer(value):
    """Shows the answer."""
    print("answer:", value)


@contextlib.contextmanager
def more_time(seconds):
    """Nothing is timed here."""
    yield


class Record(dict):
    """An object of a tool's result: its fields as keys and as attributes."""

    __getattr__ = dict.__getitem__


def stand_in_tools(calls, value_of):
    """The modules `tools` and `tools.*`, whose functions give what they gave when the run was recorded, read by `value_of`."""

    def module(name):
        if name not in sys.modules:
            made = sys.modules[name] = types.ModuleType(name)
            parent, _, short = name.rpartition(".")
            if parent:
                setattr(module(parent), short, made)
        return sys.modules[name]

    def same(one, other):
        try:
            return bool(one == other)
        except Exception:  # a table, an array
            return False

    def fits(call, given):
        arguments = call["arguments"].values()
        return len(arguments) == len(given) and all(map(same, arguments, given))

    def function(path):
        left = [call for call in calls if call["tool"] == path]

        def tool(*args, **kwargs):
            given = [*args, *kwargs.values()]
            match = [call for call in left if fits(call, given)] or left
            if not match:
                raise RuntimeError(f"{path} was not called again in the recorded run")
            call = match[0]
            if len(left) > 1:
                left.remove(call)
            if not call["ok"]:
                raise RuntimeError(call["error"])
            return value_of(call["value"], record=Record)

        tool.map = lambda items, **options: [tool(item) for item in items]
        return tool

    module("tools")
    for path in {call["tool"] for call in calls}:
        namespace, _, name = path.rpartition(".")
        setattr(module(f"tools.{namespace}" if namespace else "tools"), name, function(path))
