"""The way of one message of relay as a message ladder: a line for each node it met, and every hop between them."""

from bisect import bisect
from collections import Counter as Multiset
from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lethe.spec.config import System
from lethe.spec.events import CAUSE_BITS, Cause, Event, Status
from lethe.spec.sections.faults import death
from lethe.spec.services import RELAY
from lethe.spec.services.relay import FLAG_BITS, Type, type_of
from lethe.spec.wire import pack_uid, unpack_uid

from .events import filled
from .store import TraceError, TraceReader, open_trace

__all__ = ["DIES", "PREFIX", "RelayHop", "RelayLadder", "RelayMark", "find_message", "listing", "longest"]

#: What names a message, and not a datagram: alone the one whose data went over the most hops.
PREFIX = "relay"
#: The text of a death.
DIES = "dies"
#: Characters between two lines.
_GAP = 11
#: Cycles from the first to the last of what is one mark.
_NEAR = 512
_UID_BITS = 16
_NAMES = (Event.RELAY_HOP, Event.RELAY_TOLD)
#: What goes towards the destination.
_DOWN = (Type.DATA, Type.LINK, Type.ACKACKED)
_MARKS = {
    Event.RELAY_SEND: "given to relay", Event.RELAY_PARK: "parked: its predecessor is not here",
    Event.RELAY_POST: "posted", Event.RELAY_HUNGRY: "dropped: no cell", Event.RELAY_TAKE: "taken by its host",
    Event.RELAY_OWED: "dropped: no buffer, will be asked for", Event.RELAY_UNTRACKED: "no room for a record",
    Event.RELAY_EVICT: "data dropped for another message", Event.RELAY_EXPIRE: "record ended by its time",
    Event.RELAY_FORGOT: "record ended",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class RelayHop:
    """A message of a hop: one datagram of the NI.

    Attributes
    ----------
    name : its type
    sender, receiver : nodes
    launched : cycle in which it was told, or its data given to the NI
    arrived : cycle in which the NI of the receiver delivered it, or None if it never did
    fate : what became of it
    """

    name: str
    sender: int
    receiver: int
    launched: int
    arrived: int | None
    fate: str


@dataclass(frozen=True, kw_only=True)
class RelayMark:
    """What else happened at some nodes, one soon after the other: from the cycle of the first to that of the last."""

    cycle: int
    until: int
    nodes: tuple[int, ...]
    text: str


@dataclass(frozen=True, kw_only=True)
class RelayLadder:
    """One message's way.

    Attributes
    ----------
    nodes : those it met: its origin first, its destination last, the others in the order of the way
    gone : of each node that died in these cycles the cycle
    """

    name: str
    nodes: tuple[int, ...]
    length: int
    hops: tuple[RelayHop, ...]
    marks: tuple[RelayMark, ...]
    gone: dict[int, int]

    @property
    def title(self) -> str:
        return (
            f"message {self.name}: node {self.nodes[0]} to node {self.nodes[-1]}, {self.length} bytes, "
            f"{len(self.nodes)} nodes"
        )

    @property
    def rows(self) -> list[RelayHop | RelayMark]:
        """All of it, in the order of the cycles."""
        return sorted(
            [*self.marks, *self.hops],
            key=lambda row: (row.cycle, 0) if isinstance(row, RelayMark) else (row.launched, 1),
        )

    def text(self) -> str:
        """The ladder in characters."""
        lines = [self._hop_line(row) if isinstance(row, RelayHop) else self._mark_line(row) for row in self.rows]
        head = "".join(f"{f'node {node}':<{_GAP + 1}}" for node in self.nodes).rstrip()
        return "\n".join([self.title, "", f"{'cycle':>10}  {head}", *lines])

    def _cells(self, cycle: int) -> list[str]:
        """The characters of a row without anything on it: a line ends where its node dies."""
        cells: list[str] = list((" " * _GAP).join("│" * len(self.nodes)))
        for node, since in self.gone.items():
            if cycle > since:
                cells[self.nodes.index(node) * (_GAP + 1)] = "┊"
        return cells

    def _mark_line(self, mark: RelayMark) -> str:
        cells = self._cells(mark.cycle)
        for node in mark.nodes:
            cells[self.nodes.index(node) * (_GAP + 1)] = "●"
        return f"{mark.cycle:>10}  {''.join(cells)}  {_when(mark)}{mark.text}"

    def _hop_line(self, hop: RelayHop) -> str:
        cells = self._cells(hop.launched)
        start, end = (self.nodes.index(node) * (_GAP + 1) for node in (hop.sender, hop.receiver))
        first, width = min(start, end) + 1, abs(end - start) - 1
        label = hop.name if len(hop.name) + 4 > _GAP else f" {hop.name} "
        if hop.arrived is not None:
            shaft, tip = label.center(width - 1, "─"), "▶" if end > start else "◀"
        else:
            shaft, tip = label.center(max(len(label), width // 2), "─"), "╳"
        arrow = (shaft + tip).ljust(width) if end > start else (tip + shaft).rjust(width)
        for place, character in enumerate(arrow[:width], first):
            cells[place] = character if character != " " else cells[place]
        after = f"{hop.arrived}: {hop.fate}" if hop.arrived is not None else hop.fate
        return f"{hop.launched:>10}  {''.join(cells)}  {after}"


def _when(mark: RelayMark) -> str:
    return f"to {mark.until}: " if mark.until > mark.cycle else ""


def find_message(path: str | Path, which: str = PREFIX) -> RelayLadder:
    """The ladder of a message of relay of the trace at ``path``.

    ``which`` is ``relay:source:incarnation:slot:uid``, or ``relay``: the message whose data went over the most hops.
    Of messages of one name it is the one that did so.  Raises `TraceError` if the trace is unusable or has none such.
    """
    trace = open_trace(path)
    _check(trace)
    uid, number = longest(trace) if which == PREFIX else _parse(path, which)
    way = _Way(trace, uid, number)
    return RelayLadder(
        name=_name(way.uid, way.number), nodes=way.nodes, length=way.length, hops=tuple(way.hops), marks=way.marks,
        gone=way.gone,
    )  # fmt: skip


def _check(trace: TraceReader) -> None:
    if RELAY not in trace.meta.system.services:
        raise TraceError(f"{trace.path}: its system has no [relay]; name a datagram")


def _name(uid: int, number: int) -> str:
    return ":".join(map(str, (*unpack_uid(uid)[:3], number)))


def _parse(path: str | Path, which: str) -> tuple[int, int]:
    """The packed UID with which a message's rows are shown, and the low bits of its uid."""
    try:
        numbers = [int(part, 0) for part in which.split(":")[1:]]
    except ValueError:
        numbers = []
    limits = (1 << 16, 1 << 8, 1 << 16, 1 << 32)
    if len(numbers) == 4 and all(0 <= n < limit for n, limit in zip(numbers, limits, strict=True)):
        source, incarnation, slot, uid = numbers
        return pack_uid(source, incarnation, slot, 0), uid & (1 << _UID_BITS) - 1
    raise TraceError(
        f"{path}: {which!r} is no message; give {PREFIX}:source:incarnation:slot:uid, or `{PREFIX}`: the one with "
        "the most hops"
    )


def longest(trace: TraceReader) -> tuple[int, int]:
    """The message whose data went over the most hops (the first of equals): packed UID, and low bits of its uid."""
    found = _hops(trace)
    return max(found, key=lambda message: found[message])


def listing(path: str | Path, most: int = 10) -> str:
    """The messages whose data went over the most hops, one a line, with what `find_message` takes for each."""
    trace = open_trace(path)
    _check(trace)
    found = _hops(trace)
    rows = sorted(found.items(), key=lambda row: -row[1])[:most]
    names = [f"{PREFIX}:{_name(*message)}" for message, _ in rows]
    width = max(map(len, names))
    lines = (
        f"{name:<{width}}  {count:,} hop{'' if count == 1 else 's'} of data"
        for name, (_, count) in zip(names, rows, strict=True)
    )
    return "\n".join([*lines, f"of {len(found):,} messages"])


def _hops(trace: TraceReader) -> Multiset[tuple[int, int]]:
    """Over how many hops the data of each message went; raises `TraceError` if there was none."""
    hops: Multiset[tuple[int, int]] = Multiset()
    for batch in trace.batches(["event", "uid", "tag"]):
        event, uid, tag = (filled(batch[name])[0] for name in ("event", "uid", "tag"))
        some = event == Event.RELAY_HOP
        hops.update(zip(uid[some].tolist(), (tag[some] & (1 << _UID_BITS) - 1).tolist(), strict=True))
    if not hops:
        raise TraceError(f"{trace.path}: no message of relay was ever sent; nothing can be drawn")
    return hops


class _Way:
    """The rows of a message, and those of NIs that carried its hops.

    Attributes
    ----------
    uid, number : the message's packed UID, and the low bits of its uid
    nodes, hops, marks, gone : of its ladder
    """

    def __init__(self, trace: TraceReader, uid: int, number: int):
        self.trace, self.uid, self.number = trace, uid, number
        self.system: System = trace.meta.system
        layout, level = self.system.layout, self.system.services.index(RELAY)
        self.units = {node: layout.service_unit(node, level) for node in range(self.system.nodes)}
        self.rows = self._rows()
        given = self.rows[0]
        self.origin, self.target, self.length = given["node"], given["peer"], given["length"]
        self.nodes = self._in_order()
        self.first, self.last = given["cycle"], self._until()
        self.gone = {
            node: died for node in self.nodes if (died := death(self.system, node)) is not None and died <= self.last
        }
        self._of_datagram: dict[tuple[int, int], list[dict]] = defaultdict(list)
        self.carried = self._carried()
        self._acted: dict[int, dict[int, dict]] = {}
        sent = [row for row in self.rows if row["event"] in _NAMES]
        arrived = {self._key(row): self._arrived(row) for row in sent}
        self.hops = [self._hop(row, arrived[self._key(row)]) for row in sent]
        self.marks = tuple(_merged(sorted(self._marks())))

    def _rows(self) -> list[dict]:
        """The rows of the message, from the one in which it was given on."""
        own = [("uid", "=", self.uid), ("unit", ">=", self.system.layout.first_service)]
        rows = [
            row | {"node": self.system.layout.node_of(row["unit"])}
            for row in self.trace.sound(filters=own).to_pylist()
            if (row["tag"] or 0) & (1 << _UID_BITS) - 1 == self.number
        ]
        for row in rows:
            if row["event"] in (Event.RELAY_SEND, *_NAMES) and not row["node"] != row["peer"] < self.system.nodes:
                raise TraceError(
                    f"{self.trace.path}: a row of cycle {row['cycle']}, unit {row['unit']}: names node {row['peer']}; "
                    "audit the trace with `lethe report`, or write it again"
                )
        starts = [row["cycle"] for row in rows if row["event"] == Event.RELAY_SEND]
        if not starts:
            name = _name(self.uid, self.number)
            raise TraceError(
                f"{self.trace.path}: no message {name} in this trace; "
                f"`lethe ladder {self.trace.path} {PREFIX} --list` names some"
            )
        # A uid that came round again: the message with most hops.
        messages = [
            [row for row in rows if start <= row["cycle"] < end]
            for start, end in zip(starts, [*starts[1:], 1 << 62], strict=True)
        ]
        return max(messages, key=lambda rows: sum(row["event"] == Event.RELAY_HOP for row in rows))

    def _in_order(self) -> tuple[int, ...]:
        """The nodes that it met: each comes after the one from which it went down to it, before one from which up.

        A node that takes the place of a dead one comes behind it.
        """
        nodes = [self.origin, self.target]
        for row in self.rows:
            if row["event"] not in _NAMES:
                continue
            here, there = row["node"], row["peer"]
            down = row["event"] == Event.RELAY_HOP or type_of(row["detail"]) in _DOWN
            for node, beside, after in ((here, there, not down), (there, here, down)):
                if node not in nodes:
                    place = nodes.index(beside) + after if beside in nodes else len(nodes) - 1
                    while after and place < len(nodes) and self._is_dead(nodes[place], row["cycle"]):
                        place += 1
                    nodes.insert(min(max(place, 1), len(nodes) - 1), node)
        return tuple(nodes)

    def _is_dead(self, node: int, cycle: int) -> bool:
        died = death(self.system, node)
        return died is not None and died <= cycle

    def _until(self) -> int:
        """The last cycle of the ladder: a message that is not taken ends with its last row."""
        return max(row["cycle"] for row in [*self.rows, *self.taken()])

    def taken(self) -> list[dict]:
        """The row in which its host took it, if it did."""
        posted = [row["cycle"] for row in self.rows if row["event"] == Event.RELAY_POST]
        if not posted:
            return []
        own = [
            ("unit", "=", self.units[self.target]), ("event", "=", int(Event.RELAY_TAKE)), ("peer", "=", self.origin),
            ("cycle", ">", posted[0]),
        ]  # fmt: skip
        rows = self.trace.sound(filters=own).to_pylist()
        found = [row for row in rows if (row["tag"] or 0) & (1 << _UID_BITS) - 1 == self.number]
        return found[:1]

    # Marks.

    def _marks(self) -> Iterator[tuple[int, int, str]]:
        """(cycle, node, text) of all that is no hop."""
        for row in self.rows:
            if row["event"] in _MARKS:
                yield row["cycle"], row["node"], _MARKS[row["event"]]
            elif row["event"] == Event.RELAY_END:
                yield row["cycle"], row["node"], f"ended {_ending(row['detail'])}{self._by(row)}"
            elif row["event"] == Event.RELAY_DROPPED:
                yield row["cycle"], row["node"], f"{_told(row)[0]} dropped: the queue of control is full"
        for row in self.taken():
            yield row["cycle"], self.target, _MARKS[Event.RELAY_TAKE]
        for node, cycle in self.gone.items():
            if cycle >= self.first:
                yield cycle, node, DIES
        for row in self._of_nodes(Event.RELAY_NOTICE):
            if row["peer"] != row["node"]:
                yield (
                    row["cycle"],
                    row["node"],
                    f"told that node {row['peer']} is dead" + (", promoted" if row["detail"] else ""),
                )
        for row in self._of_nodes(Event.RELAY_RESET):
            if row["cycle"] != self.gone.get(row["node"]):
                yield row["cycle"], row["node"], "reset"

    def _by(self, end: dict) -> str:
        """Which other message's ACKED ended it, if one did."""
        heard = [
            ("unit", "=", end["unit"]), ("event", "=", int(Event.RELAY_HEARD)), ("cycle", "<=", end["cycle"]),
            ("cycle", ">=", self.first),
        ]  # fmt: skip
        rows = [row for row in self.trace.sound(filters=heard).to_pylist() if type_of(row["detail"]) == Type.ACKED]
        if end["detail"] >> CAUSE_BITS != Status.ACCEPTED or not rows or rows[-1]["tag"] == end["tag"]:
            return ""
        return f", by the ACKED of uid {rows[-1]['tag']}"

    def _of_nodes(self, event: Event) -> list[dict]:
        """The rows of an event at the nodes of the ladder while the message was under way."""
        units = {self.units[node]: node for node in self.nodes}
        rows = self.trace.sound(
            filters=[("event", "=", int(event)), ("cycle", ">=", self.first), ("cycle", "<=", self.last)]
        ).to_pylist()
        return [row | {"node": units[row["unit"]]} for row in rows if row["unit"] in units]

    # Hops.

    @staticmethod
    def _key(row: dict) -> tuple[int, int, int]:
        return row["node"], row["cycle"], row["event"]

    def _hop(self, row: dict, arrived: int | None) -> RelayHop:
        name, more = ("DATA", "again, " if row["detail"] else "") if row["event"] == Event.RELAY_HOP else _told(row)
        if arrived is None:
            fate = self._lost(row)
        else:
            fate = "arrived" if row["event"] == Event.RELAY_HOP else self._heard(row, arrived)
        return RelayHop(
            name=name, sender=row["node"], receiver=row["peer"], launched=row["cycle"], arrived=arrived,
            fate=more + fate,
        )  # fmt: skip

    def _lost(self, row: dict) -> str:
        """Why a hop never arrived."""
        carried = self.carried.get(self._key(row))
        for node in (row["peer"], row["node"]):
            if self._is_dead(node, row["cycle"] + self.system.relay.hop_cycles):
                return f"lost: node {node} {'is dead' if self._is_dead(node, row['cycle']) else 'died'}"
        if carried is None:
            return "not sent: the hop was dead by then, or the trace is over"
        ended = [end for end in self._of_datagram[carried["uid"], Event.COMPLETE] if end["cycle"] > carried["cycle"]]
        return f"lost: {_ending(ended[0]['detail'])}" if ended else "under way when the trace was over"

    def _carried(self) -> dict[tuple[int, int, int], dict]:
        """(node, cycle, event) of each hop → the row in which the NI accepted its datagram."""
        found: dict[tuple[int, int, int], dict] = {}
        for node in {row["node"] for row in self.rows if row["event"] in _NAMES}:
            found |= self._carried_by(node)
        own = {self._key(row) for row in self.rows if row["event"] in _NAMES}
        found = {key: row for key, row in found.items() if key in own}
        uids = sorted({row["uid"] for row in found.values()})
        for event in (Event.DELIVER, Event.COMPLETE):
            for row in self.trace.sound(filters=[("event", "=", int(event)), ("uid", "in", uids)]).to_pylist():
                self._of_datagram[row["uid"], event].append(row)
        return found

    def _carried_by(self, node: int) -> dict[tuple[int, int, int], dict]:
        """The same at one node: to each hop the control that is told, and the data, are accepted in their order."""
        accepts, unit = self._at(node, Event.ACCEPT), self.units[node]
        resets = [row["cycle"] for row in self._at(unit, Event.RELAY_RESET)]
        found: dict[tuple[int, int, int], dict] = {}
        waiting: dict[tuple[int, int], deque[dict]] = defaultdict(deque)
        for row in accepts:
            if self._is_control(row):
                waiting[bisect(resets, row["cycle"]), row["peer"]].append(row)
        for row in self._at(unit, Event.RELAY_TOLD):
            accepted = waiting[bisect(resets, row["cycle"]), row["peer"]]
            if accepted:
                found[node, row["cycle"], Event.RELAY_TOLD] = accepted.popleft()
        data = [row for row in accepts if not self._is_control(row)]
        for row in self.rows:
            if row["node"] == node and row["event"] == Event.RELAY_HOP:
                later = (other for other in data if other["cycle"] > row["cycle"] and other["peer"] == row["peer"])
                accepted = next(later, None)
                if accepted and bisect(resets, accepted["cycle"]) == bisect(resets, row["cycle"]):
                    found[self._key(row)] = accepted
        return found

    def _arrived(self, row: dict) -> int | None:
        """The cycle in which the NI of its receiver delivered a hop."""
        accept = self.carried.get(self._key(row))
        if accept is None:
            return None
        until = accept["cycle"] + self.system.relay.hop_cycles + self.system.packet_life
        return next(
            (
                other["cycle"]
                for other in self._of_datagram[accept["uid"], Event.DELIVER]
                if other["unit"] == row["peer"] and accept["cycle"] < other["cycle"] <= until
            ),
            None,
        )

    def _heard(self, row: dict, arrived: int) -> str:
        """What its receiver did with control that came."""
        node = row["peer"]
        if node not in self._acted:
            self._acted[node] = self._acts(node)
        acted = self._acted[node].get(arrived)
        if acted is None:
            return "not looked at before its node was reset, or the trace over"
        return f"heard in {acted['cycle']}" if acted["event"] == Event.RELAY_HEARD else f"ignored in {acted['cycle']}"

    def _acts(self, node: int) -> dict[int, dict]:
        """To the cycle in which control was delivered to a node the row in which it acted: it does so in its order."""
        delivered = [row for row in self._at(node, Event.DELIVER) if self._is_control(row)]
        acted = sorted(
            [*self._at(self.units[node], Event.RELAY_HEARD), *self._at(self.units[node], Event.RELAY_IGNORED)],
            key=lambda row: row["cycle"],
        )
        resets = [row["cycle"] for row in self._at(self.units[node], Event.RELAY_RESET)]
        lives: dict[int, list[dict]] = defaultdict(list)
        for row in acted:
            lives[bisect(resets, row["cycle"])].append(row)
        places: Multiset[int] = Multiset()
        found = {}
        for row in delivered:
            life = bisect(resets, row["cycle"])
            if places[life] < len(lives[life]):
                found[row["cycle"]] = lives[life][places[life]]
            places[life] += 1
        return found

    def _at(self, unit: int, event: Event) -> list[dict]:
        """The rows of an event at a unit."""
        return self.trace.sound(filters=[("unit", "=", unit), ("event", "=", int(event))]).to_pylist()

    def _is_control(self, row: dict) -> bool:
        """Whether a row of an NI is of a datagram of a control slot."""
        return unpack_uid(row["uid"])[2] >= self.system.ni.slots - self.system.ni.control_slots


def _merged(found: list[tuple[int, int, str]]) -> Iterator[RelayMark]:
    """Marks that follow one another with one text are one."""
    rows: list[list[tuple[int, int, str]]] = []
    for row in found:
        near = rows and rows[-1][0][2] == row[2] and row[0] <= rows[-1][0][0] + _NEAR
        if near and row[1] not in {node for _, node, _ in rows[-1]}:
            rows[-1].append(row)
        else:
            rows.append([row])
    for some in rows:
        yield RelayMark(cycle=some[0][0], until=some[-1][0], nodes=tuple(node for _, node, _ in some), text=some[0][2])


def _told(row: dict) -> tuple[str, str]:
    """The type of control that is told, and what else it says."""
    kind, flags = type_of(row["detail"]), row["detail"] & (1 << FLAG_BITS) - 1
    name = Type(kind).name if kind in Type._value2member_map_ else str(kind)
    return name, ("more, " if flags & 2 else "") + ("thru, " if flags & 4 else "")


def _ending(detail: int) -> str:
    status, cause = divmod(detail, 1 << CAUSE_BITS)
    told = Status(status).name if status in Status._value2member_map_ else str(status)
    if not cause:
        return told
    return f"{told} ({Cause(cause).name.lower() if cause in Cause._value2member_map_ else cause})"
