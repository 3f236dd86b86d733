"""One datagram's life, read from a trace: its worms, each with its fate, and what else happened at its two nodes.

A worm is followed hop by hop: the fabric's latency says in which cycle its head meets each router, and the trace
what happened there.  So its fate is known even where a router cannot see whom it carries.  Where routers have queues or
a pool a head is decided later, and its UID says which it was.  The heads of one datagram are taken to stay in their
order; where messages overtake each other, a Forget that passed its Send can be taken for it.
"""

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lethe.spec import stages
from lethe.spec.config import System
from lethe.spec.events import ARRIVALS, CAUSE_BITS, EVENTS, LAUNCHES, Cause, Drop, Event, Kind, Status
from lethe.spec.wire import unpack_uid

from .events import filled, head_fields
from .store import TraceError, TraceReader

#: The events with which a datagram's life begins.
BEGINNINGS = (Event.ACCEPT, Event.LOOPED)
_UID_FIELDS = {"source", "slot", "generation", "incarnation"}
_NAMES = {Event.ACK: "Ack", Event.FORGET: "Forget", Event.REJECT: "Reject", Event.BE: "Best effort"}
_DISCARDS = {
    Event.DISCARD_BUSY: "output busy",
    Event.DISCARD_CONTENTION: "lost the draw",
    Event.DISCARD_UP: "no up-port free",
    Event.DISCARD_ROUTE: "no route",
    Event.DISCARD_FULL: "queue full",
}


@dataclass(frozen=True, kw_only=True)
class Worm:
    """A worm of a message ladder.

    Attributes
    ----------
    name : Send, Send 2 (the second repeat), Ack, Forget, Reject or Best effort
    from_sender : whether it runs from the datagram's sender to its receiver
    launched : cycle of its first flit; arrived : cycle in which it acted, or None if it never did
    fate : what its arrival did, or where and of what it died
    progress : how far it came, 0 … 1
    """

    name: str
    from_sender: bool
    launched: int
    arrived: int | None
    fate: str
    progress: float


@dataclass(frozen=True, kw_only=True)
class Note:
    """What else happened at one of the two: accepted, repeated, completed, reclaimed."""

    cycle: int
    at_sender: bool
    text: str


def _instead(trace: TraceReader, uid: int) -> str:
    """What to ask for in place of a datagram that is not there: the one with the next lower or higher UID."""
    below, above = -1, 1 << 64
    for batch in trace.batches(["event", "uid"]):
        event, found = (filled(batch[name])[0] for name in ("event", "uid"))
        found = found[np.isin(event, BEGINNINGS)]
        below = max([below, *found[found < uid].tolist()])
        above = min([above, *found[found > uid].tolist()])
    near = min((other for other in (below, above) if 0 <= other < 1 << 64), key=lambda o: abs(o - uid), default=None)
    if near is None:
        return "it has none at all"
    return f"the nearest is {':'.join(map(str, unpack_uid(near)))}, and `lethe ladder {trace.path} --list` names others"


