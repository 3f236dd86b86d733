"""The send table: one record per slot, indexed by slot (cycle contract, sections 4.2 to 4.5)."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

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
    ended, and the slot's next one is not known yet.
    """
    return wiring.Signature({"valid": Out(1), "slot": Out(records.slot), "phase": Out(1)})


def end_signature(records: Records) -> wiring.Signature:
    """Seen from the action, in *c*: not live from the next cycle on.

    ``phase`` is that of the row; ``launched`` is too, with the judgements up to *c*.
    """
    return wiring.Signature({"valid": Out(1), "slot": Out(records.slot), "phase": Out(1), "launched": Out(1)})


def look_signature(records: Records) -> wiring.Signature:
    """Seen from the action: the row of a ``slot`` given in *c−4* is here in *c−2*, with all writes up to *c−5*."""
    return wiring.Signature({"slot": Out(records.slot), "row": In(records.looked)})


def peek_signature(records: Records) -> wiring.Signature:
    """Seen from the transmitter: the row of a ``slot`` given in *g* is here in *g+1*."""
    return wiring.Signature({"slot": Out(records.slot), "row": In(records.peeked)})


class SendTable(wiring.Component):
    """What a node knows of its own datagrams.

    Four units write, each its own memories: accept (the record; liveness on), the transmitter (launched), the
    receiver's action (liveness off).  A slot is live while the phase that accept wrote differs from the phase that
    the action wrote; both are cleared, and launched set to "never", by the walk after reset.

    Two units read.  A slot given in *c* shows in *c+1*: at ``look`` the state at the start of *c+1* (writes of *c*
    included), at ``peek`` the state at the start of *c*.

    Members
    -------
    clear : In(`clear_signature`)
    store, begin : In(`store_signature`), In(`begin_signature`)
        From accept.
    launch, peek : In(`launch_signature`), In(`peek_signature`)
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

        def memory(name, shape, writer, value, reader, *, cleared=None, transparent):
            """One memory with its writer and its one reader; returns the read data."""
            m.submodules[name] = memory = Memory(shape=shape, depth=slots, init=[])
            write = memory.write_port()
            read = memory.read_port(transparent_for=(write,) if transparent else ())
            m.d.comb += [
                write.en.eq(writer.valid), write.addr.eq(writer.slot), write.data.eq(value), read.addr.eq(reader.slot)
            ]  # fmt: skip
            if cleared is not None:
                with m.If(self.clear.valid):
                    m.d.comb += [write.en.eq(1), write.addr.eq(self.clear.index), write.data.eq(cleared)]
            return read.data

        def fields(name, layout, reader, transparent):
            value = Signal(layout, name=f"{name}_stored")
            m.d.comb += [value[n].eq(self.store.fields[n]) for n in layout.members]
            return memory(name, layout, self.store, value, reader, transparent=transparent)

        def phases(reader, name, transparent):
            begun, ended = (
                memory(f"{what}_{name}", 1, writer, writer.phase, reader, cleared=0, transparent=transparent)
                for what, writer in (("begun", self.begin), ("ended", self.end))
            )
            return begun, begun ^ ended

        looked = fields("records_looked", records.looked_fields, self.look, True)
        begun, live = phases(self.look, "looked", True)
        deadline = memory("deadlines", records.deadline, self.begin, self.begin.deadline, self.look, transparent=True)
        generation = self.launch.generation
        launched = memory(
            "launched", generation.shape(), self.launch, generation, self.look, cleared=-1, transparent=True
        )
        row = self.look.row
        m.d.comb += [
            *(row[n].eq(looked[n]) for n in records.looked_fields.members),
            row.live.eq(live),
            row.phase.eq(begun),
            row.deadline.eq(deadline),
            row.launched_generation.eq(launched),
        ]

        peeked = fields("records_peeked", records.peeked_fields, self.peek, False)
        _, live = phases(self.peek, "peeked", False)
        row = self.peek.row
        m.d.comb += [*(row[n].eq(peeked[n]) for n in records.peeked_fields.members), row.live.eq(live)]
        return m
