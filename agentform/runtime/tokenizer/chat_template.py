"""A model folder's chat template, rendered to the bytes that transformers would render, without importing it.

The template, not the tokenizer class, decides the bytes, so transformers' tokenizer need not be loaded; and importing
its renderer takes longer than everything else that a small model's first call needs of the tokenizer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from agentform.errors import InvalidRequest, WeightsCorrupt
from agentform.runtime.models.extras import torch_extra
from agentform.runtime.tokenizer.template_data import held, inert, template_message

if TYPE_CHECKING:
    from jinja2 import Template

__all__ = ["ChatTemplate", "read_json"]

_NAMED_TOKENS = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")

_REFUSALS = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RecursionError, MemoryError)
"""What a template raises that was written for other messages, or to take all there is."""


class ChatTemplate:
    """Renders messages to text; knows the model's named special tokens, which templates refer to."""

    def __init__(self, templates: Mapping[str, str], named_tokens: Mapping[str, str]) -> None:
        self._templates = dict(templates)
        self._named_tokens = dict(named_tokens)
        self._ready: dict[str, Template] = {}

    @classmethod
    def of_folder(cls, folder: Path) -> ChatTemplate:
        """Read chat_template.jinja and tokenizer_config.json, in transformers' order of precedence.

        Raises:
            WeightsCorrupt: weights do not have the digest or the files that they should have.
        """
        config = read_json(folder / "tokenizer_config.json")
        named = {**read_json(folder / "special_tokens_map.json"), **config}
        tokens = {key: _token_text(named[key]) for key in _NAMED_TOKENS if named.get(key) is not None}
        return cls(_templates(folder, config), tokens)

    @property
    def source(self) -> str:
        """All template texts together; empty where the model has none."""
        return "\n".join(self._templates.values())

    @classmethod
    def of_file(cls, path: Path) -> ChatTemplate:
        """A template alone, for a model whose tokens are not known: ``<s>`` and ``</s>`` begin and end a sequence."""
        return cls({"default": path.read_text(encoding="utf-8")}, {"bos_token": "<s>", "eos_token": "</s>"})

    @property
    def template_source(self) -> str:
        """The same as `source`."""
        return self.source

    def render_text(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        generation_prompt: bool = True,
        arguments: Mapping[str, Any] | None = None,
    ) -> str:
        """As `Tokenizer.render_text`.

        Raises:
            InvalidRequest: the template refuses the messages.
        """
        return self.render(
            [dict(message) for message in messages],
            None if tools is None else [dict(tool) for tool in tools],
            generation_prompt=generation_prompt,
            arguments=arguments,
        )

    @property
    def eos_token(self) -> str | None:
        """The token that the tokenizer's configuration names as the end of a sequence."""
        return self._named_tokens.get("eos_token")

    def render(
        self,
        messages: Sequence[dict[str, Any]],
        tools: Sequence[dict[str, Any]] | None,
        *,
        generation_prompt: bool,
        arguments: Mapping[str, Any] | None = None,
    ) -> str:
        """The text as `apply_chat_template(tokenize=False)` gives it; keys that hold `None` are left out.

        `arguments` are the template's own, such as `enable_thinking`.

        Raises:
            InvalidRequest: there is no template or it refuses the messages.
            MissingDependency: an optional package is not installed.
        """
        with torch_extra():
            from jinja2 import TemplateError
        from agentform.runtime.tokenizer.template_limits import render_within

        if not messages:
            raise InvalidRequest("a conversation needs at least one message")
        if stray := [tool for tool in tools or () if not isinstance(tool, Mapping)]:
            raise InvalidRequest(f"a tool is described by a mapping, not by {type(stray[0]).__name__}")
        values: dict[str, Any] = {
            **inert(dict(arguments or {})),
            **self._named_tokens,
            "messages": [template_message(message) for message in messages],
            "tools": None if tools is None else inert(list(tools)),
            "documents": None,  # templates ask whether there are any
            "add_generation_prompt": generation_prompt,
        }
        try:
            template = self._compiled(self._pick(tools))
            return render_within(template, {name: held(value) for name, value in values.items()})
        except (TemplateError, *_REFUSALS) as error:
            raise InvalidRequest(f"the model's chat template refuses these messages: {error}") from error

    def _pick(self, tools: Sequence[dict[str, Any]] | None) -> str:
        """The name of the template for these tools."""
        name = "tool_use" if tools is not None and "tool_use" in self._templates else "default"
        if name not in self._templates:
            raise InvalidRequest("the model has no chat template; use an instruction-tuned model")
        return name

    def _compiled(self, name: str) -> Template:
        from agentform.runtime.tokenizer.template_environment import compile_template

        if name not in self._ready:  # two threads may both compile it, which does no harm
            self._ready[name] = compile_template(self._templates[name])
        return self._ready[name]


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object of a file; empty where there is no such file.

    Raises:
        WeightsCorrupt: weights do not have the digest or the files that they should have.
    """
    if not path.is_file():
        return {}
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise WeightsCorrupt(f"{path} is not JSON: {error}") from error
    if not isinstance(data, dict):
        raise WeightsCorrupt(f"{path} does not hold a JSON object")
    return cast("dict[str, Any]", data)


def _templates(folder: Path, config: Mapping[str, Any]) -> dict[str, str]:
    """Templates by name; separate files go before the configuration's entry."""
    files = {path.stem: path for path in sorted((folder / "additional_chat_templates").glob("*.jinja"))}
    if (main := folder / "chat_template.jinja").is_file():
        files["default"] = main
    if files:
        return {name: path.read_text(encoding="utf-8") for name, path in files.items()}
    entry = config.get("chat_template")
    if isinstance(entry, str):
        return {"default": entry}
    return {item["name"]: item["template"] for item in entry or ()}


def _token_text(entry: str | Mapping[str, Any]) -> str:
    return entry if isinstance(entry, str) else entry["content"]
