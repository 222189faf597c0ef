"""A coding agent over one folder: it lists, reads and edits files, and asks before it changes one.

    python examples/coding_agent/agent.py                     # look around in a copy of project/, on SmolLM2
    python examples/coding_agent/agent.py --scripted          # the same tools, all the way to an edit
    python examples/coding_agent/agent.py --model MODEL --folder FOLDER "Fix the bug in stack.py."

A model of 135M parameters can look around; to find a bug takes one of several billion.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path

import anyio
from rich.console import Console
from rich.syntax import Syntax
from rich.text import Text
from workspace import NotAllowed, Workspace

from agentform import (
    Agent,
    AnswerDelta,
    Approve,
    CallReady,
    Deny,
    Engine,
    Limits,
    ReasoningDelta,
    ToolCall,
    ToolFinished,
    load_engine,
)
from agentform.reports import visible_text
from agentform.testing import Call, Say, ScriptedEngine

PROJECT = Path(__file__).parent / "project"
INSTRUCTIONS = "You are a programmer. Look at the files before you answer. Be brief."
QUESTION = "Please read the file stack.py."
SCRIPT = [
    Call("read_file", {"path": "notes.txt"}, text="I look at the notes first."),
    Call("read_file", {"path": "stack.py"}, text="Now the code."),
    Call(
        "edit_file",
        {"path": "stack.py", "old": "self._items.pop(0)", "new": "self._items.pop()"},
        text="pop(0) takes the oldest item.",
    ),
    Say("pop takes the newest item now."),
]
"""What a larger model may do when it is told to fix the bug."""


def approval(workspace: Workspace, console: Console, *, ask: bool) -> Approve:
    """Shows each change before it is made and asks whether it may be."""

    def approve(call: ToolCall) -> bool | Deny:
        try:
            change = workspace.change(call.name, call.arguments)
        except NotAllowed as error:
            return Deny(str(error))
        if change is None:
            return True
        console.print(Syntax(visible_text(change.diff), "diff", background_color="default"))
        allowed = not ask or console.input("Make this change? [y/N] ").strip().lower() == "y"
        return allowed or Deny("the user does not want this change")

    return approve


async def run(agent: Agent, question: str, console: Console) -> None:
    console.print(Text(question, style="bold"))
    async with agent.stream(question) as events:
        async for event in events:
            match event:
                case ReasoningDelta() | AnswerDelta():
                    console.print(Text(visible_text(event.text)), end="")
                case CallReady():
                    console.print(Text(f"\n→ {event.call.name} {dict(event.call.arguments)}", style="bold cyan"))
                case ToolFinished():
                    console.print(
                        Text(visible_text(event.result.content), style="red" if event.result.is_error else "dim")
                    )
    usage = events.result.usage
    console.print(
        f"\n{usage.completion_tokens} tokens written, {usage.cached_tokens} of {usage.prompt_tokens} from the cache"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("question", nargs="?", default=None)
    parser.add_argument("--folder", type=Path, default=None, help="work here, not in a copy of project/")
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--scripted", action="store_true", help="follow a script instead of a model")
    parser.add_argument("--yes", action="store_true", help="allow every change")
    options = parser.parse_args()
    console = Console()

    with tempfile.TemporaryDirectory() as scratch:
        folder = options.folder or Path(shutil.copytree(PROJECT, Path(scratch) / "project"))
        engine: Engine = ScriptedEngine(SCRIPT) if options.scripted else load_engine(options.model)
        workspace = Workspace(folder)
        agent = Agent(
            engine,
            tools=workspace.tools(),
            approve=approval(workspace, console, ask=not (options.yes or options.scripted)),
            instructions=INSTRUCTIONS,
            limits=Limits(
                steps=6 if options.scripted or options.question else 2, answer_tokens=64, reasoning_tokens=32
            ),
            name="coder",
        )
        question = options.question or ("Fix the bug in stack.py." if options.scripted else QUESTION)
        anyio.run(run, agent, question, console)


if __name__ == "__main__":
    main()
