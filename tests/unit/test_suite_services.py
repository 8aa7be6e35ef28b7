"""Suites whose tasks are the code of others, in a process of its own: small samples in their own form."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from benchmarks.suites import direct, suite
from benchmarks.suites.adapters.inside.m3 import calculated
from benchmarks.suites.adapters.process import Foreign, python
from benchmarks.suites.base import Task, ToolFault, check
from codeact.errors import ArgumentError, UsageError
from tests.command import ROOT


def written(root: Path, files: dict[str, str]) -> None:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


def bfcl(root: Path) -> None:
    package = "bfcl_eval/eval_checker/multi_turn_eval/func_source_code"
    asked = {
        "id": "multi_turn_base_0",
        "question": [
            [{"role": "user", "content": "Put 3 apples in."}],
            [{"role": "user", "content": "How many are there?"}],
        ],
        "initial_config": {"Basket": {"apples": 2}},
        "path": [],
        "involved_classes": ["Basket"],
        "excluded_function": ["empty"],
    }
    count = {
        "type": "dict",
        "properties": {"count": {"type": "integer", "description": "How many."}},
        "required": ["count"],
    }
    docs = [
        {"name": "put", "description": "Puts apples in.", "parameters": count, "response": {}},
        {
            "name": "look",
            "description": "Counts.",
            "parameters": {"type": "dict", "properties": {}, "required": []},
        },
        {
            "name": "empty",
            "description": "Empties.",
            "parameters": {"type": "dict", "properties": {}, "required": []},
        },
    ]
    written(
        root / "berkeley-function-call-leaderboard",
        {
            "bfcl_eval/__init__.py": "",
            "bfcl_eval/constants/executable_backend_config.py": (
                f"CLASS_FILE_PATH_MAPPING = {{'Basket': {package.replace('/', '.')!r} + '.basket'}}\n"
                "MULTI_TURN_FUNC_DOC_FILE_MAPPING = {'Basket': 'basket.json'}\nSTATELESS_CLASSES = []\n"
            ),
            f"{package}/basket.py": (
                "class Basket:\n"
                "    def _load_scenario(self, scenario, long_context=False):\n"
                "        self.apples = scenario['apples']\n        self._seen = 0\n        self.owner = self\n"
                "    def put(self, count):\n"
                "        if count < 0: raise ValueError('count is negative')\n"
                "        self.apples += count\n        print('put')\n        return {'apples': self.apples}\n"
                "    def look(self):\n        self._seen += 1\n        return {'apples': self.apples}\n"
                "    def empty(self):\n        self.apples = 0\n"
            ),
            "bfcl_eval/data/BFCL_v4_multi_turn_base.json": json.dumps(asked) + "\n",
            "bfcl_eval/data/possible_answer/BFCL_v4_multi_turn_base.json": json.dumps(
                {"id": "multi_turn_base_0", "ground_truth": [["put(count=3)"], ["look()"]]}
            ),
            "bfcl_eval/data/multi_turn_func_doc/basket.json": "".join(json.dumps(doc) + "\n" for doc in docs),
        },
    )


def tau2(root: Path) -> None:
    told = {
        "reason_for_call": "You want your order #W1 cancelled.",
        "known_info": "You are Yusuf.",
        "task_instructions": "Be brief.",
    }
    task = {
        "id": "0",
        "user_scenario": {"persona": None, "instructions": told},
        "initial_state": None,
        "evaluation_criteria": {
            "actions": [{"name": "cancel_pending_order", "arguments": {"order_id": "#W1"}}]
        },
    }
    parameters = {"type": "object", "properties": {"order_id": {"type": "string"}}, "required": ["order_id"]}
    written(
        root,
        {
            "data/tau2/domains/retail/db.json": json.dumps({"#W1": "pending", "#W2": "pending"}),
            "data/tau2/domains/retail/tasks.json": json.dumps([task]),
            "data/tau2/domains/retail/policy.md": "Cancel pending orders only.",
            **{f"src/tau2/{name}__init__.py": "" for name in ("", "domains/", "domains/retail/")},
            "src/tau2/domains/retail/data_model.py": (
                "import json\n\n\nclass RetailDB:\n"
                "    @classmethod\n    def load(cls, path):\n        made = cls()\n        made.orders = json.load(open(path))\n        return made\n"
                "    def model_dump(self, mode):\n        return {'orders': self.orders}\n"
            ),
            "src/tau2/domains/retail/tools.py": (
                "class Tool:\n    def __init__(self, name):\n        self.openai_schema = {'type': 'function', 'function': {'name': name, "
                f"'description': name, 'parameters': {parameters!r}}}}}\n\n\n"
                "class RetailTools:\n    def __init__(self, db):\n        self.db = db\n"
                "    def get_tools(self):\n        return {name: Tool(name) for name in ('cancel_pending_order', 'get_order')}\n"
                "    def tool_type(self, name):\n        return 'ToolType.WRITE' if 'cancel' in name else 'ToolType.READ'\n"
                "    def use_tool(self, tool_name, order_id):\n"
                "        if order_id not in self.db.orders: raise ValueError('Order not found')\n"
                "        if 'cancel' in tool_name: self.db.orders[order_id] = 'cancelled'\n"
                "        return {order_id: self.db.orders[order_id]}\n"
            ),
        },
    )


def m3(root: Path) -> None:
    written(
        root,
        {
            "tasks/__init__.py": "from .base import Task, get_task_iterator\n",
            "tasks/base.py": (
                "from collections import namedtuple\nfrom tqdm import tqdm\nfrom .repl import PythonREPL\n\n"
                "ToolType = namedtuple('ToolType', ['name', 'description', 'function', 'fn_signature'])\n\n\n"
                "class Task:\n"
                "    def __init__(self, name, tools, instruction, expected_output):\n"
                "        self.name, self.tools, self.instruction, self.expected_output = name, tools, instruction, expected_output\n"
                "        print('Task:', name)\n"
                "    def reset(self):\n        self.tools = self.tools() if callable(self.tools) else self.tools\n"
                "    def check_answer(self, answer):\n        return answer == str(self.expected_output)\n\n\n"
                "class Page:\n    def __init__(self):\n        self.at = 0\n    def turn(self):\n        self.at += 1\n        return f'page {self.at}'\n\n\n"
                "def hotels(location: str, *wishes: str):\n    if location != 'A': raise ValueError('no such place')\n"
                "    return [location, *wishes]\n\n\n"
                "def calculator(expression: str) -> float:\n    return eval(expression)\n\n\n"
                "def backwards(s):\n    return s[::-1]\n\n\n"
                "def tools():\n    return {\n"
                "        'turn': ToolType('turn', 'Turns the page.', Page().turn, 'turn() -> str'),\n"
                "        'max': ToolType('max', 'The largest.', max, 'max(*args: float) -> float'),\n"
                "        'hotels': ToolType('hotels', 'Hotels.', hotels, 'hotels(place: str, *wishes: str) -> List[Dict]'),\n"
                "        'backwards': ToolType('backwards', 'Reverses.', backwards, 'def backwards(string: str) -> int/float'),\n"
                "        'calculator': ToolType('calculator', 'Calculates.', calculator, 'calculator(expression: str) -> float'),\n    }\n\n\n"
                "def get_task_iterator():\n"
                "    yield Task('trade/sum', tools, 'Add 0.1 and 0.2.', 0.1 + 0.2)\n"
                "    yield Task('trade/list', tools, 'Both?', ['a', 'b'])\n"
                "    yield Task('trade/pair', tools, 'Which, how often?', ('A', 3))\n"
            ),
        },
    )


SAMPLES: dict[str, Callable[[Path], None]] = {
    "bfcl-multi-turn": bfcl,
    "tau2-retail": tau2,
    "m3toolval": m3,
    "m3toolval-original": m3,
}


def tasks(name: str, root: Path) -> dict[str, Task]:
    SAMPLES[name](root)
    return {task.id: task for task in suite(name, path=root)}


@contextmanager
def begun(task: Task) -> Iterator[tuple[Foreign, Callable[..., Any]]]:
    """The task's world, and a function that calls its tools."""
    world = task.start(0.0)
    assert isinstance(world, Foreign)
    found = {tool.name: tool for tool in world.tools()}

    def call(name: str, **arguments: Any) -> Any:
        return found[name].call(**found[name].check(arguments))

    with closing(world):
        yield world, call


