from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agentform._util.prefixes import common_prefix, shared_prefix

IDS = st.lists(st.integers(0, 2), max_size=8).map(tuple)


@given(a=IDS, b=IDS, offset=st.integers(0, 9))
def test_a_common_prefix_counts_what_is_the_same_from_an_offset_on(a, b, offset):
    num = common_prefix(a, b, offset)
    rest = b[offset:]
    assert a[:num] == rest[:num]
    assert num == min(len(a), len(rest)) or a[num] != rest[num]


@given(sequences=st.lists(IDS, max_size=6))
def test_what_all_begin_with_is_the_longest_such(sequences):
    found = shared_prefix(sequences)
    assert all(each[: len(found)] == found for each in sequences)
    longer = {each[: len(found) + 1] for each in sequences}
    assert not sequences or len(longer) > 1 or longer == {found}
