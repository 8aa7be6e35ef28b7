"""One run, in rooms: the frame from start to end, the record of its events, the limits, and the steps of a turn."""

from codeact.run.frame import Run
from codeact.run.setup import Setup

__all__ = ["Run", "Setup"]
