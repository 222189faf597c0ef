"""The fewest rules of which each refused value broke one."""

from __future__ import annotations

import pytest

from agentform.errors import Violation
from agentform.forms.unsatisfied import unsatisfied_rules


def refusal(*reasons: str) -> tuple[Violation, ...]:
    return tuple(Violation(pointer="", reason=reason) for reason in reasons)


@pytest.mark.parametrize(
    ("refusals", "rules"),
    [
        ([], set()),
        ([refusal("a", "b"), refusal("b", "c"), refusal("b")], {"b"}),
        ([refusal("a", "x"), refusal("a", "y"), refusal("b", "x"), refusal("b")], {"a", "b"}),
        ([refusal(name, f"{name}{at}") for name in "abcd" for at in range(2)], set("abcd")),
    ],
)
def test_each_refused_value_broke_one_of_them_and_fewer_would_not_do(refusals, rules):
    assert {rule.reason for rule in unsatisfied_rules(refusals)} == rules


def test_a_rule_that_names_the_value_it_refuses_is_one_rule_for_each():
    refusals = [refusal(f"the sum is {at}") for at in range(3_000)]
    assert len(unsatisfied_rules([*refusals, refusal("odd"), refusal("odd", "even")])) == 3_001
