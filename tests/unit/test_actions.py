"""Replies as models write them, and what their authors meant."""

from __future__ import annotations

import ast
import itertools
import json
import time
import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codeact.actions import complete, read
from codeact.actions.reading import BAD_JSON, EMPTY, GUESSED, INVENTED, ONLY_THOUGHTS, UNFENCED
from codeact.types import Finish

RECORDINGS = Path(__file__).parents[1] / "recordings"


def sources(text: str) -> list[str]:
    return [code.source for code in read(text).actions]


def fenced(source: str, info: str = "python") -> str:
    return f"```{info}\n{source}\n```"


@pytest.mark.parametrize(
    "info",
    ["python", "py", "python3", "Python", "PYTHON", "{python}", "{.python}", "{.python .numberLines}", "ipython", "ipython3",
     'python title="x.py"', "python linenums", "python:main.py", "main.py", "tool_code", "jupyter", " python ", "py3",
     "{python, echo=FALSE}", "python3.11", "", "code", "run-python", "python_interpreter", "PythonCode", "python-code", "py3k",
     "repl", "exec", "{code-cell} python", "python (run)"],
)  # fmt: skip
def test_info_strings_that_mean_python(info: str) -> None:
    assert sources(fenced("x = 1\nprint(x)", info)) == ["x = 1\nprint(x)"]


ONE = "x = 1\nprint(x)"

