"""Settings of SGLang's snapshots through the environment and back."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentform.errors import InvalidRequest
from agentform.runtime.sglang.plugin.settings import POLICY, POOL, SnapshotSettings, policy_of, policy_text
from agentform.runtime.snapshots.policy import NAMED_POLICIES, SnapshotPolicy

POLICIES = st.one_of(
    st.sampled_from([policy for policy in NAMED_POLICIES.values() if not policy.replay_tokens]),
    st.builds(SnapshotPolicy, budget_bytes=st.integers(0, 1 << 40)),
    st.builds(
        SnapshotPolicy,
        keep=st.sampled_from(["int4", "int8", "exact"]),
        drop_below_tokens=st.floats(0, 1e9),
        exact_above_tokens=st.floats(0, 1e9) | st.just(float("inf")),
    ),
)
SIZES = st.sampled_from([{}, {"pool_bytes": 5}, {"num_slots": 7}])


@pytest.mark.parametrize("environment", [{}, {POLICY: ""}, {POLICY: "  "}, {POOL: "8 slots"}])
def test_without_a_policy_there_are_no_settings(environment):
    assert SnapshotSettings.from_environment(environment) is None


@given(policy=POLICIES, size=SIZES, path=st.sampled_from([None, Path("/a/b.json")]))
def test_settings_come_through_the_environment(policy, size, path):
    made = SnapshotSettings(snapshots=policy_text(policy), statistics_path=path, **size)
    assert made.policy == policy
    assert SnapshotSettings.from_environment(made.environment()) == made


@pytest.mark.parametrize("name", NAMED_POLICIES)
def test_a_name_is_a_policy(name):
    assert policy_of(policy_text(name)) == NAMED_POLICIES[name]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("balnced", "there are exact, int8"),
        ("keep=int5", "keep is .* not 'int5'"),
        ("drop_below_tokens=few", "a number of tokens, not 'few'"),
        ("replay_tokens=32", "no field of a snapshot policy here"),
        ("budget_bytes=9", "no field"),
        ("drop_below_tokens=-1", "at least 0"),
    ],
)
def test_a_policy_that_is_none_is_refused_with_the_variable(text, says):
    with pytest.raises(InvalidRequest, match=says):
        policy_text(text)
    with pytest.raises(InvalidRequest, match=POLICY):
        SnapshotSettings.from_environment({POLICY: text})


@pytest.mark.parametrize("size", ["0", "0 slots", "4GB", "-3", "8 slot s"])
def test_a_pool_size_that_is_none_is_refused_with_the_variable(size):
    with pytest.raises(InvalidRequest, match=POOL):
        SnapshotSettings.from_environment({POLICY: "int8", POOL: size})


@pytest.mark.parametrize("size", [{"pool_bytes": 1, "num_slots": 1}, {"pool_bytes": 0}, {"num_slots": 0}])
def test_a_pool_is_sized_once_and_not_empty(size):
    with pytest.raises(InvalidRequest):
        SnapshotSettings(snapshots="int8", **size)
