from __future__ import annotations

import pytest
import torch

from agentform.runtime.cache.ranges import positions
from agentform.runtime.scheduling.segment import Segment
from agentform.runtime.torch.forward import attention
from agentform.runtime.torch.forward.kv_pool import KVPool, LayerShape, bytes_per_position
from agentform.runtime.torch.forward.step import ForwardStep

HEADS, KV_HEADS, DIM, VALUE_DIM = 6, 2, 8, 4
SHAPE = LayerShape(num_kv_heads=KV_HEADS, key_dim=DIM, value_dim=VALUE_DIM)
CPU = torch.device("cpu")


def sees(segment, token):
    """Indices, in the sequence, of what one of the segment's tokens sees."""
    own = []
    while token >= 0:
        own.append(segment.num_before + token)
        token = token - 1 if segment.parents is None else segment.parents[token]
    return [*range(segment.num_before), *reversed(own)]


def plain(query, keys, values):
    """Textbook attention of one query `[heads, dim]` over keys `[kv_heads, n, dim]`."""
    group = HEADS // KV_HEADS
    out = []
    for head in range(HEADS):
        weights = (keys[head // group] @ query[head] * 0.3).softmax(dim=0)
        out.append(weights @ values[head // group])
    return torch.stack(out)


SEGMENTS = {
    "prefill from nothing": [Segment(token_ids=(1,) * 5, num_before=0, runs=((3, 8),))],
    "prefill behind a prefix in two runs": [Segment(token_ids=(1,) * 4, num_before=6, runs=((9, 12), (20, 27)))],
    "longer than a block": [Segment(token_ids=(1,) * 300, num_before=40, runs=((0, 340),))],
    "decode": [Segment(token_ids=(1,), num_before=7, runs=((1, 9),))],
    "decode over several runs": [Segment(token_ids=(1,), num_before=7, runs=((30, 33), (1, 6)))],
    "tree": [Segment(token_ids=(1,) * 6, num_before=3, runs=((5, 8), (40, 46)), parents=(-1, 0, 0, 2, -1, 4))],
    "all at once": [
        Segment(token_ids=(1,), num_before=2, runs=((0, 3),)),
        Segment(token_ids=(1,) * 4, num_before=0, runs=((50, 54),)),
        Segment(token_ids=(1,) * 4, num_before=2, runs=((60, 62), (70, 74)), parents=(-1, 0, 1, 1)),
        Segment(token_ids=(1,), num_before=0, runs=((55, 56),)),
    ],
}


@pytest.mark.parametrize("as_on_gpu", [False, True])
@pytest.mark.parametrize("segments", SEGMENTS.values(), ids=SEGMENTS.keys())
def test_step_attends_as_the_textbook_does(segments, as_on_gpu, monkeypatch):
    monkeypatch.setattr(attention, "_is_on_gpu", lambda query: as_on_gpu)
    torch.manual_seed(0)
    pool = KVPool({0: SHAPE}, 400, dtype=torch.float32, device=CPU)
    everything = torch.arange(400)
    pool.write(0, torch.randn(KV_HEADS, 400, DIM), torch.randn(KV_HEADS, 400, VALUE_DIM), everything)
    step = ForwardStep(segments, pool, dtype=torch.float32, device=CPU)
    query = torch.randn(1, HEADS, step.num_tokens, DIM)
    key = torch.randn(1, KV_HEADS, step.num_tokens, DIM)
    value = torch.randn(1, KV_HEADS, step.num_tokens, VALUE_DIM)
    out = step.attend(0, query, key, value, 0.3)
    keys, values = pool.read(0, ((0, 400),), torch.float32)
    row = 0
    for segment in segments:
        places = list(positions(segment.runs))
        for token in range(len(segment.token_ids)):
            assert torch.equal(keys[:, places[segment.num_before + token]], key[0, :, row])
            seen = [places[index] for index in sees(segment, token)]
            expected = plain(query[0, :, row], keys[:, seen], values[:, seen])
            torch.testing.assert_close(out[0, row], expected, rtol=1e-5, atol=1e-5)
            row += 1


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_runs_are_read_as_their_positions_one_by_one(dtype):
    pool = KVPool({0: SHAPE}, 30, dtype=torch.bfloat16, device=CPU)
    keys, values = torch.randn(KV_HEADS, 30, DIM).bfloat16(), torch.randn(KV_HEADS, 30, VALUE_DIM).bfloat16()
    pool.write(0, keys, values, slice(0, 30))
    for runs in (((4, 9),), ((20, 30), (3, 4), (7, 12))):
        found = pool.read(0, runs, dtype)
        places = list(positions(runs))
        assert found[0].dtype == found[1].dtype == dtype
        assert torch.equal(found[0], keys[:, places].to(dtype))
        assert torch.equal(found[1], values[:, places].to(dtype))


def test_position_ids_follow_the_tree():
    segment = Segment(token_ids=(1,) * 5, num_before=10, runs=((0, 15),), parents=(-1, 0, 1, 1, -1))
    pool = KVPool({0: SHAPE}, 20, dtype=torch.float32, device=CPU)
    assert ForwardStep([segment], pool, dtype=torch.float32, device=CPU).position_ids.tolist() == [[10, 11, 12, 12, 10]]


def test_rows_are_counted_over_all_segments():
    pool = KVPool({0: SHAPE}, 20, dtype=torch.float32, device=CPU)
    segments = [
        Segment(token_ids=(1, 2, 3), num_before=0, runs=((0, 3),), rows=(2,)),
        Segment(token_ids=(1, 2), num_before=0, runs=((5, 7),)),
        Segment(token_ids=(1, 2), num_before=0, runs=((8, 10),), rows=(0, 1)),
    ]
    assert ForwardStep(segments, pool, dtype=torch.float32, device=CPU).rows.tolist() == [2, 5, 6]


def test_bytes_per_position_counts_keys_and_values_of_all_layers():
    assert bytes_per_position({0: SHAPE, 3: SHAPE}, torch.bfloat16) == 2 * 2 * (8 + 4) * 2
