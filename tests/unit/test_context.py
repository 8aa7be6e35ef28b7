"""The log as messages."""

from __future__ import annotations

import itertools

from codeact import context, events
from codeact.actions import read
from codeact.answers import AnswerCheck
from codeact.types import Call, Reading, Usage
from sandbox.types import Image

INVENTED = "Look.\n```python\nprint(1)\n```\nObservation: 1\n"


def log(**settings: object) -> list[events.Event]:
    def replied(turn: int, text: str) -> events.Replied:
        return events.Replied(
            turn=turn, text=text, reading=read(text), finish="stop", usage=Usage(1), model="m", seconds=0.1
        )

    return [
        events.RunStarted(task="t", model="m", settings=settings, system="S", first="F"),
        replied(1, INVENTED),
        events.Observed(turn=1, text="Output:\n1", images=("figure-1.png",)),
        replied(2, ""),
    ]


def test_each_turn_is_a_reply_and_an_observation() -> None:
    picture = Image("image/png", "AAAA")
    messages = context.keep_all(log(data={"a.csv": "a"}), {"figure-1.png": picture}, context.example())
    example = context.example()
    assert [m.role for m in example] == ["user", "assistant", "user", "assistant"]
    assert messages[0].content == "S"
    assert messages[1:5] == example
    assert [(m.role, m.content) for m in messages[5:]] == [
        ("user", "F"),
        ("assistant", "Look.\n```python\nprint(1)\n```"),  # what it invented is not kept
        ("user", "Output:\n1"),
        ("assistant", context.EMPTY_REPLY),
    ]
    assert messages[7].images == (picture,)


def test_a_task_without_data_has_a_worked_example_without_data() -> None:
    """A model asks for the file that it saw in the example."""
    with_file, plain = context.example(), context.example(files=False)
    assert [m.role for m in plain] == [m.role for m in with_file]
    assert "data/" in with_file[0].content
    assert "data/" not in "".join(m.content for m in plain)
    values = {"df": "given/df.arrow"}
    assert context.keep_all(log(data={}, given=values), {}, with_file, plain)[1:5] == with_file
    assert context.keep_all(log(data={}, given={}), {}, with_file, plain)[1:5] == plain
    about_tools = context.keep_all(log(data={}, given={}, tools=["find"]), {}, with_file, plain)
    assert [m.content for m in about_tools[:2]] == ["S", "F"]
    assert "comes with no files" in context.where_text("pandas", "No network.", files=False)
    assert "lie in `data/`" in context.where_text("pandas", "No network.")


def test_messages_are_only_added_at_the_end() -> None:
    whole = log()
    built = [context.keep_all(whole[:n], {}, ()) for n in range(1, len(whole) + 1)]
    for shorter, longer in itertools.pairwise(built):
        assert longer[: len(shorter)] == shorter
    assert context.keep_all(whole, {}, ()) == built[-1]


def test_the_task_stands_last() -> None:
    text = context.first_text(" What? ", "data/a.csv", context.asked(AnswerCheck({"type": "integer"})))
    assert text == (
        "Files:\ndata/a.csv\n\nTask: What?\n\n"
        'The value given to final_answer must fit this JSON Schema:\n{"type": "integer"}'
    )
    assert context.first_text("What?", "", "") == "Task: What?"


def test_every_follow_up_is_a_line() -> None:
    for name, text in context.follow_ups().items():
        assert text.strip(), name
        assert "\n" not in text, name


def test_what_native_calls_came_to_stands_right_behind_them() -> None:
    calls = (Call("a", "look", {"n": 1}), Call("b", "run_python", {"code": "x"}))
    reading = Reading("I look.", calls=calls, native=True)
    picture = Image("image/png", "AAAA")

    def replied(turn: int) -> events.Replied:
        return events.Replied(
            turn=turn, text="I look.", reading=reading, finish="stop", usage=Usage(1), model="m", seconds=0.1
        )

    results = (events.CallResult("a", "look", "one"), events.CallResult("b", "run_python", "two"))
    messages = context.keep_all(
        [
            replied(1),
            events.RunResumed(model="m", text="Not as before."),
            events.Observed(turn=1, text="both", images=("p",), results=results),
            replied(2),  # the run was cut off for good
        ],
        {"p": picture},
        (),
    )
    assert [(m.role, m.content, m.call_id, len(m.images)) for m in messages] == [
        ("assistant", "I look.", "", 0),
        ("tool", "one", "a", 0),
        ("tool", "two", "b", 0),
        ("user", f"Not as before.\n\n{context.PICTURES}", "", 1),
        ("assistant", "I look.", "", 0),
        ("tool", context.NOT_MADE, "a", 0),
        ("tool", context.NOT_MADE, "b", 0),
    ]
