"""The agent: a model with instructions and tools, and the ways to run it."""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Generic, TypeAlias, Unpack, cast

from agentform._util.sync import run_blocking
from agentform.agent.approval import Approve
from agentform.agent.conversation import Conversation
from agentform.agent.handoff import agent_tool, handoff_tools
from agentform.agent.observer import Observer
from agentform.agent.options import RunOptions, RunSettings
from agentform.agent.result import OutputT, RunFinish, RunResult
from agentform.agent.run import Run
from agentform.agent.store import ConversationStore
from agentform.agent.streaming import Streaming, StreamingSync, streaming, streaming_sync
from agentform.decoding.limits import Limits
from agentform.errors import InvalidInput
from agentform.events import Emit, Event
from agentform.forms.label_prior import PriorStore, priors_of
from agentform.forms.langchain_decider import DeciderSource, decider_of
from agentform.forms.scoring import Scoring
from agentform.messages import Message
from agentform.runtime.engine import Engine, Sampling
from agentform.schema.target import Target, load
from agentform.tools.policy import OnToolError
from agentform.tools.tool import Tool
from agentform.tools.toolset import Toolbox
from agentform.turn.reasoning import Reasoning
from agentform.turn.turn import TurnRunner

__all__ = ["Agent", "AgentRun", "OnToolError", "RunFinish", "RunOptions", "RunResult"]

AgentRun: TypeAlias = Streaming[RunResult[OutputT]]
"""A run in progress: iterate over its events, then read `result`."""


