"""Tools whose names mean something already, through the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.command import codeact
from tests.integration.test_agent import block

TOOLS = """
from codeact import tool, toolset

@tool(effects="read")
def search(query: str) -> str:
    "Searches the web."
    return f"found {query}"

@tool(effects="read", name="class")
def klass(of: str) -> str:
    "The class of a train."
    return f"first {of}"

@tool(effects="read", namespace="errors")
def last() -> str:
    "The last error of the service."
    return "none"
"""
CODE = (
    "import tools\n"
    "final_answer([tools.search_('x'), tools.class_('y'), tools.errors_.last(), tools.search('web')[0].path,"
    " issubclass(tools.errors.CallRefused, tools.ToolError)])"
)


@pytest.mark.docker
def test_they_get_other_names_and_a_line_says_so(tmp_path: Path) -> None:
    (tmp_path / "given.py").write_text(TOOLS)
    (tmp_path / "model.jsonl").write_text(json.dumps({"content": block(CODE)}))
    ended = codeact(
        *("solve", "Do it.", "--tools", "given.py", "--image", "minimal", "--model", "scripted:model.jsonl"),
        folder=tmp_path,
    )
    assert ended.code == 0, ended.err
    assert json.loads(ended.out) == ["found x", "first y", "none", "search_", True]
    assert "search is called tools.search_ in code: that name is one that `tools` has itself" in ended.err
    assert "errors is called tools.errors_ in code: " in ended.err


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (
            "@tool\ndef shop(): ...\n@tool(namespace='shop')\ndef order(): ...",
            "shop is both a tool and a namespace; give one another name",
        ),
        (
            "@tool\ndef class_(): ...\n@tool(name='class')\ndef other(): ...",
            "two tools are called class_; give one another name or namespace, as in @tool(name=...)",
        ),
    ],
)
def test_names_that_collide_are_one_line(tmp_path: Path, source: str, said: str) -> None:
    (tmp_path / "given.py").write_text(f"from codeact import tool\n{source}")
    (tmp_path / "model.jsonl").write_text("")
    (tmp_path / "model.jsonl").write_text(json.dumps({"content": "x"}))
    ended = codeact("solve", "x", "--tools", "given.py", "--model", "scripted:model.jsonl", folder=tmp_path)
    assert ended.code == 2, ended.err
    assert len(ended.errors) == 1
    assert said in ended.errors[0]
