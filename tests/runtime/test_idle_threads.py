"""How OpenMP's threads wait is set where nobody else has said it."""

from __future__ import annotations

import pytest

from agentform.runtime.idle_threads import let_idle_threads_sleep


def test_threads_wait_passively_by_default():
    environment = {}
    let_idle_threads_sleep(environment)
    assert environment["OMP_WAIT_POLICY"] == "passive"


@pytest.mark.parametrize("said", [{"OMP_WAIT_POLICY": "active"}, {"GOMP_SPINCOUNT": "5"}, {"KMP_BLOCKTIME": "200"}])
def test_what_a_user_has_said_stays(said):
    environment = dict(said)
    let_idle_threads_sleep(environment)
    assert environment == said
