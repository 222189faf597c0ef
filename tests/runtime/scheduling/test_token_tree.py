from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agentform.runtime.scheduling.token_tree import pack

PATHS = st.lists(st.lists(st.integers(0, 2), max_size=5).map(tuple), max_size=20)


def spelt(tree, index):
    """The path from the root to a token of a tree."""
    return (*(spelt(tree, tree.parents[index]) if tree.parents[index] >= 0 else ()), tree.tokens[index])


@given(PATHS, st.integers(1, 12))
def test_every_path_ends_in_exactly_one_tree(paths, limit):
    trees = pack(paths, limit)
    assert sorted(path for tree in trees for path in tree.ends) == sorted({path for path in paths if path})
    for tree in trees:
        assert all(parent < index for index, parent in enumerate(tree.parents))
        assert all(spelt(tree, index) == path for path, index in tree.ends.items())
        assert len(tree.tokens) <= limit or len(tree.ends) == 1


@given(PATHS)
def test_shared_beginnings_are_packed_once(paths):
    trees = pack(paths, 1000)
    prefixes = {path[:n] for path in paths for n in range(1, len(path) + 1)}
    assert sum(len(tree.tokens) for tree in trees) == len(prefixes)
    assert len(trees) <= 1
