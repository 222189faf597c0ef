from __future__ import annotations

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from agentform.runtime.snapshots.plan import Precision, plan_bytes
from agentform.runtime.torch.snapshots.codec import ExactCodec
from agentform.runtime.torch.snapshots.decay_codec import DecayCodec
from benchmarks.common.harness import Context
from studies.recall.forward import forward
from studies.recall.models import MODELS, folder_of
from studies.recall.tasks import ASK, draw
from studies.snapshots import parts
from studies.snapshots.capacity import second_pass, sizes
from studies.snapshots.lab import Lab
from studies.snapshots.quality import logit_error
from studies.snapshots.ways import ranked, ways


@pytest.fixture(scope="module", params=MODELS)
def lab(request):
    lab = Lab(folder_of(request.param), most_tokens=200)
    lab.read(batch().context[0])
    return lab


def batch():
    return draw(np.random.default_rng(4), batch=1, tokens=200, pairs=6, questions=6)


def test_asking_from_the_live_state_is_what_one_long_forward_says(lab):
    keys = batch().asked[0].tolist()
    model = AutoModelForCausalLM.from_pretrained(lab.model.config._name_or_path, dtype=torch.float32).eval()
    whole = torch.from_numpy(np.stack([[*batch().context[0], ASK, key] for key in keys]))
    with torch.no_grad():
        wanted = model.lm_head(forward(model, whole, torch.arange(202)))[:, -1]
    asked = lab.session().ask(keys)
    torch.testing.assert_close(asked, wanted, rtol=1e-3, atol=1e-3)
    assert torch.equal(lab.session(ExactCodec()).ask(keys), asked)
    torch.testing.assert_close(lab.session().ask_in_turn(keys)[0], asked[0], rtol=1e-3, atol=1e-3)


def test_what_is_extended_belongs_to_the_conversation(lab):
    session, other = lab.session(), lab.session()
    ids = batch().context[0, 50:90]
    whole = session.extend(ids)
    other = lab.session()
    other.extend(ids[:25])
    torch.testing.assert_close(other.extend(ids[25:]), whole, rtol=1e-3, atol=1e-3)


def test_a_refresh_repairs_most_of_what_was_dropped(lab):
    keys = batch().asked[0].tolist()
    live = lab.session().ask(keys)
    codec = DecayCodec(ranked(lab, 0.5, Precision.EXACT), lab.horizons)
    dropped = logit_error(lab.session(codec).ask(keys), live).mean()
    refreshed = logit_error(lab.session(codec, refresh_tokens=150).ask(keys), live).mean()
    assert 0 < refreshed < dropped


def test_heads_are_kept_by_horizon_or_by_chance_and_as_many(lab):
    plan = ranked(lab, 0.5, Precision.INT8)
    kept, dropped = [], []
    for layer, each in lab.horizons.layers.items():
        for precision, tokens in zip(plan.precisions[layer], each.tokens, strict=True):
            (kept if precision is Precision.INT8 else dropped).append(tokens)
    assert min(kept) >= max(dropped)
    by_chance = ranked(lab, 0.5, Precision.INT8, order=np.random.default_rng(0))
    assert by_chance.count() == plan.count()
    assert by_chance != plan


def test_ours_never_takes_more_bytes_than_the_way_it_is_compared_with(lab):
    found = ways(lab)
    budgets = {way.num_bytes for way in found if way.name != "ours"}
    ours = [way for way in found if way.name == "ours"]
    assert {way.num_bytes for way in ours} == budgets
    assert all(plan_bytes(way.codec.plan, lab.geometry) <= way.num_bytes for way in ours)
    assert len({way.key for way in found}) == len(found)


def test_a_pass_that_fits_is_found_and_one_that_does_not_is_lost():
    exact = sizes()[0].num_bytes
    room = 8 * (exact + 4096 * 256 + 64 * 256)
    assert second_pass(exact, 256, room, range(8)) == 1.0
    assert second_pass(exact, 256, room, range(20)) < 0.3


def test_dropping_and_quantising_hold_eight_times_the_conversations():
    ratios = {each.name: each.ratio for each in sizes()}
    assert ratios["drop"] > 2.5
    assert ratios["both"] > 8


@pytest.mark.parametrize("part", ["schemes", "quality", "refresh", "forms", "chains", "passes"])
def test_the_quick_run_measures_and_writes_nothing(part, tmp_path, monkeypatch):
    monkeypatch.setattr("benchmarks.common.harness.RESULTS", tmp_path)
    monkeypatch.setattr(parts, "_QUICK_CELL", parts.Cell(tokens=128, pairs=9, contexts=1))
    options = {"part": [part], "model": ["hybrid"]}
    parts.run(Context(name="snapshots", data=None, quick=True, options=options))
    assert not list(tmp_path.iterdir())
