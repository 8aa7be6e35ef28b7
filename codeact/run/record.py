"""The events of a run as they happen: stamped, written to the journal, kept for the context."""

from __future__ import annotations

import base64
import dataclasses
import io
import shutil
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from codeact import events, journal
from codeact.answers import Answer
from codeact.blobs import PICTURES
from codeact.errors import JournalError, UsageError
from codeact.inside import packed
from codeact.journal import Journal
from codeact.types import Artifact
from sandbox import Image
from sandbox.held import replacing

MIMES = {ending: mime for mime, ending in PICTURES.items()}


class Record:
    """Events come from the run's own thread by `emit`, from any other by `post`: the run hands those on with `posted`.

    `on_post` is called when there is something to hand on. `log` holds what the context is made of, `pictures` the images of observations by their name, `figures` the files
    they were kept as.
    """

    def __init__(self, run: str, folder: Path) -> None:
        self._run, self._folder = run, folder
        self._journal: Journal | None = None
        self._seq = 0
        self._lock = threading.Lock()
        self._posted: deque[events.Event] = deque()
        self.ending = False
        self.on_post: Callable[[], None] = lambda: None
        self.log: list[events.Event] = []
        self.pictures: dict[str, Image] = {}
        self.figures: list[Artifact] = []

    def open(self) -> None:
        """Makes the run's folder. Raises UsageError where it cannot be made."""
        self._journal = Journal(self._folder)

    def reopen(self, size: int, last: int, log: Iterable[events.Event]) -> None:
        """Goes on with a journal that was of `size` bytes and whose last event had the number `last`; `log` is what stands of it. Raises UsageError
        where another process does, or did since."""
        self._journal = Journal(self._folder, again=True)
        if self._journal.size > size:
            self._journal.close()
            raise UsageError(
                f"{self._run}: another process carried it on just now; see `codeact show {self._run}`"
            )
        self._seq = last
        for path in journal.figures(self._folder):
            content = path.read_bytes()
            mime = MIMES.get(path.suffix[1:], "application/octet-stream")
            self.pictures[path.name] = Image(mime, base64.b64encode(content).decode())
            self.figures.append(Artifact(path.name, path, len(content)))
        self._leave_out_figures(log)

    def take_back(self, since: int) -> None:
        """Leaves out of `log` and `figures` what was recorded from this number on; the journal has it still."""
        self.log = [event for event in self.log if event.seq < since]
        self._leave_out_figures(self.log)

    def _leave_out_figures(self, log: Iterable[events.Event]) -> None:
        """Those that nothing in a log shows: of what was undone, and of what was cut off and is done again."""
        shown = {name for event in log if isinstance(event, events.Observed) for name in event.images}
        self.figures = [figure for figure in self.figures if figure.name in shown]

    @property
    def begun(self) -> bool:
        """Whether there is an event."""
        return self._seq > 0

    def discard(self) -> None:
        """Removes the run's folder: the run did not begin."""
        self.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def keep_answer(self, made: Any, buffers: Sequence[bytes | bytearray | memoryview]) -> str:
        """Stores an answer with its types; the name of its file in the run's folder. Raises JournalError."""
        folder = self._folder / "answers"
        try:
            folder.mkdir(exist_ok=True)
            path = folder / f"{len(list(folder.glob('*.value'))) + 1}.value"
            with replacing(path, 0o600) as file:
                packed.write(file, made, buffers)
        except OSError as error:
            raise JournalError(f"{folder}: cannot be written: {error.strerror}; free some space") from error
        return path.relative_to(self._folder).as_posix()

    def is_same(self, given: events.AnswerGiven, answer: Answer) -> bool:
        """Whether an answer is the recorded one. Where JSON holds no more of it than its name, its file is what counts."""
        if given.answer != answer.shown:
            return False
        if given.file is None or answer.typed is None or not isinstance(answer.shown, str):
            return True
        now = io.BytesIO()
        packed.write(now, *answer.typed)
        try:
            return (self._folder / given.file).read_bytes() == now.getvalue()
        except OSError:  # there is nothing to compare with any more
            return True

    def close(self) -> None:
        with self._lock:
            if self._journal is not None:
                self._journal.close()

    def emit(self, event: events.Event, *, sync: bool = False) -> events.Event:
        """The event with its number and time, once it is in the journal, and with `sync` on the disk itself.

        Raises JournalError when the disk does not take it, unless the run is `ending`: it still says how.
        """
        with self._lock:
            assert self._journal is not None
            self._seq += 1
            event = dataclasses.replace(event, run=self._run, seq=self._seq, time=time.time())
            try:
                self._journal.append(event, sync=sync)
            except JournalError:
                if not self.ending:
                    raise
            if not event.live_only:
                self.log.append(event)
        return event

    def post(self, event: events.Event, *, sync: bool = False) -> events.Event:
        """As `emit`, from a thread that is not the run's."""
        event = self.emit(event, sync=sync)
        self._posted.append(event)
        self.on_post()
        return event

    def posted(self) -> Iterator[events.Event]:
        """What other threads recorded since this was last asked."""
        while self._posted:
            yield self._posted.popleft()

    def keep_picture(self, image: Image) -> str | None:
        """The name under which a picture is kept; None where it is none."""
        assert self._journal is not None
        path = self._journal.keep_picture(image)
        if path is None:
            return None
        self.pictures[path.name] = image
        self.figures.append(Artifact(path.name, path, path.stat().st_size))
        return path.name
