"""Runs in which the model calls the tools itself: no code, no sandbox, real tools."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from codeact import Agent, Reply, RunLimits, ScriptedModel, UsageError, events, tool, toolset
from codeact.actions.styles import Style
from codeact.errors import LimitReached, NoAnswer
from codeact.models import wire
from codeact.run.repeats import Repeats
from codeact.tools.context import current_call
from codeact.types import Delta, Message, Result

Asked = tuple[str, object]


def calls(*asked: Asked, text: str = "", finish: str = "tool_calls", ids: Sequence[str] = ()) -> Reply:
    made = [
        {
            "id": ids[number] if number < len(ids) else f"id{number}",
            "type": "function",
            "function": {"name": name, "arguments": given if isinstance(given, str) else json.dumps(given)},
        }
        for number, (name, given) in enumerate(asked)
    ]
    return Reply(text, finish, tool_calls=tuple(made))  # type: ignore[arg-type]


ANSWER: Asked = ("final_answer", {"value": "done"})


class Shop:
    """Tools that keep what was done."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.met = threading.Barrier(3, timeout=20)

    def tools(self) -> list[Any]:
        @tool(effects="read")
        def status(order_id: str, *, details: bool = False) -> dict[str, str]:
            """Where an order is."""
            self.done.append(f"status {order_id}")
            return {"id": order_id, "state": "sent"}

        @tool(effects="write")
        def refund(order_id: str, amount: float) -> str:
            """Pays back."""
            self.done.append(f"refund {order_id} {amount:g}")
            return "refunded"

        @tool(effects="read")
        def meet(name: str) -> str:
            """Waits until three are here."""
            self.met.wait()
            return f"{name} met"

        @tool(effects="read")
        def fail(reason: str) -> str:
            """Fails."""
            raise ValueError(reason)

        return [status, refund, meet, fail]


def play(tmp_path: Path, *replies: Reply | str, shop: Shop | None = None, **settings: Any) -> Run:
    model = ScriptedModel(replies)
    settings = {"approve": "never", **settings}
    agent = Agent(model, actions="functions", tools=(shop or Shop()).tools(), runs=tmp_path, **settings)
    return Run(agent.run("Do it."), model)


class Run:
    def __init__(self, result: Result, model: ScriptedModel) -> None:
        self.result, self.model = result, model

    def of(self, kind: type[events.Event]) -> list[Any]:
        return [event for event in self.result.events if isinstance(event, kind)]

    @property
    def results(self) -> list[events.CallResult]:
        """Of the first turn."""
        return list(self.of(events.Observed)[0].results)

    @property
    def told(self) -> Sequence[Message]:
        """What the model was sent for its second turn, behind its own reply."""
        return self.model.requests[1].messages[3:]


def test_a_call_is_made_and_its_result_goes_back(tmp_path: Path) -> None:
    shop = Shop()
    run = play(tmp_path, calls(("status", {"order_id": "A"}), text="I look."), calls(ANSWER), shop=shop)
    assert (run.result.status, run.result.answer, shop.done) == ("answered", "done", ["status A"])
    assert [type(e).__name__ for e in run.result.events if not e.live_only] == [
        "RunStarted", "TurnStarted", "Replied", "ToolCalled", "ToolReturned", "Observed",
        "TurnStarted", "Replied", "AnswerGiven", "Observed", "RunEnded",
    ]  # fmt: skip
    sent = wire.body("m", run.model.requests[1], sees=False)["messages"][2:]
    assert sent == [
        {
            "role": "assistant",
            "content": "I look.",
            "tool_calls": [
                {
                    "id": "id0",
                    "type": "function",
                    "function": {"name": "status", "arguments": '{"order_id": "A"}'},
                }
            ],
        },
        {
            "role": "tool",
            "tool_call_id": "id0",
            "content": '{"id": "A", "state": "sent"}\n\nIf this answers the task, call final_answer; if not, go on.',
        },
    ]


def test_the_calls_of_a_reply_run_at_the_same_time(tmp_path: Path) -> None:
    run = play(tmp_path, calls(*[("meet", {"name": n}) for n in "abc"]), calls(ANSWER))
    assert [result.text.split("\n")[0] for result in run.results] == ["a met", "b met", "c met"]


