"""How far a call is, as its tool says, for those who watch the run."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

from codeact import events
from codeact.tools.call import Call
from sandbox.text import clean

GAP_SECONDS = 0.25
"""Between two events of one call; what is told in between is passed over, but for the end."""
MAX_TEXT = 200


def teller(
    call: Call, emit: Callable[[events.Event], object], clock: Callable[[], float] = time.monotonic
) -> Callable[[float, float | None, str], None]:
    """What a tool tells its progress to. What is no number, or comes too often, is passed over."""
    lock, last = threading.Lock(), -math.inf

    def tell(done: float, total: float | None = None, text: str = "") -> None:
        nonlocal last
        if not _is_number(done) or call.waiting.cancelled.is_set():
            return
        total = total if _is_number(total) else None
        with lock:
            now = clock()
            if now - last < GAP_SECONDS and (total is None or done < total):
                return
            last = now
        said = call.scrub.text(clean(text))[:MAX_TEXT]
        emit(events.ToolProgress(call=call.id, tool=call.tool.path, done=done, total=total, text=said))

    return tell


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e15
