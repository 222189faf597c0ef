"""How questions are put: the text before the options, inside and outside of a frame."""

import pytest

from agentform.decoding.insertion_point import InsertionPoint, unframed
from agentform.decoding.token_context import TokenContext
from agentform.forms.answer import Question
from agentform.forms.prompt_style import LEAD_INS, pose

QUESTION = Question(
    path=("mood",),
    kind="value",
    lead='{"mood":',
    texts=(' "good"}', ' "bad"}'),
    groups=(0, 1),
    answers=("good", "bad"),
    description="How the customer\n  feels.",
)
FRAMED = InsertionPoint(
    before=TokenContext(ids=(1,), tail="Hm."),
    opened=lambda context, spoken: context.with_text(("\n" if spoken else "") + "<call>"),
    spoken=True,
)


def text(question, place, lead_in):
    [posed] = pose(question, place, lead_in)
    return posed.context.line(posed.lead)


@pytest.mark.parametrize(
    ("lead_in", "alone", "framed"),
    [
        ("key", '{"mood":', 'Hm.\n<call>{"mood":'),
        ("anchored", 'Answer:\n{"mood":', 'Hm.\nAnswer:\n<call>{"mood":'),
        ("described", 'How the customer feels:\n{"mood":', 'Hm.\nHow the customer feels:\n<call>{"mood":'),
        (
            "letters",
            "How the customer feels:\nA. good\nB. bad\nAnswer:",
            "Hm.\nHow the customer feels:\nA. good\nB. bad\nAnswer:",
        ),
    ],
)
def test_lead_in_stands_on_one_line_before_the_frame(lead_in, alone, framed):
    assert text(QUESTION, unframed(TokenContext(ids=(1,))), lead_in) == alone
    assert text(QUESTION, FRAMED, lead_in) == framed


def test_letters_stand_for_the_answers_in_order():
    [posed] = pose(QUESTION, FRAMED, "letters")
    assert (posed.texts, posed.groups) == ((" A\n", " B\n"), (0, 1))


def test_rotations_give_every_option_every_letter():
    first, second = pose(QUESTION, unframed(TokenContext(ids=())), "letters", rotations=5)
    assert "A. good\nB. bad" in first.context.tail
    assert "A. bad\nB. good" in second.context.tail
    assert second.groups == (1, 0)


def test_more_options_than_letters_are_described():
    many = Question(
        path=("n",), kind="value", lead='{"n":', texts=tuple(f" {n}}}" for n in range(27)), groups=(), answers=(0,) * 27
    )
    assert text(many, unframed(TokenContext(ids=())), "letters") == 'n:\n{"n":'


@pytest.mark.parametrize("lead_in", LEAD_INS)
def test_the_next_step_is_asked_where_it_stands(lead_in):
    step = Question(path=(), kind="action", lead="", texts=(" a\n", " b\n"), groups=(0, 1), answers=("a", "b"))
    assert text(step, unframed(TokenContext(ids=(), tail="Next step:")), lead_in) == "Next step:"