def test_with_parallel_calls_off_the_first_is_made_and_the_others_are_told(tmp_path: Path) -> None:
    shop = Shop()
    reply = calls(("refund", {"order_id": "A", "amount": 1}), ("refund", {"order_id": "B", "amount": 1}))
    run = play(tmp_path, reply, calls(ANSWER), shop=shop, parallel_calls=False)
    assert shop.done == ["refund A 1"]
    assert [result.ok for result in run.results] == [True, False]
    assert run.results[1].text.startswith("This call was not made: one call a reply.")
    assert wire.body("m", run.model.requests[0], sees=False)["parallel_tool_calls"] is False


def test_with_parallel_calls_on_nothing_is_said_of_them(tmp_path: Path) -> None:
    run = play(tmp_path, calls(ANSWER))
    assert "parallel_tool_calls" not in wire.body("m", run.model.requests[0], sees=False)


WRONG: dict[str, tuple[Asked, str, str]] = {
    "missing": (("status", ""), "ArgumentError", "order_id is missing"),
    "blank": (("status", "  "), "ArgumentError", "order_id is missing"),
    "a list": (("status", "[]"), "ArgumentError", "order_id is missing"),
    "unknown": (("status", {"order": "A", "order_id": "B"}), "ArgumentError", "there is no argument 'order'"),
    "wrong type": (("refund", {"order_id": "A", "amount": "much"}), "ArgumentError", "amount: Input should be a valid number"),
    "cut off": (("status", '{"order_id": "A'), "ArgumentError", "are cut off"),
    "no such function": (("stats", {}), "UnknownTool", "There is no function 'stats'. Call one of these: status, refund"),
    "its own error": (("fail", {"reason": "it broke"}), "ValueError", "it broke"),
}  # fmt: skip


