"""Calls that a conversation holds already, found among many."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agentform.agent.repeated_calls import repeated_call, stale_calls
from agentform.messages import Message, ToolCall, ToolResult

ARGUMENTS = st.sampled_from([{}, {"a": 1}, {"a": "1"}, {"a": []}, {"a": {}}, {"a": [{"b": None}]}, {"b": 1, "a": [1]}])
MADE = st.tuples(st.sampled_from(["light", "note"]), ARGUMENTS, st.sampled_from(["on", "off"]))


class Counted(dict):
    """Arguments that count how often they are looked at."""

    num = 0

    def __eq__(self, other):
        Counted.num += 1
        return super().__eq__(other)

    __hash__ = None

    def items(self):
        Counted.num += 1
        return super().items()


def conversation(made):
    messages = [Message(role="user", content="Hi")]
    for at, (name, arguments, said) in enumerate(made):
        result = ToolResult(call_id=f"call_{at}", name=name, content=said)
        messages.append(Message(role="assistant", calls=(ToolCall(id=f"call_{at}", name=name, arguments=arguments),)))
        messages.append(Message(role="tool", content=said, result=result))
    return messages


@given(st.lists(MADE, max_size=8), st.integers(1, 3))
def test_a_call_is_stale_where_all_that_equal_it_had_one_result(made, times):
    found = stale_calls(conversation(made), times)
    for name, arguments, _ in made:
        results = [said for *call, said in made if call == [name, arguments]]
        is_stale = len(results) >= times and len(set(results)) == 1
        call = ToolCall(id="again", name=name, arguments=arguments)
        assert (repeated_call([call], found) is not None) == is_stale


def test_each_of_many_calls_is_looked_at_a_few_times_only():
    made = [("light", Counted(number=at), "on") for at in range(300)]
    Counted.num = 0
    assert len(stale_calls(conversation(made), 1)) == 300
    assert Counted.num <= 4 * 300