AS_MEANT = {
    # fences
    "tildes": (f"~~~python\n{ONE}\n~~~", [ONE]),
    "longer fence": (f"````python\n{ONE}\n````", [ONE]),
    "closing fence longer": (f"```python\n{ONE}\n`````", [ONE]),
    "closing fence too short": (f"````python\n{ONE}\n```\nSo it is.", [ONE]),
    "closed by the other kind": (f"```python\n{ONE}\n~~~\nSo it is.", [ONE]),
    "indented": (f"   ```python\n   {ONE.replace(chr(10), chr(10) + '   ')}\n   ```", [ONE]),
    "in a list": (
        "1. First:\n\n     ```python\n     if x:\n         y()\n     ```\n2. Done.",
        ["if x:\n    y()"],
    ),
    "behind a list mark": ("- ```python\n  x = 1\n  print(x)\n  ```", [ONE]),
    "fence indented, code not": (f"  ```python\n{ONE}\n  ```", [ONE]),
    "code indented, fence not": ("```python\n    x = 1\n    print(x)\n```", [ONE]),
    "behind prose": (f"Here it is: ```python\n{ONE}\n```", [ONE]),
    "closed behind code": (f"```python\n{ONE}```\nThat is all.", [ONE]),
    "code on the opening line": (
        "```python import math\nprint(math.pi)\n```",
        ["import math\nprint(math.pi)"],
    ),
    "code on the opening line, no label": ("```x = 1\nprint(x)\n```", [ONE]),
    "one line": ("```python print(1)```", ["print(1)"]),
    "one line, no label": ("```final_answer(42)```", ["final_answer(42)"]),
    "one line, a name": ("The column is ```total```, not ```sum```.", []),
    "labelled as text": (fenced("final_answer(42)", "text"), ["final_answer(42)"]),
    "label on the next line": (f"```\npython\n{ONE}\n```", [ONE]),
    "prose behind the closing fence": (f"```python\n{ONE}\n``` This prints 1.", [ONE]),
    "windows line ends": (f"```python\n{ONE}\n```\n".replace("\n", "\r\n"), [ONE]),
    "byte order mark": (f"\ufeff```python\n{ONE}\n```", [ONE]),
    "unclosed": (f"I look.\n```python\n{ONE}\n", [ONE]),
    "unclosed, with prose behind": (f"```python\n{ONE}\n\nThis prints x.\n\nIt will be 1.", [ONE]),
    "unclosed, with an error at the end": ("```python\nx = 1\n\nprint(x", ["x = 1\n\nprint(x"]),
    "unclosed, only the mark": ("I look.\n```python", []),
    "opened twice": (f"```python\n{ONE}\n```python\ny = 2\n```", [ONE, "y = 2"]),
    "opened behind another language": (f"```\nsome words here\n```python\n{ONE}\n```", [ONE]),
    "whole reply in markdown": (f"```markdown\nI print.\n```python\n{ONE}\n```\n```", [ONE]),
    "closed like an opening": (f"```python\n{ONE}\n```python\nThis prints 1.", [ONE]),
    "mark behind the closing fence": (f"Code:\n```py\n{ONE}\n```<end_code>\n", [ONE]),
    "example quoted in markdown": (f"So:\n````markdown\n# Use\n```python\n{ONE}\n```\n````\n", []),
    "stray closing fence": (f"{ONE}\n```", [ONE]),
    "ends in the closing fence": (f"```python\n{ONE}\n``", [ONE]),
    "in a block quote": ("> I look:\n>\n> ```python\n> if x:\n>     y()\n> ```\n\nDone", ["if x:\n    y()"]),
    **{
        f"{mark} for a fence": (f"I look.\n{mark}python\n{ONE}\n{mark}\nDone.", [ONE])
        for mark in ("'''", '"""', "``", "`", "´´´")
    },
    "a docstring within such": (
        "'''python\ndef f():\n    '''\n    Adds.\n    '''\nf()\n'''",
        ["def f():\n    '''\n    Adds.\n    '''\nf()"],
    ),
    "stray fence behind bare code": (f"{ONE}\n```\nThis prints.", [ONE]),
    "encoded as one line": ("```python\\nx = 1\\nprint(x)\\n```", [ONE]),
    # cells of another language
    "fenced code in a file that is written": (
        fenced("%%writefile a.md\n# T\n```python\nprint(1)\n```\nEnd"),
        ["%%writefile a.md\n# T\n```python\nprint(1)\n```\nEnd"],
    ),
    "fence in a heredoc": (
        fenced("%%bash\ncat > a.md <<'EOT'\n```\nls\n```\nEOT\ncat a.md"),
        ["%%bash\ncat > a.md <<'EOT'\n```\nls\n```\nEOT\ncat a.md"],
    ),
    "cell of bash closed like an opening": ("```python\n%%bash\nls\n```python\nThis lists.", ["%%bash\nls"]),
    # fences that are not the end
    "fence in a docstring": (
        fenced('def f():\n    """\n    ```\n    f()\n    ```\n    """\nf()'),
        ['def f():\n    """\n    ```\n    f()\n    ```\n    """\nf()'],
    ),
    "fenced python in a string": (
        fenced("report = '''\n```python\nprint(1)\n```\n'''\nprint(report)"),
        ["report = '''\n```python\nprint(1)\n```\n'''\nprint(report)"],
    ),
    "fence in an f-string": (
        fenced('print(f"""\n```\n{1 + 1}\n```\n""")'),
        ['print(f"""\n```\n{1 + 1}\n```\n""")'],
    ),
    "odd number of fences in a string": (
        fenced('s = """\n```\n"""\nprint(s)'),
        ['s = """\n```\n"""\nprint(s)'],
    ),
    "fence in a comment": (fenced("# ```\nx = 1  # ```"), ["# ```\nx = 1  # ```"]),
    "string that never ends": (
        f"{fenced('print(1)' + chr(10) + 's = ' + chr(34) * 3)}\nSorry.",
        ['print(1)\ns = """'],
    ),
    "string that never ends, then a docstring": (
        fenced('1 +\ns = """') + "\nAgain:\n" + fenced('def f():\n    """Adds."""'),
        ['1 +\ns = """', 'def f():\n    """Adds."""'],
    ),
    "fences beside the quotes": (
        fenced('print("""```python\nx\n```""")\nprint("""\n```\nx\n```""")'),
        ['print("""```python\nx\n```""")\nprint("""\n```\nx\n```""")'],
    ),
    "closing tag in a string": (
        '<code>\nhtml = "</code>"\nprint(html)\n</code>',
        ['html = "</code>"\nprint(html)'],
    ),
    # tags
    **{
        f"<{tag}>": (f"Thought: go.\n<{tag}>\n{ONE}\n</{tag}>", [ONE])
        for tag in ("code", "execute", "python", "execute_python", "execute_ipython", "tool_code", "CODE")
    },
    "html": (f'<pre><code class="language-python">\n{ONE}\n</code></pre>', [ONE]),
    "annotated names": (
        "<code>\noutput: list[int] = []\nprint(output)\n",
        ["output: list[int] = []\nprint(output)"],
    ),
    "unclosed tag": (f"Thought: go.\n<code>\n{ONE}\n\n", [ONE]),
    "tag within a line": ("I run <execute>print(1)</execute> now.", ["print(1)"]),
    "tags within a line": (
        "First <code>x = f(1)</code>, then <code>print(x)</code>.",
        ["x = f(1)", "print(x)"],
    ),
    "a tag that names": ("Use the <code>sum</code> function, then it is done: 5.", []),
    "a tag that is named": ("Put it between `<code>` and `</code>`. The answer is 5.", []),
    "fence in a tag": (f"<execute>\n```python\n{ONE}\n```\n</execute>", [ONE]),
    "half a fence in a tag": (f"<code>\n{ONE}\n```\n</code>", [ONE]),
    "tag in a fence": (f"```python\n<code>\n{ONE}\n</code>\n```", [ONE]),
    "tag in a fence of another language": (f"```xml\n<execute>\n{ONE}\n</execute>\n```", [ONE]),
    "closed by an opening tag": (f"<code>\n{ONE}\n<code>", [ONE]),
    "closed by another tag": (f"<execute>\n{ONE}\n</code>", [ONE]),
    "escaped": ("<code>\nif 1 &lt; 2:\n    print(&quot;a&quot;)\n</code>", ['if 1 < 2:\n    print("a")']),
    "escaped on purpose": ("<code>\nprint('&lt;')\n</code>", ["print('&lt;')"]),
    "python_tag": ("<|python_tag|>print(1)<|eom_id|>", ["print(1)"]),
    **{
        f"<{tag}>, unusual": (f"<{tag}>\n{ONE}\n</{tag}>", [ONE])
        for tag in ("python_code", "code_block", "code_interpreter", "run", "action", "run_code")
    },
    "script": (f'<script type="text/python">\n{ONE}\n</script>', [ONE]),
    "script of a page": ("<script>\nalert(1)\n</script>", []),
    "character data": ("<code><![CDATA[\nprint(1 < 2)\n]]></code>", ["print(1 < 2)"]),
    # what a chat template begins a reply with
    **{
        head: (f"{head}{fenced(ONE)}<|im_end|>", [ONE])
        for head in (
            "<|im_start|>assistant\n",
            "<|start_header_id|>assistant<|end_header_id|>\n\n",
            "<|assistant|>",
            "<s> ",
        )
    },
    "channels": (
        f"<|channel|>analysis<|message|>I look<|end|><|start|>assistant<|channel|>final<|message|>{fenced(ONE)}",
        [ONE],
    ),
    # thinking
    **{
        f"thinking between {opening} {closing}": (
            f"{opening}Hm\n{fenced('bad()')}\n{closing}\n{fenced(ONE)}",
            [ONE],
        )
        for opening, closing in (
            ("<reasoning>", "</reasoning>"),
            ("<scratchpad>", "</scratchpad>"),
            ("[THINK]", "[/THINK]"),
            ("◁think▷", "◁/think▷"),
            ("Well.\n<think>", "</think>"),
        )
    },
    "reasoning never ends": (f"<reasoning>Hm\n{fenced(ONE)}", [ONE]),
    "thinking": (f"<think>\nMaybe\n```python\nbad()\n```\n</think>\n{fenced(ONE)}", [ONE]),
    "thinking, nothing between": (f"Maybe\n</think>{fenced(ONE)}", [ONE]),
    "thinking, template wrote the tag": (f"Maybe\n```python\nbad()\n```\n</think>\n{fenced(ONE)}", [ONE]),
    # several blocks
    "plan in steps": (
        f"Load.\n{fenced('x = 1')}\nThen print it.\n{fenced('print(x)')}\nDone.",
        ["x = 1", "print(x)"],
    ),
    "thoughts between": (
        "<code>\nx = 1\n</code>\nThought: print.\n<code>\nprint(x)\n</code>",
        ["x = 1", "print(x)"],
    ),
    "the same twice": (f"{fenced(ONE)}\nIn full:\n{fenced(ONE)}", [ONE]),
    "a longer version": (f"{fenced('x = 1')}\nIn full:\n{fenced(ONE)}", [ONE]),
    "an empty block before": (f"{fenced('')}\n{fenced(ONE)}", [ONE]),
    # other text in blocks
    "output first": (f"I saw\n```\nEast 100\n```\n{fenced(ONE)}", [ONE]),
    "traceback first": (
        f"I saw\n```\nTraceback (most recent call last):\n  x\nKeyError: 1\n```\n{fenced(ONE)}",
        [ONE],
    ),
    "shell first": (f"```bash\npip install x\n```\n{fenced(ONE)}", [ONE]),
    "magics": (
        fenced("%matplotlib inline\n!pip list\nprint(1)"),
        ["%matplotlib inline\n!pip list\nprint(1)"],
    ),
    "cell magic": (fenced("%%bash\nls | wc -l"), ["%%bash\nls | wc -l"]),
    "syntax error": (fenced("print(1"), ["print(1"]),
    "syntax error, no label": (fenced("import math\nprint(1", ""), ["import math\nprint(1"]),
    # prompts
    "prompts": (
        fenced(">>> for i in range(2):\n...     print(i)\n...\n0\n1\n>>> x = 1", "pycon"),
        ["for i in range(2):\n    print(i)\n\nx = 1"],
    ),
    "IPython prompts": (
        fenced("In [1]: def f():\n   ...:     return 1\n\nIn [2]: f()\nOut[2]: 1"),
        ["def f():\n    return 1\nf()"],
    ),
    "prompts in a docstring": (
        fenced('def f():\n    """\n    >>> f()\n    """'),
        ['def f():\n    """\n    >>> f()\n    """'],
    ),
    # characters
    "non-breaking spaces": (fenced("if x:\n\u00a0\u00a0print(x)"), ["if x:\n  print(x)"]),
    "zero-width space": (fenced("\u200bx = 1\nprint(x\u200b)"), [ONE]),
    "smart quotes": (fenced("print(“a”)"), ['print("a")']),
    "smart quotes meant": (fenced("print('“a”')"), ["print('“a”')"]),
    "prompts without a space": (fenced(">>>x = 1\n>>>print(x)\n1"), [ONE]),
    "prompts that wait": (fenced("In[1]: x = 1\nIn [*]: print(x)"), [ONE]),
    "full-width signs": (fenced("print（1）"), ["print(1)"]),
    "typographic minus": (fenced("print(5 − 3 – 1)"), ["print(5 - 3 - 1)"]),
    "typographic minus meant": (fenced("print('5 − 3')"), ["print('5 − 3')"]),
    "NUL": (fenced("print(1)\0"), ["print(1)"]),
    "entities in a fence": (fenced("if 1 &lt; 2:\n    print(1)"), ["if 1 < 2:\n    print(1)"]),
    "line numbers": (fenced("1 | x = 1\n2 | print(x)"), [ONE]),
    # the answer outside of blocks
    "bare answer": ("final_answer(42)", ["final_answer(42)"]),
    "bare answer, a word": ("final_answer(Yan)", ["final_answer(Yan)"]),
    "bare answer behind prose": ("It is 5.\n\nfinal_answer(5)", ["final_answer(5)"]),
    "labelled": ("Final answer: final_answer(42)", ["final_answer(42)"]),
    "bold": ("**final_answer('x')**", ["final_answer('x')"]),
    "inline code": ("The value was printed, so:\n`final_answer(x)`.", ["final_answer(x)"]),
    "over lines": ("Done.\nfinal_answer({\n  'a': ')',\n})\nBye.", ["final_answer({\n  'a': ')',\n})"]),
    "bare words": ("I know.\nfinal_answer(New York)", ["final_answer(New York)"]),
    "mentioned": ("I would call final_answer(x) if I knew x.", []),
    "mentioned at the start": ("`final_answer(x)` would end it, but I do not know x.", []),
    "of a name, behind code": (f"{fenced(ONE)}\n\nfinal_answer(x)", [ONE, "final_answer(x)"]),
    "in a list, counted": ("- final_answer(42)", ["final_answer(42)"]),
    "in a numbered list": ("1. final_answer(42)", ["final_answer(42)"]),
    "in quotation marks": ('"final_answer(42)"', ["final_answer(42)"]),
    "between dollar signs": ("$final_answer(42)$", ["final_answer(42)"]),
    "returned": ("return final_answer(42)", ["final_answer(42)"]),
    "a traceback for code": (
        "```python\nTraceback (most recent call last):\n  Cell 1, line 4\nKeyError: 1\n```",
        [],
    ),
    "a traceback behind code": (
        f"{fenced(ONE)}\n```python\nTraceback (most recent call last):\n  x\nKeyError: 1\n```",
        [ONE],
    ),
    "returned with a magic": ("```python\n%%time\nreturn final_answer(3)\n```", ["%%time\nfinal_answer(3)"]),
    "returned by a whole reply": ("return total", ["total"]),
    "returned in a block without a label": ("```\nreturn {'a': 1}\n```", ["{'a': 1}"]),
    "returned at the end": (fenced("x = 1\nreturn x"), ["x = 1\nx"]),
    "returned from a branch": (
        fenced("with more_time(9):\n    n = 'é'\n    return {\n        'n': n,\n    }  # both"),
        ["with more_time(9):\n    n = 'é'\n    display({\n        'n': n,\n    })  # both"],
    ),
    "returned from either branch": (
        fenced("if 'é' in n: return n, 1\nelse:\n    return"),
        ["if 'é' in n: display((n, 1))\nelse:\n    pass"],
    ),
    "returned or not": (
        fenced("try:\n    return print(f())\nexcept KeyError:\n    return final_answer(0)"),
        ["try:\n    print(f())\nexcept KeyError:\n    final_answer(0)"],
    ),
    "returned behind line ends of all kinds": (
        json.dumps({"name": "python", "arguments": {"code": "x = 1\r\nif x:\r    return x"}}),
        ["x = 1\nif x:\n    display(x)"],
    ),
    "returned too early": (fenced("for x in y:\n    return x"), ["for x in y:\n    return x"]),
    "returned by a function": (fenced("def f():\n    return 3\n\nf()"), ["def f():\n    return 3\n\nf()"]),
    "underscore escaped": ("final\\_answer(5)", ["final_answer(5)"]),
    "behind words": ("The total is 42, so I call final_answer(42).", ["final_answer(42)"]),
    "in a tag": ("<final_answer>42</final_answer>", ["final_answer(42)"]),
    "words in a tag": ("I know.\n<answer>\nNorth\n</answer>", ["final_answer('North')"]),
    "boxed": ("The answer is \\boxed{42}.", []),
    # whole replies of code
    "bare code": ("import math\nx = math.pi\nprint(x)", ["import math\nx = math.pi\nprint(x)"]),
    "bare assignment": ("x = 5", ["x = 5"]),
    "bare code, then its output": (f"{ONE}\nObservation: 1", [ONE]),
    "bare code below its language": (f"python\n{ONE}", [ONE]),
    "bare prompts": (">>> x = 1\n>>> print(x)\n1", [ONE]),
}


