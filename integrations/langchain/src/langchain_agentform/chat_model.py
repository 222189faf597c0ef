"""LangChain's chat model over an engine of agentform."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, closing
from typing import Any, Literal, Self, cast

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.language_models.base import LangSmithParams
from langchain_core.language_models.model_profile import ModelProfile
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.tools import BaseTool
from pydantic import ConfigDict, Field, PrivateAttr, SecretStr, model_validator

from agentform import Engine, Limits, PriorStore, Reasoning, Scoring
from langchain_agentform.blocking import aiterate, iterate, run
from langchain_agentform.conversations import conversation_of, with_thread
from langchain_agentform.engines import EngineSource, name_of
from langchain_agentform.requests import ResponseFormat
from langchain_agentform.schemas import schema_of
from langchain_agentform.structured_output import parsed, with_raw
from langchain_agentform.tools import definitions, toolbox, wanted_choice
from langchain_agentform.turns import Turns

__all__ = ["ChatAgentform"]

Method = Literal["function_calling", "json_mode", "json_schema"]


class ChatAgentform(BaseChatModel):
    """A model that you host, whose tool calls are chosen and checked, as a LangChain chat model.

    Give an `engine`, or the name of a `model` that is loaded when it is first needed::

        ChatAgentform(model="smollm2-135m").bind_tools([search]).invoke("Where is the manual?")

    Every call that it makes satisfies its tool's schema; one that could not be completed is an invalid call, with the
    reason. Errors are LangChain's `ModelError`s and agentform's own at once.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid", populate_by_name=True)

    model: str = ""
    """What `agentform.load_engine` takes: a catalogue name, a folder or a hub id. With an engine, the engine's."""
    engine: Engine | None = Field(default=None, exclude=True, repr=False)
    """An engine that is loaded already; it stays yours to close."""
    engine_options: dict[str, Any] = Field(default_factory=dict[str, Any], exclude=True, repr=False)
    """Keyword arguments for `load_engine`, such as `cache_dir`."""

    temperature: float | None = None
    """For what is generated; 0 or nothing is greedy. What is scored is always the most probable option."""
    top_p: float | None = None
    seed: int | None = None
    """Of sampling; without one every call draws anew."""
    max_tokens: int | None = None
    """Most tokens sampled in one call; by default `limits` alone bound them."""
    stop: list[str] | None = Field(default=None, alias="stop_sequences")
    """Texts that end the answer."""
    timeout: float | tuple[float | None, float | None] | None = None
    """Seconds for one call."""
    limits: Limits = Field(default_factory=Limits, exclude=True, repr=False)
    scoring: Scoring | None = Field(default=None, exclude=True, repr=False)
    reasoning: Reasoning | None = Field(default=None, exclude=True, repr=False)
    priors: PriorStore | None = Field(default=None, exclude=True, repr=False)

    streaming: bool = False
    """Whether `invoke` streams to callbacks."""
    api_key: SecretStr | None = Field(default=None, exclude=True, repr=False)
    """Taken for the sake of interchangeability; an engine of your own needs none."""
    max_retries: int = Field(default=0, exclude=True, repr=False)
    """Taken for the sake of interchangeability; there is no network to fail."""

    _turns: Turns = PrivateAttr()

    @model_validator(mode="after")
    def _prepare(self) -> Self:
        self.model = name_of(self.engine, self.model)
        self._turns = Turns(
            name=self.model,
            source=EngineSource(self.engine, self.model, self.engine_options),
            limits=self.limits,
            scoring=self.scoring,
            reasoning=self.reasoning,
            priors=self.priors,
        )
        return self

    @property
    def _llm_type(self) -> str:
        return "agentform"

    @property
    def _identifying_params(self) -> Mapping[str, Any]:
        names = ("model", "temperature", "top_p", "seed", "max_tokens", "stop", "limits", "scoring", "reasoning")
        return {name: getattr(self, name) for name in names}

    @classmethod
    def is_lc_serializable(cls) -> bool:
        """An engine cannot be written down."""
        return False

    def _resolve_model_profile(self) -> ModelProfile:
        profile = ModelProfile(
            text_inputs=True,
            image_inputs=False,
            audio_inputs=False,
            video_inputs=False,
            pdf_inputs=False,
            text_outputs=True,
            tool_calling=True,
            tool_choice=True,
            tool_call_streaming=True,
            structured_output=True,
        )
        if self.engine is not None:
            profile["max_input_tokens"] = self.engine.info.context_tokens
        return profile

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> LangSmithParams:
        options = self._options(stop, kwargs)
        params = LangSmithParams(ls_provider="agentform", ls_model_type="chat", ls_model_name=str(options["model"]))
        if options.get("temperature") is not None:
            params["ls_temperature"] = options["temperature"]
        if options.get("max_tokens") is not None:
            params["ls_max_tokens"] = options["max_tokens"]
        if options.get("stop"):
            params["ls_stop"] = options["stop"]
        return params

    def get_token_ids(self, text: str) -> list[int]:
        """The ids of the model's own tokenizer; loads the engine if it is not there yet."""
        return list(self._turns.responder().engine.tokenizer.encode(text))

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: str | dict[str, Any] | bool | None = None,
        parallel_tool_calls: bool | None = None,
        strict: bool | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """The model with tools.

        `tool_choice` "any", "required" or `True` makes it call one of them, a name makes it call that one, "none"
        forbids calls. `parallel_tool_calls` is whether one message may hold several calls; by default as many as
        `limits.parallel_calls`, which is one. `strict` refuses schemas that say what agentform does not know, instead
        of leaving that to the tool.

        Raises:
            ModelInvalidRequestError: a tool's schema cannot be filled, or the choice names none of the tools.
        """
        bound = definitions(tools, strict=strict)
        wanted_choice(tool_choice, toolbox(bound))
        said = {"tool_choice": tool_choice, "parallel_tool_calls": parallel_tool_calls}
        return self.bind(tools=bound, **{key: value for key, value in said.items() if value is not None}, **kwargs)

    def with_structured_output(
        self,
        schema: dict[str, Any] | type,
        *,
        include_raw: bool = False,
        method: Method = "json_schema",
        strict: bool | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, Any]:
        """The model with an answer that is `schema`, filled: an instance of a class, a dict for other schemas.

        With "json_schema" the answer itself is the form, with "function_calling" the arguments of a call to it, after
        free text. "json_mode" is "json_schema" for prompts that say what is wanted themselves.
        `strict` is as in `bind_tools`; what is filled in always satisfies the schema.

        Raises:
            ModelInvalidRequestError: the schema cannot be filled.
        """
        form = schema_of(schema, strict=strict)
        said = {"kwargs": {"method": method, "strict": strict}, "schema": schema}
        if method == "function_calling":
            model = self.bind_tools([form.tool], tool_choice=form.tool.name, ls_structured_output_format=said, **kwargs)
        elif method in ("json_schema", "json_mode"):
            kind = "json_object" if method == "json_mode" else "json_schema"
            model = self.bind(
                response_format=ResponseFormat(form.tool, kind), ls_structured_output_format=said, **kwargs
            )
        else:
            raise ValueError(f"method {method!r} is not json_schema, function_calling or json_mode")
        parser = parsed(form, from_call=method == "function_calling")
        return with_raw(model, parser) if include_raw else model | parser

    def invoke(
        self,
        input: LanguageModelInput,
        config: RunnableConfig | None = None,
        *,
        stop: list[str] | None = None,
        **kwargs: Any,
    ) -> AIMessage:
        """See `Runnable.invoke`; a `thread_id` in the config names the conversation."""
        return super().invoke(input, config, stop=stop, **with_thread(config, kwargs))

    async def ainvoke(
        self,
        input: LanguageModelInput,
        config: RunnableConfig | None = None,
        *,
        stop: list[str] | None = None,
        **kwargs: Any,
    ) -> AIMessage:
        """The same, async."""
        return await super().ainvoke(input, config, stop=stop, **with_thread(config, kwargs))

    def stream(
        self,
        input: LanguageModelInput,
        config: RunnableConfig | None = None,
        *,
        stop: list[str] | None = None,
        **kwargs: Any,
    ) -> Iterator[AIMessageChunk]:
        """See `Runnable.stream`; a `thread_id` in the config names the conversation."""
        return super().stream(input, config, stop=stop, **with_thread(config, kwargs))

    async def astream(
        self,
        input: LanguageModelInput,
        config: RunnableConfig | None = None,
        *,
        stop: list[str] | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[AIMessageChunk]:
        """The same, async."""
        chunks = super().astream(input, config, stop=stop, **with_thread(config, kwargs))
        async with aclosing(cast("AsyncGenerator[AIMessageChunk]", chunks)) as chunks:
            async for chunk in chunks:
                yield chunk

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        conversation = conversation_of(kwargs, run_manager)
        return _result(run(lambda: self._turns.message(messages, self._options(stop, kwargs), conversation)))

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        conversation = conversation_of(kwargs, run_manager)
        return _result(await self._turns.message(messages, self._options(stop, kwargs), conversation))

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        conversation = conversation_of(kwargs, run_manager)
        with closing(iterate(self._turns.chunks(messages, self._options(stop, kwargs), conversation))) as chunks:
            for chunk in chunks:
                yield ChatGenerationChunk(message=chunk)

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        conversation = conversation_of(kwargs, run_manager)
        async with aclosing(
            aiterate(self._turns.chunks(messages, self._options(stop, kwargs), conversation))
        ) as chunks:
            async for chunk in chunks:
                yield ChatGenerationChunk(message=chunk)

    def _options(self, stop: list[str] | None, kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The options of one call: what is given for it, else what the model has."""
        names = ("model", "temperature", "top_p", "seed", "max_tokens", "stop", "timeout")
        own = {name: getattr(self, name) for name in names}
        return own | dict(kwargs) | ({"stop": stop} if stop else {})


def _result(made: AIMessage) -> ChatResult:
    return ChatResult(generations=[ChatGeneration(message=made)])
