"""`agentform models check`: what was learned of a model's chat template, and what will not work with it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

from rich.console import Console
from rich.text import Text

from agentform.decoding.formats.probe import Template
from agentform.decoding.formats.types import Elements, Slot
from agentform.decoding.tool_format import ToolCallFormat, call_text, learn_format
from agentform.errors import ModelNotFound
from agentform.forms.scoring import Scoring

__all__ = ["as_data", "check_model", "scoring_of", "template_of"]

_EXAMPLE = {"city": "Paris", "days": 3}


def check_model(name: str, console: Console, *, as_json: bool = False) -> None:
    """Print what is known of the model's template.

    Raises:
        ModelNotFound: there is no such model, folder or file.
        WeightsUnavailable: the model is not here and cannot be fetched.
        WeightsCorrupt: its files cannot be read.
    """
    data: dict[str, Any] = {**as_data(template_of(name)), "scoring": scoring_of(name)}
    if as_json:
        console.out(json.dumps(data, ensure_ascii=False, indent=1), highlight=False)
        return
    for line in _lines(data):
        console.print(Text(line), soft_wrap=True)


def template_of(name: str) -> Template:
    """The chat template of a model, a folder with a tokenizer and a template, or a ``.jinja`` file.

    Raises:
        ModelNotFound: there is no such model, folder or file.
    """
    from agentform.runtime.tokenizer.chat_template import ChatTemplate

    path = Path(name).expanduser()
    if path.suffix == ".jinja":
        if not path.is_file():
            raise ModelNotFound(f"there is no file {path}")
        return ChatTemplate.of_file(path)
    if path.is_dir() and not (path / "tokenizer.json").is_file() and not any(path.glob("*.gguf")):
        template = ChatTemplate.of_folder(path)
        if not template.source:
            raise ModelNotFound(f"{path} holds no chat template: no chat_template.jinja, none in tokenizer_config.json")
        return template
    return _tokenizer(name, path)


def _tokenizer(name: str, path: Path) -> Template:
    if not (path / "tokenizer.json").is_file():
        file = _gguf(name)
        if file is not None:
            from agentform.runtime.llama_cpp.first_load import try_first
            from agentform.runtime.llama_cpp.model import LlamaModel
            from agentform.runtime.llama_cpp.tokenizer import LlamaTokenizer

            try_first(file)
            return cast("Template", LlamaTokenizer(LlamaModel(file, vocabulary_only=True)))
    from agentform.runtime.models.resolve import resolve_tokenizer
    from agentform.runtime.tokenizer.hf_tokenizer import HFTokenizer

    # Cached properties are properties, to all but the type checker.
    return cast("Template", HFTokenizer(resolve_tokenizer(name)))


def scoring_of(name: str) -> dict[str, Any] | None:
    """How options are scored with a model, and where that is from; `None` where it is not known without loading it.

    Raises:
        InvalidInput: a file of settings is damaged.
    """
    from agentform.runtime.model_facts import digest_of_file
    from agentform.runtime.models.tuned_scoring import known_scoring

    digest = digest_of_file(name)
    if digest is None:
        return None
    known = known_scoring(digest)
    differs = {key: value for key, value in known.settings.items() if value != getattr(Scoring(), key, None)}
    return {"source": known.source, "settings": differs, **known.facts, "file": str(known.file) if known.file else None}


def _gguf(name: str) -> Path | None:
    from agentform.runtime.models.catalogue import CATALOGUE
    from agentform.runtime.models.model_files import find_gguf
    from agentform.runtime.models.resolve import catalogue_gguf

    if name in CATALOGUE:  # a model that torch runs has a tokenizer beside its file
        return catalogue_gguf(CATALOGUE[name]) if CATALOGUE[name].engine == "llama_cpp" else None
    return find_gguf(name)


def as_data(template: Template) -> dict[str, Any]:
    """What was learned of the template, as JSON values."""
    format = learn_format(template)
    return {
        "calls": {"native": format.native, "format": _calls(format), "reason": format.reason},
        "reasoning": _reasoning(format),
        "rules": asdict(format.rules),
        "control": _control(template, format),
        "warnings": list(_warnings(format)),
    }


def _calls(format: ToolCallFormat) -> dict[str, Any]:
    layout = format.layout
    return {
        "style": format.style,
        "example": call_text(format, "get_weather", _EXAMPLE),
        "call": [piece if isinstance(piece, str) else {"slot": piece.value} for piece in layout.call],
        "section": [layout.section_open, layout.section_close],
        "between": layout.between,
        "before": layout.before,
        "before_after_text": layout.before_after_text,
        "max_calls": layout.max_calls,
        "ids": "name and number" if layout.opening.endswith("functions.") else format.rules.ids,
        "id_is_written": Slot.ID in layout.call,
        "marks": list(format.marks),
        "turn_end": format.turn_end,
        "text_open": format.text_open,
        "lists_tools": format.lists_tools,
        "renders_calls": format.renders_calls,
        "arguments": asdict(format.arguments),
    }


def _reasoning(format: ToolCallFormat) -> dict[str, Any] | None:
    if format.reasoning is None:
        return None
    return {**asdict(format.reasoning), "opened": _opened(format), "key": format.rules.thought_key}


def _opened(format: ToolCallFormat) -> bool:
    return format.reasoning is not None and format.reasoning.is_open


def _control(template: Template, format: ToolCallFormat) -> list[dict[str, Any]]:
    """The marks, and whether each is a token that text can never become; `None` where no tokenizer is known."""
    marks = [*format.marks, format.turn_end, format.layout.section_open, format.layout.section_close]
    if format.reasoning is not None:
        marks += [format.reasoning.open, format.reasoning.close]
    encode = getattr(template, "encode", None)
    found: dict[str, bool | None] = {}
    for mark in (mark.strip() for mark in marks):
        if mark:
            found[mark] = None if encode is None else encode(mark) != encode(mark, control=True)
    return [{"text": mark, "is_control": is_control} for mark, is_control in found.items()]


def _warnings(format: ToolCallFormat) -> Iterator[str]:
    rules, style = format.rules, format.arguments
    if not format.native:
        yield f"calls are written in agentform's default format, which the model was not trained for: {format.reason}"
    elif not format.lists_tools:
        yield "the template does not list tools; they are listed in the system message"
    if format.native and not format.renders_calls:
        yield "the template writes no calls of past turns; they are given to it as text"
    if format.layout.max_calls == 1:
        yield "one call a turn; parallel calls are not offered"
    if rules.system != "any":
        where = {"first": "later system messages", "none": "system messages"}[rules.system]
        yield f"{where} become a part of what the user says"
    if format.native and not rules.content_with_calls:
        yield "free text beside calls is not kept by the template, so that the cache does not reach beyond it"
    if isinstance(style, Elements) and style.string_values is None:
        yield f"a string that holds {style.string_close!r} cannot be told from its end when a call is read back"


def _lines(data: dict[str, Any]) -> Iterator[str]:
    calls, format = data["calls"], data["calls"]["format"]
    yield f"calls: {'native' if calls['native'] else 'default'}, {format['style']}"
    yield f"  one call: {format['example']!r}"
    yield f"  section: {format['section']}, between calls: {format['between']!r}, most a turn: {format['max_calls']}"
    yield f"  ids: {format['ids']}; marks: {format['marks']}; end of turn: {format['turn_end']!r}"
    if data["reasoning"] is None:
        yield "reasoning: none"
    else:
        marks = data["reasoning"]
        opened = "opened by the prompt" if marks["opened"] else "opened by the model"
        yield f"reasoning: {marks['open']!r} ... {marks['close']!r}, {opened}"
        yield f"  past thoughts are read from: {marks['key'] or 'nowhere'}; kept: {marks['kept']}"
        yield f"  switches: {', '.join(marks['switches']) or 'none'}"
    yield "rules: " + ", ".join(f"{key}={value!r}" for key, value in data["rules"].items())
    for mark in data["control"]:
        state = {True: "a control token", False: "plain text", None: "not known without a tokenizer"}
        yield f"  {mark['text']!r}: {state[mark['is_control']]}"
    yield from _scoring_lines(data["scoring"])
    yield from (f"note: {warning}" for warning in data["warnings"])


def _scoring_lines(scoring: dict[str, Any] | None) -> Iterator[str]:
    if scoring is None:
        return
    settings = ", ".join(f"{key}={value!r}" for key, value in scoring["settings"].items()) or "the defaults"
    where = {
        "tuned": "found by `agentform tune` on examples of yours",
        "measured": "measured by `agentform tune` on the examples that come with agentform",
        "defaults": "nothing was measured; see `agentform tune`",
    }[scoring["source"]]
    yield f"scoring: {settings} ({where})"
    if "held_out" in scoring:
        beside = f"{scoring['held_out']:.2f}, with the defaults {scoring['held_out_default']:.2f}"
        yield f"  accuracy on the half of {scoring['examples']} examples that was held out: {beside}"
