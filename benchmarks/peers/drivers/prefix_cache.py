"""A transformers model, and the keys and values of its last prompt, which the next one starts from where both agree.

transformers gives `generate` a cache to go on from and leaves the keeping of it to the caller.
"""

from __future__ import annotations

from typing import Any

import torch
import transformers

from benchmarks.peers.task import Model, shared_length

__all__ = ["CachedModel"]


class CachedModel:
    """Loaded in bfloat16, or float32 where the processor does not compute in bfloat16."""

    def __init__(self, model: Model) -> None:
        torch.set_num_threads(model.threads)
        self.dtype = torch.bfloat16 if _computes_bfloat16() else torch.float32
        self.model: Any = transformers.AutoModelForCausalLM.from_pretrained(model.folder, dtype=self.dtype).eval()
        self.tokenizer: Any = transformers.AutoTokenizer.from_pretrained(model.folder)
        self.settings = {
            "dtype": str(self.dtype),
            "threads": model.threads,
            "attention": self.model.config._attn_implementation,
            "prefix cache": "keys and values of the last request, cropped to what both begin with",
        }
        self._ids: list[int] = []
        self._cache: Any = transformers.DynamicCache(config=self.model.config)
        self.cached_tokens = 0

    def begin(self, ids: list[int]) -> Any:
        """The cache to give to `generate` for this prompt; `cached_tokens` says how much of it there is."""
        # At least one token has to be computed.
        self.cached_tokens = min(shared_length(self._ids, ids), self._cache.get_seq_length(), len(ids) - 1)
        if self.cached_tokens == 0:
            self._cache = transformers.DynamicCache(config=self.model.config)
        elif self._cache.get_seq_length() > self.cached_tokens:
            self._cache.crop(self.cached_tokens - self._cache.get_seq_length())
        return self._cache

    def end(self, ids: list[int]) -> None:
        """Note what the cache now holds: the prompt and what was generated."""
        self._ids = ids[: self._cache.get_seq_length()]

    def generate(self, ids: list[int], *, max_tokens: int, processors: list[Any]) -> list[int]:
        """What comes after the prompt, greedy, its end token included."""
        prompt = torch.tensor([ids])
        out = self.model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            cache=self.begin(ids),
            max_new_tokens=max_tokens,
            do_sample=False,
            logits_processor=transformers.LogitsProcessorList(processors),
            pad_token_id=self.tokenizer.eos_token_id,
        )[0].tolist()
        self.end(out)
        return out[len(ids) :]


def _computes_bfloat16() -> bool:
    try:
        return "avx512_bf16" in open("/proc/cpuinfo", encoding="utf-8").read()
    except OSError:
        return False
