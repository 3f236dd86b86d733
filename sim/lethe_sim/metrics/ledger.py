"""The ledger of a run: what its events come to, taken piece by piece in memory that does not grow with the run.

Every figure is a whole number until the table is made, and none depends on the order of a cycle's events, so the
same run gives the same table wherever and in whatever pieces it is counted.
"""

import numpy as np

from lethe.spec.config import System
from lethe.spec.events import CAUSE_BITS, Event, Status
from lethe.spec.trace import DETAIL, EVENT, LENGTH, PEER
from lethe.spec.wire import UID_SLOT_SHIFT, UID_SOURCE_SHIFT
from lethe_sim.golden.compile import jit

from .places import places

#: Raw events with signed words, which compiled code handles alike everywhere.
_SIGNED = np.dtype([("cycle", "<i8"), ("unit", "<i4"), ("lane", "<i2"), ("word", "<i8"), ("uid", "<i8")])
#: Latencies below this many cycles are counted one by one; longer ones are listed.
SHORT = 1 << 16
#: Datagrams that are kept as the slowest, and as the unluckiest.
WORST = 5
_FOREVER = 1 << 62
# Codes that an event, and that a drop reason, may have.
_EVENTS, _REASONS = 1 << EVENT.bits, 1 << DETAIL.bits

# Parameters.
(_NODES, _SLOTS, _FLIT_BYTES, _FIRST, _LAST, _HOT, _PARAMETERS) = range(7)
# Totals, over the window.
(
    ACCEPTED, ACCEPTED_FLITS, DELIVERED, DELIVERED_FLITS, DELIVERED_BYTES, AGAIN, DOUBLED, LATE, LOST, OPEN, BY_RESET,
    LATENCY, LATENCIES, COMPLETION, COMPLETIONS, OTHERS, _OTHERS, MOST_SENDS, SLOT_TIME, _SLOTS_OPEN, ENTRY_TIME,
    _ENTRIES_OPEN, _TOTALS,
) = range(23)  # fmt: skip
# Columns of a node.
(SENT_FLITS, RECEIVED_FLITS, SLOTS_NOW, SLOTS_SINCE, SLOTS_MOST, ENTRIES_NOW, ENTRIES_SINCE, ENTRIES_MOST) = range(8)
# Levels: the first column of a node, the first total.
_SLOTS_HELD, _ENTRIES_HELD = (SLOTS_NOW, SLOT_TIME), (ENTRIES_NOW, ENTRY_TIME)
# Columns of a slot: the datagram that lives in it.
_UID, _ACCEPTED_AT, _SENDS, _DELIVERED_AT = range(4)
# Columns of one of the worst: its key, then what is told of it.
_KEY, _WORST_UID, _WORST_ACCEPTED, _WORST_LATENCY, _WORST_SENDS = range(5)

_SEND, _BE, _DELIVER, _DELIVER_BE = int(Event.SEND), int(Event.BE), int(Event.DELIVER), int(Event.DELIVER_BE)
_DROP, _FORGOTTEN, _ORPHAN, _SWEPT = int(Event.DROP), int(Event.FORGOTTEN), int(Event.ORPHAN), int(Event.SWEPT)
_ACCEPT, _COMPLETE, _RESET = int(Event.ACCEPT), int(Event.COMPLETE), int(Event.RESET)
_GOOD = int(Status.ACCEPTED)
_DETAIL, _PEER, _LENGTH = DETAIL.shift, PEER.shift, LENGTH.shift
_SLOT_SHIFT, _SOURCE_SHIFT = UID_SLOT_SHIFT, UID_SOURCE_SHIFT


@jit
def _clip(cycle, p):
    """``cycle``, moved into the window."""
    return min(max(cycle, p[_FIRST]), p[_LAST])


@jit
def _change(nodes, totals, p, node, level, by, cycle):
    """A level rises or falls; its most counts at the ends of cycles, whatever the order within one."""
    column, time = level
    if cycle != nodes[node, column + 1]:
        nodes[node, column + 2] = max(nodes[node, column + 2], nodes[node, column])
        nodes[node, column + 1] = cycle
    nodes[node, column] += by
    totals[time] -= by * _clip(cycle, p)
    totals[time + 1] += by


@jit
def _count(latency, short, longs, which, totals, total):
    """Count one latency, or list it."""
    totals[total] += latency
    totals[total + 1] += 1
    if latency < SHORT:
        short[which, latency] += 1
    else:
        longs[which, 0] += 1
        longs[which, longs[which, 0]] = latency


