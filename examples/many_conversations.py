"""Many conversations at once on one engine, and a page that shows how the cache did.

    python examples/many_conversations.py [--conversations 8] [--turns 4] [--budget-mb 64] [--out hit_rate.html]

All begin with the same instructions; each goes on in its own way and comes back after a pause. The page shows the hit
rate over time, the reasons of misses, and each conversation. A smaller budget shows evictions.
"""

from __future__ import annotations

import argparse
import random
from functools import partial
from pathlib import Path

import anyio
from rich.console import Console

from agentform import Agent, Conversation, Limits, load_engine
from agentform.reports import show_statistics
from agentform.telemetry import HitRateHistory, hit_rate_page

INSTRUCTIONS = """You are the guide of a small museum of technology. Answer in one short sentence.
The museum is open from nine to five, on Thursdays to eight. A ticket costs 9 euros, 5 for children and students.
Ground floor: steam engines and the printing press. First floor: telephones, radios and the first computers.
Second floor: satellites, and a model of the moon lander. The restaurant is on the ground floor beside the exit."""
QUESTIONS = [
    "When do you open?",
    "How much is a ticket for a student?",
    "Where are the old computers?",
    "Is there something to eat?",
    "What is on the second floor?",
    "Can I come in the evening?",
    "Where do I find the printing press?",
    "What would you show to a child of six?",
]


async def visitor(agent: Agent, name: str, *, turns: int, pause_s: float, rng: random.Random) -> None:
    """One conversation, with pauses in which others are served."""
    conversation = Conversation(id=name)
    for question in rng.sample(QUESTIONS, k=turns):
        await anyio.sleep(rng.uniform(0, pause_s))
        await agent.run(question, conversation=conversation)


async def run(
    agent: Agent, history: HitRateHistory, *, conversations: int, turns: int, pause_s: float, seed: int
) -> None:
    async with anyio.create_task_group() as sampling:
        sampling.start_soon(lambda: history.watch(agent.engine.statistics, every_s=0.5))
        async with anyio.create_task_group() as visitors:
            for number in range(1, conversations + 1):
                rng = random.Random(seed + number)
                come = partial(visitor, agent, f"visitor-{number}", turns=turns, pause_s=pause_s, rng=rng)
                visitors.start_soon(come)
        sampling.cancel_scope.cancel()
    history.add(agent.engine.statistics())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--conversations", type=int, default=8)
    parser.add_argument("--turns", type=int, default=4, choices=range(1, len(QUESTIONS) + 1))
    parser.add_argument("--pause", type=float, default=4.0, help="most seconds between two questions of a visitor")
    parser.add_argument("--budget-mb", type=int, default=64)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("hit_rate.html"))
    options = parser.parse_args()

    engine = load_engine(options.model, kv_budget_bytes=options.budget_mb << 20)
    agent = Agent(engine, instructions=INSTRUCTIONS, limits=Limits(answer_tokens=24), name="guide")
    history = HitRateHistory()
    size = {"conversations": options.conversations, "turns": options.turns}
    anyio.run(lambda: run(agent, history, **size, pause_s=options.pause, seed=options.seed))

    console = Console()
    show_statistics(engine.statistics(), console)
    options.out.write_text(
        hit_rate_page(history.samples, title=f"{options.conversations} conversations"), encoding="utf-8"
    )
    history.save(options.out.with_suffix(".jsonl"))
    console.print(
        f"Open {options.out} in a browser; the samples are in {options.out.with_suffix('.jsonl')}.", soft_wrap=True
    )


if __name__ == "__main__":
    main()
