"""LangChain on models that you host: tool calls that are chosen, not written, and always satisfy their schema."""

from langchain_agentform.chat_model import ChatAgentform
from langchain_agentform.decision_model import AgentformDecisionModel
from langchain_agentform.errors import UnsupportedContent

__version__ = "0.1.0"

__all__ = ["AgentformDecisionModel", "ChatAgentform", "UnsupportedContent"]
