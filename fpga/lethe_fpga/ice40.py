"""The same clock on an iCE40: its PLL and dividers, and a gate in the place of a global reset.

Limits: iCE40 LP/HX and UltraPlus family data sheets, table "sysCLOCK PLL timing"; dividers and filter: iCE40 sysCLOCK
PLL design and usage guide (FPGA-TN-02052), feedback path SIMPLE.
"""

from dataclasses import dataclass
from fractions import Fraction

from amaranth.hdl import Cat, ClockDomain, ClockSignal, Const, DomainRenamer, Elaboratable, Instance, Module, Signal
from amaranth.lib import io, wiring
from amaranth.lib.wiring import In, Out

from .pll import PllError

#: Frequencies in MHz, lowest and highest.
INPUT = PHASE_DETECTOR = (10, 133)
VCO = (533, 1066)
OUTPUT = (16, 275)
#: Largest divider of the input and of the feedback, and the powers of two by which the oscillator is divided.
INPUT_DIVIDER, FEEDBACK_DIVIDER = 16, 128
POWERS = range(1, 7)
#: For a phase detector below so many MHz, the range of its loop filter; 6 above.
FILTERS = ((17, 1), (26, 2), (44, 3), (66, 4), (101, 5))
#: Devices whose only PLL takes the place of the input of its pad, at which their boards have the oscillator.
PADS = ("iCE40UP5K",)
#: Cycles before the first: block RAMs read zeros for some microseconds after configuration.
WAIT_BITS = 10


@dataclass(frozen=True, kw_only=True)
class Dividers:
    """How one PLL is set; all frequencies are exact, in MHz."""

    input: Fraction
    reference: int
    feedback: int
    power: int

    @property
    def phase_detector(self) -> Fraction:
        return self.input / self.reference

    @property
    def vco(self) -> Fraction:
        return self.phase_detector * self.feedback

    @property
    def mhz(self) -> Fraction:
        """The clock."""
        return self.vco / (1 << self.power)

    @property
    def filter(self) -> int:
        return next((found for below, found in FILTERS if self.phase_detector < below), 6)


def dividers(board: Fraction, wanted: Fraction) -> Dividers:
    """The dividers that make of a clock of ``board`` MHz the highest frequency that is not above ``wanted`` MHz.

    Of several such the one whose phase detector is fastest, then the one whose oscillator is slowest.  Raises
    `PllError` if none makes one.
    """
    if not OUTPUT[0] <= wanted <= OUTPUT[1]:
        raise PllError(f"{float(wanted):g} MHz: a PLL of the iCE40 makes {OUTPUT[0]} to {OUTPUT[1]} MHz")
    if not INPUT[0] <= board <= INPUT[1]:
        raise PllError(f"{float(board):g} MHz: a PLL of the iCE40 takes {INPUT[0]} to {INPUT[1]} MHz")
    found = [
        Dividers(input=board, reference=reference, feedback=feedback, power=power)
        for reference in range(1, INPUT_DIVIDER + 1)
        if PHASE_DETECTOR[0] <= board / reference <= PHASE_DETECTOR[1]
        for feedback in range(1, FEEDBACK_DIVIDER + 1)
        if VCO[0] <= board / reference * feedback <= VCO[1]
        for power in POWERS
    ]
    fitting = [chosen for chosen in found if OUTPUT[0] <= chosen.mhz <= wanted]
    if not fitting:
        lowest = min(chosen.mhz for chosen in found if chosen.mhz >= OUTPUT[0])
        raise PllError(
            f"{float(wanted):g} MHz: the lowest that a PLL makes of the board's {float(board):g} MHz is "
            f"{float(lowest):g}"
        )
    return max(fitting, key=lambda chosen: (chosen.mhz, chosen.phase_detector, -chosen.vco))


class Wait(wiring.Component):
    """The time from the lock of the PLL to the first edge of the design's clock.

    Members
    -------
    lock : In(1)
        The PLL has locked; not synchronous.
    over : Out(1)
        1 for good, from 2^`WAIT_BITS` cycles with ``lock`` on, and the two cycles that ``lock`` is late.
    """

    def __init__(self):
        super().__init__({"lock": In(1), "over": Out(1)})

    def elaborate(self, platform):
        m = Module()
        locked, waited = Signal(2), Signal(WAIT_BITS + 1)
        m.d.sync += locked.eq(Cat(self.lock, locked[0]))
        with m.If(locked[1] & ~waited[-1]):
            m.d.sync += waited.eq(waited + 1)
        m.d.comb += self.over.eq(waited[-1])
        return m


class BoardClock(Elaboratable):
    """Drives the domain ``sync``, which has no reset signal and is its parent's: the board's clock through a PLL.

    An iCE40 has no global reset that a design could hold.  So the first edge of the clock comes when the PLL has long
    been locked; until then all is in the state that the bitstream gives it.  The gate opens while the clock is low.
    nextpnr derives no constraint through the gate, so it must be told the frequency (``--freq``).
    """

    def __init__(self, chosen: Dividers):
        self._chosen = chosen

    def elaborate(self, platform):
        m = Module()
        chosen = self._chosen
        pin = platform.request(platform.default_clk, dir="-")
        free, lock = Signal(name="pll_clock"), Signal(name="pll_lock")
        if platform.device in PADS:
            kind, reference = "SB_PLL40_PAD", {"io_PACKAGEPIN": pin.io}
        else:
            m.submodules.pin = buffer = io.Buffer(io.Direction.Input, pin)
            kind, reference = "SB_PLL40_CORE", {"i_REFERENCECLK": buffer.i}
        m.submodules.pll = Instance(
            kind,
            p_FEEDBACK_PATH="SIMPLE",
            p_DIVR=Const(chosen.reference - 1, 4),
            p_DIVF=Const(chosen.feedback - 1, 7),
            p_DIVQ=Const(chosen.power, 3),
            p_FILTER_RANGE=Const(chosen.filter, 3),
            **reference,
            i_RESETB=Const(1),
            i_BYPASS=Const(0),
            o_PLLOUTCORE=free,
            o_LOCK=lock,
        )
        m.domains.free = ClockDomain(reset_less=True)
        m.domains.gate = ClockDomain(reset_less=True, clk_edge="neg")
        m.d.comb += [ClockSignal("free").eq(free), ClockSignal("gate").eq(free)]
        m.submodules.wait = wait = DomainRenamer("free")(Wait())
        opened = Signal()
        m.d.comb += wait.lock.eq(lock)
        m.d.gate += opened.eq(wait.over)
        gated, clock = Signal(name="gated_clock"), Signal(name="board_clock")
        m.d.comb += gated.eq(free & opened)
        m.submodules.buffer = Instance("SB_GB", i_USER_SIGNAL_TO_GLOBAL_BUFFER=gated, o_GLOBAL_BUFFER_OUTPUT=clock)
        m.d.comb += ClockSignal("sync").eq(clock)
        return m
