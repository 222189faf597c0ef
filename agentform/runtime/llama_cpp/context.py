"""One `struct llama_context`: batches, sequences and their states.

Keys and values of all sequences share one buffer of cells. A cell may belong to several sequences: `share` marks it,
nothing is copied. What a layer keeps instead of keys and values (a recurrent state) is one per sequence.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from agentform.errors import CacheBudgetExceeded, EngineError
from agentform.runtime.llama_cpp.adapter import LlamaAdapter
from agentform.runtime.llama_cpp.layout import DecodeBatch
from agentform.runtime.llama_cpp.model import LlamaModel

__all__ = ["MOST_SEQUENCES", "BatchToken", "LlamaContext"]

MOST_SEQUENCES = 256
"""`LLAMA_MAX_SEQ` of the releases that are bound."""
_STATE_ONLY = 1
"""`LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY`"""
_ALL = -1
_MICRO_BATCH = 512
_Q8_0 = 8
"""`GGML_TYPE_Q8_0`"""
_FLASH_ATTENTION = 1
"""`LLAMA_FLASH_ATTN_TYPE_ENABLED`, without which llama.cpp reads no rounded values."""


@dataclass(frozen=True, slots=True)
class BatchToken:
    """One token of a batch."""

    token_id: int
    position: int
    sequences: tuple[int, ...]
    wants_logits: bool = False


class LlamaContext:
    """Used by one thread at a time.

    For a model with a window, each sequence is a pair of llama.cpp's: a cell that only one sequence holds is taken for
    another token once it is outside the window, although an earlier place of the sequence may still be returned to.
    """

    def __init__(
        self,
        model: LlamaModel,
        *,
        num_cells: int,
        max_batch: int,
        max_rows: int,
        num_in_batches: int,
        num_threads: int,
        kv_bits: int | None = None,
    ) -> None:
        """`max_rows` bounds the tokens of a batch that want logits; `num_in_batches` sequences may be in a batch.

        With recurrent layers each of these has room for a state, and there are no others.

        Raises:
            CacheBudgetExceeded: the cells do not fit into memory.
            EngineError: llama.cpp cannot run this model.
        """
        self._model, self._api = model, model.api
        self._pairs, self._kv_bits = model.has_window, kv_bits
        self.max_batch = max_batch
        self.max_rows = max_rows
        self._handle: int | None = self._make(num_cells, num_in_batches * (1 + self._pairs), num_threads)
        if model.adapter is not None:
            LlamaAdapter(model, model.adapter).use(self._handle)
        self._memory = self._api.llama_get_memory(self._handle)
        self._num_vocabulary = self._api.llama_vocab_n_tokens(model.vocabulary)
        self._arrays = _BatchArrays(max_batch, num_in_batches * (1 + self._pairs))

    @property
    def handle(self) -> int:
        """`struct llama_context *`."""
        assert self._handle is not None, "a context that was closed"
        return self._handle

    def use_threads(self, num: int) -> None:
        """From the next batch on."""
        self._api.llama_set_n_threads(self.handle, num, num)

    def decode(self, tokens: Sequence[BatchToken]) -> list[npt.NDArray[np.float32]]:
        """Compute a batch; the logits, `[vocabulary]`, of the tokens that want them, valid until the next batch.

        Raises:
            EngineError: llama.cpp refused the batch.
        """
        batch = self._arrays.fill(tokens, self._llama_ids)
        with self._api.listening() as said:
            status = self._api.llama_decode(self.handle, batch)
        if status:
            raise EngineError(f"llama.cpp could not compute {len(tokens)} tokens (status {status}): {said.reason()}")
        return [self._row(index) for index, token in enumerate(tokens) if token.wants_logits]

    def share(self, source: int, target: int, start: int, stop: int) -> None:
        """The cells of tokens `start` to `stop` of a sequence belong to `target` too; its state is then `source`'s."""
        for mine, others in zip(self._llama_ids(source), self._llama_ids(target), strict=True):
            self._api.llama_memory_seq_cp(self._memory, mine, others, start, stop)

    def drop(self, sequence: int, start: int = _ALL, stop: int = _ALL) -> None:
        """Tokens `start` to `stop` are no more of the sequence, by default all; cells of no sequence are free."""
        for each in self._llama_ids(sequence):
            if not self._api.llama_memory_seq_rm(self._memory, each, start, stop):
                raise EngineError(f"llama.cpp cannot take tokens {start} to {stop} from sequence {each}")

    def state_bytes(self, sequence: int, *, state_only: bool = False) -> bytes:
        """A sequence's cells and state, or what it has instead of cells alone."""
        first, flags = self._llama_ids(sequence)[0], _STATE_ONLY if state_only else 0
        size = self._api.llama_state_seq_get_size_ext(self.handle, first, flags)
        buffer = ctypes.create_string_buffer(size)
        got = self._api.llama_state_seq_get_data_ext(self.handle, buffer, size, first, flags)
        if got != size:
            raise EngineError(f"llama.cpp gave {got} bytes of a state of {size}")
        return buffer.raw

    def restore(self, sequence: int, data: bytes, *, state_only: bool = False) -> None:
        """Put back what `state_bytes` gave; without `state_only` the sequence must be empty.

        Raises:
            EngineError: it is not a state of this model, or there is no room.
        """
        flags, (first, *rest) = _STATE_ONLY if state_only else 0, self._llama_ids(sequence)
        with self._api.listening() as said:
            got = self._api.llama_state_seq_set_data_ext(self.handle, data, len(data), first, flags)
        if not got:
            raise EngineError(f"llama.cpp did not take a state of {len(data)} bytes: {said.reason()}")
        for each in rest:
            self._api.llama_memory_seq_cp(self._memory, first, each, _ALL, _ALL)

    def close(self) -> None:
        """Free it; closing twice is harmless."""
        handle, self._handle = self._handle, None
        if handle is not None:
            self._api.llama_free(handle)

    def _make(self, num_cells: int, num_sequences: int, num_threads: int) -> int:
        params = self._api.llama_context_default_params()
        params.n_ctx = num_cells
        params.n_batch = self.max_batch
        params.n_ubatch = min(self.max_batch, _MICRO_BATCH)
        params.n_seq_max = num_sequences
        params.n_outputs_max = params.n_outputs_max_per_seq = max(self.max_rows, num_sequences)
        params.n_threads = params.n_threads_batch = num_threads
        params.kv_unified = params.swa_full = True
        if self._kv_bits is not None:
            params.type_k = params.type_v = _Q8_0
            params.flash_attn_type = _FLASH_ATTENTION
        with self._api.listening() as said:
            handle = self._api.llama_init_from_model(self._model.handle, params)
        if not handle:
            raise CacheBudgetExceeded(
                f"llama.cpp cannot make room for {num_cells:,} tokens of {self._model.description}: {said.reason()}"
            )
        return handle

    def _llama_ids(self, sequence: int) -> tuple[int, ...]:
        return (2 * sequence, 2 * sequence + 1) if self._pairs else (sequence,)

    def _row(self, index: int) -> npt.NDArray[np.float32]:
        address = self._api.llama_get_logits_ith(self.handle, index)
        if not address:
            raise EngineError(f"llama.cpp has no logits of token {index} of a batch")
        pointer = ctypes.cast(address, ctypes.POINTER(ctypes.c_float))
        return np.ctypeslib.as_array(pointer, (self._num_vocabulary,))


