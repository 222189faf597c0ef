from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentform.errors import ReplyMalformed
from agentform.runtime.http.event_stream import EventStream

LINE = st.binary(max_size=12).filter(lambda line: not set(line) & set(b"\r\n"))
EVENT = st.lists(LINE, min_size=1, max_size=3)
END = st.sampled_from([b"\n", b"\r\n", b"\r"])


def cut(data: bytes, places: list[int]) -> list[bytes]:
    bounds = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(bounds)]


@given(st.lists(EVENT, max_size=4), END, st.booleans(), st.lists(st.integers(0, 10_000), max_size=12))
def test_events_are_the_same_however_the_body_is_cut(events, end, with_comments, places):
    body = b""
    for event in events:
        body += b": keep alive" + end if with_comments else b""
        body += b"".join(b"data: " + line + end for line in event) + end
    # A carriage return at the very end may be half of a line's end; what follows tells.
    stream, found = EventStream(), []
    for piece in [*cut(body, places), b"\n"]:
        found += stream.feed(piece)
    assert found == [b"\n".join(event) for event in events]
    assert stream.is_empty


@given(st.binary(max_size=60), st.lists(st.integers(0, 60), max_size=6))
def test_any_bytes_are_read_alike_whole_and_in_pieces(data, places):
    whole, pieces = EventStream(), EventStream()
    expected = whole.feed(data)
    assert [event for piece in cut(data, places) for event in pieces.feed(piece)] == expected
    assert pieces.is_empty == whole.is_empty


def test_an_event_is_out_with_the_byte_that_ends_it():
    stream = EventStream()
    assert stream.feed(b'data: {"a": 1}\n') == []
    assert not stream.is_empty
    assert stream.feed(b"\n") == [b'{"a": 1}']
    assert stream.is_empty


def test_other_fields_are_passed_over():
    assert EventStream().feed(b"event: x\nid: 1\ndata:no space\nretry: 3\n\n\n\n") == [b"no space"]


def test_an_event_without_end_is_not_collected_for_ever():
    stream = EventStream(most_bytes=100)
    for _ in range(10):
        stream.feed(b"data: 1234")
    with pytest.raises(ReplyMalformed, match="100 bytes"):
        stream.feed(b"5")
