"""What is looked for, and the kernels that look at datagrams and receive-table entries.

A kernel of a group yields findings: tables with the columns `FOUND`.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from lethe.spec import stages
from lethe.spec.config import System
from lethe.spec.events import CAUSE_BITS, ERASURES, MOST_CAUSE, Cause, Event, Kind, Status
from lethe.spec.wire import UID_INCARNATION_SHIFT, UID_SLOT_SHIFT, UID_SOURCE_SHIFT

from .columns import NULL, nullable, runs, text
from .datagrams import Ledger
from .group import Group, generation_of, incarnation_of, slot_of

#: Name of a finding → what it means, for those who read a report.
FINDINGS = {
    "lost": "accepted, but never delivered, although its sender was told otherwise or told nothing",
    "doubled": "delivered more than once, without a sweep between",
    "altered": "delivered with another length, kind, source or destination than it was accepted with",
    "invented": "sent or delivered before it was accepted, or without ever having been; or rejected without reason",
    "misreported": "its completion contradicts what happened",
    # T6
    "late": "sent again after it had ended",
    "disordered": "a worm arrived where and when none was launched for it, or relay posted a message before one that "
    "was sent earlier: order was not kept",
    "held": "its slot was never given back",
    "remembered": "the receiver still remembers it at the end",
    "misnamed": "a datagram to the own node whose UID is not the next one of its loop, or while too many are under "
    "way, or a message of relay in a slot that another still has",
    "misnumbered": "a message whose number is not the next one: of its stream, in relay of its origin",
    "overrun": "a message came to a port, or to a Post of relay, that has no room for it",
    "unasked": "a relay's data were sent again although nobody asked for them",
    "kept": "a relay sent data again that it had held for longer than it may",
    "untaken": "what the receiving host took is not what was delivered to it",
    "outside": "an event outside the run's cycles, units or ports",
    "miscounted": "the counters or sums of the run contradict its events",
    "garbled": "a row that contradicts itself, lacks a cell, or is of another run",
    "misplaced": "a row that does not come after the one before it: rows are doubled, or not in order",
    "reset": "a reset or death that was scheduled and did not happen, or happened and was not scheduled",
    "dead": "an event of a node that had died or of a relay that had halted, or a message of one that was away",
    "changed": "rows or metadata that are not what the run wrote: another digest, number or seal",
}

#: The causes that a datagram of each status can have.
CAUSES = {
    Status.ACCEPTED: (Cause.NONE,),
    Status.UNKNOWN: (
        Cause.RETRY_LIMIT, Cause.DEADLINE, Cause.CANCELLED, Cause.BEST_EFFORT, Cause.RESTARTED, Cause.SILENT,
    ),
    Status.REJECTED: (Cause.DESTINATION, Cause.LENGTH, Cause.MODE, Cause.CLASS),
    Status.NEVER_SENT: (Cause.CANCELLED, Cause.SILENT),
}  # fmt: skip


def completions(system: System) -> np.ndarray:
    """By Status << 4 | Cause: whether a system's datagrams can end so."""
    options = {
        Cause.CLASS: system.ni.control_slots > 0,
        Cause.RESTARTED: system.ni.reject,
        Cause.SILENT: system.timers.silent_after > 0,
    }
    possible = np.zeros(1 << 8, bool)
    for status, causes in CAUSES.items():
        possible[[status << CAUSE_BITS | cause for cause in causes if options.get(cause, True)]] = True
    return possible


#: Columns of findings: `uid`, `cycle`, `unit` and `peer` are null where a finding is about none.
FOUND = pa.schema(
    [
        ("run", pa.string()),
        ("finding", pa.string()),
        ("uid", pa.int64()),
        ("cycle", pa.int64()),
        ("unit", pa.int32()),
        ("peer", pa.int32()),
        ("note", pa.string()),
    ]
)


