"""The self-test: NIs, a fabric that discards at random, generators, checkers and a few LEDs.

What the LEDs say, with two, with one of three colours, or with one alone:

============================  ==================  ==================  ===========
state                         two LEDs            three colours       one LED
============================  ==================  ==================  ===========
no clock, or in reset         dark                dark                dark
datagrams are under way       first blinks        blue blinks         blinks
every datagram once           both on             green               on
ended, but not so             first on            red                 flickers
============================  ==================  ==================  ===========

"Every datagram once" comes on when everything has drained and every checker agrees with the generators; it never does
if a datagram was lost, doubled or altered.
"""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring

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

#: One node of the preset tiny, for small devices, with a mirror in the place of the network (`lethe_fpga.mirror`).
MIRRORED = {
    "preset": "tiny",
    "run": {"name": "selftest", "seed": 1},
    "faults": {"loss": 0.3},
    "workload": {"load": 1.0, "min_length": 4, "max_length": 32, "count": 100_000},
}

#: What a build of them takes, by nextpnr's type of cell, for the list of boards; tests hold it against builds.
NEEDS = {"TRELLIS_COMB": 16_600, "TRELLIS_FF": 11_600, "DP16KD": 20}
MIRRORED_NEEDS = {"ICESTORM_LC": 4_330, "ICESTORM_RAM": 26}


def selftest() -> System:
    """The system that is built and simulated when no other is named."""
    return System.make(source="(self-test)", **SELFTEST)


def mirrored() -> System:
    """The same for a board with mirrors."""
    return System.make(source="(self-test)", **MIRRORED)


class SelfTest(wiring.Component):
    """A system with its own traffic, and what its LEDs show.

    Parameters
    ----------
    system : what to build; its workload must be the generator
    blink_bits : a blinking LED changes every 2^blink_bits cycles, a flickering one eight times as often
    watch : have the system's trace words as ports too; a bitstream does not
    core : what to show the LEDs of, for tests (default: the `SystemTop` of ``system``)

    Members
    -------
    running : Out(1)
        Blinks while datagrams are under way, on when all have ended.
    passed : Out(1)
        Every datagram has arrived once.
    failed : Out(1)
        All have ended, and not so; up to two blinks late.
    status : Out(1)
        All three in one, as the module says.
    watch, watch1, … : Out
        As those of `SystemTop`.
    """

    running: Signal
    passed: Signal
    failed: Signal
    status: Signal

    def __init__(self, system: System, blink_bits: int = 22, *, watch: bool = False, core: Any = None):
        if blink_bits < 3:
            raise ValueError(f"blink_bits must be at least 3, not {blink_bits}")
        self.system = system
        self.blink_bits = blink_bits
        self._core, self._watched = core, []
        members = {name: wiring.Out(1) for name in ("running", "passed", "failed", "status")}
        if watch:
            self._core = SystemTop(system, host="generator")
            watched = {n: member for n, member in self._core.signature.members.items() if n.startswith("watch")}
            self._watched, members = list(watched), members | watched
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        m.submodules.system = system = self._core or SystemTop(self.system, host="generator")
        m.d.comb += [getattr(self, name).eq(getattr(system, name)) for name in self._watched]

        blink = Signal(self.blink_bits + 1)
        m.d.sync += blink.eq(blink + 1)
        # The sums are some cycles late: what has ended must have ended a blink ago.
        ended, was = Signal(), Signal()
        m.d.comb += ended.eq(system.done & system.idle)
        with m.If(blink[:-1] == 0):
            m.d.sync += [was.eq(ended), self.failed.eq(was & ended & ~system.ok)]
        m.d.comb += [
            self.running.eq(ended | blink[-1]),
            self.passed.eq(system.ok),
            self.status.eq(system.ok | Mux(self.failed, blink[-4], blink[-1])),
        ]
        return m
