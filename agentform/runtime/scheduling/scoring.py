"""A score in progress: the rest of the prompt, then the branches as token trees."""

from __future__ import annotations

from dataclasses import replace

from agentform.errors import DeadlineExceeded
from agentform.runtime.cache.ranges import PositionRanges, join
from agentform.runtime.engine import ScoreRequest, ScoreResult
from agentform.runtime.scheduling.logits import LogProbs, Row, Rows
from agentform.runtime.scheduling.request import Job
from agentform.runtime.scheduling.segment import Segment
from agentform.runtime.scheduling.token_tree import TokenTree, pack
from agentform.runtime.thread_channel import Mailbox

__all__ = ["ScoreJob"]


class ScoreJob(Job):
    """Computes the prompt's rest and the branches; the first tree shares a step with the prompt's end.

    A segment and its positions; the scratch part is borrowed and goes back right after the step::

        tokens      prompt rest [0, r) | tree [r, r + t)
        positions   grown, kept        | scratch
    """

    def __init__(
        self,
        request: ScoreRequest,
        *,
        mailbox: Mailbox[ScoreResult],
        deadline: float | None,
        max_tree_tokens: int,
        logprobs: LogProbs,
        max_tree_ends: int | None = None,
    ) -> None:
        """`logprobs` reads a row of logits; a tree holds at most `max_tree_ends` of the paths asked for."""
        self._branches = request.branches
        self._reads_prompt = any(not branch.path for branch in request.branches)
        # The last prompt token is computed again where its own logits are asked for.
        usable = len(request.prompt_ids) - self._reads_prompt
        super().__init__(
            request.prompt_ids,
            mailbox=mailbox,
            deadline=deadline,
            usable=usable,
            conversation=request.conversation,
            boundaries=request.boundaries,
            salt=request.cache_salt,
        )
        self._trees = pack([branch.path for branch in request.branches], max_tree_tokens, max_ends=max_tree_ends)
        self._logprobs = logprobs
        self._wanted: dict[tuple[int, ...], dict[int, float]] = {}
        for branch in request.branches:
            self._wanted.setdefault(branch.path, {}).update(dict.fromkeys(branch.candidates, 0.0))
        self._scratch: PositionRanges = ()
        self._reading: list[tuple[int, ...]] = []  # the path whose end each row of the current segment is

    @property
    def extra_tokens(self) -> int:
        return max((len(tree.tokens) for tree in self._trees), default=0)

    def next_segment(self, budget: int, *, whole: bool) -> Segment | None:
        rest = min(budget, self.num_prompt - self.num_computed)
        ends_prompt = self.num_computed + rest == self.num_prompt
        tree = self._trees[0] if self._trees and ends_prompt else None
        if tree is not None and len(tree.tokens) > budget - rest and (rest or not whole):
            tree = None
        if not rest and tree is None:
            return None
        return self._segment(rest, tree, ends_prompt)

    def advance(self, segment: Segment, logits: Rows) -> None:
        self._advance(segment)
        if self._scratch:
            self._return_scratch()
            self._trees.pop(0)
        self._keep()
        for path, row in zip(self._reading, logits, strict=True):
            self._read(self._wanted[path], row)
        if not self._trees and self.num_computed == self.num_prompt:
            self._finish(self._result())

    def expire(self) -> None:
        self.fail(DeadlineExceeded(f"the score of {len(self._branches)} branches was not done by its deadline"))

    def admit_trivial(self) -> bool:
        """Answer at once if the whole prompt is cached and nothing has to be computed."""
        if self._trees or self.num_computed < self.num_prompt:
            return False
        self._finish(self._result())
        return True

    def rewind(self) -> None:
        if self._scratch:
            self._return_scratch()
        super().rewind()

    def _segment(self, rest: int, tree: TokenTree | None, ends_prompt: bool) -> Segment:
        self._reading = [()] if rest and ends_prompt and self._reads_prompt else []
        chain = self._continue(rest, rows=(rest - 1,) if self._reading else ())
        if tree is None:
            return chain
        self._scratch = self.cache.borrow(self.lease, len(tree.tokens))
        self._reading += tree.ends
        return replace(
            chain,
            token_ids=(*chain.token_ids, *tree.tokens),
            runs=join(chain.runs, self._scratch),
            rows=(*chain.rows, *(rest + index for index in tree.ends.values())),
            parents=_parents(rest, tree),
            num_sequence=rest,
        )

    def _read(self, wanted: dict[int, float], row: Row) -> None:
        """Fill in log p of the wanted ids; row `[vocabulary]`. One row at a time bounds the float32 copies."""
        ids = list(wanted)
        wanted.update(zip(ids, self._logprobs(row, ids), strict=True))

    def _result(self) -> ScoreResult:
        logprobs = tuple(tuple(self._wanted[b.path][c] for c in b.candidates) for b in self._branches)
        return ScoreResult(logprobs=logprobs, usage=self._usage())

    def _return_scratch(self) -> None:
        self.cache.give_back(self.lease, self._scratch)
        self._scratch = ()

    def _end(self) -> None:
        if self._scratch:
            self._return_scratch()
        super()._end()


def _parents(num_rest: int, tree: TokenTree) -> tuple[int, ...]:
    """Parents for a chain of `num_rest` tokens with the tree hanging from its end."""
    return (*range(-1, num_rest - 1), *(num_rest + p if p >= 0 else num_rest - 1 for p in tree.parents))