@pytest.mark.parametrize(("text", "expected"), AS_MEANT.values(), ids=AS_MEANT)
def test_code_is_read_as_meant(text: str, expected: list[str]) -> None:
    assert sources(text) == expected


CALL = {"name": "get_weather", "arguments": {"city": "Oslo", "days": None, "now": True}}
CALLED = "print(get_weather(city='Oslo', days=None, now=True))"

JSON = {
    "call": (json.dumps(CALL, indent=2), [CALLED]),
    "call in a block": (f"I ask.\n{fenced(json.dumps(CALL), 'json')}", [CALLED]),
    "call in a block without label": (fenced(json.dumps(CALL), ""), [CALLED]),
    "call in a block labelled python": (fenced(json.dumps({"name": "f", "arguments": {"a": 1}})), ["print(f(a=1))"]),
    "call in prose": (f"I ask.\n{json.dumps(CALL)}\nLet us see.", [CALLED]),
    "call in a tag": (f"<tool_call>\n{json.dumps(CALL)}\n</tool_call>", [CALLED]),
    "two calls in one block": (fenced("\n".join([json.dumps(CALL)] * 2), "json"), [f"{CALLED}\n{CALLED}"]),
    "two blocks": (
        fenced('{"name": "f", "arguments": {}}', "json") + "\n" + fenced('{"name": "g", "arguments": {}}', "json"),
        ["print(f())\nprint(g())"],
    ),
    "invented result between": (f"I ask.\n{json.dumps(CALL)}\nOutput: 1\n{json.dumps(CALL)}", [CALLED]),
    "an array": (json.dumps([CALL, {"name": "g", "arguments": {"x": [1.5]}}]), [f"{CALLED}\nprint(g(x=[1.5]))"]),
    "as OpenAI has it": (
        json.dumps({"tool_calls": [{"type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}]}),
        ["print(f(a=1))"],
    ),
    "other keys": ('{"action": "search", "action_input": {"query": "kettle"}}', ["print(search(query='kettle'))"]),
    "one plain argument": ('{"tool": "search", "input": "kettle"}', ["print(search('kettle'))"]),
    "names that Python lacks": ('{"name": "f", "arguments": {"from": 1}}', ["print(f(**{'from': 1}))"]),
    "python instead of JSON": ("{'name': 'f', 'arguments': {'a': None}}", ["print(f(a=None))"]),
    "not a name": ('{"name": "os.system; x", "arguments": {"a": 1}}', []),
    "a definition": ('{"name": "f", "description": "Adds.", "parameters": {"type": "object"}}', []),
    "final answer": ('{"name": "final_answer", "arguments": {"answer": [1, null]}}', ["final_answer([1, None])"]),
    "final answer as a key": ('{"thought": "I know.", "final_answer": "East"}', ["final_answer('East')"]),
    "final answer as an action": ('{"action": "final_answer", "action_input": 4}', ["final_answer(4)"]),
    "call, then a guess": (
        '{"name": "f", "arguments": {}}\n{"name": "final_answer", "arguments": {"value": 4}}',
        ["print(f())"],
    ),
    "thought and code": (json.dumps({"thought": "Go.", "code": ONE}), [ONE]),
    "code in a block": (f"Go.\n{fenced(json.dumps({'code': ONE}), 'json')}", [ONE]),
    "code in prose": (f"Go.\n{json.dumps({'code': ONE})}\nDone.", [ONE]),
    "code with real line ends": ('{"thought": "Go.", "code": "x = 1\nprint(x)"}', [ONE]),
    "fence in JSON": (json.dumps({"thought": "Go.", "code": fenced(ONE)}), [ONE]),
    "lines of code": (json.dumps({"code": ONE.split("\n")}), [ONE]),
    "call of an interpreter": (json.dumps({"name": "python", "arguments": {"code": ONE}}), [ONE]),
    "encoded twice": (json.dumps({"name": "execute", "arguments": json.dumps({"code": ONE})}), [ONE]),
    "code as input": (json.dumps({"action": "python_interpreter", "action_input": ONE}), [ONE]),
    "encoded twice, all of it": (json.dumps(json.dumps({"code": ONE})), [ONE]),
    "comma at the end": ('{"name": "python", "arguments": {"code": "print(1)",},}', ["print(1)"]),
    "function_call": (json.dumps({"function_call": {"name": "python", "arguments": json.dumps({"code": ONE})}}), [ONE]),
    "answer as LangChain has it": ('{"action": "Final Answer", "action_input": 42}', ["final_answer(42)"]),
    "marked, as Mistral does": ('[TOOL_CALLS] [{"name": "python", "arguments": {"code": "print(1)"}}]', ["print(1)"]),
    "marked with its name": ('[TOOL_CALLS]python[ARGS]{"code": "print(1)"}', ["print(1)"]),
    "invoked": ('<invoke name="python">\n<parameter name="code">print(1)</parameter>\n</invoke>', ["print(1)"]),
    "invoked, a tool": ('<invoke name="f"><parameter name="a">1</parameter><parameter name="b">x</parameter></invoke>', ["print(f(a=1, b='x'))"]),
    "function in a tag": ("<tool_call>\n<function=python>\n<parameter=code>\nprint(1)\n</parameter>\n</function>\n</tool_call>", ["print(1)"]),
    "ReAct": (f"Thought: I look.\nAction: python\nAction Input:\n{ONE}\nObservation: 1\nThought: I know.\nFinal Answer: 1", [ONE]),
    "ReAct in JSON": ('Thought: go\nAction: search\nAction Input: {"query": "kettle"}', ["print(search(query='kettle'))"]),
    "ReAct, an answer": ("Thought: I know.\nAction: final_answer\nAction Input: 42", ["final_answer(42)"]),
    "a tool that takes code": ('{"name": "postcode", "arguments": {"code": "E11"}}', ["print(postcode(code='E11'))"]),
    "data": ('{"region": "East", "total": 100}', []),
    "data with a code": ('{"code": "NL", "country": "Netherlands"}', []),
    "SQL": (json.dumps({"language": "sql", "code": "select 1"}), []),
}  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), JSON.values(), ids=JSON)
def test_json_is_read_as_meant(text: str, expected: list[str]) -> None:
    assert sources(text) == expected


PLAIN = [
    "The region with the highest total revenue is East.", "Paris", "42", "3.14", "-1", "'East'", "None", "True", "Total: 377",
    "not found", "Oslo (Norway)", "2026-11-23", "East, West", "[1, 2, 3]", "well-known", "x is not y", "",
    "The table:\n\n```\nregion  total\nEast      100\n```", "I like `print(x)`.", "- East: 100\n- West: 50",
    "# Report\n\nAll is well.", "```markdown\n# Report\n\nAll is well.\n```",
    "```\nEast 100\n```\nResult: East.", "Result: 42",
]  # fmt: skip


@pytest.mark.parametrize("text", PLAIN)
def test_reply_without_action_is_its_own_answer(text: str) -> None:
    reading = read(text)
    assert (reading.thoughts, reading.actions, reading.problem) == (text, (), None)


def test_thinking_is_no_part_of_a_plain_answer() -> None:
    assert read("<think>Hm, ```python\nx\n```</think>\n\nIt is 5.").thoughts == "It is 5."


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (fenced(""), EMPTY),
        (fenced("# nothing\n\n  # at all"), EMPTY),
        ("<code></code>", None),
        ("<execute>\n</execute>", EMPTY),
        (json.dumps({"name": "python", "arguments": {"code": ""}}), EMPTY),
        ("<think>Let me see.\n```python\nx = 1\n```", ONLY_THOUGHTS),
        ('{"name": "f", "arguments": {"a": 1}', BAD_JSON),
        ("Action: search\nAction Input: kettle", UNFENCED),
        ("I would call final_answer(x) if I knew x.", UNFENCED),
        ("I run this:\n\nimport math\nprint(math.pi)\n\nThat prints it.", UNFENCED),
    ],
)
def test_problems(text: str, problem: str | None) -> None:
    reading = read(text)
    assert (reading.actions, reading.problem) == ((), problem)


