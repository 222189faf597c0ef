"""Every error agentform raises, in one tree.

::

    AgentformError
    ├── SchemaError                 a schema or signature that cannot be turned into a form
    │   ├── UnsupportedSchema
    │   └── UnsupportedSignature
    ├── ToolError                   a tool that cannot be registered, found or run
    │   ├── InvalidToolName
    │   ├── DuplicateTool
    │   ├── UnknownTool
    │   ├── ToolTimeout
    │   ├── ToolAborted
    │   └── ToolFailed
    ├── GrammarError                a grammar that does not compile
    ├── EngineError                 the engine cannot serve a request
    │   ├── ModelNotFound
    │   ├── WeightsUnavailable
    │   ├── WeightsCorrupt
    │   ├── MissingDependency
    │   ├── ContextOverflow
    │   ├── CacheBudgetExceeded
    │   ├── WrongSnapshotSlot
    │   ├── DeadlineExceeded
    │   ├── InvalidRequest
    │   ├── CannotScore             an engine that only writes, asked how probable something is
    │   ├── HorizonsUnknown
    │   ├── EngineClosed
    │   ├── EngineUnavailable       a remote engine that cannot be reached or asked just now
    │   ├── EngineUnauthorized
    │   ├── ReplyMalformed
    │   ├── ModelMismatch
    │   ├── DecisionFailed          a decision model that failed in a way of its own
    │   └── ScriptMismatch
    ├── CallError                   a call or form that cannot be completed
    │   ├── TokenizationChanged
    │   ├── ArgumentMalformed
    │   ├── ArgumentsTruncated
    │   ├── CallRejected
    │   └── Abstained
    ├── StoreError                  a conversation store that cannot be used
    │   ├── StoreCorrupt
    │   ├── StoreVersion
    │   └── ConversationChanged
    └── InvalidInput                a file or value handed to the command line or SDK
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentform._util.text import said

if TYPE_CHECKING:
    from agentform.messages import Evidence, JsonValue

__all__ = [
    "Abstained",
    "AgentformError",
    "ArgumentMalformed",
    "ArgumentsTruncated",
    "Attempt",
    "CacheBudgetExceeded",
    "CallError",
    "CallRejected",
    "CannotScore",
    "ContextOverflow",
    "ConversationChanged",
    "DeadlineExceeded",
    "DecisionFailed",
    "DuplicateTool",
    "EngineClosed",
    "EngineError",
    "EngineUnauthorized",
    "EngineUnavailable",
    "GrammarError",
    "HorizonsUnknown",
    "InvalidInput",
    "InvalidRequest",
    "InvalidToolName",
    "MissingDependency",
    "ModelMismatch",
    "ModelNotFound",
    "Relaxation",
    "ReplyMalformed",
    "SchemaError",
    "ScriptMismatch",
    "StoreCorrupt",
    "StoreError",
    "StoreVersion",
    "TokenizationChanged",
    "ToolAborted",
    "ToolError",
    "ToolFailed",
    "ToolTimeout",
    "UnknownTool",
    "UnsupportedSchema",
    "UnsupportedSignature",
    "Violation",
    "WeightsCorrupt",
    "WeightsUnavailable",
    "WrongSnapshotSlot",
]


@dataclass(frozen=True, kw_only=True)
class Violation:
    """One way in which a value breaks its schema."""

    pointer: str
    """JSON Pointer of the failing place; `""` is the whole value."""
    reason: str
    """What is wrong and what would be right, as the validator words it."""


@dataclass(frozen=True, kw_only=True)
class Relaxation:
    """Something that a form or a grammar does not enforce; validation does."""

    pointer: str
    """JSON Pointer of the place in the schema; `""` when it is the whole, or when the engine does not say where."""
    what: str


class AgentformError(Exception):
    """Base of every error that agentform raises."""


class SchemaError(AgentformError):
    """Raised when a schema or signature cannot be turned into a form."""


class UnsupportedSchema(SchemaError):
    """Raised when a schema uses something that agentform does not implement, or is not a schema."""

    def __init__(self, reason: str, *, pointer: str = "") -> None:
        super().__init__(f"schema at '{pointer}': {reason}")
        self.pointer = pointer
        self.reason = reason


class UnsupportedSignature(SchemaError):
    """Raised when a function's signature cannot become a tool's arguments."""


class ToolError(AgentformError):
    """Raised when a tool cannot be registered, found or run."""


class InvalidToolName(ToolError):
    """Raised when a tool's name is not 1 to 128 of the characters a-z, A-Z, 0-9, `_`, `-`, `.` and `/`."""


