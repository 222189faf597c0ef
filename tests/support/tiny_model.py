"""A tiny random Llama with grouped-query attention beside the tiny tokenizer, and what transformers says of it."""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel

from tests.support.tiny_tokenizer import TinyVocabulary, write_tiny_tokenizer

__all__ = ["CONTEXT_TOKENS", "EOS_IDS", "greedy", "logprobs", "write_tiny_model"]

CONTEXT_TOKENS = 256
EOS_IDS = (0, 2)
_STRUCTURAL = 4


def write_tiny_model(folder: Path, *, seed: int = 0, endless: bool = False, **changes: object) -> PreTrainedModel:
    """Write weights, config and tokenizer; returns the model with transformers' own eager attention, float32.

    An `endless` model never ends a greedy completion: the logit of the tokens that end a turn is always 0, which is
    never the largest.
    """
    facts: dict[str, object] = {
        "vocab_size": len(TinyVocabulary.build().tokens) + _STRUCTURAL,
        "hidden_size": 48,
        "intermediate_size": 64,
        "num_hidden_layers": 3,
        "num_attention_heads": 6,
        "num_key_value_heads": 2,
        "max_position_embeddings": CONTEXT_TOKENS,
        "initializer_range": 0.3,
        "eos_token_id": 2,
        "bos_token_id": 1,
        "attn_implementation": "eager",
    }
    torch.manual_seed(seed)
    model = LlamaForCausalLM(LlamaConfig(**(facts | changes))).eval()
    if endless:
        with torch.no_grad():
            model.lm_head.weight[list(EOS_IDS)] = 0.0
    model.save_pretrained(folder)
    write_tiny_tokenizer(folder)  # last: its generation_config.json names both ids that end a turn
    return model


def greedy(model: PreTrainedModel, prompt: tuple[int, ...], num: int) -> tuple[int, ...]:
    """The first `num` tokens of a greedy completion, or fewer if it ends; without the token that ended it."""
    with torch.no_grad():
        out = model.generate(
            torch.tensor([prompt]),
            max_new_tokens=num,
            do_sample=False,
            eos_token_id=list(EOS_IDS),
            pad_token_id=0,
        )
    ids = tuple(out[0, len(prompt) :].tolist())
    return ids[:-1] if ids and ids[-1] in EOS_IDS else ids


def logprobs(model: PreTrainedModel, ids: tuple[int, ...]) -> torch.Tensor:
    """log p of every token after `ids`, `[vocabulary]`, from one full forward."""
    with torch.no_grad():
        return model(torch.tensor([ids])).logits[0, -1].float().log_softmax(dim=-1)
