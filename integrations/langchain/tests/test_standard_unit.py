"""LangChain's own unit tests of a chat model."""

from __future__ import annotations

from langchain_tests.unit_tests import ChatModelUnitTests

from agentform.testing import ScriptedEngine
from langchain_agentform import ChatAgentform


class TestChatAgentformUnit(ChatModelUnitTests):
    @property
    def chat_model_class(self):
        return ChatAgentform

    @property
    def chat_model_params(self):
        return {"engine": ScriptedEngine([])}
