"""What a model scored for the closed fields of items, kept so that settings are compared without asking it again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from agentform.decoding.insertion_point import InsertionPoint
from agentform.decoding.limits import Limits
from agentform.decoding.session import Session
from agentform.forms.answer import Question
from agentform.forms.fill import Prompts
from agentform.forms.label_prior import PriorStore
from agentform.forms.option_trie import OptionTrie, build_trie
from agentform.forms.prompt_style import pose
from agentform.forms.questions import open_questions
from agentform.forms.scoring import Scoring, answer_from, posed_lines
from agentform.forms.state import FormState
from agentform.runtime.engine import Engine
from benchmarks.common.items import Item

__all__ = ["Recorded", "record", "written"]


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """One field of one item, asked with the fields listed in the prompt or not."""

    question: Question
    raw: Sequence[float]
    lean: Sequence[float]
    """The label prior."""
    written: int
    """What greedy decoding under a grammar of the options' own tokens takes: the fairest writing."""
    gold: frozenset[int]

    def is_right(self, scoring: Scoring) -> bool:
        """Whether the answer under these settings is right."""
        return answer_from(self.question, self.raw, self.lean, scoring).index in self.gold

    def agrees(self) -> bool:
        """Whether raw scoring takes what writing takes."""
        return answer_from(self.question, self.raw, self.lean, Scoring(calibration=0)).index == self.written


async def record(
    engine: Engine, items: Iterable[Item], *, listed: bool, done: Callable[[], None]
) -> list[list[Recorded]]:
    """Per item its fields; every field is asked alone, as `fill` asks independent ones."""
    store, found = PriorStore(), list[list[Recorded]]()
    for item in items:
        prompts = Prompts(engine, item.target, "", listed)
        questions = open_questions(FormState(root=item.target.form.root))
        session = Session(engine, limits=Limits())
        leans = await prompts.priors(store).of(session, questions, Scoring())
        scored = await _score(session, prompts.point(item.messages), questions)
        found.append(
            [
                Recorded(
                    question=question,
                    raw=raw,
                    lean=lean,
                    written=taken,
                    gold=frozenset(at for at in range(len(field.options)) if field.is_right(at)),
                )
                for question, (raw, taken), lean, field in zip(questions, scored, leans, item.fields, strict=True)
            ]
        )
        done()
    return found


async def _score(
    session: Session, point: InsertionPoint, questions: Sequence[Question]
) -> list[tuple[tuple[float, ...], int]]:
    posed = [pose(question, point, "key")[0] for question in questions]
    prompt_ids, lines = posed_lines(session.tokenizer, posed)
    tries = [build_trie(own) for own in lines]
    scored = iter(await session.score(prompt_ids, [branch for trie in tries for branch in trie.branches]))
    rows = [[next(scored) for _ in trie.branches] for trie in tries]
    return [(trie.log_scores(own), written(trie, own)) for trie, own in zip(tries, rows, strict=True)]


def written(trie: OptionTrie, logprobs: Sequence[Sequence[float]]) -> int:
    """The option at the end of the path that takes the most probable token at every node."""
    alive = set(range(len(trie.turns)))
    depth = 0
    while len(alive) > 1:
        branch = trie.turns[next(iter(alive))][depth][0]
        taken = max(range(len(logprobs[branch])), key=logprobs[branch].__getitem__)
        alive = {option for option in alive if trie.turns[option][depth] == (branch, taken)}
        depth += 1
    return alive.pop()
