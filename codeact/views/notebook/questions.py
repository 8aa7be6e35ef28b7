"""A person at a notebook is asked about a call: with buttons where they work while a cell runs, else with a line to type.

A cell that runs keeps the kernel's main thread, and with it what buttons send, but where the front end sends that to a
subshell, which is another thread of the kernel: JupyterLab from 4.4 with ipykernel from 7 does. It asks for one when the
first widget is made, which is how it is known.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from typing import Any

from codeact.tools.approval import CallRequest, Decision
from codeact.views import markup
from codeact.views.notebook.output import Output
from codeact.views.notebook.page import Question
from codeact.views.prompt import does, keywords

LOOK_SECONDS = 0.1
"""Between looks at whether anybody still waits for the answer."""
UNREAD_SECONDS = 1.0
"""For which buttons do not work yet: a second click on a question before would answer one that nobody has read."""
LISTENING_SECONDS = 2.0
"""For which a front end may take to ask for its subshell."""


class Asked:
    """A call that waits for an answer, which any thread may give."""

    def __init__(self, request: CallRequest) -> None:
        self.request = request
        self.problem = request.problem
        self._answered = threading.Event()
        self._decision = Decision(False, "the turn was interrupted")

    @property
    def open(self) -> bool:
        return not (self._answered.is_set() or self.request.cancelled.is_set())

    def answer(self, decision: Decision) -> None:
        if not self._answered.is_set():
            self._decision = decision
            self._answered.set()

    def wait(self) -> Decision:
        while not self._answered.wait(LOOK_SECONDS):
            if self.request.cancelled.is_set():
                break
        return self._decision


class Person:
    """Who looks at the notebook. `asked` is what waits for an answer."""

    def __init__(self, output: Output) -> None:
        self.asked: Asked | None = None
        self._output = output
        self._unread: tuple[Any, ...] = ()
        self._read_at = 0.0

    @property
    def question(self) -> Question | None:
        if self.asked is None:
            return None
        request = self.asked.request
        about = f"A call of a tool that may {does(request.tool.policy.effects)}:"
        return Question(about, markup.code(request.source), self.asked.problem)

    def put(self, html: Callable[[], str], wake: Callable[[], None]) -> None:
        """Asks. Buttons answer later, through the kernel's other threads; a line is waited for here."""
        asked = self.asked
        assert asked is not None
        if not _can_type():
            asked.answer(Decision(False, "nobody can be asked here: the notebook is run without a person"))
            return
        buttons = _buttons(asked, wake)
        if buttons is not None:
            self._output.surround(html(), *buttons)
            self._unread, self._read_at = buttons, time.monotonic() + UNREAD_SECONDS
            return
        while asked.open:
            self._type(asked)
            self._output.put(html())

    def look(self) -> None:
        """Has the buttons work once the question could be read."""
        if self._unread and time.monotonic() >= self._read_at:
            rows, self._unread = self._unread, ()
            for row in rows:
                for widget in row.children:
                    widget.disabled = False

    def _type(self, asked: Asked) -> None:
        path = asked.request.tool.path
        try:
            said = _interruptible(
                f"Allow it? y / n WHY / always (for {path}) / arguments to change, as in amount=10: "
            )
        except EOFError:
            said = "n there was no answer"
        except KeyboardInterrupt:
            asked.answer(Decision(False, "interrupted"))
            signal.raise_signal(signal.SIGINT)  # for whoever ends the run by it
            return
        _said(asked, said.strip())


def _said(asked: Asked, line: str) -> None:
    """Answers with a line that was typed. `y = 5` changes an argument that is called so; what follows a yes changes others."""
    word, rest = (*line.split(maxsplit=1), "", "")[:2]
    match word.lower():
        case "":
            pass
        case _ if rest.startswith("="):
            _allow(asked, line, always=False)
        case "y" | "yes":
            _allow(asked, rest, always=False)
        case "a" | "always":
            _allow(asked, rest, always=True)
        case "n" | "no":
            asked.answer(Decision(False, rest))
        case _:
            _allow(asked, line, always=False)


def _interruptible(prompt: str) -> str:
    """As `input`. Raises KeyboardInterrupt at a signal that would only cancel the task that awaits the run, which waits for this."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return input(prompt)
    finally:
        signal.signal(signal.SIGINT, before)


def _allow(asked: Asked, text: str, always: bool) -> None:
    """Allows the call, with arguments as they were written, if any; or says what is wrong with them."""
    try:
        asked.answer(Decision(True, always=always, arguments=keywords(text) if text.strip() else {}))
    except ValueError as error:
        asked.problem = str(error)


def _buttons(asked: Asked, wake: Callable[[], None]) -> tuple[Any, ...] | None:
    """A row of buttons, and a line for what else is to be said; None where they would not be heard."""
    try:
        from ipywidgets import Button, HBox, Layout, Text
    except ImportError:
        return None
    wide = Layout(width="auto")
    allow = Button(description="Allow", button_style="primary")
    always = Button(
        description="Always", layout=wide, tooltip=f"Allow all calls of {asked.request.tool.path} in this run"
    )
    refuse = Button(description="Refuse", button_style="")
    words = Text(placeholder="why not, or arguments to change: amount=10", layout=Layout(width="22rem"))
    widgets = (allow, always, refuse, words)
    if not _listens():
        for widget in widgets:
            widget.close()
        return None
    for widget in widgets:
        _heard_beside_the_cell(widget.comm)

    def allowing(always: bool) -> Callable[[Any], None]:
        def on_click(_: Any) -> None:
            _allow(asked, words.value, always)
            wake()

        return on_click

    allow.on_click(allowing(always=False))
    always.on_click(allowing(always=True))
    refuse.on_click(lambda _: asked.answer(Decision(False, words.value.strip())))
    for button in (allow, always, refuse):
        button.disabled = True
    return (HBox(widgets, layout=Layout(flex_flow="row wrap")),)


def _heard_beside_the_cell(comm: Any) -> None:
    """What a widget sends goes where the front end sent it; ipykernel from 7.4 would have it wait for the cell that made it."""
    comm._reply_subshell_for = lambda data, subshell: subshell


def _kernel() -> Any:
    from IPython import get_ipython

    return getattr(get_ipython(), "kernel", None)


def _can_type() -> bool:
    """Whether there is a person, as the front end said with the cell; one that executes whole notebooks has none."""
    return bool(getattr(_kernel(), "_allow_stdin", False))


def _listens() -> bool:
    """Whether the front end has a subshell for what widgets send; it asks for it when the first one is made."""
    kernel = _kernel()
    if not getattr(kernel, "_supports_kernel_subshells", False):
        return False
    until = time.monotonic() + LISTENING_SECONDS
    while not kernel.shell_channel_thread.manager.list_subshell():
        if time.monotonic() > until:
            return False
        time.sleep(LOOK_SECONDS / 2)
    return True
