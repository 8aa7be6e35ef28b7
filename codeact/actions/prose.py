"""What stands around blocks: thinking, inventions, an answer given outside of a block, code that has no block."""

from __future__ import annotations

import re

from codeact.actions.python import clean, parse

_LABELS = (
    r"observations?|(?:(?:expected|sample|example|program|execution|tool|code|console|terminal|actual) )?"
    r"(?:output|result)s?|std(?:out|err)"
)
INVENTION = re.compile(
    r"^[ \t]*(?:>[ \t]*)?(?:\#{1,6}[ \t]*)?(?:\*\*|__|[*_])?(?:"
    rf"(?:{_LABELS})(?:\*\*|__|[*_])?[ \t]*(?:\([^)\n]{{0,60}}\)[ \t]*)?(?::|(?:\*\*|__)?[ \t]*\n)"
    r"|out ?\[\d*\]"
    r"|(?:(?:the|this|its) )?(?:output|result)s?(?: of [^\n:]{0,60}?)? (?:is|are|was|were|will be|would be|should be)"
    r"[ \t]*(?::|[-\d\"'(\[{])"
    r"|</?(?:observation|output|result|stdout|tool_response|tool_output|tool_result|execution_result"
    r"|execution_output|function_results?)>"
    r"|traceback \(most recent call last\)"
    r"|(?:user|human)(?:\*\*)?:"
    r")",
    re.IGNORECASE | re.MULTILINE,
)
# where a chat template would begin the next turn: nothing behind it is the model's, in any reply
NEXT_TURN = re.compile(
    r"<\|(?:im_start|im_end|eot_id|eom_id|end|endoftext|start_header_id|user|assistant|system|observation)\|>|\[/?INST\]|</s>"
)
WITHIN_CODE = re.compile(
    rf"^(?:{_LABELS}|user|human):(?![^\n]* = )|{NEXT_TURN.pattern}", re.IGNORECASE | re.MULTILINE
)

_THINKING = re.compile(r"\s*<(think|thinking|thought)>", re.IGNORECASE)
_THOUGHT_UP = re.compile(
    r"^(?:[^\n]{0,200}?</think(?:ing)?>[ \t]*$|</think(?:ing)?>)", re.IGNORECASE | re.MULTILINE
)
_ANSWER = re.compile(r"(?<![\w.])final_answer[ \t]*\(")
_BEFORE_ANSWER = re.compile(r"(?:[^\n:`]{0,60}:)?[\s>*_`#-]*", re.DOTALL)
_MENTIONED = re.compile(r"[*_`]*,? [a-z]")
_MARKS = "*_`"
_BRACKETS = re.compile(
    r"\"\"\"(?:[^\\]|\\.)*?\"\"\"|'''(?:[^\\]|\\.)*?'''|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|[()\[\]{}]",
    re.DOTALL,
)
CODE_LINE = re.compile(
    r"^[ \t]*(?:import \w[\w., ]*|from [\w.]+ import .*|def \w+\(.*\).*:|print\(.*\)|action input:.*)[ \t]*$"
    r"|(?<![\w.])final_answer\([^)\s]",
    re.IGNORECASE | re.MULTILINE,
)
_PROSE = re.compile(r"\s*[A-Z][\w'-]*,?(?: [\w'`\"*.-]+[,.:]?){2,}")
JSON_ACTION = re.compile(r"\s*\{\s*\"(?:name|thought|code|tool|action|function|arguments)\"\s*:")
STRAY_END = re.compile(r"^[ \t]*(?:`{3,}|~{3,}|</(?:code|execute|python|tool_code)>)", re.MULTILINE)


def behind_thinking(text: str) -> int | None:
    """The offset behind the thinking that the reply starts with (0 without any); None if it never ends."""
    at = 0
    while opening := _THINKING.match(text, at):
        closing = re.compile(rf"</{opening[1]}>", re.IGNORECASE).search(text, opening.end())
        if closing is None:
            return None
        at = closing.end()
    if at == 0 and "<think" not in text and (closing := _THOUGHT_UP.search(text)):
        return closing.end()  # chat templates write the opening tag themselves
    return at


def without_prose(body: str) -> str:
    """The body of a block that nothing closed, without the paragraphs of prose at its end."""
    code = body
    for _ in range(4):
        code, blank, paragraph = code.rpartition("\n\n")
        if not blank or not _PROSE.match(paragraph):
            break
        if parse(code) is not None:
            return code.rstrip()
    return body


def bare_answer(prose: str) -> tuple[str, int, int] | None:
    """The first call of `final_answer` that stands on a line of its own, with where it and its marks start and end.

    Before it may stand a label with a colon. Where its brackets do not close, it is the rest of the line.
    """
    for opening in _ANSWER.finditer(prose):
        call = opening.start()
        line = max(prose.rfind("\n", max(0, call - 100), call) + 1, call - 100)
        if not _BEFORE_ANSWER.fullmatch(prose, line, call):
            continue
        stop = _closing_bracket(prose, opening.end() - 1)
        if stop is None:
            stop = prose.find("\n", call) if "\n" in prose[call:] else len(prose)
        if not _MENTIONED.match(prose, stop):
            start = line + len(prose[line:call].rstrip(_MARKS))
            rest = prose[stop : stop + 4]
            return clean(prose[call:stop].rstrip()), start, stop + len(rest) - len(rest.lstrip(_MARKS))
    return None


def _closing_bracket(text: str, start: int) -> int | None:
    """The offset behind the bracket that closes the one at `start`; those in strings do not count."""
    depth = 0
    for bracket in _BRACKETS.finditer(text, start):
        depth += 1 if bracket[0] in "([{" else -1 if bracket[0] in ")]}" else 0
        if depth == 0:
            return bracket.end()
    return None
