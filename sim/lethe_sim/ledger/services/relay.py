"""Relay: each message is posted once, in the order of its stream (docs/reference/relay.md).

At a node, every message that is given ends once, in the order of its stream, every posted one is taken in order, and a
Post never holds more than its cells.  Between two nodes, what is posted is what was sent, without a gap, and what ended
ACCEPTED was posted (`POSTS`).  A node sends no data again that nobody asked for, and none that it may not hold any more
(`HOPS`).
"""

from collections import Counter as Multiset
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from lethe.spec.config import System
from lethe.spec.events import CAUSE_BITS, Cause, Event, Status
from lethe.spec.sections.relay import STAMP_CYCLES
from lethe.spec.services.relay import Type, type_of
from lethe_sim.ledger.audit import Number
from lethe_sim.ledger.columns import NULL, Columns, starts_of, text
from lethe_sim.ledger.findings import found
from lethe_sim.ledger.group import Run, incarnation_of, slot_of, source_of
from lethe_sim.ledger.sums import histogram, percentiles, rounded

from .meeting import met, rank, since
from .service import Audited, ServiceRows

#: What an origin and a destination had with each other: ``kind`` is one of `_SENT`, `_POSTED`, `_ACCEPTED`; ``life``
#: is the epoch of the node that shows it.
POSTS = {
    "sender": np.int32, "receiver": np.int32, "kind": np.int32, "cycle": np.int64, "uid": np.int64, "tag": np.int32,
    "length": np.int32, "life": np.int64,
}  # fmt: skip
_SENT, _POSTED, _ACCEPTED = range(3)
#: What a node (the receiver) had with the messages of an origin (the sender): ``kind`` is one of `_OUT`, `_CAUSE`,
#: `_ASKED`; ``replay`` of a hop; ``acked`` at their origin, how many ACKED it had heard by then.
HOPS = {
    "sender": np.int32, "receiver": np.int32, "kind": np.int32, "cycle": np.int64, "uid": np.int64, "tag": np.int32,
    "replay": np.int32, "acked": np.int64,
}  # fmt: skip
_OUT, _CAUSE, _ASKED = range(3)
#: What jobs show; beats of what was given before may still go out and be taken.
_DONE = tuple(
    event for event in Event
    if Event.RELAY_SEND <= event < Event.RELAY_RESET and event not in (Event.RELAY_HOP, Event.RELAY_TAKE)
)  # fmt: skip


def _lag(system: System) -> int:
    """Cycles beyond `relay.cache_cycles` until data that are not asked for are gone.

    A look comes about every 64 cycles, and ends one record or frees one buffer.
    """
    relay = system.relay
    return STAMP_CYCLES * (relay.buffers + relay.records + 2) + 8 * system.format.max_flits


