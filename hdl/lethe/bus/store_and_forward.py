"""Store and forward: a datagram is stored whole, and its length is that of its bytes."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from lethe.lib.queue import Queue
from lethe.spec.axi import AxiStream
from lethe.spec.config import System

from .signature import signature_of

__all__ = ["StoreAndForward"]

#: Datagrams that are stored whole, at most, beside the one that leaves.
RECORDS = 4


class StoreAndForward(wiring.Component):
    """Keeps a datagram until its last beat has come, counts its bytes, and shows it with ``length`` in ``tuser``.

    The bytes of a beat are its lowest: all in every beat but the last, and at least one, but in a datagram of 0 bytes,
    which is one beat without bytes.  A datagram that is not so, or longer than the MTU, becomes one beat whose length
    is the MTU + 1: the NI refuses it, and nothing of it is sent.

    It has room for two datagrams of the longest kind: one comes while the other leaves, a beat in each cycle.  A beat
    that comes in one cycle is in memory after the next.  A node reset does not touch it.

    Parameters
    ----------
    system : the configuration
    before, after : the stream that comes, with ``tkeep``, and the one that leaves, with ``length``

    Members
    -------
    i : In(`signature_of` before)
    o : Out(`signature_of` after)
    """

    def __init__(self, system: System, before: AxiStream, after: AxiStream):
        self._system, self._before, self._after = system, before, after
        super().__init__({"i": In(signature_of(before)), "o": Out(signature_of(after))})

    def elaborate(self, platform):
        m = Module()
        i, o, mtu = self.i, self.o, self._system.wire.mtu
        before, after = (data.StructLayout(dict(axis.user)) for axis in (self._before, self._after))
        beat = data.StructLayout({"tdata": self._system.format.flit_bits, "tlast": 1})
        record = data.StructLayout({"tdest": len(i.tdest), "tuser": after})
        depth_bits = ceil_log2(2 * self._system.slot_flits)
        m.submodules.memory = memory = Memory(shape=beat, depth=1 << depth_bits, init=[])
        write, read = memory.write_port(), memory.read_port()
        m.submodules.records = records = Queue(record, RECORDS)

        # A beat is judged alone in the cycle in which it comes, and together with those before it when it is taken, one
        # cycle later or more.  Those before it are full, unless the datagram is wrong already: so their number alone
        # says whether the MTU has room for it.
        step = len(i.tkeep)
        most, rest = divmod(mtu, step)  # full beats in the MTU, and bytes beside them
        judged = data.StructLayout(
            {
                **beat.members, "tdest": len(i.tdest), "tuser": before,
                "bytes": range(step + 1), "empty": 1, "broken": 1, "surplus": 1,
            }
        )  # fmt: skip
        came, held, coming, takes = Signal(), Signal(judged), Signal(judged), Signal()
        hole = Signal()
        m.d.comb += [
            i.tready.eq(~came | takes),
            *(coming[name].eq(getattr(i, name)) for name in ("tdata", "tlast", "tdest", "tuser")),
            hole.eq((i.tkeep & (i.tkeep + 1)[:step]) != 0),
            coming.empty.eq(~i.tkeep.any()),
            coming.broken.eq(hole | (~i.tlast & ~i.tkeep.all())),
            coming.surplus.eq(coming.bytes > rest),
        ]
        # The lowest bytes: as many as there are below the first that is missing.
        for n in range(1, step + 1):
            with m.If(i.tkeep[n - 1]):
                m.d.comb += coming.bytes.eq(n)
        with m.If(i.tready):
            m.d.sync += [came.eq(i.tvalid), held.eq(coming)]

        # Places in memory, with one bit more: the next to leave, the first of what comes, the next to come.
        head, first, tail = (Signal(depth_bits + 1, name=name) for name in ("head", "first", "tail"))
        # Beats so far; something was wrong; what was wrong is being committed.
        count, wrong, refusing = Signal(range(most + 1)), Signal(), Signal()
        begun, total, full, fails = Signal(), Signal(range(mtu + 2)), Signal(), Signal()
        m.d.comb += [
            full.eq(tail == head ^ (1 << depth_bits)),
            takes.eq(came & ~full & records.i.ready & ~refusing),
            total.eq(Cat(held.bytes[:-1], count + held.bytes[-1])),
            fails.eq(wrong | held.broken | (begun & held.empty) | ((count == most) & held.surplus)),
            write.en.eq(takes | refusing),  # what is wrong is written over
            write.addr.eq(tail[:depth_bits]),
            write.data.tdata.eq(held.tdata),
            write.data.tlast.eq(held.tlast | refusing),
        ]

        kept = Signal(record)
        told = [kept.tdest.eq(held.tdest), *(kept.tuser[name].eq(held.tuser[name]) for name in before.members)]
        with m.If(takes):
            m.d.sync += [count.eq(count + 1), begun.eq(~held.tlast), wrong.eq(fails & ~held.tlast)]
            with m.If(held.tlast):
                m.d.sync += count.eq(0)
            with m.If(~begun):
                m.d.sync += told
        # The record is made of the first beat, which for a datagram of one beat is the one that is here now.
        m.d.comb += [
            records.i.valid.eq((takes & held.tlast & ~fails) | refusing),
            records.i.payload.eq(kept),
            records.i.payload.tuser.length.eq(Mux(refusing, mtu + 1, total)),
        ]
        with m.If(~begun & ~refusing):
            m.d.comb += [
                records.i.payload.tdest.eq(held.tdest),
                *(records.i.payload.tuser[name].eq(held.tuser[name]) for name in before.members),
            ]
        after_tail = (tail + 1)[: len(tail)]
        m.d.sync += refusing.eq(takes & held.tlast & fails)
        with m.If(refusing):
            m.d.sync += [tail.eq(after_tail), first.eq(after_tail)]
        with m.Elif(takes):
            m.d.sync += tail.eq(Mux(fails, first, after_tail))
            with m.If(held.tlast & ~fails):
                m.d.sync += first.eq(after_tail)

        shown, refill = Signal(), Signal()
        m.d.comb += [
            o.tvalid.eq(shown & records.o.valid),
            o.tdata.eq(read.data.tdata),
            o.tlast.eq(read.data.tlast),
            o.tdest.eq(records.o.payload.tdest),
            o.tuser.eq(records.o.payload.tuser),
            records.o.ready.eq(o.tvalid & o.tready & o.tlast),
            refill.eq((head != first) & (~shown | (o.tvalid & o.tready))),
            read.en.eq(refill),
            read.addr.eq(head[:depth_bits]),
        ]
        with m.If(refill):
            m.d.sync += [head.eq(head + 1), shown.eq(1)]
        with m.Elif(o.tvalid & o.tready):
            m.d.sync += shown.eq(0)
        return m
