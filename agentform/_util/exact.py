"""Numbers as they are written: 0.07 is seven hundredths, although no float is."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

__all__ = ["exact", "is_multiple"]


def exact(number: float) -> Fraction:
    """The number that a finite JSON number's shortest text says.

    Examples:
        >>> exact(0.07)
        Fraction(7, 100)
    """
    return Fraction(number) if isinstance(number, int) else Fraction(Decimal(repr(number)))


def is_multiple(number: float, step: float) -> bool:
    """Whether a finite number is a whole multiple of a step above zero, both taken as they are written.

    Examples:
        >>> is_multiple(19.99, 0.01), is_multiple(19.995, 0.01)
        (True, False)
    """
    return (exact(number) / exact(step)).denominator == 1
