"""A user's script, strictly typed, against the package as it is installed: what type checkers infer."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = '''
import asyncio
from pathlib import Path
from typing import Any, Literal

import pandas as pd  # type: ignore[import-untyped]
from pydantic import BaseModel
from typing_extensions import assert_type

from codeact import Agent, Result, RunLimits, ScriptedModel, Session, tool
from codeact.events import Event
from sandbox import Limits, Sandbox


class Answer(BaseModel):
    total: float


@tool(effects="read", timeout=10)
def order_status(order_id: str) -> dict[str, str]:
    """The state of an order."""
    return {"id": order_id}


model = ScriptedModel(["hello"])
typed = Agent(model, output_type=Answer, tools=[order_status], limits=RunLimits(turns=3))
assert_type(typed, Agent[Answer])
plain = Agent("gpt-5-mini")
assert_type(plain, Agent[Any])
rows = Agent(model, output_type=list[Answer])
assert_type(rows, Agent[list[Answer]])
either: Agent[int | None] = Agent(model, output_type=int | None)
word = Agent[Literal["a", "b"]](model, output_type=Literal["a", "b"])


def total(agent: Agent[Answer], data: pd.DataFrame) -> float:
    result = agent.run("How much?", data={"sales": data, "raw": Path("x.csv"), "note": "text"})
    assert_type(result, Result[Answer])
    assert_type(result.answer, Answer)
    result.to_notebook("run.ipynb")
    return result.answer.total


def asked(agent: Agent) -> Result:
    with agent.session() as session:
        session.run("One?")
        session.put(limit=5)
        return session.run("Two?")


async def main() -> None:
    result = await typed.arun("How much?")
    assert_type(result.answer, Answer)
    async for event in typed.astream("How much?"):
        assert_type(event, Event)
    async with rows.session({"n": 1}) as session:
        assert_type(session, Session[list[Answer]])
        answer = (await session.arun("Which?")).answer
        assert_type(answer, list[Answer])
        assert_type(await session.aget("df"), Any)
    for event in either.stream("How much?"):
        print(event.type, event.seq)


def boxed() -> None:
    with Sandbox(image="data", limits=Limits(memory="512m", cpus=1), timeout=30) as box:
        cell = box.run("x = 41")
        print(cell.status, cell.stdout, cell.result, cell.error, cell.images, cell.seconds)


if __name__ == "__main__":
    asyncio.run(main())
'''
WRONG = """
from codeact import Agent, ScriptedModel

agent = Agent(ScriptedModel(["x"]), output_type=int)
word: str = agent.run("How much?").answer
Agent(ScriptedModel(["x"]), max_turns=3)
"""


def mypy(folder: Path, script: str) -> str:
    (folder / "script.py").write_text(script, encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--config-file=",
        "--cache-dir",
        str(folder / "cache"),
        "script.py",
    ]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=300)
    return done.stdout + done.stderr


def test_a_script_passes_strict_type_checking_and_its_mistakes_do_not(tmp_path: Path) -> None:
    said = mypy(tmp_path, SCRIPT)
    assert "Success: no issues found" in said, said
    said = mypy(tmp_path, WRONG)
    assert 'expression has type "int", variable has type "str"' in said
    assert 'No overload variant of "Agent"' in said
