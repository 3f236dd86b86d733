"""[ni]: the sizes of a network interface."""

import typing
from dataclasses import dataclass

from .key import Fail, Within, key

if typing.TYPE_CHECKING:
    from lethe.spec.config import System


@dataclass(frozen=True, kw_only=True)
class NiSection:
    slots: int = key(16, "datagrams a node can have under way, 2 to 65536")
    sets: int = key(16, "sets of the receive table, a power of two")
    ways: int = key(4, "entries in a set, 1 to 8")
    reply_depth: int = key(16, "replies that can wait for the link, at least 2")
    deliver_flits: int = key(0, "flits in each deliver FIFO; 0: four of the longest payloads")
    deliver_records: int = key(16, "datagrams in each deliver FIFO, at least 2")
    control_classes: int = key(0, "number of control classes: the highest ones, each with a deliver FIFO of its own")
    reserved_slots: int = key(0, "slots that only control classes may take")
    deadline_bits: int = key(20, "width of a datagram's deadline in cycles, 8 to 32")
    statistics: bool = key(True, "build the statistics block into the RTL")


def check(system: "System", fail: Fail, within: Within) -> None:
    n, w = system.ni, system.wire
    within("ni.slots", 2, 65536)
    within("ni.sets", 1, 65536)
    within("ni.ways", 1, 8)
    within("ni.reply_depth", 2, 65536)
    within("ni.deliver_records", 2, 65536)
    within("ni.deadline_bits", 8, 32)
    if n.sets & (n.sets - 1):
        fail("ni.sets", f"must be a power of two, not {n.sets}", f"take {1 << n.sets.bit_length()}")
    if n.deliver_flits and not system.slot_flits <= n.deliver_flits <= 1 << 20:
        fail(
            "ni.deliver_flits",
            f"must hold one payload of {system.slot_flits} flits, and at most {1 << 20}, not {n.deliver_flits}",
            "choose a value between, or leave it at 0",
        )
    if not 0 <= n.control_classes < 1 << w.class_bits:
        fail(
            "ni.control_classes",
            f"must be 0 to {(1 << w.class_bits) - 1}, not {n.control_classes}",
            "lower it or widen wire.class_bits",
        )
    if not 0 <= n.reserved_slots < n.slots:
        fail("ni.reserved_slots", f"must be 0 to {n.slots - 1}, not {n.reserved_slots}", "leave a slot for data")
    if n.reserved_slots and not n.control_classes:
        fail("ni.reserved_slots", "nothing may use them", "set ni.control_classes, or leave it at 0")


def slot_flits(system: "System") -> int:
    """Payload flits a slot stores."""
    return system.format.payload_flits(system.wire.mtu)


def deliver_flits(system: "System") -> int:
    return system.ni.deliver_flits or 4 * system.slot_flits


def link_wait(system: "System") -> int:
    """The most cycles that a repeat waits for the link while replies take no more than half of it.

    Before it go a full queue of replies and a worm of every other slot, and as much again of later replies.
    """
    form = system.format
    return 2 * (system.ni.slots * form.max_flits + system.ni.reply_depth * form.control_flits)
