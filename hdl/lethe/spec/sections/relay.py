"""[relay]: messages over an overlay of nodes that may die, as a service between NI and host."""

import typing
from dataclasses import dataclass
from functools import lru_cache

from lethe.spec.overlay import Overlay
from lethe.spec.random import UNIT_NOTICE, advance, scale, seed_for

from .key import Fail, Within, key, refuse_settings

if typing.TYPE_CHECKING:
    from lethe.spec.config import System

#: Bytes of the header before a message.
HEADER_BYTES = 16
#: The most children of a node: a way has 4 bits, and two numbers are for none and for the parent.
MOST_RADIX = 14
#: Nodes at most.
MOST_NODES = 1024
#: Unit of stamps, in cycles.
STAMP_CYCLES = 64
_LONGEST = 1 << 21
#: Control classes, for control and for data.
CONTROL_CLASSES = 2
#: Keys of ``[ni]`` that relay needs; more control slots do as well.
OF_NI = {"control_classes": CONTROL_CLASSES, "control_slots": 4}


class Word(typing.NamedTuple):
    """What is offered on `tree` from a cycle on."""

    cycle: int
    code: int
    target: int
    hop: int = 0
    way: int = 0
    depth: int = 0
    promoted: int = 0


@dataclass(frozen=True, kw_only=True)
class RelaySection:
    about = "A service between NI and host: messages over nodes that may die, each posted once and in order."

    slots: int = key(0, "messages that a node can have live, as their origin; 0: no relay")
    radix: int = key(2, "children of a node in the overlay, at most 14; 0: every node is one hop away")
    window: int = key(0, "live messages of a node to one destination; 0: a quarter of relay.slots")
    cells: int = key(16, "messages that wait at their destination for the host or for their predecessor")
    records: int = key(64, "messages of which a relay knows, a power of two from 4 on")
    buffers: int = key(16, "messages whose data a relay holds, at most 64")
    control: int = key(32, "depth of the queue of control to send, a power of two from 4 on")
    cache_cycles: int = key(16384, "cycles for which a relay holds data, a multiple of 64")
    entry_cycles: int = key(65536, "cycles for which a relay knows of a message, a multiple of 64")
    watch_cycles: int = key(8192, "cycles after which an origin asks for a live message, a multiple of 64")
    hop_cycles: int = key(8192, "deadline of each hop")
    uid_bits: int = key(32, "bits of a uid, 8 to 32")
    uid_first: int = key(0, "the first uid of a node")
    crc: bool = key(False, "keep a CRC beside each beat in relay's memory; a relay that reads a wrong one halts")
    wrap: bool = key(False, "let uids come round too soon, for tests of small ones")
    notice: int = key(2000, "cycles from a node's death until the others are told")
    spread: int = key(0, "and up to so many cycles more, drawn for each node and death")


def check(system: "System", fail: Fail, within: Within) -> None:
    relay, ni = system.relay, system.ni
    if not relay.slots:
        return
    within("relay.slots", 1, 256)
    within("relay.radix", 0, MOST_RADIX)
    within("relay.window", 0, relay.slots)
    within("relay.cells", 2, 256)
    within("relay.buffers", 1, 64)
    for name, least, most in (("records", 4, 1024), ("control", 4, 256)):
        within(f"relay.{name}", least, most)
        value = getattr(relay, name)
        if value & (value - 1):
            fail(f"relay.{name}", f"must be a power of two, not {value}", f"take {1 << value.bit_length()}")
    for name in ("cache_cycles", "entry_cycles", "watch_cycles"):
        within(f"relay.{name}", STAMP_CYCLES, _LONGEST)
        value = getattr(relay, name)
        if value % STAMP_CYCLES:
            fail(f"relay.{name}", f"must be a multiple of {STAMP_CYCLES}, not {value}", "round it")
    if relay.cache_cycles > relay.entry_cycles:
        fail("relay.cache_cycles", "data would be held longer than their record lasts", "lower it to entry_cycles")
    within("relay.hop_cycles", 1, (1 << ni.deadline_bits) - 1)
    within("relay.uid_bits", 8, 32)
    within("relay.uid_first", 0, (1 << relay.uid_bits) - 4)
    within("relay.notice", 0, 1 << 40)
    within("relay.spread", 0, (1 << 16) - 1)
    if system.nodes > MOST_NODES:
        fail("relay.slots", f"relay knows at most {MOST_NODES:,} nodes, not {system.nodes:,}", "set it to 0")
    if system.flow.ports:
        fail("relay.slots", "relay and flow want the same control class", "set it to 0, or flow.ports to 0")
    wanted = {
        "control_classes": (ni.control_classes == CONTROL_CLASSES, CONTROL_CLASSES),
        "control_slots": (ni.control_slots >= 2, 4),
        "reserved_classes": (ni.reserved_classes != 1, 2),
        "merge_bits": (not ni.merge_bits, 0),
        "acceptance": (not ni.acceptance, False),
        "sweep": (not ni.sweep, False),
    }
    refused = {name: value for name, (good, value) in wanted.items() if not good}
    refuse_settings(refused, "does not go with relay", "relay.slots", fail)
    if system.format.class_bits < 3:
        fail("wire.class_bits", "must be at least 3 with relay", "raise it")
    if system.wire.mtu <= HEADER_BYTES:
        fail("wire.mtu", f"leaves no byte beside relay's header of {HEADER_BYTES}", "raise it")
    try:
        overlay = first_overlay(system)
    except ValueError as error:
        fail("relay.radix", str(error), "raise it")
    hops = max(overlay.depth(node) for node in range(system.nodes)) * 2 if relay.radix else 1
    least = 2 * hops * (24 + system.delays[-1 - system.timers.backoff_steps])
    if relay.watch_cycles < least:
        fail("relay.watch_cycles", f"is less than {least:,} cycles, a way there and back", "raise it")


