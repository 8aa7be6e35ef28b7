"""Arguments of calls as models write them."""

from __future__ import annotations

import json

import pytest

from codeact.actions.arguments import Unreadable, read

READ = {
    "nothing": (None, {}),
    "empty": ("", {}),
    "blank": (" \n", {}),
    "an empty list": ("[]", {}),
    "null": ("null", {}),
    "an object": ('{"a": 1, "b": [true, null]}', {"a": 1, "b": [True, None]}),
    "a value": ({"a": 1}, {"a": 1}),
    "encoded twice": (json.dumps('{"a": "x"}'), {"a": "x"}),
    "encoded three times": (json.dumps(json.dumps('{"a": 1}')), {"a": 1}),
    "in a list": ('[{"a": 1}]', {"a": 1}),
    "single quotes": ("{'a': 'it''s', 'b': True, 'c': None}", {"a": "its", "b": True, "c": None}),
    "a trailing comma": ('{"a": [1, 2],}', {"a": [1, 2]}),
    "a newline in a text": ('{"a": "x\ny"}', {"a": "x\ny"}),
    "in a block": ('```json\n{"a": 1}\n```', {"a": 1}),
    "written twice": ('{"a": 1}{"a": 1}', {"a": 1}),
    "behind an empty object": ('{}{"a": 1}', {"a": 1}),
    "a bracket too many": ('{"a": {"b": 1}}}', {"a": {"b": 1}}),
    "marks of a template behind": ('{"a": "</b>"}\n</tool_call><|im_end|>', {"a": "</b>"}),
    "half a surrogate pair": ('{"a": "\\ud800"}', {"a": "?"}),
    "a long number": ('{"a": 12345678901234567890123}', {"a": 12345678901234567890123}),
}
REFUSED = {
    "cut in a text": ('{"order_id": "A-', "are cut off behind"),
    "cut behind a comma": ('{"a": 1,', "are cut off behind"),
    "cut with single quotes": ("{'a': 'x", "are cut off behind"),
    "a number": ("5", "are not an object: '5'"),
    "a word": ("A-1", "are not a JSON object: 'A-1'"),
    "a list": ("[1, 2]", "are not an object: '[1, 2]'"),
    "two objects": ('{"a": 1}{"a": 2}', "are two objects, one after the other"),
    "not a number": ('{"a": NaN}', "NaN is not JSON"),
    "too large a number": ('{"a": 1e999}', "hold what JSON has not"),
    "a bracket too many, and more": (
        '{"a": 1}} x',
        "have something behind their end: '} x'",
    ),
    "a list closed twice": ("[1]]", "have something behind their end: ']'"),
    "no JSON behind": ('{"a": 1}{"b": NaN}', "have something behind their end: '{\"b\": NaN}'"),
    "too many digits": ('{"a": ' + "1" * 5000 + "}", "are not JSON: they hold a number with too many digits"),
    "no quotes": ("{a: 1}", "are not JSON: Expecting property name"),
    "python that is no value": ("{'a': open('/etc/passwd')}", "are not JSON"),
    "a set in a dict": ("{'a': {1, 2}}", "hold what JSON has not"),
    "nested without end": ("[" * 100_000, "deep"),
}


@pytest.mark.parametrize(("given", "expected"), READ.values(), ids=READ)
def test_arguments_are_read_as_they_were_meant(given: object, expected: object) -> None:
    assert read(given) == expected


@pytest.mark.parametrize(("given", "reason"), REFUSED.values(), ids=REFUSED)
def test_what_is_wrong_with_arguments_is_said(given: str, reason: str) -> None:
    with pytest.raises(Unreadable) as caught:
        read(given)
    assert reason in str(caught.value)
    assert not str(caught.value).startswith("are not JSON: are")
    assert len(str(caught.value)) < 300