def test_turns_are_steps_of_one_request_and_the_last_state_counts(tmp_path: Path) -> None:
    [task] = tasks("bfcl-multi-turn", tmp_path).values()
    assert "1. Put 3 apples in.\n2. How many are there?" in task.question
    with begun(task) as (world, call):
        assert [tool.name for tool in world.tools()] == ["put", "look"]
        assert call("put", count=3) == {"apples": 5}
        assert not check(task, "done", world).success  # nobody has looked
        assert call("look") == {"apples": 5}
        assert check(task, "done", world).success
        assert not check(task, None, world).success
        assert [each.changed for each in world.log] == [True, False]
        call("put", count=1)
        assert not check(task, "done", world).state_ok


@pytest.mark.parametrize("name", ["bfcl-multi-turn", "tau2-retail"])
def test_the_published_solution_is_right(name: str, tmp_path: Path) -> None:
    [task] = tasks(name, tmp_path).values()
    assert direct.solve(task).success


def test_a_task_whose_solution_its_own_definitions_forbid_is_left_out(tmp_path: Path) -> None:
    bfcl(tmp_path)
    answers = next(tmp_path.rglob("possible_answer/*.json"))
    answers.write_text(answers.read_text().replace("count=3", "count='three'"))
    assert suite("bfcl-multi-turn", path=tmp_path) == ()


