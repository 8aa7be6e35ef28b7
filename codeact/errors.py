"""What can go wrong on the host, and what ends a run.

CodeActError                one line: the thing, the reason, the mend
├── UsageError              bad input: a flag, a file, a task                 exit code 2
├── JournalError            a run that cannot be recorded any more
├── ModelError              no model, or one that does not answer             exit code 5
│   ├── ModelNotFound       unknown name, missing extra, missing weights
│   │   └── ScriptEnded     a script or a recording has no reply left
│   ├── ModelAuthError      the key was refused
│   ├── ModelUnreachable    no connection, or it broke and retries are used up
│   ├── ModelBadReply       the endpoint answers what is not a chat completion
│   └── ModelRefused        the endpoint refused this request (4xx), or filtered the reply
├── ToolError               a tool, or a call of one
│   ├── ToolSourceError     what was given as tools cannot be read as such      exit code 2
│   ├── UnknownTool         a call of what is no tool, or is turned off
│   ├── ArgumentError       a call with unknown, missing or wrong arguments
│   ├── CallRefused         by policy, a budget, or a person
│   ├── ToolTimeout         it took longer than it may
│   └── CallCancelled       nobody waits for it any more
└── RunEnded                carries how a run ended; raised inside the loop only
    ├── Answered
    ├── NoAnswer
    ├── LimitReached
    └── Interrupted

Errors of the sandbox are `sandbox.errors.SandboxError`                       exit code 4
"""

from __future__ import annotations

from typing import Any


class CodeActError(Exception):
    pass


class UsageError(CodeActError):
    pass


class JournalError(CodeActError):
    pass


class ModelError(CodeActError):
    pass


class ModelNotFound(ModelError):
    pass


class ScriptEnded(ModelNotFound):
    pass


class ModelAuthError(ModelError):
    pass


class ModelUnreachable(ModelError):
    pass


class ModelBadReply(ModelError):
    pass


class ModelRefused(ModelError):
    pass


class ToolError(CodeActError):
    pass


class ToolSourceError(ToolError, UsageError):
    pass


class UnknownTool(ToolError):
    pass


class ArgumentError(ToolError):
    pass


class CallRefused(ToolError):
    pass


class ToolTimeout(ToolError):
    pass


class CallCancelled(ToolError):
    pass


class RunEnded(CodeActError):
    """`answer` is the accepted answer where there is one; the message says why the run ended."""

    status = "failed"

    def __init__(self, message: str = "", answer: Any = None) -> None:
        super().__init__(message)
        self.answer = answer


class Answered(RunEnded):
    status = "answered"


class NoAnswer(RunEnded):
    status = "no_answer"


class LimitReached(RunEnded):
    """`limit` is `turns`, `seconds` or `tokens`, `value` what it was set to."""

    status = "limit"

    def __init__(self, limit: str, value: float) -> None:
        super().__init__(f"the limit of {value:,.10g} {limit} was reached")
        self.limit, self.value = limit, value


class Interrupted(RunEnded):
    status = "interrupted"
