"""The loop: every own datagram is stored once, completed once, and taken once, in order (cycle contract, 10.1).

Slots and generations follow each other, so in an epoch each own datagram has a number: the first is 0.  A refused one
has a number too, but no LOOPED.  Completions come in the order of the numbers.  Records have no UID; they are taken in
the order in which they were stored.
"""

from collections import Counter as Multiset
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from lethe.spec.events import CAUSE_BITS, Cause, Event, Status
from lethe_sim.ledger.audit import Number
from lethe_sim.ledger.columns import NULL, runs, starts_of, text
from lethe_sim.ledger.group import generation_of, incarnation_of, slot_of, source_of
from lethe_sim.ledger.sums import histogram, percentiles, rounded

from .service import Audited, ServiceRows

#: Cycles from LOOPED to the first in which the host can take record and completion.
_OFFERED = 2
#: What the completion of an own datagram can say.
_ENDS = (
    Status.ACCEPTED << CAUSE_BITS | Cause.NONE,
    *(Status.REJECTED << CAUSE_BITS | cause for cause in (Cause.MODE, Cause.LENGTH, Cause.RESTARTED)),
)


class _Loop:
    """The rows of loops, and which of them are about one datagram.

    Attributes
    ----------
    looped, completes, takes : places of rows, in their order
    step : of each completion, how far its number is from that of the one before it
    stored, completed : of each LOOPED, of each completion the number of its datagram
    ahead : of each LOOPED, how many datagrams before its own have no completion yet
    completion : of each LOOPED the place of its completion; storage : of each completion that of its LOOPED
    record : of each take the place of the LOOPED that it takes; `NULL` where there is none
    """

    def __init__(self, rows: ServiceRows):
        self.rows = rows
        self.looped, self.completes, self.takes = (
            rows.of(event) for event in (Event.LOOPED, Event.LOOP_COMPLETE, Event.LOOP_TAKE)
        )
        slots, names = rows.system.loop.slots, rows.system.loop.slots << rows.system.format.generation_bits
        turn = slot_of(rows.uid) - rows.system.ni.slots + slots * generation_of(rows.uid)

        epoch, done = rows.epoch[self.completes], turn[self.completes]
        first = starts_of(epoch)
        before = np.append(-1, done[:-1])[: len(done)]
        before[first] = -1
        self.step = (done - before) % names
        self.completed = _since(first, self.step) - 1

        # What was completed in earlier cycles of the epoch.
        later = np.searchsorted(_time(rows, self.completes), _time(rows, self.looped))
        known = (later > 0) & (np.append(NULL, epoch)[later] == rows.epoch[self.looped])
        due = np.where(known, np.append(NULL, self.completed)[later] + 1, 0)
        self.ahead = (turn[self.looped] - due) % names
        self.stored = due + self.ahead

        of_looped, of_completes, count = _together(rows.epoch[self.looped], self.stored, epoch, self.completed)
        self.completion = _first(self.completes, of_completes, count)[of_looped]
        self.storage = _first(self.looped, of_looped, count)[of_completes]
        order = [_rank(rows.epoch[places]) for places in (self.looped, self.takes)]
        of_looped, of_takes, count = _together(rows.epoch[self.looped], order[0], rows.epoch[self.takes], order[1])
        self.record = _first(self.looped, of_looped, count)[of_takes]

    def left(self) -> np.ndarray:
        """Of each epoch, how many records were stored and not taken at its end."""
        count = len(self.rows.epochs)
        stored, taken = (np.bincount(self.rows.epoch[places], minlength=count) for places in (self.looped, self.takes))
        return stored - taken


def _time(rows: ServiceRows, places: np.ndarray) -> np.ndarray:
    """Numbers that are ordered as epoch and cycle."""
    return rows.epoch[places] << 43 | rows.cycle[places]


