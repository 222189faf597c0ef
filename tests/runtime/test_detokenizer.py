from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentform.runtime.detokenizer import TextStream


def run(pieces, stops=()):
    stream = TextStream(stops)
    given_out = [stream.feed(piece) for piece in pieces]
    return given_out, stream.flush(), stream.stop


def test_half_characters_are_held_back():
    rocket = "🚀".encode()
    given_out, rest, _ = run([b"a" + rocket[:1], rocket[1:3], rocket[3:] + b"b"])
    assert given_out == ["a", "", "🚀b"]
    assert rest == ""


def test_an_incomplete_character_at_the_end_is_dropped():
    assert run([b"a", "é".encode()[:1]])[:2] == (["a", ""], "")


def test_bytes_that_are_no_text_become_replacement_characters():
    assert run([b"a\xff", b"b"])[0] == ["a\ufffd", "b"]


def test_stop_split_over_pieces():
    given_out, rest, stop = run([b"one EN", b"D", b"! more"], ["END!"])
    assert (given_out, rest, stop) == (["one ", "", ""], "", "END!")


def test_what_only_looked_like_a_stop_comes_out():
    given_out, rest, stop = run([b"EN", b"EN", b"X"], ["END"])
    assert "".join(given_out) + rest == "ENENX"
    assert given_out == ["", "EN", "ENX"]
    assert stop is None


def test_held_back_text_comes_out_at_the_end():
    assert run([b"so EN"], ["END"])[:2] == (["so "], "EN")


@pytest.mark.parametrize(("stops", "stop", "text"), [(["b", "ab"], "ab", ""), (["abc", "b"], "b", "a")])
def test_the_stop_that_is_complete_first_wins(stops, stop, text):
    for pieces in ([b"abc"], [b"a", b"b", b"c"]):
        given_out, rest, found = run(pieces, stops)
        assert (found, "".join(given_out) + rest) == (stop, text)


@given(st.text("abé", max_size=12), st.lists(st.text("abé", min_size=1, max_size=3), max_size=3), st.data())
def test_result_does_not_depend_on_how_the_text_is_cut(text, stops, data):
    whole_out, whole_rest, whole_stop = run([text.encode()], stops)
    pieces, left = [], text.encode()
    while left:
        size = data.draw(st.integers(1, len(left)))
        pieces.append(left[:size])
        left = left[size:]
    given_out, rest, stop = run(pieces, stops)
    assert ("".join(given_out) + rest, stop) == ("".join(whole_out) + whole_rest, whole_stop)
    if stop is None:
        assert "".join(given_out) + rest == text
