"""The decisions that a right call takes: which tool, and what its closed arguments are.

They are asked where a turn asks them that calls at once, without free text before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from agentform.decoding.call_results import bound_results
from agentform.decoding.insertion_point import unframed
from agentform.decoding.thinking import settle
from agentform.decoding.token_context import TokenContext
from agentform.errors import InvalidInput
from agentform.forms.labelled_forms import form_decisions
from agentform.forms.prompt_style import pose
from agentform.forms.scoring import Scoring, posed_lines
from agentform.messages import JsonValue, Message
from agentform.runtime.engine import Engine
from agentform.runtime.labelled import LabelledDecision
from agentform.schema.target import Target
from agentform.turn.next_step import step_question, tool_lines
from agentform.turn.turn import TurnRunner

__all__ = ["LabelledCall", "call_decisions"]


@dataclass(frozen=True, kw_only=True)
class LabelledCall:
    """A conversation, the tools that are there, and the call that is right next."""

    messages: Sequence[Message]
    targets: Mapping[str, Target]
    """What each tool's arguments must satisfy, by tool name."""
    name: str
    arguments: Mapping[str, JsonValue]
    instructions: str = ""


def call_decisions(engine: Engine, call: LabelledCall) -> list[LabelledDecision]:
    """Every decision that leads to the call.

    Raises:
        InvalidInput: there is no such tool, or its schema does not accept the arguments.
    """
    if call.name not in call.targets:
        raise InvalidInput(f"the labelled call {call.name!r} is of no tool that is there: {', '.join(call.targets)}")
    scoring = Scoring.of(engine)
    runner = TurnRunner(engine=engine, targets=call.targets, instructions=call.instructions, scoring=scoring)
    prompt = TokenContext(ids=runner.prompt(bound_results(call.messages)))
    point = runner.places.first_arguments(prompt, call.name)
    target = call.targets[call.name]
    arguments = form_decisions(engine.tokenizer, target, point, dict(call.arguments), scoring)
    return [*_tool_decision(runner, prompt, call.name), *arguments]


def _tool_decision(runner: TurnRunner, prompt: TokenContext, name: str) -> list[LabelledDecision]:
    names, tokenizer = list(runner.targets), runner.engine.tokenizer
    if len(names) == 1:
        return []
    settled = settle(tokenizer, runner.format, prompt.ids)
    context = replace(prompt, ids=settled.ids)
    if runner.format.step_lead:
        question = step_question(names, None)
        posed = pose(question, unframed(context.with_text(runner.format.step_lead)), "key")
        prompt_ids, [lines] = posed_lines(tokenizer, posed)
    else:
        before = runner.places.name(context, settled.before_calls(runner.format, after_text=False))
        prompt_ids, lines = before.ids, tool_lines(tokenizer, before, names, runner.places.after_name)
    return [LabelledDecision(prompt_ids=prompt_ids, options=tuple(lines), right=names.index(name))]
