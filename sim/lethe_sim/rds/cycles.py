"""Time is in cycles of the network, which are whole."""

import operator
from typing import SupportsIndex

__all__ = ["whole_cycles"]


def whole_cycles(value: object) -> int:
    """A number of cycles as an int; a float that is whole is taken, too.

    Raises
    ------
    ValueError : it is not whole, or less than 0
    TypeError : it is no number
    """
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, float):
        raise ValueError(f"{value} cycles: time is in whole cycles; give a whole number, 0 or more")
    if not isinstance(value, SupportsIndex):
        raise TypeError(f"{value!r}: time is in whole cycles; give a whole number, 0 or more")
    whole = operator.index(value)
    if whole < 0:
        raise ValueError(f"{whole} cycles: time does not go back; give a whole number, 0 or more")
    return whole
