"""Tree player: it tells a node's relay of routes and deaths, word by word (`System.relay_words`)."""

from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from lethe.host import host_signature
from lethe.ports import passed
from lethe.spec.config import System

__all__ = ["CYCLE_BITS", "TreePlayer"]

#: Bits of the cycle from which a word is offered.
CYCLE_BITS = 41


class TreePlayer(wiring.Component):
    """Stands between a node and its host; what the host offers on `tree` counts while the player offers nothing.

    Parameters
    ----------
    system, node : the configuration, and whose words

    Members
    -------
    cycle : In(41)
        The cycle; its last number stays.
    node_reset : In(1)
        Nothing is offered; from the next cycle on again from the first word.
    below : In(`host_signature`)
    above : Out(`host_signature`)
    """

    def __init__(self, system: System, node: int):
        self._words = system.relay_words(node)
        port = host_signature(system, system.top_port)
        super().__init__({"cycle": In(CYCLE_BITS), "node_reset": In(1), "below": In(port), "above": Out(port)})

    def elaborate(self, platform):
        m = Module()
        below, above, words = self.below, self.above, self._words
        passed(m, below, above, made=("tree",))
        tree = below.tree.payload
        layout = data.StructLayout({"cycle": CYCLE_BITS} | dict(tree.shape().members))
        rows: list[Any] = [*(word._asdict() for word in words), {}]
        m.submodules.words = memory = Memory(shape=layout, depth=len(words) + 1, init=rows)
        read, number, offers = memory.read_port(domain="comb"), Signal(range(len(words) + 1)), Signal()
        m.d.comb += [
            read.addr.eq(number),
            offers.eq((number != len(words)) & (read.data.cycle <= self.cycle) & ~self.node_reset),
            below.tree.valid.eq(offers | above.tree.valid),
            tree.eq(above.tree.payload),
            above.tree.ready.eq(~offers & below.tree.ready),
        ]
        with m.If(offers):
            m.d.comb += [tree[name].eq(read.data[name]) for name in tree.shape().members]
            m.d.sync += number.eq(number + below.tree.ready)
        with m.If(self.node_reset):
            m.d.sync += number.eq(0)
        return m
