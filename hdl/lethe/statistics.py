"""Event counters: their low bits run freely, and one carry engine follows them in block RAM; exact at every read."""

from collections.abc import Collection, Sequence

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from lethe.lib.memory import Ram

__all__ = ["LATENCY", "QUIET", "Statistics"]

#: Cycles from `Statistics.address` to `Statistics.data`.
LATENCY = 3
#: So many counters of a lane, with the same quotient, have their low bits in one LUT RAM.
ROW = 8
#: In so many cycles after reset nothing may happen on a lane.
QUIET = ROW - 1
#: The least turns: a word is read again only after it was written.
LEAST_TURNS = 5


class Statistics(wiring.Component):
    """Counts pulses of many kinds, modulo ``2**width``.

    The low bits of every count run freely.  One counter a cycle has its turn: if the highest of them has fallen since
    its last turn, its word in block RAM, which has the high bits and that highest bit, gets the carry.  A read does
    the same for its answer, so it is exact whenever it happens.

    Counters of which at most one counts in a cycle can share a lane.  Their low bits are in LUT RAM.  All others have
    low bits of their own in flip-flops.

    Reset zeroes all counts at once, as seen from outside: LUT RAM is cleared in the first cycles, in which no lane may
    count (`QUIET`), and a word in block RAM reads as 0 until its first turn has passed, which overwrites it.

    Parameters
    ----------
    width : bits of a count
    counters : number of counters
    most : the most that can be added to one counter in a cycle
    lanes : for each lane the counters that it counts; none is in two
    since : bits of ``since``, 0: counters cannot be read as of one cycle

    Members
    -------
    pulse : In(counters · bits), bits = 1 for the usual ``most`` of 1
        Bit i set in a cycle adds 1 to counter i; with ``most`` > 1 the i-th group of bits is what is added.  Those of
        counters on lanes mean nothing.
    lanes : array of In({valid, counter}), if there are lanes
        Adds 1 to one of the lane's counters.
    address : In(range(counters))
        Counter to read; any cycle, every cycle.
    data : Out(width)
        `LATENCY` cycles after ``address``: what was added in all cycles up to two before that of ``address``.
    walk : In(1)
        While it is 1, what is added is counted beside the counts, too: for counters that are read one after the other,
        but as of the first of these cycles.  Before, every address must have been read once while it was 0.
    since : Out(since)
        With ``data``, if ``walk`` was 1 with the address: how much of ``data`` was added since it became 1.
    """

    def __init__(
        self, width: int = 32, counters: int = 1, most: int = 1, lanes: Sequence[Collection[int]] = (), since: int = 0
    ):
        if counters < 1:
            raise ValueError(f"counters must be at least 1, not {counters!r}")
        if most < 1:
            raise ValueError(f"most must be at least 1, not {most!r}")
        on_lanes = [counter for lane in lanes for counter in lane]
        if len(set(on_lanes)) < len(on_lanes) or not set(on_lanes) <= set(range(counters)):
            raise ValueError(f"lanes must have different counters below {counters}, not {lanes!r}")
        self._counters, self._most, self._on_lanes = counters, most, on_lanes
        self._lane_counters = [sorted(lane) for lane in lanes]
        self._since = since
        number = range(max(2, counters))
        lane = data.StructLayout({"valid": 1, "counter": number})
        super().__init__(
            {
                "pulse": In(counters * most.bit_length()),
                "address": In(number),
                "data": Out(width),
                **({"lanes": In(lane).array(len(lanes))} if lanes else {}),
                **({"walk": In(1), "since": Out(since)} if since else {}),
            }
        )

    def elaborate(self, platform):
        m = Module()
        width, counters, most = len(self.data), self._counters, self._most
        turns = max(LEAST_TURNS, counters)
        # Between two looks at a count its low bits do not go round by half.
        low_bits = (most * (turns + 2 * LATENCY)).bit_length() + 1
        high_bits = max(1, width - low_bits)

        lows = [*self._in_flip_flops(m, low_bits), *self._in_lut_ram(m, low_bits)]

        def low(number: Value, cycles: str) -> Signal:
            """The low bits of a counter, two cycles later."""
            parts = []
            for i, (members, read, clear) in enumerate(lows):
                part = Signal(low_bits, name=f"{cycles}{i}")
                chosen = Signal(name=f"{cycles}{i}_chosen")
                m.d.comb += chosen.eq(Cat(number == member for member in members).any() & ~clear)
                m.d.sync += part.eq(Mux(chosen, read(number), 0))
                parts.append(part)
            found = Signal(low_bits, name=cycles)
            m.d.sync += found.eq(_any(parts))
            return found

        word = data.StructLayout({"high": high_bits, "top": 1})
        m.submodules.words = words = Ram(word, turns)
        m.submodules.copy = copy = Ram(word, turns)

        def carried(old, low: Value) -> Value:
            return (old.high + (old.top & ~low[-1]))[:high_bits]

        # The turn: c: the word and the low bits are read; c+2: they are there; c+3: the word is written.
        turn = [Signal(range(turns), init=-back % turns, name=f"turn{back}") for back in range(4)]
        m.d.sync += [turn[0].eq(Mux(turn[0] == turns - 1, 0, turn[0] + 1)), Cat(turn[1:]).eq(Cat(turn[:-1]))]
        age = Signal(range(turns + 4))  # cycles since reset, or the first in which all words are written
        writes, cleared, written = Signal(), Signal(), Signal(word)
        own_low = low(turn[0], "low")
        m.d.comb += cleared.eq(age == turns + 3)
        with m.If(~cleared):
            m.d.sync += age.eq(age + 1)
        m.d.sync += [
            writes.eq(age >= 2),
            written.high.eq(Mux(age < turns + 2, 0, carried(words.read_data, own_low))),
            written.top.eq(own_low[-1]),
        ]
        m.d.comb += words.read_addr.eq(turn[0])
        for memory in (words, copy):
            m.d.comb += [
                memory.write_addr.eq(turn[3]), memory.write_data.eq(written), memory.write_en.eq(writes)
            ]  # fmt: skip

        # The read, in the same cycles.  What is written to the word just then is old enough to be used.
        hit, known, latest = Signal(), Signal(), Signal(word)
        # Which of the two it is, or neither: known before the copy is.
        aside, copied, old = Signal(word), Signal(), Signal(word)
        shown_low = low(self.address, "shown_low")
        m.d.sync += [
            hit.eq(writes & (turn[3] == self.address)),
            known.eq(writes & (cleared | (self.address <= turn[3]))),
            latest.eq(written),
            aside.eq(Mux(known & hit, latest, 0)),
            copied.eq(known & ~hit),
        ]
        m.d.comb += [
            copy.read_addr.eq(self.address),
            old.eq(aside.as_value() | (copy.read_data.as_value() & copied.replicate(len(old.as_value())))),
        ]
        m.d.sync += self.data.eq(Cat(shown_low, carried(old, shown_low))[:width])
        if self._since:
            self._count_beside(m)
        return m

    def _count_beside(self, m):
        """What is added while ``walk`` is 1, in the cycles of `_in_flip_flops` and `_in_lut_ram`."""
        size, parts = self._most.bit_length(), []
        for i in range(self._counters):
            if i not in self._on_lanes:
                pulse, count = Signal(size, name=f"beside_pulse{i}"), Signal(self._since, name=f"beside{i}")
                shown = Signal(self._since, name=f"beside_shown{i}")
                m.d.sync += [
                    pulse.eq(self.pulse.word_select(i, size)),
                    count.eq(Mux(self.walk, count + pulse, 0)),
                    shown.eq(Mux(self.address == i, count, 0)),
                ]
                parts.append(shown)
        address, walk = Signal.like(self.address), Signal()
        m.d.sync += [address.eq(self.address), walk.eq(self.walk)]
        for n, members in enumerate(self._lane_counters):
            m.submodules[f"beside_lane{n}"] = memory = Memory(
                shape=self._since, depth=1 << max(members).bit_length(), init=[]
            )
            before, read, write = memory.read_port(domain="comb"), memory.read_port(domain="comb"), memory.write_port()
            # A count is read in one cycle, made in the next, written in the third.  What two events before have not
            # written yet stands in for the memory's.
            event, counted = Signal(self.lanes[n].shape(), name=f"beside_event{n}"), Signal()
            place, to, changes, writes = Signal.like(address), Signal.like(address), Signal(), Signal()
            old, made, again = Signal(self._since), Signal(self._since), Signal()
            m.d.comb += changes.eq(counted | ~walk)
            m.d.sync += [
                event.eq(self.lanes[n]),
                counted.eq(event.valid),
                place.eq(Mux(self.walk, event.counter, self.address)),
                again.eq(changes & (place == event.counter)),
                old.eq(Mux(writes & (to == event.counter), made, before.data)),
                made.eq(Mux(walk, Mux(again, _one_more(made), _one_more(old)), 0)),
                to.eq(place),
                writes.eq(changes),
            ]
            m.d.comb += [
                before.addr.eq(event.counter),
                read.addr.eq(address),
                write.addr.eq(to),
                write.data.eq(made),
                write.en.eq(writes),
            ]
            now = Mux(writes & (to == address), made, read.data)
            parts.append(Mux(address <= max(members), now, 0))
        kept = [Signal(self._since, name=f"beside_kept{i}") for i in range(len(parts))]
        m.d.sync += [Cat(kept).eq(Cat(parts)), self.since.eq(_any(kept))]

    def _in_flip_flops(self, m, low_bits: int):
        """(counters, reader, when it reads 0) of the counters without a lane."""
        size = self._most.bit_length()
        for i in range(self._counters):
            if i not in self._on_lanes:
                count, pulse = Signal(low_bits, name=f"count{i}"), Signal(size, name=f"pulse{i}")
                m.d.sync += [pulse.eq(self.pulse.word_select(i, size)), count.eq(count + pulse)]
                yield [i], lambda number, count=count: count, Const(0, 1)

    def _in_lut_ram(self, m, low_bits: int):
        """The same of those on lanes, which are cleared after reset."""
        walk, walking = Signal(range(ROW)), Signal(init=1)
        m.d.sync += walk.eq(walk + 1)
        with m.If(walk == ROW - 1):
            m.d.sync += walking.eq(0)
        for n, members in enumerate(self._lane_counters):
            event = Signal(self.lanes[n].shape(), name=f"event{n}")
            place = Signal(range(ROW), name=f"place{n}")
            m.d.sync += event.eq(self.lanes[n])
            with m.If(walking & (walk != ROW - 1)):
                m.d.sync += place.eq(walk + 1)
            with m.Else():
                m.d.sync += place.eq(self.lanes[n].counter)
            for row in sorted({member // ROW for member in members}):
                m.submodules[f"lane{n}_{row}"] = memory = Memory(shape=low_bits, depth=ROW, init=[])
                before, write = memory.read_port(domain="comb"), memory.write_port()
                m.d.comb += [
                    before.addr.eq(place),
                    write.addr.eq(place),
                    write.data.eq(Mux(walking, 0, _one_more(before.data))),
                    write.en.eq(walking | (event.valid & (event.counter // ROW == row))),
                ]

                def read(number: Value, memory=memory) -> Value:
                    port = memory.read_port(domain="comb")
                    m.d.comb += port.addr.eq(number)
                    return port.data

                yield [member for member in members if member // ROW == row], read, walking


def _one_more(number: Value) -> Value:
    """The next number, modulo its width, without a carry chain: for so few bits that is slower."""
    return Cat(~number[0], *(number[i] ^ number[:i].all() for i in range(1, len(number))))


def _any(parts: Sequence[Value]) -> Value:
    found = parts[0]
    for part in parts[1:]:
        found = found | part
    return found
