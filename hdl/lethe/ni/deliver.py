"""A deliver FIFO: payloads that become visible only when their message is good (cycle contract, section 4.8)."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from lethe.lib.queue import Queue, step
from lethe.spec.config import System

from .layouts import Records

__all__ = ["DeliverFifo", "fill_signature", "verdict_signature"]


def fill_signature(records: Records) -> wiring.Signature:
    """Seen from the receiver: a payload flit of the message under way.  ``drop``: the message broke off."""
    return wiring.Signature({"valid": Out(1), "beat": Out(records.beat), "drop": Out(1)})


def verdict_signature(system: System) -> wiring.Signature:
    """Seen from the action, when a message acts.

    ``commit``: its flits and its ``record`` become visible; only while ``room`` (all its flits were stored, and there
    is room for its record), never with a flit.  ``reject``: its flits are dropped, one of this cycle too.  No flit
    comes in the cycle after either (a head comes first).  With ``ni.control_classes`` there is ``next_room``: ``room``
    of the next cycle, bit 0 if there is no commit in this one, bit 1 if there is.
    """
    members = {"room": In(1), "commit": Out(1), "reject": Out(1), "record": Out(Records(system).deliver)}
    if system.ni.control_classes:
        members["next_room"] = In(2)
    return wiring.Signature(members)


class DeliverFifo(wiring.Component):
    """A data queue with commit and rollback, and a record queue.

    Parameters
    ----------
    system : the records, and the sizes of the data class's
    flits, records : other sizes

    Members
    -------
    fill : In(`fill_signature`)
    verdict : In(`verdict_signature`)
    deliver, deliver_data : Out(stream)
        To the host.
    waiting : Out
        Committed records not yet taken.
    used : Out
        Flits in memory, committed or not.
    empty : Out(1)
        Nothing committed is left, in memories or output registers.
    """

    def __init__(self, system: System, *, flits: int | None = None, records: int | None = None):
        self._flits = flits or system.deliver_flits
        self._records = records or system.ni.deliver_records
        self._foresees = system.ni.control_classes > 0
        layouts = Records(system)
        super().__init__(
            {
                "fill": In(fill_signature(layouts)),
                "verdict": In(verdict_signature(system)),
                "deliver": Out(stream.Signature(layouts.deliver)),
                "deliver_data": Out(stream.Signature(layouts.beat)),
                "waiting": Out(range(self._records + 2)),
                "used": Out(range(self._flits + 1)),
                "empty": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        depth = self._flits
        fill, verdict = self.fill, self.verdict
        m.submodules.records = records = Queue(verdict.record.shape(), self._records, foresees=self._foresees)
        m.submodules.memory = memory = Memory(shape=fill.beat.shape(), depth=depth, init=[])
        write, read = memory.write_port(), memory.read_port()
        out = self.deliver_data

        # `head`: oldest committed; `tail`: next free; `kept`: next free if the message is dropped.
        head, tail, kept = Signal(range(depth)), Signal(range(depth)), Signal(range(depth))
        # Of the flits in memory: `some` are committed, `loose` are not, there are as many as can be (`brim`).
        some, loose, brim = Signal(), Signal(), Signal()
        overflow = Signal()
        put, refill = Signal(), Signal()
        # A verdict is carried out in the next cycle; a refill already sees it.
        accepted, rejected = Signal(), Signal()
        after_head, after_tail = step(head, depth), step(tail, depth)

        # Equal addresses mean a memory that is full or empty: nothing is written and read at one address.  The write's
        # enable says so for synthesis; with control classes the read's enable does, since a refill is known late.
        writes, reads = put & ~(refill & (head == tail)), refill
        if self._foresees:
            writes, reads = put, refill & ~(put & (head == tail))
        m.d.comb += [
            put.eq(fill.valid & ~overflow & ~brim),
            refill.eq((some | (accepted & loose)) & (~out.valid | out.ready)),
            verdict.room.eq(~overflow & records.i.ready),
            records.i.valid.eq(verdict.commit),
            records.i.payload.eq(verdict.record),
            write.en.eq(writes),
            write.addr.eq(tail),
            write.data.eq(fill.beat),
            read.en.eq(reads),
            read.addr.eq(head),
            out.payload.eq(read.data),
            self.waiting.eq(records.level + records.o.valid),
            self.used.eq(tail - head + Mux(brim | (tail < head), depth, 0)),
            self.empty.eq(records.empty & ~some & ~out.valid),
        ]
        wiring.connect(m, records.o, wiring.flipped(self.deliver))

        with m.If(refill):
            m.d.sync += [head.eq(after_head), out.valid.eq(1)]
        with m.Elif(out.ready):
            m.d.sync += out.valid.eq(0)

        dropped = fill.drop | rejected
        if self._foresees:
            overflows = (overflow | (fill.valid & brim)) & ~accepted & ~dropped
            m.d.comb += verdict.next_room.eq(Mux(overflows, 0, records.next_ready))
        m.d.sync += [accepted.eq(verdict.commit), rejected.eq(verdict.reject)]
        with m.If(accepted):
            m.d.sync += [kept.eq(tail), loose.eq(0), overflow.eq(0)]
        with m.Elif(dropped):
            m.d.sync += [tail.eq(kept), loose.eq(0), overflow.eq(0)]
        with m.Elif(put):
            m.d.sync += [tail.eq(after_tail), loose.eq(1)]
        with m.Elif(fill.valid):
            m.d.sync += overflow.eq(1)

        # After a refill the memory is not full: equal pointers then mean that nothing is between them.
        with m.If(refill):
            m.d.sync += [some.eq(after_head != Mux(accepted, tail, kept)), brim.eq(0)]
        with m.Else():
            m.d.sync += some.eq(some | (accepted & loose))
            with m.If(dropped & loose & ~accepted):
                m.d.sync += brim.eq(0)
            with m.Elif(put & ~dropped):
                m.d.sync += brim.eq(after_tail == head)
        return m
