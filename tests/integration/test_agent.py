"""Whole runs with a scripted model and a real sandbox: what is executed, what is observed, how runs end."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from codeact import events, journal, warm
from codeact.agent import Agent
from codeact.errors import ModelError, UsageError
from codeact.models import ScriptedModel
from codeact.tools.functions import tool
from codeact.types import Delta, Reply, Request, Result, RunLimits
from sandbox import Limits, Pool
from tests.sites import Site

pytestmark = pytest.mark.docker


def block(code: str, words: str = "I do it.") -> str:
    return f"{words}\n```python\n{code}\n```"


def solve(
    tmp_path: Path,
    replies: Sequence[str | Reply],
    *,
    data: dict[str, Path] | None = None,
    small: bool = False,
    sees: bool = False,
    **settings: Any,
) -> tuple[Result, ScriptedModel]:
    model = ScriptedModel(replies, sees=sees)
    model.small = small
    settings = {"image": "minimal", "runs": tmp_path / "runs", **settings}
    return Agent(model, **settings).run("Do it.", data), model


def observations(result: Result) -> list[str]:
    return [event.text for event in result.events if isinstance(event, events.Observed)]


def test_state_stays_from_turn_to_turn_and_the_answer_comes_out(tmp_path: Path) -> None:
    result, model = solve(tmp_path, [block("x = 40\nprint('ready')"), block("final_answer(x + 2)")])
    assert (result.status, result.answer, result.error) == ("answered", 42, None)
    assert observations(result)[0].startswith("Output:\nready\n\n")
    assert model.requests[1].messages[: len(model.requests[0].messages)] == model.requests[0].messages
    assert result.usage.calls == 2


def test_the_journal_holds_the_run(tmp_path: Path) -> None:
    result, _ = solve(tmp_path, [block("final_answer({'a': [1.5, None]})")])
    lines = list(journal.read(tmp_path / "runs" / result.run))
    assert [line["seq"] for line in lines] == sorted(line["seq"] for line in lines)
    assert {line["run"] for line in lines} == {result.run}
    assert [line["type"] for line in lines] == [
        "run_started",
        "turn_started",
        "replied",
        "code_started",
        "answer_given",
        "observed",
        "run_ended",
    ]
    assert lines[-1]["answer"] == {"a": [1.5, None]}
    assert lines[-1]["status"] == "answered"


def test_a_torn_last_line_is_passed_over(tmp_path: Path) -> None:
    result, _ = solve(tmp_path, [block("final_answer(1)")])
    path = tmp_path / "runs" / result.run / journal.FILE
    whole = path.read_text(encoding="utf-8")
    path.write_text(whole[:-20], encoding="utf-8")
    assert [line["type"] for line in journal.read(path)][-1] == "observed"


def test_an_error_says_what_survived_and_repetition_is_noticed(tmp_path: Path) -> None:
    odd = "class Odd(dict):\n    __getattr__ = dict.__getitem__\nodd = Odd()"
    wrong = block(f"total = 3\n{odd}\nmissing")
    result, model = solve(tmp_path, [wrong, wrong, block("final_answer(total)")])
    first, second, _ = observations(result)
    assert "NameError: name 'missing' is not defined" in first
    assert "Variables that exist now: total (int), Odd (type), odd (Odd)." in first
    assert "This is the same code as before" in second
    assert [request.temperature for request in model.requests] == [None, None, 0.8]
    assert result.answer == 3


def test_a_dead_kernel_is_said_and_the_next_cell_works(tmp_path: Path) -> None:
    result, _ = solve(
        tmp_path,
        [
            block("open('kept.txt', 'w').write('x')\nimport os; os._exit(7)"),
            block("final_answer(open('kept.txt').read())"),
        ],
    )
    assert "the kernel ended by itself, with exit code 7" in observations(result)[0]
    assert "(lost: all variables; files in /workspace are still there)" in observations(result)[0]
    assert any(isinstance(event, events.SandboxRestarted) for event in result.events)
    assert result.answer == "x"


def test_a_wrong_type_is_raised_in_the_cell_and_mended(tmp_path: Path) -> None:
    code = "try:\n    final_answer('many')\nexcept TypeError as error:\n    print('caught:', error)"
    result, _ = solve(
        tmp_path,
        [block(code), "It is five.", "5"],
        output_schema={"type": "integer"},
    )
    shown = observations(result)
    assert (
        "caught: the answer is not of the type that is asked for: $: 'many' is not of type 'integer'"
        in shown[0]
    )
    assert "This is not an answer of the type that was asked for" in shown[1]
    assert (result.status, result.answer) == ("answered", 5)
    assert [e.accepted for e in result.events if isinstance(e, events.AnswerGiven)] == [False, False, True]


def test_a_cut_reply_is_never_executed(tmp_path: Path) -> None:
    effect = block("open('effect', 'w').close()")
    result, _ = solve(
        tmp_path,
        [
            Reply(effect, "length"),
            Reply(effect, "content_filter"),
            block("import os; final_answer(os.path.exists('effect'))"),
        ],
    )
    assert result.answer is False
    assert "Your reply was cut" in observations(result)[0]
    assert "content filter" in observations(result)[1]


def test_blocks_run_in_order_up_to_the_first_that_fails(tmp_path: Path) -> None:
    three = f"{block('print(1)')}\nThen.\n{block('print(2); nope')}\nThen.\n{block('print(3)')}"
    result, _ = solve(tmp_path, [three, block("final_answer('end')")])
    first = observations(result)[0]
    assert first.index("Output:\n1") < first.index("Output:\n2")
    assert "Output:\n3" not in first
    assert "The blocks after it were not run." in first


def test_an_invented_observation_is_cut_off_and_not_kept(tmp_path: Path) -> None:
    invented = f"{block('print(6 * 7)')}\nObservation: 41\n{block('final_answer(41)')}"
    result, model = solve(tmp_path, [invented, block("final_answer(6 * 7)")])
    assert result.answer == 42
    assert "41" not in model.requests[1].messages[-2].content


def test_what_cannot_be_read_says_how_to_write_it_and_ends_at_last(tmp_path: Path) -> None:
    result, _ = solve(tmp_path, ["```bash\nls\n```"] * 5)
    assert result.status == "no_answer"
    assert result.error == "5 replies in a row could not be read"
    assert "```python" in observations(result)[0]


def test_words_are_an_answer(tmp_path: Path) -> None:
    result, _ = solve(tmp_path, ["Paris."])
    assert (result.status, result.answer) == ("answered", "Paris.")


def test_words_that_no_code_stands_behind_are_asked_about_once(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("seven\n")
    data = {"a.txt": tmp_path / "a.txt"}
    result, _ = solve(
        tmp_path, ["It says six.", block("final_answer(open('data/a.txt').read().strip())")], data=data
    )
    assert result.answer == "seven"
    assert "No code has been run yet" in observations(result)[0]
    result, _ = solve(tmp_path, ["It says six."], data=data)
    assert (result.status, result.answer, result.error) == ("answered", "It says six.", None)


def test_a_small_model_is_asked_for_the_value(tmp_path: Path) -> None:
    replies = [block("print(5)"), "The number is 5.", block("final_answer(5)")]
    assert solve(tmp_path, replies, small=True)[0].answer == 5
    assert solve(tmp_path, replies)[0].answer == "The number is 5."


def test_a_small_models_turn_ends_at_its_first_block(tmp_path: Path) -> None:
    two = f"{block('print(1)')}\nand then\n{block('print(2)')}"
    result, _ = solve(tmp_path, [two, block("final_answer('a')")], small=True)
    assert "Output:\n1" in observations(result)[0]
    assert "Output:\n2" not in observations(result)[0]


@pytest.mark.parametrize(
    ("limits", "limit"),
    [(RunLimits(turns=2), "turns"), (RunLimits(tokens=10), "tokens"), (RunLimits(seconds=0.001), "seconds")],
)
def test_limits_end_a_run_as_a_result(tmp_path: Path, limits: RunLimits, limit: str) -> None:
    result, _ = solve(tmp_path, [block("print(1)")] * 9, limits=limits)
    assert result.status == "limit"
    assert result.error is not None
    assert limit in result.error
    assert [event.limit for event in result.events if isinstance(event, events.LimitReached)] == [limit]


def test_figures_and_files_are_handed_over(tmp_path: Path) -> None:
    code = (
        "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()\n"
        "open('out/table.csv', 'w').write('a\\n1\\n')\n"
        "import os; os.makedirs('out/deep'); open('out/deep/n\\n.txt', 'w').write('x'); os.symlink('/etc/passwd', 'out/link')"
    )
    result, model = solve(
        tmp_path, [block(code), block("final_answer('done')")], image="data", sees=True, out=tmp_path / "out"
    )
    assert {artifact.name for artifact in result.artifacts} == {"table.csv", "deep/n_.txt", "figure-1.png"}
    assert (tmp_path / "out" / "table.csv").read_text() == "a\n1\n"
    figure = next(artifact for artifact in result.artifacts if artifact.name == "figure-1.png")
    assert figure.path.read_bytes().startswith(b"\x89PNG")
    assert "(1 figure displayed and saved)" in observations(result)[0]
    assert model.requests[1].messages[-1].images[0].mime == "image/png"
    assert [e.message for e in result.events if isinstance(e, events.Error)] == [
        "out/link: is a link, or lies behind one"
    ]


def test_a_long_output_is_cut_and_kept_in_full_inside(tmp_path: Path) -> None:
    result, _ = solve(
        tmp_path,
        [
            block("for n in range(5000): print('line', n)"),
            block("final_answer(open('/workspace/.outputs/1.txt').read().split('\\n')[2500])"),
        ],
    )
    assert "the full text is in /workspace/.outputs/1.txt" in observations(result)[0]
    assert len(observations(result)[0]) < 9000
    assert result.answer == "line 2500"


def test_tables_and_arrays_are_answers(tmp_path: Path) -> None:
    code = (
        "df = pd.DataFrame({'city': ['Oslo', 'Lima'], 'n': np.array([1, 2]), 'f': [0.5, float('nan')]})\n"
        "final_answer({'table': df, 'series': df.set_index('city').n, 'scalar': df.n.sum(), 'array': np.eye(2),\n"
        "              'time': pd.Timestamp('2026-01-31'), 'missing': pd.NaT})"
    )
    result, _ = solve(tmp_path, [block(code)], image="data")
    assert result.answer == {
        "table": [{"city": "Oslo", "n": 1, "f": 0.5}, {"city": "Lima", "n": 2, "f": None}],
        "series": {"Oslo": 1, "Lima": 2},
        "scalar": 3,
        "array": [[1.0, 0.0], [0.0, 1.0]],
        "time": "2026-01-31",
        "missing": None,
    }
    result, _ = solve(
        tmp_path, [block("final_answer(pd.Series(['Oslo', 'Lima'])[lambda s: s == 'Lima'])")], image="data"
    )
    assert result.answer == "Lima"


class Patient:
    """A model that says nothing until it is told to."""

    name, sees, small = "patient", False, False

    def __init__(self) -> None:
        self.asked, self.go_on = threading.Event(), threading.Event()

    def __call__(self, request: Request) -> Iterator[Delta | Reply]:
        if "interrupted this turn" not in request.messages[-1].content:
            self.asked.set()
            self.go_on.wait(30)
        yield Reply(block("final_answer('after')"))


def test_one_interrupt_ends_the_turn_and_two_the_run(tmp_path: Path) -> None:
    model = Patient()
    agent = Agent(model, image="minimal", runs=tmp_path)
    results: list[Result] = []
    thread = threading.Thread(target=lambda: results.append(agent.run("Do it.")))
    thread.start()
    assert model.asked.wait(60)
    agent.interrupt()
    thread.join(60)
    assert (results[0].status, results[0].answer) == ("answered", "after")
    model.asked.clear()
    thread = threading.Thread(target=lambda: results.append(agent.run("Do it.")))
    thread.start()
    assert model.asked.wait(60)
    agent.interrupt()
    agent.interrupt()
    thread.join(60)
    assert (results[1].status, results[1].error) == ("interrupted", "ended by the person")
    model.go_on.set()


def test_a_cell_that_takes_too_long_says_what_is_left_and_how_to_have_more_time(tmp_path: Path) -> None:
    slow = "rows = list(range(10))\nprint('on')\nimport time\nwhile True: time.sleep(0.01)"
    patient = "import time\nwith more_time(30):\n    time.sleep(1.5)\nfinal_answer(len(rows))"
    agent = Agent(
        ScriptedModel([block(slow), block(patient)]), image="minimal", runs=tmp_path, cell_timeout=0.8
    )
    result = agent.run("Do it.")
    (said, *_) = observations(result)
    assert (result.status, result.answer) == ("answered", 10)
    assert said.startswith("Output:\non\n")
    assert "(the cell was stopped: it ran longer than its 0.8 seconds)" in said
    assert "(step 1 of 5, after 0.8" in said
    assert "(variables that are still there: rows (list of 10))" in said
    assert said.endswith("more_time(120):")


def test_more_time_ends_with_the_run(tmp_path: Path) -> None:
    code = "with more_time(10_000) as got: final_answer(got)"
    agent = Agent(ScriptedModel([block(code)]), image="minimal", runs=tmp_path, limits=RunLimits(seconds=60))
    answer = agent.run("Do it.").answer
    assert isinstance(answer, float)
    assert 0 <= answer <= 60


def test_an_interrupted_cell_keeps_its_variables(tmp_path: Path) -> None:
    model = ScriptedModel(
        [block("n = 1\nprint('on', flush=True)\nwhile True: pass"), block("final_answer(n)")]
    )
    agent = Agent(model, image="minimal", runs=tmp_path)
    seen: list[events.Event] = []
    for event in agent.stream("Do it."):
        seen.append(event)
        if isinstance(event, events.OutputDelta) and getattr(event.output, "text", "") == "on\n":
            agent.interrupt()
    ended = seen[-1]
    assert isinstance(ended, events.RunEnded)
    assert (ended.status, ended.answer) == ("answered", 1)


def test_a_model_that_fails_ends_the_run_and_raises_from_the_stream(tmp_path: Path) -> None:
    result, _ = solve(tmp_path, [block("print(1)")])
    assert result.status == "failed"
    assert result.error is not None
    assert "has no reply left" in result.error
    agent = Agent(ScriptedModel([]), image="minimal", runs=tmp_path / "runs")
    seen: list[events.Event] = []
    with pytest.raises(ModelError):
        seen.extend(agent.stream("Do it."))


def test_an_empty_task_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the task is empty"):
        Agent(ScriptedModel(["x"]), runs=tmp_path).run("  \n")
    assert list(tmp_path.iterdir()) == []


def test_hostile_calls_of_the_host_are_refused(tmp_path: Path) -> None:
    code = (
        "from sandbox_guest.host import call\n"
        "for name, payload in [('final_answer', 'x'), ('names', ['x']), ('run', {}), ('final_answer', {'value': None})]:\n"
        "    try:\n        print(name, call(name, payload))\n    except Exception as error:\n        print(name, 'refused')"
    )
    result, _ = solve(tmp_path, [block(code), block("final_answer(1)")])
    assert observations(result)[0].startswith(
        "Output:\nfinal_answer refused\nnames None\nrun refused\nfinal_answer refused\n"
    )
    assert json.loads(json.dumps(result.answer)) == 1


def test_a_small_model_is_asked_once_where_a_constant_comes_from(tmp_path: Path) -> None:
    replies = [block("print(41)"), block("final_answer(42)"), block("final_answer(42)")]
    result, _ = solve(tmp_path, replies, small=True)
    assert observations(result)[1].startswith("The value 42 was in no output")
    assert (result.status, result.answer, result.usage.calls) == ("answered", 42, 3)
    assert solve(tmp_path, replies)[0].usage.calls == 2


def test_a_small_model_is_asked_once_about_an_answer_that_comes_of_finding_nothing(tmp_path: Path) -> None:
    found = "found = [word for word in ('north', 'south') if word == 'North']"
    counted, right = (
        block(f"{found}\nfinal_answer({{'North': len(found)}})"),
        block("final_answer(['north'])"),
    )
    result, _ = solve(tmp_path, [counted, right], small=True)
    assert "ValueError: {'North': 0} is what comes out where nothing was found" in observations(result)[0]
    assert "Variables that exist now: found (list of 0)." in observations(result)[0]
    assert result.answer == ["north"]
    stood_by, _ = solve(tmp_path, [counted, counted], small=True)
    assert (stood_by.answer, stood_by.usage.calls) == ({"North": 0}, 2)
    assert solve(tmp_path, [counted])[0].usage.calls == 1
    cut, _ = solve(tmp_path, [counted], small=True, limits=RunLimits(turns=1))
    assert (cut.status, cut.answer) == ("answered", {"North": 0})
    died, _ = solve(
        tmp_path, [counted, block("import os; os._exit(7)"), right], small=True, on_death="restore"
    )
    (restarted,) = [event for event in died.events if isinstance(event, events.SandboxRestarted)]
    assert restarted.differences == ("cell 2 was not run again: the kernel ended with it",)


def test_a_small_model_that_answers_without_the_tools_it_has_is_asked_once(tmp_path: Path) -> None:
    @tool(effects="read")
    def price(of: str) -> int:
        return 7

    invented = block("prices = {'A': 3}\nfinal_answer(prices['A'])")
    result, _ = solve(tmp_path, [invented, block("final_answer(price('A'))")], small=True, tools=[price])
    assert observations(result)[0].startswith(
        "No tool has been called yet, so what the code holds is made up"
    )
    assert result.answer == 7
    assert solve(tmp_path, [invented, invented], small=True, tools=[price])[0].answer == 3
    assert solve(tmp_path, [invented], tools=[price])[0].answer == 3
    (tmp_path / "a.txt").write_text("A,3")
    tried = block("final_answer(tools.cost('A'))")  # of a tool that there is not
    assert observations(solve(tmp_path, [tried, invented], small=True, tools=[price])[0])[0].startswith(
        "Output:"
    )
    with_data, _ = solve(tmp_path, [invented], small=True, tools=[price], data={"a.txt": tmp_path / "a.txt"})
    assert with_data.usage.calls == 1


def test_connections_are_events_and_the_rules_tell_what_there_is(tmp_path: Path) -> None:
    with Site({"/": b"home"}) as site:
        code = (
            "import urllib.request, urllib.error\n"
            "print(urllib.request.urlopen('http://api.example.com/').read())\n"
            "try: urllib.request.urlopen('http://evil.example/')\n"
            "except urllib.error.HTTPError as error: print(error)"
        )
        result, model = solve(
            tmp_path, [block(code), block("final_answer(1)")], network=site.network("api.example.com")
        )
    assert "b'home'" in observations(result)[0]
    assert "403: evil.example is refused" in observations(result)[0]
    rules = model.requests[0].messages[0].content
    assert "HTTP and HTTPS reach these hosts and no other: api.example.com." in rules
    assert "There is no network" not in rules
    used = {event.host: event for event in result.events if isinstance(event, events.ConnectionEnded)}
    assert {host: event.outcome for host, event in used.items()} == {
        "api.example.com": "closed",
        "evil.example": "refused",
    }
    assert used["api.example.com"].received > len("home")
    lines = [
        line for line in journal.read(tmp_path / "runs" / result.run) if line["type"] == "connection_ended"
    ]
    assert {line["host"] for line in lines} == set(used)
    assert isinstance(result.events[0], events.RunStarted)
    assert result.events[0].settings["network"] == "api.example.com"


def test_a_connection_that_is_open_at_the_end_is_an_event_too(tmp_path: Path) -> None:
    with Site({"/": b"home"}) as site:
        code = (
            "import socket\nlink = socket.create_connection(('127.0.0.1', 3128))\n"
            "link.sendall(b'CONNECT api.example.com:443 HTTP/1.1\\r\\nHost: h\\r\\n\\r\\n')\n"
            "assert b'200' in link.recv(100)\nfinal_answer(1)"
        )
        result, _ = solve(tmp_path, [block(code)], network=site.network("api.example.com"))
    kinds = [event.type for event in result.events]
    assert kinds[-2:] == ["connection_ended", "run_ended"]


def test_without_a_network_the_rules_say_so(tmp_path: Path) -> None:
    _, model = solve(tmp_path, [block("final_answer(1)")])
    assert "- There is no network. Installed: " in model.requests[0].messages[0].content


def test_runs_that_take_their_sandboxes_from_a_pool(tmp_path: Path) -> None:
    (tmp_path / "n.txt").write_text("40")
    code = "import os\nleft = 'mine' in globals()\nmine = 1\nfinal_answer([int(open('data/n.txt').read()) + 2, left, os.uname().nodename])"
    with Pool("minimal", size=2, prepare=warm) as pool:
        agent = Agent(ScriptedModel([block(code)] * 2), pool=pool, runs=tmp_path / "runs")
        answers = [agent.run("Do it.", {"n.txt": tmp_path / "n.txt"}).answer for _ in range(2)]
    assert [answer[:2] for answer in answers] == [[42, False], [42, False]]
    assert answers[0][2] != answers[1][2]


def test_code_that_floods_its_output_is_told_so(tmp_path: Path) -> None:
    replies = [block("kept = 1\nwhile True: print('x' * 1000)"), block("final_answer(kept)")]
    result, _ = solve(tmp_path, replies, sandbox_limits=Limits(output="2k"), cell_timeout=300)
    first = observations(result)[0]
    assert "it wrote far more output than it may" in first
    assert "Print less" in first
    assert "person" not in first
    assert result.answer == 1
