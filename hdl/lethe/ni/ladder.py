"""A ladder of FIFOs, one for each distance class and doubling: the repeat timers (cycle contract, section 4.6)."""

from itertools import pairwise

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from lethe.spec.config import System

__all__ = ["Ladder", "held_layout", "push_signature"]


def push_signature(system: System, shape) -> wiring.Signature:
    """Seen from who pushes: in this cycle ``token`` joins ``rung``, due at ``eve + 1``.

    The eve is at least the time of this cycle.  Only while ``room`` was 1.
    """
    rung = Out(range(max(2, system.rungs)))
    members = {"room": In(1), "valid": Out(1), "token": Out(shape), "rung": rung, "eve": Out(system.time_bits)}
    return wiring.Signature(members)


def held_layout(system: System, shape) -> data.StructLayout:
    """An expired token, and the rung of its next try."""
    return data.StructLayout({"token": shape, "next_rung": range(max(2, system.rungs))})


class Ladder(wiring.Component):
    """Holds tokens until their time, and shows one expired token at a time.

    Every rung is a FIFO in one block RAM; for its oldest token it keeps the low bits of the eve (due − 1), enough to
    tell when time gets there, and a flag that it did.  So each cycle costs one comparison of a few bits per rung, and
    nothing is scanned.  A token whose turn comes late is found late by a full comparison while it becomes the oldest.

    Every delay is at least 10 cycles, so a token is never due when it is pushed.

    Parameters
    ----------
    system : `rungs`, `longest_delays`, `timer_depth`, `time_bits`
    shape : shape of a token
    spare : places that ``room`` leaves in every rung, for tokens on their way: 2 where a push follows its ``room``
        at once, 3 where expired tokens are pushed again (one may be in hold and one acting)

    Members
    -------
    push : In(`push_signature`)
        ``room``: every rung has level ≤ timer_depth − spare.
    time_base, advance : In
        The time base, and whether it is one more in the next cycle.
    hold : Out(stream of `held_layout`)
        The hold register; taken in *c*, it is empty in *c+1*, and can be full again in *c+2*.
    """

    time_base: Signal
    advance: Signal
    hold: stream.Interface

    def __init__(self, system: System, shape, spare: int = 2):
        if spare not in (2, 3):
            raise ValueError(f"spare must be 2 or 3, not {spare!r}")
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
        system = self._system
        rungs, depth = system.rungs, system.timer_depth
        push, rung, hold = self.push.valid, self.push.rung, self.hold.payload
        pointer_bits = ceil_log2(depth)
        words = rungs << pointer_bits

        # The token and its eve are read in different cycles, so each has its own memory.
        m.submodules.tokens = tokens = Memory(shape=self._shape, depth=words, init=[])
        m.submodules.eves = eves = Memory(shape=system.time_bits, depth=words, init=[])
        token_write, token_read = tokens.write_port(), tokens.read_port()
        eve_write = eves.write_port()
        eve_read = eves.read_port(transparent_for=(eve_write,))

        # Pointers and flags per rung; the level is a difference of pointers, worked out only for the rung that moves.
        heads, tails = (Array(Signal(pointer_bits, name=f"{n}{q}") for q in range(rungs)) for n in ("head", "tail"))
        some, ripe, eligible = (Signal(rungs, name=n) for n in ("some", "ripe", "eligible"))
        # over[i]: the rungs with level ≥ depth − i.  A successor needs two places: a token may be on its way there.
        over = [Signal(rungs, name=f"over{i}") for i in range(self._spare)]

        pop, popped = Signal(), Signal(range(max(2, rungs)))
        for q in range(rungs):
            after = system.rung_after(q)
            m.d.comb += eligible[q].eq(ripe[q] if after == q else ripe[q] & ~over[1][after])
        for q in reversed(range(rungs)):
            with m.If(eligible[q]):
                m.d.comb += popped.eq(q)
        m.d.comb += pop.eq(~self.hold.valid & eligible.any())

        head, after_head, tail, after_tail, level = (
            Signal(pointer_bits, name=n) for n in ("head", "after_head", "tail", "after_tail", "level")
        )
        # A pop takes two cycles: the first chooses and reads, the second moves the head and weighs the next token.
        moving, moved, moved_head = Signal(), Signal(range(max(2, rungs))), Signal(pointer_bits)
        more, next_rung = Signal(), Signal(range(max(2, rungs)))
        m.d.sync += [moving.eq(pop), moved.eq(popped), moved_head.eq(after_head)]
        m.d.comb += [
            head.eq(heads[popped]),
            after_head.eq(head + 1),
            more.eq(moved_head != tails[moved]),
            tail.eq(tails[rung]),
            after_tail.eq(tail + 1),
            level.eq(tail + ~heads[rung] + ~(moving & (moved == rung))),
            token_write.addr.eq(Cat(tail, rung)),
            token_write.data.eq(self.push.token),
            # Equal addresses mean a rung that is full or empty: never both.  Here synthesis sees it.
            token_write.en.eq(push & ~(pop & (token_read.addr == token_write.addr))),
            eve_write.addr.eq(Cat(tail, rung)),
            eve_write.data.eq(self.push.eve),
            eve_write.en.eq(push),
            token_read.addr.eq(Cat(head, popped)),
            token_read.en.eq(pop),
            eve_read.addr.eq(Cat(after_head, popped)),
            hold.token.eq(token_read.data),
            hold.next_rung.eq(next_rung),
            self.push.room.eq(~over[-1].any()),
        ]
        with m.If(pop):
            m.d.sync += [self.hold.valid.eq(1), next_rung.eq(Array(map(system.rung_after, range(rungs)))[popped])]
        with m.Elif(self.hold.ready):
            m.d.sync += self.hold.valid.eq(0)

        # time + advance > eve: then the next token is due when the pop is over.
        late, ahead = Signal(), Signal(system.time_bits)
        m.d.comb += [ahead.eq(self.time_base + ~eve_read.data + self.advance), late.eq(~ahead[-1])]

        for q in range(rungs):
            # As many bits as an eve can be ahead of the time.
            farthest = system.longest_delays[q] + (1 << system.timers.jitter_bits) + 1
            near = Signal(farthest.bit_length(), name=f"near{q}")
            joins, leaves, moves = (Signal(name=f"{n}{q}") for n in ("joins", "leaves", "moves"))
            m.d.comb += [
                joins.eq(push & (rung == q)),
                leaves.eq(pop & (popped == q)),
                moves.eq(moving & (moved == q)),
            ]
            with m.If(some[q] & self.advance & (near == self.time_base[: len(near)])):
                m.d.sync += ripe[q].eq(1)
            with m.If(leaves):
                m.d.sync += ripe[q].eq(0)
            with m.If(moves):
                m.d.sync += [heads[q].eq(moved_head), some[q].eq(more), near.eq(eve_read.data), ripe[q].eq(more & late)]
            with m.If(joins):
                m.d.sync += [tails[q].eq(after_tail), some[q].eq(1)]
                with m.If(Mux(moves, ~more, ~some[q])):
                    m.d.sync += [near.eq(self.push.eve), ripe[q].eq(0)]
            with m.If(joins & ~leaves):
                m.d.sync += [flag[q].eq(level >= depth - 1 - i) for i, flag in enumerate(over)]
            with m.Elif(leaves & ~joins):
                m.d.sync += [over[0][q].eq(0), *(flag[q].eq(below[q]) for below, flag in pairwise(over))]
        return m
