"""One task through smolagents' CodeAgent; run by `benchmarks.peers.smolagents` in an environment of its own.

Lines of JSON: the first that comes in is the task; `{"call": N, "tool": ..., "arguments": ...}` goes out and is answered by
`{"call": N, "value": ...}` or `{"call": N, "error": {"type": ..., "message": ...}}`; `{"end": ...}` is the last to go out.
"""

import json
import os
import sys
import threading
import time
import warnings
from typing import Any

import openai
from smolagents import CodeAgent, OpenAIModel, Tool  # type: ignore[import-not-found]
from smolagents.monitoring import LogLevel  # type: ignore[import-not-found]
from smolagents.utils import AgentGenerationError  # type: ignore[import-not-found]

KNOWN_TYPES = ("string", "boolean", "integer", "number", "array", "object")
COMMANDS, SAYS = sys.stdin, sys.stdout
LOCK = threading.Lock()


def say(**line: Any) -> None:
    with LOCK:
        SAYS.write(json.dumps(line, default=plain) + "\n")
        SAYS.flush()


def end(told: dict[str, Any]) -> None:
    """The last line, and the end of the process: whoever comes first."""
    line = json.dumps({"end": told}, default=plain) + "\n"
    with LOCK:
        SAYS.write(line)
        SAYS.flush()
        os._exit(0)


def plain(value: Any) -> Any:
    """What JSON has not: values of numpy and pandas as theirs, all else as text."""
    for name in ("to_dict", "tolist", "item"):
        made = getattr(value, name, None)
        if callable(made):
            return made()
    return str(value)


class Remote:
    """The tools of the task, which run in the process that sent it."""

    def __init__(self) -> None:
        self.calls = 0
        self.seconds = 0.0
        self.faults: set[str] = set()

    def tools(self, definitions: list[dict[str, Any]]) -> list[Any]:
        return [self._tool(each["function"]) for each in definitions]

    def _tool(self, function: dict[str, Any]) -> Any:
        properties = function["parameters"].get("properties", {})
        required = function["parameters"].get("required", [])
        inputs = {name: self._input(name, schema, required) for name, schema in properties.items()}

        def forward(tool: Any, *values: Any, **named: Any) -> Any:
            return self._call(function["name"], {**dict(zip(inputs, values, strict=False)), **named})

        made = {
            "name": function["name"],
            "description": function["description"],
            "inputs": inputs,
            "output_type": "any",
            "skip_forward_signature_validation": True,
            "forward": forward,
        }
        return type(f"Remote_{function['name']}", (Tool,), made)()

    @staticmethod
    def _input(name: str, schema: dict[str, Any], required: list[str]) -> dict[str, Any]:
        kind = schema.get("type")
        told = {
            "type": kind if kind in KNOWN_TYPES else "any",
            "description": schema.get("description", name),
        }
        return told if name in required else {**told, "nullable": True}

    def _call(self, name: str, arguments: dict[str, Any]) -> Any:
        began = time.monotonic()
        self.calls += 1
        say(call=self.calls, tool=name, arguments=arguments)
        answer = json.loads(COMMANDS.readline())
        self.seconds += time.monotonic() - began
        if "error" in answer:
            error = answer["error"]
            self.faults.add(error["message"])
            raise type(error["type"], (Exception,), {})(error["message"])
        return answer["value"]


class Counted(OpenAIModel):  # type: ignore[misc]
    """Counts requests, tokens and time."""

    requests, prompt, completion, cached, reasoning, seconds = 0, 0, 0, 0, 0, 0.0
    served, fingerprint = "", ""
    asked: float | None = None

    def spent(self) -> float:
        """Seconds of all requests, with the one that is under way."""
        return self.seconds + (0.0 if self.asked is None else time.monotonic() - self.asked)

    def generate(self, *args: Any, **kwargs: Any) -> Any:
        self.asked = began = time.monotonic()
        try:
            reply = super().generate(*args, **kwargs)
        finally:
            self.seconds += time.monotonic() - began
            self.asked = None
        self.requests += 1
        self.served = getattr(reply.raw, "model", "") or self.served
        self.fingerprint = getattr(reply.raw, "system_fingerprint", "") or self.fingerprint
        usage = getattr(reply.raw, "usage", None)
        if usage is not None:
            self.prompt += usage.prompt_tokens
            self.completion += usage.completion_tokens
            details = getattr(usage, "prompt_tokens_details", None)
            self.cached += getattr(details, "cached_tokens", None) or 0
            details = getattr(usage, "completion_tokens_details", None)
            self.reasoning += getattr(details, "reasoning_tokens", None) or 0
        return reply


