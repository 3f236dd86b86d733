"""The walk after reset that initialises the tables (cycle contract, section 4.1)."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import Out

from lethe.spec.config import System

from .layouts import Records

__all__ = ["Walk", "clear_signature"]


def clear_signature(index) -> wiring.Signature:
    """Seen from the walk: while ``valid`` the table initialises its place ``index``."""
    return wiring.Signature({"valid": Out(1), "index": Out(index)})


class Walk(wiring.Component):
    """Visits every slot and every set once, one of each a cycle, from reset on.

    Members
    -------
    ready : Out(1)
        The walk is over: max(slots, sets) cycles after reset.
    slots, sets : Out(`clear_signature`)
        The slot and the set of this cycle.
    """

    def __init__(self, system: System):
        self._system = system
        records = Records(system)
        super().__init__(
            {
                "ready": Out(1),
                "slots": Out(clear_signature(records.slot)),
                "sets": Out(clear_signature(records.set)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        slots, sets = self._system.ni.slots, self._system.ni.sets
        last = max(slots, sets) - 1
        index = Signal(range(last + 1))
        m.d.sync += index.eq(index + 1)
        with m.If(index == last):
            m.d.sync += self.ready.eq(1)
        for port, places in ((self.slots, slots), (self.sets, sets)):
            m.d.comb += [port.valid.eq(~self.ready & (index < places)), port.index.eq(index)]
        return m
