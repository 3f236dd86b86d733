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

    With ``timers.silent_after`` it visits nodes, too, with ``timers.path_after`` paths to nodes.

    Members
    -------
    ready : Out(1)
        The walk is over: as many cycles after reset as there are of what there is most of, and as slots linger.
    nearly : Out(1)
        ``ready`` is 1 in the next cycle.
    slots, sets, nodes, paths : Out(`clear_signature`)
        The slot, the set, the node and the path of this cycle.
    """

    def __init__(self, system: System):
        records = Records(system)
        places = {"slots": (system.ni.slots, records.slot), "sets": (system.ni.sets, records.set)}
        if system.timers.silent_after:
            places["nodes"] = (system.nodes, range(system.nodes))
        if system.timers.path_after:
            paths = system.nodes << system.format.path_bits
            places["paths"] = (paths, range(paths))
        self._cycles = system.initial
        self._counts = {name: count for name, (count, _) in places.items()}
        super().__init__(
            {
                "ready": Out(1),
                "nearly": Out(1),
                **{name: Out(clear_signature(index)) for name, (_, index) in places.items()},
            }
        )

    def elaborate(self, platform):
        m = Module()
        last = self._cycles - 1
        index, ends = Signal(range(last + 1)), Signal()
        m.d.comb += self.nearly.eq(self.ready | ends)
        m.d.sync += [index.eq(index + 1), ends.eq(index == last - 1), self.ready.eq(self.nearly)]
        for name, places in self._counts.items():
            port = getattr(self, name)
            m.d.comb += [port.valid.eq(~self.ready & (index < places)), port.index.eq(index)]
        return m
