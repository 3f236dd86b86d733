"""Slots that outlive datagrams of which something may still be under way (cycle contract, section 4.19)."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from lethe.spec.config import System

from .choose import act_layout
from .layouts import Records

__all__ = ["Linger", "rested_signature"]


def rested_signature(records: Records) -> wiring.Signature:
    """Seen from the quarantine: a slot returns to the free queue."""
    return wiring.Signature({"valid": Out(1), "slot": Out(records.slot)})


class Linger(wiring.Component):
    """Two bits for each slot: its datagram was repeated; it lingers.

    Members
    -------
    next_slot, follows, names : In
        In *c−1*: the slot of what acts in *c*; it is that of what acts now; slot, generation and incarnation are those
        of the slot's datagram.
    slot, repeats, ends, releases, unknown : In
        In *c*: the slot of what acts; its datagram is repeated, ends, is released, ends UNKNOWN with another cause than
        BEST_EFFORT, if it ends.
    rested : In(`rested_signature`)
    doubted : Out(1)
        In *c*: if it is an Ack, it is not answered.
    lingers : Out(slots)
    """

    def __init__(self, system: System):
        self._slots = system.ni.slots
        act = act_layout(system)
        super().__init__(
            {
                "next_slot": In(act["slot"].shape),
                "follows": In(1),
                "names": In(1),
                "slot": In(act["slot"].shape),
                **dict.fromkeys(("repeats", "ends", "releases", "unknown"), In(1)),
                "rested": In(rested_signature(Records(system))),
                "doubted": Out(1),
                "lingers": Out(self._slots),
            }
        )

    def elaborate(self, platform):
        m = Module()
        again, doubts = Signal(self._slots), Signal()
        was_again, held = Signal(), Signal()
        rests = self.rested.valid & (self.rested.slot == self.next_slot)
        lingered = self.lingers.bit_select(self.next_slot, 1) & ~rests
        m.d.comb += [
            doubts.eq(self.ends & Mux(self.releases, was_again, self.unknown)),
            self.doubted.eq((self.releases & was_again) | held),
        ]
        # What this cycle changes of the same slot is not in the bits yet.
        m.d.sync += [
            was_again.eq(again.bit_select(self.next_slot, 1) | (self.follows & self.repeats)),
            held.eq(self.names & (lingered | (self.follows & doubts))),
        ]
        for number in range(self._slots):
            acts, rested = self.slot == number, self.rested.valid & (self.rested.slot == number)
            with m.If(acts & (self.repeats | self.ends)):
                m.d.sync += again[number].eq(self.repeats)
            with m.If(acts & doubts):
                m.d.sync += self.lingers[number].eq(1)
            with m.Elif(rested):
                m.d.sync += self.lingers[number].eq(0)
        return m
