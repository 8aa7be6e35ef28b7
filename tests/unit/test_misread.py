"""What failing code took a value for: told of variables of the cells alone, by their names and keys."""

from __future__ import annotations

import itertools
import linecache

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
    "a text of a list whose texts are keys elsewhere": (
        "totals = {'ann': [1]}\npeople = ['ann']\nfor one in people:\n    one['total']",
        ["one", "text", ""],
    ),
    "a dict with several lists": (
        "page = {'errors': [], 'tags': ['x'], 'orders': [{'id': 1}]}\nfor order in page:\n    order['id']",
        ["order", "key", "page['orders']"],
    ),
    "a slice of a dict with empty lists alone": ("page = {'errors': []}\npage[:3]", None),
    "a tuple": ("pair = (1, 2)\npair['a']", None),
    "an item that cannot be set": ("pair = (1, 2)\npair[0] = 5", None),
    "a list by a float": ("some = [1, 2]\nsome[len(some) / 2]", None),
    "a slice of a text by a float": ("word = 'abc'\nword[: len(word) / 2]", None),
    "a global that a caller has a name like": (
        "data = {'x': 1}\ndef inner(): return data['id']\ndef outer(data): return inner()\nouter('text')",
        None,
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
