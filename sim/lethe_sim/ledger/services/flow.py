"""Flow: each message has one place in the list of one port, in the order of its stream (docs/reference/flow.md).

At a node, every message that is committed is placed once and every placed one leaves its port's list in order; a port
never holds more than its cells; every record is refused or has a number, the next of its stream, and ends once.
Between two nodes, what is placed is what was sent, in that order, and nothing twice (`STREAMS`).
"""

from collections import Counter as Multiset
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa

from lethe.spec.events import CAUSE_BITS, Event, Status
from lethe.spec.services.flow import Code, Out
from lethe_sim.ledger.audit import Number
from lethe_sim.ledger.columns import NULL, Columns, starts_of, text
from lethe_sim.ledger.findings import found
from lethe_sim.ledger.group import Run, source_of
from lethe_sim.ledger.sums import histogram, percentiles, rounded

from .flow_answers import answers
from .meeting import met, rank, since
from .service import Audited, ServiceRows

#: Numbers of a stream.
_NUMBERS = 256
#: A number that is so far beyond the one before, or further, may be one of an earlier life of the stream.
_BACK = _NUMBERS // 2
#: Numbers that a VOID passes over at most.
_VOIDED = 16
#: What two nodes' flows had with each other: ``sent`` 1: a datagram of a stream was stored whole in ``cycle``; 0: a
#: message was placed, and taken with this length and port; both are `NULL` if it was not taken.
STREAMS = {
    "sender": np.int32, "receiver": np.int32, "index": np.int32, "sent": np.int32, "cycle": np.int64, "seq": np.int32,
    "length": np.int32, "dport": np.int32,
}  # fmt: skip


class _Flow:
    """The rows of flow at some nodes, and which of them are about one message.

    Attributes
    ----------
    sends, carries, commits, places, leaves, ends, refused : places of rows, in their order
    outcome : of each placed message the row in which it left its port's list, `NULL` if there is none
    placement : of each row in which one left, the row in which it was placed, `NULL` if there is none
    """

    def __init__(self, rows: ServiceRows):
        self.rows, self.ports = rows, rows.system.flow.ports
        self.sends, self.refused, self.carries, self.commits, self.places, self.ends = (
            rows.of(event)
            for event in (
                Event.FLOW_SEND, Event.FLOW_REFUSED, Event.FLOW_CARRY, Event.FLOW_COMMIT, Event.FLOW_PLACE,
                Event.FLOW_END,
            )
        )  # fmt: skip
        self.leaves = np.sort(np.concatenate([rows.of(Event.FLOW_TAKE), rows.of(Event.FLOW_FLUSHED)]))
        into, out = (rank(self.port(places)) for places in (self.places, self.leaves))
        self.outcome, self.placement = met(self.port(self.places), into, self.port(self.leaves), out)
        self.outcome = np.append(self.leaves, NULL)[self.outcome]
        self.placement = np.append(self.places, NULL)[self.placement]

    def index(self, places: np.ndarray) -> np.ndarray:
        """The index of the port that rows are about."""
        return self.rows.tag[places].astype(np.int64) % self.ports

    def port(self, places: np.ndarray) -> np.ndarray:
        """A number for each port and epoch."""
        return self.rows.epoch[places] * self.ports + self.index(places)

    def stream(self, places: np.ndarray) -> np.ndarray:
        """A number for each stream and epoch."""
        return self.port(places) << 16 | self.rows.peer[places] & 0xFFFF

    def indices(self) -> np.ndarray:
        """Of each of `sends` the index of its port, `NULL` if no datagram of it was stored."""
        sends, carries = self.others(self.sends), self.carries
        carried, _ = met(
            self.rows.epoch[sends], rank(self.rows.epoch[sends]), self.rows.epoch[carries],
            rank(self.rows.epoch[carries]),
        )  # fmt: skip
        found = np.full(len(self.rows.cycle), NULL)
        found[sends] = np.append(self.index(carries), NULL)[carried]
        return found[self.sends]

    def others(self, places: np.ndarray) -> np.ndarray:
        """Those rows that are about another node."""
        return places[self.rows.peer[places] != self.rows.node[places]]