def _since(starts: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Sums of steps up to each, from the last start on."""
    sums = np.cumsum(steps)
    return sums - np.repeat(sums[starts] - steps[starts], np.diff(np.append(starts, len(steps))))


def _rank(epoch: np.ndarray) -> np.ndarray:
    """The number of each row in its epoch."""
    return _since(starts_of(epoch), np.ones(len(epoch), np.int64)) - 1


def _together(epoch: np.ndarray, number: np.ndarray, *other: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """Equal labels for rows of two sets with equal epoch and number: (of the first set, of the other, how many)."""
    order, starts = runs(*(np.concatenate(both) for both in zip((epoch, number), other, strict=True)))
    labels = np.empty(len(order), np.int64)
    labels[order] = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(order))))
    return labels[: len(epoch)], labels[len(epoch) :], len(starts)


def _first(places: np.ndarray, labels: np.ndarray, count: int) -> np.ndarray:
    """By label the first of the places that have it, `NULL` if none has."""
    found = np.full(count, NULL, np.int64)
    found[labels[::-1]] = places[::-1]
    return found


def findings(rows: ServiceRows) -> Iterator[pa.Table]:
    """What breaks a rule of the loop."""
    loop = _Loop(rows)
    yield from _of_names(rows, loop)
    yield from _of_storage(rows, loop)
    yield from _of_completions(rows, loop)
    yield from _of_takes(rows, loop)


def _of_names(rows: ServiceRows, loop: _Loop) -> Iterator[pa.Table]:
    first_slot, slots = rows.system.ni.slots, rows.system.loop.slots
    for places, in_turn, at_once in (
        (loop.looped, (loop.ahead < slots) & _rising(rows, loop), True),
        (loop.completes, loop.step <= 1, False),
    ):
        uid = rows.uid[places]
        sound = (source_of(uid) == rows.node[places]) & in_turn
        sound &= (slot_of(uid) >= first_slot) & (slot_of(uid) < first_slot + slots)
        sound &= generation_of(uid) < 1 << rows.system.format.generation_bits
        # An ACCEPTED datagram keeps the name with which it was stored.
        keeps = np.zeros(len(places), bool) if at_once else rows.detail[places] >> CAUSE_BITS == Status.ACCEPTED
        sound &= keeps | (incarnation_of(uid) == rows.incarnation(places))
        if not sound.all():
            wrong = places[~sound]
            yield rows.found(
                "misnamed", wrong, text("slot", slot_of(rows.uid[wrong]), "generation", generation_of(rows.uid[wrong]))
            )


def _rising(rows: ServiceRows, loop: _Loop) -> np.ndarray:
    """Which LOOPED have a number that is not below that of the one before."""
    before = np.append(NULL, loop.stored[:-1])[: len(loop.stored)]
    before[starts_of(rows.epoch[loop.looped])] = NULL
    return loop.stored >= before


def _of_storage(rows: ServiceRows, loop: _Loop) -> Iterator[pa.Table]:
    looped = loop.looped
    altered = (rows.peer[looped] != rows.node[looped]) | (rows.detail[looped] != 0)
    altered |= (rows.length[looped] < 0) | (rows.length[looped] > rows.system.format.mtu)
    if altered.any():
        wrong = looped[altered]
        yield rows.found(
            "altered", wrong, text(rows.length[wrong], "bytes for node", rows.peer[wrong], "detail", rows.detail[wrong])
        )
    again = np.zeros(len(looped), bool)
    again[1:] = (loop.stored[1:] == loop.stored[:-1]) & (rows.epoch[looped][1:] == rows.epoch[looped][:-1])
    if again.any():
        yield rows.found("doubled", looped[again], "stored again")
    # Completions come in order, so a later one has overtaken this.
    most = np.full(len(rows.epochs), NULL, np.int64)
    np.maximum.at(most, rows.epoch[loop.completes], loop.completed)
    ended = rows.last & np.bool_(rows.run.drained)
    held = (loop.completion == NULL) & ((most[rows.epoch[looped]] > loop.stored) | ended[rows.epoch[looped]])
    if held.any():
        yield rows.found("held", looped[held], "no completion was taken")


def _of_completions(rows: ServiceRows, loop: _Loop) -> Iterator[pa.Table]:
    places, storage = loop.completes, loop.storage
    accepted = rows.detail[places] >> CAUSE_BITS == Status.ACCEPTED
    lost = accepted & (storage == NULL)
    if lost.any():
        yield rows.found("lost", places[lost], "its sender was told ACCEPTED, but it was never stored")
    stored = storage != NULL
    misreported = ~np.isin(rows.detail[places], _ENDS) | (rows.peer[places] != rows.node[places])
    misreported |= (rows.length[places] != NULL) | (loop.step == 0) | (stored & ~accepted)
    misreported |= stored & (rows.tag[places] != rows.tag[storage])
    misreported |= stored & (rows.uid[places] != rows.uid[storage])
    misreported |= stored & (rows.cycle[places] < rows.cycle[storage] + _OFFERED)
    if misreported.any():
        wrong, at = places[misreported], storage[misreported]
        yield rows.found(
            "misreported", wrong,
            text(
                "completed with detail", rows.detail[wrong], "and tag", rows.tag[wrong], "stored in cycle",
                np.where(at == NULL, NULL, rows.cycle[at]), "with tag", np.where(at == NULL, NULL, rows.tag[at]),
            ),
        )  # fmt: skip


def _of_takes(rows: ServiceRows, loop: _Loop) -> Iterator[pa.Table]:
    takes, record = loop.takes, loop.record
    shown = incarnation_of(rows.uid[record]) if rows.system.ni.source_incarnation else 0
    broken = (record == NULL) | (rows.length[takes] != rows.length[record]) | (rows.detail[takes] != shown)
    broken |= (rows.cycle[takes] < rows.cycle[record] + _OFFERED) | (rows.peer[takes] != rows.node[takes])
    broken |= (rows.uid[takes] != NULL) | (rows.tag[takes] != NULL)
    wrong = np.flatnonzero(broken)
    # What follows the first of an epoch follows from it.
    wrong = wrong[starts_of(rows.epoch[takes[wrong]])]
    if len(wrong):
        stored = np.where(record[wrong] == NULL, NULL, rows.uid[record[wrong]])
        yield rows.found(
            "untaken", takes[wrong],
            text(
                "took", rows.length[takes[wrong]], "bytes, detail", rows.detail[takes[wrong]], "stored",
                np.where(record[wrong] == NULL, 0, rows.length[record[wrong]]),
            ),
            uid=stored,
        )  # fmt: skip
    told = np.zeros(len(rows.epochs), bool)
    told[rows.epoch[takes[wrong]]] = True
    yield from _of_records_left(rows, loop, told)


def _of_records_left(rows: ServiceRows, loop: _Loop, told: np.ndarray) -> Iterator[pa.Table]:
    """What a reset loses, and what is left at the end; ``told`` are the epochs of which something is told already."""
    left, resets = loop.left(), rows.of(Event.LOOP_RESET)
    epoch = rows.epoch[resets]
    before = (epoch > 0) & (rows.unit[rows.epochs[epoch - 1]] == rows.unit[resets])
    due = np.where(before, left[epoch - 1], 0)
    named = (rows.uid[resets] != NULL) | (rows.peer[resets] != NULL) | (rows.tag[resets] != NULL)
    misjudged = (rows.length[resets] != due) & ~(before & told[epoch - 1])
    misjudged |= named | (rows.detail[resets] != 0)
    if misjudged.any():
        wrong = resets[misjudged]
        yield rows.found(
            "untaken", wrong, text("reset with", due[misjudged], "records stored, said", rows.length[wrong])
        )
    waiting = np.flatnonzero(rows.last & np.bool_(rows.run.drained) & (left != 0) & ~told)
    if len(waiting):
        ends = np.append(rows.epochs[1:], len(rows.cycle))[waiting] - 1
        nobody = np.full(len(ends), NULL)
        yield rows.found("untaken", ends, text(left[waiting], "more stored than taken"), uid=nobody)


def sums(rows: ServiceRows) -> Multiset:
    """How many were stored, taken, refused, and lost in resets; and how many waited how long to be taken."""
    loop = _Loop(rows)
    resets, taken = rows.of(Event.LOOP_RESET), loop.takes[loop.record != NULL]
    waits = rows.cycle[taken] - rows.cycle[loop.record[loop.record != NULL]]
    refused = rows.detail[loop.completes] >> CAUSE_BITS == Status.REJECTED
    waited = histogram(rounded(np.maximum(waits, 0)))
    return Multiset({
        "stored": len(loop.looped), "taken": len(loop.takes), "refused": int(refused.sum()),
        "lost": int(np.maximum(rows.length[resets], 0).sum()),
        **{("wait", cycles): count for cycles, count in waited.items()},
    })  # fmt: skip


def numbers(found: Multiset) -> tuple[Number, ...]:
    """What is told of a loop."""
    waits = Multiset({key[1]: count for key, count in found.items() if isinstance(key, tuple)})
    counts = (
        Number(found["stored"], "to the own node", "stored whole, and offered to the host that sent them"),
        Number(found["taken"], "taken", "records that the hosts took"),
        Number(found["refused"], "refused", "with a wrong mode or length, or for another incarnation"),
        Number(found["lost"], "lost in resets", "stored, and not yet taken when their node was reset"),
    )
    if not waits:
        return counts
    median = percentiles(waits)[0]
    return (
        *counts,
        Number(median, "cycles in the median", "from the cycle a datagram is stored to that in which it is taken"),
        Number(max(waits), "at most", "the longest of these times"),
    )


LOOP = Audited(findings=findings, sums=sums, numbers=numbers)
