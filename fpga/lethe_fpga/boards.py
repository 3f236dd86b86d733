"""Boards the self-test is built for: most through amaranth-boards, the others described here."""

import importlib
from dataclasses import dataclass
from fractions import Fraction

from amaranth.build import Attrs, Clock, Pins, PinsN, Resource
from amaranth.vendor import LatticeECP5Platform, LatticeICE40Platform

Platform = LatticeECP5Platform | LatticeICE40Platform

#: What is built for when no board is named.
DEFAULT = "ulx3s_25f"
#: What the clock is when no other is asked for, in MHz: the self-test meets it on the slowest ECP5, with room.
DEFAULT_MHZ = Fraction(50)


class BoardError(ValueError):
    """A board that is not known; the message lists those that are."""


@dataclass(frozen=True, kw_only=True)
class Board:
    """One board: where its platform class is (in amaranth-boards, or here without ``module``), and what it is called.

    ``pack`` are the options of ecppack, such as the clock at which the board reads its bitstream.  ``mhz`` is the clock
    when no other is asked for.  With ``mirror`` the self-test is one node with mirrors, for a small device.
    """

    module: str = ""
    platform: str
    about: str
    pack: str = "--compress"
    mhz: Fraction = DEFAULT_MHZ
    mirror: bool = False

    def make(self) -> Platform:
        """A fresh platform object."""
        if not self.module:
            return globals()[self.platform]()
        return getattr(importlib.import_module(f"amaranth_boards.{self.module}"), self.platform)()


class _Colorlight(LatticeECP5Platform):
    """A card of Colorlight's: a clock of 25 MHz, one LED that is on when its pin is low."""

    speed = "6"
    default_clk = "clk25"
    connectors = []  # noqa: RUF012 (Amaranth takes a list)

    @staticmethod
    def pins(clock: str, led: str) -> list[Resource]:
        lvcmos = Attrs(IO_TYPE="LVCMOS33")
        return [
            Resource("clk25", 0, Pins(clock, dir="i"), Clock(25e6), lvcmos),
            Resource("led", 0, PinsN(led, dir="o"), lvcmos),
        ]


class Colorlight5A75EPlatform(_Colorlight):
    """Hardware version 7.1."""

    device, package = "LFE5U-25F", "BG256"
    resources = _Colorlight.pins("P6", "P11")


class ColorlightI5Platform(_Colorlight):
    """Hardware version 7.0."""

    device, package = "LFE5U-25F", "BG381"
    resources = _Colorlight.pins("P3", "U16")


class ColorlightI9Platform(_Colorlight):
    """Hardware version 7.2."""

    device, package = "LFE5U-45F", "BG381"
    resources = _Colorlight.pins("P3", "L2")


BOARDS = {
    "ulx3s_25f": Board(module="ulx3s", platform="ULX3S_25F_Platform", about="Radiona ULX3S, LFE5U-25F"),
    "ulx3s_45f": Board(module="ulx3s", platform="ULX3S_45F_Platform", about="Radiona ULX3S, LFE5U-45F"),
    "ulx3s_85f": Board(module="ulx3s", platform="ULX3S_85F_Platform", about="Radiona ULX3S, LFE5U-85F"),
    "orangecrab_25f": Board(
        module="orangecrab_r0_2",
        platform="OrangeCrabR0_2_25FPlatform",
        about="OrangeCrab r0.2, LFE5U-25F",
        pack="--compress --freq 38.8",
    ),
    "orangecrab_85f": Board(
        module="orangecrab_r0_2",
        platform="OrangeCrabR0_2_85FPlatform",
        about="OrangeCrab r0.2, LFE5U-85F",
        pack="--compress --freq 38.8",
    ),
    "colorlight_5a75b": Board(
        module="colorlight_5a75b_r7_0",
        platform="Colorlight_5A75B_R70Platform",
        about="Colorlight 5A-75B V7.0, LFE5U-25F",
    ),
    "colorlight_5a75e": Board(platform="Colorlight5A75EPlatform", about="Colorlight 5A-75E V7.1, LFE5U-25F"),
    "colorlight_i5": Board(platform="ColorlightI5Platform", about="Colorlight i5 V7.0, LFE5U-25F"),
    "colorlight_i9": Board(platform="ColorlightI9Platform", about="Colorlight i9 V7.2, LFE5U-45F"),
    "versa_ecp5": Board(module="versa_ecp5", platform="VersaECP5Platform", about="Lattice Versa, LFE5UM-45F"),
    "versa_ecp5_5g": Board(
        module="versa_ecp5_5g", platform="VersaECP55GPlatform", about="Lattice Versa-5G, LFE5UM5G-45F"
    ),
    "ecp5_5g_evn": Board(
        module="ecp5_5g_evn", platform="ECP55GEVNPlatform", about="Lattice ECP5-5G evaluation, LFE5UM5G-85F"
    ),
    "icebreaker": Board(
        module="icebreaker", platform="ICEBreakerPlatform", about="iCEBreaker, iCE40UP5K", mhz=Fraction(24), mirror=True
    ),
    "ice40_hx8k_b_evn": Board(
        module="ice40_hx8k_b_evn",
        platform="ICE40HX8KBEVNPlatform",
        about="Lattice HX8K breakout, iCE40HX8K",
        # Its oscillator has 12 MHz, from which the PLL cannot make 50.
        mhz=Fraction("50.25"),
        mirror=True,
    ),
}


def platform_for(name: str) -> Platform:
    """A fresh platform object of board ``name``; raises `BoardError` for an unknown one."""
    if name not in BOARDS:
        raise BoardError(f"no such board {name!r}; known are {', '.join(BOARDS)}")
    return BOARDS[name].make()


def clock_mhz(platform: Platform) -> Fraction:
    """The board's own clock, in MHz."""
    return Fraction(int(platform.default_clk_frequency), 1_000_000)