def test_processes_end_with_who_has_them_and_with_the_program(tmp_path: Path) -> None:
    bfcl(tmp_path)
    program = (
        "import os, sys; from pathlib import Path; from benchmarks.suites import suite\n"
        "[task] = suite('bfcl-multi-turn', path=Path(sys.argv[1]))\n"
        "worlds = [task.start(0.0), task.start(0.0)]\n"
        "for world in worlds: world.tools()[1].call()\n"
        "first, last = (each._process._process.pid for each in worlds)\n"
        "del worlds[1], world\n"
        "print(first, last, os.path.exists(f'/proc/{first}'), os.path.exists(f'/proc/{last}'))\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    first, _, *alive = ran.stdout.split()
    assert alive == ["True", "False"]
    assert not Path(f"/proc/{first}").exists()


def test_what_their_code_raises_is_told_and_a_wrong_argument_does_not_reach_it(tmp_path: Path) -> None:
    [task] = tasks("bfcl-multi-turn", tmp_path).values()
    with begun(task) as (world, call):
        with pytest.raises(ToolFault, match="ValueError: count is negative"):
            call("put", count=-1)
        with pytest.raises(ArgumentError, match="count"):
            call("put", count="many")
        assert [each.error for each in world.log] == ["ValueError"]


def test_each_attempt_has_a_state_of_its_own(tmp_path: Path) -> None:
    [task] = tasks("bfcl-multi-turn", tmp_path).values()
    with begun(task) as (_, call), begun(task) as (_, other):
        call("put", count=10)
        assert other("look") == {"apples": 2}


def test_a_scenario_is_one_request_and_the_database_counts(tmp_path: Path) -> None:
    [task] = tasks("tau2-retail", tmp_path).values()
    for words in ("Cancel pending orders only.", "You want your order #W1 cancelled.", "Be brief."):
        assert words in task.question
    with begun(task) as (world, call):
        assert {tool.name: tool.policy.effects for tool in world.tools()} == {
            "cancel_pending_order": "write",
            "get_order": "read",
        }
        assert not check(task, "done", world).success
        call("cancel_pending_order", order_id="#W1")
        assert check(task, "done", world).success
        call("cancel_pending_order", order_id="#W2")
        assert not check(task, "done", world).success


@pytest.mark.parametrize(
    ("name", "task", "answer", "right"),
    [
        ("m3toolval", "sum", 0.3, True),
        ("m3toolval", "sum", 0.31, False),
        ("m3toolval", "sum", "0.3", False),
        ("m3toolval", "list", ["a", "b"], True),
        ("m3toolval", "list", ["b", "a"], False),
        ("m3toolval", "pair", ["A", 3], True),
        ("m3toolval-original", "sum", 0.3, False),
        ("m3toolval-original", "sum", "0.30000000000000004", True),
        ("m3toolval-original", "list", ["a", "b"], True),
        ("m3toolval-original", "list", None, False),
    ],
)
def test_answers_are_scored_as_mended_or_as_published(
    name: str, task: str, answer: Any, right: bool, tmp_path: Path
) -> None:
    found = tasks(name, tmp_path)[f"{name}-trade-{task}"]
    with begun(found) as (world, _):
        assert check(found, answer, world).success is right


def test_signatures_become_tools_that_keep_state(tmp_path: Path) -> None:
    task = tasks("m3toolval", tmp_path)["m3toolval-trade-sum"]
    with begun(task) as (_, call):
        assert [call("turn"), call("turn")] == ["page 1", "page 2"]
        assert call("max", args=[1, 7, 3]) == 7
        assert call("hotels", location="A", wishes=["pool", "gym"]) == ["A", "pool", "gym"]
        assert call("hotels", location="A") == ["A"]
        assert call("backwards", s="abc") == "cba"
        with pytest.raises(ToolFault, match="no such place"):
            call("hotels", location="pool")
        assert call("calculator", expression="2 * (3 + 4)") == 14
        assert "Failed to evaluate" in call("calculator", expression="__import__('os').getcwd()")


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("2 ** 10 - -1", 1025),
        ("max(1, 2.5) // 2", 1.0),
        ("sum([1, 2, 3]) % 4", 2),
        ("round(2.346, 2)", 2.35),
    ],
)
def test_arithmetic_is_calculated(expression: str, value: float) -> None:
    assert calculated(expression) == pytest.approx(value)


