"""A byte-level BPE tokenizer of a few hundred tokens with ChatML control tokens, written into a folder."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

__all__ = ["CHATML", "CHATML_WITH_TOOLS", "SPECIAL", "STRUCTURAL", "TinyVocabulary", "write_tiny_tokenizer"]

SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
STRUCTURAL = ("<tool_call>", "</tool_call>", "<think>", "</think>")
"""Added but not special, as in Qwen's vocabularies; the template with tools writes the first two."""
_WORDS = (
    " the",
    " world",
    "hello",
    "user",
    "assistant",
    "system",
    "tool",
    "true",
    "false",
    "null",
    '":',
    '",',
    "ing",
)

CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + "
    "'<|im_end|>\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
CHATML_WITH_TOOLS = (
    "{% if tools %}{{ '<|im_start|>system\\n' }}{% for tool in tools %}{{ tool | tojson }}{% endfor %}"
    "{{ '<|im_end|>\\n' }}{% endif %}"
    "{% for message in messages %}{{ '<|im_start|>' + message.role + '\\n' + message.content }}"
    "{% for call in message.tool_calls or [] %}"
    "{{ '<tool_call>' + (call.function | tojson) + '</tool_call>' }}{% endfor %}"
    "{{ '<|im_end|>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


@dataclass(frozen=True)
class TinyVocabulary:
    """Tokens in order of their ids (special, bytes, merged) and the merges that make the last."""

    tokens: tuple[str, ...]
    merges: tuple[tuple[str, str], ...]

    @classmethod
    def build(cls) -> TinyVocabulary:
        """Every word of a short list becomes one token through merges from its left end."""
        tokens = [*SPECIAL, *sorted(pre_tokenizers.ByteLevel.alphabet())]
        merges: list[tuple[str, str]] = []
        for word in _WORDS:
            word = word.replace(" ", "Ġ")
            for end in range(1, len(word)):
                if word[: end + 1] not in tokens:
                    merges.append((word[:end], word[end]))
                    tokens.append(word[: end + 1])
        return cls(tuple(tokens), tuple(merges))


def write_tiny_tokenizer(folder: Path, *, template: str | None = CHATML, structural: bool = True) -> Path:
    """Write tokenizer.json, tokenizer_config.json and generation_config.json; ids 0..2 are `SPECIAL`."""
    vocabulary = TinyVocabulary.build()
    ids = {token: i for i, token in enumerate(vocabulary.tokens)}
    tokenizer = Tokenizer(models.BPE(vocab=ids, merges=list(vocabulary.merges)))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in SPECIAL])
    if structural:
        tokenizer.add_tokens([AddedToken(text, normalized=False) for text in STRUCTURAL])
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {"eos_token": SPECIAL[2], "pad_token": SPECIAL[2], "tokenizer_class": "PreTrainedTokenizerFast"}
    if template is not None:
        config["chat_template"] = template
    (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [0]}), encoding="utf-8")
    return folder
