"""What docstrings of all styles say of a function and of its parameters."""

from __future__ import annotations

import inspect

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentform import tool
from agentform.tools.docstring import documentation

BOTH = {"query": "what to look for", "limit": "at most so many, over two lines"}

STYLES = {
    "google": """
        Args:
            query: what to look for
            limit: at most so many,
                over two lines
        """,
    "google on the first line": """Args:
            query: what to look for
            limit: at most so many,
                over two lines
        """,
    "google with types": """
        Arguments:
            query (str): what to look for
            limit (Optional[dict(a=1)], optional): at most so many,
                over two lines
        """,
    "google with bullets": """
        Params:
            - `query`: what to look for
            - `limit`: at most so many, over two lines
        """,
    "keyword arguments": """
        Args:
            query: what to look for

        Keyword Args:
            limit (int): at most so many, over two lines
        """,
    "keyword arguments written out": """
        Keyword Arguments:
          query: what to look for
          limit: at most so many, over two lines
        """,
    "numpy": """
        Parameters
        ----------
        query : str
            what to look for
        limit : {1, 2}, optional
            at most so many,
            over two lines
        """,
    "numpy, others": """
        Parameters
        ----------
        query : str
            what to look for

        Other Parameters
        ----------------
        limit
            at most so many, over two lines
        """,
    "sphinx": """
        :param str query: what to look for
        :param limit: at most so many,
            over two lines
        :type limit: int
        """,
    "epytext": """
        @param query: what to look for
        @type query: str
        @keyword limit: at most so many, over two lines
        """,
}


def lookup(query: str, limit: int = 3) -> str:
    return query * limit


def read(text):
    def fn(query: str, limit: int = 3) -> str:
        return query * limit

    fn.__doc__ = text
    return documentation(fn)


@pytest.mark.parametrize("style", STYLES)
def test_a_docstring_may_hold_nothing_but_parameters(style):
    assert read(STYLES[style]) == ("", BOTH)


@pytest.mark.parametrize("style", STYLES)
def test_the_summary_before_them_is_the_description(style):
    body = inspect.cleandoc(STYLES[style])
    if style == "google on the first line":
        body = body.replace("\n", "\n    ")
    assert read(f"Look something up.\n\nIn the index.\n\n{body}") == ("Look something up.\n\nIn the index.", BOTH)


@pytest.mark.parametrize(
    "heading",
    [
        "Args:\n    query, limit: both",
        "Parameters\n----------\nquery, limit : int\n    both",
        "Args:\n    query, limit (int): both",
    ],
)
def test_two_parameters_may_share_a_description(heading):
    assert read(f"Add.\n\n{heading}\n") == ("Add.", {"query": "both", "limit": "both"})


GOOGLE_REST = """Raises:
    ValueError: when the index is odd

Note:
    Slow on Mondays.

Returns:
    What was found."""
NUMPY_REST = """Raises
------
ValueError
    when the index is odd

Notes
-----
Slow on Mondays."""


@pytest.mark.parametrize(
    ("style", "rest"),
    [("google", GOOGLE_REST), ("keyword arguments", GOOGLE_REST), ("numpy", NUMPY_REST), ("numpy, others", NUMPY_REST)],
)
def test_errors_and_notes_stay_in_the_description(style, rest):
    text, parameters = read(f"Look up.\n\n{inspect.cleandoc(STYLES[style])}\n\n{rest}\n")
    assert text == f"Look up.\n\n{rest}"
    assert parameters == BOTH


def test_errors_of_sphinx_stay_in_the_description():
    text, parameters = read(
        inspect.cleandoc(STYLES["sphinx"])
        + "\n:raises ValueError: when the index\n    is odd\n:returns: what it found\n:rtype: str"
    )
    assert text == "Raises ValueError: when the index\n    is odd\nReturns: what it found"
    assert parameters == BOTH


@pytest.mark.parametrize(
    "text",
    [
        "Args are fine here: nothing is taken out.",
        "Look up.\n\nArgs:\n\nNothing is described.",
        "Parameters\n\nare a word.",
        "One line: with a colon\nand another.",
        "Look up.\n\nExample:\n    >>> lookup(query='a')",
    ],
)
def test_text_that_describes_no_parameter_stays_as_it_is(text):
    assert read(text) == (text, {})


def test_what_a_tool_is_told():
    lookup.__doc__ = STYLES["google"]
    made = tool(lookup)
    properties = made.definition()["function"]["parameters"]["properties"]
    assert {name: said["description"] for name, said in properties.items()} == BOTH
    assert made.description == ""


WORDS = ["Args:", "    a: b", "Parameters", "----------", "a, b : int", "    text", "", "Note:", "a"]
LINES = st.sampled_from([*WORDS, ":param a: b", ":raises X: y", "@param"])


@given(st.lists(LINES, max_size=12))
def test_no_docstring_is_an_error_and_nothing_is_said_twice(lines):
    text, parameters = read("\n".join(lines))
    assert all(isinstance(said, str) for said in parameters.values())
    assert text == text.strip()


@given(st.text())
def test_any_text_can_be_read(text):
    assert isinstance(read(text)[0], str)
