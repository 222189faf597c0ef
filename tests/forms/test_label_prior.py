"""Label priors: kept, shared between processes, never read from damage."""

from __future__ import annotations

import math
import os
import threading
from functools import partial
from typing import Literal
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from agentform import YesNo, decide
from agentform.forms.fill import fill
from agentform.forms.label_prior import CONTENT_FREE, PriorStore, calibrated, timeless
from agentform.forms.scoring import Scoring
from tests.support.recording_engine import RecordingEngine
from tests.support.waiting import PATIENCE_S, background

KEY = PriorStore.key("model", ["texts"])


def test_calibration_takes_out_the_lean_by_its_strength():
    assert calibrated([-1.0, -2.0], [-0.5, -3.0], 1.0) == (-0.5, 1.0)
    assert calibrated([-1.0, -2.0], [-0.5, -3.0], 0.5) == (-0.75, -0.5)
    assert calibrated([-1.0, -2.0], [-0.5, -3.0], 0.0) == (-1.0, -2.0)


def test_a_prior_is_kept_on_disk_for_the_next_store(tmp_path):
    folder = tmp_path / "new" / "priors"
    PriorStore(folder).put(KEY, (-1.25, -2.5))
    assert PriorStore(folder).get(KEY, size=2) == (-1.25, -2.5)
    assert [path.name for path in folder.iterdir()] == [f"{KEY}.json"]


def test_without_a_folder_nothing_is_shared():
    store = PriorStore()
    store.put(KEY, (-1.0,))
    assert store.get(KEY, size=1) == (-1.0,)
    assert PriorStore().get(KEY, size=1) is None


def test_keys_tell_apart_all_their_parts():
    keys = [PriorStore.key(*parts) for parts in (["a", "b"], ["ab"], ["a", ["b"]], ["a", "b", ""], ["b", "a"])]
    assert len(set(keys)) == 5
    assert PriorStore.key("é", (1, 2)) == PriorStore.key("é", [1, 2])


@pytest.mark.parametrize(
    "damage",
    [
        "",
        "[-1.0, -2.0",
        "[-1.0]",
        "[-1.0, -2.0, -3.0]",
        '[-1.0, "x"]',
        "[-1.0, true]",
        "[NaN, -1.0]",
        "[-1.0, -Infinity]",
        "{}",
        "null",
        "7",
        "[1e999, 0]",
        f"[1, {10**400}]",
        "[[1], [2]]",
    ],
)
def test_a_damaged_file_counts_as_unknown_and_is_replaced(tmp_path, damage):
    (tmp_path / f"{KEY}.json").write_text(damage)
    store = PriorStore(tmp_path)
    assert store.get(KEY, size=2) is None
    store.put(KEY, (-1.0, -2.0))
    assert PriorStore(tmp_path).get(KEY, size=2) == (-1.0, -2.0)


def test_a_file_that_is_not_text_counts_as_unknown(tmp_path):
    (tmp_path / f"{KEY}.json").write_bytes(b"\xff\xfe[")
    assert PriorStore(tmp_path).get(KEY, size=2) is None


def test_whole_numbers_in_a_file_are_numbers(tmp_path):
    (tmp_path / f"{KEY}.json").write_text("[0, -1]")
    assert PriorStore(tmp_path).get(KEY, size=2) == (0.0, -1.0)


def test_writers_at_once_leave_one_whole_file_and_readers_see_whole_ones(tmp_path):
    seen = []
    start = threading.Barrier(5, timeout=PATIENCE_S)

    def write(value: float) -> None:
        start.wait()
        for _ in range(40):
            PriorStore(tmp_path).put(KEY, (value,) * 50)

    def read() -> None:
        start.wait()
        for _ in range(100):
            seen.append(PriorStore(tmp_path).get(KEY, size=50))

    with background(*(partial(write, float(v)) for v in range(4)), read):
        pass
    after_first = seen[next((i for i, found in enumerate(seen) if found), len(seen)) :]
    assert all(found is not None and len(set(found)) == 1 for found in after_first)
    assert [path.name for path in tmp_path.iterdir()] == [f"{KEY}.json"]


class Mood(BaseModel):
    mood: Literal["bad", "good"]


def leaning(prompt: str, branch) -> tuple[float, ...]:
    """A model that says "good" to everything, to what is sad a little less."""
    good = 0.7 if "sad" in prompt else 0.9
    return tuple(math.log(good if c == ord("g") else 1 - good) for c in branch.candidates)