@pytest.mark.parametrize(
    "language", ["bash", "sh", "sql", "json", "text", "output", "r", "javascript", "c++"]
)
def test_other_languages_are_not_run(language: str) -> None:
    reading = read(f"I do:\n{fenced('ls -l', language)}")
    assert reading.actions == ()
    assert reading.problem is not None
    assert f"The {language} block" in reading.problem
    assert "```python" in reading.problem
    assert "final_answer(value)" in reading.problem


def test_note_on_a_block_that_was_passed_over() -> None:
    reading = read(f"{fenced('pip install x', 'bash')}\n{fenced(ONE)}")
    assert reading.notes == ("The bash block was not run: only Python is.",)


@pytest.mark.parametrize("finish", ["length", "content_filter"])
@pytest.mark.parametrize(
    "text", [fenced(ONE), f"```python\n{ONE}", "final_answer(1)", '{"name": "f", "arguments": {}}']
)
def test_a_cut_reply_is_never_executed(text: str, finish: Finish) -> None:
    reading = read(text, finish=finish)
    assert reading.actions == ()
    assert reading.problem is not None


INVENTIONS = [
    "Observation: 1", "Output:\n1", "**Output:**\n1", "### Output\n1", "Output\n1", "Out[1]: 1", "The output is: 1",
    "The output is 1", "The output of the code is: 1", "Output is '1'", "Result: 1", "Execution result: 1",
    "Expected output:\n1", "<observation>1</observation>", "<output>\n1", "```output\n1\n```", "```\n1\n```", "```text\n1\n```",
    "```console\n1\n```", "User: thanks", "Human: thanks", "<|im_start|>user\n1", "> Output: 1",
    "Output (stdout):\n1", "Traceback (most recent call last):\n  x", "[Output]\n1", "[Observation] 1", "***Output:***\n1", "`Output:` 1",
    "Output -> 1", "Output = 1", "=> 1", "Here's the output: 1", "Output of the code:\n1", "Execution logs:\n1", "(Output: 1)",
    "After running the code, the output is:\n1", "The code printed 1", "KeyError: 'x'", "<code_output>1", "<results>1</results>",
    "Tool: 1", "System: 1", "### User\n1", "Ausgabe: 1", "Salida:\n1", "Résultat : 1", "输出：\n1", "実行結果：1", "Вывод:\n1",
    "<start_of_turn>user\n1", "[TOOL_RESULTS] 1", "<｜User｜>1", "<|tool_response|>1",
]  # fmt: skip
AFTERWARDS = [
    "", "\n" + fenced("y = 2\nprint(y)"), "\nfinal_answer(y)", "\n<code>\nprint(2)\n</code>", '\n{"name": "f", "arguments": {}}',
]  # fmt: skip


