"""Tool calls that are chosen, not written.

A model reasons in free text; when it acts, agentform turns the act into a call that is always well-formed: closed
arguments are scored in one batch, free ones are generated under a grammar, and the tool's true schema has the last
word. Importing this package imports no torch.
"""

from agentform import errors
from agentform.agent.approval import Allow, Deny
from agentform.agent.conversation import Conversation
from agentform.agent.loop import Agent, AgentRun, RunResult
from agentform.agent.respond import Responder, Response, UseTool
from agentform.agent.sqlite_store import SQLiteStore
from agentform.agent.store import ConversationStore
from agentform.agent.streaming import Streaming
from agentform.calls.choose import Scoring
from agentform.calls.decisions import Decision, Decisions, OneOf, Score, YesNo, decide
from agentform.calls.form_filling import Filled, fill, fill_sync
from agentform.calls.limits import Limits
from agentform.calls.prior import PriorStore
from agentform.calls.thinking import Reasoning
from agentform.errors import AgentformError
from agentform.messages import (
    AnswerDelta,
    ArgumentChosen,
    ArgumentDelta,
    CallReady,
    ChoiceMade,
    Event,
    Evidence,
    HandedOff,
    Message,
    ReasoningDelta,
    RunFinished,
    ToolCall,
    ToolFinished,
    ToolResult,
    ToolStarted,
    TurnFinished,
    Usage,
)
from agentform.run_context import RunContext
from agentform.runtime.cache.policy import SnapshotPolicy
from agentform.runtime.engine import Engine, Sampling
from agentform.runtime.load import load_engine
from agentform.schema.depends import DependsOn
from agentform.tools import Tool, Toolbox, tool

__version__ = "0.1.0"

__all__ = [
    "Agent",
    "AgentRun",
    "AgentformError",
    "Allow",
    "AnswerDelta",
    "ArgumentChosen",
    "ArgumentDelta",
    "CallReady",
    "ChoiceMade",
    "Conversation",
    "ConversationStore",
    "Decision",
    "Decisions",
    "Deny",
    "DependsOn",
    "Engine",
    "Event",
    "Evidence",
    "Filled",
    "HandedOff",
    "Limits",
    "Message",
    "OneOf",
    "PriorStore",
    "Reasoning",
    "ReasoningDelta",
    "Responder",
    "Response",
    "RunContext",
    "RunFinished",
    "RunResult",
    "SQLiteStore",
    "Sampling",
    "Score",
    "Scoring",
    "SnapshotPolicy",
    "Streaming",
    "Tool",
    "ToolCall",
    "ToolFinished",
    "ToolResult",
    "ToolStarted",
    "Toolbox",
    "TurnFinished",
    "Usage",
    "UseTool",
    "YesNo",
    "decide",
    "errors",
    "fill",
    "fill_sync",
    "load_engine",
    "tool",
]
