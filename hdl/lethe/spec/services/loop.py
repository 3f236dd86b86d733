"""The loop: what a node sends to itself (cycle contract, 10.1)."""

import typing
from dataclasses import replace

from lethe.spec.events import LOOP_LANES, LoopCounter, Unit
from lethe.spec.ports import HostPort

from .service import Service

if typing.TYPE_CHECKING:
    from lethe.spec.config import System

__all__ = ["LOOP"]


def _named(system: "System") -> bool:
    return system.loop.slots > 0


def _above(system: "System", below: HostPort) -> HostPort:
    return replace(below, slots=below.slots + system.loop.slots, delivers=(*below.delivers, "deliver_loop"))


def _size(system: "System") -> str:
    flits = system.loop_flits
    return (
        f"{system.loop.slots:,} slots, from {system.ni.slots:,} on; {flits:,} flits of payload, "
        f"{flits * (system.format.flit_bits + 1):,} bits"
    )


LOOP = Service(
    name="loop",
    unit=Unit.LOOP,
    lanes=LOOP_LANES,
    counters=LoopCounter,
    flag_bits=(
        "send.ready", "send_data.ready", "completion.valid", "deliver_loop.valid", "deliver_loop_data.valid",
        "deliver_loop_data.last", "cancel.ready", "idle",
    ),
    named=_named,
    above=_above,
    size=_size,
)  # fmt: skip
