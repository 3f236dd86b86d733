"""What goes on a board: the self-test, its clock, its LEDs."""

import math
from fractions import Fraction

from amaranth.hdl import ClockDomain, Elaboratable, Module
from amaranth.lib import io

from lethe.spec.config import System

from .families import Dividers, family_of
from .mirror import MirroredNode
from .selftest import SelfTest

__all__ = ["ROOM", "BoardTop", "blink_bits", "leds"]

#: What there is on a device, by nextpnr's type of cell.
ROOM = {
    device: {"TRELLIS_COMB": logic, "TRELLIS_FF": logic, "DP16KD": ram}
    for size, logic, ram in (("25F", 24_288, 56), ("45F", 43_848, 108), ("85F", 83_640, 208))
    for device in (f"LFE5U-{size}", f"LFE5UM-{size}", f"LFE5UM5G-{size}")
} | {
    "iCE40UP5K": {"ICESTORM_LC": 5_280, "ICESTORM_RAM": 30},
    "iCE40HX8K": {"ICESTORM_LC": 7_680, "ICESTORM_RAM": 32},
}


def blink_bits(mhz: Fraction) -> int:
    """The self-test's ``blink_bits`` with which an LED blinks once or twice a second."""
    return round(math.log2(mhz * 1_000_000 / 3))


def leds(platform) -> dict[str, tuple[str, int, str]]:
    """Which outputs of the self-test go where on this board: output → (resource, number, part or nothing)."""
    if ("rgb_led", 0) in platform.resources:
        return {
            "blue": ("rgb_led", 0, "b"),
            "green": ("rgb_led", 0, "g"),
            "red": ("rgb_led", 0, "r"),
        }
    if ("led", 1) in platform.resources:
        return {"running": ("led", 0, ""), "passed": ("led", 1, "")}
    return {"status": ("led", 0, "")}


class BoardTop(Elaboratable):
    """The self-test on a board; ``selftest`` is the part that is simulated too.

    Parameters
    ----------
    system : what to build; its workload must be the generator
    clock : how the PLL is set
    mirror : whether it is one node with mirrors, in the place of all nodes; raises `MirrorError` if there is none
    """

    def __init__(self, system: System, clock: Dividers, *, mirror: bool = False):
        self._clock = clock
        self.selftest = SelfTest(system, blink_bits(clock.mhz), core=MirroredNode(system) if mirror else None)

    def elaborate(self, platform):
        m = Module()
        m.domains.sync = ClockDomain(reset_less=True)
        m.submodules.clock = family_of(platform).clock(self._clock)
        m.submodules.selftest = test = self.selftest
        levels = {
            "running": test.running,
            "passed": test.passed,
            "status": test.status,
            "blue": test.running & ~test.passed & ~test.failed,
            "green": test.passed,
            "red": test.failed,
        }
        ports = {}
        for output, (resource, number, part) in leds(platform).items():
            if (resource, number) not in ports:
                ports[resource, number] = platform.request(resource, number, dir="-")
            port = ports[resource, number]
            m.submodules[f"led_{output}"] = led = io.Buffer(io.Direction.Output, getattr(port, part) if part else port)
            m.d.comb += led.o.eq(levels[output])
        return m
