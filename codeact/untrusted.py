"""Values that came out of a sandbox, taken as what they should be or as nothing, and their text made inert."""

import re
import unicodedata
from itertools import islice

Entry = dict[str, object]

CELL = 60
MOST = 500
_LARGEST_NUMBER = 10**15
# What could end a block of ours or open one: fences, tags, and the special marks of chat templates.
_MARKUP = re.compile(r"<(?=[/|!?A-Za-z])|(?<=[/|A-Za-z\"'])>")
_SIMPLE_NAME = re.compile(r"[\w.%/+\- ]*[\w.%/+\-]")


def shown_name(name: str, limit: int = 80) -> str:
    """A name as it is when that is unmistakable, else as a Python string, so that it can be copied."""
    if _SIMPLE_NAME.fullmatch(name) and len(name) <= limit and name.isprintable():
        return name
    return literal(name, limit)


def literal(value: object, limit: int = 80) -> str:
    """A Python string literal that means the text exactly; of a long text its beginning, with … after the quote."""
    text = value if isinstance(value, str) else ""
    return escaped(repr(text[:limit])) + ("…" if len(text) > limit else "")


def quoted(text: str) -> str:
    """An example value in quotes; one that was cut has its … outside of them."""
    return f"{text[:-1]!r}…" if text.endswith("…") else repr(text)


def escaped(literal: str) -> str:
    """A string literal with our marks written as Python escapes: the same value."""
    return literal.replace("`", "\\x60").replace("<", "\\x3c")


def shortened(value: object, limit: int) -> str:
    """Text on one line without control, format and private characters, shortened to ``limit`` characters."""
    if not isinstance(value, str):
        return ""
    plain = "".join(map(_visible, value[: 4 * limit + 40]))
    flat = _neutral(" ".join(plain.split()))
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def _visible(character: str) -> str:
    """Joiners within words and emoji stay; what could move, hide or end text becomes a space."""
    if character == "\u200d":
        return character
    return " " if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp") else character


def _neutral(text: str) -> str:
    return _MARKUP.sub(lambda found: "‹" if found[0] == "<" else "›", text.replace("`", "'"))


def as_dict(value: object) -> Entry:
    return (
        {key: item for key, item in islice(value.items(), MOST) if isinstance(key, str)}
        if isinstance(value, dict)
        else {}
    )


def list_in(entry: Entry, key: str) -> list[object]:
    value = entry.get(key)
    return value if isinstance(value, list) else []


def dicts_in(entry: Entry, key: str, most: int) -> list[Entry]:
    return [as_dict(value) for value in list_in(entry, key)[:most] if isinstance(value, dict)]


def strings_in(entry: Entry, key: str, most: int, limit: int) -> list[str]:
    texts = [shortened(value, limit) for value in list_in(entry, key)[:most]]
    return [text for text in texts if text]


def text_in(entry: Entry, key: str, limit: int = CELL) -> str:
    return shortened(entry.get(key), limit)


def is_small(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < _LARGEST_NUMBER


def int_in(entry: Entry, key: str) -> int | None:
    value = entry.get(key)
    return value if isinstance(value, int) and is_small(value) else None
