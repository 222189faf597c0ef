from __future__ import annotations

import pytest
from rich.console import Console
from typer.testing import CliRunner

from agentform.cli.app import app
from agentform.cli.cache_horizons import plot_horizons, show_horizons
from agentform.errors import HorizonsUnknown
from agentform.runtime.snapshots.horizons import Horizons, LayerHorizons
from agentform.runtime.torch.forward.kv_pool import bytes_per_position
from agentform.runtime.torch.forward.transformers_adapter import load_model, probe_layers
from agentform.runtime.torch.snapshots.decay_codec import geometry_of
from agentform.runtime.torch.snapshots.model_horizons import horizons_of_folder
from agentform.runtime.torch.snapshots.state_geometry import geometry_of_folder, kv_token_bytes
from tests.support.tiny_hybrids import FAMILIES, write_tiny_hybrid

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.mark.parametrize("family", ["qwen3_next", "kimi_linear", "granitemoehybrid"])
def test_table_picture_and_policies_are_shown(tmp_path, family):
    write_tiny_hybrid(tmp_path, family)
    console = Console(record=True, width=160)
    show_horizons(console, str(tmp_path), tmp_path / "picture.png")
    text = console.export_text()
    assert (tmp_path / "picture.png").read_bytes().startswith(PNG)
    for word in ("median", "balanced", "50% of bytes", "error", "█"):
        assert word in text
    horizons = horizons_of_folder(tmp_path)
    marks = [line.split()[1] for line in text.splitlines() if line.split() and line.split()[0].isdigit()]
    assert [len(row) for row in marks] == [each.num_heads for each in horizons.layers.values()]


def test_what_has_no_horizons_is_told(tmp_path):
    write_tiny_hybrid(tmp_path, "lfm2")
    with pytest.raises(HorizonsUnknown, match="short convolutions"):
        show_horizons(Console(quiet=True), str(tmp_path))


def test_layers_of_different_width_and_what_never_ends_are_plotted(tmp_path):
    layers = {
        0: LayerHorizons(kind="Mamba2", num_heads=1, tokens=(float("inf"),)),
        3: LayerHorizons(kind="Mamba2", num_heads=3, tokens=(1.0, 2.0, 3e9)),
    }
    plot_horizons(Horizons(layers=layers, digest=""), tmp_path / "p.png", title="two layers")
    assert (tmp_path / "p.png").read_bytes().startswith(PNG)


def test_the_command_shows_them(tmp_path):
    write_tiny_hybrid(tmp_path, "mamba2")
    done = CliRunner().invoke(app, ["cache", "horizons", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert "balanced" in done.output


@pytest.mark.parametrize("family", sorted(set(FAMILIES) - {"lfm2"}))
def test_files_and_the_loaded_model_agree_on_sizes(tmp_path, family):
    import torch

    write_tiny_hybrid(tmp_path, family)
    horizons = horizons_of_folder(tmp_path)
    layers = probe_layers(load_model(tmp_path, dtype=torch.bfloat16, device=torch.device("cpu")))
    assert geometry_of_folder(tmp_path, horizons) == geometry_of(horizons, layers.recurrent)
    assert kv_token_bytes(tmp_path) == bytes_per_position(layers.attention, torch.bfloat16)
