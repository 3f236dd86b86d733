"""A memory whose read data come out of a register: on ECP5 that of the block RAM, which is six times as fast."""

from amaranth.hdl import Cat, ClockSignal, Const, Instance, Module, Mux, Shape, Signal, Value
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


def _width_of(depth: int) -> int:
    """The widest words of a DP16KD of which it has so many."""
    return next(width for width, words in _WORDS.items() if words >= depth)


def _blocks_of(depth: int, bits: int) -> int:
    return -(-bits // _width_of(depth))


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
    does not infer; where words are shown early, without them.  On an iCE40 a memory of at most 256 words and at least
    64 bits is SB_RAM40_4K and a register.  All others are a `Memory` and a register.

    Parameters
    ----------
    shape : shape of a word
    depth : words, at least 1
    early : whether it has the member ``read_early``; DP16KD then go without their output registers
    registered : whether it has the member ``read_data``; False only where words are shown early
    late : whether what is written in a cycle is in what is read there; for at most `LUT_DEPTH` words
    split : whether DP16KD of so many words as no power of two may be of two depths, with a multiplexer behind them, if
        they are fewer then
    beside : shape of what stands beside each word and is written by itself, if anything; without the two before

    Members
    -------
    write_en, write_addr, write_data : In
    read_addr, read_data : In, Out
    read_early : Out
        What ``read_data`` shows in the next cycle.
    beside_en, beside_data, beside : In, In, Out
        What stands beside the word of ``write_addr``, and beside that of ``read_addr``.  In block RAM it is bytes of
        its own: a word may be read while what stands beside it is written, and the other way round.
    """

    def __init__(
        self, shape, depth: int, *, early: bool = False, registered: bool = True, late: bool = False,
        split: bool = False, beside=None,
    ):  # fmt: skip
        if depth < 1:
            raise ValueError(f"depth must be at least 1, not {depth!r}")
        if late and depth > LUT_DEPTH:
            raise ValueError(f"depth must be at most {LUT_DEPTH} where words are written late, not {depth!r}")
        if not (early or registered):
            raise ValueError("a memory shows its words early, or from a register, or both")
        if early and split:
            raise ValueError("words that are shown early are not split")
        if beside is not None and (early or late or split):
            raise ValueError("words beside which something stands are neither early, nor late, nor split")
        self._late, self._registered = late, registered
        self._early, self._split, self._beside = early, split, beside
        self._shape, self._depth = shape, depth
        self._bits = Shape.cast(shape).width
        address = ceil_log2(max(2, depth))
        super().__init__(
            {
                "write_en": In(1),
                "write_addr": In(address),
                "write_data": In(shape),
                "read_addr": In(address),
                **({"read_data": Out(shape)} if registered else {}),
                **({"read_early": Out(shape)} if early else {}),
                **({} if beside is None else {"beside_en": In(1), "beside_data": In(beside), "beside": Out(beside)}),
            }
        )

    def elaborate(self, platform):
        m = Module()
        if is_ecp5(platform) and LUT_DEPTH < self._depth <= max(_WORDS.values()):
            self._blocks(m)
        elif self._beside is not None:
            self._two(m)
        elif is_ecp5(platform) and self._depth <= LUT_DEPTH:
            self._luts(m, style_of(platform, self._depth, self._bits))
        elif _is_ice40_block(platform, self._depth, self._bits) and not self._late:
            self._blocks_ice40(m)
        else:
            self._plain(m)
        return m

    def _luts(self, m, attributes):
        """The ports of the memory have registers, so that address and data may come late in their cycle."""
        m.submodules.cells = memory = Memory(shape=self._shape, depth=max(2, self._depth), init=[], attrs=attributes)
        write, read = memory.write_port(), memory.read_port(domain="comb")
        writes = (write.en, self.write_en), (write.addr, self.write_addr), (write.data, self.write_data)
        if self._late:
            m.d.comb += [port.eq(value) for port, value in writes]
            writes = ()
        reads = ((self.read_data, read.data),) if self._registered else ()
        for port, value in (*writes, (read.addr, self.read_addr), *reads):
            register = Signal.like(port, reset_less=True)
            m.d.sync += register.eq(value)
            m.d.comb += port.eq(register)
        if self._early:
            m.d.comb += self.read_early.eq(read.data)

    def _plain(self, m):
        m.submodules.cells = memory = Memory(shape=self._shape, depth=max(2, self._depth), init=[])
        if self._late:
            write = memory.write_port()
            read = memory.read_port(transparent_for=(write,))
        else:
            write, read = memory.write_port(), memory.read_port()
        m.d.comb += [
            write.en.eq(self.write_en),
            write.addr.eq(self.write_addr),
            write.data.eq(self.write_data),
            read.addr.eq(self.read_addr),
        ]
        if self._registered:
            shown = Signal(self._shape, reset_less=True)
            m.d.sync += shown.eq(read.data)
            m.d.comb += self.read_data.eq(shown)
        if self._early:
            m.d.comb += self.read_early.eq(read.data)

    def _two(self, m):
        """Two memories with the same addresses."""
        self._part(m, "words", Ram(self._shape, self._depth), self.write_en, self.write_data, self.read_data)
        self._part(m, "besides", Ram(self._beside, self._depth), self.beside_en, self.beside_data, self.beside)

    def _part(self, m, name: str, ram: "Ram", enable, given, shown):
        m.submodules[name] = ram
        m.d.comb += [
            ram.write_en.eq(enable),
            ram.write_addr.eq(self.write_addr),
            ram.write_data.eq(given),
            ram.read_addr.eq(self.read_addr),
            shown.eq(ram.read_data),
        ]

    def _blocks(self, m):
        """As many blocks beside each other as the words are wide."""
        low = 1 << (self._depth.bit_length() - 1)
        whole, parts = _blocks_of(self._depth, self._bits), (low, self._depth - low)
        if self._split and parts[1] and sum(_blocks_of(part, self._bits) for part in parts) < whole:
            return self._blocks_split(m, low)
        columns = [(self.write_en, self.write_data, self.read_early if self._early else self.read_data)]
        if self._beside is not None:
            columns.append((self.beside_en, self.beside_data, self.beside))
        if self._early and self._registered:
            shown = Signal(self._shape, reset_less=True)
            m.d.sync += shown.eq(self.read_early)
            m.d.comb += self.read_data.eq(shown)
        self._columns(m, "", self._depth, self.write_addr, self.read_addr, columns)

    def _blocks_split(self, m, low: int):
        """The first ``low`` words, a power of two, and the others."""
        number, shown, bits = exact_log2(low), Value.cast(self.read_data), self._bits
        upper, later = Signal(2, reset_less=True), self.write_addr[number]
        reads = [Signal(bits, name=f"read{part}") for part in range(2)]
        m.d.sync += upper.eq(Cat(self.read_addr[number], upper))
        for part, (depth, enable) in enumerate(((low, ~later), (self._depth - low, later))):
            inside = max(1, ceil_log2(depth))
            columns = [(self.write_en & enable, self.write_data, reads[part])]
            self._columns(m, f"part{part}_", depth, self.write_addr[:inside], self.read_addr[:inside], columns)
        m.d.comb += shown.eq(Mux(upper[1], reads[1], reads[0]))

    def _columns(self, m, prefix: str, depth: int, write_addr, read_addr, columns):
        """Blocks of ``depth`` words; ``columns`` are what stands beside each other, with the enable of each."""
        width = _width_of(depth)
        lane = min(width, 9)
        lanes = [
            (enable, Value.cast(given)[first : first + lane], Value.cast(shown)[first : first + lane])
            for enable, given, shown in columns
            for first in range(0, len(Value.cast(given)), lane)
        ]
        for first in range(0, len(lanes), width // lane):
            here = lanes[first : first + width // lane]
            block, read = self._block(width, lane, here, len(columns) > 1, write_addr, read_addr)
            m.submodules[f"{prefix}block{first * lane}"] = block
            for number, (_, _, shown) in enumerate(here):
                m.d.comb += shown.eq(read[number * lane :][: len(shown)])

    def _block(self, width: int, lane: int, lanes, several: bool, write_addr, read_addr):
        """A DP16KD and what it shows: written through port A, read through B; for 36 bits each has half the pins."""
        low = _ADDRESS_BITS - exact_log2(_WORDS[width])
        # The address of a word begins above that of its bits; of a write, below it are enables of the bytes.
        enables = width // 9 if width > 9 else 0
        each = (
            _extended(Cat(enable for enable, *_ in lanes), enables) if several else Const((1 << enables) - 1, enables)
        )
        # With enables of its bytes a block is always written: no byte is, if none is enabled.
        any_of = (Const(1) if enables else Cat(enable for enable, *_ in lanes).any()) if several else lanes[0][0]
        given = Cat(_extended(part, lane) for _, part, _ in lanes)
        write = Cat(each, Const(0, low - enables), write_addr)
        read = Cat(Const(0, low), read_addr)
        shown = {"A": Signal(_PINS, name="shown_a"), "B": Signal(_PINS, name="shown_b")}
        pins, mode = {}, "NOREG" if self._early else "OUTREG"
        for port, address, data in (("A", write, given[:_PINS]), ("B", read, given[_PINS:])):
            pins |= {f"i_AD{port}{i}": address[i] if i < len(address) else Const(0) for i in range(_ADDRESS_BITS)}
            pins |= {f"i_DI{port}{i}": data[i] if i < len(data) else Const(0) for i in range(_PINS)}
            pins |= {f"o_DO{port}{i}": shown[port][i] for i in range(_PINS)}
            pins |= {f"i_CS{port}{i}": Const(0) for i in range(3)}
            pins |= {f"i_CE{port}": Const(1), f"i_OCE{port}": Const(1), f"i_RST{port}": Const(0)}
            pins |= {f"i_CLK{port}": ClockSignal(), f"p_CLK{port}MUX": f"CLK{port}", f"p_CSDECODE_{port}": "0b000"}
            pins |= {f"p_DATA_WIDTH_{port}": width, f"p_REGMODE_{port}": mode, f"p_WRITEMODE_{port}": "NORMAL"}
        pins |= {"i_WEA": any_of, "i_WEB": Const(0)}
        block = Instance("DP16KD", **pins, p_GSR="DISABLED", p_RESETMODE="SYNC", p_ASYNC_RESET_RELEASE="SYNC")
        return block, Cat(shown["A"], shown["B"]) if width > _PINS else shown["B"]

    def _blocks_ice40(self, m):
        """As many blocks beside each other as the words are wide.

        Synthesis would infer them too, but with registers for a whole word around them: they keep the old word when one
        is read while it is written, which no reader needs.
        """
        given, read = Value.cast(self.write_data), []
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
        if self._registered:
            shown = Signal(self._bits, reset_less=True)
            m.d.sync += shown.eq(Cat(read))
            m.d.comb += Value.cast(self.read_data).eq(shown)
        if self._early:
            m.d.comb += Value.cast(self.read_early).eq(Cat(read))
