"""A grammar compiled first in a process of its own, where it can be stopped: llguidance cannot be, in a thread.

may_be_hard(schema) ──no──▶ compiled here
      └──yes──▶ python rehearsing.py ──ends in time──▶ compiled here
                      ├──over its time or memory──▶ killed; `OutOfTime`
                      └──not begun──▶ `NotRehearsed`
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from agentform._util.threads import is_given_up
from agentform.grammar.attempt import OutOfTime, TooBusy
from agentform.json_schema.keywords import Schema, SchemaDict
from agentform.json_schema.walk import subschemas

__all__ = ["NotRehearsed", "may_be_hard", "rehearse"]

_SCRIPT = Path(__file__).with_name("rehearsing.py")
_LOOK_S = 0.05
_MOST_WALL = 10
_MEMORY_BYTES = 1 << 30
_FEW = 3
"""So many regular expressions hold at once without much ado; each more may double the work."""
_FEW_KEYS = 16
_FEW_DEFINITIONS = 200
"""A chain of a thousand that refer to one another, and llguidance leaves its stack."""
_JOINING = frozenset({"anyOf", "oneOf", "$ref"})
_BESIDE = frozenset({"$defs", "definitions", "type"})


class NotRehearsed(OutOfTime):
    """There was no process that compiled: it could not be started, or ended before it began."""


def may_be_hard(schema: Schema) -> bool:
    """Whether several regular expressions may have to hold of one text, whose product is compiled; or it is deep."""
    inside = list(_walk(schema))
    if sum(map(_num_definitions, inside)) > _FEW_DEFINITIONS:
        return True
    if any(len(item.get("patternProperties", ())) > _FEW_KEYS for item in inside):
        return True
    return sum(map(_num_expressions, inside)) > _FEW and any(map(_joins, inside))


def rehearse(source: str, *, limits: Mapping[str, Any], cpu_s: float) -> str:
    """What llguidance says against `source`, compiled for a vocabulary of bytes; `""` for nothing.

    Raises:
        OutOfTime: it took more time or memory than it may, or nobody waits for it any more; its process has ended.
        TooBusy: it did not get its time of the processor within a multiple of it.
        NotRehearsed: the process did not begin.
    """
    ask = json.dumps({"source": source, "limits": limits, "cpu_s": cpu_s, "memory_bytes": _MEMORY_BYTES})
    path = [place for place in sys.path if place]
    command = [sys.executable, "-I", str(_SCRIPT), *path]
    try:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    except OSError as error:
        raise NotRehearsed from error
    with process:
        try:
            return _answer(process, ask.encode(), cpu_s)
        finally:
            process.kill()


def _answer(process: subprocess.Popen[bytes], ask: bytes, cpu_s: float) -> str:
    begun, _, said = _said(process, ask, time.monotonic() + _MOST_WALL * cpu_s).partition(b"\n")
    if not begun:
        raise NotRehearsed(f"the process that compiles ended with {process.returncode} before it began")
    if process.returncode or not said:
        raise OutOfTime
    return str(json.loads(said))


def _said(process: subprocess.Popen[bytes], ask: bytes, until: float) -> bytes:
    """All that it says until it ends."""
    sent: bytes | None = ask
    while True:
        try:
            return process.communicate(sent, timeout=_LOOK_S)[0]
        except subprocess.TimeoutExpired:
            sent = None  # it is being sent already
            if is_given_up():
                raise OutOfTime from None
            if time.monotonic() > until:
                raise TooBusy from None


def _walk(schema: Any) -> Iterator[SchemaDict]:
    waiting: list[Any] = [schema]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            found = cast("SchemaDict", item)
            yield found
            waiting.extend(inner for _, inner in subschemas(found))


def _num_definitions(schema: SchemaDict) -> int:
    return sum(len(schema.get(keyword, ())) for keyword in ("$defs", "definitions"))


def _num_expressions(schema: SchemaDict) -> int:
    named = len(schema.get("patternProperties", ()))
    return named + sum(keyword in schema for keyword in ("pattern", "format", "multipleOf"))


def _joins(schema: SchemaDict) -> bool:
    """Whether what it says holds together with what another schema says."""
    joining = schema.keys() & _JOINING
    return "allOf" in schema or len(joining) > 1 or bool(joining and schema.keys() - joining - _BESIDE)