class DuplicateTool(ToolError):
    """Raised when two tools of one toolbox share a name."""


class UnknownTool(ToolError):
    """Raised when a tool is asked for by a name that the toolbox does not hold."""


class ToolTimeout(ToolError):
    """Raised when a tool did not end within its `timeout_s`."""

    def __init__(self, name: str, timeout_s: float | None) -> None:
        super().__init__(f"tool {name!r} did not end within {timeout_s} s")
        self.name = name
        self.timeout_s = timeout_s


class ToolAborted(ToolError):
    """Raised when a tool raised what is meant to end a program, a task or an iteration, such as SystemExit.

    What it raised is the cause.
    """

    def __init__(self, name: str, kind: str, said: str) -> None:
        super().__init__(f"tool {name!r} raised {kind}{': ' if said else ''}{said}")
        self.name = name
        self.kind = kind
        """Class name of what it raised."""
        self.said = said
        """Its text."""


class ToolFailed(ToolError):
    """Raised when a tool raised and the policy is to raise; the tool's own error is the cause."""

    def __init__(self, name: str, error: BaseException) -> None:
        super().__init__(f"tool {name!r} raised {type(error).__name__}: {said(error)}")
        self.name = name


class GrammarError(AgentformError):
    """Raised when a grammar does not compile or its matcher stops with an error."""


class EngineError(AgentformError):
    """Raised when the engine cannot serve a request."""


class ModelNotFound(EngineError):
    """Raised when a model name is neither in the catalogue, nor a folder, nor a hub id."""


class WeightsUnavailable(EngineError):
    """Raised when weights are not on disk and cannot be fetched; says how to get them."""


class WeightsCorrupt(EngineError):
    """Raised when weights do not have the digest or the files that they should have."""


class MissingDependency(EngineError):
    """Raised when an optional package is needed; names the extra that brings it."""


class ContextOverflow(EngineError):
    """Raised when prompt and completion together do not fit the model's context."""

    def __init__(self, *, prompt_tokens: int, context_tokens: int, completion_tokens: int = 0) -> None:
        wanted = f"{prompt_tokens} prompt tokens"
        if completion_tokens:
            wanted += f" and {completion_tokens} more"
        super().__init__(f"{wanted} do not fit the model's context of {context_tokens} tokens")
        self.prompt_tokens = prompt_tokens
        self.context_tokens = context_tokens


class CacheBudgetExceeded(EngineError):
    """Raised when a request needs more cache memory than the budget holds, even with all else evicted."""


class WrongSnapshotSlot(EngineError):
    """Raised when a recurrent state was about to be read from a slot that does not hold what was looked for."""


class DeadlineExceeded(EngineError):
    """Raised when a request or run was not done by its deadline."""


class InvalidRequest(EngineError):
    """Raised when a request is malformed, such as a token id outside the vocabulary."""


class CannotScore(EngineError):
    """Raised when an engine that only writes is asked how probable options are; says what would work."""

    def __init__(self, where: str) -> None:
        super().__init__(
            f"{where} tells no probabilities, so that nothing can be scored or held to a limit on them. What works: "
            "fill() with a form, whose choices are then written under its schema; a decision model, load_decider() or "
            "decider=; or an engine that scores: a model in this process, SGLang's server or llama.cpp's"
        )


