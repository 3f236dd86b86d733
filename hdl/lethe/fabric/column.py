"""One output of a crossbar, for look-up tables of four inputs."""

from amaranth.hdl import Const, Mux, Value

__all__ = ["chosen", "code", "passed"]

#: The most sources of a column of two levels.
MOST = 7
#: Sources of each group of a column with many: two look-up tables, and one for the groups together.
GROUP = 4


def code(select: list[Value], most: int = MOST) -> list[Value]:
    """The control bits of a column, of which source passes: one-hot, or none; in groups of ``most`` if there are more.

    Sources are taken in pairs, and a pair has a bit for each of its two: with both, it gives ones.  Ones, where there
    should be only one source, are the sign for a source that has no bit of its own.
    """
    if len(select) > MOST:
        return [bit for first in range(0, len(select), most) for bit in code(select[first : first + most])]
    if len(select) == 4:
        a, b, c, d = select
        return [a | c, b | c, c | d]
    if len(select) == MOST:
        a, b, c, d, e, f, g = select
        return [a | g, b | g, c | g, d | g, e, f]
    return select


def passed(bits: list[Value], sources: list[Value], most: int = MOST) -> Value:
    """The source that ``bits`` name, or 0: for n = 2, 4, 5 or 7 sources n / 2 look-up tables a bit, rounded up.

    ``most`` is that of the `code`.
    """
    if len(sources) > MOST:
        groups: list[Value] = []
        while sources:
            size = len(code([Const(0, 1)] * min(most, len(sources))))
            groups.append(passed(bits[:size], sources[:most]))
            bits, sources = bits[size:], sources[most:]
        together = groups[-1]
        for group in reversed(groups[:-1]):
            together = group | together
        return together
    first = _pair(bits[:2], sources[:2])
    if len(sources) == 4:
        return Mux(bits[2], (first & sources[2]) | (~first & sources[3]), first)
    rest = [_pair(bits[n : n + 2], sources[n : n + 2]) for n in range(2, min(len(sources), MOST - 1), 2)]
    together = first
    for each in rest:
        together = together | each
    if len(sources) < MOST:
        return together
    both = first & rest[0]
    return (both & sources[-1]) | (~both & together)


def chosen(select: list[Value], sources: list[Value]) -> Value:
    """The source that is selected, one-hot, or 0, without a code."""
    values = [Mux(bit, source, 0) for bit, source in zip(select, sources, strict=True)]
    while len(values) > 1:
        values = [a | b for a, b in zip(values[::2], values[1::2], strict=False)] + values[len(values) // 2 * 2 :]
    return values[0]


def _pair(bits: list[Value], sources: list[Value]) -> Value:
    """The OR of what of two sources passes; of one, if there is one only; ones if both bits are set."""
    wide = [bit.replicate(len(source)) for bit, source in zip(bits, sources, strict=True)]
    if len(sources) == 1:
        return wide[0] & sources[0]
    return (wide[0] & (sources[0] | wide[1])) | (wide[1] & sources[1])
