"""The rules that keep a comparison of arms fair, each a test: what differs between arms is how they act, and nothing else."""

from __future__ import annotations

import ast
import json
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from benchmarks.analysis import analyse
from benchmarks.arms import ARMS, prompt
from benchmarks.attempts import Attempt
from benchmarks.models import Sampling
from benchmarks.performing import Made, Performing
from benchmarks.plan import Job, Limits, Plan
from benchmarks.report.words import markdown
from benchmarks.suites import suite
from benchmarks.suites.base import Called, NotFound, Task, digest
from codeact import tool
from codeact.actions.styles import style
from codeact.errors import ModelUnreachable
from codeact.models import ScriptedModel
from codeact.tools.definitions import schema
from codeact.tools.load import tools_from
from codeact.tools.stubs import modules
from codeact.tools.tool import Tool
from codeact.types import Delta, Reply, Request, Usage
from codeact.workspace import warm
from sandbox import Pool

pytestmark = pytest.mark.docker

LONG = "x" * 90 + "\n"


class Down(ScriptedModel):
    """An endpoint that is not there."""

    def __call__(self, request: Request) -> Iterator[Delta | Reply]:
        raise ModelUnreachable("no connection")


class Silent(ScriptedModel):
    """An endpoint that does not answer in time."""

    def __init__(self) -> None:
        super().__init__([])
        self.over = threading.Event()

    def __call__(self, request: Request) -> Iterator[Delta | Reply]:
        self.over.wait(60)
        yield from ()


class World:
    """Tools that fail, that say much, and that wait for one another."""

    def __init__(self, latency: float) -> None:
        self.log: list[Called] = []
        self.both = threading.Barrier(2)

    def tools(self) -> Sequence[Tool]:
        @tool(effects="read")
        def missing(key: str) -> str:
            """A record that is not there."""
            raise NotFound(f"there is no record {key!r}")

        @tool(effects="read")
        def much(lines: int) -> str:
            """Says much."""
            return LONG * lines

        @tool(effects="read")
        def together(name: str) -> str:
            """Ends when two calls are under way."""
            try:
                self.both.wait(10)
            except threading.BrokenBarrierError:
                return "alone"
            return "together"

        return tools_from([missing, much, together])

    def state(self) -> None:
        return None


TASK = Task(
    id="fair", suite="fair", version="1", question="How many?", schema={"type": "integer"}, gold_answer=3,
    gold_state=digest(None), world=World,
)  # fmt: skip


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    with Pool("minimal", size=1, prepare=warm) as running:
        yield running


def said(arm: str, code: str, *calls: tuple[str, dict[str, Any]]) -> Reply:
    """The same step in the way of an arm: a block of code, or calls of functions."""
    if ARMS[arm].actions == "fenced":
        return Reply(f"```python\n{code}\n```", usage=Usage())
    made = [
        {"id": f"{name}{n}", "type": "function", "function": {"name": name, "arguments": json.dumps(given)}}
        for n, (name, given) in enumerate(calls)
    ]
    return Reply("", "tool_calls", Usage(), tool_calls=tuple(made))


def answer(arm: str, value: Any) -> Reply:
    return said(arm, f"final_answer({value!r})", ("final_answer", {"value": value}))


def play(
    arm: str, replies: Sequence[Reply] | ScriptedModel, pool: Pool, folder: Path, *, task: Task = TASK, small: bool = False, **plan: Any
) -> tuple[Made, ScriptedModel]:  # fmt: skip
    model = replies if isinstance(replies, ScriptedModel) else ScriptedModel(replies)
    model.small = small
    asked = Plan("small-tasks", "test", "m", (arm,), **plan)
    perform = Performing(asked, lambda job, tools: nullcontext(model), None, pool, folder)
    return perform(Job(task, arm, 1, f"key-{arm}")), model


def observations(made: Made) -> list[str]:
    return [line["text"] for line in made.trace if line.get("type") == "observed"]


# 1. one definition of each tool, from which all arms are told


