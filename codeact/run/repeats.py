"""Noticing that a model does the same again, and gets the same."""

from __future__ import annotations

from codeact.errors import NoAnswer

MOST = 5
"""Turns in a row that repeat what was done before, after which a run ends."""
MOST_OF_SMALL = 3
"""The same of a small model: it finds no other way by itself, where a large one may wait for something."""


class Repeats:
    """`count` is how many turns in a row did what one before them had done, with the same result. `small`: a small model's."""

    def __init__(self, *, small: bool) -> None:
        self.small = small
        self._came_of: dict[str, str] = {}
        self.count = 0

    def renew(self) -> None:
        """For another task: to do for it what was done for the one before is no repetition."""
        self._came_of.clear()
        self.count = 0

    def seen(self, what: str, came_of_it: str) -> bool:
        """Whether this was done before, and came to the same."""
        same = self._came_of.get(what) == came_of_it
        self.count = self.count + 1 if same else 0
        self._came_of[what] = came_of_it
        return same

    def check(self) -> None:
        """Raises NoAnswer where it is enough."""
        if self.count >= (MOST_OF_SMALL if self.small else MOST):
            raise NoAnswer(f"the model did the same {self.count} times more, with the same result each time")