@pytest.mark.parametrize(("asked", "kind", "words"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_with_a_call_is_its_result(tmp_path: Path, asked: Asked, kind: str, words: str) -> None:
    shop = Shop()
    run = play(tmp_path, calls(asked, ("status", {"order_id": "Z"})), calls(ANSWER), shop=shop)
    wrong, right = run.results
    error = json.loads(wrong.text)["error"]
    assert error["type"] == kind
    assert words in error["message"]
    assert kind != "ArgumentError" or "Write " in error["message"]
    assert (wrong.ok, right.ok, shop.done) == (False, True, ["status Z"])
    assert run.result.status == "answered"
    for message in run.told:  # what goes back can be read by whoever reads it
        for call in message.calls:
            json.dumps(call.arguments)


def test_the_words_are_those_that_code_sees() -> None:
    from codeact.errors import ArgumentError
    from codeact.tools.load import tools_from

    [status, *_] = tools_from(Shop().tools())
    with pytest.raises(ArgumentError) as caught:
        status.check({"oder_id": 5})
    assert "Write status(order_id: str, *, details: bool = False)" in str(caught.value)


@pytest.mark.parametrize("finish", ["length", "content_filter"])
def test_a_reply_that_was_cut_does_nothing(tmp_path: Path, finish: str) -> None:
    shop = Shop()
    cut = calls(("refund", {"order_id": "A", "amount": 1}), text="I pay", finish=finish)
    run = play(tmp_path, cut, calls(ANSWER), shop=shop)
    assert shop.done == []
    assert [(m.role, m.calls) for m in run.model.requests[1].messages[2:]] == [
        ("assistant", ()),
        ("user", ()),
    ]


def test_ids_that_are_missing_or_repeated_are_made(tmp_path: Path) -> None:
    asked = [("status", {"order_id": name}) for name in "ABC"]
    run = play(
        tmp_path,
        calls(*asked, ids=["x", "x", ""]),
        calls(("status", {"order_id": "D"}), ids=["x"]),
        calls(ANSWER),
    )
    last = run.model.requests[2].messages
    made = [call.id for message in last for call in message.calls]
    assert made == ["x", "c00010002", "c00010003", "c00020001"]
    assert [message.call_id for message in last if message.role == "tool"] == made


def test_the_same_call_twice_in_a_reply_is_made_once(tmp_path: Path) -> None:
    shop = Shop()
    asked: Asked = ("refund", {"order_id": "A", "amount": 5})
    run = play(tmp_path, calls(asked, asked), calls(ANSWER), shop=shop)
    assert shop.done == ["refund A 5"]
    assert "made once" in run.results[1].text


@pytest.mark.parametrize(
    ("beside", "taken"),
    [
        (("refund", {"order_id": "A", "amount": 5}), True),
        (("status", {"order_id": "A"}), False),
        (("refund", {"order_id": "A"}), False),
        (("nothing", {}), False),
    ],
)
def test_an_answer_beside_other_calls_is_taken_only_where_it_is_no_guess(
    tmp_path: Path, beside: Asked, taken: bool
) -> None:
    run = play(tmp_path, calls(beside, ("final_answer", {"value": "at once"})), calls(ANSWER))
    assert run.result.answer == ("at once" if taken else "done")


ANSWERS: dict[str, tuple[object, object]] = {
    "as asked": ({"value": 5}, 5),
    "under another name": ({"answer": 5}, 5),
    "as text": ({"value": "5"}, 5),
    "encoded twice": (json.dumps('{"value": 5}'), 5),
}


@pytest.mark.parametrize(("given", "answer"), ANSWERS.values(), ids=ANSWERS)
def test_answers_are_taken_as_they_were_meant(tmp_path: Path, given: object, answer: object) -> None:
    run = play(tmp_path, calls(("final_answer", given)), output_schema={"type": "integer"})
    assert run.result.answer == answer


def test_an_answer_of_the_wrong_type_is_refused_with_what_is_wrong(tmp_path: Path) -> None:
    schema = {
        "$defs": {"n": {"type": "integer"}},
        "type": "object",
        "properties": {"n": {"$ref": "#/$defs/n"}},
        "required": ["n"],
    }
    run = play(
        tmp_path,
        calls(("final_answer", {"value": {"n": "x"}})),
        calls(("final_answer", {})),
        calls(("final_answer", {"n": 5})),
        output_schema=schema,
    )
    first, second = (observed.results[0].text for observed in run.of(events.Observed)[:2])
    assert "$.n: 'x' is not of type 'integer'" in first
    assert "value is missing" in second
    assert run.result.answer == {"n": 5}
    answer = run.model.requests[0].tools[-1]["function"]["parameters"]
    assert answer["$defs"] == schema["$defs"]
    assert answer["properties"]["value"]["required"] == ["n"]


def test_doing_the_same_again_is_said_and_then_ends_the_run(tmp_path: Path) -> None:
    run = play(tmp_path, *[calls(("status", {"order_id": "A"}))] * 9)
    assert (run.result.status, run.result.answer) == ("no_answer", None)
    assert "the same 5 times more" in str(run.result.error)
    said = [observed.text for observed in run.of(events.Observed)]
    assert len(said) == 6
    assert "These are the same calls as before" not in said[0]
    assert all("These are the same calls as before" in text for text in said[1:])


@pytest.mark.parametrize(("small", "most"), [(True, 3), (False, 5)])
def test_a_small_model_repeats_itself_less_often(small: bool, most: int) -> None:
    repeats = Repeats(small=small)
    for _ in range(most):
        repeats.seen("x = 1", "")
        repeats.check()
    repeats.seen("x = 1", "")
    with pytest.raises(NoAnswer, match=f"the same {most} times more"):
        repeats.check()


def test_words_that_are_no_answer_again_and_again_end_the_run(tmp_path: Path) -> None:
    run = play(tmp_path, *["I count them."] * 9, output_schema={"type": "number"})
    assert (run.result.status, run.result.answer) == ("no_answer", None)
    assert "the same 5 times more" in str(run.result.error)
    assert len(run.of(events.Observed)) == 6


@pytest.mark.parametrize(
    "text", ['{"value": 13}', '```json\n{"value": 13}\n```', "{'value': 13}", "```\n13\n```", " 13\n"]
)
def test_an_answer_may_be_written_without_its_call(tmp_path: Path, text: str) -> None:
    run = play(tmp_path, calls(("status", {"order_id": "A"})), text, output_schema={"type": "number"})
    assert (run.result.status, run.result.answer) == ("answered", 13)


@pytest.mark.parametrize(
    ("value", "asked"), [(13, 1), ("North", 1), ("sent", 1), ("Do it", 1), ("yes", 0), (True, 0), ([13], 0)]
)
def test_a_small_model_that_answers_before_it_has_called_anything_is_asked_once(
    tmp_path: Path, value: object, asked: int
) -> None:
    model = ScriptedModel([calls(("final_answer", {"value": value}))] * 2)
    model.small = True
    agent = Agent(model, actions="functions", tools=Shop().tools(), runs=tmp_path, approve="never")
    run = Run(agent.run("Do it."), model)
    assert run.result.answer == value
    assert len(model.requests) == 1 + asked
    assert ("is a guess: nothing has been called yet" in run.results[0].text) == bool(asked)


def test_what_a_small_model_was_returned_is_no_guess(tmp_path: Path) -> None:
    model = ScriptedModel([calls(("status", {"order_id": "A"})), calls(("final_answer", {"value": "lost"}))])
    model.small = True
    agent = Agent(model, actions="functions", tools=Shop().tools(), runs=tmp_path, approve="never")
    assert agent.run("Do it.").answer == "lost"
    assert len(model.requests) == 2


def test_plain_words_are_an_answer(tmp_path: Path) -> None:
    run = play(tmp_path, calls(("status", {"order_id": "A"})), "It was sent.")
    assert (run.result.status, run.result.answer) == ("answered", "It was sent.")


def test_calls_in_text_go_back_as_text(tmp_path: Path) -> None:
    text = '<tool_call>\n{"name": "status", "arguments": {"order_id": "A"}}\n</tool_call>'
    run = play(tmp_path, text, calls(ANSWER))
    assert [(m.role, m.calls) for m in run.model.requests[1].messages[2:]] == [
        ("assistant", ()),
        ("user", ()),
    ]
    assert run.told[0].content.startswith('Result of status:\n{"id": "A", "state": "sent"}')


def test_calls_are_asked_about(tmp_path: Path) -> None:
    shop = Shop()
    asked = [("refund", {"order_id": name, "amount": 5}) for name in "AB"]
    run = play(
        tmp_path,
        calls(*asked),
        calls(ANSWER),
        shop=shop,
        approve=lambda request: request.arguments["order_id"] == "B",
    )
    assert shop.done == ["refund B 5"]
    assert json.loads(run.results[0].text)["error"]["type"] == "CallRefused"
    assert sorted(event.allowed for event in run.of(events.ApprovalGiven)) == [False, True]  # made at once


def test_long_results_are_cut_as_outputs_are(tmp_path: Path) -> None:
    @tool(effects="read")
    def page() -> str:
        """A page."""
        return "x" * 50_000

    model = ScriptedModel([calls(("page", {})), calls(ANSWER)])
    result = Agent(model, actions="functions", tools=[page], runs=tmp_path).run("Read it.")
    [seen] = [event.results[0].text for event in result.events if isinstance(event, events.Observed)][:1]
    assert len(seen) < 8_200
    assert "characters left out" in seen


def test_an_interrupt_ends_the_calls_and_not_the_run(tmp_path: Path) -> None:
    agents: list[Agent] = []
    both = threading.Barrier(2, timeout=20)

    @tool(effects="read")
    def hang(name: str) -> str:
        """Until nobody waits."""
        if both.wait() == 0:
            agents[0].interrupt()
        assert current_call().cancelled.wait(20)
        return "late"

    model = ScriptedModel([calls(("hang", {"name": "a"}), ("hang", {"name": "b"})), calls(ANSWER)])
    agents.append(Agent(model, actions="functions", tools=[hang], runs=tmp_path))
    run = Run(agents[0].run("Wait."), model)
    assert [json.loads(result.text.split("\n")[0])["error"]["type"] for result in run.results] == [
        "CallCancelled"
    ] * 2
    assert "The person interrupted this turn." in run.results[-1].text
    assert run.result.answer == "done"


def test_the_limit_of_seconds_ends_calls_and_run(tmp_path: Path) -> None:
    @tool(effects="read", timeout=60)
    def hang() -> str:
        """Until nobody waits."""
        assert current_call().cancelled.wait(20) is not None
        return "late"

    model = ScriptedModel([calls(("hang", {})), calls(ANSWER)])
    agent = Agent(model, actions="functions", tools=[hang], runs=tmp_path, limits=RunLimits(seconds=0.2))
    run = Run(agent.run("Wait."), model)
    assert (run.result.status, run.results[0].ok) == ("limit", False)


def test_who_stops_listening_ends_the_calls(tmp_path: Path) -> None:
    began, ended = threading.Event(), threading.Event()

    @tool(effects="read")
    def hang() -> str:
        """Until nobody waits."""
        began.set()
        if current_call().cancelled.wait(20):
            ended.set()
        return "late"

    agent = Agent(ScriptedModel([calls(("hang", {}))]), actions="functions", tools=[hang], runs=tmp_path)
    stream = agent.stream("Wait.")
    for event in stream:
        if isinstance(event, events.ToolCalled):
            break
    assert began.wait(20)
    stream.close()
    assert ended.wait(20)


def test_data_cannot_be_had_where_no_code_is_run(tmp_path: Path) -> None:
    data = tmp_path / "a.csv"
    data.write_text("a\n1\n")
    agent = Agent(ScriptedModel([]), actions="functions", run_python=False, runs=tmp_path)
    with pytest.raises(UsageError, match="data is read by code, and run_python is off"):
        agent.run("Sum.", {"a.csv": data})


def test_a_style_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="actions='json' is not known; write fenced, python-tool, functions"):
        Agent(ScriptedModel([]), actions="json", runs=tmp_path)  # type: ignore[call-overload]


def test_names_of_tools_are_made_to_fit_the_wire(tmp_path: Path) -> None:
    @toolset(effects="read", namespace="shop")
    class Desk:
        def final_answer(self, value: int) -> int:
            """Another's."""
            return value

    class Python:
        @tool(effects="read")
        def python(self) -> str:
            """Named as code is."""
            return "snake"

    model = ScriptedModel([calls(("shop.final_answer", {"value": 1}), ("python_2", {})), calls(ANSWER)])
    agent = Agent(model, actions="functions", tools=[Desk(), Python().python], runs=tmp_path)
    run = Run(agent.run("Go."), model)
    names = [each["function"]["name"] for each in model.requests[0].tools]
    assert names == ["shop__final_answer", "python_2", "final_answer"]
    assert [result.text.split("\n")[0] for result in run.results] == ["1", "snake"]


def test_results_of_all_kinds_are_texts(tmp_path: Path) -> None:
    from datetime import date
    from decimal import Decimal

    @tool(effects="read")
    def mixed() -> dict[str, object]:
        """All kinds."""
        return {
            "on": date(2026, 1, 2),
            "sum": Decimal("1.50"),
            "raw": b"x" * 10,
            "many": {1, 2},
            "none": None,
        }

    @tool(effects="read")
    def lines() -> Iterator[str]:
        """Comes in pieces."""
        yield from "ab"

    @tool(effects="read")
    def text() -> str:
        """Text."""
        return 'a "quoted" word'

    model = ScriptedModel([calls(("mixed", {}), ("lines", {}), ("text", {})), calls(ANSWER)])
    run = Run(Agent(model, actions="functions", tools=[mixed, lines, text], runs=tmp_path).run("Go."), model)
    first, second, third = (result.text.split("\n")[0] for result in run.results)
    assert json.loads(first) == {
        "on": "2026-01-02",
        "sum": 1.5,
        "raw": "(10 bytes)",
        "many": [1, 2],
        "none": None,
    }
    assert (json.loads(second), third) == (["a", "b"], 'a "quoted" word')


def test_a_session_without_code_does_one_task_after_the_other(tmp_path: Path) -> None:
    shop = Shop()
    asked: Asked = ("status", {"order_id": "A"})
    model = ScriptedModel(
        [calls(asked), calls(ANSWER), calls(asked), calls(("final_answer", {"value": "again"}))]
    )
    agent = Agent(model, actions="functions", run_python=False, tools=shop.tools(), runs=tmp_path)
    with agent.session() as session:
        assert [session.run("First.").answer, session.run("Second.").answer] == ["done", "again"]
    assert shop.done == ["status A"] * 2
    assert "the same calls as before" not in model.requests[-1].messages[-1].content


def test_answers_have_the_type_that_is_asked_for(tmp_path: Path) -> None:
    @dataclass
    class Total:
        count: int

    model = ScriptedModel(
        [calls(("final_answer", {"value": {"count": "many"}})), calls(("final_answer", {"count": 5}))]
    )
    result = Agent(model, actions="functions", output_type=Total, runs=tmp_path).run("Count.")
    assert result.answer == Total(5)
    value = model.requests[0].tools[-1]["function"]["parameters"]["properties"]["value"]
    assert value["properties"]["count"]["type"] == "integer"


def test_a_result_that_is_too_large_for_anything_is_an_error(tmp_path: Path) -> None:
    @tool(effects="read")
    def page() -> list[str]:
        """Without end."""
        return ["x" * 1000] * 40_000

    model = ScriptedModel([calls(("page", {})), calls(ANSWER)])
    run = Run(Agent(model, actions="functions", tools=[page], runs=tmp_path).run("Read."), model)
    error = json.loads(run.results[0].text.split("\n")[0])["error"]
    assert (error["type"], run.result.answer) == ("ToolError", "done")
    assert "too large" in error["message"]


def test_a_model_that_fails_in_its_own_way_leaves_a_record_that_says_how_the_run_ended(
    tmp_path: Path,
) -> None:
    class Broken(ScriptedModel):
        def __call__(self, request: Any) -> Iterator[Any]:
            yield from ()
            raise ValueError("a fault of its own")

    seen: list[events.Event] = []
    with pytest.raises(ValueError, match="a fault of its own"):
        Agent(Broken([]), actions="functions", run_python=False, runs=tmp_path).run(
            "What?", observers=[seen.append]
        )
    *_, error, ended = seen
    assert isinstance(error, events.Error)
    assert isinstance(ended, events.RunEnded)
    assert (error.kind, ended.status) == ("ValueError", "failed")
    assert ended.error == "ValueError: a fault of its own"


def test_a_limit_without_end_is_none(tmp_path: Path) -> None:
    for seconds in (math.inf, 1e15):
        found = play(
            tmp_path, calls(("status", {"order_id": "A"})), calls(ANSWER), limits=RunLimits(seconds=seconds)
        )
        assert (found.result.status, found.result.answer) == ("answered", "done")


def test_a_model_that_times_out_by_itself_has_not_reached_the_runs_limit(tmp_path: Path) -> None:
    class Slow(ScriptedModel):
        def __call__(self, request: Any) -> Iterator[Any]:
            yield from ()
            raise TimeoutError("the read timed out")

    result = Agent(Slow([]), actions="functions", run_python=False, runs=tmp_path).run("What?")
    assert (result.status, result.error) == (
        "failed",
        "scripted gave no answer in time: the read timed out; try again",
    )


def test_blank_lines_without_end_are_not_read_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    class Flooding(ScriptedModel):
        def __call__(self, request: Any) -> Iterator[Any]:
            yield Delta("It is")
            yield from (Delta("\n"),) * 2000
            yield Delta("5.\n")
            yield Reply("It is 5.")

    def complete(text: str, **_: Any) -> None:
        asked.append(text)

    monkeypatch.setattr(Style, "complete", lambda self, text, **options: complete(text, **options))
    result = Agent(Flooding([]), actions="functions", run_python=False, runs=tmp_path).run("What?")
    assert (result.answer, len(asked)) == ("It is 5.", 2)


@pytest.mark.parametrize(
    ("limit", "value", "said"),
    [
        ("tokens", 1_234_567, "the limit of 1,234,567 tokens was reached"),
        ("turns", 20, "the limit of 20 turns was reached"),
        ("seconds", 0.001, "the limit of 0.001 seconds was reached"),
    ],
)
def test_a_limit_is_said_with_all_its_digits(limit: str, value: float, said: str) -> None:
    assert str(LimitReached(limit, value)) == said


def test_another_model_is_shown_as_much_as_it_takes(tmp_path: Path) -> None:
    @tool(effects="read")
    def long() -> str:
        """Much."""
        return "x" * 50_000

    small, large = (ScriptedModel([calls(("long", {})), calls(ANSWER)]) for _ in range(2))
    small.small = True
    agent = Agent(small, actions="functions", tools=[long], run_python=False, runs=tmp_path)
    shown = []
    with agent.session() as session:
        for model in (small, large):
            session.use(model)
            result = session.run("Look.")
            shown += [
                len(event.results[0].text) for event in result.events if isinstance(event, events.Observed)
            ][:1]
    assert shown[0] < 3200 < 7800 < shown[1]