@jit
def _keep(worst, key, uid, accepted, latency, sends):
    """Keep a datagram if it is among the worst; of equals the first accepted, then the smaller UID."""
    place = WORST
    while place > 0:
        above = worst[place - 1]
        if above[_KEY] > key:
            break
        if above[_KEY] == key and (above[_WORST_ACCEPTED], above[_WORST_UID]) < (accepted, uid):
            break
        place -= 1
    if place == WORST:
        return
    for row in range(WORST - 1, place, -1):
        worst[row] = worst[row - 1]
    worst[place, _KEY], worst[place, _WORST_UID], worst[place, _WORST_ACCEPTED] = key, uid, accepted
    worst[place, _WORST_LATENCY], worst[place, _WORST_SENDS] = latency, sends


@jit
def _consume(
    events, place_of, p, totals, fates, drops, statuses, repeats, nodes, slots, short, longs, slowest, unlucky
):
    """Take events of whole cycles, in the order of cycles."""
    for n in range(len(events)):
        cycle, unit = events[n]["cycle"], events[n]["unit"]
        word = events[n]["word"]
        event, detail = word & _EVENTS - 1, word >> _DETAIL & _REASONS - 1
        within = p[_FIRST] <= cycle < p[_LAST]
        if within:
            fates[place_of[unit], event] += 1
        if unit >= p[_NODES]:
            continue
        if event == _DROP:
            drops[detail] += within
            continue
        if event in (_FORGOTTEN, _ORPHAN, _SWEPT):
            if nodes[unit, ENTRIES_NOW] > 0:
                _change(nodes, totals, p, unit, _ENTRIES_HELD, -1, cycle)
            continue
        if event == _RESET:
            _reset(unit, cycle, p, totals, nodes, slots)
            continue
        if event not in (_SEND, _BE, _DELIVER, _DELIVER_BE, _ACCEPT, _COMPLETE):
            continue
        uid = events[n]["uid"]
        source, number = uid >> _SOURCE_SHIFT, uid >> _SLOT_SHIFT & 0xFFFF
        length = word >> _LENGTH & 0xFFFF
        flits = -(-length // p[_FLIT_BYTES])
        if source >= p[_NODES] or number >= p[_SLOTS]:
            continue
        slot = slots[source * p[_SLOTS] + number]
        if event == _ACCEPT:
            slot[_UID], slot[_ACCEPTED_AT], slot[_SENDS], slot[_DELIVERED_AT] = uid, cycle, 0, -1
            _change(nodes, totals, p, unit, _SLOTS_HELD, 1, cycle)
            if within:
                totals[ACCEPTED] += 1
                totals[ACCEPTED_FLITS] += flits
                totals[OPEN] += 1
            continue
        mine = slot[_UID] == uid
        measured = mine and p[_FIRST] <= slot[_ACCEPTED_AT] < p[_LAST]
        if event in (_SEND, _BE):
            repeats[0] += within and detail > 0 and event == _SEND
            if mine:
                slot[_SENDS] += 1
        elif event == _COMPLETE:
            statuses[detail >> CAUSE_BITS] += within
            if not mine:
                continue
            _change(nodes, totals, p, source, _SLOTS_HELD, -1, cycle)
            if measured:
                totals[OPEN] -= 1
                totals[MOST_SENDS] = max(totals[MOST_SENDS], slot[_SENDS])
                totals[LOST] += detail >> CAUSE_BITS == _GOOD and slot[_DELIVERED_AT] < 0
                if detail >> CAUSE_BITS == _GOOD:
                    _count(cycle - slot[_ACCEPTED_AT], short, longs, 1, totals, COMPLETION)
                latency = slot[_DELIVERED_AT] - slot[_ACCEPTED_AT] if slot[_DELIVERED_AT] >= 0 else np.int64(-1)
                _keep(slowest, latency, uid, slot[_ACCEPTED_AT], latency, slot[_SENDS])
                _keep(unlucky, slot[_SENDS], uid, slot[_ACCEPTED_AT], latency, slot[_SENDS])
            slot[_UID] = 0
        else:
            if event == _DELIVER:
                _change(nodes, totals, p, unit, _ENTRIES_HELD, 1, cycle)
            if within:
                totals[DELIVERED] += 1
                totals[DELIVERED_FLITS] += flits
                totals[DELIVERED_BYTES] += length
                nodes[source, SENT_FLITS] += flits
                nodes[unit, RECEIVED_FLITS] += flits
                totals[LATE] += not mine
                totals[DOUBLED] += mine and slot[_DELIVERED_AT] >= 0
            if mine and slot[_DELIVERED_AT] < 0:
                slot[_DELIVERED_AT] = cycle
                if measured:
                    _count(cycle - slot[_ACCEPTED_AT], short, longs, 0, totals, LATENCY)
                    if p[_HOT] >= 0 and unit != p[_HOT]:
                        _count(cycle - slot[_ACCEPTED_AT], short, longs, 2, totals, OTHERS)


@jit
def _reset(node, cycle, p, totals, nodes, slots):
    """A node forgets: its slots and entries are empty."""
    for number in range(p[_SLOTS]):
        slot = slots[node * p[_SLOTS] + number]
        if slot[_UID] != 0:
            if p[_FIRST] <= slot[_ACCEPTED_AT] < p[_LAST]:
                totals[OPEN] -= 1
                totals[BY_RESET] += 1
            slot[_UID] = 0
    for level in (_SLOTS_HELD, _ENTRIES_HELD):
        _change(nodes, totals, p, node, level, -nodes[node, level[0]], cycle)


class RunLedger:
    """What the events of one run come to.

    Parameters
    ----------
    system : the run's configuration
    warmup : cycles at the beginning that are not measured
    window : cycles after them that are; 0 is all

    Rates count what happens within the window; latencies are of the datagrams that are accepted within it.
    """

    def __init__(self, system: System, *, warmup: int = 0, window: int = 0):
        self.system, self.warmup, self.window = system, warmup, window
        nodes, slots = system.nodes, system.ni.slots
        last = warmup + window if window else _FOREVER
        load = system.workload
        hot = load.node if (load.kind, load.pattern) == ("pattern", "hotspot") else -1
        self.p = np.array([nodes, slots, system.format.flit_bytes, warmup, last, hot], np.int64)
        self.places, self._place_of = places(system.layout)
        self.totals = np.zeros(_TOTALS, np.int64)
        self.fates = np.zeros((len(self.places), _EVENTS), np.int64)
        self.drops, self.statuses = np.zeros(_REASONS, np.int64), np.zeros(16, np.int64)
        self._repeats = np.zeros(1, np.int64)
        self.nodes = np.zeros((nodes, ENTRIES_MOST + 1), np.int64)
        self._slots = np.zeros((nodes * slots, _DELIVERED_AT + 1), np.int64)
        self._short = np.zeros((3, SHORT), np.int64)
        self._long: tuple[list[np.ndarray], ...] = ([], [], [])
        self._worst = np.full((2, WORST, _WORST_SENDS + 1), -1, np.int64)

    def append(self, events: np.ndarray) -> None:
        """Add raw events (`trace.RAW_EVENT`) of whole cycles, later than all before, ordered by cycle."""
        longs = np.zeros((3, len(events) + 1), np.int64)
        _consume(
            events.view(_SIGNED), self._place_of, self.p, self.totals, self.fates, self.drops, self.statuses,
            self._repeats, self.nodes, self._slots, self._short, longs, *self._worst,
        )  # fmt: skip
        for kept, found in zip(self._long, longs, strict=True):
            if found[0]:
                kept.append(found[1 : found[0] + 1])

    @property
    def repeats(self) -> int:
        """Sends that were not the first of their datagram."""
        return int(self._repeats[0])

    def settled(self, cycle: int) -> bool:
        """Whether the window is over at the end of ``cycle`` cycles, and with it every datagram it measures."""
        return bool(self.window) and cycle >= self.warmup + self.window and self.totals[OPEN] == 0

    def span(self, cycles: int) -> int:
        """Cycles measured, of a run of ``cycles``."""
        return max(0, min(cycles, int(self.p[_LAST])) - self.warmup)

    def level_time(self, time: int, cycles: int) -> int:
        """Cycles times slots (``SLOT_TIME``) or entries (``ENTRY_TIME``) in use within the window, over all nodes."""
        return int(self.totals[time]) + int(self.totals[time + 1]) * max(self.warmup, min(cycles, int(self.p[_LAST])))

    def most(self, now: int) -> int:
        """The most that a node had of slots (``SLOTS_NOW``) or entries (``ENTRIES_NOW``) in the whole run."""
        return int(max(self.nodes[:, now].max(), self.nodes[:, now + 2].max()))

    def percentile(self, which: int, share: float) -> int:
        """Nearest-rank percentile: the least latency that ``share`` of them do not exceed.

        ``which`` is 0 for acceptance to delivery, 1 for acceptance to completion, 2 for acceptance to delivery at
        nodes that are not the hotspot.  There must be one at least.
        """
        listed = np.sort(np.concatenate(self._long[which])) if self._long[which] else np.zeros(0, np.int64)
        counted = np.cumsum(self._short[which])
        rank = max(1, int(np.ceil(round(share * int(counted[-1] + len(listed)), 6))))
        if rank <= counted[-1]:
            return int(np.searchsorted(counted, rank))
        return int(listed[rank - 1 - int(counted[-1])])

    @property
    def slowest(self) -> list[dict[str, int]]:
        """The measured datagrams that took longest, the worst first: uid, accepted_at, latency, sends."""
        return self._told(self._worst[0])

    @property
    def unlucky(self) -> list[dict[str, int]]:
        """Those that were sent most often; a latency of −1 was never delivered."""
        return self._told(self._worst[1])

    @staticmethod
    def _told(worst: np.ndarray) -> list[dict[str, int]]:
        names = ("uid", "accepted_at", "latency", "sends")
        return [dict(zip(names, map(int, row[1:]), strict=True)) for row in worst if row[_KEY] >= 0]
