"""A host that sends and checks: generator and checker behind one host port (cycle contract, section 5)."""

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from lethe.host import host_signature
from lethe.spec.config import System

from .checker import Checker, checked
from .generator import Generator
from .payload import KEY_BITS

__all__ = ["Traffic"]


class Traffic(wiring.Component):
    """Sends what the generator makes and takes what is delivered: the data class to the checker, the rest unseen.

    Members
    -------
    node, seed, stopped, node_reset : In
        As those of `Generator` and `Checker`.
    stalled : In(1)
        Nothing that is delivered is taken in this cycle.
    host : In(`host_signature`)
        Completions and notices are always taken; of flow, messages of all ports.
    done, sent, sent_sum, received, received_sum, wrong : Out
        As those of `Generator` and `Checker`.
    """

    def __init__(self, system: System):
        self._system = system
        super().__init__(
            {
                "node": In(system.format.node_bits),
                "seed": In(32),
                "stopped": In(1),
                "stalled": In(1),
                "node_reset": In(1),
                "host": In(host_signature(system, system.top_port)),
                "done": Out(1),
                "sent": Out(32),
                "sent_sum": Out(KEY_BITS),
                "received": Out(32),
                "received_sum": Out(KEY_BITS),
                "wrong": Out(32),
            }
        )

    def elaborate(self, platform):
        m = Module()
        system, host = self._system, self.host
        m.submodules.generator = generator = Generator(system)
        m.submodules.checker = checker = Checker(system)
        m.d.comb += [
            generator.node.eq(self.node),
            generator.seed.eq(self.seed),
            generator.ready.eq(host.ready),
            generator.stopped.eq(self.stopped),
            checker.stalled.eq(self.stalled),
            *(unit.node_reset.eq(self.node_reset) for unit in (generator, checker)),
            host.completion.ready.eq(1),
            self.done.eq(generator.done),
            *(getattr(self, name).eq(getattr(generator, name)) for name in ("sent", "sent_sum")),
            *(getattr(self, name).eq(getattr(checker, name)) for name in ("received", "received_sum", "wrong")),
        ]
        seen = checked(system)
        for name in system.top_port.delivers:
            if name != seen:
                m.d.comb += [
                    port.ready.eq(~self.stalled) for port in (getattr(host, name), getattr(host, f"{name}_data"))
                ]
        if system.top_port.ports:
            m.d.comb += [host.receive_mask.eq(-1), host.notice.ready.eq(1)]
        for name, unit in (
            ("send", generator), ("send_data", generator), ("deliver", checker), ("deliver_data", checker),
        ):  # fmt: skip
            wiring.connect(m, getattr(unit, name), wiring.flipped(getattr(host, name.replace("deliver", seen))))
        return m