def promises(system: "System", fail: Fail) -> None:
    """An orphan outlives its hop (T12); a uid does not come round while something bears it (M8)."""
    relay = system.relay
    if not relay.slots:
        return
    needed = relay.hop_cycles + system.packet_life
    if system.timers.ack_limit and system.orphan_time <= needed:
        fail(
            "relay.hop_cycles",
            f"entries are reclaimed after {system.orphan_time} cycles, but a hop may be repeated for {needed}",
            "lower it, or raise timers.ack_limit",
        )
    if relay.wrap:
        return
    turn = (1 << relay.uid_bits - 1) * (3 + header_beats(system))
    life = 2 * system.nodes * (relay.entry_cycles + relay.hop_cycles + system.packet_life)
    if turn <= life:
        fail(
            "relay.uid_bits",
            f"half a turn of uids can take {turn:,} cycles, and what bears one can last for {life:,}",
            "raise it, or set relay.wrap for a test",
        )


def header_beats(system: "System") -> int:
    """Beats of the header before a message."""
    return max(1, 8 * HEADER_BYTES // system.format.flit_bits)


def mtu(system: "System") -> int:
    """The longest message in bytes."""
    return system.wire.mtu - HEADER_BYTES


def window(system: "System") -> int:
    """Live messages of a stream."""
    return system.relay.window or max(1, system.relay.slots // 4)


def first_overlay(system: "System") -> Overlay:
    """The overlay while everybody lives."""
    return Overlay(nodes=system.nodes, radix=system.relay.radix)


def notices(system: "System") -> tuple[tuple[tuple[int, int], ...], ...]:
    """For each node (cycle, dead node) of its notices, in their order; if a node is told twice, the first counts."""
    found: list[dict[int, int]] = [{} for _ in range(system.nodes)]
    given: list[dict[int, int]] = [{} for _ in range(system.nodes)]
    for row in system.faults.notices:
        told = given[row.node]
        told[row.died] = min(row.start, told.get(row.died, row.start))
    for dead in dict.fromkeys(fault.node for fault in system.faults.deaths):
        start = system.death(dead) or 0
        for node in range(system.nodes):
            if node != dead:
                draw = advance(seed_for(system.run.seed, UNIT_NOTICE, node * system.nodes + dead))
                found[node][dead] = start + system.relay.notice + scale(draw & 0xFFFF, 16, system.relay.spread + 1)
    for node, told in enumerate(given):
        found[node] |= told
    return tuple(tuple(sorted((cycle, dead) for dead, cycle in told.items())) for told in found)


def words(system: "System", node: int) -> tuple[Word, ...]:
    """What the tree player of a node offers, in order."""
    overlay = first_overlay(system)
    found = [*_routes(overlay, node, 0), Word(0, 1, node, depth=max(overlay.depth(node), 0))]
    for cycle, dead in system.relay_notices[node]:
        after = overlay.without(dead)
        promoted = int(after.place[node] != overlay.place[node])
        found += _routes(after, node, cycle)
        found.append(Word(cycle, 1, dead, depth=max(after.depth(node), 0), promoted=promoted))
        overlay = after
    return tuple(found)


@lru_cache(maxsize=4096)
def _routes(overlay: Overlay, node: int, cycle: int) -> tuple[Word, ...]:
    ways = {}
    if overlay.radix:
        ways = {child: 2 + k for k, child in enumerate(overlay.children(node))}
        ways[overlay.parent(node)] = 1
    found = []
    for target in range(overlay.nodes):
        hop = overlay.route(node, target)
        found.append(Word(cycle, 0, target, hop if hop >= 0 else node, ways.get(hop, 0) if hop >= 0 else 0))
    return tuple(found)
