"""Runs in the environment of bfcl-eval, whose data, tool documents and checker are used as they are.

bfcl-eval's table of models imports a client of each vendor. The checker reads one fact of it, whether dots in names
came as underscores, which is so for every handler of OpenAI's interface; a table with that fact stands in for it.
"""

from __future__ import annotations

import importlib
import json
import random
import sys
import types
from collections import defaultdict
from typing import Any

_MODEL = "served"


def tasks(asked: dict[str, Any]) -> list[dict[str, Any]]:
    """The drawn items of each category, as a request of OpenAI's interface has them."""
    utils, tools = importlib.import_module("bfcl_eval.utils"), importlib.import_module("bfcl_eval.model_handler.utils")
    enums = importlib.import_module("bfcl_eval.constants.enums")
    mapping = importlib.import_module("bfcl_eval.constants.type_mappings").GORILLA_TO_OPENAPI
    found: list[dict[str, Any]] = []
    for category in asked["categories"]:
        entries = utils.load_dataset_entry(category)
        order = list(range(len(entries)))
        random.Random(asked["seed"]).shuffle(order)
        for index in order[: asked["items"]]:  # more items are these and others
            entry = entries[index]
            functions = tools.convert_to_tool(entry["function"], mapping, enums.ModelStyle.OPENAI_COMPLETIONS)
            found.append(
                {"id": entry["id"], "category": category, "messages": entry["question"][0], "tools": functions}
            )
    return found


def score(asked: dict[str, Any]) -> dict[str, Any]:
    """By item whether Berkeley's checker takes its calls, and what it has against them."""
    utils = importlib.import_module("bfcl_eval.utils")
    checker = importlib.import_module("bfcl_eval.eval_checker.ast_eval.ast_checker")
    language = importlib.import_module("bfcl_eval.constants.enums").Language.PYTHON
    verdicts: dict[str, Any] = {}
    for category, answers in asked["answers"].items():
        entries = {entry["id"]: entry for entry in utils.load_dataset_entry(category)}
        wants_none, wants_some = "irrelevance" in category, "relevance" in category
        truths = {} if wants_some else {each["id"]: each for each in utils.load_ground_truth_entry(category)}
        for name, calls in answers.items():
            if wants_some:
                verdicts[name] = {"valid": bool(calls) != wants_none}
                continue
            truth = truths[name]["ground_truth"]
            verdict = checker.ast_checker(entries[name]["function"], calls, truth, language, category, _MODEL)
            verdicts[name] = {"valid": bool(verdict["valid"]), "error": verdict.get("error_type")}
    return verdicts


def _stand_in() -> None:
    table = types.ModuleType("bfcl_eval.constants.model_config")
    fact = types.SimpleNamespace(underscore_to_dot=True)
    table.MODEL_CONFIG_MAPPING = defaultdict(lambda: fact)  # type: ignore[attr-defined]
    sys.modules[table.__name__] = table


def main() -> None:
    """One request on standard input, one answer on standard output."""
    _stand_in()
    asked = json.load(sys.stdin)
    json.dump({"tasks": tasks, "score": score}[asked["op"]](asked), sys.stdout)


if __name__ == "__main__":
    main()
