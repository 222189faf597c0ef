from __future__ import annotations

from types import SimpleNamespace

import pytest

from agentform.runtime.scheduling.state_cursor import StateCursor

RUNS = ((0, 4),)


def lease(start=0, *, matched=0, snapshot=True, live=False, refresh=0, diverged=False):
    source = SimpleNamespace(snapshot=SimpleNamespace(runs=RUNS)) if snapshot and start else None
    return SimpleNamespace(
        start=start, num_matched=matched, source=source, is_live=live, refresh=refresh, diverged=diverged
    )


def started(*args, num_prompt=100, boundaries=(), **kwargs):
    cursor = StateCursor()
    return cursor, cursor.start(lease(*args, **kwargs), num_prompt=num_prompt, boundaries=boundaries)


def room(point):
    return ((point, point + 1),)


def test_without_recurrent_layers_there_is_a_state_and_no_snapshot():
    cursor = StateCursor()
    cursor.expect_fork(50)
    assert cursor.has_state
    assert (cursor.load, cursor.num_warm(0), cursor.settle_in(0, 9), cursor.saves(0, 100, room)) == (None, 0, None, ())


def test_a_request_starts_from_a_snapshot_from_nothing_or_from_what_its_slot_holds():
    assert [(c.load, at) for c, at in (started(40), started(), started(40, live=True))] == [
        (RUNS, 40),
        ((), 0),
        (None, 40),
    ]


def test_warming_up_runs_tokens_before_the_snapshot_and_then_puts_it_back():
    cursor, position = started(40, refresh=8)
    assert (position, cursor.load, cursor.num_warm(32)) == (32, RUNS, 8)
    assert cursor.settle_in(32, 36) is None
    assert not cursor.advance(36)
    assert not cursor.has_state
    assert cursor.settle_in(36, 44) == (4, RUNS)
    assert cursor.advance(44)
    assert cursor.has_state


def test_warming_up_from_the_first_token_needs_no_snapshot():
    cursor, position = started(40, refresh=40)
    assert (position, cursor.load, cursor.num_warm(0)) == (0, (), 0)
    assert cursor.advance(5)


def test_after_a_failed_step_everything_runs_again():
    cursor, _ = started(40, refresh=8)
    cursor.restart()
    assert (cursor.load, cursor.num_warm(0)) == ((), 0)
    assert not cursor.has_state


def test_snapshots_are_taken_at_boundaries_forks_and_the_end_where_there_is_room():
    cursor, _ = started(20, boundaries=(40,))
    cursor.expect_fork(60)
    assert cursor.saves(20, 70, lambda point: None if point == 40 else room(point)) == ((40, ((60, 61),)),)
    assert cursor.saves(70, 100, room) == ((29, ((99, 100),)),)
    assert cursor.saves(70, 100, room) == ()


@pytest.mark.parametrize(("at", "kept"), [(36, False), (60, True)])
def test_a_fork_inside_the_warm_up_gets_no_snapshot_for_its_state_is_not_exact(at, kept):
    cursor, _ = started(40, refresh=8)
    cursor.expect_fork(at)
    assert bool(cursor.saves(32, 70, room)) == kept


def test_the_end_is_worth_a_snapshot_once_it_has_a_state_and_is_far_enough_from_the_last():
    cursor, _ = started(40, num_prompt=60)
    assert not cursor.ends(100)  # nothing was loaded yet
    cursor.advance(60)
    assert not cursor.ends(44)
    assert cursor.ends(100)
    assert not cursor.ends(101)