@pytest.mark.parametrize(("invention", "behind"), list(itertools.product(INVENTIONS, AFTERWARDS)))
@pytest.mark.parametrize("block", [fenced(ONE), f"<code>\n{ONE}\n</code>"], ids=["fence", "tag"])
def test_stops_where_the_model_invents(block: str, invention: str, behind: str) -> None:
    text = f"I print.\n{block}\n{invention}{behind}"
    reading = read(text)
    assert [code.source for code in reading.actions] == [ONE]
    assert reading.end == text.index(invention, len(f"I print.\n{block}"))
    assert reading.notes == (INVENTED,)
    assert reading.thoughts == "I print."


@pytest.mark.parametrize(
    "prose",
    [
        "This code first checks that it exists.", "The output of this code will be the number of primes.",
        "When you run this code, it will output the total.", "The region with the highest revenue is `North`.",
        "The final answer is: `x`", "Thought: now I print it.", "Output format: a table.", "System requirements: none.",
        "Then the output is written to a file.", "Ergebnis wird gespeichert.", "Output the total:", "Here is the second step:",
        "Let me check the results:", "We get the rows:", "- Output: a table", "This prints the result: one line.",
    ],
)  # fmt: skip
def test_explaining_is_not_inventing(prose: str) -> None:
    reading = read(f"{fenced('x = 1')}\n{prose}\n{fenced('print(x)')}")
    assert [code.source for code in reading.actions] == ["x = 1", "print(x)"]
    assert reading.end is None


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        (f"<code>\n{ONE}\nObservation: 1\nThought: so", "Observation: 1"),
        (f"```python\n{ONE}\nOutput: 1", "Output: 1"),
        (f"```python\n{ONE}\nOutput:\n1 2\n```", "Output:"),
        (f"<code>\n{ONE}\n</code>Observation: 1", "Observation: 1"),
        (f"```python\n{ONE}<|im_end|>\n", "<|im_end|>"),
        (f"{fenced(ONE)}\n```tool_outputs\n1\n```", "```tool_outputs"),
        (f"{ONE}\nObservation: 1", "Observation: 1"),
    ],
)
def test_invention_within_a_block_or_without_one(text: str, rest: str) -> None:
    reading = read(text)
    assert [code.source for code in reading.actions] == [ONE]
    assert reading.end == text.index(rest)


