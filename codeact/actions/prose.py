"""What stands around blocks: thinking, inventions, an answer given outside of a block, code that has no block."""

from __future__ import annotations

import itertools
import re

from codeact.actions.python import clean, is_literal_answer, parse

_LABELS = (
    r"observations?|obs|(?:(?:expected|sample|example|program|execution|code execution|tool|code|console|terminal|actual"
    r"|printed) )?(?:output|result)s?|std(?:out|err)|(?:execution )?logs|execution log|tool response|return value"
    # what models that were taught in other languages call it
    r"|resultado|salida|observaci[oó]n|sa[ií]da|ausgabe|ergebnis|beobachtung|sortie|r[eé]sultat|risultato|uitvoer|resultaat"
    r"|wynik|вывод|результат|наблюдение|çıktı|(?:执行|运行|输出)?(?:输出|结果)|观察(?:结果)?|(?:実行)?(?:出力|結果)|출력|결과"
)
INVENTION = re.compile(
    r"^[ \t]*(?:>[ \t]*)?(?:\#{1,6}[ \t]*)?(?:\*{1,3}|__?|[`\[(])?(?:"
    rf"(?:{_LABELS})(?: (?:of|from|after)(?: the)? (?:code|execution|running|script|cell|program)(?: it)?)?"
    r"(?:\*{1,3}|__?|[`\])])?[ \t]*(?:\([^)\n]{0,60}\)[ \t]*)?(?:[:：→]|->|=>|[ \t]*(?:\*{1,3}|__)?[ \t]*\n)"
    rf"|[\[(](?:{_LABELS})[\])]"
    r"|(?:output|result)s? [-=–] ?[-\d\"'(\[{]|(?:=>|→|⇒|➜) ?[-\d\"'(\[{]|out:|out ?\[\d*\]"
    r"|(?:here(?:'s| is) |(?:after|when|upon|on) [^\n:,]{0,60}, )?(?:(?:the|this|its) )?(?:output|result)s?(?: of [^\n:]{0,60}?)?"
    r"(?<!here) (?:is|are|was|were|will be|would be|should be)[ \t]*(?::|[-\d\"'(\[{])"
    r"|here(?:'s| is) (?:the|its) (?:output|result)s?:"
    r"|(?:it|(?:the|this)(?: above)? (?:code|program|script|cell)) (?:printed|returned|outputted)(?::| ?[`\"'\d\[({-])"
    r"|</?(?:\w+_)?(?:observation|output|result|stdout|stderr|response)s?>|<ipython>"
    r"|traceback \(most recent call last\)|(?-i:[A-Z])\w{2,30}Error: "
    r"|(?:user|human|system|tool)(?:\*\*)?:"
    r"|(?<=\#)[ \t]*(?:user|human|instruction|response)s?:?[ \t]*\n"
    r")",
    re.IGNORECASE | re.MULTILINE,
)
# where a chat template would begin the next turn: nothing behind it is the model's, in any reply
NEXT_TURN = re.compile(
    r"<\|(?:im_start|im_end|eot_id|eom_id|eot|end|endoftext|end_of_text|start_header_id|header_start|user|assistant|system"
    r"|observation|ipython|tool_response|call|return|start)\|>|\[/?INST\]|\[/?TOOL_RESULTS\]|</s>|<eos>"
    r"|<(?:start|end)_of_turn>|<｜(?:User|Assistant|end▁of▁sentence|tool▁outputs?▁begin)｜>"
)
WITHIN_CODE = re.compile(
    rf"^(?:{_LABELS}|user|human):(?![^\n]* = )|{NEXT_TURN.pattern}", re.IGNORECASE | re.MULTILINE
)

