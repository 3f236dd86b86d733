"""A ladder of FIFOs, one for each distance class and doubling: the repeat timers (cycle contract, section 4.6)."""

from itertools import pairwise

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from lethe.lib.memory import Ram
from lethe.spec import stages
from lethe.spec.config import System

__all__ = ["Ladder", "held_layout", "push_signature"]


def push_signature(system: System, shape) -> wiring.Signature:
    """Seen from who pushes: in this cycle ``token`` joins ``rung``, due at ``eve + 1``.

    The eve is at least nine more than the time of this cycle.  Only while ``room`` is 1, or where the contract has left
    a place.
    """
    rung = Out(range(max(2, system.rungs)))
    members = {"room": In(1), "valid": Out(1), "token": Out(shape), "rung": rung, "eve": Out(system.time_bits)}
    return wiring.Signature(members)


def held_layout(system: System, shape) -> data.StructLayout:
    """An expired token, and the rung of its next try."""
    return data.StructLayout({"token": shape, "next_rung": range(max(2, system.rungs))})


def _sum(a: Value, b: Value, carry: Value) -> Value:
    """The sum of two numbers of one width and a carry, cut to that width: one chain, where ``a + b + carry`` is two."""
    return (Cat(Const(1, 1), a) + Cat(carry, b))[1 : 1 + len(a)]


def _among(number: Value, most: int) -> Value:
    """Whether a number is 1 … most−1.  If ``most`` is small, without the chain of carries of a comparison."""
    low = (most - 1).bit_length()
    if low > 6:
        return (number != 0) & (number < most)
    return ~number[low:].any() & Array((i in range(1, most)) for i in range(1 << low))[number[:low]]


class _Pointers:
    """A number for each rung, with one writer, and readers that see it in the same cycle.

    If they are ``walked``, they are in LUT RAM, and the ladder's walk clears them after reset.  Else the NI may push
    before a walk is over, so they are in flip-flops, which are cleared at once.
    """

    def __init__(self, m: Module, name: str, count: int, init: Const, *, walked: bool):
        self._m = m
        self._memory = None
        if walked:
            m.submodules[name] = self._memory = Memory(shape=len(init), depth=count, init=[])
        else:
            self._numbers = Array(Signal(len(init), init=init.value, name=f"{name}{q}") for q in range(count))

    def read(self, index: Value) -> Value:
        if self._memory is None:
            return self._numbers[index]
        port = self._memory.read_port(domain="comb")
        self._m.d.comb += port.addr.eq(index)
        return port.data

    def write(self, enable: Value, index: Value, number: Value):
        if self._memory is None:
            with self._m.If(enable):
                self._m.d.sync += self._numbers[index].eq(number)
        else:
            port = self._memory.write_port()
            self._m.d.comb += [port.en.eq(enable), port.addr.eq(index), port.data.eq(number)]