def findings(rows: ServiceRows) -> Iterator[pa.Table]:
    """What breaks a rule of flow at a node."""
    flow = rows.once(_Flow)
    yield from _of_lists(rows, flow)
    yield from _of_commits(rows, flow)
    yield from _of_order(rows, flow)
    yield from _of_cells(rows, flow)
    yield from _of_numbers(rows, flow)
    yield from _of_ends(rows, flow)
    yield from answers(rows, flow.sends, flow.indices(), flow.refused, flow.ends)


def _drained(rows: ServiceRows, places: np.ndarray) -> np.ndarray:
    """Which rows are of an epoch that ended with a drained run, so that nothing is under way any more."""
    return (rows.last & np.bool_(rows.run.drained))[rows.epoch[places]]


def _of_lists(rows: ServiceRows, flow: _Flow) -> Iterator[pa.Table]:
    """What leaves a port's list is what was placed there, in that order."""
    leaves, placed = flow.leaves, flow.placement
    wrong = (placed == NULL) | (rows.peer[leaves] != rows.peer[placed]) | (rows.detail[leaves] != rows.detail[placed])
    wrong |= rows.cycle[leaves] <= rows.cycle[placed]
    wrong |= (rows.length[leaves] < 0) | (rows.length[leaves] > rows.system.flow_mtu)
    if wrong.any():
        at, of = leaves[wrong], placed[wrong]
        yield rows.found(
            "untaken", at,
            text(
                "took number", rows.detail[at], "of port", rows.tag[at], "where the list had number",
                np.where(of == NULL, NULL, rows.detail[of]), "of node", np.where(of == NULL, NULL, rows.peer[of]),
            ),
        )  # fmt: skip
    left = flow.places[(flow.outcome == NULL) & _drained(rows, flow.places)]
    if len(left):
        yield rows.found("untaken", left, text("number", rows.detail[left], "is still in the list"))


def _of_commits(rows: ServiceRows, flow: _Flow) -> Iterator[pa.Table]:
    """What is committed is placed once."""
    commits, places = flow.others(flow.commits), flow.others(flow.places)
    key, other = (flow.stream(some) * _NUMBERS + rows.detail[some] for some in (commits, places))
    placed, committed = met(key, rank(key), other, rank(other))
    wrong = (committed == NULL) | (rows.cycle[places] <= rows.cycle[np.append(commits, NULL)[committed]])
    if wrong.any():
        at = places[wrong]
        yield rows.found("invented", at, text("number", rows.detail[at], "was placed without having come"))
    lost = (placed == NULL) & _drained(rows, commits)
    if lost.any():
        at = commits[lost]
        yield rows.found("lost", at, text("number", rows.detail[at], "came, and was never placed"))


def _of_order(rows: ServiceRows, flow: _Flow) -> Iterator[pa.Table]:
    """The numbers of a stream rise; they begin anew only after its source has said so by a PING."""
    places = flow.others(flow.places)
    order = np.argsort(flow.stream(places), kind="stable")
    places = places[order]
    stream = flow.stream(places)
    first = np.zeros(len(places), bool)
    first[starts_of(stream)] = True
    before = np.append(NULL, places[:-1])[: len(places)]
    back = ~first & ((rows.detail[places].astype(int) - rows.detail[before] - 1) % _NUMBERS >= _BACK - 1)
    if not back.any():
        return
    at, last = places[back], before[back]
    heard = rows.of(Event.FLOW_HEARD)
    pings, voids = (heard[rows.detail[heard] == code] for code in (Code.PING, Code.VOID))
    # How often the stream went back so far: each time, a PING had come before.
    times = rank(stream[back]) + 1
    # Numbers that were passed over meanwhile: by VOIDs, or as messages to a port that was not bound.
    unbound = rows.of(Event.FLOW_IGNORED)
    voided = _times(rows, voids, at) - _times(rows, voids, last, of=at)
    passed = _times(rows, unbound, at, key=flow.stream) - _times(rows, unbound, last, of=at, key=flow.stream)
    wrong = (_times(rows, pings, at) <= times) & (voided * _VOIDED + passed < _BACK - 1)
    if wrong.any():
        at, last = at[wrong], last[wrong]
        yield rows.found(
            "disordered", at, text("number", rows.detail[at], "was placed after number", rows.detail[last])
        )


