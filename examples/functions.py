"""The tools of an agent that called functions by JSON, moved over as they were: definitions, and a function for each."""

from __future__ import annotations

from codeact.tools.definitions import from_definition

DEFINITIONS = [
    {
        "type": "function",
        "function": {
            "name": "get-rate",
            "description": "The exchange rate between two currencies.",
            "parameters": {
                "type": "object",
                "properties": {
                    "from": {"type": "string", "description": "Three letters."},
                    "to": {"type": "string", "enum": ["EUR", "USD"], "default": "EUR"},
                },
                "required": ["from"],
            },
        },
    }
]


def dispatch(name: str, arguments: dict[str, str]) -> float:
    """As it was: one function that gets a name and JSON."""
    rates = {"EUR": 1.0, "USD": 1.1, "GBP": 0.85}
    return rates[arguments.get("to", "EUR")] / rates[arguments["from"]]


get_rate = from_definition(DEFINITIONS[0], lambda **arguments: dispatch("get-rate", arguments))
