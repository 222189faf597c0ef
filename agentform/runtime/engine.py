"""The engine seam: two async verbs over token ids, the same for every engine.

An engine knows nothing of tools, forms or agents. The prompt is always given whole; the engine's prefix cache makes
that cheap. Nothing of an engine's own objects passes this seam.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from agentform.grammar.spec import GrammarSpec
from agentform.messages import Usage
from agentform.runtime.cache.statistics import CacheStatistics

__all__ = [
    "Branch",
    "Chunk",
    "Engine",
    "FinishReason",
    "GenerateRequest",
    "ModelInfo",
    "Sampling",
    "ScoreRequest",
    "ScoreResult",
    "Tokenizer",
]

FinishReason = Literal["eos", "stop", "length", "grammar", "deadline"]


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How the next token is picked; the default is greedy."""

    temperature: float = 0.0
    top_p: float = 1.0
    seed: int = 0
    top_k: int = 0
    """Only so many of the most probable tokens may be drawn; 0: any."""
    min_p: float = 0.0
    """Only tokens may be drawn that are at least so probable, as a share of the most probable one's probability."""
    repetition_penalty: float = 1.0
    """Logits of tokens that the completion holds already are divided by it, or multiplied where they are negative."""
    frequency_penalty: float = 0.0
    """Taken from a token's logit for each time that the completion holds it."""
    presence_penalty: float = 0.0
    """Taken from a token's logit if the completion holds it."""

    @property
    def penalises(self) -> bool:
        """Whether what was written bears on what is written next."""
        return (self.repetition_penalty, self.frequency_penalty, self.presence_penalty) != (1.0, 0.0, 0.0)


@dataclass(frozen=True, kw_only=True)
class GenerateRequest:
    """Continue a prompt.

    `deadline_s` counts from the submission of the request. `conversation` is a hint for pins and metrics.
    """

    prompt_ids: tuple[int, ...]
    max_tokens: int
    sampling: Sampling = field(default_factory=Sampling)
    stop: tuple[str, ...] = ()
    grammar: GrammarSpec | None = None
    deadline_s: float | None = None
    conversation: str | None = None
    boundaries: tuple[int, ...] = ()
    """Numbers of prompt tokens after which other prompts are likely to go on differently, such as ends of messages.

    A hint where a model with recurrent layers should keep a snapshot; others are ignored.
    """
    cache_salt: str = ""
    """Requests with different salts share nothing of the cache: neither hits nor their times tell of each other."""


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """A piece of a completion; the last one carries `finish` and `usage`.

    `text` never contains a matched stop string nor half a character; it may lag behind `token_ids`.
    """

    text: str = ""
    token_ids: tuple[int, ...] = ()
    finish: FinishReason | None = None
    stop: str | None = None
    """The stop string that ended the completion."""
    usage: Usage | None = None


@dataclass(frozen=True, kw_only=True)
class Branch:
    """A token path from the end of the prompt (may be empty) and the candidate token ids at its end."""

    path: tuple[int, ...]
    candidates: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class ScoreRequest:
    """Ask for log p of each branch's candidates; the prompt must hold at least one token."""

    prompt_ids: tuple[int, ...]
    branches: tuple[Branch, ...]
    deadline_s: float | None = None
    conversation: str | None = None
    boundaries: tuple[int, ...] = ()
    """See `GenerateRequest.boundaries`."""
    cache_salt: str = ""
    """See `GenerateRequest.cache_salt`."""
    aside: bool = False
    """Asked beside a conversation, such as what a model leans to without one: nothing is said next at this prompt."""


@dataclass(frozen=True, kw_only=True)
class ScoreResult:
    """Natural-log probabilities under the full softmax, one tuple per branch, in the order asked."""

    logprobs: tuple[tuple[float, ...], ...]
    usage: Usage