def _times(
    rows: ServiceRows,
    heard: np.ndarray,
    until: np.ndarray,
    of: np.ndarray | None = None,
    key: Callable[[np.ndarray], np.ndarray] | None = None,
) -> np.ndarray:
    """How many of the rows ``heard`` have the same key as each row of ``of``, and are not after ``until``.

    Without a ``key`` it is epoch and peer.
    """
    of = until if of is None else of
    key = key or (lambda places: rows.epoch[places] << 16 | rows.peer[places] & 0xFFFF)
    return since(key(heard), rows.cycle[heard], key(of), rows.cycle[until])


def _of_cells(rows: ServiceRows, flow: _Flow) -> Iterator[pa.Table]:
    """A port holds at most its cells."""
    own = flow.places[rows.peer[flow.places] == rows.node[flow.places]]
    taken = np.concatenate([flow.others(flow.commits), own])
    places = np.concatenate([taken, flow.leaves])
    adds = np.repeat([1, -1], [len(taken), len(flow.leaves)])
    # A cell that is given back in a cycle counts as free in it.
    order = np.lexsort((adds, rows.cycle[places], flow.port(places)))
    places, adds = places[order], adds[order]
    sums = np.cumsum(adds)
    starts = starts_of(flow.port(places))
    held = sums - np.repeat(sums[starts] - adds[starts], np.diff(np.append(starts, len(sums))))
    over = places[(held > rows.system.flow.cells) & (adds > 0)]
    if len(over):
        yield rows.found(
            "overrun", over, text("port", rows.tag[over], "holds more than", np.full(len(over), rows.system.flow.cells))
        )


def _of_numbers(rows: ServiceRows, flow: _Flow) -> Iterator[pa.Table]:
    """Each message to another node is carried by a datagram, in order; its number is the next one of its stream."""
    sends, carries = flow.others(flow.sends), flow.carries
    carried, sent = met(
        rows.epoch[sends], rank(rows.epoch[sends]), rows.epoch[carries], rank(rows.epoch[carries])
    )  # fmt: skip
    of = np.append(sends, NULL)[sent]
    wrong = (of == NULL) | (rows.cycle[carries] <= rows.cycle[of])
    for name in ("peer", "detail", "length"):
        wrong |= getattr(rows, name)[carries] != getattr(rows, name)[of]
    wrong |= source_of(rows.uid[carries]) != rows.node[carries]
    if wrong.any():
        at = carries[wrong]
        yield rows.found("altered", at, text("carries number", rows.detail[at], "of", rows.length[at], "bytes"))
    held = (carried == NULL) & _drained(rows, sends)
    if held.any():
        yield rows.found("held", sends[held], "its datagram was never stored")

    order = np.argsort(flow.stream(carries), kind="stable")
    carries = carries[order]
    first = np.zeros(len(carries), bool)
    first[starts_of(flow.stream(carries))] = True
    before = np.append(NULL, carries[:-1])[: len(carries)]
    due = np.where(first, 0, (rows.detail[before].astype(int) + 1) % _NUMBERS)
    peers = rows.of(Event.FLOW_PEER)
    begins = peers[rows.detail[peers] == Out.CONNECTING]
    anew = _times(rows, begins, carries) > np.where(first, 0, _times(rows, begins, before, of=carries))
    wrong = (rows.detail[carries] != due) & ~(anew & (rows.detail[carries] == 0))
    if wrong.any():
        at = carries[wrong]
        yield rows.found("misnumbered", at, text("number", rows.detail[at], "where", due[wrong], "is next"))