def run(task: dict[str, Any]) -> dict[str, Any]:
    remote, limits = Remote(), task["limits"]
    sampling = {name: value for name, value in task["sampling"].items() if value is not None}
    model = Counted(
        model_id=task["model"],
        api_base=task["base_url"],
        api_key=os.environ["PEER_API_KEY"],
        client_kwargs={"max_retries": task["max_retries"] - 1},
        **sampling,
    )
    began = time.monotonic()
    stopped: list[str] = []

    def check(step: Any, agent: Any = None) -> None:
        """Ends the run at a limit of the attempt, as the other arms do: between two turns."""
        if limits["seconds"] is not None and time.monotonic() - began >= limits["seconds"]:
            stopped.append("seconds")
        if limits["tokens"] is not None and model.prompt + model.completion >= limits["tokens"]:
            stopped.append("tokens")
        if stopped:
            maker.interrupt_switch = True

    maker = CodeAgent(
        tools=remote.tools(task["tools"]),
        model=model,
        additional_authorized_imports=task["imports"],
        max_steps=limits["turns"] or 1000,
        max_print_outputs_length=task["budget"],
        executor_kwargs={"additional_functions": {"open": open}, "timeout_seconds": None},
        step_callbacks=[check],
        verbosity_level=LogLevel.OFF,
    )

    def told(status: str, answer: Any = None, error: str | None = None) -> dict[str, Any]:
        steps = maker.memory.get_full_steps()
        return {
            "answer": answer,
            "status": status,
            "error": error,
            "calls": model.requests,
            "prompt_tokens": model.prompt,
            "completion_tokens": model.completion,
            "cached_tokens": model.cached,
            "reasoning_tokens": model.reasoning,
            "served": model.served,
            "fingerprint": model.fingerprint,
            "seconds": time.monotonic() - began,
            "model_seconds": model.spent(),
            "tool_seconds": remote.seconds,
            "turns": sum("step_number" in step for step in steps),
            "errors": [_error(step["error"], remote.faults) for step in steps if step.get("error")],
            "observation_chars": sum(len(str(step.get("observations") or "")) for step in steps),
            "steps": steps,
        }

    if limits["seconds"] is not None:
        # within a request or a cell too, as the other arms are ended: neither has a limit of its own here
        late = threading.Timer(limits["seconds"], lambda: end(told("seconds")))
        late.daemon = True
        late.start()
    answer, status, error = None, "answered", None
    try:
        result = maker.run(task["text"], return_full_result=True)
        answer = result.output
        if result.state == "max_steps_error":
            status = "turns"
    except AgentGenerationError as failure:
        status, error = _kind(failure), " ".join(str(failure).split())[:500]
    except Exception:
        if not stopped:
            raise
        status = stopped[0]  # the failure is our own switch's
    return told(status, answer, error)


def _kind(failure: BaseException) -> str:
    cause: BaseException | None = failure
    while cause is not None:
        if isinstance(
            cause, openai.AuthenticationError | openai.PermissionDeniedError | openai.NotFoundError
        ):
            return "unusable"
        if isinstance(cause, openai.BadRequestError | openai.UnprocessableEntityError):
            return "refused"
        cause = cause.__cause__ or cause.__context__
    return "failed"


def _error(error: dict[str, Any], counted: set[str]) -> str:
    """The class of an error, as the other arms have them; empty for what is none, or is counted as a call that failed."""
    match error.get("type"):
        case "AgentParsingError":
            return "format"
        case "AgentMaxStepsError":
            return ""
    message = str(error.get("message", ""))
    if any(fault in message for fault in counted):
        return ""
    return "syntax" if "SyntaxError" in message else "exception"


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.stdout = sys.stderr  # what the package prints is not part of what is said here
    end(run(json.loads(COMMANDS.readline())))
