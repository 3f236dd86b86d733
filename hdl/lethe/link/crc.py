"""CRCs of whole flits as XOR matrices (`lethe.spec.wire.Crc`)."""

from amaranth.hdl import Cat, Const, Value

from lethe.spec.wire import Crc

__all__ = ["crc_of", "crc_update"]


def crc_update(crc: Crc, state: Value, data: Value) -> Value:
    """The CRC register after one more word, combinational: `Crc.update` with all bits of ``data``.

    A reflected CRC is linear in data ⊕ state, so the state is added to the first bits and one matrix does the
    rest; each output bit is the parity of the bits that reach it.
    """
    bits, width = len(data), crc.width
    word = data ^ state if bits >= width else data ^ state[:bits]
    inputs = Cat(word[:bits], state[bits:]) if bits < width else word[:bits]
    columns = [crc.update(0, 1 << i, bits) if i < bits else crc.update(1 << i, 0, bits) for i in range(len(inputs))]
    return Cat(Cat(inputs[i] for i in range(len(inputs)) if columns[i] >> bit & 1).xor() for bit in range(width))


def crc_of(crc: Crc, data: Value) -> Value:
    """The CRC of one word, initial value and final XOR included, combinational."""
    return crc_update(crc, Const(crc.ones, crc.width), data) ^ crc.ones