def _of_ends(rows: ServiceRows, flow: _Flow) -> Iterator[pa.Table]:
    """Each record ends once; a refused one as REJECTED, for its cause."""
    refused, ends = flow.refused, flow.ends

    def key(places: np.ndarray, detail: np.ndarray) -> np.ndarray:
        return (
            (rows.epoch[places] << 16 | rows.peer[places] & 0xFFFF) << 25
            | (rows.tag[places].astype(np.int64) & 0xFFFF) << 9
            | detail.astype(np.int64)
        )

    # All sorts of ends of what was admitted are one.
    admitted = 1 << 8
    told = rows.detail[ends].astype(np.int64)
    detail = np.where(told >> CAUSE_BITS == Status.REJECTED, told, admitted)
    records = np.concatenate([flow.sends, refused])
    causes = np.concatenate([
        np.full(len(flow.sends), admitted), int(Status.REJECTED) << CAUSE_BITS | rows.detail[refused].astype(np.int64)
    ])  # fmt: skip
    order = np.argsort(records)
    records, causes = records[order], causes[order]
    begun, ended = key(records, causes), key(ends, detail)
    end, record = met(begun, rank(begun), ended, rank(ended))
    of = np.append(records, NULL)[record]
    wrong = (of == NULL) | (rows.cycle[ends] <= rows.cycle[of])
    if wrong.any():
        at = ends[wrong]
        yield rows.found(
            "misreported", at, text("ended with detail", rows.detail[at], "and tag", rows.tag[at], "without a message")
        )
    held = (end == NULL) & _drained(rows, records)
    if held.any():
        yield rows.found("held", records[held], "no completion was taken")


def facts(rows: ServiceRows) -> dict[str, Columns]:
    """`STREAMS` of some nodes."""
    flow = rows.once(_Flow)
    placed = rows.peer[flow.places] != rows.node[flow.places]
    places, outcome = flow.places[placed], flow.outcome[placed]
    taken = outcome != NULL
    carries = flow.carries

    def both(sent: np.ndarray, came: np.ndarray) -> np.ndarray:
        return np.concatenate([sent, came])

    columns = {
        "sender": both(rows.node[carries], rows.peer[places]), "receiver": both(rows.peer[carries], rows.node[places]),
        "index": both(flow.index(carries), flow.index(places)),
        "sent": np.repeat([1, 0], [len(carries), len(places)]), "cycle": both(rows.cycle[carries], rows.cycle[places]),
        "seq": both(rows.detail[carries], rows.detail[places]),
        "length": both(rows.length[carries], np.where(taken, rows.length[outcome], NULL)),
        "dport": both(rows.tag[carries], np.where(taken, rows.tag[outcome], NULL)),
    }  # fmt: skip
    return {"streams": {name: columns[name].astype(kind) for name, kind in STREAMS.items()}}


