"""The self-test: NIs, a fabric that discards at random, generators, checkers and two LEDs.

LED 0 is "running": it blinks while datagrams are under way and stays on when all have ended.
LED 1 is "every datagram once": on from the moment everything has drained and every checker agrees
with the generators; it never comes on if a datagram was lost, doubled or altered.
"""

from amaranth.hdl import Module, Signal
from amaranth.lib import io, wiring

from lethe.spec.config import System
from lethe.system import SystemTop

#: Four NIs on a 2-ary 2-tree, 16-bit flits, every link losing 30 % of the worms that cross it.
SELFTEST = {
    "run": {"name": "selftest", "seed": 1},
    "topology": {"kind": "tree", "arity": 2, "levels": 2},
    "wire": {"flit_bits": 16, "mtu": 32, "generation_bits": 16},
    "ni": {"slots": 8, "sets": 4, "ways": 4, "statistics": False},
    "faults": {"loss": 0.3},
    "workload": {"load": 1.0, "min_length": 4, "max_length": 32, "count": 100_000},
}


class SelfTest(wiring.Component):
    """A system with its own traffic and two LEDs.

    Parameters
    ----------
    system : what to build; its workload must be the generator
    blink_bits : the running LED toggles every 2^blink_bits cycles

    Members
    -------
    running, passed : Out(1), as the module says
    """

    running: Signal
    passed: Signal

    def __init__(self, system: System, blink_bits: int = 22):
        self.system = system
        self._blink_bits = blink_bits
        super().__init__({"running": wiring.Out(1), "passed": wiring.Out(1)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.system = system = SystemTop(self.system, host="generator")
        blink = Signal(self._blink_bits + 1)
        m.d.sync += blink.eq(blink + 1)
        m.d.comb += [
            self.running.eq(system.done & system.idle | blink[-1]),
            self.passed.eq(system.ok),
        ]
        if platform is not None:
            for number, level in enumerate((self.running, self.passed)):
                pin = platform.request("led", number, dir="-")
                m.submodules[f"led{number}"] = led = io.Buffer(io.Direction.Output, pin)
                m.d.comb += led.o.eq(level)
        return m
