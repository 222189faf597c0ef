"""One turn that a client asks for, in whichever API: what every wire translates its requests into."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentform.agent.responder import ToolChoice, UseTool
from agentform.decoding.limits import Limits
from agentform.errors import AgentformError, InvalidToolName
from agentform.grammar.spec import GrammarSpec
from agentform.messages import Message
from agentform.runtime.engine import Sampling
from agentform.schema.target import Target
from agentform.serve.problems import Refused, bad_request, problem_of
from agentform.serve.settings import ServerSettings
from agentform.tools.tool import Tool
from agentform.tools.toolset import Toolbox
from agentform.turn.effort import TEXT_TOKENS, THOUGHT_TOKENS
from agentform.turn.reasoning import Reasoning

__all__ = ["AskedTool", "TurnBudget", "TurnRequest", "toolbox_of", "tools_key"]

_NO_ARGUMENTS = {"type": "object", "properties": {}, "additionalProperties": False}
_MOST_CALLS = 16
"""Calls of one turn, where a request allows several."""
_LEAST_FOR_A_CALL = 64
_MOST_FOR_A_CALL = 512


@dataclass(frozen=True, kw_only=True)
class AskedTool:
    """A tool as a request describes it; nobody can run it here."""

    name: str
    description: str = ""
    parameters: Mapping[str, Any] | None = None
    strict: bool = False


@dataclass(frozen=True, kw_only=True)
class TurnRequest:
    """One turn that a client asks for."""

    messages: tuple[Message, ...]
    limits: Limits
    reasoning: Reasoning
    sampling: Sampling
    tools: tuple[AskedTool, ...] = ()
    tool_choice: ToolChoice = "auto"
    allowed: tuple[str, ...] | None = None
    """The tools that may be called, where the model is told of more."""
    output: Target | None = None
    grammar: GrammarSpec | None = None
    stop: tuple[str, ...] = ()
    conversation: str | None = None
    logprobs: int | None = None
    """How many alternatives of each token are told; `None`: nothing of any."""
    num_answers: int = 1
    own: frozenset[str] = frozenset()
    """Names of the tools that are run here, and of which the client is told only what they returned."""

    @property
    def must_call(self) -> bool:
        """Whether the turn can only end in a call."""
        return self.tool_choice not in ("auto", "none")

    @property
    def may_call(self) -> bool:
        """Whether free text may yet be followed by a call."""
        return bool(self.tools) and self.tool_choice != "none"

    @property
    def is_formed(self) -> bool:
        """Whether an answer is a form or matches a grammar."""
        return self.output is not None or self.grammar is not None


@dataclass(frozen=True, kw_only=True)
class TurnBudget:
    """How many tokens a turn may spend, and on what."""

    settings: ServerSettings
    asked: int | None
    """Sampled tokens in all; `None`: as many as the server's settings say."""
    effort: str | None = None
    text_tokens: int | None = None
    """Free text before a call; `None`: by the effort, or else as the settings say."""
    thought_tokens: int | None = None
    """A thought between a model's own marks; `None`: by the effort."""
    template_arguments: Mapping[str, Any] | None = None
    choice: ToolChoice = "auto"
    may_call: bool = False
    is_formed: bool = False
    parallel: bool = False
    thinks: bool = False
    """Whether the model was trained to think between marks."""

    @property
    def most(self) -> int:
        """Sampled tokens in all."""
        return self.asked or self.settings.max_tokens

    def limits(self) -> Limits:
        """What the turn may spend."""
        room = self._room() // 4 if self.thinks and self._has_aim else self._room()
        return Limits(
            completion_tokens=self.most,
            reasoning_tokens=min(room, self._text_tokens()),
            answer_tokens=self.most,
            argument_tokens=self.most,
            parallel_calls=_MOST_CALLS if self.parallel else 1,
        )

    def reasoning(self) -> Reasoning:
        """How a model thinks that was trained to."""
        asked = THOUGHT_TOKENS[self.effort or "medium"] if self.thought_tokens is None else self.thought_tokens
        room = self._room() - self._room() // 4 if self._has_aim else self.settings.max_tokens
        return Reasoning(
            effort=self.effort, max_tokens=min(asked, room), template_arguments=self.template_arguments or {}
        )

    @property
    def _has_aim(self) -> bool:
        return self.may_call or self.is_formed

    def _room(self) -> int:
        """What may be said before a call or form, so that enough is left for it."""
        if self.is_formed or (self.may_call and self.choice != "auto"):
            kept = min(max(self.most // 4, _LEAST_FOR_A_CALL), _MOST_FOR_A_CALL)
            return max(0, self.most - kept)
        return self.most - self.most // 4 if self.may_call else self.most

    def _text_tokens(self) -> int:
        if self.text_tokens is not None:
            return self.text_tokens
        if self.effort is not None:
            return TEXT_TOKENS[self.effort]
        # Who names the tool has decided already: nothing is said before such a call unless it is asked for.
        return 0 if isinstance(self.choice, UseTool) else self.settings.reasoning_tokens


def tools_key(tools: Sequence[AskedTool]) -> str:
    """Equal for requests with equal tools."""
    return json.dumps([[tool.name, tool.description, tool.parameters, tool.strict] for tool in tools], sort_keys=False)


def toolbox_of(key: str) -> Toolbox:
    """The tools that `tools_key` tells apart.

    Raises:
        Refused: a tool is none that can be called; `param` is as in a chat request.
    """
    made: dict[str, Tool[..., Any]] = {}
    for at, (name, description, parameters, strict) in enumerate(json.loads(key)):
        if name in made:
            raise bad_request(f"two tools are named {name!r}", param=f"tools[{at}].function.name")
        try:
            made[name] = Tool.from_schema(
                parameters or _NO_ARGUMENTS, name=name, description=description, lenient=not strict
            )
        except InvalidToolName as error:
            raise Refused(problem_of(error, param=f"tools[{at}].function.name")) from error
        except AgentformError as error:
            raise Refused(problem_of(error, param=f"tools[{at}].function.parameters")) from error
    return Toolbox(made.values())
