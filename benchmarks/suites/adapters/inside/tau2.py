"""tau2-bench."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from .plain import NotACopy, digest, imported


class Tau2:
    """The retail domain; each customer's scenario is given as one request."""

    def __init__(self, path: Path) -> None:
        data = path / "data" / "tau2" / "domains" / "retail"
        needed = [data / name for name in ("db.json", "tasks.json", "policy.md")]
        missing = [each for each in needed if not each.is_file()]
        if missing:
            raise NotACopy(f"{missing[0]} is not there; give a clone of tau2-bench")
        os.environ.setdefault("TAU2_DATA_DIR", str(path / "data"))
        self.model = imported("tau2.domains.retail.data_model", path / "src", "tau2")
        self.kit = imported("tau2.domains.retail.tools", path / "src", "tau2")
        self.database, tasks, policy = needed
        self.policy = policy.read_text(encoding="utf-8")
        self.asked = {str(each["id"]): each for each in json.loads(tasks.read_text(encoding="utf-8"))}

    def tasks(self) -> list[dict[str, Any]]:
        made = []
        for key, asked in self.asked.items():
            self.start(key)
            wanted = (asked.get("evaluation_criteria") or {}).get("actions") or []
            for action in wanted:
                try:
                    self.call(action["name"], action["arguments"])
                except Exception:  # noqa: BLE001 - as in the original, what fails changes nothing
                    pass
            made.append(
                {
                    "id": key,
                    "policy": self.policy,
                    "request": self.request(asked["user_scenario"]["instructions"]),
                    "tools": self.tools(),
                    "solution": [(action["name"], action["arguments"]) for action in wanted],
                    "state": digest(self.state()),
                }
            )
        return made

    def request(self, told: Any) -> str:
        if isinstance(told, str):
            return told
        names = ("reason_for_call", "known_info", "unknown_info", "task_instructions")
        return "\n".join(str(told[name]).strip() for name in names if told.get(name))

    def tools(self) -> list[dict[str, Any]]:
        """Their own definitions, and whether a call of each writes."""
        return [
            {**tool.openai_schema["function"], "writes": "WRITE" in str(self.toolkit.tool_type(name)).upper()}
            for name, tool in self.toolkit.get_tools().items()
        ]

    def start(self, key: str) -> None:
        self.toolkit = self.kit.RetailTools(self.model.RetailDB.load(self.database))
        begin = (self.asked[key].get("initial_state") or {}).get("initialization_data") or {}
        if begin.get("agent_data"):
            self.toolkit.update_db(begin["agent_data"])

    def call(self, tool: str, arguments: dict[str, Any]) -> Any:
        return self.toolkit.use_tool(tool, **arguments)

    def state(self) -> Any:
        return self.toolkit.db.model_dump(mode="json")

    def score(self, answer: Any) -> bool:
        return True
