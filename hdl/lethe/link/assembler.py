"""Worms out of flits: where a message begins, ends, or breaks off (cycle contract, section 4.4)."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from lethe.layouts import flit_layout
from lethe.spec.wire import Wire

__all__ = ["Assembler"]


class Assembler(wiring.Component):
    """Follows the flits of a link, one cycle after it.

    What it says in a cycle is about ``flit``, the link's flit of the previous cycle.

    Parameters
    ----------
    form : the wire format

    Members
    -------
    link_i : In(flit)
    flit : Out(flit)
        ``link_i``, one cycle later.
    index : Out
        Place of ``flit`` in its message if it `belongs`.
    belongs : Out(1)
        ``flit`` is part of a message.
    complete : Out(1)
        ``flit`` ends a complete message.
    fragment : Out(1)
        A message broke off: by a gap, by the head of the next, or by being too long.
    busy : Out(1)
        After ``flit`` a message is under way.
    """

    def __init__(self, form: Wire):
        self._form = form
        super().__init__(
            {
                "link_i": In(flit_layout(form)),
                "flit": Out(flit_layout(form)),
                "index": Out(range(form.max_flits + 1)),
                "belongs": Out(1),
                "complete": Out(1),
                "fragment": Out(1),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        flit = self.flit
        under_way, brim = Signal(), Signal()
        count = Signal(range(self._form.max_flits + 1))
        m.d.sync += [flit.eq(self.link_i), under_way.eq(self.busy)]
        m.d.comb += [
            self.belongs.eq(flit.valid & (flit.first | (under_way & ~brim))),
            self.complete.eq(self.belongs & flit.last),
            self.busy.eq(self.belongs & ~flit.last),
            self.fragment.eq(under_way & (~flit.valid | flit.first | brim)),
            self.index.eq(Mux(flit.first, 0, count)),
        ]
        # `brim`: the message has all the flits it may have.
        m.d.sync += [count.eq(self.index + 1), brim.eq(self.index == self._form.max_flits - 1)]
        return m
