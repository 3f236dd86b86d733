"""A deliver FIFO: payloads that become visible only when their message is good (cycle contract, section 4.8)."""

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from lethe.lib.queue import Queue, step
from lethe.spec.config import System

from .layouts import Records

__all__ = ["DeliverFifo"]


class DeliverFifo(wiring.Component):
    """A data queue with commit and rollback, and a record queue.

    Members
    -------
    push, beat : In
        Offer a payload flit of the message under way.
    commit, record : In
        The message acted: its flits and its record become visible.  Only while `room`, never with `push`.
    reject : In(1)
        The message acted without a commit: its flits are forgotten, one pushed in this cycle too.  No flit is pushed in
        the cycle after `commit` or `reject` (a head comes first).
    forget : In(1)
        The message broke off: likewise.
    room : Out(1)
        All flits of the message were stored, and there is room for its record.
    deliver, deliver_data : Out(stream)
        To the host.
    waiting : Out
        Committed records not yet taken.
    empty : Out(1)
        Nothing committed is left, in memories or output registers.
    """

    def __init__(self, system: System):
        self._system = system
        records = Records(system)
        super().__init__(
            {
                "push": In(1),
                "beat": In(records.beat),
                "commit": In(1),
                "record": In(records.deliver),
                "reject": In(1),
                "forget": In(1),
                "room": Out(1),
                "deliver": Out(stream.Signature(records.deliver)),
                "deliver_data": Out(stream.Signature(records.beat)),
                "waiting": Out(range(system.ni.deliver_records + 2)),
                "empty": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        depth = self._system.deliver_flits
        m.submodules.records = records = Queue(self.record.shape(), self._system.ni.deliver_records)
        m.submodules.memory = memory = Memory(shape=self.beat.shape(), depth=depth, init=[])
        write, read = memory.write_port(), memory.read_port()
        out = self.deliver_data

        # `head`: oldest committed; `tail`: next free; `kept`: next free if the message is forgotten.
        head, tail, kept = Signal(range(depth)), Signal(range(depth)), Signal(range(depth))
        committed, stored = Signal(range(depth + 1)), Signal(range(depth + 1))
        used = Signal(range(depth + 1))
        overflow = Signal()
        put, refill = Signal(), Signal()
        # The verdict comes late in its cycle, so it is carried out in the next one; a refill already sees it.
        accepted, rejected = Signal(), Signal()

        m.d.comb += [
            put.eq(self.push & ~overflow & (used != depth)),
            refill.eq(((committed != 0) | (accepted & (stored != 0))) & (~out.valid | out.ready)),
            self.room.eq(~overflow & records.i.ready),
            records.i.valid.eq(self.commit),
            records.i.payload.eq(self.record),
            # Equal addresses mean a memory that is full or empty: never both.  Here synthesis sees it.
            write.en.eq(put & ~(refill & (head == tail))),
            write.addr.eq(tail),
            write.data.eq(self.beat),
            read.en.eq(refill),
            read.addr.eq(head),
            out.payload.eq(read.data),
            self.waiting.eq(records.level + records.o.valid),
            self.empty.eq(records.empty & (committed == 0) & ~out.valid),
        ]
        wiring.connect(m, records.o, wiring.flipped(self.deliver))

        with m.If(refill):
            m.d.sync += [head.eq(step(head, depth)), out.valid.eq(1)]
        with m.Elif(out.ready):
            m.d.sync += out.valid.eq(0)

        with m.If(self.push & ~put):
            m.d.sync += overflow.eq(1)
        with m.If(put):
            m.d.sync += [tail.eq(step(tail, depth)), stored.eq(stored + 1)]
        m.d.sync += [accepted.eq(self.commit), rejected.eq(self.reject)]
        dropped = self.forget | rejected
        with m.If(accepted):
            m.d.sync += [kept.eq(tail), stored.eq(0), overflow.eq(0)]
        with m.Elif(dropped):
            m.d.sync += [tail.eq(kept), stored.eq(0), overflow.eq(0)]

        with m.If(accepted):
            m.d.sync += committed.eq((committed + stored) - refill)
        with m.Else():
            m.d.sync += committed.eq(committed - refill)
        with m.If(dropped & ~accepted):
            m.d.sync += used.eq(used - (stored + refill))
        with m.Else():
            m.d.sync += used.eq((used + put) - refill)
        return m