class Ladder(wiring.Component):
    """Holds tokens until their time, and shows one expired token at a time.

    Every rung is a FIFO in one memory, and every cycle looks at one rung, in turn (`lethe.spec.stages.turn_of`).  A
    look begins three cycles early: in *c−3* the rung's pointers and its memory are read, in *c−1* the due time is
    compared, and in *c* the token is popped or not.  So there is one comparison, whatever the number of rungs.  A token
    that is pushed in *p* is in the memory from *p+2* on; a look may miss it before, since it is not due until *p+10*.

    The level of a rung stays below the number of its places, so that equal pointers mean that it is empty.

    Parameters
    ----------
    system : `rungs`, `timer_depth`, `time_bits`
    shape : shape of a token
    spare : places that ``room`` leaves in every rung, for tokens on their way: `SPARE_SEND` or `SPARE_DELIVER` of
        `lethe.spec.stages`

    Members
    -------
    push : In(`push_signature`)
        ``room``, a register: every rung has known level ≤ timer_depth − spare.
    time_base, advance : In
        The time base, and whether it is one more in the next cycle.
    hold : Out(stream of `held_layout`)
        The hold register; taken in *c*, it is empty in *c+1*, and can be full again in *c+2*.
    """

    time_base: Signal
    advance: Signal
    hold: stream.Interface

    def __init__(self, system: System, shape, spare: int = stages.SPARE_SEND):
        if spare not in (stages.SPARE_SEND, stages.SPARE_DELIVER):
            raise ValueError(f"spare must be {stages.SPARE_SEND} or {stages.SPARE_DELIVER}, not {spare!r}")
        self._system = system
        self._spare = spare
        self._shape = shape
        super().__init__(
            {
                "push": In(push_signature(system, shape)),
                "time_base": In(system.time_bits),
                "advance": In(1),
                "hold": Out(stream.Signature(held_layout(system, shape))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        system, hold = self._system, self.hold.payload
        rungs, depth = system.rungs, system.timer_depth
        nobody = rungs  # whose turn it is when it is no rung's: never pushed, so always empty
        pointer_bits = ceil_log2(depth)
        brim_level = depth - self._spare  # a push at this level leaves no room

        # The due times are kept as what is to be added to the time.
        word = data.StructLayout({"token": self._shape, "until": system.time_bits})
        m.submodules.memory = memory = Ram(word, rungs << pointer_bits)
        # The brim of a rung is the tail that it has at the brim level.
        walked = rungs <= max(system.ni.slots, system.ni.sets)
        heads, tails, brims = (
            _Pointers(m, name, rungs + 1, Const(init, pointer_bits), walked=walked)
            for name, init in (("heads", 0), ("tails", 0), ("brims", brim_level))
        )

        # Whose turn it is, and whose it will be in 1 … 3 cycles.
        turn = self._turns(m, nobody)

        # The walk after reset, over before the first push: pointers in LUT RAM are cleared, rung by rung.
        walking, rung = Signal(init=walked), Signal.like(turn[0], init=0)
        with m.If(rung == rungs - 1):
            m.d.sync += walking.eq(0)

        # Push, one cycle late.  Its tail is read at once, and may be what the push before it leaves.
        pushed, token, until = Signal(), Signal(self._shape), Signal(system.time_bits)
        tail, after_tail = Signal(pointer_bits, init=-walked), Signal(pointer_bits)

        def tail_of(rung_: Value) -> Value:
            return Mux(pushed & (rung == rung_), after_tail, tails.read(rung_))

        m.d.sync += [
            pushed.eq(self.push.valid),
            rung.eq(Mux(walking, rung + 1, self.push.rung)),
            tail.eq(Mux(walking, -1, tail_of(self.push.rung))),
            token.eq(self.push.token),
            until.eq(~self.push.eve),
        ]
        m.d.comb += [
            after_tail.eq(tail + 1),
            memory.write_en.eq(pushed),
            memory.write_addr.eq(Cat(tail, rung)),
            memory.write_data.token.eq(token),
            memory.write_data.until.eq(until),
        ]
        tails.write(pushed | walking, rung, after_tail)

        def later(number: Value, cycles: int) -> Value:
            """The same, so many cycles later."""
            for _ in range(cycles):
                register = Signal.like(number)
                m.d.sync += register.eq(number)
                number = register
            return number

        # c−3: the rung's pointers and its memory are read.  A look that begins during the walk finds nothing.
        early_head, early_next = heads.read(turn[3]), Signal.like(hold.next_rung)
        head, tail_then, walked_by = Signal(pointer_bits), Signal(pointer_bits), Signal()
        m.d.sync += [
            head.eq(early_head),
            tail_then.eq(tails.read(turn[3])),
            walked_by.eq(~walking),
            early_next.eq(Array(system.rung_after(q) for q in range(rungs))[turn[3]]),
        ]
        m.d.comb += memory.read_addr.eq(Cat(early_head, turn[3]))
        # c−2: whether there is a token.
        some, after_head, next_rung = Signal(), Signal(pointer_bits), later(early_next, 1)
        m.d.sync += [some.eq((head != tail_then) & walked_by), after_head.eq(head + 1)]
        # c−1: the due time: time + advance > eve.  Then it is due in c.
        left, ripe = Signal(system.time_bits), Signal()
        m.d.comb += left.eq(_sum(self.time_base, memory.read_data.until, self.advance))
        oldest, its_next = later(memory.read_data.token, 1), later(next_rung, 1)
        m.d.sync += ripe.eq(some & ~left[-1])
        # c: pop.  A full hold register keeps what it has.
        pop, blocked = Signal(), Signal()
        popped_head, popped_brim = Signal(pointer_bits), Signal(pointer_bits, init=brim_level)
        m.d.sync += [
            popped_head.eq(Mux(walking, 0, after_head)),
            popped_brim.eq(Mux(walking, brim_level, (after_head + brim_level)[:pointer_bits])),
        ]
        m.d.comb += pop.eq(ripe & ~blocked & ~self.hold.valid)
        popped = Mux(walking, rung, turn[0])
        heads.write(pop | walking, popped, popped_head)
        brims.write(pop | walking, popped, popped_brim)
        with m.If(self.hold.valid):
            m.d.sync += self.hold.valid.eq(~self.hold.ready)
        with m.Else():
            m.d.sync += [self.hold.valid.eq(pop), hold.token.eq(oldest), hold.next_rung.eq(its_next)]
        if system.timers.backoff_steps:
            # Less the level, modulo the places of the memory: with it what was pushed in c−2.
            rest, joins, own = Signal(pointer_bits), Signal(), Signal()
            most = (1 << pointer_bits) - depth + stages.SPARE_NEXT_RUNG
            m.d.comb += blocked.eq(~own & _among(rest, most))
            m.d.sync += [
                joins.eq(self.push.valid & (self.push.rung == early_next)),
                rest.eq(_sum(heads.read(next_rung), ~tails.read(next_rung), ~joins)),
                own.eq(next_rung == turn[1]),
            ]

        # How many rungs are above the brim.  A pop and a push of one rung leave its level as it is.  The sum is a cycle
        # late, so that `room` waits for one comparison only.
        room, both, brim, end, rises, falls = (
            Signal(1, init=1),
            Signal(),
            Signal(pointer_bits),
            Signal(pointer_bits),
            Signal(),
            Signal(),
        )
        above, now, rose, fell = Signal(range(rungs + 1)), Signal(range(rungs + 1)), Signal(), Signal()
        m.d.comb += [
            both.eq(pop & self.push.valid & (self.push.rung == turn[0])),
            rises.eq(later(self.push.valid & ~both, 1) & (tail == brim)),
            falls.eq(later(pop & ~both, 1) & (end == later(popped_brim, 1))),
            now.eq(above + rose - fell),
            self.push.room.eq(room),
        ]
        m.d.sync += [
            brim.eq(brims.read(self.push.rung)),
            end.eq(tail_of(turn[0])),
            rose.eq(rises),
            fell.eq(falls),
            above.eq(now),
            room.eq(~rises & ((now == 0) | ((now == 1) & falls))),
        ]
        return m

    def _turns(self, m: Module, nobody: int) -> list[Signal]:
        """Whose turn it is, and whose it will be in 1 … 3 cycles."""
        system, ahead = self._system, 4
        classes, steps = system.graph.distance_classes, system.timers.backoff_steps

        def rung_of(number: int | None) -> int:
            return nobody if number is None else number

        turn = [
            Signal(range(nobody + 1), init=rung_of(stages.turn_of(classes, steps, cycle)), name=f"turn{cycle}")
            for cycle in range(ahead)
        ]
        m.d.sync += [now.eq(then) for now, then in pairwise(turn)]
        # Where each round is.
        odd, rounds = Signal(init=ahead % 2), stages.rounds(classes, steps)
        places = [Signal(range(r), init=ahead // 2 % r, name=f"place{which}") for which, r in enumerate(rounds)]
        m.d.sync += odd.eq(~odd)
        for which, (place, turns) in enumerate(zip(places, rounds, strict=True)):
            with m.If(odd == which):
                m.d.sync += place.eq(Mux(place == turns - 1, 0, place + 1))
                rung_at = Array(rung_of(stages.turn_of(classes, steps, 2 * i + which)) for i in range(turns))
                m.d.sync += turn[-1].eq(rung_at[place])
        return turn
