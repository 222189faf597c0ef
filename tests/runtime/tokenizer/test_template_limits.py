"""A chat template makes nothing that fills the memory, whatever it makes it with; ordinary templates notice nothing."""

from __future__ import annotations

import pytest
from jinja2.exceptions import SecurityError

from agentform.runtime.tokenizer import template_growth
from agentform.runtime.tokenizer.template_environment import compile_template
from agentform.runtime.tokenizer.template_limits import render_within

DOUBLED = (
    "{% set ns = namespace(x='ab' * 1000, y=[1] * 1000) %}{% for _ in range(60) %}{% set ns.x = EXPR %}{% endfor %}"
)
DOUBLINGS = {
    "~": "ns.x ~ ns.x",
    "+": "ns.x + ns.x",
    "*": "ns.x * 2",
    "replace method": "ns.x.replace('a', 'aa').replace('b', 'bb')",
    "replace filter": "ns.x | replace('a', 'aa') | replace('b', 'bb')",
    "join method": "''.join([ns.x, ns.x])",
    "join filter": "[ns.x, ns.x] | join",
    "join filter by attribute": "[{'a': ns.x}, {'a': ns.x}] | join(attribute='a')",
    "join filter of what is no text": "[{'a': ns.x}, {'a': ns.x}] | join",
    "replace filter with names": "ns.x | replace(old='a', new='aa') | replace('b', new='bb')",
    "join of a generator": "[ns.x, ns.x] | map('upper') | map('lower') | join(', ')",
    "format filter": "'%s%s' | format(ns.x, ns.x)",
    "% operator": "'%s%s' % (ns.x, ns.x)",
    "format method": "'{}{}'.format(ns.x, ns.x)",
    "format with names": "'{a}{a}'.format(a=ns.x)",
}
LARGE = [
    "'x'.center(10 ** 12)",
    "'x' | center(10 ** 12)",
    "'x'.ljust(10 ** 12)",
    "'x'.zfill(10 ** 12)",
    "'\t'.expandtabs(10 ** 12)",
    "('\t' * 100000).expandtabs(100000)",
    "'x' | indent(10 ** 12, true)",
    "('x\n' * 100000) | indent('y' * 100000)",
    "[1, 2] | tojson(indent=10 ** 12)",
    "('x' * 100000) | wordwrap(1, wrapstring='y' * 100000)",
    "'%1000000000000d' % 1",
    "'%*d' % (10 ** 12, 1)",
    "'%1000000000000d' | format(1)",
    "'{:1000000000000}'.format(1)",
    "'{:{}}'.format(1, '1000000000000')",
    "[0] * 10 ** 12",
    "('x' * 1000000).replace('x', 'y' * 1000000)",
    "('x' * 1000000) | replace('', 'y' * 1000000)",
    "('x' * 1000000).join('y' * 1000000)",
    "('y' * 1000000) | join('x' * 1000000)",
    "lipsum(10 ** 12)",
]


@pytest.fixture
def small(monkeypatch):
    """A limit that a few doublings reach."""
    monkeypatch.setattr(template_growth, "MOST_CHARACTERS", 1 << 16)


def rendered(source: str) -> str:
    return render_within(compile_template(source), {})


@pytest.mark.parametrize("kind", DOUBLINGS)
def test_a_text_doubled_again_and_again_is_refused(small, kind):
    with pytest.raises(SecurityError):
        rendered(DOUBLED.replace("EXPR", DOUBLINGS[kind]))


@pytest.mark.parametrize("change", ["ns.y + ns.y", "ns.y * 2", "[ns.y.extend(ns.y), ns.y][1]"])
def test_a_list_doubled_again_and_again_is_refused(small, change):
    with pytest.raises(SecurityError):
        rendered(DOUBLED.replace("ns.x = EXPR", f"ns.y = {change}"))


@pytest.mark.parametrize("expression", LARGE)
def test_one_large_step_is_refused(expression):
    with pytest.raises(SecurityError):
        rendered("{{ (" + expression + ") | length }}")


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("'a' ~ 1 ~ none ~ missing", "a1None"),
        ("1 + 2 * 3 % 2", "1"),
        ("[1] + [2]", "[1, 2]"),
        ("'%s-%02d' % ('a', 7)", "a-07"),
        ("'%s' | format('x' * 3)", "xxx"),
        ("'{:>4}|{a}'.format('x', a=1)", "   x|1"),
        ("', '.join(['a', 'b'])", "a, b"),
        ("[1, 2] | join('-')", "1-2"),
        ("[{'a': 1}, {'a': 2}] | join(',', attribute='a')", "1,2"),
        ("[{'a': {'b': 1}}, {'a': {'b': 2}}] | join(attribute='a.b', d=',')", "1,2"),
        ("{'b': 1, 'a': 2} | join(',')", "b,a"),
        ("'abc' | join('.')", "a.b.c"),
        ("missing | join(',')", ""),
        ("'aXbX'.replace('X', '-', 1)", "a-bX"),
        ("'aXbX' | replace('X', '-', 1)", "a-bX"),
        ("'a' | center(5)", "  a  "),
        ("'a\nb' | indent(2)", "a\n  b"),
        ("{'a': [1]} | tojson(indent=2)", '{\n  "a": [\n    1\n  ]\n}'),
        ("['b', 'a'] | sort | first", "a"),
        ("[3, 4] | map('string') | list | length", "2"),
    ],
)
def test_ordinary_expressions_are_as_they_were(expression, text):
    assert rendered("{{ " + expression + " }}") == text


def test_a_join_of_what_is_no_text_is_an_error_as_in_python():
    with pytest.raises(TypeError):
        rendered("{{ ','.join([1]) }}")


def test_a_filter_that_makes_no_text_does_not_make_one_of_what_it_is_given():
    class Untold(list):
        def __str__(self):
            raise AssertionError("made into a text")

    source = "{{ x | length }}{{ x | first }}{{ x | map('upper') | list | last }}{{ x | tojson }}"
    assert render_within(compile_template(source), {"x": Untold(["a", "b"])}) == '2aB["a", "b"]'
