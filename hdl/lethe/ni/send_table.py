"""The send table: one record per slot, indexed by slot (cycle contract, sections 4.2 to 4.5)."""

from amaranth.hdl import Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from lethe.lib.memory import Ram
from lethe.spec.config import System

from .layouts import Records
from .walk import clear_signature

__all__ = [
    "SendTable", "begin_signature", "end_signature", "judged_signature", "look_signature", "peek_signature",
    "store_signature",
]  # fmt: skip


def store_signature(records: Records) -> wiring.Signature:
    """Seen from accept, at the handshake: ``fields`` become those of ``slot``."""
    return wiring.Signature({"valid": Out(1), "slot": Out(records.slot), "fields": Out(records.fields)})


def begin_signature(records: Records) -> wiring.Signature:
    """Seen from accept: the datagram is fully stored, and live from the next cycle on.

    ``phase`` alternates from life to life.
    """
    members = {"valid": Out(1), "slot": Out(records.slot), "phase": Out(1), "deadline": Out(records.deadline)}
    return wiring.Signature(members)


def judged_signature(records: Records) -> wiring.Signature:
    """Seen from the transmitter, in *j*: an entry of the new or the control queue was judged, and its ``slot`` is live.

    ``phase`` is that of the row.  An entry of a slot that is not live launches nothing: it belongs to a datagram that
    ended, and the slot's next one is not known yet.  ``any``: one was judged, whether or not its slot is live, which
    comes late in the cycle.  ``ahead``, in *j−1*: ``slot`` in *j*.
    """
    members = {"valid": Out(1), "any": Out(1), "slot": Out(records.slot), "phase": Out(1), "ahead": Out(records.slot)}
    return wiring.Signature(members)


def end_signature(records: Records) -> wiring.Signature:
    """Seen from the action, in *c*: not live from the next cycle on.

    ``phase`` is that of the row; ``launched`` is too, with the judgements up to *c*.
    """
    return wiring.Signature({"valid": Out(1), "slot": Out(records.slot), "phase": Out(1), "launched": Out(1)})


def look_signature(records: Records) -> wiring.Signature:
    """Seen from the action: the row of a ``slot`` given in *c−4* is here in *c−2*."""
    return wiring.Signature({"slot": Out(records.slot), "row": In(records.looked)})


def peek_signature(records: Records) -> wiring.Signature:
    """Seen from the transmitter: the row of a ``slot`` given in *g* is here in *g+2*."""
    return wiring.Signature({"slot": Out(records.slot), "row": In(records.peeked)})


class SendTable(wiring.Component):
    """What a node knows of its own datagrams.

    Three units write, each its own memories: accept (the record; ``begun``), the action (``ended``), the transmitter
    (``judged``).  Accept's phases alternate from life to life; a slot is live while the phase that accept wrote differs
    from the one that the action wrote.  The bit that the transmitter writes differs from ``base`` while the datagram is
    launched; when it ends, ``base`` becomes that bit.  All four are cleared by the walk after reset.

    Two units read, each its own copies, both two cycles late.  At ``look`` the row is as of the cycle in which its slot
    was given.  So it is at ``peek``, but what ended in this cycle or the next is not live.

    Members
    -------
    clear : In(`clear_signature`)
    store, begin : In(`store_signature`), In(`begin_signature`)
        From accept.
    judged, peek : In(`judged_signature`), In(`peek_signature`)
        From the transmitter; its copy.
    end, look : In(`end_signature`), In(`look_signature`)
        From the action; its copy.
    """

    def __init__(self, system: System):
        self._system = system
        records = self._records = Records(system)
        super().__init__(
            {
                "clear": In(clear_signature(records.slot)),
                "store": In(store_signature(records)),
                "begin": In(begin_signature(records)),
                "judged": In(judged_signature(records)),
                "end": In(end_signature(records)),
                "look": In(look_signature(records)),
                "peek": In(peek_signature(records)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        slots, records = self._system.ni.slots, self._records

        def memory(name, layout, writer, values, reader, *, cleared=()):
            """One memory with its writer and its one reader; returns the read data.  The walk clears some parts."""
            m.submodules[name] = ram = Ram(layout, slots)
            m.d.comb += [
                ram.write_en.eq(writer.valid),
                ram.write_addr.eq(writer.slot),
                *(ram.write_data[part].eq(values[part]) for part in layout.members),
                ram.read_addr.eq(reader.slot),
            ]
            if cleared:
                with m.If(self.clear.valid):
                    m.d.comb += [
                        ram.write_en.eq(1),
                        ram.write_addr.eq(self.clear.index),
                        *(ram.write_data[part].eq(0) for part in cleared),
                    ]
            return ram.read_data

        def names(writer, slot):
            return writer.valid & (writer.slot == slot)

        def late(writer):
            """What ``writer`` wrote in the cycle before."""
            before = Signal(data.StructLayout({"valid": 1, "slot": records.slot}))
            m.d.sync += [before.valid.eq(writer.valid), before.slot.eq(writer.slot)]
            return before

        phase, ending = data.StructLayout({"phase": 1}), data.StructLayout({"phase": 1, "base": 1})
        begin, end = self.begin, self.end
        base, own_base = Signal(), Signal()
        ended = {"phase": end.phase, "base": own_base ^ end.launched}

        fields = memory("fields_looked", records.looked_fields, self.store, self.store.fields, self.look)
        layout = data.StructLayout({**phase.members, "deadline": records.deadline})
        values = {"phase": begin.phase, "deadline": begin.deadline}
        begun = memory("begun_looked", layout, begin, values, self.look, cleared=phase.members)
        over = memory("ended_looked", ending, end, ended, self.look, cleared=ending.members)
        bit = data.StructLayout({"bit": 1})
        judged = memory("judged", bit, self.judged, {"bit": ~base}, self.look, cleared=bit.members)
        # Block RAM does not say what is read of a datagram that is accepted in the same cycle: nothing is known of it.
        # It is compared a cycle late: both come late in theirs.
        slot, unknown, row = Signal(records.slot), Signal(), self.look.row
        accepted, ended_before = late(begin), late(end)
        m.d.sync += [slot.eq(self.look.slot), unknown.eq(names(accepted, slot))]
        m.d.comb += [
            *(row[n].eq(fields[n]) for n in records.looked_fields.members),
            row.live.eq((begun.phase ^ over.phase) & ~unknown),
            row.phase.eq(begun.phase),
            row.deadline.eq(begun.deadline),
            row.launched.eq(judged.bit ^ over.base),
        ]
        # The action ends in c what it looked at in c−2.
        looked_base = Signal()
        m.d.sync += [looked_base.eq(over.base), own_base.eq(looked_base)]

        fields = memory("fields_peeked", records.peeked_fields, self.store, self.store.fields, self.peek)
        begun = memory("begun_peeked", phase, begin, {"phase": begin.phase}, self.peek, cleared=phase.members)
        over = memory("ended_peeked", ending, end, ended, self.peek, cleared=ending.members)
        slot, gone, row = Signal(records.slot), Signal(), self.peek.row
        m.d.sync += [
            slot.eq(self.peek.slot),
            gone.eq(names(accepted, slot) | names(ended_before, slot) | names(end, slot)),
        ]
        m.d.comb += [
            *(row[n].eq(fields[n]) for n in records.peeked_fields.members),
            row.live.eq((begun.phase ^ over.phase) & ~gone),
            row.phase.eq(begun.phase),
            base.eq(over.base),
        ]
        return m
