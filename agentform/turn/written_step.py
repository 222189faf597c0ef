"""The next step with an engine that cannot score: the model writes a tool's name, or that it answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from agentform.decoding.session import Session
from agentform.decoding.token_context import TokenContext
from agentform.errors import ArgumentMalformed
from agentform.forms.generate import write_leaf
from agentform.forms.state import FormState
from agentform.forms.written import require_no_scores
from agentform.messages import Evidence, JsonValue
from agentform.schema.form import Free

__all__ = ["write_step"]


async def write_step(
    session: Session, context: TokenContext, names: Sequence[str], *, lead: str, answer: str | None
) -> Evidence:
    """One of `names`, or `answer`, whose evidence has the value `None`; written where scoring would ask for it.

    What is none of them, as a server writes that follows no schema, is asked for again, `Limits.repairs` times at most.

    Raises:
        CannotScore: the limits ask for a probability or a legal mass.
        ArgumentMalformed, ArgumentsTruncated: none of them was written.
        EngineError: the engine cannot serve the request.
    """
    if len(names) == 1 and answer is None:
        return Evidence(pointer="", value=names[0], how="fixed")
    require_no_scores(session)
    options = [*names, answer] if answer is not None else list(names)
    written = ""
    for _ in range(session.limits.repairs + 1):
        try:
            value = await _written(session, context.with_text(f"{lead} "), options, answer)
        except ArgumentMalformed as error:
            written = error.written
            continue
        if value in options:
            return Evidence(pointer="", value=None if value == answer else value, how="written")
        written = str(value)
    raise ArgumentMalformed(pointer="", written=written, reason=f"the next step is none of {', '.join(options)}")


async def _written(session: Session, context: TokenContext, options: Sequence[str], answer: str | None) -> JsonValue:
    schema: dict[str, JsonValue] = {"type": "string", "enum": list(options), "description": _meaning(answer)}
    leaf = Free(path=(), schema=schema)
    state = await write_leaf(session, context, FormState(root=leaf), leaf, follow="\n")
    return replace(state, root=leaf).value


def _meaning(answer: str | None) -> str:
    tools = "the tool to call next"
    return f"{tools}, or {answer!r} to reply to the user without one" if answer is not None else tools