def test_what_a_chat_template_would_write_ends_any_reply() -> None:
    reading = read("It is 5.<|im_end|>\n<|im_start|>user\nThanks")
    assert (reading.thoughts, reading.actions, reading.end) == ("It is 5.", (), 8)


@pytest.mark.parametrize(
    "guess", ["final_answer(7500.0)", 'final_answer("Oslo")', "**final_answer([1, 2])**", fenced("final_answer(-1)"),
              fenced("# done\nfinal_answer(value='x')"), "<code>final_answer(3)</code>", "final_answer(str(3))"],
)  # fmt: skip
def test_an_answer_before_the_output_is_a_guess(guess: str) -> None:
    reading = read(f"{fenced(ONE)}\n\n{guess}")
    assert [code.source for code in reading.actions] == [ONE]
    assert reading.notes == (GUESSED,)


@pytest.mark.parametrize(
    "answer", ["final_answer(x)", "final_answer(f'{x} pieces')", "final_answer(round(x, 2))"]
)
def test_an_answer_from_variables_is_none(answer: str) -> None:
    assert sources(f"{fenced(ONE)}\nSo:\n{fenced(answer)}") == [ONE, answer]
    assert sources(f"{fenced(ONE)}\nSo:\n{answer}") == [ONE, answer]


def test_thoughts_are_the_prose() -> None:
    assert (
        read(f"First.\n\n{fenced('x = 1')}\nThen.\n{fenced('print(x)')}\nfinal_answer(x)\nBye.").thoughts
        == "First.\nThen.\nBye."
    )


