"""What a person says to a call in a notebook, when buttons work, and what `%%codeact` takes by name."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import click
import pytest

from codeact.commands import magic
from codeact.errors import UsageError
from codeact.tools.approval import Decision
from codeact.views.notebook import questions
from codeact.views.notebook.live import Stopped
from codeact.views.notebook.output import Output
from codeact.views.notebook.questions import Asked, Person


def asked() -> Asked:
    request: Any = SimpleNamespace(
        tool=SimpleNamespace(path="shop.pay"), problem="", cancelled=threading.Event()
    )
    return Asked(request)


@pytest.fixture
def row(monkeypatch: pytest.MonkeyPatch) -> Callable[[Asked], tuple[Any, ...]]:
    """Makes the buttons of a question and its line, in this order: Allow, Always, Refuse."""
    monkeypatch.setattr(questions, "_listens", lambda: True)
    monkeypatch.setattr(questions, "_heard_beside_the_cell", lambda comm: None)

    def make(question: Asked) -> tuple[Any, ...]:
        rows = questions._buttons(question, lambda: None)
        assert rows is not None
        return tuple(rows[0].children)

    return make


@pytest.mark.parametrize(
    ("button", "words", "said"),
    [
        (0, "", Decision(True)),
        (0, "amount=1", Decision(True, arguments={"amount": 1})),
        (1, " ", Decision(True, always=True)),
        (1, "amount=1", Decision(True, always=True, arguments={"amount": 1})),
        (2, " not now ", Decision(False, "not now")),
    ],
)
def test_what_is_typed_counts_whichever_button_is_pressed(
    row: Callable[[Asked], tuple[Any, ...]], button: int, words: str, said: Decision
) -> None:
    question = asked()
    widgets = row(question)
    widgets[3].value = words
    widgets[button].click()
    assert question.wait() == said


@pytest.mark.parametrize("button", [0, 1])
def test_a_button_does_not_answer_with_words_that_are_no_arguments(
    row: Callable[[Asked], tuple[Any, ...]], button: int
) -> None:
    question = asked()
    widgets = row(question)
    widgets[3].value = "later"
    widgets[button].click()
    assert question.open
    assert question.problem


def test_buttons_work_only_when_the_question_could_be_read(
    row: Callable[[Asked], tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr(questions, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(questions, "_can_type", lambda: True)
    drawn: list[Any] = []
    output: Any = SimpleNamespace(surround=lambda html, *rows: drawn.extend(rows))
    person = Person(output)
    person.asked = asked()
    person.put(str, lambda: None)
    (box,) = drawn
    for now[0], disabled in ((100.0, True), (100.9, True), (101.0, False)):
        person.look()
        assert [widget.disabled for widget in box.children] == [disabled] * 3 + [False]


def test_the_stop_button_ends_a_line_that_is_waited_for_in_an_event_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    question = asked()

    def typed(prompt: str) -> str:
        signal.raise_signal(signal.SIGINT)
        return "y"

    monkeypatch.setattr("builtins.input", typed)

    async def cell() -> None:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, task.cancel)
        Person(Output())._type(question)
        await asyncio.Event().wait()

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(asyncio.wait_for(cell(), 10))
    assert question.wait() == Decision(False, "interrupted")
    assert signal.getsignal(signal.SIGINT) == before


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("y", Decision(True)),
        (" YES ", Decision(True)),
        ("y amount=1", Decision(True, arguments={"amount": 1})),
        ("always", Decision(True, always=True)),
        ("always amount=1", Decision(True, always=True, arguments={"amount": 1})),
        ("n\tnot  now", Decision(False, "not  now")),
        ("n", Decision(False)),
        ("amount = 10, to='Ann'", Decision(True, arguments={"amount": 10, "to": "Ann"})),
        # arguments that are called as an answer is
        ("y = 5", Decision(True, arguments={"y": 5})),
        ("a = 3, n = 4", Decision(True, arguments={"a": 3, "n": 4})),
        ("n = 10", Decision(True, arguments={"n": 10})),
        ("always =True", Decision(True, arguments={"always": True})),
    ],
)
def test_a_line_that_is_typed_is_that_answer(
    line: str, said: Decision, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("builtins.input", lambda prompt: line)
    question = asked()
    Person(Output())._type(question)
    assert not question.open
    assert question.wait() == said


@pytest.mark.parametrize("line", ["what?", "y thanks", "yes, but amount=10", "always amount", "y == 5"])
def test_a_line_that_is_no_answer_is_asked_again(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("builtins.input", lambda prompt: line)
    question = asked()
    Person(Output())._type(question)
    assert question.open
    assert question.problem.startswith("write names and values as in a call")


@pytest.mark.parametrize(
    ("raised", "shown"),
    [
        (Stopped("r1"), "the run was stopped; go on with agent.resume('r1')"),
        (KeyboardInterrupt(), ""),
        (EOFError(), ""),
    ],
)
def test_the_stop_button_in_a_cell_of_the_magic_shows_as_in_any_other(
    raised: BaseException, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    @click.command()
    def command() -> None:
        raise raised

    monkeypatch.setattr(magic, "_command", lambda task, variables: command)
    with pytest.raises(KeyboardInterrupt) as stopped:
        magic._magic(SimpleNamespace(user_ns={}))("", "How many?")
    assert (isinstance(stopped.value, Stopped), str(stopped.value)) == (bool(shown), shown)


@pytest.mark.parametrize("specs", [["a=x", "a=y"], ["x", "x"], ["x", "x=y"]])
def test_a_name_for_two_things_is_refused(specs: list[str]) -> None:
    with pytest.raises(UsageError, match="is there twice"):
        magic.inputs(specs, {"x": 1, "y": 2})


def test_a_keyword_is_no_name_for_a_result() -> None:
    with pytest.raises(UsageError, match="--out class"):
        magic._command("task", {}).main(["--out", "class"], standalone_mode=False)
