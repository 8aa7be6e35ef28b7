"""A run that is killed and carried on: `python -m tests.killed RUNS EFFECTS [RUN]`.

Its tool writes each of its calls as a line to the file EFFECTS; so every call that was carried out is counted, whatever
became of the process. Without RUN, a run begins; its id is its folder in RUNS.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from codeact import events, journal, tool
from codeact.agent import Agent
from codeact.models import ScriptedModel

LOOP = """
def call(name):
    try:
        return pay(name)
    except CallRefused as refused:
        return 'unknown'
"""
CELLS = (
    f"from tools import pay, CallRefused\nfrom concurrent.futures import ThreadPoolExecutor\ngot = {{}}\n{LOOP}",
    "for n in range(5): got[f'a{n}'] = call(f'a{n}')\nopen('log.txt', 'a').write('one ')",
    "with ThreadPoolExecutor(4) as pool:\n    names = [f'b{n}' for n in range(12)]\n    got.update(zip(names, pool.map(call, names)))",
    "got['c'] = call('c')\nopen('log.txt', 'a').write('two ')\nmissing",
    "for n in range(3): got['same' + str(n)] = call('same')\nprint('x' * 50_000)",
    "got['d'] = call('d')\nimport os; os.makedirs('out/deep'); open('out/deep/n.txt', 'w').write(str(len(got)))",
    "final_answer({'got': got, 'log': open('log.txt').read(), 'deep': open('out/deep/n.txt').read()})",
)
NAMES = (*(f"a{n}" for n in range(5)), *(f"b{n}" for n in range(12)), "c", "same0", "same1", "same2", "d")


def main(runs: Path, effects: Path, run: str | None) -> None:
    @tool(effects="write")
    def pay(name: str) -> str:
        file = os.open(effects, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, f"{name}\n".encode())
        os.close(file)
        return f"paid {name}"

    known = journal.load(runs / run) if run else []
    used = sum(isinstance(event, events.Replied) for event in known)
    replies = [f"On.\n```python\n{cell}\n```" for cell in CELLS[used:]]
    agent = Agent(ScriptedModel(replies), image="minimal", runs=runs, tools=[pay], approve="never")
    agent.resume(run) if run else agent.run("Do it.")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), *(sys.argv[3:] or [None]))  # type: ignore[list-item]
