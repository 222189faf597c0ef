"""What a schema compiles into: a form of leaves to decide on, and the validator that has the last word."""

from agentform.schema.form import Choice, Fixed, Form, Free, Leaf, Record, Repeat, Subset, Union, leaves
from agentform.schema.target import Target
from agentform.schema.target import load as load_target

__all__ = [
    "Choice",
    "Fixed",
    "Form",
    "Free",
    "Leaf",
    "Record",
    "Repeat",
    "Subset",
    "Target",
    "Union",
    "leaves",
    "load_target",
]
