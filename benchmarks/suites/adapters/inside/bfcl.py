"""Berkeley Function Calling Leaderboard, tasks of several turns."""

from __future__ import annotations

import ast
import copy
import importlib
import inspect
from pathlib import Path
from typing import Any

from .plain import NotACopy, as_json, digest, imported, json_schema, jsonl


class Bfcl:
    """Tasks of several turns over classes that keep state."""

    FILES = ("BFCL_v4_multi_turn_base.json", "BFCL_v3_multi_turn_base.json")
    CONFIG = "bfcl_eval.constants.executable_backend_config"

    def __init__(self, path: Path) -> None:
        places = [path, path / "berkeley-function-call-leaderboard", *path.glob("lib/python*/site-packages")]
        root = next((each for each in places if (each / "bfcl_eval" / "data").is_dir()), None)
        if root is None:
            raise NotACopy(
                "there is no bfcl_eval/data in it; give a clone of gorilla, or the environment with bfcl-eval"
            )
        self.data = root / "bfcl_eval" / "data"
        found = [self.data / name for name in self.FILES if (self.data / name).is_file()]
        if not found:
            raise NotACopy(f"there is none of {', '.join(self.FILES)} in {self.data}")
        config = imported(self.CONFIG, root, "bfcl-eval")
        self.modules, self.docs = config.CLASS_FILE_PATH_MAPPING, config.MULTI_TURN_FUNC_DOC_FILE_MAPPING
        self.stateless = getattr(config, "STATELESS_CLASSES", ["MathAPI"])
        self.made: list[tuple[str, dict[str, Any]]] = []
        self.asked = {each["id"]: each for each in jsonl(found[0])}
        self.truth = {
            each["id"]: each["ground_truth"] for each in jsonl(self.data / "possible_answer" / found[0].name)
        }

    def tasks(self) -> list[dict[str, Any]]:
        made = []
        for key, asked in self.asked.items():
            self.start(key)
            self.made.clear()
            wanted = [as_json(self._run(call)) for turn in self.truth[key] for call in turn]
            made.append(
                {
                    "id": key,
                    "turns": [
                        "\n".join(message["content"] for message in turn) for turn in asked["question"]
                    ],
                    "tools": self.tools(asked),
                    "wanted": wanted,
                    "solution": as_json(self.made),
                    "state": digest(self.state()),
                }
            )
        return made

    def tools(self, asked: dict[str, Any]) -> list[dict[str, Any]]:
        left_out = set(asked.get("excluded_function", ()))
        found = [
            doc
            for name in asked["involved_classes"]
            for doc in jsonl(self.data / "multi_turn_func_doc" / self.docs[name])
        ]
        return [
            {
                "name": doc["name"],
                "description": doc["description"],
                "parameters": json_schema(doc["parameters"]),
            }
            for doc in found
            if doc["name"] not in left_out
        ]

    def start(self, key: str) -> None:
        asked = self.asked[key]
        self.instances: dict[str, Any] = {}
        for name in asked["involved_classes"]:
            made = getattr(importlib.import_module(self.modules[name]), name)()
            if name not in self.stateless:
                made._load_scenario(copy.deepcopy(asked["initial_config"].get(name, {})), long_context=False)
            self.instances[name] = made

    def call(self, tool: str, arguments: dict[str, Any]) -> Any:
        return self._method(tool)(**arguments)

    def _method(self, name: str) -> Any:
        found = (getattr(each, name, None) for each in self.instances.values())
        method = next((each for each in found if inspect.ismethod(each)), None)
        if method is None or name.startswith("_"):
            raise LookupError(f"there is no function {name}")
        return method

    def _run(self, text: str) -> Any:
        """A call of the ground truth, which is written as Python."""
        try:
            return self._value(ast.parse(text, mode="eval").body)
        except Exception as error:  # noqa: BLE001 - as in the original, an error is a result
            return f"Error during execution: {error}"

    def _value(self, node: Any) -> Any:
        if not isinstance(node, ast.Call):
            return ast.literal_eval(node)
        assert isinstance(node.func, ast.Name)
        name = node.func.id
        arguments = {str(each.arg): self._value(each.value) for each in node.keywords}
        if node.args:
            given = [self._value(each) for each in node.args]
            arguments = dict(inspect.signature(self._method(name)).bind(*given, **arguments).arguments)
        self.made.append((name, copy.deepcopy(arguments)))
        return self.call(name, arguments)

    def state(self) -> Any:
        return {name: as_json(instance) for name, instance in self.instances.items()}

    def score(self, answer: Any) -> bool:
        return True
