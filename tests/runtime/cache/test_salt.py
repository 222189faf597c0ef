from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agentform._util.prefixes import common_prefix
from agentform.runtime.cache.salt import join_salt, salted, split_salt
from agentform.runtime.cache.tiers.entry_file import Entry, name_of, read_entry, read_header, write_entry

IDS = st.lists(st.integers(0, 2**31 - 1), max_size=5).map(tuple)


@given(IDS, st.text())
def test_a_salt_comes_off_again(ids, salt):
    number, bare = split_salt(salted(ids, salt))
    assert bare == ids
    assert join_salt(bare, number) == salted(ids, salt)
    assert (number == 0) == (not salt or not ids)


@given(IDS, IDS, st.text(), st.text())
def test_sequences_of_two_salts_have_no_common_beginning(ids, more, one, other):
    if one != other:
        assert common_prefix(salted(ids, one), salted((*ids, *more), other)) == 0


def test_an_entry_on_disk_keeps_its_salt_and_one_without_is_as_it_ever_was(tmp_path):
    entries = [Entry(guard="g", ids=salted((1, 2), salt), kv=b"kv", snapshot=b"s") for salt in ("", "a", "b")]
    assert len({name_of(each.guard, each.ids) for each in entries}) == 3
    for entry in entries:
        place = write_entry(tmp_path, entry)
        assert read_entry(place) == entry
        assert read_header(place)[1] == entry.ids
    assert b"salt" not in (tmp_path / name_of("g", (1, 2))).read_bytes()
