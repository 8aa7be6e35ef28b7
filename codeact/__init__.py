"""An agent whose actions are Python programs."""

__version__ = "0.1.0"
