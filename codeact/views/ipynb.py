"""A run as a notebook that opens in Jupyter and runs from top to bottom without us.

The tasks, their answers and the model's thoughts are Markdown, its code is code with the outputs that it had. A first cell puts the data
where the code expects it and stands in for what the sandbox offered: `final_answer`, and the tools that were called, which
answer as they did then. Code that ended its kernel or was stopped is shown, not run again.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from keyword import iskeyword
from pathlib import Path
from typing import Any

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from codeact.tools.prompt import preamble
from codeact.views import story as stories
from codeact.views.calls import NOT_GIVEN
from codeact.views.story import Cell, Story, Task, ToolCall, Turn
from codeact.workspace import IMPORTED
from sandbox.text import clean
from sandbox.types import CellError, CellResult, Dropped, Notice, Output, Rich, Rung, Stream

Node = Any
"""An `nbformat.NotebookNode`, which is not typed."""
SHOWN = ("text/plain", "text/html", "image/png", "image/jpeg", "text/latex", "text/markdown")
"""MIME types that are kept; others, such as scripts, are not."""
STOPPED = ("died", "timeout", "interrupted", "refused")


def notebook(story: Story, folder: Path, beside: Path) -> Node:
    """The notebook of a run. `folder` is where the run's pictures lie, `beside` the folder that the notebook will be in:
    paths of data are relative to it."""
    cells = [new_markdown_cell(_head(story)), new_code_cell(_setup(story, folder, beside))]
    cells[1].metadata["tags"] = ["setup"]
    count = 0
    for task in story.tasks:
        for cell in _task(task, folder, further=task is not story.tasks[0]):
            if cell.cell_type == "code":
                count += 1
                _number(cell, count)
            cells.append(cell)
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    made = new_notebook(cells=cells)
    made.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    made.metadata.language_info = {"name": "python"}
    nbformat.validate(made)
    return made


def _head(story: Story) -> str:
    return f"# {_line(story.tasks[0].text)}\n\nModel {_code(story.model)}, run {_code(story.run)}."


def _setup(story: Story, folder: Path, beside: Path) -> str:
    data = {name: _relative(path, beside) for name, path in story.data.items()}
    given = {
        Path(file).stem: _relative(str(folder.absolute() / file), beside.absolute()) for file in story.given
    }
    calls = [
        {"tool": call.tool, "arguments": arguments, "ok": call.ok, "value": call.value, "error": call.error}
        for turn in story.turns
        for call, arguments in _as_written(turn)
        if call.ok is not None
    ]  # fmt: skip
    imported = IMPORTED.get(str(story.settings.get("image")), {})
    lines = [
        _asset("stand_in.py"),
        "",
        *([_asset("stand_in_values.py"), ""] if calls or given else []),
        f"data_files({_literal(data)})",
        *([f"_given = given_from({_literal(given)}, Record)"] if given else []),
        *([f"stand_in_tools({_literal(calls)}, value_of)", *_imported(story, calls)] if calls else []),
        *(f"import {name} as {short}" for short, name in imported.items()),
        *map(_outside, story.settings.get("loaded") or ()),
    ]
    return "\n".join(lines)


def _imported(story: Story, calls: Sequence[Mapping[str, Any]]) -> list[str]:
    """What of the tools every cell of the run found imported."""
    called = dict.fromkeys(str(call["tool"]) for call in calls)
    every = dict.fromkeys((*called, *map(str, story.settings.get("tools") or ())))
    return preamble(called, [path for path in every if path.replace(".", "_").isidentifier()])


def _as_written(turn: Turn) -> Iterator[tuple[ToolCall, dict[str, Any]]]:
    """The calls of a turn with the arguments that the code here gives them: its own, which a person may have changed."""
    for call in turn.calls:
        yield call, call.arguments
    for cell in turn.cells:
        for call in cell.calls:
            given = {**call.arguments, **call.first}
            yield call, {name: value for name, value in given.items() if value is not NOT_GIVEN}


def _asset(name: str) -> str:
    text = resources.files("codeact.views").joinpath("assets", name).read_text(encoding="utf-8")
    return text.rstrip()


def _relative(path: str, beside: Path) -> str:
    try:
        return Path(os.path.relpath(path, beside)).as_posix()
    except ValueError:  # on another drive
        return path


def _literal(value: Any) -> str:
    """JSON as Python source that holds nothing but literals."""
    return repr(json.loads(json.dumps(value, default=str)))


def _task(task: Task, folder: Path, *, further: bool) -> Iterator[Node]:
    """A task's turns and what came of it, below its text, which for the first is the notebook's title."""
    yield from _words(f"## {_line(task.text)}" if further else "", task.remarks)
    for turn in task.turns:
        yield from _turn(turn, folder)
    yield new_markdown_cell(_end(task))


def _words(text: str, remarks: Sequence[str]) -> Iterator[Node]:
    """A cell for what is said, unless that is nothing."""
    said = [text, *(f"> {_line(remark)}" for remark in remarks)]
    if shown := "\n\n".join(part for part in said if part):
        yield new_markdown_cell(shown)


def _turn(turn: Turn, folder: Path) -> Iterator[Node]:
    yield from _words(clean(turn.thoughts).strip(), [*turn.remarks, *_changes(turn)])
    for call in turn.calls:
        yield _call(call)
    for cell in turn.cells:
        yield from _cell(cell, folder)


def _changes(turn: Turn) -> Iterator[str]:
    """What a person changed of the calls, which the code does not show."""
    for call in (*turn.calls, *(call for cell in turn.cells for call in cell.calls)):
        if call.first:
            changed = {name: call.arguments[name] for name in call.first}
            yield f"A person changed a call of {call.tool}: {_arguments(changed)} in place of {_arguments(call.first)}"


def _arguments(values: Mapping[str, Any]) -> str:
    shown = (f"{name}={value if value is NOT_GIVEN else _literal(value)}" for name, value in values.items())
    return ", ".join(shown)


def _call(call: ToolCall) -> Node:
    """A call that the model made itself, as code that makes it."""
    arguments = _arguments(call.arguments)
    if not all(name.isidentifier() and not iskeyword(name) for name in call.arguments):
        arguments = f"**{_literal(call.arguments)}"
    namespace, _, name = call.tool.rpartition(".")
    module = f"tools.{namespace}" if namespace else "tools"
    source = clean(f"from {module} import {name}\n\n{name}({arguments})")
    if call.ok is None:
        return new_markdown_cell(f"What came of this call is not here:\n\n~~~python\n{source}\n~~~")
    if call.ok:
        shown = new_output("execute_result", data={"text/plain": clean(_literal(call.value))})
        return new_code_cell(source, outputs=[shown])
    failed = new_output(
        "error", ename="RuntimeError", evalue=clean(call.error), traceback=[clean(call.error)]
    )
    made = new_code_cell(source, outputs=[failed])
    made.metadata["tags"] = ["raises-exception"]
    return made


def _cell(cell: Cell, folder: Path) -> Iterator[Node]:
    source = _outside(clean(cell.source).rstrip())
    status = cell.result.status if cell.result else "unknown"
    if status in STOPPED:
        ended = {"died": "ended its kernel", "timeout": "ran out of time"}.get(status, "was stopped")
        fence = "~~~~" if "~~~" in source else "~~~"
        yield new_markdown_cell(
            f"This code {ended}, and is not run here:\n\n{fence}python\n{source}\n{fence}"
        )
        return
    outputs = list(_outputs(cell.result, stories.pictures(cell), folder)) if cell.result else []
    made = new_code_cell(source, outputs=outputs)
    if status == "error":
        made.metadata["tags"] = [
            "raises-exception"
        ]  # such a cell does not stop a notebook that is run as a whole
    yield made


def _outside(source: str) -> str:
    """Code that names files by their place in the sandbox, for a notebook that has them beside it."""
    for quote in "'\"":
        source = source.replace(f"{quote}/workspace/", quote).replace(
            f"{quote}/workspace{quote}", f"{quote}.{quote}"
        )
    return source  # fmt: skip


def _number(cell: Node, count: int) -> None:
    cell.execution_count = count
    for output in cell.outputs:
        if output.output_type == "execute_result":
            output.execution_count = count


def _outputs(result: CellResult, files: dict[tuple[int, str], str], folder: Path) -> Iterator[Node]:
    for index, output in enumerate(result.outputs):
        names = {mime: folder / "figures" / name for (of, mime), name in files.items() if of == index}
        made = _output(output, names)
        if made is not None:
            yield made


def _output(output: Output, files: dict[str, Path]) -> Node | None:
    match output:
        case Stream(name, text):
            return new_output("stream", name=name, text=clean(text))
        case Rich(kind, data):
            kept = {mime: clean(data[mime]) for mime in SHOWN if mime in data and mime.startswith("text/")}
            kept |= {mime: text for mime, path in files.items() if (text := _picture(path))}
            if not kept:
                return None
            return new_output("execute_result" if kind == "result" else "display_data", data=kept)
        case CellError(name, message, traceback):
            return new_output("error", ename=name, evalue=message, traceback=clean(traceback).split("\n"))
        case Dropped(size, reason):
            return new_output("stream", name="stderr", text=f"... {size} bytes were dropped: {reason} ...\n")
        case Notice(text):
            return new_output("stream", name="stderr", text=f"({clean(text)})\n")
        case Rung():
            return new_output("stream", name="stderr", text=f"({clean(str(output))})\n")


def _picture(path: Path) -> str:
    try:
        return base64.b64encode(path.read_bytes()).decode()
    except OSError:
        return ""


def _end(task: Task) -> str:
    if task.status != "answered":
        return f"**No answer** ({task.status.replace('_', ' ')}): {_line(task.error or '')}"
    text = (
        task.answer if isinstance(task.answer, str) else json.dumps(task.answer, ensure_ascii=False, indent=2)
    )
    return "**Answer**\n\n" + "\n".join(f"    {line}" for line in clean(text).split("\n"))  # fmt: skip


def _line(text: str) -> str:
    return " ".join(clean(text).split())


def _code(text: str) -> str:
    return f"`{clean(text).replace('`', '')}`"