@pytest.mark.parametrize("task", {task.world_name: task for task in suite("toolworld", "dev")}.values(), ids=lambda t: t.world_name)  # fmt: skip
def test_names_parameters_and_descriptions_of_tools_are_the_same_in_code_and_as_functions(task: Task) -> None:
    tools = task.start(0.0).tools()
    source = modules(tools)["tools/__init__.py"]
    stubs = {node.name: node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)}
    assert len(tools) >= 8
    for each in tools:
        function, stub = schema(each)["function"], stubs[each.name]
        parameters = function["parameters"]
        arguments = [*stub.args.posonlyargs, *stub.args.args, *stub.args.kwonlyargs]
        assert function["name"] == each.name
        assert list(parameters["properties"]) == [argument.arg for argument in arguments]
        defaults = len(stub.args.defaults) + sum(each is not None for each in stub.args.kw_defaults)
        assert len(parameters["required"]) == len(arguments) - defaults
        told = " ".join((ast.get_docstring(stub) or "").split())
        assert " ".join(function["description"].split()) in told
        for described in parameters["properties"].values():
            assert " ".join(described.get("description", "").split()) in told


# 2. one body of the prompt


def test_prompts_differ_in_how_to_act_alone() -> None:
    bodies = {}
    for name, arm in ARMS.items():
        how = style(arm.actions, run_python=arm.python, parallel=arm.parallel).how.strip()
        whole = prompt(arm)
        assert whole.count(how) == 1
        bodies[name] = whole.replace(how, "")
    assert bodies["code"] == bodies["json+python"]
    assert bodies["json"] == bodies["json-serial"]
    only_code = set(bodies["code"].splitlines()) - set(bodies["json"].splitlines())
    assert all(re.match(r"- (The working folder|What the person should get|There is no network|.*Installed)", line) for line in only_code), only_code  # fmt: skip
    assert set(bodies["json"].splitlines()) <= set(bodies["code"].splitlines())


