"""Options as tokens in context: a trie whose inner nodes are the only places where the model is asked.

An option's score is the product of the raw probabilities at the decision nodes on its path, up to the token that
identifies it. Forced tokens do not count, so long and short options compete on equal terms.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from agentform._util.prefixes import shared_prefix
from agentform.errors import TokenizationChanged
from agentform.runtime.engine import Branch, Tokenizer

__all__ = ["OptionTrie", "build_any_trie", "build_trie", "option_lines"]

_MANY_OPTIONS = 32
_LEAST = 1e-9


@dataclass(frozen=True, kw_only=True)
class OptionTrie:
    """Decision nodes over a set of token lines."""

    branches: tuple[Branch, ...]
    """One per node with two or more children: the path from the end of the prompt, and the children."""
    turns: tuple[tuple[tuple[int, int], ...], ...]
    """Per option, the (branch index, candidate index) pairs on its path."""

    def log_scores(self, logprobs: Sequence[Sequence[float]]) -> tuple[float, ...]:
        """Log score of each option, given the log probabilities of each branch's candidates."""
        return tuple(sum(logprobs[branch][child] for branch, child in path) for path in self.turns)


def build_trie(lines: Sequence[tuple[int, ...]]) -> OptionTrie:
    """Trie over at least two distinct token lines, none a prefix of another.

    Raises:
        TokenizationChanged: two lines are equal or one is a prefix of another, so that they cannot be told apart.
    """
    branches: list[Branch] = []
    turns: list[list[tuple[int, int]]] = [[] for _ in lines]
    pending = [list(range(len(lines)))]
    while pending:
        members = pending.pop()
        depth = len(shared_prefix([lines[member] for member in members]))
        children = _children(lines, members, depth)
        for child, group in enumerate(children.values()):
            for option in group:
                turns[option].append((len(branches), child))
            if len(group) > 1:
                pending.append(group)
        branches.append(Branch(path=lines[members[0]][:depth], candidates=tuple(children)))
    return OptionTrie(branches=tuple(branches), turns=tuple(map(tuple, turns)))


@dataclass(frozen=True, kw_only=True)
class BeginningTrie(OptionTrie):
    """Lines of which some are the beginning of all others: these have what probability the others leave.

    So it is where a string is written without quotes: any text may stand there, `null` among them.
    """

    groups: tuple[int | None, ...]
    """Per option, its candidate in the only branch; `None` for a beginning."""

    def log_scores(self, logprobs: Sequence[Sequence[float]]) -> tuple[float, ...]:
        """Log score of each option; options that begin alike share what their beginning has."""
        [row] = logprobs
        rest = math.log(max(1.0 - sum(map(math.exp, row)), _LEAST))
        sizes = Counter(self.groups)
        return tuple((rest if g is None else row[g]) - math.log(sizes[g]) for g in self.groups)


def build_any_trie(lines: Sequence[tuple[int, ...]]) -> OptionTrie:
    """As `build_trie`, also for lines of which some are the beginning of all others.

    Raises:
        TokenizationChanged: all lines are equal, so that they cannot be told apart.
    """
    try:
        return build_trie(lines)
    except TokenizationChanged:
        start = min(lines, key=len)
        firsts = {line[len(start)] for line in lines if len(line) > len(start)}
        if not firsts or any(line[: len(start)] != start for line in lines):
            raise
    candidates = tuple(sorted(firsts))
    at = {token: index for index, token in enumerate(candidates)}
    groups = tuple(at[line[len(start)]] if len(line) > len(start) else None for line in lines)
    return BeginningTrie(branches=(Branch(path=start, candidates=candidates),), turns=(), groups=groups)


def _children(lines: Sequence[tuple[int, ...]], members: list[int], depth: int) -> dict[int, list[int]]:
    children: dict[int, list[int]] = {}
    for member in members:
        if depth >= len(lines[member]):
            raise TokenizationChanged(f"option {member} cannot be told from another by its tokens")
        children.setdefault(lines[member][depth], []).append(member)
    return children


def option_lines(tokenizer: Tokenizer, text: str, options: Sequence[str]) -> tuple[tuple[int, ...], ...]:
    """Token ids of `text + option` for each option, tokenised as one line so that merges across the seam hold.

    `text` starts where a token starts. Each option carries what follows it in the written call.

    Raises:
        TokenizationChanged: the tokenizer does not give a line's text back, so its tokens are not the text.
    """
    head, near = _split(tokenizer, text, options) if len(options) > _MANY_OPTIONS else ((), text)
    lines = tuple(head + tokenizer.encode(near + option) for option in options)
    # Of very many, two stand for all: decoding every line would cost as much as encoding them.
    for index in range(len(lines)) if len(options) <= _MANY_OPTIONS else (0, len(lines) - 1):
        if tokenizer.decode(lines[index]) != text + options[index]:
            raise TokenizationChanged(f"option {options[index]!r} does not survive tokenisation")
    return lines


def _split(tokenizer: Tokenizer, text: str, options: Sequence[str]) -> tuple[tuple[int, ...], str]:
    """Token ids of the far part of `text` and its near part, where cutting there changes no token."""
    for cut in (text.rfind("\n"), text.rfind(" ")):
        if cut <= 0:
            continue
        head = tokenizer.encode(text[:cut])
        probes = (options[0], options[-1])
        if all(head + tokenizer.encode(text[cut:] + o) == tokenizer.encode(text + o) for o in probes):
            return head, text[cut:]
    return (), text
