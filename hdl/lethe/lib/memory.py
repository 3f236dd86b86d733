"""A memory whose read data come out of a register: on ECP5 that of the block RAM, which is six times as fast."""

from amaranth.hdl import Cat, ClockSignal, Const, Instance, Module, Shape, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2, exact_log2

__all__ = ["LUT_DEPTH", "Ram", "is_ecp5", "style_of"]

#: The deepest memory that is made of LUTs on an ECP5.
LUT_DEPTH = 32
#: The words of a DP16KD by their width, the widest first.
_WORDS = {36: 512, 18: 1024, 9: 2048, 4: 4096, 2: 8192, 1: 16384}
_ADDRESS_BITS, _PINS = 14, 18
#: The words of a SB_RAM40_4K, and the bits of a word.
_WORDS_ICE40, _PINS_ICE40 = 256, 16
#: The smallest memory in bits that is block RAM on an iCE40, which has no memory of LUTs.
_LEAST_ICE40 = 64


def is_ecp5(platform) -> bool:
    """Whether what is elaborated is for an ECP5 alone: ``platform.device`` is a LFE5…."""
    return str(getattr(platform, "device", "")).startswith("LFE5")


def _is_ice40_block(platform, depth: int, bits: int) -> bool:
    """Whether the device is an iCE40, and a memory of ``depth`` words of ``bits`` bits is block RAM there."""
    is_ice40 = str(getattr(platform, "device", "")).startswith("iCE40")
    return is_ice40 and depth <= _WORDS_ICE40 and depth * bits >= _LEAST_ICE40


def style_of(platform, depth: int, bits: int) -> dict[str, str]:
    """Attributes that tell synthesis what to make a memory of few words of.

    On an ECP5 it is LUTs, on an iCE40 block RAM unless the memory has very few bits.  Elsewhere synthesis chooses.
    """
    if is_ecp5(platform):
        return {"ram_style": "distributed"}
    return {"ram_style": "block"} if _is_ice40_block(platform, depth, bits) else {}


def _extended(value: Value, bits: int) -> Value:
    """``value`` with zeros above it, or cut, to so many bits."""
    return Cat(value, Const(0, bits))[:bits]


