"""Tool calls that are chosen, not written.

A model reasons in free text; when it acts, agentform turns the act into a call that is always well-formed: closed
arguments are scored in one batch, free ones are generated under a grammar, and the tool's true schema has the last
word. Importing this package imports no torch.
"""

from agentform import errors
from agentform.agent.agent import Agent, AgentRun, RunResult
from agentform.agent.approval import Allow, Approve, Deny
from agentform.agent.conversation import Conversation
from agentform.agent.responder import Responder, Response, UseTool
from agentform.agent.sqlite_store import SQLiteStore
from agentform.agent.store import ConversationStore
from agentform.agent.streaming import Streaming
from agentform.deciders import load_decider
from agentform.decoding.limits import Limits
from agentform.errors import AgentformError
from agentform.events import (
    AnswerDelta,
    ArgumentChosen,
    ArgumentDelta,
    CallReady,
    ChoiceMade,
    Event,
    HandedOff,
    ReasoningDelta,
    RunFinished,
    ThoughtDelta,
    ToolFinished,
    ToolStarted,
    TurnFinished,
)
from agentform.forms.asked import Decision, Decisions, OneOf, Score, YesNo
from agentform.forms.decide import decide, decide_sync
from agentform.forms.decider import Decider, DecisionModel
from agentform.forms.engine_decisions import EngineDecisions
from agentform.forms.fill import Filled, fill, fill_sync
from agentform.forms.label_prior import PriorStore
from agentform.forms.scoring import Scoring
from agentform.messages import Evidence, Message, ToolCall, ToolResult, Usage
from agentform.rows.each import RowResult
from agentform.rows.many import decide_many, decide_many_sync, fill_many, fill_many_sync
from agentform.runtime.engine import Engine, Sampling
from agentform.runtime.load import load_engine
from agentform.runtime.snapshots.policy import SnapshotPolicy
from agentform.schema.dependencies import DependsOn
from agentform.tools.context import RunContext
from agentform.tools.tool import Tool, tool
from agentform.tools.toolset import Toolbox
from agentform.turn.reasoning import Reasoning

__version__ = "0.1.0"

__all__ = [
    "Agent",
    "AgentRun",
    "AgentformError",
    "Allow",
    "AnswerDelta",
    "Approve",
    "ArgumentChosen",
    "ArgumentDelta",
    "CallReady",
    "ChoiceMade",
    "Conversation",
    "ConversationStore",
    "Decider",
    "Decision",
    "DecisionModel",
    "Decisions",
    "Deny",
    "DependsOn",
    "Engine",
    "EngineDecisions",
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
    "RowResult",
    "RunContext",
    "RunFinished",
    "RunResult",
    "SQLiteStore",
    "Sampling",
    "Score",
    "Scoring",
    "SnapshotPolicy",
    "Streaming",
    "ThoughtDelta",
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
    "decide_many",
    "decide_many_sync",
    "decide_sync",
    "errors",
    "fill",
    "fill_many",
    "fill_many_sync",
    "fill_sync",
    "load_decider",
    "load_engine",
    "tool",
]
