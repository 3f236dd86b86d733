"""One datagram's life, read from a trace: its worms, each with its fate, and what else happened at its two nodes.

A worm is followed hop by hop: the fabric's latency says in which cycle its head meets each router, and the trace
what happened there.  So its fate is known even where a router cannot see whom it carries.
"""

from dataclasses import dataclass
from functools import cached_property

from lethe.spec.config import System
from lethe.spec.events import Cause, Drop, Event, Status
from lethe.spec.wire import unpack_uid

from .store import TraceError, TraceReader

_LAUNCHES = (Event.SEND, Event.BE, Event.ACK, Event.FORGET)
_DISCARDS = {
    Event.DISCARD_BUSY: "output busy",
    Event.DISCARD_CONTENTION: "lost the draw",
    Event.DISCARD_UP: "no up-port free",
    Event.DISCARD_ROUTE: "no route",
    Event.DISCARD_FULL: "queue full",
}


@dataclass(frozen=True, kw_only=True)
class Worm:
    """A worm of the ladder.

    Attributes
    ----------
    name : Send, Send 2 (the second repeat), Ack, Forget or Best effort
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


class Life:
    """The rows of one datagram, and those of the fabric where its worms passed."""

    def __init__(self, trace: TraceReader, uid: int):
        self.trace, self.uid = trace, uid
        self.system: System = trace.meta.system
        graph = self.system.graph
        rows = trace.table(filters=[("uid", "=", uid), ("unit", "<", graph.nodes)]).to_pylist()
        name = ":".join(map(str, unpack_uid(uid)))
        if not rows:
            raise TraceError(f"{trace.path}: no datagram {name} in this trace; try `unlucky`")
        accepts = [row for row in rows if row["event"] == Event.ACCEPT]
        if not accepts:
            raise TraceError(f"{trace.path}: datagram {name} was never accepted in this trace; try `unlucky`")
        # A UID that came round again: the life with most Sends.
        starts = [row["cycle"] for row in accepts]
        lives = [
            [row for row in rows if start <= row["cycle"] < end]
            for start, end in zip(starts, [*starts[1:], 1 << 62], strict=True)
        ]
        self.rows = max(lives, key=lambda life: sum(row["event"] == Event.SEND for row in life))
        accept = next(row for row in self.rows if row["event"] == Event.ACCEPT)
        self.sender, self.receiver, self.length = accept["unit"], accept["peer"], accept["length"]
        self.by_place = {(row["cycle"], row["unit"], row["port"]): row for row in self.rows}

    @property
    def worms(self) -> tuple[Worm, ...]:
        return tuple(self._worm(row) for row in self.rows if row["event"] in _LAUNCHES)

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
            case Event.COMPLETE:
                cause = detail & 15
                text = f"completed {_words(Status, detail >> 4)}" + (f" ({_words(Cause, cause)})" if cause else "")
            case _:
                return None
        return Note(cycle=row["cycle"], at_sender=row["unit"] == self.sender, text=text)

    def _worm(self, row: dict) -> Worm:
        wire, event = self.system.format, Event(row["event"])
        data = event in (Event.SEND, Event.BE)
        flits = wire.send_flits(row["length"] or 0) if data else wire.control_flits
        origin, target = row["unit"], row["peer"]
        name = {Event.ACK: "Ack", Event.FORGET: "Forget", Event.BE: "Best effort"}.get(event, "Send")
        if event == Event.SEND and row["detail"]:
            name = f"Send (repeat {row['detail']})"
        known = 0 <= target < self.system.nodes and target != origin
        hops = self.system.graph.hops(origin, target) if known else 0
        acts = row["cycle"] + flits - 1 + hops * self.system.router.latency + 2
        arrival = self.by_place.get((acts, target, 1))
        if arrival is not None:
            outcome, progress, arrived = _arrival(arrival), 1.0, acts
        else:
            outcome, progress = self._death(row["cycle"], origin, target, acts, hops)
            arrived = None
        return Worm(
            name=name,
            from_sender=origin == self.sender,
            launched=row["cycle"],
            arrived=arrived,
            fate=outcome,
            progress=progress,
        )

    @cached_property
    def fabric(self) -> dict[tuple[int, int, int], tuple[int, int]]:
        """(cycle, unit, port) → (event, detail) of all that happened when a worm of this life was under way."""
        graph, latency = self.system.graph, self.system.router.latency
        far = graph.class_hops(graph.distance_classes - 1) * latency + self.system.format.max_flits + 2
        windows = [
            [("cycle", ">=", row["cycle"]), ("cycle", "<=", row["cycle"] + far)]
            for row in self.rows
            if row["event"] in _LAUNCHES
        ]
        table = self.trace.table(columns=["cycle", "unit", "port", "event", "detail"], filters=windows)
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

    def _death(self, launched: int, origin: int, target: int, acts: int, hops: int) -> tuple[str, float]:
        """Where and of what a worm that never acted died, and how far it had come."""
        graph, latency = self.system.graph, self.system.router.latency
        place, cycle, crossed = (-1, origin), launched, 0
        while True:
            number, router, port = self.links[place]
            happened, _ = self.fabric.get((cycle, graph.nodes + graph.routers + number, 0), (0, 0))
            if happened in (Event.LOST, Event.DEAD):
                what = "lost on" if happened == Event.LOST else "died on dead"
                return f"{what} link{number} {graph.link_name(number)}", (crossed + 0.5) / (hops + 1)
            if router is None:
                break
            crossed += 1
            happened, output = self.fabric.get((cycle, graph.nodes + router, port), (0, 0))
            if happened in _DISCARDS:
                return f"router{router}: {_DISCARDS[Event(happened)]}", crossed / (hops + 1)
            if happened != Event.FORWARD or (router, output) not in self.links:
                return f"vanished at router{router}", crossed / (hops + 1)
            place, cycle = (router, output), cycle + latency
        happened, reason = self.fabric.get((acts, target, 1), (0, 0))
        if happened == Event.DROP:
            return f"dropped by node {target}: {_words(Drop, reason)}", 1.0
        return f"damaged on its way to node {target}", 1.0


def _words(names, value: int) -> str:
    return names(value).name.lower().replace("_", " ") if value in names._value2member_map_ else str(value)


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
        case Event.FORGOTTEN:
            return "forgotten"
        case Event.FORGET_IGNORED:
            return "nothing to forget"
        case event:
            return Event(event).name