def found(
    run: str, name: str, *, uid: np.ndarray, cycle: np.ndarray, unit: np.ndarray, peer: np.ndarray, note: pa.Array | str
) -> pa.Table:
    """Findings of one name, with a note for each or for all."""
    size = len(cycle)
    notes = pa.repeat(pa.scalar(note), size) if isinstance(note, str) else note
    columns = [
        pa.repeat(pa.scalar(run), size), pa.repeat(pa.scalar(name), size), nullable(uid, pa.int64()),
        nullable(cycle, pa.int64()), nullable(unit, pa.int32()), nullable(peer, pa.int32()), notes,
    ]  # fmt: skip
    return pa.Table.from_arrays(columns, schema=FOUND)


def differs(ends: tuple[np.ndarray, np.ndarray], wanted: np.ndarray) -> np.ndarray:
    """Whether the least or the greatest is another than ``wanted``, where both are known."""
    least, most = ends
    return (least != NULL) & (wanted != NULL) & ((least != wanted) | (most != wanted))


def about_datagrams(group: Group, ledger: Ledger) -> Iterator[pa.Table]:
    """What breaks a rule of a datagram; one that a reset or a death touched is not judged."""
    run, end = group.run, group.run.drained
    d = ledger
    delivered, sent, status = d.delivered, d.sent, d.status
    completed, exactly_once = d.completes > 0, d.kind == Kind.SEND
    given_back, told = d.releases + d.give_ups, status == Status.ACCEPTED
    unsent = np.isin(status, (Status.REJECTED, Status.NEVER_SENT))

    lost = (delivered == 0) & ((d.releases > 0) | told)
    if end:
        lost |= exactly_once & (delivered == 0) & (d.completes + d.give_ups == 0)
    altered = (
        differs(d.delivered_length, d.length)
        | differs(d.delivered_to, d.destination)
        | differs(d.delivered_from, d.accepted_by)
        | (d.accepted_by != d.source)
        | np.where(exactly_once, d.deliver_bes + d.best_efforts > 0, d.delivers + d.sends > 0)
    )
    appeared = _least(d.first_send, d.delivered_at)
    invented = (
        ((d.accepts == 0) & (delivered + sent + d.completes > 0))
        | ((appeared != NULL) & (appeared < d.accepted_at))
        | (d.accepts > 1)
        | ((delivered > 0) & ((d.first_send == NULL) | (d.first_send > d.delivered_at)))
        | differs(d.sent_by, d.source)
        | (d.rejects > d.unexpected)
    )
    misreported = (
        (d.completes > 1)
        | (given_back > 1)
        | (completed & (given_back == 0))
        | (told & (d.releases == 0))
        | (completed & ~told & (d.give_ups == 0))
        | (completed & (d.completion & MOST_CAUSE != np.maximum(d.cause, 0)))
        | (unsent & (sent + delivered > 0))
        | (completed & ~completions(group.system)[d.completion])
        # A data slot takes every class; what was never launched is NEVER_SENT; only a REJECT tells of a restart.
        | ((d.cause == Cause.CLASS) & (slot_of(d.uid) < group.system.ni.slots - group.system.ni.control_slots))
        | ((d.cause == Cause.SILENT) & (status == Status.UNKNOWN) & (sent == 0))
    )

    def note_lost(d: Ledger) -> pa.Array:
        return pa.array(
            np.where(d.completes > 0, "its sender was told ACCEPTED", "its sender was told nothing"), pa.string()
        )

    def note_altered(d: Ledger) -> pa.Array:
        return text(
            "accepted", d.length, "bytes for node", d.destination, "from node", d.accepted_by, "but delivered",
            d.delivered_length[1], "bytes at node", d.delivered_to[1], "from node", d.delivered_from[1],
        )  # fmt: skip

    rules = {
        "lost": (lost, d.ended_at, note_lost),
        # What a sweep erased may come again: its service has seen to it that this is right.
        "doubled": (delivered > 1 + d.swept, d.delivered_at, lambda d: text("delivered", d.delivered, "times")),
        "altered": ((d.accepts > 0) & altered, d.delivered_at, note_altered),
        "invented": (
            invented,
            d.first,
            lambda d: commas(text("accepted", d.accepts), text("sent", d.sent), text("delivered", d.delivered)),
        ),
        "misreported": (
            misreported,
            d.ended_at,
            lambda d: commas(
                text("completed", d.completes, "times"), text("released", d.releases), text("given up", d.give_ups),
                text("sent", d.sent), text("delivered", d.delivered),
            ),
        ),
        # A Send can still be judged in the cycle in which its datagram ends.  The trace shows it later.
        "late": (
            (d.ended_at != NULL) & (d.last_send > d.ended_at + stages.SHOWN - stages.JUDGED),
            d.last_send,
            lambda d: text("ended in cycle", d.ended_at),
        ),
        "held": (
            np.bool_(end) & (d.accepts > 0) & (d.completes == 0),
            d.last,
            lambda d: "no completion was taken",
        ),
    }  # fmt: skip
    for name, (broken, cycle, note) in rules.items():
        which = np.flatnonzero(broken & ~d.by_reset)
        if len(which):
            some, cycles = d[which], cycle[which]
            yield found(
                run.name, name, uid=some.uid, cycle=np.where(cycles != NULL, cycles, some.last), unit=some.source,
                peer=np.where(some.destination != NULL, some.destination, some.delivered_to[1]), note=note(some),
            )  # fmt: skip


