"""[ni]: the sizes of a network interface."""

import typing
from dataclasses import dataclass

from lethe.spec import stages
from lethe.spec.events import OPTIONAL_COUNTERS, ROUTER_COUNTER_STEP, Counter, bank

from .key import Fail, Within, key

if typing.TYPE_CHECKING:
    from lethe.spec.config import System


@dataclass(frozen=True, kw_only=True)
class NiSection:
    about = "Sizes of a network interface."

    slots: int = key(16, "datagrams a node can have under way, 2 to 65536")
    sets: int = key(16, "sets of the receive table, a power of two: 16 sets of 4 ways are 64 entries")
    ways: int = key(4, "entries in a set, 1 to 8")
    reply_depth: int = key(16, "Acks and Forgets that can wait for the link, at least 2")
    deliver_flits: int = key(0, "payload flits in each deliver FIFO; 0: four of the longest payloads")
    deliver_records: int = key(16, "datagrams in each deliver FIFO, at least 2")
    control_classes: int = key(
        0, "number of control classes, each with a deliver FIFO of its own: 2 are the highest two, 7 and 6"
    )
    control_flits: int = key(0, "flits in the deliver FIFO of a control class; 0: as many as in that of data")
    control_records: int = key(0, "datagrams in the deliver FIFO of a control class, at least 2; 0: as in that of data")
    control_slots: int = key(0, "slots of their own for what is offered as control (send_control); 0: no such port")
    reserved_slots: int = key(0, "slots that only the classes of reserved_classes may take")
    reserved_classes: int = key(0, "number of classes, the highest ones, that may take them; 0: the control classes")
    reject: bool = key(False, "tell the sender whose Send expects an incarnation that is gone (REJECT)")
    source_incarnation: bool = key(False, "show the incarnation of the source in each deliver record")
    merge_bits: int = key(0, "payload bits that a service writes when a Send is granted the link; 0: no such port")
    acceptance: bool = key(False, "let a service refuse datagrams of data classes that arrive (acceptance port)")
    sweep: bool = key(False, "let a service erase what the receive table has of a source (sweep)")
    linger: int = key(
        0, "cycles for which a slot outlives what was repeated (paths); -1: as many as a message can need; 0: none"
    )
    deadline_bits: int = key(20, "width of a datagram's deadline, 8 to 32: 20 are deadlines of up to 1,048,575 cycles")
    statistics: bool = key(True, "build the statistics block, which counts events, into the RTL")


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
    _control(system, fail)
    within("ni.merge_bits", 0, min(64, w.flit_bits))
    within("ni.linger", -1, 1 << 24)
    if n.linger and system.credits:
        fail("ni.linger", "with credits nothing bounds how long a worm is under way", "leave it at 0")
    elif 0 < n.linger < system.least_linger:
        fail(
            "ni.linger",
            f"a message can be under way for {system.least_linger:,} cycles",
            "raise it to that, or take -1",
        )


def _control(system: "System", fail: Fail) -> None:
    """What is kept free for control: deliver FIFOs and slots of its own, and a reserve."""
    n, data = system.ni, system.ni.slots - system.ni.control_slots
    for name, least in (("control_flits", system.slot_flits), ("control_records", 2), ("control_slots", 1)):
        value = getattr(n, name)
        if value and not n.control_classes:
            fail(f"ni.{name}", "there are no control classes", "set ni.control_classes, or leave it at 0")
        if value and not least <= value <= 1 << 20:
            fail(f"ni.{name}", f"must be {least} to {1 << 20}, not {value}", "choose one of these, or leave it at 0")
    if data < 1:
        fail("ni.control_slots", f"leaves no slot for data, of {n.slots}", "lower it, or raise ni.slots")
    if not 0 <= n.reserved_slots < data:
        fail("ni.reserved_slots", f"must be 0 to {data - 1}, not {n.reserved_slots}", "leave a slot for data")
    if not 0 <= n.reserved_classes < 1 << system.wire.class_bits:
        most = (1 << system.wire.class_bits) - 1
        fail("ni.reserved_classes", f"must be 0 to {most}, not {n.reserved_classes}", "choose one of these")
    if n.reserved_slots and not (n.reserved_classes or n.control_classes):
        fail("ni.reserved_slots", "nothing may use them", "set ni.control_classes, or leave it at 0")


def slot_flits(system: "System") -> int:
    """Payload flits a slot stores."""
    return system.format.payload_flits(system.wire.mtu)


def deliver_flits(system: "System") -> int:
    return system.ni.deliver_flits or 4 * system.slot_flits


def control_flits(system: "System") -> int:
    """Flits in the deliver FIFO of a control class."""
    return system.ni.control_flits or system.deliver_flits


def control_records(system: "System") -> int:
    """Datagrams in the deliver FIFO of a control class."""
    return system.ni.control_records or system.ni.deliver_records


def first_reserved(system: "System") -> int:
    """The lowest class that may take a reserved slot."""
    return (1 << system.wire.class_bits) - (system.ni.reserved_classes or system.ni.control_classes)


def counters(system: "System") -> tuple[Counter, ...]:
    """The counters that its NIs have, by address; between them there may be addresses of counters that they lack."""
    return tuple(c for c in Counter if c not in OPTIONAL_COUNTERS or getattr(system.ni, OPTIONAL_COUNTERS[c]))


def counter_addresses(system: "System") -> int:
    """Addresses of the counters of one NI: to the last that it has."""
    return max(system.counters) + 1


def counter_step(system: "System") -> int:
    """Addresses from the counters of one NI to those of the next: a power of two, a multiple of a router's."""
    return bank(range(system.counter_addresses), ROUTER_COUNTER_STEP)


def least_linger(system: "System") -> int:
    """Cycles from the end of a datagram until nothing that was launched for it is under way."""
    return system.packet_life + stages.SHOWN


def linger(system: "System") -> int:
    """Cycles for which a slot lingers; 0: none does."""
    return system.least_linger if system.ni.linger < 0 else system.ni.linger


def initial(system: "System") -> int:
    """Cycles of the initialisation after a reset."""
    silent, paths = system.timers.silent_after, system.timers.path_after
    nodes = max(system.nodes if silent else 0, system.nodes << system.wire.path_bits if paths else 0)
    return max(system.ni.slots, system.ni.sets, system.linger, nodes)


def link_wait(system: "System") -> int:
    """The most cycles that a repeat waits for the link while replies take no more than half of it.

    Before it go a full queue of replies and a worm of every other slot, and as much again of later replies.
    """
    form = system.format
    return 2 * (system.ni.slots * form.max_flits + system.ni.reply_depth * form.control_flits)