@pytest.mark.parametrize("answer", ["`final_answer(1)`", "**final_answer(1)**", "final_answer(1)"])
def test_marks_around_an_answer_are_no_thought(answer: str) -> None:
    assert read(f"It is one.\n\n{answer}\n").thoughts == "It is one."


def test_end_of_turn_alone_is_no_invention() -> None:
    assert read(f"{fenced(ONE)}\n<|im_end|>\n").notes == ()


# Streaming


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize(
    ("opening", "closing"), [("```python", "```"), ("<code>", "</code>"), ("~~~py", "~~~")]
)
def test_stream_ends_behind_the_first_block(opening: str, closing: str, newline: str) -> None:
    block = f"I go.\n{opening}\ns = '''\n{closing}\n'''\n{closing}\n".replace("\n", newline)
    text = f"{block}The output is: 1"
    ends = [complete(text[:length], first_block_only=True) for length in range(len(text) + 1)]
    first = next(end for end in ends if end is not None)
    assert first in (len(block), len(block) - len(newline))
    assert ends.index(first) <= len(block)
    assert set(ends) == {None, first}


@pytest.mark.parametrize(
    "invention", ["Observation: 1", "The output is: 1", "```output\n1\n```", "Output\n1", "User: 1"]
)
def test_stream_ends_where_the_model_invents(invention: str) -> None:
    before = f"{fenced('x = 1')}\nThen.\n{fenced('print(x)')}\n"
    text = f"{before}{invention}\n"
    ends = [complete(text[:length]) for length in range(len(text) + 1)]
    assert ends[-1] == len(before)
    assert set(ends) == {None, len(before)}
    assert None not in ends[ends.index(len(before)) :]


@pytest.mark.parametrize(
    "text",
    ["", "It is 5.\n", "```python\nx = 1\n", "<think>\n```python\nx\n```\nOutput: 1\n", "```\nwords\n```\n"],
)
def test_stream_goes_on(text: str) -> None:
    assert complete(text) is None
    assert complete(text, first_block_only=True) is None


# Recorded replies of a small model


def recorded() -> list[tuple[dict[str, Any], dict[str, Any]]]:
    replies, expected = (
        [json.loads(line) for line in (RECORDINGS / name).read_text().splitlines()]
        for name in ("replies.jsonl", "replies-expected.jsonl")
    )
    return list(zip(replies, expected, strict=True))


@pytest.mark.parametrize(("reply", "expected"), recorded(), ids=lambda each: str(each["id"]))
def test_recorded_replies_are_read_as_meant(reply: dict[str, Any], expected: dict[str, Any]) -> None:
    reading = read(reply["content"], finish=reply["finish_reason"])
    lines = [code.source.split("\n") for code in reading.actions]
    assert {
        "id": reply["id"],
        "actions": [[each[0], each[-1]] for each in lines],
        "problem": reading.problem is not None,
        "invented": reading.end is not None,
        "guessed": GUESSED in reading.notes,
    } == expected


# Any text

PIECES = st.sampled_from(
    ["```", "```python\n", "~~~", "````", "<code>", "</code>", "<think>", "</think>", '"""', "'''", '"', "'", "\\", "\n", "#",
     "final_answer(", ")", "{", '{"name": "f", "arguments": {}}', "Observation:", ">>> ", "x = 1", "print(x)", "\r", "\x00",
     "\ufeff", "\ud800", "import os", "%%bash", "In [1]: ", "<|im_end|>", "  ", "é", "json"]
)  # fmt: skip