def commas(*parts: pa.Array) -> pa.Array:
    import pyarrow.compute as pc

    return pc.binary_join_element_wise(*parts, ", ")


def _least(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The smaller of two numbers, or the one that is there."""
    return np.where(a == NULL, b, np.where(b == NULL, a, np.minimum(a, b)))


def remembered(group: Group, ledger: Ledger) -> Iterator[pa.Table]:
    """Receive-table entries that a drained run leaves behind."""
    if not group.run.drained or not _may_remember(group, ledger):
        return
    rows = group.of(Event.DELIVER, *ERASURES).rows
    unit, uid, cycle = group.unit[rows], group.uid[rows], group.cycle[rows]
    came = group.event[rows] == Event.DELIVER
    source, slot = group.source[rows], slot_of(uid)
    order, starts = runs(unit, source, slot)

    def last(values: np.ndarray) -> np.ndarray:
        return np.maximum.reduceat(values[order], starts)

    delivered_at, gone = last(np.where(came, cycle, NULL)), last(np.where(came, NULL, cycle))
    first = order[starts]
    unit, source, slot = unit[first], source[first], slot[first]
    generation = last(np.where(came, cycle << 20 | generation_of(uid), NULL)) & 0xF_FFFF
    incarnation = last(np.where(came, cycle << 8 | incarnation_of(uid), NULL)) & 0xFF
    left = delivered_at > gone
    for reset in group.system.node_resets:
        left &= ~((unit == reset.node) & (delivered_at < reset.start + reset.cycles))
    packed = source << UID_SOURCE_SHIFT | incarnation << UID_INCARNATION_SHIFT | slot << UID_SLOT_SHIFT | generation
    if left.any():
        yield found(
            group.run.name, "remembered", uid=packed[left], cycle=delivered_at[left], unit=unit[left],
            peer=source[left], note="neither forgotten nor reclaimed after this",
        )  # fmt: skip


def _may_remember(group: Group, ledger: Ledger) -> bool:
    """Whether the entry of any datagram may outlive the run; if each is closed, none is left."""
    left = group.of(*ERASURES)
    at, least, most = left.most("cycle"), left.least("unit"), left.most("unit")
    here = (ledger.delivered_to[0] == least) & (ledger.delivered_to[1] == most) & (least == most)
    closed = (ledger.delivers == 1) & here & (at > ledger.delivered_at)
    return bool(((ledger.delivers > 0) & ~closed).any())