def followed(run: Run, rows: Columns) -> Iterator[pa.Table]:
    """What of the streams between nodes is not as it was sent.

    A placed number is that of the last datagram with it that was stored before: numbers come round, or a stream begins
    anew, only after what came of it before has its place.
    """
    stream = (rows["sender"].astype(np.int64) << 16 | rows["receiver"]) << 4 | rows["index"]
    sent = np.flatnonzero(rows["sent"] == 1)
    sent = sent[np.lexsort((rows["cycle"][sent], stream[sent]))]
    came = np.flatnonzero(rows["sent"] == 0)
    came = came[np.lexsort((rows["cycle"][came], stream[came]))]
    if not len(came):
        return
    names = stream * _NUMBERS + rows["seq"]
    _, numbers = np.unique(names, return_inverse=True)
    shift = int(rows["cycle"].max()) + 2
    key = numbers.astype(np.int64) * shift + rows["cycle"]
    order = np.argsort(key[sent], kind="stable")
    place = np.searchsorted(key[sent][order], key[came]) - 1
    at = np.append(order, NULL)[place]  # its place among what was sent, in the order of the streams
    of = sent[at] if len(sent) else np.full(len(came), NULL)
    known = (place >= 0) & (len(sent) > 0)
    known[known] = numbers[of[known]] == numbers[came[known]]

    def told(name: str, which: np.ndarray, note: str) -> pa.Table:
        some = came[which]
        return found(
            run.name, name, uid=np.full(len(some), NULL), cycle=rows["cycle"][some],
            unit=rows["receiver"][some].astype(np.int64), peer=rows["sender"][some].astype(np.int64),
            note=text("number", rows["seq"][some], "of index", rows["index"][some], note),
        )  # fmt: skip

    if not known.all():
        yield told("invented", ~known, "was placed, and never sent")
    came, of, at = came[known], of[known], at[known]
    taken = rows["length"][came] != NULL
    altered = taken & ((rows["length"][came] != rows["length"][of]) | (rows["dport"][came] != rows["dport"][of]))
    if altered.any():
        yield told("altered", altered, "has another length or port than it was sent with")
    same = np.append(False, stream[came][1:] == stream[came][:-1])[: len(came)]
    step = np.append(1, np.diff(at))[: len(came)]
    if (same & (step == 0)).any():
        yield told("doubled", same & (step == 0), "was placed twice")
    if (same & (step < 0)).any():
        yield told("disordered", same & (step < 0), "was placed after one that was sent later")


def sums(rows: ServiceRows) -> Multiset:
    """How many messages were sent, refused, taken, flushed, lost in resets; and how many waited how long for hosts."""
    flow = rows.once(_Flow)
    counted = {
        name: len(rows.of(event))
        for name, event in (
            ("sent", Event.FLOW_SEND), ("refused", Event.FLOW_REFUSED), ("taken", Event.FLOW_TAKE),
            ("flushed", Event.FLOW_FLUSHED), ("told", Event.FLOW_TOLD),
        )
    }  # fmt: skip
    congested, resets = rows.of(Event.FLOW_CONGESTED), rows.of(Event.FLOW_RESET)
    took = flow.placement[rows.event[flow.leaves] == Event.FLOW_TAKE]
    took, at = took[took != NULL], flow.leaves[rows.event[flow.leaves] == Event.FLOW_TAKE][took != NULL]
    waits = histogram(rounded(np.maximum(rows.cycle[at] - rows.cycle[took], 0)))
    return Multiset({
        **counted, "congested": int((rows.detail[congested] == 1).sum()),
        "lost": int(np.maximum(rows.length[resets], 0).sum()),
        **{("wait", cycles): count for cycles, count in waits.items()},
    })  # fmt: skip


def numbers(found: Multiset) -> tuple[Number, ...]:
    """What is told of flow."""
    waits = Multiset({key[1]: count for key, count in found.items() if isinstance(key, tuple)})
    counts = (
        Number(found["sent"], "messages", "admitted, with a number of their stream"),
        Number(found["taken"], "taken", "records that the hosts took"),
        Number(found["refused"], "refused", "their completions say why"),
        Number(found["flushed"], "flushed", "of ports that were bound no more"),
        Number(found["lost"], "lost in resets", "held for a host when its node was reset"),
        Number(found["told"], "control words", "between the flows of two nodes"),
        Number(found["congested"], "congestions", "ports that became congested"),
    )
    if not waits:
        return counts
    return (
        *counts,
        Number(percentiles(waits)[0], "cycles in the median", "from the placing of a message to its taking"),
        Number(max(waits), "at most", "the longest of these times"),
    )


FLOW = Audited(findings=findings, sums=sums, numbers=numbers, facts=facts)
