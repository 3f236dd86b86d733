"""Who is first: orders that drawn bits turn around (cycle contract, section 3), and counting without carry chains."""

from amaranth.hdl import Cat, Const, Value

__all__ = ["before", "count", "ranks", "winners"]


def before(one: int, other: int, turn: Value) -> Value:
    """Whether ``one ^ turn`` is less than ``other ^ turn``: one bit of ``turn``, the highest in which they differ."""
    bit = (one ^ other).bit_length() - 1
    return turn[bit] if one >> bit & 1 else ~turn[bit]


def winners(asks: dict[int, Value], turn: Value) -> dict[int, Value]:
    """For each that asks whether it is the one with the least ``i ^ turn``: a tournament of halves."""
    wins = dict(asks)
    for bit in range(len(turn)):
        for i in asks:
            # Those whose numbers differ from i in this bit, and not above it.
            others = [ask for j, ask in asks.items() if (i ^ j) >> bit == 1]
            if others:
                wins[i] = wins[i] & ~(Cat(others).any() & (~turn[bit] if i >> bit & 1 else turn[bit]))
    return wins


def ranks(bits: dict[int, Value], turn: Value) -> dict[int, Value]:
    """For each how many of the set bits are before it in the order of ``i ^ turn``."""
    return {i: count([bit & before(j, i, turn) for j, bit in bits.items() if j != i]) for i in bits}


def count(bits: list[Value]) -> Value:
    """How many of these are 1, of full adders in a tree: for few bits they are smaller and faster than carry chains."""
    total, column = [], list(bits)
    while column:
        carries = []
        while len(column) > 1:
            a, b, c = (*column[:2], column[2] if len(column) > 2 else Const(0, 1))
            column = [*column[3:], a ^ b ^ c]
            carries.append((a & b) | ((a | b) & c))
        total += column
        column = carries
    return Cat(total) if total else Const(0, 1)
