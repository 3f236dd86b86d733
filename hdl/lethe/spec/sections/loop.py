"""[loop]: a node's way to itself."""

import typing
from dataclasses import dataclass

from .key import Fail, Within, key

if typing.TYPE_CHECKING:
    from lethe.spec.config import System

#: A packed UID has 16 bits for the slot.
MOST_SLOTS = 1 << 16


@dataclass(frozen=True, kw_only=True)
class LoopSection:
    about = "A service between NI and host: what a node sends to itself."

    slots: int = key(0, "datagrams to the own node that can be under way; 0: no loop, such datagrams are refused")
    flits: int = key(0, "payload flits that it holds; 0: four of the longest payloads")


def check(system: "System", fail: Fail, within: Within) -> None:
    loop, most = system.loop, MOST_SLOTS - system.ni.slots
    if loop.slots and not 2 <= loop.slots <= most:
        fail("loop.slots", f"must be 2 to {most}, not {loop.slots}", "choose one of these, or 0 for no loop")
    if loop.flits and not loop.slots:
        fail("loop.flits", "there is no loop", "set loop.slots, or leave it at 0")
    if loop.flits and not system.slot_flits <= loop.flits <= 1 << 20:
        fail(
            "loop.flits",
            f"must hold one payload of {system.slot_flits} flits, and at most {1 << 20}, not {loop.flits}",
            "choose a value between, or leave it at 0",
        )


def flits(system: "System") -> int:
    """Beats that the loop's deliver FIFO holds."""
    return system.loop.flits or 4 * system.slot_flits
