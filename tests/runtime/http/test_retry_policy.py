from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentform.errors import InvalidRequest
from agentform.runtime.http.retry_policy import RetryPolicy, retry_after_s

SECONDS = st.floats(0, 100)


@given(st.integers(0, 8), SECONDS, SECONDS, st.integers(1, 2000), st.floats(0, 0.999))
def test_waits_grow_within_their_bounds_and_end(retries, first, longest, num_failed, draw):
    policy = RetryPolicy(retries=retries, first_wait_s=first, longest_wait_s=longest)
    wait = policy.wait_s(num_failed, draw=draw)
    assert (wait is None) == (num_failed > retries)
    if wait is not None:
        most = min(longest, first * 2 ** (num_failed - 1))
        assert most / 2 <= wait <= most


def test_waits_are_not_all_alike():
    policy = RetryPolicy()
    assert len({policy.wait_s(3) for _ in range(20)}) > 1


def test_what_the_server_asks_for_is_a_lower_bound():
    policy = RetryPolicy(first_wait_s=1, longest_retry_after_s=10)
    assert policy.wait_s(1, 7.0) == 7.0
    assert policy.wait_s(1, 0.1, draw=0.5) == 0.75
    assert policy.wait_s(1, 11.0) is None


def test_nothing_may_be_negative():
    with pytest.raises(InvalidRequest, match="negative"):
        RetryPolicy(retries=-1)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("3", 3.0),
        (" 120 ", 120.0),
        ("Thu, 01 Jan 1970 00:01:40 GMT", 90.0),
        ("Thu, 01 Jan 1970 00:00:01 GMT", 0.0),
        ("", None),
        ("soon", None),
        ("-3", None),
        ("3.5", None),
        ("²", None),
    ],
)
def test_retry_after_is_seconds_or_a_date(text, seconds):
    assert retry_after_s({"retry-after": text}, now=10.0) == seconds


def test_no_header_says_nothing():
    assert retry_after_s({}) is None
