"""Store and forward: a datagram is stored whole, and its length is that of its bytes."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from lethe.lib.memory import style_of
from lethe.spec.axi import AxiStream
from lethe.spec.config import System
from lethe.spec.services.relay import MODE

from .signature import signature_of

__all__ = ["StoreAndForward"]

#: Datagrams that are stored at most, the one that comes and the one that leaves among them.
RECORDS = 16


class StoreAndForward(wiring.Component):
    """Keeps a datagram until its last beat has come, counts its bytes, and shows it with ``length`` in ``tuser``.

    The bytes of a beat are its lowest: all in every beat but the last, and at least one, but in a datagram of 0 bytes,
    which is one beat without bytes.  A datagram that is not so, or longer than the MTU, becomes one beat whose length
    is the MTU + 1: the NI refuses it, and nothing of it is sent.  The MTU is that of what takes the datagram: of flow,
    of relay for its messages, else of the NI.

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
    malformed : Out(1)
        A datagram was not as it must be, or longer than the MTU; one cycle, when it has come whole.
    """

    def __init__(self, system: System, before: AxiStream, after: AxiStream):
        self._system, self._before, self._after = system, before, after
        super().__init__({"i": In(signature_of(before)), "o": Out(signature_of(after)), "malformed": Out(1)})

    def elaborate(self, platform):
        m = Module()
        i, o, system = self.i, self.o, self._system
        mtu = system.flow_mtu if system.flow.ports else system.wire.mtu
        before, after = (data.StructLayout(dict(axis.user)) for axis in (self._before, self._after))
        beat = data.StructLayout({"tdata": system.format.flit_bits, "tlast": 1})
        record = data.StructLayout({"tdest": len(i.tdest), "tuser": before})
        depth_bits = ceil_log2(2 * system.format.payload_flits(mtu))
        m.submodules.memory = memory = Memory(shape=beat, depth=1 << depth_bits, init=[])
        write, read = memory.write_port(), memory.read_port()
        # What is beside a datagram's beats, and its length, at the datagram's place: one is written with the first
        # beat, the other with each, so that of the last one stays.
        most_records = min(RECORDS, 2 << depth_bits)
        style = style_of(platform, most_records, 0)
        m.submodules.records = records = Memory(shape=record, depth=most_records, init=[], attrs=style)
        m.submodules.lengths = lengths = Memory(shape=range(mtu + 2), depth=most_records, init=[], attrs=style)
        write_record, write_length = records.write_port(), lengths.write_port()
        own_record, own_length = (part.read_port(domain="comb") for part in (records, lengths))

        # A beat is judged alone in the cycle in which it comes, and together with those before it when it is taken, one
        # cycle later or more.  Those before it are full, unless the datagram is wrong already: so their number alone
        # says whether the MTU has room for it.
        step = len(i.tkeep)
        most, rest = divmod(mtu, step)  # full beats in the MTU, and bytes beside them
        relays = system.top_port.tree
        judged = data.StructLayout(
            {
                **beat.members, "tdest": len(i.tdest), "tuser": before,
                "bytes": range(step + 1), "empty": 1, "broken": 1, "surplus": 1, "relayed": int(relays),
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
        if relays:
            m.d.comb += coming.relayed.eq(coming.tuser.mode == MODE)
        # The lowest bytes: as many as there are below the first that is missing.
        for n in range(1, step + 1):
            with m.If(i.tkeep[n - 1]):
                m.d.comb += coming.bytes.eq(n)
        with m.If(i.tready):
            m.d.sync += [came.eq(i.tvalid), held.eq(coming)]

        # Places in memory, with one bit more: the next to leave, the first of what comes, the next to come.
        head, first, tail = (Signal(depth_bits + 1, name=name) for name in ("head", "first", "tail"))
        # Places of records, likewise: of the datagram that leaves, and of the one that comes.
        oldest, newest = (Signal(ceil_log2(most_records) + 1, name=name) for name in ("oldest", "newest"))
        # Beats so far; something was wrong; what was wrong is being committed.
        count, wrong, refusing = Signal(range(most + 1)), Signal(), Signal()
        begun, total, full, fails = Signal(), Signal(range(mtu + 2)), Signal(), Signal()
        limit = most
        if relays:
            # Relay's MTU is some whole beats less, and the first beat says whose the datagram is.
            relayed, was_relayed = Signal(), Signal()
            m.d.comb += relayed.eq(Mux(begun, was_relayed, held.relayed))
            m.d.sync += was_relayed.eq(relayed)
            limit = Mux(relayed, most - (mtu - system.relay_mtu) // step, most)
        m.d.comb += [
            takes.eq(came & ~full & ~refusing),
            self.malformed.eq(refusing),
            total.eq(Cat(held.bytes[:-1], count + held.bytes[-1])),
            fails.eq(wrong | held.broken | (begun & held.empty) | ((count == limit) & held.surplus)),
            write.en.eq(takes | refusing),  # what is wrong is written over
            write.addr.eq(tail[:depth_bits]),
            write.data.tdata.eq(held.tdata),
            write.data.tlast.eq(held.tlast | refusing),
            write_length.en.eq(takes | refusing),
            write_length.addr.eq(newest[:-1]),
            write_length.data.eq(Mux(refusing, mtu + 1, total)),
            write_record.en.eq(takes & ~begun),
            write_record.addr.eq(newest[:-1]),
            write_record.data.tdest.eq(held.tdest),
            write_record.data.tuser.eq(held.tuser),
        ]
        # Known from a register: what leaves in this cycle leaves room in the next but one.
        after_tail = (tail + 1)[: len(tail)]
        m.d.sync += full.eq(Mux(takes | refusing, after_tail, tail) == head ^ (1 << depth_bits))
        if most_records <= 1 << depth_bits:
            # Each has a beat in memory at least, but for the one that is shown; else there is always a place.
            with m.If(Mux(takes | refusing, newest + 1, newest)[: len(newest)] == oldest ^ most_records):
                m.d.sync += full.eq(1)
        with m.If(takes):
            m.d.sync += [count.eq(count + 1), begun.eq(~held.tlast), wrong.eq(fails & ~held.tlast)]
            with m.If(held.tlast):
                m.d.sync += count.eq(0)
        m.d.sync += refusing.eq(takes & held.tlast & fails)
        with m.If(refusing):
            m.d.sync += [tail.eq(after_tail), first.eq(after_tail), newest.eq(newest + 1)]
        with m.Elif(takes):
            m.d.sync += tail.eq(Mux(fails, first, after_tail))
            with m.If(held.tlast & ~fails):
                m.d.sync += [first.eq(after_tail), newest.eq(newest + 1)]

        # Where a beat is shown its datagram is whole, and so is the oldest record.
        shown, refill = Signal(), Signal()
        told = data.View(after, o.tuser)
        m.d.comb += [
            o.tvalid.eq(shown),
            o.tdata.eq(read.data.tdata),
            o.tlast.eq(read.data.tlast),
            own_record.addr.eq(oldest[:-1]),
            own_length.addr.eq(oldest[:-1]),
            o.tdest.eq(own_record.data.tdest),
            *(told[name].eq(own_record.data.tuser[name]) for name in before.members),
            told.length.eq(own_length.data),
            refill.eq((head != first) & (~shown | o.tready)),
            read.en.eq(refill),
            read.addr.eq(head[:depth_bits]),
        ]
        m.d.sync += shown.eq((head != first) | (shown & ~o.tready))
        with m.If(refill):
            m.d.sync += head.eq(head + 1)
        with m.If(shown & o.tready & o.tlast):
            m.d.sync += oldest.eq(oldest + 1)
        return m
