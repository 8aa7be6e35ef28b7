"""What failing code took a value for: told of variables of the cells alone, by their names and keys."""

from __future__ import annotations

import itertools
import linecache
from typing import Any

import pytest

from codeact.inside.misread import misread

PAGES = "pages = {'orders': [{'id': 1}], 'page': 1}\n"
PEOPLE = "people = ['ann', 'bob']\n"

_numbers = itertools.count()


def failed(source: str) -> list[str] | None:
    """What is told of a cell that fails."""
    name, main = f"<cell {next(_numbers)}>", {"__name__": "__main__"}
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    try:
        exec(compile(source, name, "exec"), main)
    except Exception as error:  # noqa: BLE001
        return misread(error, main)
    raise AssertionError("it did not fail")


TOLD: dict[str, tuple[str, list[str] | None]] = {
    "a loop over a dict": (f"{PAGES}for page in pages:\n    page['id']", ["page", "key", "pages['orders']"]),
    "in a function": (
        f"def ids():\n    {PAGES}    return [page['id'] for page in pages]\nids()",
        ["page", "key", "pages['orders']"],
    ),
    "a dict without lists": ("one = {'a': 1}\nfor key in one:\n    key['id']", ["key", "text", ""]),
    "a list of texts": (f"{PEOPLE}[é['mail'] for é in people]", ["é", "text", ""]),
    "over lines": (
        f"{PEOPLE}x = ('é',\n  [person[\n    'mail'] for person in people])",
        ["person", "text", ""],
    ),
    "a text by a variable": ("key = 'a'\nname = 'ann'\nname[key]", ["name", "text", ""]),
    "a slice of a dict": (f"{PAGES}for page in pages[:5]:\n    pass", ["pages", "dict", "pages['orders']"]),
    "a slice of a dict without lists": ("one = {'a': 1}\none[:5]", None),
    "a list by a name": (f"{PEOPLE}people['ann']", ["people", "list", ""]),
    "nothing": ("found = None\nfound['id']", ["found", "none", ""]),
    "what no name holds": (f"{PAGES}pages['orders']['id']", None),
    "a key that is missing": (f"{PAGES}pages['id']", None),
    "another error": ("1 / 0", None),
    "in a library": ("import json\njson.loads(None)", None),
}


@pytest.mark.parametrize(("source", "expected"), TOLD.values(), ids=TOLD)
def test_what_a_value_is_not_is_told(source: str, expected: list[str] | None) -> None:
    assert failed(source) == expected


def test_values_of_anybodys_making_are_not_touched() -> None:
    class Odd(dict[str, Any]):
        def items(self) -> Any:
            raise AssertionError

    main: dict[str, Any] = {"odd": Odd(orders=[]), "__name__": "__main__"}
    source = "key = 'orders'\nkey['id']"
    linecache.cache["<odd>"] = (len(source), None, source.splitlines(keepends=True), "<odd>")
    with pytest.raises(TypeError) as raised:
        exec(compile(source, "<odd>", "exec"), main)
    assert misread(raised.value, main) == ["key", "text", ""]