class Ram(wiring.Component):
    """One write port, and one read port that is two cycles late and never waits.

    What is read at an address in *c* is the word as of the start of *c*, shown in *c+2*; a write in *c* is not in it.
    A word that is read in the very cycle in which it is written is undefined where the memory is block RAM, so its
    reader must not need it.  Reset leaves words and what was read as they are; they begin as 0.

    On an ECP5 (`is_ecp5`) a memory of up to `LUT_DEPTH` words is made of LUTs, with registers before its ports and one
    behind the read port.  A larger one, of up to 16,384 words, is DP16KD with their output registers, which synthesis
    does not infer.  On an iCE40 a memory of at most 256 words and at least 64 bits is SB_RAM40_4K and a register.  All
    others are a `Memory` and a register.

    Parameters
    ----------
    shape : shape of a word
    depth : words, at least 1
    early : whether it has the member ``read_early``; for at most `LUT_DEPTH` words

    Members
    -------
    write_en, write_addr, write_data : In
    read_addr, read_data : In, Out
    read_early : Out
        What ``read_data`` shows in the next cycle.
    """

    def __init__(self, shape, depth: int, *, early: bool = False):
        if depth < 1:
            raise ValueError(f"depth must be at least 1, not {depth!r}")
        if early and depth > LUT_DEPTH:
            raise ValueError(f"depth must be at most {LUT_DEPTH} where words are shown early, not {depth!r}")
        self._early = early
        self._shape, self._depth = shape, depth
        self._bits = Shape.cast(shape).width
        address = ceil_log2(max(2, depth))
        super().__init__(
            {
                "write_en": In(1),
                "write_addr": In(address),
                "write_data": In(shape),
                "read_addr": In(address),
                "read_data": Out(shape),
                **({"read_early": Out(shape)} if early else {}),
            }
        )

    def elaborate(self, platform):
        m = Module()
        if is_ecp5(platform) and self._depth <= LUT_DEPTH:
            self._luts(m, style_of(platform, self._depth, self._bits))
        elif is_ecp5(platform) and self._depth <= max(_WORDS.values()):
            self._blocks(m)
        elif _is_ice40_block(platform, self._depth, self._bits):
            self._blocks_ice40(m)
        else:
            self._plain(m)
        return m

    def _luts(self, m, attributes):
        """The ports of the memory have registers, so that address and data may come late in their cycle."""
        m.submodules.cells = memory = Memory(shape=self._shape, depth=max(2, self._depth), init=[], attrs=attributes)
        write, read = memory.write_port(), memory.read_port(domain="comb")
        for port, value in (
            (write.en, self.write_en),
            (write.addr, self.write_addr),
            (write.data, self.write_data),
            (read.addr, self.read_addr),
            (self.read_data, read.data),
        ):
            register = Signal.like(port, reset_less=True)
            m.d.sync += register.eq(value)
            m.d.comb += port.eq(register)
        if self._early:
            m.d.comb += self.read_early.eq(read.data)

    def _plain(self, m):
        m.submodules.cells = memory = Memory(shape=self._shape, depth=max(2, self._depth), init=[])
        write, read = memory.write_port(), memory.read_port()
        shown = Signal(self._shape, reset_less=True)
        m.d.sync += shown.eq(read.data)
        m.d.comb += [
            write.en.eq(self.write_en),
            write.addr.eq(self.write_addr),
            write.data.eq(self.write_data),
            read.addr.eq(self.read_addr),
            self.read_data.eq(shown),
        ]
        if self._early:
            m.d.comb += self.read_early.eq(read.data)

    def _blocks(self, m):
        """As many blocks beside each other as the words are wide."""
        width = next(width for width, words in _WORDS.items() if words >= self._depth)
        given, shown = Value.cast(self.write_data), Value.cast(self.read_data)
        for first in range(0, len(given), width):
            part = given[first : first + width]
            m.submodules[f"block{first}"], read = self._block(width, part)
            m.d.comb += shown[first : first + width].eq(read[: len(part)])

    def _block(self, width: int, given: Value):
        """A DP16KD and what it shows: written through port A, read through B; for 36 bits each has half the pins."""
        low = _ADDRESS_BITS - exact_log2(_WORDS[width])
        # The address of a word begins above that of its bits; of a write, below it are enables of the bytes.
        enables = width // 9 if width > 9 else 0
        write = Cat(Const((1 << enables) - 1, enables), Const(0, low - enables), self.write_addr)
        read = Cat(Const(0, low), self.read_addr)
        shown = {"A": Signal(_PINS, name="shown_a"), "B": Signal(_PINS, name="shown_b")}
        pins = {}
        for port, address, data in (("A", write, given[:_PINS]), ("B", read, given[_PINS:])):
            pins |= {f"i_AD{port}{i}": address[i] if i < len(address) else Const(0) for i in range(_ADDRESS_BITS)}
            pins |= {f"i_DI{port}{i}": data[i] if i < len(data) else Const(0) for i in range(_PINS)}
            pins |= {f"o_DO{port}{i}": shown[port][i] for i in range(_PINS)}
            pins |= {f"i_CS{port}{i}": Const(0) for i in range(3)}
            pins |= {f"i_CE{port}": Const(1), f"i_OCE{port}": Const(1), f"i_RST{port}": Const(0)}
            pins |= {f"i_CLK{port}": ClockSignal(), f"p_CLK{port}MUX": f"CLK{port}", f"p_CSDECODE_{port}": "0b000"}
            pins |= {f"p_DATA_WIDTH_{port}": width, f"p_REGMODE_{port}": "OUTREG", f"p_WRITEMODE_{port}": "NORMAL"}
        pins |= {"i_WEA": self.write_en, "i_WEB": Const(0)}
        block = Instance("DP16KD", **pins, p_GSR="DISABLED", p_RESETMODE="SYNC", p_ASYNC_RESET_RELEASE="SYNC")
        return block, Cat(shown["A"], shown["B"]) if width > _PINS else shown["B"]

    def _blocks_ice40(self, m):
        """As many blocks beside each other as the words are wide.

        Synthesis would infer them too, but with registers for a whole word around them: they keep the old word when one
        is read while it is written, which no reader needs.
        """
        given, read, shown = Value.cast(self.write_data), [], Signal(self._bits, reset_less=True)
        for first in range(0, len(given), _PINS_ICE40):
            part, out = given[first : first + _PINS_ICE40], Signal(_PINS_ICE40, name=f"out{first}")
            m.submodules[f"block{first}"] = Instance(
                "SB_RAM40_4K", p_READ_MODE=0, p_WRITE_MODE=0, i_MASK=Const(0, _PINS_ICE40),
                i_WCLK=ClockSignal(), i_WCLKE=Const(1), i_WE=self.write_en,
                i_WADDR=_extended(self.write_addr, 11), i_WDATA=_extended(part, _PINS_ICE40),
                i_RCLK=ClockSignal(), i_RCLKE=Const(1), i_RE=Const(1),
                i_RADDR=_extended(self.read_addr, 11), o_RDATA=out,
            )  # fmt: skip
            read.append(out)
        m.d.sync += shown.eq(Cat(read))
        m.d.comb += Value.cast(self.read_data).eq(shown)
        if self._early:
            m.d.comb += Value.cast(self.read_early).eq(Cat(read))