@dataclass(frozen=True, kw_only=True)
class ModelInfo:
    """What callers may need to know of the model behind an engine."""

    name: str
    digest: str
    """Identifies weights, dtype and tokenizer; priors and persisted caches are keyed by it."""
    context_tokens: int
    vocabulary_size: int
    scoring: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """How options are best scored with this model, as `agentform tune` found; engines only hand it on."""
    why: str = ""
    """Why this engine runs it, on this machine, in one sentence; empty where there was no choice."""
    scores: bool = True
    """Whether `score` is served; without it, choices are written under grammars, and nothing is known of other options.
    """
    lacks: tuple[str, ...] = ()
    """What this engine cannot do that others can, a sentence each."""


class Tokenizer(Protocol):
    """Text to token ids and back, and the model's chat template."""

    @property
    def eos_ids(self) -> frozenset[int]:
        """Ids that end an assistant turn."""
        ...

    @property
    def control_ids(self) -> frozenset[int]:
        """Ids of the tokens that text never becomes: those that only a chat template writes."""
        ...

    @property
    def has_tool_template(self) -> bool:
        """Whether the chat template itself renders tools and tool calls."""
        ...

    @property
    def learned(self) -> dict[str, Any]:
        """What users of the chat template have found out about it, kept for the next of them."""
        ...

    @property
    def template_arguments(self) -> dict[str, Any]:
        """Arguments that the chat template gets in every prompt; those of a prompt go before them."""
        ...

    @property
    def template_source(self) -> str:
        """The chat template's own text; empty where it is not known."""
        ...

    def encode(self, text: str, *, control: bool = False) -> tuple[int, ...]:
        """Token ids of `text`, nothing added.

        Text that spells a special token is data unless `control` is true.
        """
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """The text of `ids`, special tokens spelt out; incomplete UTF-8 becomes U+FFFD."""
        ...

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        generation_prompt: bool = True,
        arguments: Mapping[str, Any] | None = None,
    ) -> tuple[int, ...]:
        """Token ids of the chat template over `messages` (Hugging Face layout), BOS as the template has it.

        `arguments` are the template's own, such as `enable_thinking`.

        Text inside messages that spells a special token is encoded as data.
        """
        ...

    def render_text(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        generation_prompt: bool = True,
        arguments: Mapping[str, Any] | None = None,
    ) -> str:
        """What `render` encodes, as text, as transformers' own `apply_chat_template(tokenize=False)` gives it."""
        ...


@runtime_checkable
class Engine(Protocol):
    """Serves `generate` and `score` over token ids."""

    @property
    def info(self) -> ModelInfo:
        """The model being served."""
        ...

    @property
    def tokenizer(self) -> Tokenizer:
        """The model's tokenizer."""
        ...

    def generate(self, request: GenerateRequest) -> AsyncGenerator[Chunk, None]:
        """Stream a completion. Closing the generator cancels the request and frees what it held.

        A deadline ends the stream with `finish="deadline"`.

        Raises:
            ContextOverflow: prompt and completion together do not fit the model's context.
            InvalidRequest: the request is malformed, such as a token id outside the vocabulary.
            GrammarError: the grammar does not compile, or its matcher stops with an error.
            CacheBudgetExceeded: the request needs more than the budget, even with all else evicted.
            EngineClosed: the engine is closed, or its worker died.
        """
        ...

    async def score(self, request: ScoreRequest) -> ScoreResult:
        """Score candidates; no token is sampled.

        Raises:
            ContextOverflow: prompt and completion together do not fit the model's context.
            InvalidRequest: the request is malformed, such as a token id outside the vocabulary.
            CacheBudgetExceeded: the request needs more than the budget, even with all else evicted.
            DeadlineExceeded: it was not done by its deadline.
            EngineClosed: the engine is closed, or its worker died.
        """
        ...

    def expect_return(self, conversation: str, *, after: str) -> None:
        """A hint: the conversation leaves now and comes back after something with this name, such as a tool's run.

        An engine may keep its end in the cache for as long as what has that name usually takes. Never blocks.
        """
        ...

    def statistics(self) -> CacheStatistics:
        """A snapshot of the prefix cache's counters."""
        ...

    async def aclose(self) -> None:
        """Stop serving; requests in flight end with EngineClosed."""
        ...
