"""What a GGUF counts and points to is compared with the file before anything else believes it."""

from __future__ import annotations

import contextlib
import random
import struct
import subprocess
import sys
from importlib.util import find_spec

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentform.errors import WeightsCorrupt
from agentform.runtime.models.gguf_header import check_gguf
from tests.support.gguf_zoo import KINDS, write_sentence_piece_gguf, write_tiny_gguf
from tests.support.waiting import PATIENCE_S

WORST = (0, 1, 2**31 - 1, 2**32 - 1, 2**62, 2**63, 2**64 - 1)
LOAD = """
import sys
from pathlib import Path
from agentform.errors import EngineError
from agentform.runtime.llama_cpp.model import LlamaModel
for path in sys.argv[1:]:
    try:
        LlamaModel(Path(path)).close()
    except EngineError as error:
        assert path in str(error), error
"""


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return write_tiny_gguf("attention", tmp_path_factory.mktemp("gguf") / "x.gguf").read_bytes()


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("damaged") / "x.gguf"


def at_value(whole, key):
    """Where the value of a field begins."""
    return whole.index(key.encode()) + len(key) + 4


@pytest.mark.parametrize("kind", KINDS)
def test_files_that_are_whole_are_taken(kind, tmp_path):
    check_gguf(write_tiny_gguf(kind, tmp_path / "x.gguf"))


def test_a_rotation_base_of_a_model_for_millions_of_tokens_is_taken(whole, place):
    at = at_value(whole, "llama.rope.freq_base")
    place.write_bytes(whole[:at] + struct.pack("<f", 3_580_165_449.0) + whole[at + 4 :])
    check_gguf(place)


def test_a_file_of_another_vocabulary_is_taken(tmp_path):
    check_gguf(write_sentence_piece_gguf(tmp_path / "x.gguf"))


@pytest.mark.parametrize(("form", "at", "named"), [("<I", 4, "version"), ("<Q", 8, "tensors"), ("<Q", 16, "fields")])
def test_counts_at_the_start_are_bounded(whole, place, form, at, named):
    place.write_bytes(whole[:at] + struct.pack(form, 2**31 + 7) + whole[at + struct.calcsize(form) :])
    with pytest.raises(WeightsCorrupt, match=named):
        check_gguf(place)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("llama.block_count", struct.pack("<I", 2**31)),
        ("llama.block_count", struct.pack("<I", 0)),
        ("llama.context_length", struct.pack("<I", 2**31)),
        ("llama.attention.layer_norm_rms_epsilon", struct.pack("<f", float("nan"))),
        ("general.architecture", struct.pack("<Q", 2**40)),
        ("tokenizer.ggml.tokens", struct.pack("<IQ", 8, 2**60)),
        ("tokenizer.ggml.tokens", struct.pack("<IQ", 9, 3)),
        ("tokenizer.ggml.token_type", struct.pack("<IQ", 5, 2**62)),
    ],
)
def test_a_field_that_cannot_be_is_named(whole, place, key, value):
    at = at_value(whole, key)
    place.write_bytes(whole[:at] + value + whole[at + len(value) :])
    with pytest.raises(WeightsCorrupt, match=key.replace(".", r"\.")):
        check_gguf(place)


def test_a_token_that_stands_twice_is_refused(whole, place):
    at = at_value(whole, "tokenizer.ggml.tokens") + 12
    first = struct.unpack_from("<Q", whole, at)[0]
    second = at + 8 + first
    assert struct.unpack_from("<Q", whole, second)[0] <= first
    size = struct.unpack_from("<Q", whole, second)[0]
    twice = whole[second : second + 8] + whole[second + 8 : second + 8 + size]
    place.write_bytes(whole[:at] + twice + twice + whole[at + 2 * len(twice) :])
    with pytest.raises(WeightsCorrupt):
        check_gguf(place)


@settings(max_examples=60, deadline=None)
@given(cut=st.floats(0, 0.999999))
def test_a_file_that_is_cut_off_is_refused(whole, place, cut):
    place.write_bytes(whole[: int(len(whole) * cut)])
    with pytest.raises(WeightsCorrupt):
        check_gguf(place)


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_whatever_stands_in_the_head_is_refused_or_taken(whole, place, data):
    changed = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 3))):
        width = data.draw(st.sampled_from([1, 4, 8]))
        at = data.draw(st.integers(0, min(len(changed), 30_000) - width))
        worst = data.draw(st.sampled_from(WORST) | st.integers(0, 2**64 - 1))
        changed[at : at + width] = (worst & (1 << 8 * width) - 1).to_bytes(width, "little")
    place.write_bytes(changed)
    with contextlib.suppress(WeightsCorrupt):
        check_gguf(place)


@pytest.mark.skipif(find_spec("xllamacpp") is None, reason="needs llama.cpp")
def test_llama_cpp_loads_or_refuses_what_is_left(whole, tmp_path):
    dice, paths = random.Random(3), []
    for number in range(30):
        changed = bytearray(whole)
        at = dice.randrange(0, 1200)
        changed[at : at + 4] = (dice.choice(WORST) & 0xFFFFFFFF).to_bytes(4, "little")
        paths.append(tmp_path / f"{number}.gguf")
        paths[-1].write_bytes(changed)
    done = subprocess.run([sys.executable, "-c", LOAD, *map(str, paths)], timeout=PATIENCE_S, capture_output=True)
    assert done.returncode == 0, done.stderr[-2000:]
