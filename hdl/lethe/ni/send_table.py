"""The send table: one record per slot, indexed by slot (cycle contract, sections 4.2 to 4.5)."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from lethe.spec.config import System

from .layouts import Records

__all__ = ["SendTable"]


class SendTable(wiring.Component):
    """What a node knows of its own datagrams.

    Four units write, each its own memories: accept (the record; liveness on), the transmitter (launched), the
    receiver's action (liveness off).  A slot is live while the phase that accept wrote differs from the phase that
    the action wrote; both are cleared, and launched set to "never", by the walk after reset.

    Two units read.  An address given in *c* shows in *c+1*: at ``looked`` the state at the start of *c+1* (writes of
    *c* included), at ``peeked`` the state at the start of *c*.

    Members
    -------
    clear, index : In
        Initialise slot ``index``.
    store, slot, fields : In
        Handshake: ``fields`` become those of ``slot``.
    accept, accepted_slot, phase, deadline : In
        The datagram is fully stored: live from the next cycle on.  ``phase`` alternates from life to life.
    launch, launched_slot, launched_generation : In
        A grant of this life's first Send.
    end, ended_slot, end_phase : In
        Not live from the next cycle on.  ``end_phase`` is the slot's ``phase``.
    look : In, looked : Out
        The action's copy.
    peek : In, peeked : Out
        The transmitter's copy.
    """

    def __init__(self, system: System):
        self._system = system
        records = self._records = Records(system)
        slot, generation = records.slot, system.format.generation_bits
        super().__init__(
            {
                "clear": In(1),
                "index": In(slot),
                "store": In(1),
                "slot": In(slot),
                "fields": In(records.fields),
                "accept": In(1),
                "accepted_slot": In(slot),
                "phase": In(1),
                "deadline": In(records.deadline),
                "launch": In(1),
                "launched_slot": In(slot),
                "launched_generation": In(generation),
                "end": In(1),
                "ended_slot": In(slot),
                "end_phase": In(1),
                "look": In(slot),
                "looked": Out(records.looked),
                "peek": In(slot),
                "peeked": Out(records.peeked),
            }
        )

    def elaborate(self, platform):
        m = Module()
        slots, records = self._system.ni.slots, self._records

        def memory(name, shape, enable, address, value, reader, *, cleared=None, transparent):
            """One memory with its writer and its one reader; returns the read data."""
            m.submodules[name] = memory = Memory(shape=shape, depth=slots, init=[])
            write = memory.write_port()
            read = memory.read_port(transparent_for=(write,) if transparent else ())
            m.d.comb += [write.en.eq(enable), write.addr.eq(address), write.data.eq(value), read.addr.eq(reader)]
            if cleared is not None:
                with m.If(self.clear):
                    m.d.comb += [write.en.eq(1), write.addr.eq(self.index), write.data.eq(cleared)]
            return read.data

        def fields(name, layout, reader, transparent):
            value = Signal(layout, name=f"{name}_stored")
            m.d.comb += [value[n].eq(self.fields[n]) for n in layout.members]
            return memory(name, layout, self.store, self.slot, value, reader, transparent=transparent)

        def phases(reader, name, transparent):
            begun = memory(
                f"begun_{name}", 1, self.accept, self.accepted_slot, self.phase, reader, cleared=0,
                transparent=transparent,
            )  # fmt: skip
            ended = memory(
                f"ended_{name}", 1, self.end, self.ended_slot, self.end_phase, reader, cleared=0,
                transparent=transparent,
            )  # fmt: skip
            return begun, begun ^ ended

        looked = fields("records_looked", records.looked_fields, self.look, True)
        begun, live = phases(self.look, "looked", True)
        deadline = memory(
            "deadlines", records.deadline, self.accept, self.accepted_slot, self.deadline, self.look, transparent=True
        )
        launched = memory(
            "launched", self._system.format.generation_bits, self.launch, self.launched_slot,
            self.launched_generation, self.look, cleared=-1, transparent=True,
        )  # fmt: skip
        m.d.comb += [
            *(self.looked[n].eq(looked[n]) for n in records.looked_fields.members),
            self.looked.live.eq(live),
            self.looked.phase.eq(begun),
            self.looked.deadline.eq(deadline),
            self.looked.launched_generation.eq(launched),
        ]

        peeked = fields("records_peeked", records.peeked_fields, self.peek, False)
        _, live = phases(self.peek, "peeked", False)
        m.d.comb += [*(self.peeked[n].eq(peeked[n]) for n in records.peeked_fields.members), self.peeked.live.eq(live)]
        return m
