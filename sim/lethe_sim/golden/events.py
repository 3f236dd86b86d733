"""Events as the model keeps them: rows of four 64-bit words (cycle, unit·256 + lane, event word, uid).

Row 0 of the buffer is no event: its first word counts the rows in use.
"""

import numpy as np

from lethe.spec import trace
from lethe.spec.events import (
    CAUSE_BITS,
    COUNTED,
    EVENTS,
    LINK_COUNTED,
    ROUTER_COUNTED,
    Event,
    LinkCounter,
    RouterCounter,
    Unit,
)
from lethe.spec.trace import DETAIL, EVENT, EXTRA, LANES, LENGTH, LINKS_PER_WORD, PEER

from .compile import apart, jit

# The counter of every code that an event or a drop reason may have; -1: none.
_BY_EVENT, _BY_ROUTER_EVENT, _BY_LINK_EVENT, _BY_SERVICE_EVENT = (np.full(1 << EVENT.bits, -1) for _ in range(4))
_BY_REASON = np.full(1 << DETAIL.bits, -1, np.int64)
for _counter, (_event, _reason) in COUNTED.items():
    if _event == Event.DROP:
        _BY_REASON[_reason] = _counter
    else:
        _BY_EVENT[_event] = _counter
for _router_counter, _event in ROUTER_COUNTED.items():
    _BY_ROUTER_EVENT[_event] = _router_counter
for _link_counter, _event in LINK_COUNTED.items():
    _BY_LINK_EVENT[_event] = _link_counter
for _event, _facts in EVENTS.items():
    if _facts.counters and not {Unit.NI, Unit.ROUTER, Unit.LINK} & {*_facts.units}:
        _BY_SERVICE_EVENT[_event] = _facts.counters[0]
COLUMNS = 4
lane_word = jit(trace.lane_word)
ROUTER_COUNTERS, LINK_COUNTERS = len(RouterCounter), len(LinkCounter)


@jit
def emit(ev, cycle, unit, lane, word, uid):
    """Record one event; ``word`` and ``uid`` are whole numbers below 2^63."""
    n = np.int64(ev[0]) + 1
    ev[0] = np.uint64(n)
    at = n * COLUMNS
    ev[at] = np.uint64(cycle)
    ev[at + 1] = np.uint64(unit << 8 | lane)
    ev[at + 2] = np.uint64(word)
    ev[at + 3] = np.uint64(uid)


@jit
def extend(ev, bits):
    """Set further bits of the latest event's word."""
    ev[np.int64(ev[0]) * COLUMNS + 2] |= bits


@jit
def event_word(event, detail, peer, length):
    """The event word of a lane of an NI or service; its extra bits, which may be the highest, are `extra`."""
    return event | detail << DETAIL.shift | peer << PEER.shift | length << LENGTH.shift


@jit
def fate(event, low):
    """The event word of what becomes of a head: its low data word loses the bits that have no place."""
    return np.uint64(event) | low << np.uint64(16)


@jit
def extra(tag):
    """A tag, at its place in an event word."""
    return np.uint64(tag) << np.uint64(EXTRA.shift)


@jit
def ending(status, cause):
    """How a datagram ended, as the detail of an event."""
    return status << CAUSE_BITS | cause


@jit
def mix64(x):
    """The finaliser of `lethe.spec.trace.mix64`."""
    x = (x ^ x >> np.uint64(30)) * np.uint64(0xBF58_476D_1CE4_E5B9)
    x = (x ^ x >> np.uint64(27)) * np.uint64(0x94D0_49BB_1331_11EB)
    return x ^ x >> np.uint64(31)


@jit
def settle(k, ev, start, digest, counters, router_counters, link_counters, service_counters):
    """Count the events from row ``start`` on, and add them to the digest."""
    nodes, routers = k.nodes, k.router_count
    total = digest[0]
    for n in range(start * COLUMNS, (np.int64(ev[0]) + 1) * COLUMNS, COLUMNS):
        word = ev[n + 2]
        h = mix64(ev[n] * np.uint64(0x9E37_79B9_7F4A_7C15) + ev[n + 1])
        total += mix64((h ^ word) + ev[n + 3] * np.uint64(0xD6E8_FEB8_6659_FD93))
        unit = np.int64(ev[n + 1] >> np.uint64(8))
        event = np.int64(word & np.uint64((1 << EVENT.bits) - 1))
        if unit < nodes:
            counter = _BY_EVENT[event]
            if event == Event.DROP:
                counter = _BY_REASON[np.int64(word >> np.uint64(DETAIL.shift) & np.uint64((1 << DETAIL.bits) - 1))]
            if counter >= 0:
                counters[unit * k.counters + counter] += np.uint64(1)
        elif unit < nodes + routers:
            router_counters[(unit - nodes) * ROUTER_COUNTERS + _BY_ROUTER_EVENT[event]] += np.uint64(1)
        elif unit >= k.first_service:
            counter = _BY_SERVICE_EVENT[event]
            if counter >= 0:
                service_counters[(unit - k.first_service) * k.service_counters + counter] += np.uint64(1)
        else:
            link_counters[(unit - nodes - routers) * LINK_COUNTERS + _BY_LINK_EVENT[event]] += np.uint64(1)
    digest[0] = total


@jit
def ni_words(k):
    """Trace words of one NI (`lethe.spec.trace.Layout.ni_words`)."""
    return lane_word(LANES + k.fifos - 1)


@apart
def write_words(k, ev, start, table, row):
    """Put the events from row ``start`` on into the trace words of their cycle."""
    nodes, routers = k.nodes, k.router_count
    per_ni, queued = ni_words(k), k.input_worms > 0 or k.pool > 0
    fabric_at = nodes * per_ni
    links_at = fabric_at + (k.port_count << queued)
    for n in range(start * COLUMNS, (np.int64(ev[0]) + 1) * COLUMNS, COLUMNS):
        unit, lane = np.int64(ev[n + 1] >> np.uint64(8)), np.int64(ev[n + 1] & np.uint64(0xFF))
        if unit < nodes:
            place = unit * per_ni + lane_word(lane)
            row[place], row[place + 1] = ev[n + 2], ev[n + 3]
        elif unit < nodes + routers:
            row[fabric_at + (table[unit - nodes].first_port << queued) + lane] = ev[n + 2]
        elif unit >= k.first_service:
            node, level = divmod(unit - k.first_service, k.services)
            place = k.service_base + node * k.service_words + k.rooms[level].at_words + 2 * lane
            row[place], row[place + 1] = ev[n + 2], ev[n + 3]
        else:
            link = unit - nodes - routers
            shift = np.uint64(EVENT.bits * (link % LINKS_PER_WORD))
            row[links_at + link // LINKS_PER_WORD] |= (ev[n + 2] & np.uint64((1 << EVENT.bits) - 1)) << shift