class Life:
    """The rows of one datagram, and those of the fabric where its worms passed."""

    def __init__(self, trace: TraceReader, uid: int):
        self.trace, self.uid = trace, uid
        self.system: System = trace.meta.system
        graph = self.system.graph
        first_service = self.system.layout.first_service
        ends = [[("uid", "=", uid), ("unit", "<", graph.nodes)], [("uid", "=", uid), ("unit", ">=", first_service)]]
        rows = trace.sound(filters=ends).to_pylist()
        name = ":".join(map(str, unpack_uid(uid)))
        if not rows:
            raise TraceError(f"{trace.path}: no datagram {name} in this trace; {_instead(trace, uid)}")
        accepts = [row for row in rows if row["event"] in BEGINNINGS]
        if not accepts:
            raise TraceError(f"{trace.path}: datagram {name} was never accepted in this trace; try `unlucky`")
        # A UID that came round again: the life with most Sends.
        starts = [row["cycle"] for row in accepts]
        lives = [
            [row for row in rows if start <= row["cycle"] < end]
            for start, end in zip(starts, [*starts[1:], 1 << 62], strict=True)
        ]
        self.rows = max(lives, key=lambda life: sum(row["event"] == Event.SEND for row in life))
        accept = next(row for row in self.rows if row["event"] in BEGINNINGS)
        self.sender = self.system.layout.node_of(accept["unit"])
        self.receiver, self.length = accept["peer"], accept["length"]
        self.by_place = {(row["cycle"], row["unit"], row["port"]): row for row in self.rows}

    @cached_property
    def worms(self) -> tuple[Worm, ...]:
        return tuple(self._worm(row) for row in self.rows if row["event"] in LAUNCHES)

    @property
    def notes(self) -> tuple[Note, ...]:
        return tuple(note for row in self.rows if (note := self._note(row)))

    def _note(self, row: dict) -> Note | None:
        detail = row["detail"]
        match row["event"]:
            case Event.ACCEPT:
                text = "accepted"
            case Event.REPEAT:
                text = "time-out: repeat"
            case Event.KILLED:
                text = "repeat killed: already ended"
            case Event.GIVE_UP:
                text = f"given up: {_words(Cause, detail)}"
            case Event.ACK_REPEAT:
                text = "no Forget: acknowledge again"
            case Event.ORPHAN:
                text = "sender silent: entry reclaimed"
            case Event.SWEPT:
                text = "a service swept its sender away: entry erased"
            case Event.LOOPED:
                text = "stored, offered to its own host"
            case Event.COMPLETE | Event.LOOP_COMPLETE:
                status, cause = divmod(detail, 1 << CAUSE_BITS)
                text = f"completed {_name(Status, status)}" + (f" ({_words(Cause, cause)})" if cause else "")
            case _:
                return None
        at_sender = self.system.layout.node_of(row["unit"]) == self.sender
        return Note(cycle=row["cycle"], at_sender=at_sender, text=text)

    def _worm(self, row: dict) -> Worm:
        wire, event = self.system.format, Event(row["event"])
        data = EVENTS[event].worm is Kind.SEND
        flits = wire.send_flits(row["length"] or 0) if data else wire.control_flits
        origin, target = row["unit"], row["peer"]
        name = _NAMES.get(event, "Send")
        if event == Event.SEND and row["detail"]:
            name = f"Send (repeat {row['detail']})"
        known = 0 <= target < self.system.nodes and target != origin
        hops = self.system.graph.hops(origin, target) if known else 0
        queued, death = self.system.worms_wait, None
        there = row["cycle"] + hops * self.system.router.latency
        if queued:
            death, there = self._way(row["cycle"], origin, target, hops)
        acts = there + flits - 1 + stages.ACTS
        if self.system.credits and not death:
            acts = self._paused(acts, target)
        arrival = None if death else self.by_place.get((acts, target, 1))
        if arrival is not None:
            outcome, progress, arrived = _arrival(arrival), 1.0, acts
        else:
            if not queued:
                death, _ = self._way(row["cycle"], origin, target, hops)
            outcome, progress = death or self._end(target, acts)
            arrived = None
        return Worm(
            name=name,
            from_sender=origin == self.sender,
            launched=row["cycle"],
            arrived=arrived,
            fate=outcome,
            progress=progress,
        )

    def _paused(self, acts: int, target: int) -> int:
        """When a worm acts that does so in ``acts`` at the earliest and may have paused: no other comes in between."""
        here = (row for row in self.rows if (row["unit"], row["port"]) == (target, 1) and _arrived(row))
        return next((row["cycle"] for row in here if row["cycle"] >= acts), acts)

    @cached_property
    def fabric(self) -> dict[tuple[int, int, int], tuple[int, int]]:
        """(cycle, unit, port) → (event, detail) of all that happened when a worm of this life was under way."""
        windows = [
            [("cycle", ">=", row["cycle"]), ("cycle", "<=", row["cycle"] + self.system.packet_life)]
            for row in self.rows
            if row["event"] in LAUNCHES
        ]
        table = self.trace.sound(filters=windows)
        columns = [table[name].to_numpy() for name in ("cycle", "unit", "port", "event", "detail")]
        return {(int(c), int(u), int(p)): (int(e), int(d)) for c, u, p, e, d in zip(*columns, strict=True)}

    @cached_property
    def links(self) -> dict[tuple[int, int], tuple[int, int | None, int]]:
        """(router, output port), or (−1, node), → (link number, router it leads to or None, its input port)."""
        return {
            (-1 if end.source_is_node else end.source, end.source if end.source_is_node else end.source_port): (
                number,
                None if end.target_is_node else end.target,
                end.target_port,
            )
            for number, end in enumerate(self.system.graph.links)
        }

    @cached_property
    def turns(self) -> dict[tuple[int, int, int], list[tuple[int, int, int]]]:
        """(unit, port, destination) → (cycle, event, detail) of this datagram's heads there, those not yet followed."""
        nodes = self.system.nodes
        own = [("uid", "=", self.uid), ("unit", ">=", nodes), ("unit", "<", nodes + self.system.graph.routers)]
        found = defaultdict(list)
        for row in self.trace.sound(filters=own).to_pylist():
            place = row["unit"], row["port"], row["peer"]
            found[place].append((row["cycle"], row["event"], row["detail"]))
        return found

    def _turn(self, cycle: int, router: int, port: int, target: int) -> tuple[int, int, int]:
        """(cycle, event, detail) of the decision on a head that comes to a router's input in ``cycle``."""
        unit = self.system.nodes + router
        if not self.system.worms_wait:
            return cycle, *self.fabric.get((cycle, unit, port), (0, 0))
        if self.system.pool:
            return self._pooled(cycle, router, port, target)
        refused = cycle, int(Event.DISCARD_FULL), 0
        if refused in self.turns.get((unit, self.system.graph.ports(router) + port, target), ()):
            return refused
        here = self.turns.get((unit, port, target), [])
        turn = next((turn for turn in here if cycle <= turn[0] <= cycle + self.system.longest_wait), (cycle, 0, 0))
        if turn in here:
            here.remove(turn)
        return turn

    def _pooled(self, cycle: int, router: int, port: int, target: int) -> tuple[int, int, int]:
        """The same at a router with a pool: a head is decided at once, or stored until it leaves by some output."""
        unit, ports = self.system.nodes + router, self.system.graph.ports(router)
        for turn in self.turns.get((unit, port, target), []):
            if turn[0] == cycle and (turn[1] == Event.FORWARD or turn[1] in _DISCARDS):
                return turn
        outputs = [self.turns.get((unit, ports + output, target), []) for output in range(ports)]
        left = [
            (turn, there)
            for there in outputs
            for turn in there
            if cycle < turn[0] <= cycle + self.system.longest_wait and turn[1] == Event.FORWARD
        ]
        if not left:
            return cycle, 0, 0
        turn, there = min(left, key=lambda found: found[0])
        there.remove(turn)
        return turn

    def _way(self, launched: int, origin: int, target: int, hops: int) -> tuple[tuple[str, float] | None, int]:
        """(where and of what a worm died and how far it had come, or None; the cycle in which its head was there)."""
        graph, latency = self.system.graph, self.system.router.latency
        place, cycle, crossed = (-1, origin), launched, 0
        if self.system.worms_wait and _UID_FIELDS - head_fields(self.system).keys():
            return ("not known: a first flit does not hold the UID, and routers keep it for a while", 0.5), cycle
        while True:
            number, router, port = self.links[place]
            happened, _ = self.fabric.get((cycle, graph.first_link + number, 0), (0, 0))
            if happened in (Event.LOST, Event.DEAD):
                what = "lost on" if happened == Event.LOST else "died on dead"
                return (f"{what} link{number} {graph.link_name(number)}", (crossed + 0.5) / (hops + 1)), cycle
            if router is None:
                return None, cycle
            crossed += 1
            cycle, happened, output = self._turn(cycle, router, port, target)
            if happened in _DISCARDS:
                full = self.system.pool and happened == Event.DISCARD_FULL
                why = "pool full" if full else _DISCARDS[Event(happened)]
                return (f"router{router}: {why}", crossed / (hops + 1)), cycle
            if happened != Event.FORWARD or (router, output) not in self.links:
                return (f"vanished at router{router}", crossed / (hops + 1)), cycle
            place, cycle = (router, output), cycle + latency

    def _end(self, target: int, acts: int) -> tuple[str, float]:
        """What became of a worm that reached its node in one piece or less and did nothing there."""
        happened, reason = self.fabric.get((acts, target, 1), (0, 0))
        if happened == Event.DROP:
            return f"dropped by node {target}: {_words(Drop, reason)}", 1.0
        return f"damaged on its way to node {target}", 1.0


def _name(names, value: int) -> str:
    return names(value).name if value in names._value2member_map_ else str(value)


def _words(names, value: int) -> str:
    return _name(names, value).lower().replace("_", " ")


def _arrived(row: dict) -> bool:
    """Whether an event is what a message did: a REJECT that ends its datagram shows GIVE_UP."""
    return row["event"] in ARRIVALS or (row["event"] == Event.GIVE_UP and row["detail"] == Cause.RESTARTED)


def _arrival(row: dict) -> str:
    match row["event"]:
        case Event.DELIVER:
            return "delivered, Ack queued"
        case Event.DELIVER_BE:
            return "delivered"
        case Event.DUPLICATE:
            return "duplicate, Ack again"
        case Event.DROP:
            return f"dropped: {_words(Drop, row['detail'])}"
        case Event.RELEASE:
            return "released, Forget queued"
        case Event.ACK_IGNORED:
            return "already released, Forget again"
        case Event.GIVE_UP:
            return "given up: its receiver was restarted"
        case Event.REJECT_IGNORED:
            return "nothing to reject"
        case Event.FORGOTTEN:
            return "forgotten"
        case Event.FORGET_IGNORED:
            return "nothing to forget"
        case event:
            return Event(event).name