@pytest.mark.anyio
async def test_a_lean_is_measured_and_taken_out():
    engine = RecordingEngine(score_branch=leaning)
    raw = await fill(engine, "so sad", Mood, scoring=Scoring(calibration=0))
    assert raw.value.mood == "good"
    assert len(engine.scored) == 1
    filled = await fill(engine, "so sad", Mood, scoring=Scoring(calibration=1.0))
    assert filled.value.mood == "bad"
    evidence = filled["/mood"]
    assert evidence.raw_probability == pytest.approx(0.3)
    assert evidence.probability == pytest.approx(3 / (3 + 7 / 9))
    assert evidence.legal_mass == pytest.approx(1.0)


@pytest.mark.anyio
async def test_a_prior_is_measured_once_per_question_and_kept_by_its_store(tmp_path):
    engine = RecordingEngine(score_branch=leaning)
    await fill(engine, "so sad", Mood, priors=PriorStore(tmp_path))
    assert len(engine.scored) == 1 + len(CONTENT_FREE)
    again = await fill(engine, "glad", Mood, priors=PriorStore(tmp_path))
    assert len(engine.scored) == 2 + len(CONTENT_FREE)
    assert again["/mood"].raw_probability == pytest.approx(0.9 if again.value.mood == "good" else 0.1)
    await fill(engine, "so sad", Mood, instructions="Other words.", priors=PriorStore(tmp_path))
    assert len(engine.scored) == 3 + 2 * len(CONTENT_FREE)


@pytest.mark.anyio
async def test_an_engine_keeps_the_priors_that_were_measured_on_it():
    engine = RecordingEngine(score_branch=leaning)
    engine.priors = PriorStore()
    await fill(engine, "so sad", Mood)
    await fill(engine, "so sad", Mood)
    assert len(engine.scored) == 2 + len(CONTENT_FREE)
    await decide(engine, "so sad", {"glad": YesNo("Is it glad?")})
    known = len(engine.scored)
    await decide(engine, "so sad", {"glad": YesNo("Is it glad?")})
    assert len(engine.scored) == known + 1


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("then", "is_new"),
    [
        ("Today is Tuesday, 2 June 2026, 09:15 PM UTC.", False),
        ("Today is Monday, 1 May 2026, 08:00 AM UTC. Be brief.", True),
    ],
)
async def test_a_date_in_the_instructions_measures_nothing_again(then, is_new):
    engine = RecordingEngine(score_branch=leaning)
    engine.priors = PriorStore()
    await fill(engine, "so sad", Mood, instructions="Today is Monday, 1 May 2026, 08:00 AM UTC.")
    before = len(engine.scored)
    await fill(engine, "so sad", Mood, instructions=then)
    assert len(engine.scored) == before + 1 + is_new * len(CONTENT_FREE)


@given(text=st.text(alphabet="abc .,:'\n", max_size=40), run=st.uuids(), day=st.dates())
def test_a_prompt_without_its_time_is_the_same_every_day(text, run, day):
    assert timeless(f"{text} {run} {day:%A, %d %B %Y}") == timeless(f"{text} {UUID(int=7)} Sun, 1 Jan 1")
    assert timeless(text) == text


def test_a_folder_of_priors_does_not_grow_without_end(tmp_path, monkeypatch):
    monkeypatch.setattr("agentform.runtime.prior_store._MOST", 2)
    monkeypatch.setattr("agentform.runtime.prior_store._TIDY_EVERY", 1)
    store = PriorStore(tmp_path)
    for number in range(9):
        store.put(PriorStore.key(number), (0.0,))
        os.utime(tmp_path / f"{PriorStore.key(number)}.json", (number, number))
    assert len(list(tmp_path.iterdir())) <= 5


def test_running_mean_counts_the_prior_as_so_many_requests():
    store = PriorStore()
    assert store.mixed("k", (0.0, -2.0), 2.0) == (0.0, -2.0)
    store.observe("k", (-3.0, -1.0))
    assert store.mixed("k", (0.0, -2.0), 2.0) == pytest.approx((-1.0, -5 / 3))
    assert store.mixed("k", (0.0, -2.0), 0.0) == (0.0, -2.0)


def test_what_says_nothing_is_corrected_by_as_much_as_the_others_on_average():
    assert calibrated((-1.0, -2.0, -3.0), (-1.0, -3.0, 0.0), 1.0, 2) == pytest.approx((0.0, 1.0, -1.0))


def test_a_folder_that_cannot_be_written_costs_only_its_memory(tmp_path):
    (tmp_path / "taken").write_text("a file, where a folder is wanted")
    store = PriorStore(tmp_path / "taken")
    store.put("k", (-1.0, -2.0))
    assert store.get("k", size=2) == (-1.0, -2.0)
    assert PriorStore(tmp_path / "taken").get("k", size=2) is None
