"""The number of the first 1 of some bits."""

from amaranth.hdl import Cat, Const, Mux, Value

__all__ = ["before", "first_of", "lowest_of", "turn_of"]


def first_of(bits, later):
    """The number of the first 1 among those of ``later``, or else of the first of all.

    ``bits`` are as many as a power of two; ``later`` are those above one of them, or none.
    """
    behind = bits & later
    return Mux(behind.any(), lowest_of(behind)[1], lowest_of(bits)[1])


def turn_of(bits, later):
    """The same as a 1 at its place, or no 1, of any number of bits."""
    behind = bits & later
    some = behind.any()
    return Cat((behind[i] & ~before(behind, i)) | (bits[i] & ~some & ~before(bits, i)) for i in range(len(bits)))


def lowest_of(bits):
    """Whether there is a 1, and the number of the first: of quarters, of these again, and so on."""
    if len(bits) == 1:
        return bits[0], Const(0, 0)
    size = 1 << max(0, (len(bits) - 1).bit_length() - 2)
    present, numbers = zip(*(lowest_of(bits[start : start + size]) for start in range(0, len(bits), size)), strict=True)
    number = numbers[-1]
    for some, found in zip(reversed(present[:-1]), reversed(numbers[:-1]), strict=True):
        number = Mux(some, found, number)
    first, second, third = *present[:2], present[2] if len(present) > 2 else Const(0)
    which = Cat(~first & (second | ~third), ~first & ~second)
    return Cat(*present).any(), Cat(number, which[: (len(present) + 1) // 2])


def before(bits: Value, i: int) -> Value:
    """Whether one of the bits below ``i`` is 1: those of fours, then those of the same four."""
    fours = [bits[first : first + 4].any() for first in range(0, i - i % 4, 4)]
    return Cat(*fours, bits[i - i % 4 : i].any() if i % 4 else Const(0, 1)).any()
