"""A clock of a wanted frequency from a board's: the PLL of the ECP5 and its dividers.

Limits: ECP5 data sheet (FPGA-DS-02012), table "sysCLOCK PLL timing", the lowest frequency at the phase detector as in
its later editions; dividers: FPGA libraries reference guide, EHXPLLL.
"""

from dataclasses import dataclass
from fractions import Fraction

from amaranth.hdl import ClockSignal, Const, Elaboratable, Instance, Module, Signal
from amaranth.lib import io

#: Frequencies in MHz, lowest and highest.
INPUT = (8, 400)
PHASE_DETECTOR = (10, 400)
VCO = (400, 800)
OUTPUT = (Fraction(25, 8), 400)
#: Largest divider of the input, of the feedback, and of the outputs.
INPUT_DIVIDER, FEEDBACK_DIVIDER, OUTPUT_DIVIDER = 128, 80, 128


class PllError(ValueError):
    """A frequency that no PLL makes; the message says which can be had."""


@dataclass(frozen=True, kw_only=True)
class Dividers:
    """How one PLL is set; all frequencies are exact, in MHz.

    The first output, divided by ``loop``, closes the loop through ``feedback``; the second, divided by ``output``, is
    the clock.
    """

    input: Fraction
    reference: int
    feedback: int
    loop: int
    output: int

    @property
    def phase_detector(self) -> Fraction:
        return self.input / self.reference

    @property
    def first_output(self) -> Fraction:
        return self.phase_detector * self.feedback

    @property
    def vco(self) -> Fraction:
        return self.first_output * self.loop

    @property
    def mhz(self) -> Fraction:
        """The clock."""
        return self.vco / self.output


def dividers(board: Fraction, wanted: Fraction) -> Dividers:
    """The dividers that make of a clock of ``board`` MHz the highest frequency that is not above ``wanted`` MHz.

    Of several such the one whose phase detector is fastest, then the one whose oscillator is nearest to the middle of
    its range, then the one with the slowest loop.  Raises `PllError` if ``wanted`` is out of range.
    """
    if not OUTPUT[0] <= wanted <= OUTPUT[1]:
        raise PllError(f"{float(wanted):g} MHz: a PLL of the ECP5 makes {float(OUTPUT[0]):g} to {OUTPUT[1]} MHz")
    if not INPUT[0] <= board <= INPUT[1]:
        raise PllError(f"{float(board):g} MHz: a PLL of the ECP5 takes {INPUT[0]} to {INPUT[1]} MHz")
    middle = Fraction(sum(VCO), 2)
    best, rank, lowest = None, None, Fraction(OUTPUT[1])
    for reference in range(1, INPUT_DIVIDER + 1):
        detector = board / reference
        if not PHASE_DETECTOR[0] <= detector <= PHASE_DETECTOR[1]:
            continue
        for feedback in range(1, FEEDBACK_DIVIDER + 1):
            first = detector * feedback
            if not OUTPUT[0] <= first <= OUTPUT[1]:
                continue
            slowest = -(-VCO[0] // first)
            for loop in range(slowest, min(OUTPUT_DIVIDER, VCO[1] // first) + 1):
                output = -(-first * loop // wanted)
                if output > OUTPUT_DIVIDER:
                    lowest = min(lowest, first * loop / OUTPUT_DIVIDER)
                    continue
                found = Dividers(input=board, reference=reference, feedback=feedback, loop=loop, output=int(output))
                mine = (found.mhz, detector, -abs(found.vco - middle), loop)
                if rank is None or mine > rank:
                    best, rank = found, mine
    if best is None:
        raise PllError(
            f"{float(wanted):g} MHz: the lowest that a PLL makes of the board's {float(board):g} MHz is "
            f"{float(lowest):g}"
        )
    return best


class BoardClock(Elaboratable):
    """Drives the domain ``sync``, which has no reset signal and is its parent's: the board's clock through a PLL.

    All flip-flops are held in reset (by the global set and reset, GSR) until the PLL has locked, and while the board's
    reset button, if its platform names one, is pressed.  nextpnr derives the clock's constraint from the
    board's and the dividers.
    """

    def __init__(self, chosen: Dividers):
        self._chosen = chosen

    def elaborate(self, platform):
        m = Module()
        chosen = self._chosen
        m.submodules.pin = pin = io.Buffer(io.Direction.Input, platform.request(platform.default_clk, dir="-"))
        stop = Const(0)
        if platform.default_rst is not None:
            m.submodules.button = button = io.Buffer(
                io.Direction.Input, platform.request(platform.default_rst, dir="-")
            )
            stop = button.i
        clock, loop, lock = Signal(name="pll_clock"), Signal(name="pll_loop"), Signal(name="pll_lock")
        m.submodules.pll = Instance(
            "EHXPLLL",
            # Of the analogue loop filter; the same for all frequencies in Project Trellis.
            a_ICP_CURRENT="12",
            a_LPF_RESISTOR="8",
            a_MFG_ENABLE_FILTEROPAMP="1",
            a_MFG_GMCREF_SEL="2",
            a_FREQUENCY_PIN_CLKI=f"{float(chosen.input):.6f}",
            a_FREQUENCY_PIN_CLKOP=f"{float(chosen.first_output):.6f}",
            a_FREQUENCY_PIN_CLKOS=f"{float(chosen.mhz):.6f}",
            p_PLLRST_ENA="DISABLED",
            p_INTFB_WAKE="DISABLED",
            p_STDBY_ENABLE="DISABLED",
            p_DPHASE_SOURCE="DISABLED",
            p_OUTDIVIDER_MUXA="DIVA",
            p_OUTDIVIDER_MUXB="DIVB",
            p_FEEDBK_PATH="CLKOP",
            p_CLKI_DIV=chosen.reference,
            p_CLKFB_DIV=chosen.feedback,
            p_CLKOP_ENABLE="ENABLED",
            p_CLKOP_DIV=chosen.loop,
            p_CLKOP_CPHASE=chosen.loop - 1,
            p_CLKOP_FPHASE=0,
            p_CLKOS_ENABLE="ENABLED",
            p_CLKOS_DIV=chosen.output,
            p_CLKOS_CPHASE=chosen.output - 1,
            p_CLKOS_FPHASE=0,
            i_CLKI=pin.i,
            i_CLKFB=loop,
            i_RST=Const(0),
            i_STDBY=Const(0),
            i_PHASESEL0=Const(0),
            i_PHASESEL1=Const(0),
            i_PHASEDIR=Const(1),
            i_PHASESTEP=Const(1),
            i_PHASELOADREG=Const(1),
            i_PLLWAKESYNC=Const(0),
            i_ENCLKOP=Const(0),
            i_ENCLKOS=Const(0),
            o_CLKOP=loop,
            o_CLKOS=clock,
            o_LOCK=lock,
        )
        # GSR leaves its own synchroniser alone.
        first, go = Signal(), Signal()
        m.submodules.first = Instance("FD1S3AX", p_GSR="DISABLED", i_CK=clock, i_D=lock & ~stop, o_Q=first)
        m.submodules.second = Instance("FD1S3AX", p_GSR="DISABLED", i_CK=clock, i_D=first, o_Q=go)
        m.submodules.gsr = Instance("SGSR", i_CLK=clock, i_GSR=go)
        m.d.comb += ClockSignal("sync").eq(clock)
        return m
