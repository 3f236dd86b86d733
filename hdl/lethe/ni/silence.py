"""Nodes that answer nothing any more (cycle contract, section 4.14)."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from lethe.spec.config import System

from .misses import Misses
from .walk import clear_signature

__all__ = ["Silence", "hear_signature", "judge_signature"]


def hear_signature(system: System) -> wiring.Signature:
    """Seen from the action: a repeat to ``node`` was asked for, or (``answer``) a message of ``node`` says it is there.

    Known at ``judge`` five cycles later.
    """
    return wiring.Signature({"valid": Out(1), "answer": Out(1), "node": Out(range(system.nodes))})


def judge_signature(system: System) -> wiring.Signature:
    """Seen from the transmitter, in *g+2*: whether ``node`` is ``silent``, and has been ``probed`` in this period.

    ``probe``: it is probed from the next cycle on.
    """
    members = {"node": Out(range(system.nodes)), "probe": Out(1), "silent": In(1), "probed": In(1)}
    return wiring.Signature(members)


class Silence(wiring.Component):
    """Counts for each node the repeats to it since it last answered.

    A node is silent while its count is ``timers.silent_after``.  What the transmitter needs at once is in flip-flops,
    one bit per node that is silent and one per node that was probed.

    Parameters
    ----------
    system : with ``timers.silent_after``

    Members
    -------
    link_enable : In(1)
        Time goes on.
    clear : In(`clear_signature`)
        Zero the count of a node.
    hear : In(`hear_signature`)
    judge : In(`judge_signature`)
    """

    def __init__(self, system: System):
        if not system.timers.silent_after:
            raise ValueError("timers.silent_after must not be 0")
        self._system = system
        super().__init__(
            {
                "link_enable": In(1),
                "clear": In(clear_signature(range(system.nodes))),
                "hear": In(hear_signature(system)),
                "judge": In(judge_signature(system)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        nodes, most, period = self._system.nodes, self._system.timers.silent_after, self._system.timers.silent_probe
        m.submodules.counts = counts = Misses(most, nodes)
        silent, probed = Signal(nodes), Signal(nodes)
        m.d.comb += [
            counts.valid.eq(self.hear.valid),
            counts.answer.eq(self.hear.answer),
            counts.index.eq(self.hear.node),
        ]
        wiring.connect(m, wiring.flipped(self.clear), counts.clear)
        with m.If(counts.told):
            m.d.sync += silent.bit_select(counts.told_index, 1).eq(counts.all)

        passed = Signal(range(max(2, period)))
        with m.If(self.link_enable):
            m.d.sync += passed.eq(Mux(passed == period - 1, 0, passed + 1))
            with m.If(passed == period - 1):
                m.d.sync += probed.eq(0)
        with m.If(self.judge.probe):
            m.d.sync += probed.bit_select(self.judge.node, 1).eq(1)
        # Shifted in all their width, as linters want it.
        for bits, shown in ((silent, self.judge.silent), (probed, self.judge.probed)):
            shifted = Signal(nodes)
            m.d.comb += [shifted.eq(bits >> self.judge.node), shown.eq(shifted[0])]
        return m