@pytest.mark.parametrize(
    "expression", ["9 ** 9 ** 9", "open('x')", "'a' * 9", "(lambda: 1)()", "[].__class__", "1 +", "x"]
)
def test_what_is_more_than_arithmetic_is_not_evaluated(expression: str) -> None:
    assert calculated(expression) == f"Failed to evaluate expression: {expression}"


def test_keys_of_the_environment_stay_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "secret")
    bfcl(tmp_path)
    source = next(tmp_path.rglob("basket.py"))
    source.write_text(
        source.read_text().replace("return {'apples': self.apples}", "import os; return sorted(os.environ)")
    )
    [task] = suite("bfcl-multi-turn", path=tmp_path)
    with begun(task) as (_, call):
        assert "PATH" in call("look")
        assert "SOME_API_KEY" not in call("look")


def test_a_process_that_dies_is_told_in_one_line(tmp_path: Path) -> None:
    bfcl(tmp_path)
    source = next(tmp_path.rglob("basket.py"))
    source.write_text(
        source.read_text().replace(
            "if count < 0: raise ValueError('count is negative')", "import os; count < 9 or os._exit(3)"
        )
    )
    [task] = suite("bfcl-multi-turn", path=tmp_path)
    with begun(task) as (_, call):
        call("put", count=1)
        with pytest.raises(UsageError, match="its process has ended"):
            call("put", count=9)


def test_requirements_that_are_missing_are_named(tmp_path: Path) -> None:
    bfcl(tmp_path)
    config = next(tmp_path.rglob("executable_backend_config.py"))
    config.write_text("import nothing_of_this_name\n" + config.read_text())
    with pytest.raises(UsageError, match=r"nothing_of_this_name.*install bfcl-eval with its requirements"):
        suite("bfcl-multi-turn", path=tmp_path)


def test_the_environment_beside_a_suite_is_the_one_that_runs_it(tmp_path: Path) -> None:
    assert python(tmp_path) == sys.executable
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "python").symlink_to(sys.executable)
    assert python(tmp_path) == str(tmp_path / ".venv" / "bin" / "python")