def _silence(system: System) -> int:
    """Cycles after which an origin that has told nothing, not even what was dropped, has no live message.

    Its watch tells of one again and again, a look about every 64 cycles, while the queue of control is half empty.  To
    come to that the queue may need a deadline and a time-out for each datagram.
    """
    relay, ni = system.relay, system.ni
    watch = relay.watch_cycles + 2 * STAMP_CYCLES * (max(relay.slots, relay.records) + 2)
    hop = relay.hop_cycles + system.longest_delays[-1] + system.retry_time(0) + system.rest
    return watch + (relay.control // 2 + 2) * hop // ni.control_slots


class _Relay:
    """The rows of relay at some nodes.

    Attributes
    ----------
    sends, ends, posts, takes, hops, heard, notices : places of rows, in their order
    taken : of each posted message the row in which it was taken, `NULL` if there is none
    """

    def __init__(self, rows: ServiceRows):
        self.rows = rows
        self.sends, self.ends, self.posts, self.takes, self.hops, self.heard, self.notices = (
            rows.of(event)
            for event in (
                Event.RELAY_SEND, Event.RELAY_END, Event.RELAY_POST, Event.RELAY_TAKE, Event.RELAY_HOP,
                Event.RELAY_HEARD, Event.RELAY_NOTICE,
            )
        )  # fmt: skip
        into, out = (rank(rows.epoch[places]) for places in (self.posts, self.takes))
        taken, self.posted = met(rows.epoch[self.posts], into, rows.epoch[self.takes], out)
        self.taken = np.append(self.takes, NULL)[taken]

    def of_type(self, kind: Type) -> np.ndarray:
        """The rows in which control of a type was heard."""
        return self.heard[type_of(self.rows.detail[self.heard]) == kind]

    def message(self, places: np.ndarray) -> np.ndarray:
        """A number for each message and epoch, of rows at its origin."""
        slot = slot_of(self.rows.uid[places])
        return (self.rows.epoch[places] << 16 | slot) << 16 | self.rows.tag[places].astype(np.int64) & 0xFFFF

    def received(self, places: np.ndarray) -> np.ndarray:
        """A number for each message and epoch, of rows at its destination; two calls give different ones."""
        epoch, uid, tag = self.rows.epoch[places], self.rows.uid[places], self.rows.tag[places]
        return np.unique(np.stack([epoch, uid, tag], 1), axis=0, return_inverse=True)[1].reshape(-1)


def findings(rows: ServiceRows) -> Iterator[pa.Table]:
    """What breaks a rule of relay at a node."""
    relay = rows.once(_Relay)
    yield from _of_ends(rows, relay)
    yield from _of_uids(rows, relay)
    yield from _of_takes(rows, relay)
    yield from _of_cells(rows, relay)
    yield from _of_halts(rows)


def _of_ends(rows: ServiceRows, relay: _Relay) -> Iterator[pa.Table]:
    """Each message ends once, ACCEPTED, or as UNKNOWN after its origin was told that its destination is dead."""
    sends, ends = relay.sends, relay.ends
    begun, ended = relay.message(sends), relay.message(ends)
    end, send = met(begun, rank(begun), ended, rank(ended))
    of = np.append(sends, NULL)[send]
    wrong = (of == NULL) | (rows.cycle[ends] <= rows.cycle[of]) | (rows.peer[ends] != rows.peer[of])
    accepted = rows.detail[ends] == Status.ACCEPTED << CAUSE_BITS | Cause.NONE
    silent = rows.detail[ends] == Status.UNKNOWN << CAUSE_BITS | Cause.SILENT
    wrong |= ~accepted & ~(silent & _told(rows, relay, ends))
    if wrong.any():
        at = ends[wrong]
        yield rows.found("misreported", at, text("ended with detail", rows.detail[at], "and uid", rows.tag[at]))
    ended = np.append(ends, NULL)[end]
    held = _never_ended(rows, relay, ended)
    if held.any():
        yield rows.found("held", sends[held], "the message never ended")
    before, after = _neighbours(rows, sends)
    early = (ended[before] != NULL) & (ended[after] != NULL)
    early &= rows.cycle[ended[after]] <= rows.cycle[ended[before]]
    if early.any():
        yield rows.found("misreported", ended[after[early]], "ended before one that was given to its stream earlier")
    # Its slot is another message's only after its end.
    order = np.lexsort((rows.cycle[sends], slot_of(rows.uid[sends]), rows.epoch[sends]))
    ordered, until = sends[order], np.where(ended == NULL, np.iinfo(np.int64).max, rows.cycle[ended])[order]
    same = np.ones(len(ordered), bool)
    same[starts_of(rows.epoch[ordered], slot_of(rows.uid[ordered]))] = False
    early = same & (rows.cycle[ordered] <= np.append(0, until[:-1])[: len(ordered)])
    if early.any():
        yield rows.found("misnamed", ordered[early], "its slot is still that of a live message")


def _never_ended(rows: ServiceRows, relay: _Relay, ended: np.ndarray) -> np.ndarray:
    """Which of the sends have no end (`NULL` in ``ended``) and must have one.

    Nothing is under way any more; or a later message of the stream has ended; or the origin has said since that nothing
    of the stream is live (M4); or it lives and asks for nothing.
    """
    sends, epoch, system = relay.sends, rows.epoch[relay.sends], rows.system
    must = (rows.last & np.bool_(rows.run.drained))[epoch]
    before, after = _neighbours(rows, sends)
    must[before] |= ended[after] != NULL
    tells = np.concatenate([rows.of(event) for event in (Event.RELAY_TOLD, Event.RELAY_DROPPED)])
    must |= rows.cycle[sends] < _drained(rows, sends, tells)
    since = rows.run.cycles - _silence(system)
    speaks = rows.epoch[tells[rows.cycle[tells] >= since]]
    away = [absence.node for absence in system.faults.absences if absence.end > since]
    quiet = rows.last[epoch] & (rows.cycle[sends] < since) & ~np.isin(epoch, speaks)
    quiet &= ~np.isin(epoch, rows.epoch[rows.of(Event.RELAY_HALT)]) & ~np.isin(rows.node[sends], away)
    return (ended == NULL) & (must | quiet)


def _drained(rows: ServiceRows, sends: np.ndarray, tells: np.ndarray) -> np.ndarray:
    """Of each send the last cycle in which its origin told ACKACKED of the stream, `NULL` if it never did.

    ACKACKED names a uid, and by it the stream; one that was given twice (its low 16 bits) tells nothing.
    """

    def named(places: np.ndarray) -> np.ndarray:
        return rows.epoch[places] << 16 | rows.tag[places].astype(np.int64) & 0xFFFF

    said = tells[type_of(rows.detail[tells]) == Type.ACKACKED]
    said = said[source_of(rows.uid[said]) == rows.node[said]]
    names, first, counts = np.unique(named(sends), return_index=True, return_counts=True)
    names, first = names[counts == 1], first[counts == 1]
    said = said[np.isin(named(said), names)]
    stream = np.unique(np.stack([rows.epoch[sends], rows.peer[sends]], 1), axis=0, return_inverse=True)[1].reshape(-1)
    last = np.full(len(sends) + 1, NULL)
    np.maximum.at(last, stream[first[np.searchsorted(names, named(said))]], rows.cycle[said])
    return last[stream]


def _neighbours(rows: ServiceRows, sends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The places in ``sends`` of each message and the next one of its stream, where there is a next one."""
    epoch, peer = rows.epoch[sends], rows.peer[sends]
    order = np.lexsort((rows.cycle[sends], peer, epoch))
    before, after = order[:-1], order[1:]
    same = (epoch[before] == epoch[after]) & (peer[before] == peer[after])
    return before[same], after[same]


def _of_halts(rows: ServiceRows) -> Iterator[pa.Table]:
    """A relay that has halted does no job any more."""
    halts = rows.of(Event.RELAY_HALT)
    for event in _DONE if len(halts) else ():
        places = rows.of(event)
        after = since(rows.epoch[halts], rows.cycle[halts], rows.epoch[places], rows.cycle[places]) > 0
        if after.any():
            yield rows.found("dead", places[after], "relay had halted")


def _told(rows: ServiceRows, relay: _Relay, places: np.ndarray) -> np.ndarray:
    """Which rows come after a notice that their peer is dead."""

    def key(some: np.ndarray) -> np.ndarray:
        return rows.epoch[some] << 16 | rows.peer[some].astype(np.int64) & 0xFFFF

    return since(key(relay.notices), rows.cycle[relay.notices], key(places), rows.cycle[places]) > 0


def _of_uids(rows: ServiceRows, relay: _Relay) -> Iterator[pa.Table]:
    """Each uid of an origin is the one after that before it."""
    sends, bits = relay.sends, min(16, rows.system.relay.uid_bits)
    turn, first = (1 << bits) - (3 if bits < 16 else 0), starts_of(rows.epoch[sends])
    uid = rows.tag[sends].astype(np.int64) & 0xFFFF
    due = (np.append(0, uid[:-1])[: len(uid)] + 1) % turn
    due[first] = rows.system.relay.uid_first & 0xFFFF
    wrong = uid != due
    if bits == 16:  # the low 16 bits of the three numbers that are no uids are passed over
        wrong &= ~((uid == 0) & (due >= (1 << 16) - 3))
    wrong |= source_of(rows.uid[sends]) != rows.node[sends]
    wrong |= incarnation_of(rows.uid[sends]) != rows.incarnation(sends)
    if wrong.any():
        at = sends[wrong]
        yield rows.found("misnumbered", at, text("uid", rows.tag[at], "where", due[wrong], "is next"))


def _of_takes(rows: ServiceRows, relay: _Relay) -> Iterator[pa.Table]:
    """What the host takes is what was posted, in that order."""
    takes, of = relay.takes, np.append(relay.posts, NULL)[relay.posted]
    wrong = (of == NULL) | (rows.cycle[takes] <= rows.cycle[of])
    for name in ("peer", "length", "tag"):
        wrong |= getattr(rows, name)[takes] != getattr(rows, name)[of]
    wrong = np.flatnonzero(wrong)
    wrong = wrong[starts_of(rows.epoch[takes[wrong]])]  # what follows the first follows from it
    if len(wrong):
        at, post = takes[wrong], of[wrong]
        yield rows.found(
            "untaken", at,
            text(
                "took uid", rows.tag[at], "of", rows.length[at], "bytes, where uid",
                np.where(post == NULL, NULL, rows.tag[post]), "was posted",
            ),
        )  # fmt: skip
    left = relay.posts[(relay.taken == NULL) & (rows.last & np.bool_(rows.run.drained))[rows.epoch[relay.posts]]]
    if len(left):
        yield rows.found("untaken", left, text("uid", rows.tag[left], "was posted, and never taken"))


def _of_cells(rows: ServiceRows, relay: _Relay) -> Iterator[pa.Table]:
    """A Post holds at most its cells.  (What is parked and what is posted are told apart by their rows alone.)"""
    parks = rows.of(Event.RELAY_PARK)
    key, other = np.split(relay.received(np.concatenate([relay.posts, parks])), [len(relay.posts)])
    parked, _ = met(key, rank(key), other, rank(other))
    fresh = relay.posts[(parked == NULL) | (rows.cycle[relay.posts] <= rows.cycle[np.append(parks, NULL)[parked]])]
    places = np.concatenate([fresh, parks, relay.takes])
    adds = np.repeat([1, -1], [len(fresh) + len(parks), len(relay.takes)])
    order = np.lexsort((adds, rows.cycle[places], rows.epoch[places]))
    places, adds = places[order], adds[order]
    sums, starts = np.cumsum(adds), starts_of(rows.epoch[places])
    held = sums - np.repeat(sums[starts] - adds[starts], np.diff(np.append(starts, len(sums))))
    # A notice, and a newer incarnation of a source, free what is parked; no event says so.
    freed = np.isin(rows.epoch[places], rows.epoch[relay.notices[rows.peer[relay.notices] != rows.node[relay.notices]]])
    freed |= bool(rows.system.node_resets)
    over = places[(held > rows.system.relay.cells) & (adds > 0) & ~freed]
    if len(over):
        yield rows.found("overrun", over, text("more than", np.full(len(over), rows.system.relay.cells), "messages"))


def facts(rows: ServiceRows) -> dict[str, Columns]:
    """`POSTS` and `HOPS` of some nodes."""
    return {"posts": _posts(rows), "hops": _hops(rows)}


def _posts(rows: ServiceRows) -> Columns:
    relay = rows.once(_Relay)
    ended = relay.ends[rows.detail[relay.ends] == Status.ACCEPTED << CAUSE_BITS | Cause.NONE]
    places = np.concatenate([relay.sends, relay.posts, ended])
    kinds = np.repeat([_SENT, _POSTED, _ACCEPTED], [len(relay.sends), len(relay.posts), len(ended)])
    node, peer, posted = rows.node[places], rows.peer[places], kinds == _POSTED
    columns = {
        "sender": np.where(posted, peer, node), "receiver": np.where(posted, node, peer), "kind": kinds,
        "cycle": rows.cycle[places], "uid": rows.uid[places], "tag": rows.tag[places],
        "length": np.where(kinds == _ACCEPTED, NULL, rows.length[places]), "life": rows.epoch[places],
    }  # fmt: skip
    return {name: columns[name].astype(kind) for name, kind in POSTS.items()}


def _hops(rows: ServiceRows) -> Columns:
    relay = rows.once(_Relay)
    asked, acked = relay.of_type(Type.REQUESTED), relay.of_type(Type.ACKED)
    # A hop is one of its sender, and what comes to the next.
    parts = (relay.hops, relay.hops, relay.sends, asked)
    sizes = [len(part) for part in parts]
    places = np.concatenate(parts)
    kind = np.repeat([_OUT, _CAUSE, _CAUSE, _ASKED], sizes)
    arrives = np.repeat([False, True, False, False], sizes)
    node = rows.node[places]
    columns = {
        "sender": source_of(rows.uid[places]), "receiver": np.where(arrives, rows.peer[places], node), "kind": kind,
        "cycle": rows.cycle[places], "uid": rows.uid[places], "tag": rows.tag[places],
        "replay": np.where(kind == _OUT, rows.detail[places], 0),
        "acked": since(rows.node[acked], rows.cycle[acked], node, rows.cycle[places]),
    }  # fmt: skip
    return {name: columns[name].astype(kind) for name, kind in HOPS.items()}


def posted(run: Run, rows: Columns) -> Iterator[pa.Table]:
    """What of the messages between an origin and a destination is not posted as it was sent.

    A message is the last one with its slot, incarnation and 16 bits of uid that was sent before.
    """
    if not len(rows["sender"]):
        return
    stream = rows["sender"].astype(np.int64) << 16 | rows["receiver"]
    sent, came, accepted = (_in_order(rows, stream, kind) for kind in (_SENT, _POSTED, _ACCEPTED))
    message = np.unique(np.stack([stream, rows["uid"], rows["tag"]], 1), axis=0, return_inverse=True)[1].reshape(-1)
    lives = stream << 8 | incarnation_of(rows["uid"])
    number = rank(lives[sent])  # of each message in its stream

    def told(name: str, some: np.ndarray, note: str) -> pa.Table:
        return found(
            run.name, name, uid=rows["uid"][some], cycle=rows["cycle"][some],
            unit=rows["receiver"][some].astype(np.int64), peer=rows["sender"][some].astype(np.int64),
            note=text("uid", rows["tag"][some], note),
        )  # fmt: skip

    # Posted, and of which message.
    of = _before(message, rows["cycle"], sent, came)
    if (of == NULL).any():
        yield told("invented", came[of == NULL], "was posted, and never sent")
    came, of = came[of != NULL], of[of != NULL]
    wrong = rows["length"][came] != rows["length"][sent[of]]
    if wrong.any():
        yield told("altered", came[wrong], "was posted with another length than it was sent with")
    here = np.unique(np.stack([lives[came], rows["life"][came]], 1), axis=0, return_inverse=True)[1].reshape(-1)
    order = np.argsort(here, kind="stable")
    came, of, here = came[order], of[order], here[order]
    first = np.zeros(len(came), bool)
    first[starts_of(here)] = True
    step = number[of] - np.where(first, -1, np.append(-1, number[of][:-1])[: len(of)])
    if (step <= 0).any():
        yield told("doubled", came[step <= 0], "was posted again, or after a later one")
    if (step > 1).any():
        yield told("disordered", came[step > 1], "was posted before one that was sent earlier")

    # What its origin took for posted.
    lost = _before(message, rows["cycle"], came, accepted) == NULL
    if lost.any():
        yield told("lost", accepted[lost], "its origin was told that it is posted")


def _in_order(rows: Columns, stream: np.ndarray, kind: int) -> np.ndarray:
    some = np.flatnonzero(rows["kind"] == kind)
    return some[np.lexsort((rows["cycle"][some], stream[some]))]


def _before(message: np.ndarray, cycle: np.ndarray, known: np.ndarray, of: np.ndarray) -> np.ndarray:
    """For each row of ``of`` the place in ``known`` of the last row of the same message before it, `NULL` if none."""
    if not len(known) or not len(of):
        return np.full(len(of), NULL)
    shift = int(cycle.max()) + 2
    keys = message.astype(np.int64) * shift + cycle
    order = np.argsort(keys[known], kind="stable")
    place = np.searchsorted(keys[known][order], keys[of]) - 1
    at = order[place]
    return np.where((place >= 0) & (message[known[at]] == message[of]), at, NULL)


def replayed(run: Run, rows: Columns) -> Iterator[pa.Table]:
    """Data that a node sent on although nobody asked for them, or when it may not hold them any more.

    Each hop needs a cause of its own: the message was given, or came, or was asked for.  Its origin also sends the
    first message of a stream again when an ACKED says so, which may be about any.
    """
    if not len(rows["sender"]):
        return
    node = rows["receiver"].astype(np.int64)
    message = np.unique(np.stack([node, rows["uid"], rows["tag"]], 1), axis=0, return_inverse=True)[1].reshape(-1)
    out = np.flatnonzero(rows["kind"] == _OUT)
    out = out[np.lexsort((rows["cycle"][out], message[out]))]
    causes = np.flatnonzero(rows["kind"] != _OUT)
    cycle = rows["cycle"]
    number, due = rank(message[out]), since(message[causes], cycle[causes], message[out], cycle[out])
    own = rows["sender"][out] == node[out]
    wrong = number >= due + np.where(own, rows["acked"][out], 0)

    # A relay held the data from its last hop with them until it was first asked; then they may wait for their turn.
    # That holds only if all data that came have gone on: of the hops before, one for each request may be a repeat.
    asked, came = np.flatnonzero(rows["kind"] == _ASKED), np.flatnonzero(rows["kind"] == _CAUSE)
    last = np.append(0, cycle[out][:-1])[: len(out)]
    until = last + run.system.relay.cache_cycles + _lag(run.system)
    before, in_time, in_all = (
        since(message[asked], cycle[asked], message[out], end) for end in (last, until, cycle[out])
    )
    held = number - before >= since(message[came], cycle[came], message[out], cycle[out])
    kept = held & ~own & (in_time == before) & (in_all > before)
    for name, which, note in (
        ("kept", kept, "was held longer than relay.cache_cycles"), ("unasked", wrong, "was sent on, and nobody asked")
    ):  # fmt: skip
        if which.any():
            at = out[which]
            yield found(
                run.name, name, uid=rows["uid"][at], cycle=cycle[at], unit=node[at],
                peer=rows["sender"][at].astype(np.int64), note=text("uid", rows["tag"][at], note),
            )  # fmt: skip


def sums(rows: ServiceRows) -> Multiset:
    """How many messages were sent, refused, posted, sent again and by whom; how many waited how long for their host."""
    relay = rows.once(_Relay)
    counted = {
        name: len(rows.of(event))
        for name, event in (
            ("sent", Event.RELAY_SEND), ("refused", Event.RELAY_REFUSED), ("posted", Event.RELAY_POST),
            ("taken", Event.RELAY_TAKE), ("hops", Event.RELAY_HOP), ("told", Event.RELAY_TOLD),
            ("dropped", Event.RELAY_DROPPED), ("notices", Event.RELAY_NOTICE), ("evicted", Event.RELAY_EVICT),
            ("expired", Event.RELAY_EXPIRE), ("owed", Event.RELAY_OWED), ("untracked", Event.RELAY_UNTRACKED),
            ("hungry", Event.RELAY_HUNGRY), ("halted", Event.RELAY_HALT),
        )
    }  # fmt: skip
    again = relay.hops[rows.detail[relay.hops] == 1]
    own = source_of(rows.uid[again]) == rows.node[again]
    ends = rows.detail[relay.ends]
    took = relay.taken != NULL
    waits = histogram(rounded(np.maximum(rows.cycle[relay.taken[took]] - rows.cycle[relay.posts[took]], 0)))
    resets = rows.of(Event.RELAY_RESET)
    return Multiset({
        **counted, "by origins": int(own.sum()), "by relays": int((~own).sum()),
        "unknown": int((ends >> CAUSE_BITS == Status.UNKNOWN).sum()),
        "lost": int(np.maximum(rows.length[resets], 0).sum()),
        **{("wait", cycles): count for cycles, count in waits.items()},
    })  # fmt: skip


def numbers(found: Multiset) -> tuple[Number, ...]:
    """What is told of relay."""
    waits = Multiset({key[1]: count for key, count in found.items() if isinstance(key, tuple)})
    counts = (
        Number(found["sent"], "messages", "given to relay, each with a uid"),
        Number(found["posted"], "posted", "at their destinations, in order"),
        Number(found["taken"], "taken", "records that the hosts took"),
        Number(found["refused"], "refused", "their completions say why"),
        Number(found["unknown"], "ended unknown", "their destination was said to be dead"),
        Number(found["hops"], "hops", "of data, each one datagram of the NI"),
        Number(found["by relays"], "replays by relays", "data sent again by a node that held them"),
        Number(found["by origins"], "replays by origins", "data sent again by the node that sent them first"),
        Number(found["told"], "control", "from hop to hop"),
        Number(found["dropped"], "control dropped", "for want of room; the watch makes up for it"),
        Number(found["notices"], "notices", "of deaths, and of the first tree"),
        Number(found["owed"], "owed", "data that found no buffer, and were asked for again"),
        Number(found["untracked"], "untracked", "data that found no room for a record"),
        Number(found["evicted"], "evicted", "data dropped for those of another message"),
        Number(found["expired"], "expired", "records that ended by their time"),
        Number(found["hungry"], "no cell", "messages that found no room at their destination"),
        Number(found["lost"], "lost in resets", "at a Post when its node was reset"),
    )
    if found["halted"]:
        counts = (*counts, Number(found["halted"], "halted", "relays in whose memory a bit was wrong"))
    if not waits:
        return counts
    return (
        *counts,
        Number(percentiles(waits)[0], "cycles in the median", "from the post of a message to its taking"),
        Number(max(waits), "at most", "the longest of these times"),
    )


RELAY = Audited(findings=findings, sums=sums, numbers=numbers, facts=facts)