def test_the_report_prints_each_prompt_with_its_size_hash_and_date() -> None:
    about = Plan("small-tasks", "test", "m", ("code", "json")).about("m")
    text = markdown(about, analyse([]))
    for name in ("code", "json"):
        hashed = about["frozen"]["prompts"][name]
        tokens = -(-len(about["prompt_texts"][name]) // 4)
        assert f"| prompt of {name} | hash {hashed[:12]}, about {tokens} tokens" in text
    assert f"prompts last changed {about['prompt_date'] or 'unknown'}" in text


# 3. the same budgets and the same sampling


@pytest.mark.parametrize("small", [False, True])
def test_an_observation_is_cut_at_the_same_size_with_the_same_words(
    pool: Pool, tmp_path: Path, small: bool
) -> None:
    seen = {}
    for arm in ("code", "json", "json+python"):
        step = said(arm, "from tools import much\nprint(much(400))", ("much", {"lines": 400}))
        # a small model is asked once whether it means an answer that it was never shown
        made, _ = play(arm, [step, answer(arm, 3), answer(arm, 3)], pool, tmp_path, small=small)
        assert made.attempt.success, made.attempt
        seen[arm] = observations(made)[0]
    budget = 3000 if small else 8000
    for text in seen.values():
        assert budget * 0.9 < text.count("x") < budget
        assert re.search(r"\.\.\. \d+ characters left out", text)
    counts = {arm: text.count("x") for arm, text in seen.items()}
    assert max(counts.values()) - min(counts.values()) <= 2 * len(LONG), counts


@pytest.mark.parametrize("arm", ARMS)
def test_turns_temperature_and_seed_are_the_same(arm: str, pool: Pool, tmp_path: Path) -> None:
    steps = [said(arm, f"print({n})", ("much", {"lines": n})) for n in range(9)]
    made, model = play(
        arm, steps, pool, tmp_path, limits=Limits(turns=3), sampling=Sampling(temperature=0.25, seed=40)
    )
    assert [(request.temperature, request.seed) for request in model.requests] == [(0.25, 41)] * 3
    assert (made.attempt.stop_reason, made.attempt.success, made.attempt.llm_calls) == (
        "turn_limit",
        False,
        3,
    )


def test_who_does_the_same_again_is_asked_in_the_same_way(pool: Pool, tmp_path: Path) -> None:
    sampling = Sampling(temperature=0.25, seed=40)
    for arm in ARMS:
        step = said(arm, "print(1)", ("much", {"lines": 1}))
        _, model = play(arm, [step] * 4, pool, tmp_path, limits=Limits(turns=4), sampling=sampling)
        asked = [(request.temperature, request.seed) for request in model.requests]
        assert asked == [(0.25, 41), (0.25, 41), (0.8, 1), (0.8, 2)], arm


@pytest.mark.parametrize("arm", ARMS)
def test_the_limit_of_time_is_the_same(arm: str, pool: Pool, tmp_path: Path) -> None:
    silent = Silent()
    try:
        made, _ = play(arm, silent, pool, tmp_path, limits=Limits(seconds=1))
    finally:
        silent.over.set()
    assert (made.attempt.stop_reason, made.attempt.success) == ("time_limit", False)


@pytest.mark.parametrize("arm", ["code", "json"])
def test_the_limit_of_tokens_is_the_same(arm: str, pool: Pool, tmp_path: Path) -> None:
    steps = [said(arm, f"print({n})", ("much", {"lines": n})) for n in range(40)]
    made, _ = play(arm, steps, pool, tmp_path, limits=Limits(turns=40, tokens=2500))
    assert (made.attempt.stop_reason, made.attempt.success) == ("token_limit", False)
    assert made.attempt.total_tokens >= 2500


# 4. the same way to answer, once, without a word on whether it is right


@pytest.mark.parametrize("arm", ARMS)
def test_a_wrong_answer_ends_an_attempt_and_nobody_is_told(arm: str, pool: Pool, tmp_path: Path) -> None:
    made, model = play(arm, [answer(arm, 4), answer(arm, 3)], pool, tmp_path)
    assert (made.attempt.answer, made.attempt.success, made.attempt.stop_reason) == (4, False, "submitted")
    assert len(model.requests) == 1


def test_an_answer_of_another_type_is_refused_with_the_same_words(pool: Pool, tmp_path: Path) -> None:
    words = []
    for arm in ARMS:
        made, _ = play(arm, [answer(arm, "three"), answer(arm, 3)], pool, tmp_path)
        assert made.attempt.success
        refused = [line for line in made.trace if line.get("type") == "answer_given" and not line["accepted"]]
        assert len(refused) == 1
        assert refused[0]["problem"] in observations(made)[0].replace('\\"', '"')
        words.append(refused[0]["problem"])
    assert len(set(words)) == 1


# 5. the checker is typed (tests of the suites hold its tolerance): words about the answer are not the answer


@pytest.mark.parametrize(("value", "right"), [(3, True), (3.0, True), (4, False)])
def test_numbers_are_compared_as_numbers(value: Any, right: bool, pool: Pool, tmp_path: Path) -> None:
    made, _ = play("json", [answer("json", value)] * 2, pool, tmp_path)
    assert made.attempt.success is right


# 6. the same words for the same fault


def test_a_fault_of_a_tool_has_the_same_class_and_words(pool: Pool, tmp_path: Path) -> None:
    for arm in ("code", "json", "json-serial", "json+python"):
        step = said(arm, "from tools import missing\nmissing('K-7')", ("missing", {"key": "K-7"}))
        made, _ = play(arm, [step, answer(arm, 3)], pool, tmp_path)
        text = observations(made)[0]
        assert "NotFound" in text
        assert "there is no record 'K-7'" in text
        assert made.attempt.errors == {"ToolError": 1}, arm
        assert made.attempt.recovered


MISTAKES: dict[str, tuple[str, tuple[str, dict[str, Any]], str]] = {
    "no such tool": ("from tools import find\nfind()", ("find", {}), "unknown tool"),
    "no such argument": ("from tools import much\nmuch(rows=1)", ("much", {"rows": 1}), "schema"),
    "an argument of another type": ("from tools import much\nmuch(lines='all')", ("much", {"lines": "all"}), "schema"),
    "an answer of another type": ("final_answer('three')", ("final_answer", {"value": "three"}), "schema"),
}  # fmt: skip


@pytest.mark.parametrize(("code", "call", "kind"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_of_the_model_is_counted_once_and_alike(
    code: str, call: tuple[str, dict[str, Any]], kind: str, pool: Pool, tmp_path: Path
) -> None:
    for arm in ARMS:
        made, _ = play(arm, [said(arm, code, call), answer(arm, 3)], pool, tmp_path)
        assert (made.attempt.errors, made.attempt.recovered) == ({kind: 1}, True), arm


def test_a_call_that_is_cut_off_is_a_mistake_too(pool: Pool, tmp_path: Path) -> None:
    for arm, name in (("json", "much"), ("json-serial", "much"), ("json+python", "run_python")):
        function = {"name": name, "arguments": '{"lines": 1'}
        cut = Reply("", "tool_calls", Usage(), tool_calls=({"id": "a", "type": "function", "function": function},))  # fmt: skip
        made, _ = play(arm, [cut, answer(arm, 3)], pool, tmp_path)
        assert made.attempt.errors == {"schema": 1}, arm


# 7. the same latency, and calls at once in every arm but the serial one


def test_tools_are_as_slow_in_every_arm() -> None:
    assert {task.latency for task in suite("toolworld", "test")} == {0.04}


def test_calls_may_run_at_once_but_in_the_serial_arm(pool: Pool, tmp_path: Path) -> None:
    calls = [("together", {"name": "a"}), ("together", {"name": "b"})]
    for arm in ("code", "json", "json+python"):
        step = said(arm, "from tools import together\nprint(together.map(['a', 'b']))", *calls)
        made, _ = play(arm, [step, answer(arm, 3)], pool, tmp_path)
        assert "alone" not in observations(made)[0]
        assert (made.attempt.max_parallel, made.attempt.tool_calls) == (2, 2), arm


def test_the_serial_arm_makes_one_call_a_turn(pool: Pool, tmp_path: Path) -> None:
    step = said("json-serial", "", ("much", {"lines": 1}), ("much", {"lines": 2}))
    made, model = play("json-serial", [step, answer("json-serial", 3)], pool, tmp_path)
    assert made.attempt.tool_calls == 1
    assert all(request.one_call for request in model.requests)


def test_code_of_the_function_arm_cannot_call_the_tools(pool: Pool, tmp_path: Path) -> None:
    step = said("json+python", "", ("run_python", {"code": "import tools\nprint(dir(tools))"}))
    made, _ = play("json+python", [step, answer("json+python", 3)], pool, tmp_path)
    assert "ModuleNotFoundError" in observations(made)[0]


# 8. the order is shuffled, and what answered is kept


def test_arms_and_repeats_are_mixed_and_the_model_that_answered_is_kept(pool: Pool, tmp_path: Path) -> None:
    jobs = Plan("toolworld", "dev", "m", tuple(ARMS), repeats=3).jobs("m")
    first = jobs[: len(jobs) // 3]
    for arm in ARMS:
        assert len(first) / 4 * 0.6 < sum(job.arm == arm for job in first) < len(first) / 4 * 1.4
    assert {job.repeat for job in first} == {1, 2, 3}
    reply = Reply("", "tool_calls", model="served-2026", tool_calls=answer("json", 3).tool_calls)
    made, _ = play("json", [reply], pool, tmp_path)
    assert made.attempt.served == ("served-2026",)


# 9. what the infrastructure failed is never scored, and is left out of every arm


def test_a_failure_of_the_infrastructure_is_no_verdict(pool: Pool, tmp_path: Path) -> None:
    made, _ = play("json", Down([]), pool, tmp_path)
    assert (made.attempt.success, made.attempt.stop_reason) == (None, "infra_error")
    other = Attempt(task="fair", arm="code", repeat=1, success=True)
    whole = [Attempt(task="judged", arm=arm, repeat=1, success=True) for arm in ("code", "json")]
    found = analyse([made.attempt, other, *whole])
    assert (found.kept, found.dropped) == (tuple(whole), (("fair", 1),))


# 10. tasks for tuning are others than those that are reported


def test_no_task_is_in_both_splits() -> None:
    dev, test = suite("toolworld", "dev"), suite("toolworld", "test")
    assert not {task.question for task in dev} & {task.question for task in test}
    assert not {task.seed for task in dev} & {task.seed for task in test}


def test_every_arm_gets_the_same_question_files_and_form_of_answer(pool: Pool, tmp_path: Path) -> None:
    path = tmp_path / "numbers.csv"
    path.write_text("n,m\n1,5\n2,6\n")
    task = Task(**{**{name: getattr(TASK, name) for name in TASK.__dataclass_fields__}, "data": {"numbers.csv": path}})  # fmt: skip
    firsts = {}
    for arm in ARMS:
        made, _ = play(arm, [answer(arm, 3)], pool, tmp_path / arm, task=task)
        firsts[arm] = next(line["first"] for line in made.trace if line.get("type") == "run_started")
    assert all("Task: How many?" in text for text in firsts.values())
    assert firsts["code"] == firsts["json+python"]
    assert firsts["json"] == firsts["json-serial"]
    for text in firsts.values():  # what is in the files, too: columns, their ranges, first rows
        assert "numbers.csv" in text
        assert "1..2" in text