class Agent(Generic[OutputT]):
    """Reasons in free text, chooses its calls, runs its tools, until it answers.

    An agent holds no conversation and may serve many at once.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        tools: Iterable[Callable[..., Any]] = (),
        instructions: str = "",
        output_type: type[OutputT] | Target | Mapping[str, Any] | None = None,
        name: str = "agent",
        description: str = "",
        handoffs: Iterable[Agent[Any]] = (),
        limits: Limits | None = None,
        sampling: Sampling | None = None,
        scoring: Scoring | None = None,
        reasoning: Reasoning | None = None,
        priors: PriorStore | None = None,
        decider: DeciderSource | None = None,
        on_tool_error: OnToolError = "feed_back",
        approve: Approve | None = None,
        store: ConversationStore | None = None,
        observers: Iterable[Observer] = (),
    ) -> None:
        """Make an agent.

        Args:
            engine: Serves the model.
            tools: Functions, made into tools if they are not yet.
            instructions: What stands in the system message.
            output_type: A type, or a JSON Schema: the answer is filled like a form and is `RunResult.output`. With
                handoffs, the form of the agent that was asked counts.
            name: For observers, handoffs and errors.
            description: What other agents are told of this one, when they may hand over to it.
            handoffs: Agents that may take over the conversation; see `hand_off_to` for agents that name each other.
            limits: Bounds on each run.
            sampling: How tokens of what is written are drawn; by default the most probable is taken. What is chosen is
                always the most probable option.
            scoring: How options are scored; by default as tuned for the model.
            reasoning: How the model thinks before it acts.
            priors: Where label priors are kept.
            decider: A decision model that chooses the next step and closed arguments, as `load_decider` or LangChain
                have them; the engine writes, and decides where it fails.
            on_tool_error: What happens when a tool fails; `tool(on_error=…)` says otherwise for one tool.
            approve: Asked before each call; see `agentform.agent.approval`.
            store: Where conversations are kept between runs.
            observers: Told of runs, turns and tools; see `agentform.agent.observer`.

        Raises:
            ToolError, SchemaError: a tool, a handoff or `output_type` cannot be used.
            InvalidInput: `decider` is no decision model.
        """
        self.engine = engine
        self.name = name
        self.description = description
        self.tools = tools if isinstance(tools, Toolbox) else Toolbox(tools)
        self.limits = limits or Limits()
        self.on_tool_error: OnToolError = on_tool_error
        self.form = _form(output_type)
        self.settings = RunSettings(
            limits=self.limits,
            sampling=sampling or Sampling(),
            approve=approve,
            observers=tuple(observers),
            store=store,
        )
        self._handoffs: dict[str, Agent[Any]] = {}
        described = (instructions, self.form.description if self.form else "")
        self.caller = TurnRunner(
            engine=engine,
            targets={name: tool.target for name, tool in self.tools.items()},
            instructions="\n".join(part for part in described if part),
            scoring=scoring or Scoring.of(engine),
            reasoning=reasoning or Reasoning(),
            priors=priors or priors_of(engine),
            decider=decider_of(decider),
        )
        """Makes the agent's turns."""
        self.hand_off_to(*handoffs)

    @property
    def handoffs(self) -> Mapping[str, Agent[Any]]:
        """Agents that may take over, by the name under which the model sees the handoff: ``transfer_to_<agent>``."""
        return MappingProxyType(self._handoffs)

    def hand_off_to(self, *agents: Agent[Any]) -> None:
        """Let the conversation go over to these agents too: ``billing.hand_off_to(support)``.

        Raises:
            DuplicateTool: two agents share a name, or a tool is named like a handoff.
            InvalidToolName: an agent's name cannot be part of a tool's.
        """
        new = handoff_tools({**self.tools, **self._handoffs}, agents)
        targets = {name: handoff.target for name, (handoff, _) in new.items()}
        self._handoffs |= {name: agent for name, (_, agent) in new.items()}
        self.caller = replace(self.caller, targets={**self.caller.targets, **targets})

    def as_tool(
        self, name: str | None = None, description: str | None = None, *, limits: Limits | None = None
    ) -> Tool[..., Any]:
        """The agent as a tool of another one, which asks it one question per call, in a conversation of its own.

        What it uses is added to the usage of the run that calls it; cancellation, deadline and context pass down, and
        so do observers if it has none of its own, and `approve`, which is asked before its own.

        Raises:
            InvalidToolName: `name`, by default the agent's, cannot name a tool.
        """
        return agent_tool(self, name or self.name, self.description if description is None else description, limits)

    async def run(self, prompt: str | Sequence[Message], **options: Unpack[RunOptions]) -> RunResult[OutputT]:
        """Run to the end; for the options see `RunOptions`.

        Raises:
            DeadlineExceeded: the run was not done by its deadline.
            ToolFailed: a tool raised and the policy is to raise.
            CallRejected, ArgumentsTruncated, Abstained: a call or the answer's form could not be completed.
            InvalidInput: there is nothing to answer, the conversation is in use, or an approval cannot be followed.
            StoreError: the conversation could not be loaded or saved.
            EngineError: the engine could not serve a request.
        """
        return await self._run(prompt, _ignore, options)

    def run_sync(self, prompt: str | Sequence[Message], **options: Unpack[RunOptions]) -> RunResult[OutputT]:
        """`run` for code without an event loop, and for notebooks whose loop is already running."""
        return run_blocking(functools.partial(self.run, prompt, **options))

    @asynccontextmanager
    async def stream(
        self, prompt: str | Sequence[Message], **options: Unpack[RunOptions]
    ) -> AsyncGenerator[AgentRun[OutputT], None]:
        """Run and watch: ``async with agent.stream(…) as run: async for event in run: …``.

        Leaving the block early cancels the run.

        Raises:
            AgentformError: what `run` raises, where the events are read.
        """

        async def work(emit: Emit) -> RunResult[OutputT]:
            return await self._run(prompt, emit, options)

        async with streaming(work) as run:
            yield run

    @contextmanager
    def stream_sync(
        self, prompt: str | Sequence[Message], **options: Unpack[RunOptions]
    ) -> Generator[StreamingSync[RunResult[OutputT]], None, None]:
        """`stream` for code without an event loop, and for notebooks: ``with agent.stream_sync(…) as run: …``.

        The run goes on in a thread of its own, one event ahead of its reader at most.
        """
        with streaming_sync(functools.partial(self.stream, prompt, **options)) as run:
            yield run

    async def _run(self, prompt: str | Sequence[Message], emit: Emit, options: RunOptions) -> RunResult[OutputT]:
        settings = replace(
            self.settings,
            limits=options.get("limits") or self.limits,
            sampling=options.get("sampling") or self.settings.sampling,
            context=options.get("context"),
            approve=options.get("approve") or self.settings.approve,
        )
        conversation = await self._conversation(options.get("conversation"))
        run = Run(self, conversation, settings, emit)
        return cast("RunResult[OutputT]", await run.execute(prompt))

    async def _conversation(self, given: Conversation | str | None) -> Conversation:
        if not isinstance(given, str):
            return given or Conversation()
        if self.settings.store is None:
            raise InvalidInput(f"conversation {given!r} is given by its id, but the agent has no store")
        return await self.settings.store.load(given) or Conversation(id=given)


def _form(output_type: Any) -> Target | None:
    if output_type is None or output_type is str:
        return None
    return output_type if isinstance(output_type, Target) else load(output_type)


async def _ignore(event: Event) -> None:
    del event
