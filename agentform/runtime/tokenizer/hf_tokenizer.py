"""The tokenizer of a Hugging Face model folder, in which data never becomes control.

Works on tokenizer.json through the `tokenizers` library; transformers is not imported.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentform._util.lru import BoundedDict
from agentform.errors import InvalidRequest, WeightsCorrupt
from agentform.runtime.models.extras import torch_extra
from agentform.runtime.tokenizer.built_tokens import pieces_of
from agentform.runtime.tokenizer.chat_template import ChatTemplate, read_json
from agentform.runtime.tokenizer.control_text import ControlText, plain
from agentform.runtime.tokenizer.template_probe import renders_tools, turn_end
from agentform.runtime.tokenizer.token_bytes import is_byte_level, token_bytes_table

if TYPE_CHECKING:
    from tokenizers import AddedToken, Tokenizer

    from agentform.grammar.vocabulary import ReadTokenizer

__all__ = ["HFTokenizer"]

_LONG_TEXT = 16_384
"""Characters that take longer than others may wait for."""
_PROBES = (("x", "x"), (" x", "\n x"), ("", "\nx y\n"))
"""What stands before a control token and after it."""

_KNOWN_CHARACTERS = 1 << 20
"""Of texts whose ids are kept, for prompts, questions and options come back; ids take ten bytes a character."""


class HFTokenizer:
    """Implements `agentform.runtime.engine.Tokenizer`; safe to use from several threads.

    Control tokens are the special tokens and those added tokens that the chat template itself writes, such as
    `<tool_call>`.
    """

    def __init__(self, folder: Path) -> None:
        """Load tokenizer.json and the chat template of `folder`.

        Raises:
            WeightsCorrupt: weights do not have the digest or the files that they should have.
            MissingDependency: an optional package is not installed.
        """
        self.folder = folder
        """Where its files are."""
        self._template = ChatTemplate.of_folder(folder)
        self._tokenizer = _load(folder / "tokenizer.json")
        added = self._tokenizer.get_added_tokens_decoder()
        self.special_ids: frozenset[int] = frozenset(i for i, token in added.items() if token.special)
        """Ids of the tokens that the tokenizer itself calls special."""
        special = [token.content for token in added.values() if token.special]
        structural = [t for t in added.values() if not t.special and _is_structural(t.content, self._template.source)]
        # From here on the library leaves these, too, alone where it is told to take special tokens as text.
        self._tokenizer.add_special_tokens(structural)
        self._control_text = ControlText(special=special, structural=[token.content for token in structural])
        self._control_tokens = {t.content: (i, t) for i, t in added.items() if t.special or t in structural}
        self.control_ids: frozenset[int] = frozenset(i for i, _ in self._control_tokens.values())
        """Ids that text never becomes: special tokens, and added ones that the template writes."""
        self._mode = threading.Lock()  # guards what the library is told to take for control, and what is known
        self._known: BoundedDict[tuple[str, bool], tuple[int, ...]] = BoundedDict(
            _KNOWN_CHARACTERS, weight=lambda key, _: len(key[0])
        )
        self._long_mode = threading.Lock()  # the same for long texts
        # Read now: whoever asks for `eos_ids` first may be on an event loop.
        self._configured_eos = [_configured_eos(folder / name) for name in ("generation_config.json", "config.json")]

    @cached_property
    def eos_ids(self) -> frozenset[int]:
        """Ids that end an assistant turn: those configured, and what the template writes after an answer."""
        spelt = (self._template.eos_token, turn_end(self._template, self._control_tokens))
        named = (self._tokenizer.token_to_id(token) for token in spelt if token)
        return frozenset().union(*self._configured_eos, (i for i in named if i is not None))

    @cached_property
    def learned(self) -> dict[str, Any]:
        """What users of the chat template have found out about it, kept for the next of them."""
        return {}

    @cached_property
    def has_tool_template(self) -> bool:
        """Whether the chat template renders both a tool and a call of it."""
        return renders_tools(self._template)

    @cached_property
    def template_arguments(self) -> dict[str, Any]:
        """Arguments that the chat template gets in every prompt; those of a prompt go before them."""
        return {}

    @property
    def template_source(self) -> str:
        """The chat template's own text; empty where there is none."""
        return self._template.source

    @property
    def vocabulary_size(self) -> int:
        """One more than the highest token id."""
        return len(self._token_bytes)

    @property
    def tokenizer_json(self) -> str:
        """The tokenizer in the `tokenizers` library's format, control tokens marked special."""
        return self._tokenizer.to_str()

    def for_grammars(self) -> str | ReadTokenizer:
        """What `Vocabulary` takes: itself where ids and bytes of a text are the same, else its JSON text."""
        from agentform.grammar.vocabulary import ReadTokenizer

        if not (is_byte_level(self._tokenizer) and all(self._is_exact(text) for text in ("x", " x x", "é\n"))):
            return self.tokenizer_json
        added = self._tokenizer.get_added_tokens_decoder().items()
        return ReadTokenizer(
            token_bytes=self._token_bytes,
            special_ids=[i for i, token in added if token.special or _is_tag(token.content)],
            encode=self.encode,
            json=lambda: self.tokenizer_json,
        )

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes that a token stands for; empty for ids that no token has.

        Raises:
            InvalidRequest: for an id outside the vocabulary.
        """
        if not 0 <= token_id < self.vocabulary_size:
            raise InvalidRequest(f"token id {token_id} is outside the vocabulary of {self.vocabulary_size}")
        return self._token_bytes[token_id]

    def encode(self, text: str, *, control: bool = False) -> tuple[int, ...]:
        """Token ids of `text`, nothing added; spelt control tokens are data unless `control` is true.

        Raises:
            InvalidRequest: `text` is not valid Unicode.
        """
        if len(text) > _LONG_TEXT:
            return self._encode_long(text, control)
        with self._mode:
            known = self._known.use((text, control))
            if known is not None:
                return known
            self._tokenizer.encode_special_tokens = not control
            try:
                ids = tuple(self._tokenizer.encode(text, add_special_tokens=False).ids)
            except (TypeError, UnicodeEncodeError) as error:
                raise InvalidRequest(f"text that cannot be encoded as UTF-8: {text[:40]!a}") from error
            self._known[text, control] = ids
            return ids

    def _encode_long(self, text: str, control: bool) -> tuple[int, ...]:
        """Elsewhere, so that nobody waits: the library lets other threads go on during a batch only, and not for those
        who need the same tokenizer."""
        with self._long_mode:
            tokenizer = self._for_long_texts
            tokenizer.encode_special_tokens = not control
            try:
                return tuple(tokenizer.encode_batch([text], add_special_tokens=False)[0].ids)
            except (TypeError, UnicodeEncodeError) as error:
                raise InvalidRequest(f"text that cannot be encoded as UTF-8: {text[:40]!a}") from error

    @cached_property
    def _for_long_texts(self) -> Tokenizer:
        return type(self._tokenizer).from_str(self._tokenizer.to_str())

    def decode(self, ids: Sequence[int]) -> str:
        """The text of `ids`, special tokens spelt out; incomplete UTF-8 becomes U+FFFD."""
        return self._tokenizer.decode(list(ids), skip_special_tokens=False)

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        generation_prompt: bool = True,
        arguments: Mapping[str, Any] | None = None,
    ) -> tuple[int, ...]:
        """Token ids of the chat template over `messages`; control tokens spelt inside the inputs are data.

        An assistant message's own text may hold marks that the template writes (`<think>`), not special ones.

        Raises:
            InvalidRequest: the template refuses the messages.
        """
        arguments = {**self.template_arguments, **(arguments or {})}
        text, restore = self._rendered(messages, tools, generation_prompt, arguments, frozenset())
        spelt = self._control_text.tokens_in(text)
        given = tools if not arguments else [*(tools or ()), arguments]
        if pieces := pieces_of(frozenset(spelt), messages, given):
            apart = self._rendered(messages, tools, generation_prompt, arguments, pieces)
            if self._control_text.tokens_in(apart[0]) != spelt:  # some were built from pieces
                text, restore = apart
        if restore is not None:
            return self._encode_apart(text, restore)
        # What stands between control tokens was encoded when the conversation was shorter.
        return self._encode_apart(text) if self._encodes_apart else self.encode(text, control=True)

    def render_text(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        generation_prompt: bool = True,
        arguments: Mapping[str, Any] | None = None,
    ) -> str:
        """What `render` encodes, as text, as transformers' `apply_chat_template(tokenize=False)` gives it.

        Raises:
            InvalidRequest: the template refuses the messages.
        """
        arguments = {**self.template_arguments, **(arguments or {})}
        return self._template.render(
            plain(messages), plain(tools), generation_prompt=generation_prompt, arguments=arguments
        )

    def _rendered(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None,
        generation_prompt: bool,
        arguments: Mapping[str, Any] | None,
        pieces: frozenset[str],
    ) -> tuple[str, Callable[[str], str] | None]:
        """The text, in which control tokens are the template's, and how what stands between them is restored."""
        given = list(tools or ()) + ([arguments] if arguments else [])  # users may have a word in these, too
        marked = self._control_text.mark(messages, given, pieces=pieces)
        if marked is None:
            text = self.render_text(messages, tools=tools, generation_prompt=generation_prompt, arguments=arguments)
            return text, None
        listed = list(marked.tools or ())
        own = listed.pop() if arguments else None
        text = self._template.render(
            marked.messages, None if tools is None else listed, generation_prompt=generation_prompt, arguments=own
        )
        return text, marked.restore

    @cached_property
    def _token_bytes(self) -> tuple[bytes, ...]:
        return token_bytes_table(self._tokenizer)

    def _is_exact(self, text: str) -> bool:
        """Not where a first word is given a space before it."""
        return b"".join(map(self.token_bytes, self.encode(text))) == text.encode()

    @cached_property
    def _encodes_apart(self) -> bool:
        """Whether the library encodes what stands between control tokens as if each piece stood alone.

        It does not where the first word of a text, and of that only, gets a mark of its own.
        """
        if any(token.single_word for _, token in self._control_tokens.values()):
            return False
        probes = [f"{a}{mark}{b}{mark}" for mark in self._control_tokens for a, b in _PROBES]
        return all(self._encode_apart(text) == self.encode(text, control=True) for text in probes)

    def _encode_apart(self, text: str, restore: Callable[[str], str] = str) -> tuple[int, ...]:
        """Pieces alternate: text, then a control token that the template wrote, then text."""
        pieces = list(self._control_text.split(text))
        control = [self._control_tokens[piece] for piece in pieces[1::2]]
        ids: list[int] = []
        for position, run in enumerate(pieces[::2]):
            before = control[position - 1][1] if position else None
            after = control[position][1] if position < len(control) else None
            if run:
                ids += self.encode(_strip(restore(run), before, after))
            if position < len(control):
                ids.append(control[position][0])
        return tuple(ids)


def _strip(run: str, before: AddedToken | None, after: AddedToken | None) -> str:
    """Some control tokens swallow the white space next to them."""
    run = run.lstrip() if before is not None and before.rstrip else run
    return run.rstrip() if after is not None and after.lstrip else run


def _is_structural(content: str, template: str) -> bool:
    return bool(content.strip()) and content in template


def _is_tag(content: str) -> bool:
    """What llguidance takes for special in a tokenizer.json, whatever is said there."""
    return content.startswith("<") and content.endswith(">")


def _load(path: Path) -> Tokenizer:
    with torch_extra():
        from tokenizers import Tokenizer
    if not path.is_file():
        raise WeightsCorrupt(f"{path.parent} has no tokenizer.json; a model with a fast tokenizer is needed")
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises bare Exception
        raise WeightsCorrupt(f"{path} is not a tokenizer that can be loaded: {error}") from error
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def _configured_eos(path: Path) -> frozenset[int]:
    config = read_json(path)
    entry = config.get("eos_token_id", config.get("text_config", {}).get("eos_token_id"))
    return frozenset(entry) if isinstance(entry, list) else frozenset() if entry is None else frozenset((entry,))
