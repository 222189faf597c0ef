"""A real server process withstands each attack: it answers, it stays alive, and its memory is bounded."""

from __future__ import annotations

import pytest

from benchmarks.attack.attacks import ATTACKS, send_random_bodies
from benchmarks.attack.target import attacked
from tests.support.tiny_model import write_tiny_model

CAP_BYTES = 3 << 30
RANDOM_BODIES = 30


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    model = tmp_path_factory.mktemp("tiny_model")
    write_tiny_model(model, max_position_embeddings=2048)
    with attacked(str(model), tmp_path_factory.mktemp("server"), cap_bytes=CAP_BYTES, is_short=True) as running:
        assert running.is_healthy()
        yield running


@pytest.mark.parametrize("name", sorted(ATTACKS.keys() - {"anothers_times"}))  # no test compares times
def test_the_server_withstands(target, name):
    ATTACKS[name](target)
    assert target.is_healthy()
    assert not target.was_killed


def test_random_bodies_are_answered_or_refused(target):
    statuses = send_random_bodies(target, RANDOM_BODIES)
    assert sum(statuses.values()) == RANDOM_BODIES
    assert target.is_healthy()
