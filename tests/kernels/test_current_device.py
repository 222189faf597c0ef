"""Triton launches on the thread's current device, so a call must make it that of the state."""

from __future__ import annotations

from contextlib import contextmanager

import pytest
import torch

from agentform.kernels import gated_delta, state_pack


@pytest.fixture
def entered(monkeypatch) -> list[torch.Tensor]:
    """Whose device was made current, in order; and CPU tensors go the way of a GPU's."""
    pytest.importorskip("triton", reason="Triton has no build for this platform")
    seen: list[torch.Tensor] = []

    @contextmanager
    def device_of(tensor):
        seen.append(tensor)
        yield

    monkeypatch.setattr(torch.cuda, "device_of", device_of)
    monkeypatch.setattr(state_pack, "_on_gpu", lambda state: True)
    return seen


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs the interpreter")
def test_kernels_run_on_the_states_own_device(entered):
    state, rows = torch.ones(1, 2, 4), torch.arange(2)
    values, scales = state_pack.pack(state, rows)
    state_pack.pack_int4(state, rows)
    state_pack.unpack(values, scales, rows.int(), state)
    heads, key, value = torch.tensor([0], dtype=torch.int32), torch.ones(3, 1, 2), torch.ones(3, 1, 4)
    beta = torch.ones(3, 1)
    gated_delta.replay(key, value, -torch.ones(3, 1, 1), beta, heads, state)
    lengths, branches = torch.tensor([3], dtype=torch.int32), [each.unsqueeze(0) for each in (key, key, value)]
    gated_delta.step_branches(*branches, -torch.ones(1, 3, 1, 1), beta.unsqueeze(0), lengths, state)
    assert len(entered) == 5
    assert all(tensor is state for tensor in entered)
