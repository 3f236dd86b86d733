"""The payload that can be checked without knowing what was sent (cycle contract, section 5)."""

from amaranth.hdl import Cat, Const, Mux, Value

__all__ = ["KEY_BITS", "NODE_BITS", "NUMBER_BITS", "beat", "clipped", "kept", "last_beat", "masked"]

KEY_BITS = 32
NODE_BITS = 12
NUMBER_BITS = KEY_BITS - NODE_BITS


def _word(key: Value, number: Value, odd: Value | int) -> Value:
    """32-bit word ``number`` (8 bits count): the key XOR the number in every byte, complemented if odd."""
    plain = key ^ Cat(*[number[:8]] * 4)
    return Mux(odd, ~plain, plain)


def beat(key: Value, index: Value, flit_bits: int) -> Value:
    """Beat number ``index`` of the endless payload of ``key``."""
    padded = Cat(index, 0, 0, 0, 0, 0, 0, 0, 0)
    if flit_bits == 16:
        word = _word(key, padded[1:9], padded[1])
        return Mux(index[0], word[16:], word[:16])
    if flit_bits == 32:
        return _word(key, padded[:8], padded[0])
    shift = (flit_bits // KEY_BITS).bit_length() - 1
    words = range(flit_bits // KEY_BITS)
    numbers = [Cat([w >> b & 1 for b in range(shift)], padded)[:8] for w in words]
    return Cat(_word(key, number, w & 1) for w, number in zip(words, numbers, strict=True))


def last_beat(length: Value, flit_bytes: int) -> Value:
    """Index of the last beat of ``length`` > 0 bytes."""
    return (length - 1)[flit_bytes.bit_length() - 1 : len(length)]


def kept(length: Value, flit_bytes: int) -> Value:
    """A bit for each byte of a last beat: whether it is one of the ``length`` > 0 bytes."""
    beyond = length[: flit_bytes.bit_length() - 1]
    return Cat((beyond == 0) | (b < beyond) if b else Const(1, 1) for b in range(flit_bytes))


def masked(data: Value, mask: Value) -> Value:
    """``data`` with the bytes whose bit of ``mask`` is 0 set to 0."""
    return Cat(data.word_select(b, 8) & mask[b].replicate(8) for b in range(len(mask)))


def clipped(data: Value, length: Value, flit_bytes: int) -> Value:
    """The last beat with the bytes beyond ``length`` 0."""
    return masked(data, kept(length, flit_bytes))