class _BatchArrays:
    """The memory of `struct llama_batch`, used again for each batch."""

    def __init__(self, max_batch: int, max_sequences: int) -> None:
        self._tokens, self._positions, self._counts = (np.zeros(max_batch, np.int32) for _ in range(3))
        self._wanted = np.zeros(max_batch, np.int8)
        self._sequences = np.zeros((max_batch, max_sequences), np.int32)
        row = self._sequences.strides[0]
        first = self._sequences.ctypes.data
        self._rows = np.arange(max_batch + 1, dtype=np.uintp) * row + np.uintp(first)

    def fill(self, tokens: Sequence[BatchToken], llama_ids: Callable[[int], tuple[int, ...]]) -> DecodeBatch:
        """`tokens` as llama.cpp takes them."""
        num = len(tokens)
        self._tokens[:num] = [token.token_id for token in tokens]
        self._positions[:num] = [token.position for token in tokens]
        self._wanted[:num] = [token.wants_logits for token in tokens]
        for index, token in enumerate(tokens):
            ids = [each for sequence in token.sequences for each in llama_ids(sequence)]
            self._sequences[index, : len(ids)] = ids
            self._counts[index] = len(ids)
        arrays = (self._tokens, None, self._positions, self._counts, self._rows, self._wanted)
        return DecodeBatch(num, *(array if array is None else array.ctypes.data for array in arrays))
