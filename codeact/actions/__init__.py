"""Model reply -> actions: what a reply says, and where it can be ended while it streams."""

from codeact.actions.reading import complete, read

__all__ = ["complete", "read"]
