"""The chat itself: a line from the user, a run of the agent, until there are no more lines."""

from __future__ import annotations

import signal
from collections.abc import Mapping

import anyio
import anyio.lowlevel
from rich.console import Console

from agentform._util.paths import cache_home
from agentform.agent.agent import Agent
from agentform.agent.conversation import Conversation
from agentform.agent.sqlite_store import SQLiteStore
from agentform.cli.cache_stats import show_statistics
from agentform.cli.chat.lines import lines_of
from agentform.cli.chat.settings import ChatSettings
from agentform.cli.chat.tools import load_tools
from agentform.cli.chat.view import TurnView
from agentform.cli.loading import opened
from agentform.cli.mcp_tools import connected, show_left_out
from agentform.cli.plan import show_plan
from agentform.cli.safe_text import SafeText
from agentform.deciders import load_decider
from agentform.errors import AgentformError, InvalidInput
from agentform.forms.decider import Decider
from agentform.forms.label_prior import PriorStore
from agentform.messages import JsonValue
from agentform.runtime.engine import Engine
from agentform.schema.json_text import dumps
from agentform.tools.toolset import Toolbox

__all__ = ["Chat", "run_chat"]

_COMMANDS = ("/help", "/tools", "/cache", "/reset", "/quit")
_HELP = """\
/help    this
/tools   the tools, and what they take
/cache   what the prefix cache did so far
/reset   forget the conversation
/quit    end; so does Ctrl-D. Ctrl-C ends a turn that is going on, not the program."""


def run_chat(console: Console, settings: ChatSettings) -> None:
    """Chat until the input ends.

    Raises:
        InvalidInput, ToolError, SchemaError: a tool or engine is not one.
        StoreError: the conversations cannot be read.
        EngineError: the model cannot be loaded, or the decider's address is none.
    """
    decider = None if settings.decider is None else load_decider(settings.decider)
    chat = Chat(console, settings)
    toolbox = load_tools(settings.tools, chat.ask)
    with connected(settings.mcp, toolbox) as toolbox:
        show_left_out(console, toolbox)
        engine = opened(console, settings.model, settings.engine)
        try:
            chat.start(engine, toolbox, decider)
            chat.run()
        finally:
            anyio.run(engine.aclose)


class Chat:
    """One user, one agent, one conversation. With a name it is kept, and goes on where it ended."""

    def __init__(self, console: Console, settings: ChatSettings) -> None:
        self._console = console
        self._settings = settings
        self._name = settings.conversation
        self._store = None if self._name is None else _store()
        self._lines = lines_of(console, history=cache_home() / "chat_history", commands=_COMMANDS)
        self._view: TurnView | None = None
        self._scope: anyio.CancelScope | None = None

    def start(self, engine: Engine, toolbox: Toolbox, decider: Decider | None = None) -> None:
        """Make the agent, and take up the conversation.

        Raises:
            StoreError: the conversation store cannot be opened, read or written.
        """
        self._engine = engine
        self._toolbox = toolbox
        self._agent = Agent(
            engine,
            tools=toolbox.values(),
            instructions=self._settings.instructions,
            limits=self._settings.limits,
            sampling=self._settings.sampling,
            reasoning=self._settings.reasoning,
            priors=PriorStore(cache_home() / "priors"),
            store=self._store,
            decider=decider,
        )
        self._conversation = self._resumed() or self._new()
        num = len(self._conversation.messages)
        said = f"{engine.info.name}, {len(toolbox)} tools; /help says what else there is"
        self._console.print(SafeText(f"{said}; {num} messages so far" if num else said, style="dim"))

    def run(self) -> None:
        """Serve lines until there are none."""
        while True:
            try:
                line = self._lines.read("> ")
                if line is None or line.strip() == "/quit":
                    return
                self._serve(line.strip())
            except KeyboardInterrupt:
                self._console.print(SafeText("cancelled; /quit or Ctrl-D ends the program", style="red"))

    def _serve(self, line: str) -> None:
        if line.startswith("/"):
            self._command(line)
        elif line:
            self._answer(line)

    async def ask(self, name: str, arguments: Mapping[str, JsonValue]) -> str:
        """What a tool without an implementation returns: the user says it.

        The event loop waits meanwhile, so that of calls in parallel one is asked at a time.
        """
        if self._view is not None:
            self._view.settle()
        self._console.print(SafeText(f"{name} {dumps(dict(arguments))}", style="yellow"))
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            return self._lines.ask(f"{name} returns: ") or ""
        except KeyboardInterrupt:
            assert self._scope is not None  # tools run inside a turn
            self._scope.cancel()
            await anyio.lowlevel.checkpoint()
            raise AssertionError("a cancelled scope lets nothing go on") from None
        finally:
            signal.signal(signal.SIGINT, before)

    def _resumed(self) -> Conversation | None:
        return None if self._store is None or self._name is None else anyio.run(self._store.load, self._name)

    def _new(self) -> Conversation:
        return Conversation() if self._name is None else Conversation(id=self._name)

    def _new_view(self) -> TurnView:
        return TurnView(self._console, shows_reasoning=self._settings.shows_reasoning)

    def _answer(self, prompt: str) -> None:
        try:
            anyio.run(self._run, prompt)
        except AgentformError as error:
            self._console.print(SafeText(f"{type(error).__name__}: {error}", style="red"))

    async def _run(self, prompt: str) -> None:
        with anyio.CancelScope() as self._scope, self._new_view() as self._view:
            async with self._agent.stream(prompt, conversation=self._conversation) as run:
                async for event in run:
                    self._view.show(event)
        if self._scope.cancelled_caught:
            self._console.print(SafeText("cancelled", style="red"))

    def _command(self, command: str) -> None:
        match command:
            case "/help":
                self._console.print(_HELP)
            case "/tools":
                for tool in self._toolbox.values():
                    self._console.print(SafeText(f"{tool.name}: {tool.description}", style="bold"))
                    show_plan(self._console, tool.target)
            case "/cache":
                show_statistics(self._engine.statistics(), self._console)
            case "/reset":
                if self._store is not None and self._name is not None:
                    anyio.run(self._store.delete, self._name)
                self._conversation = self._new()
                self._console.print("forgotten")
            case _:
                self._console.print(
                    SafeText(f"there is no command {command.split()[0]}; /help lists them", style="red")
                )


def _store() -> SQLiteStore:
    """Where named conversations are kept.

    Raises:
        InvalidInput: there can be no such folder.
    """
    try:
        cache_home().mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(f"conversations cannot be kept in {cache_home()}: {error}") from error
    return SQLiteStore(cache_home() / "conversations.sqlite")
