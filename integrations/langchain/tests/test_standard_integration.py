"""LangChain's own integration tests of a chat model, on a real model of 135 million parameters."""

from __future__ import annotations

import pytest
from langchain_tests.integration_tests import ChatModelIntegrationTests

from agentform import Limits
from langchain_agentform import ChatAgentform

DETAILS = ["cache_read_input", "reasoning_output"]


class TestChatAgentformIntegration(ChatModelIntegrationTests):
    @pytest.fixture(autouse=True)
    def _with_engine(self, engine):
        self.engine = engine

    @property
    def chat_model_class(self):
        return ChatAgentform

    @property
    def chat_model_params(self):
        return {"engine": self.engine, "limits": Limits(reasoning_tokens=8, answer_tokens=16, argument_tokens=40)}

    @property
    def standard_chat_model_params(self):
        return super().standard_chat_model_params | {"max_tokens": 96}

    @property
    def structured_output_kwargs(self):
        """Sampled: at temperature 0 a model of this size goes on in a text until the limit, which is an error."""
        return {"temperature": 1.0, "seed": 1}

    @pytest.fixture
    def model(self, request):
        extra = getattr(request, "param", {})
        if request.node.name == "test_json_mode":  # which takes no `structured_output_kwargs`
            extra = {"temperature": 1.0, "seed": 3}
        return ChatAgentform(**self.standard_chat_model_params | self.chat_model_params | extra)

    @property
    def supports_model_override(self):
        return False

    @property
    def supports_json_mode(self):
        return True

    @property
    def supported_usage_metadata_details(self):
        return {"invoke": DETAILS, "stream": DETAILS}

    def invoke_with_cache_read_input(self, *, stream=False):
        model = self.chat_model_class(**self.chat_model_params)
        prompt = "Tell me about the moon. " * 8
        model.invoke(prompt)
        return _whole(model, prompt, stream)

    def invoke_with_reasoning_output(self, *, stream=False):
        def look(what: str) -> str:
            """Look something up."""
            return what

        model = self.chat_model_class(**self.chat_model_params).bind_tools([look], tool_choice="any")
        return _whole(model, "Look up the moon.", stream)


def _whole(model, prompt, stream):
    if not stream:
        return model.invoke(prompt)
    first, *rest = model.stream(prompt)
    return sum(rest, first)