class HorizonsUnknown(EngineError):
    """Raised when decay parameters are not found in a model, or are of a layout that is not known; says which."""


class EngineClosed(EngineError):
    """Raised when a request reaches an engine that is closed or whose worker died."""


class EngineUnavailable(EngineError):
    """Raised when a remote engine is not reached, is overloaded, falls silent or breaks off; it may be back later."""


class EngineUnauthorized(EngineError):
    """Raised when a remote engine refuses the key or the client certificate."""


class ReplyMalformed(EngineError):
    """Raised when a remote engine answers with something else than its protocol says."""


class ModelMismatch(EngineError):
    """Raised when a remote engine serves another model than the tokenizer belongs to, or than it served before."""


class DecisionFailed(EngineError):
    """Raised when a decision model fails in a way of its own, which is the cause, or leaves a question open."""


class ScriptMismatch(EngineError):
    """Raised when a scripted engine is asked for what its script does not hold; says what was asked."""


class CallError(AgentformError):
    """Raised when a call or form cannot be completed."""


class TokenizationChanged(CallError):
    """Raised when adding an option changes the token ids before it, so that it cannot be scored there."""


class ArgumentMalformed(CallError):
    """Raised when a free argument kept to its grammar and is still no strict JSON: 1e999, or a key that comes twice."""

    def __init__(self, *, pointer: str, written: str, reason: str) -> None:
        super().__init__(f"argument '{pointer}' is no strict JSON: {reason}: {written[-80:]!r}")
        self.pointer = pointer
        self.written = written
        self.reason = reason


class ArgumentsTruncated(CallError):
    """Raised when a free argument ran into its token limit; what was written is never reported as a call.

    One that only repeats itself was first written again with a bound, `Limits.repairs` times at most.
    """

    def __init__(self, *, pointer: str, written: str, max_tokens: int) -> None:
        super().__init__(f"argument '{pointer}' was not complete after {max_tokens} tokens: {written[-80:]!r}")
        self.pointer = pointer
        self.written = written
        self.max_tokens = max_tokens


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One set of arguments that the true schema refused."""

    arguments: JsonValue
    violations: tuple[Violation, ...]


class CallRejected(CallError):
    """Raised when no attempt satisfied the true schema within the repair limit, nor any other answers that were tried.

    `unsatisfied` is the smallest set of rules of which each of these broke at least one; empty where none was tried.
    """

    def __init__(self, target: str, attempts: Sequence[Attempt], unsatisfied: Sequence[Violation] = ()) -> None:
        told = f"{target}: no valid arguments in {len(attempts)} attempts; the last failed at "
        told += _listed(attempts[-1].violations)
        if unsatisfied:
            told += f"; no other answers that were tried keep {_listed(unsatisfied[:_RULES_TOLD])}"
        super().__init__(told)
        self.target = target
        self.attempts = tuple(attempts)
        self.unsatisfied = tuple(unsatisfied)


_RULES_TOLD = 3


def _listed(violations: Sequence[Violation]) -> str:
    return "; ".join(f"{v.pointer or '(whole)'}: {v.reason}" for v in violations)


class Abstained(CallError):
    """Raised when a choice stayed below the limits on legal mass or probability."""

    def __init__(self, reason: str, evidence: Sequence[Evidence]) -> None:
        super().__init__(reason)
        self.evidence = tuple(evidence)


class StoreError(AgentformError):
    """Raised when a conversation store cannot be opened, read or written."""


class StoreCorrupt(StoreError):
    """Raised when a file is no conversation store, or holds what agentform did not write."""


class StoreVersion(StoreError):
    """Raised when a store was written by a version of agentform with another layout."""


class ConversationChanged(StoreError):
    """Raised when a conversation was saved by someone else after it was loaded."""


class InvalidInput(AgentformError):
    """Raised when a file or value given to the command line or the SDK is not what it should be."""
