"""Texts that the model writes by itself: what an adapter must not change."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing

from agentform.runtime.engine import Engine, GenerateRequest, Sampling
from agentform.training.material import FreeText

__all__ = ["TOPICS", "topic_prompts", "write_texts"]

TOPICS = (
    "Tell me something about the sea.",
    "How do I boil an egg?",
    "Write two sentences about a train journey.",
    "Why is the sky blue?",
    "Thanks, that helped a lot!",
    "What should I pack for a week in the mountains?",
    "Explain what a library does, to a child.",
    "Give me a short recipe with potatoes.",
    "Who are you, and what can you do?",
    "Write a polite note that declines an invitation.",
    "What is the difference between a lake and a pond?",
    "Describe your morning in three sentences.",
)
"""Messages that no form is asked about."""
_TEXT_TOKENS = 48


async def write_texts(engine: Engine, prompts: Sequence[tuple[int, ...]], *, seed: int) -> list[FreeText]:
    """One answer to every prompt, drawn from the model's own distribution, at most 48 tokens long.

    Raises:
        EngineError: the engine cannot serve the request.
    """
    found: list[FreeText] = []
    for number, prompt_ids in enumerate(prompts):
        sampling = Sampling(temperature=1.0, seed=seed + number)
        request = GenerateRequest(prompt_ids=prompt_ids, max_tokens=_TEXT_TOKENS, sampling=sampling)
        ids: tuple[int, ...] = ()
        async with aclosing(engine.generate(request)) as chunks:
            async for chunk in chunks:
                ids += chunk.token_ids
        if ids:
            found.append(FreeText(prompt_ids=prompt_ids, text_ids=ids))
    return found


def topic_prompts(engine: Engine) -> list[tuple[int, ...]]:
    """The prompts of `TOPICS`."""
    return [engine.tokenizer.render([{"role": "user", "content": topic}]) for topic in TOPICS]
