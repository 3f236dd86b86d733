"""Paths on which nothing comes through any more (cycle contract, section 4.20)."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from lethe.spec.config import System

from .misses import Misses
from .walk import clear_signature

__all__ = ["Paths", "route_signature", "tried_signature"]


def tried_signature(system: System) -> wiring.Signature:
    """Seen from the action: a datagram to ``node`` is repeated whose last Send took ``path``, or (``answer``) an Ack
    that came on it releases one.  Known at ``route`` five cycles later.
    """
    path = system.format.path_bits
    return wiring.Signature({"valid": Out(1), "answer": Out(1), "node": Out(range(system.nodes)), "path": Out(path)})


def route_signature(system: System) -> wiring.Signature:
    """Seen from the transmitter, in *g+2*: the path to ``node`` that is ``taken`` in place of the ``wanted`` one."""
    path = system.format.path_bits
    return wiring.Signature({"node": Out(range(system.nodes)), "wanted": Out(path), "taken": In(path)})


class Paths(wiring.Component):
    """Counts for each path to each node the repeats on it since something came through; leaves out what fails.

    Parameters
    ----------
    system : with ``timers.path_after``

    Members
    -------
    clear : In(`clear_signature`)
        Zero a count.
    tried : In(`tried_signature`)
    route : In(`route_signature`)
    """

    def __init__(self, system: System):
        if not system.timers.path_after:
            raise ValueError("timers.path_after must not be 0")
        self._system = system
        self._places = system.nodes << system.format.path_bits
        super().__init__(
            {
                "clear": In(clear_signature(range(self._places))),
                "tried": In(tried_signature(system)),
                "route": In(route_signature(system)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        system, bits = self._system, self._system.format.path_bits
        m.submodules.counts = counts = Misses(system.timers.path_after, self._places)
        m.d.comb += [
            counts.valid.eq(self.tried.valid),
            counts.answer.eq(self.tried.answer),
            counts.index.eq((self.tried.node << bits) | self.tried.path),
        ]
        wiring.connect(m, wiring.flipped(self.clear), counts.clear)

        out, passed, period = Signal(self._places), Signal(range(max(2, system.timers.path_probe))), Signal()
        m.d.comb += period.eq(passed == system.timers.path_probe - 1)
        m.d.sync += passed.eq(Mux(period, 0, passed + 1))
        with m.If(period):
            m.d.sync += out.eq(0)
        with m.If(counts.told):
            m.d.sync += out.bit_select(counts.told_index, 1).eq(counts.all)

        # The first that is not left out, from the wanted one on.
        route, here = self.route, Signal(self._places)
        m.d.comb += here.eq(out >> (route.node << bits))
        twice = Cat(here[: 1 << bits], here[: 1 << bits]) >> route.wanted
        left_out, further = Signal(1 << bits), Signal(bits)
        m.d.comb += left_out.eq(twice)
        for number in reversed(range(1 << bits)):
            with m.If(~left_out[number]):
                m.d.comb += further.eq(number)
        m.d.comb += route.taken.eq(route.wanted + further)
        return m
