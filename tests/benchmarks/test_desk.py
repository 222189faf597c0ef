from __future__ import annotations

import pytest

from agentform import Toolbox
from agentform.cli.demo.script import default_script, read_script
from agentform.messages import ToolCall
from benchmarks.desk import EXPECTED
from benchmarks.desk.expected import Expected, is_right
from benchmarks.desk.other_desks import DESKS


def call(name, **arguments):
    return ToolCall(id="1", name=name, arguments=arguments)


def test_every_message_of_the_demo_has_an_expectation():
    assert len(EXPECTED) == sum(map(len, read_script(default_script()))) == 12


@pytest.mark.parametrize(
    ("expected", "calls", "right"),
    [
        (Expected(), [], (True, True)),
        (Expected(), [call("open_ticket")], (False, False)),
        (Expected(tool="a"), [], (False, False)),
        (Expected(tool="a", arguments={"x": 1}), [call("a", x=1, y=2)], (True, True)),
        (Expected(tool="a", arguments={"x": 1}), [call("a", x=2)], (True, False)),
        (Expected(tool="a", arguments={"x": (1, 2)}), [call("a", x=2)], (True, True)),
        (Expected(tool="a"), [call("b")], (False, False)),
    ],
)
def test_what_is_judged_of_a_call(expected, calls, right):
    assert is_right(expected, calls) == right


@pytest.mark.parametrize("name", DESKS)
def test_what_is_expected_at_other_desks_is_a_call_that_their_tools_take(name):
    tools = Toolbox(DESKS[name].tools)
    for _, expected in DESKS[name].asked:
        if expected.tool is None:
            continue
        written = {"text": "as it was said", "words": "as it was said"}
        known = {"add_reminder": ("text",), "report_complaint": ("words",)}.get(expected.tool, ())
        arguments = {**expected.arguments, **{key: written[key] for key in known}}
        assert not tools[expected.tool].target.validator.check(arguments)
