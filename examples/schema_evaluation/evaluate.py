"""Look at a schema before it is used: what is chosen and what is written, what is open, what depends on what.

    python examples/schema_evaluation/evaluate.py [--texts N]

The same as `agentform plan ticket:Ticket --lint --probe texts.jsonl`, in Python.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from rich.console import Console
from ticket import Ticket

from agentform.reports import probe_target, read_texts, show_hints, show_plan
from agentform.schema import load_target


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--texts", type=int, default=None, help="probe with the first so many texts only")
    parser.add_argument("--model", default="smollm2-135m")
    options = parser.parse_args()

    console, target = Console(), load_target(Ticket)
    console.rule("How each leaf is filled")
    show_plan(console, target)
    console.rule("Where the schema is open although it need not be")
    show_hints(console, target)
    console.rule("Which fields depend on one another")
    texts = read_texts(Path(__file__).parent / "texts.jsonl")[: options.texts]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "texts.jsonl"
        file.write_text("\n".join(map(json.dumps, texts)), encoding="utf-8")
        probe_target(console, target, options.model, file)


if __name__ == "__main__":
    main()
