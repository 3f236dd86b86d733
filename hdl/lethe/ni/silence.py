"""Nodes that answer nothing any more (cycle contract, section 4.14)."""

from itertools import pairwise

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from lethe.lib.memory import Ram
from lethe.spec.config import System

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

    A node is silent while its count is ``timers.silent_after``.  The counts are in a memory, read and written one
    event a cycle; two counts are on their way there.  What the transmitter needs at once is in flip-flops, one bit per
    node that is silent and one per node that was probed.

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
        m.submodules.counts = counts = Ram(range(most + 1), nodes)
        silent, probed = Signal(nodes), Signal(nodes)

        # c+1: the count is read; c+3: it is shown, and written; c+4: whether its node is silent.  What the two events
        # before have written then was not there when the count was read.
        event = data.StructLayout({"valid": 1, "answer": 1, "node": range(nodes)})
        heard = [Signal(event, name=f"heard{cycles}") for cycles in range(1, 5)]
        first, second, third, last = heard
        m.d.sync += [
            *(first[name].eq(getattr(self.hear, name)) for name in event.members),
            *(after.eq(earlier) for earlier, after in pairwise(heard)),
        ]
        old, count, last_count, count_before = (
            Signal(range(most + 1), name=n) for n in ("old", "count", "last_count", "count_before")
        )
        from_last, from_before = Signal(), Signal()
        m.d.sync += [
            from_last.eq(third.valid & (third.node == second.node)),
            from_before.eq(last.valid & (last.node == second.node)),
            last_count.eq(count),
            count_before.eq(last_count),
        ]
        m.d.comb += [
            counts.read_addr.eq(first.node),
            old.eq(Mux(from_last, last_count, Mux(from_before, count_before, counts.read_data))),
            count.eq(Mux(third.answer, 0, Mux(old == most, most, old + 1))),
            counts.write_addr.eq(Mux(self.clear.valid, self.clear.index, third.node)),
            counts.write_data.eq(Mux(self.clear.valid, 0, count)),
            counts.write_en.eq(self.clear.valid | third.valid),
        ]
        with m.If(last.valid):
            m.d.sync += silent.bit_select(last.node, 1).eq(last_count == most)

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
