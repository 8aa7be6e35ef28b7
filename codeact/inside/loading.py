"""Runs the reading lines of small files in the kernel, so that their data are variables from the start."""

import ast
import builtins
import io
import keyword
import re
import time
import tokenize
from collections.abc import Iterator, Sequence
from typing import Any

from .reading import Line, execute

MAX_BYTES = 20 * 1024 * 1024
MAX_PARTS = 8
_PARTS = ("sheets", "tables", "described")
_PACKED = 4
"""How many times its size a packed file may hold to count as small."""


def load(
    manifest: dict[str, Any], space: dict[str, Any], *, seconds: float = 5, keep: Sequence[str] = ()
) -> None:
    """Puts what the files hold into ``space`` and marks their entries: ``loaded`` is True, ``read`` has the names used.

    With one file the names are those of its reading line (``df``); with several, with a file that is named like a variable,
    and where a name is one of ``keep``, they come from the files' names. All or nothing: where there are more than MAX_PARTS tables, or a large one, the reading lines stay as they are.
    """
    end = time.monotonic() + seconds
    parts = list(_readable(manifest))
    if not 0 < len(parts) <= MAX_PARTS or any(size > MAX_BYTES for _, _, size in parts):
        return
    taken = {*space, *dir(builtins), *keyword.kwlist}
    for entry, name, _ in parts:
        if time.monotonic() > end:
            return
        line = entry["read"]
        assigned = _assigned(line)
        renamed = len(parts) > 1 or not set(assigned).isdisjoint(keep) or str(entry.get("name")) == name
        if renamed:
            names = _names(assigned, name, taken)
            line = _renamed(line, names)
            assigned = list(names.values())
        taken |= set(assigned)
        try:
            made = dict(zip(assigned, _values(line, assigned), strict=True))
        except Exception:  # noqa: BLE001, S112 - it stays a line that can be tried again
            continue
        space |= made
        entry["read"], entry["loaded"] = line, True
        if renamed:  # the remarks speak of the variables of the line as it was
            entry["notes"] = [_renamed_in(note, names) for note in entry.get("notes", [])]


def _readable(manifest: dict[str, Any]) -> Iterator[tuple[dict[str, Any], str, int]]:
    """Each table or file that has a tried reading line: its entry, a name for it, and its file's size."""
    for file in manifest["files"]:
        size = int(file.get("size") or 0) * (_PACKED if file.get("container") else 1)
        stem = _identifier(str(file.get("name") or file.get("path", "")).rpartition("/")[2].partition(".")[0])
        below = [part for key in _PARTS for part in file.get(key) or [] if part.get("read")]
        for part in below or [file]:
            if part.get("read") and part.get("read_verified") is True:
                name = stem if len(below) < 2 else f"{stem}_{_identifier(str(part.get('name', '')))}"
                yield part, name, size


def _identifier(text: str) -> str:
    made = re.sub(r"\W+", "_", text.lower()).strip("_")[:30]
    return made if made.isidentifier() else f"data_{made}".rstrip("_")


def _assigned(line: str) -> list[str]:
    """The variables that a reading line makes, in order."""
    targets = [
        target.id
        for statement in ast.parse(line).body
        if isinstance(statement, ast.Assign)
        for target in statement.targets
        if isinstance(target, ast.Name)
    ]
    return list(dict.fromkeys(targets))


def _names(assigned: list[str], name: str, taken: set[str]) -> dict[str, str]:
    """New names for the variables of a line: the last one, which is the table, gets the file's name."""
    while name in taken:
        name += "_"
    return {old: name if old == assigned[-1] else f"{name}_{old}" for old in assigned}


def _renamed(line: str, names: dict[str, str]) -> str:
    """The line with other variables. Attributes and names of arguments are left as they are."""
    pieces: list[str] = []
    at, depth, before = 0, 0, ""
    tokens = list(tokenize.generate_tokens(io.StringIO(line).readline))
    for token, following in zip(tokens, [*tokens[1:], tokens[-1]], strict=True):
        if token.start[0] > 1 or token.type in (tokenize.NEWLINE, tokenize.ENDMARKER):
            break
        depth += (token.string in "([{") - (token.string in ")]}") if token.type == tokenize.OP else 0
        argument = depth > 0 and following.string == "="
        if token.type == tokenize.NAME and token.string in names and before != "." and not argument:
            pieces += [line[at : token.start[1]], names[token.string]]
            at = token.end[1]
        before = token.string
    return "".join([*pieces, line[at:]])


def _renamed_in(note: str, names: dict[str, str]) -> str:
    for old, new in names.items():
        note = re.sub(rf"(?<!['\"\w.]){old}(?!['\"\w])", new, note)
    return note


def _values(line: str, names: list[str]) -> list[Any]:
    space = execute(Line(line), None)
    return [space[name] for name in names]