# what a chat template writes before a reply, and may leave in it
_HEAD = re.compile(
    r"\s*(?:<s>|<\|begin_of_text\|>|<\|im_start\|>assistant\n|<\|start_header_id\|>assistant<\|end_header_id\|>"
    r"|<start_of_turn>model\n|<\|assistant\|>|<｜Assistant｜>"
    r"|(?:<\|start\|>assistant)?<\|channel\|>analysis<\|message\|>(?:(?!<\|end\|>).)*+<\|end\|>"
    r"|(?:<\|start\|>assistant)?<\|channel\|>[^<\n]{0,80}(?:<\|constrain\|>\w+)?<\|message\|>)+",
    re.DOTALL,
)
_THINKING = re.compile(
    r"\s*(?:<(?P<tag>think|thinking|thought|reasoning|scratchpad|reflection|seed:think)>|(?P<square>\[THINK\])|(?P<kimi>◁think▷))",
    re.IGNORECASE,
)
# tags that may be left open and still be followed by the action
_LOOSE = ("reasoning", "scratchpad", "reflection")
_THOUGHT_UP = re.compile(
    r"^(?:[^\n]{0,200}?</think(?:ing)?>[ \t]*$|</think(?:ing)?>)", re.IGNORECASE | re.MULTILINE
)
_ANSWER = re.compile(r"(?<![\w.])final\\?_answer[ \t]*\(")
_TAGGED_ANSWER = re.compile(
    r"^[ \t]*<(?P<tag>final_answer|answer)>\s*(?P<answer>[^<]+)</(?P=tag)>[ \t]*$",
    re.MULTILINE | re.IGNORECASE,
)
_BEFORE_ANSWER = re.compile(
    r"(?:[^\n:`]{0,60}:)?[\s>*_`#\"'$-]*(?:\d{1,2}[.)] )?(?:return )?[*_`]*", re.DOTALL
)
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
STRAY_END = re.compile(
    r"^[ \t]*(?:`{3,}|~{3,}|</(?:code|execute|python|tool_code)>)|<\|(?:call|return|e\w+)\|>", re.MULTILINE
)


def behind_thinking(text: str, *, partial: bool = False) -> int | None:
    """The offset behind the thinking that the reply starts with (0 without any); None if it never ends."""
    head = _HEAD.match(text)
    at = head.end() if head else 0
    while opening := _THINKING.match(text, at):
        stop = thinking_end(text, opening)
        if stop is None and (opening["tag"] or "").lower() in _LOOSE and not partial:
            break
        if stop is None:
            return None
        at = stop
    if at == 0 and "<think" not in text and (closing := _THOUGHT_UP.search(text)):
        return closing.end()  # chat templates write the opening tag themselves
    return at


def thinking_at(text: str, at: int, *, partial: bool) -> int | None:
    """Where thinking ends that begins at `at`, in the midst of a reply; None where none does."""
    opening = _THINKING.match(text, at)
    if opening is None:
        return None
    stop = thinking_end(text, opening)
    return len(text) if stop is None and partial else stop


def thinking_end(text: str, opening: re.Match[str]) -> int | None:
    close = "[/THINK]" if opening["square"] else "◁/think▷" if opening["kimi"] else f"</{opening['tag']}>"
    closing = re.compile(re.escape(close), re.IGNORECASE).search(text, opening.end())
    return closing.end() if closing else None


def tagged_answer(prose: str) -> tuple[str, int, int] | None:
    """A call of `final_answer` for an answer between tags of its own, with where these start and end."""
    answer = _TAGGED_ANSWER.search(prose)
    if answer is None:
        return None
    value = answer["answer"].strip()
    literal = re.fullmatch(r"-?\d+(?:\.\d+)?|\[.*\]|\{.*\}|\".*\"|'.*'", value, re.DOTALL)
    source = f"final_answer({value})"
    return (source if literal and parse(source) else f"final_answer({value!r})"), answer.start(), answer.end()


def stated_answer(prose: str) -> tuple[str, int, int] | None:
    """A call of `final_answer` with a value written out, behind words on its line, which it ends."""
    for opening in itertools.islice(_ANSWER.finditer(prose), 8):
        stop = _closing_bracket(prose, opening.end() - 1)
        if stop is not None and re.match(r"[`*_.\"';]*[ \t]*$", prose[stop : stop + 8], re.MULTILINE):
            source = clean(prose[opening.start() : stop])
            if is_literal_answer(source):
                return source, opening.start(), stop
    return None


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
