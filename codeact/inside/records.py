"""Objects with named fields that came from the other side: fields are attributes, and keys."""

from __future__ import annotations

from typing import Any

_METHODS = frozenset(dir(dict))


class Record(dict[str, Any]):
    """A dict whose keys are attributes too; a field with the name of a method, such as `items`, is the field."""

    def __getattribute__(self, name: str) -> Any:
        if name in _METHODS and not name.startswith("__") and dict.__contains__(self, name):
            return dict.__getitem__(self, name)
        return super().__getattribute__(name)

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            fields = ", ".join(map(str, dict.keys(self)))
            raise AttributeError(
                f"{type(self).__name__} has no {name!r}; it has {fields or 'no fields'}"
            ) from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *dict.keys(self)]

    def __repr__(self) -> str:
        fields = ", ".join(f"{key}={value!r}" for key, value in dict.items(self))
        return f"{type(self).__name__}({fields})"

    def __reduce__(self) -> tuple[Any, ...]:
        return made, (type(self).__name__, dict(self))


def made(name: str, fields: dict[str, Any], known: type[Record] | None = None) -> Record:
    """A record of the class `known`, or of one of this name that has no other use."""
    shown = name if name.isidentifier() and len(name) <= 60 else "Record"
    kind: type[Record] = known or type(shown, (Record,), {"__module__": __name__})
    return kind(fields)