@settings(max_examples=500)
@given(st.lists(PIECES | st.text(max_size=5), max_size=30).map("".join), st.sampled_from(["stop", "length"]))
def test_never_raises_and_invents_nothing(text: str, finish: Finish) -> None:
    reading = read(text, finish=finish)
    assert reading.end is None or 0 <= reading.end <= len(text)
    plain = text.replace("\r", "\n")
    assert all(line.replace("\r", "\n") in plain for line in reading.thoughts.split("\n"))
    assert not (reading.problem and reading.actions)
    for first_only in (True, False):
        end = complete(text, first_block_only=first_only)
        assert end is None or 0 <= end <= len(text)


STATEMENTS = st.sampled_from(
    ["x = 1", "print('```')", '"""\n```\n"""', "s = '''\n```python\nprint(1)\n```\n'''", 'print(f"""\n~~~\n{x}\n```\n""")',
     "# ``` a comment", "def f():\n    '''Doc.\n\n    ```\n    f()\n    ```\n    '''\n    return 1", "t = 'it\\'s'", "",
     "u = \"\"\"a 'quote' and \\\"\"\" more\n````\n\"\"\"", "h = '</code>'", "v = 'a\\\n```\\\nb'", "o = '''\nObservation: 1\n'''",
     "if x:\n    y = '''\nOutput:\n'''\n", "r = r'\\\\'", "print('<code>')", "n = [\n    1,\n]", "x[0]", "'''\n<|im_end|>\n'''"]
)  # fmt: skip


@settings(max_examples=500)
@given(
    st.lists(STATEMENTS | st.text(max_size=8).map(lambda s: f"w = {s!r}"), min_size=1, max_size=8).map(
        "\n".join
    ),
    st.sampled_from(
        ["```python\n{}\n```", "Go:\n\n~~~~py\n{}\n~~~~\n\nThis does it.", "1. Go\n```python\n{}\n```\n"]
    ),
)
def test_any_source_comes_back(source: str, reply: str) -> None:
    ast.parse(source)
    lines = [line for line in source.split("\n") if line.strip() and not line.startswith("#")]
    expected = [source] if lines else []
    text = reply.replace("{}", source)
    assert sources(text) == expected
    if expected:
        assert (end := complete(text + "\n", first_block_only=True)) is not None
        assert source in text[:end]


HOSTILE = {
    "fences": "```\n" * 10_000,
    "python fences": "```python\n" * 10_000,
    "blocks": "```python\nx\n```\n" * 7_000,
    "open strings": '```python\n"""\n' * 7_000,
    "odd strings": "```python\nx ='''\n```\n```python\n1 +\"\"\"\n```\n" * 2_500,
    "a string over all": '```python\n(\n"""\n' + "```\n" * 20_000 + '"""',
    "different blocks": "".join(f"```python\nx{i} = 1\n```\n" for i in range(5_000)),
    "tags": "<code>" * 16_000,
    "tags in a string": '<code>x = """' + "</code>" * 14_000,
    "inline tags": "<code>a()</code>" * 6_000,
    "backticks": "`" * 100_000,
    "backticks, spaced": "` " * 50_000,
    "tildes": "~" * 100_000,
    "brackets": "```python\n" + "(" * 50_000 + ")" * 50_000 + "\n```",
    "signs": "```python\n" + "-" * 100_000 + "1\n```",
    "calls": "```python\nf" + "()" * 50_000 + "\n```",
    "sums": "```python\n1" + "+1" * 50_000 + "\n```",
    "indents": "```python\n" + "".join(" " * i + "if 1:\n" for i in range(400)) + "\n```",
    "not closed JSON": '{"a":' * 20_000,
    "lists": "[" * 100_000,
    "objects on lines": "{\n" * 50_000,
    "nul bytes": "```python\n" + "\x00" * 100_000 + "\n```",
    "answers": "final_answer(" * 8_000,
    "answers mentioned": "final_answer(1) is\n" * 6_000,
    "answers on lines": "final_answer(\n" * 7_000,
    "quotes": "```python\n" + "'" * 100_001 + "\n```",
    "backslashes": "```python\n'" + "\\" * 100_000 + "\n```",
    "spaces": " " * 100_000,
    "newlines": "\n" * 100_000,
    "labels": "```python\nx\n```\n" + "Output" * 16_000,
    "thinking": "<think>" * 14_000,
    "thinking done": "<think></think>" * 7_000,
    "one line": "x" * 100_000 + " final_answer(1)",
    "prompts": "```python\n" + ">>> x\n" * 16_000 + "```",
    "escapes": "<code>\n" + "&lt;" * 25_000 + "\n</code>",
    "digits": "```\n" + "9" * 100_000 + "\n```",
    "numbers in JSON": '{"name": "f", "arguments": {"a": ' + "9" * 90_000 + "}}",
    "colons": "```python\nx\n```\n" + ("The output of " + "a" * 60 + " ") * 1_300,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_replies_take_no_time(text: str) -> None:
    # processor time, since the machine may be busy; what is not linear takes minutes at this size
    started = time.process_time()
    read(text)
    complete(text)
    assert time.process_time() - started < 2.0


def test_code_that_warns_is_read_in_silence() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert sources(fenced(r"print('\d' is 1)")) == [r"print('\d' is 1)"]
    assert caught == []
