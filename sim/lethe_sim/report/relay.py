"""What a trace says of relay over time: messages, trees, what was sent again and by whom, control; charts of it."""

from collections import Counter as Multiset
from collections.abc import Sequence

import numpy as np
from markupsafe import Markup

from lethe.spec.config import System
from lethe.spec.events import Event
from lethe.spec.overlay import Overlay
from lethe.spec.sections.relay import first_overlay
from lethe.spec.services import RELAY
from lethe.spec.services.relay import Type, type_of
from lethe.spec.wire import UID_SOURCE_SHIFT
from lethe_sim.trace import TraceReader
from lethe_sim.trace.relay_ladder import RelayHop, RelayLadder

from .course import Course, Levels, Picture, service_rows
from .html import csv_uri
from .ladder import draw_way
from .svg import element, picture, text, title
from .timeline import MOST_LINES, Stretch

__all__ = ["RelayCourse", "course", "draw_overlay", "pictures"]

_COLUMNS = ("cycle", "event", "uid", "peer", "detail")
#: What is counted, by the name of its line.
COUNTED = {"given": Event.RELAY_SEND, "posted": Event.RELAY_POST, "taken": Event.RELAY_TAKE}
#: What a relay does for want of room or time.
WANT = {
    "no buffer": Event.RELAY_OWED, "no record": Event.RELAY_UNTRACKED, "evicted": Event.RELAY_EVICT,
    "no cell": Event.RELAY_HUNGRY, "control dropped": Event.RELAY_DROPPED,
}  # fmt: skip
#: Nodes of the largest tree that is drawn, and nodes of those that answered that are named.
_NODES, _NAMED = 256, 12


class RelayCourse(Course):
    """Relay of a run.

    Attributes
    ----------
    counts, want : by name of `COUNTED`, of `WANT`, events in each column
    replays : hops in each column with data that went out before, by relays and by the messages' origins
    replayed : of each node how many of these were its own doing as a relay, as an origin
    hops : hops of data in each column
    told : by type, control in each column
    live : messages that were given and have not ended, at the end of each column
    notices : of each node that was said to be dead, the first and the last cycle of a notice
    """

    def __init__(self, system: System, cycles: int):
        super().__init__(system, cycles)
        self.counts = {name: self.zeros for name in COUNTED}
        self.want = {name: self.zeros for name in WANT}
        self.hops = self.zeros
        self.replays = {"by relays": self.zeros, "by origins": self.zeros}
        self.replayed: dict[str, Multiset[int]] = {name: Multiset() for name in self.replays}
        self.told: dict[Type, np.ndarray] = {}
        self.notices: dict[int, tuple[int, int]] = {}
        self._live = Levels(system.nodes, self.columns)

    @property
    def live(self) -> np.ndarray:
        return self._live.sums()

    @property
    def dead(self) -> tuple[int, ...]:
        """The nodes that were said to be dead, in the order of their first notices."""
        return tuple(sorted(self.notices, key=lambda node: (self.notices[node], node)))

    def append(self, rows: dict[str, np.ndarray]) -> None:
        """More rows of relay, after all that came before: node, and the columns `_COLUMNS`."""
        resets = np.flatnonzero(rows["event"] == Event.RELAY_RESET)
        for part in np.split(np.arange(len(rows["event"])), resets):
            piece = {name: values[part] for name, values in rows.items()}
            if len(part) and piece["event"][0] == Event.RELAY_RESET:
                self._live.clear(int(piece["node"][0]), int(piece["cycle"][0]) // self.width)
            self._append(piece)

    def _append(self, rows: dict[str, np.ndarray]) -> None:
        event, column, node = rows["event"], rows["cycle"] // self.width, rows["node"]
        detail = rows["detail"].astype(np.int64)
        for counts, events in ((self.counts, COUNTED), (self.want, WANT)):
            for name, counted in events.items():
                np.add.at(counts[name], column[event == counted], 1)
        given, ended = event == Event.RELAY_SEND, event == Event.RELAY_END
        self._live.add(node[given], column[given], 1)
        self._live.add(node[ended], column[ended], -1)
        hops = event == Event.RELAY_HOP
        np.add.at(self.hops, column[hops], 1)
        again, own = hops & (detail == 1), rows["uid"] >> UID_SOURCE_SHIFT == node
        for name, some in (("by relays", again & ~own), ("by origins", again & own)):
            np.add.at(self.replays[name], column[some], 1)
            self.replayed[name].update(node[some].tolist())
        told = event == Event.RELAY_TOLD
        for kind in np.unique(type_of(detail[told])).tolist():
            some = told & (type_of(detail) == kind)
            np.add.at(self.told.setdefault(Type(kind), self.zeros), column[some], 1)
        for row in np.flatnonzero((event == Event.RELAY_NOTICE) & (rows["peer"] != node)).tolist():
            dead, cycle = int(rows["peer"][row]), int(rows["cycle"][row])
            first, last = self.notices.get(dead, (cycle, cycle))
            self.notices[dead] = min(first, cycle), max(last, cycle)

    def spans(self) -> list[Stretch]:
        """When each death was told of: from the first notice to the last."""
        least = max(1, self.cycles // 400)  # so that it can be seen
        return [
            Stretch(first, max(last, first + least), f"notices of node {dead}, cycles {first:,} to {last:,}")
            for dead, (first, last) in self.notices.items()
        ]


def course(trace: TraceReader) -> RelayCourse | None:
    """What a trace says of relay; None if its system has none.  Its rows must be sound."""
    system = trace.meta.system
    if RELAY not in system.services:
        return None
    found = RelayCourse(system, trace.meta.cycles)
    for rows in service_rows(trace, RELAY, _COLUMNS):
        found.append(rows)
    return found


# Pictures


def pictures(found: RelayCourse, ladder: RelayLadder | None = None) -> list[Picture]:
    """The charts that a run has something to show in, and the way of a message, if one is given."""
    drawn = [_messages(found), *_trees(found), _live(found), _again(found), _answered(found), _control(found)]
    return [one for one in (*drawn, _want(found), _way(ladder) if ladder else None) if one is not None]


def _messages(found: RelayCourse) -> Picture:
    return found.lines(
        "messages", "Messages", "Given to relay, posted at their destinations in their order, and taken by the hosts. "
        "Grey: when nodes were told of a death.", found.each("messages"), found.counts, spans=found.spans(),
    )  # fmt: skip


def _live(found: RelayCourse) -> Picture:
    return found.lines(
        "live", "Live messages", "Their origins still have a copy, since nobody has said that they are posted.",
        "messages", {"live": found.live}, spans=found.spans(),
    )  # fmt: skip


def _again(found: RelayCourse) -> Picture | None:
    if not any(line.any() for line in found.replays.values()):
        return None
    return found.lines(
        "replays", "Sent again", "Hops with data that had gone out before: by a relay that held them, or by their "
        "origin. Nobody sends them without being asked.", found.each("hops"), found.replays, spans=found.spans(),
    )  # fmt: skip


def _answered(found: RelayCourse) -> Picture | None:
    """A row of dots for each node that sent again, as many as it sent; drawn as bars of a table."""
    rows = [(node, name, count) for name, nodes in found.replayed.items() for node, count in sorted(nodes.items())]
    if not rows:
        return None
    total: Multiset[int] = Multiset()
    for node, _, count in rows:
        total[node] += count
    shown = [node for node, _ in total.most_common(_NAMED)]
    most, width, row = max(total.values()), 460.0, 22.0
    parts = []
    for at, node in enumerate(shown):
        y, x = 6 + at * row, 64.0
        parts.append(text(x - 8, y + 13, f"node {node}", class_="tick end"))
        for name, colour in (("by relays", "var(--s0)"), ("by origins", "var(--s1)")):
            count = found.replayed[name][node]
            if count:
                long = (width - x - 60) * count / most
                told = title(f"node {node}: {count:,} {name}")
                parts.append(element("rect", told, x=x, y=y, width=long, height=row - 6, rx=2, fill=colour))
                x += long
        parts.append(text(x + 6, y + 13, f"{total[node]:,}", class_="tick"))
    hidden = len(total) - len(shown)
    about = "Hops with data that had gone out before, by node: as a relay (first colour), as their origin (second)."
    about += f" {hidden:,} further nodes are in the numbers only." if hidden else ""
    drawn = picture(width, 12 + row * len(shown), parts, "Who sent again", "chart")
    return Picture("answered", "Who sent again", about, drawn, csv_uri(("node", "as", "hops"), rows))


def _way(ladder: RelayLadder) -> Picture:
    rows = [
        (row.launched, row.sender, row.receiver, row.name, row.arrived, row.fate)
        if isinstance(row, RelayHop)
        else (row.cycle, " ".join(map(str, row.nodes)), "", row.text, row.until, "")
        for row in ladder.rows
    ]
    return Picture(
        "message", "The message with the most hops", f"{ladder.title.capitalize()}. Time runs down; an arrow is a "
        "message of a hop, a cross one that never came. A line is broken where its node has died.",
        draw_way(ladder), csv_uri(("cycle", "node", "to", "what", "until", "fate"), rows), True,
    )  # fmt: skip


def _control(found: RelayCourse) -> Picture | None:
    if not found.told:
        return None
    lines = {kind.name: found.told[kind] for kind in sorted(found.told)}
    lines["data"] = found.hops
    return found.lines(
        "control", "Control, and data", "From hop to hop: ACKED says posted, ACKACKED that the origin knows; after a "
        "death LINK says what goes where, PULL asks for that, REQUESTED asks for data.", found.each("hops"),
        dict(list(lines.items())[:MOST_LINES]), spans=found.spans(),
    )  # fmt: skip


def _want(found: RelayCourse) -> Picture | None:
    lines = {name: line for name, line in found.want.items() if line.any()}
    if not lines:
        return None
    return found.lines(
        "want", "For want of room", "Data that found no buffer are asked for again later. Without a record a message "
        "is carried all the same. Without a cell it is dropped, and sent again when there is one.",
        found.each("times"), lines, spans=found.spans(),
    )  # fmt: skip


# Trees


def _trees(found: RelayCourse) -> list[Picture]:
    """The overlay before the first notice, and that after the last."""
    before = first_overlay(found.system)
    if not before.radix or before.nodes > _NODES:
        return []
    after = before.without(*found.dead)
    told = "Every node passes on what its neighbours send to one another."
    trees = [_tree(before, before, "tree", "The overlay" if not found.dead else "The overlay before", told)]
    if found.dead:
        gone = ", ".join(map(str, found.dead))
        trees.append(
            _tree(
                before, after, "tree_after", "The overlay after",
                f"Without {'node' if len(found.dead) == 1 else 'nodes'} {gone}. Filled: nodes that were promoted into "
                "another place.",
            )
        )  # fmt: skip
    return trees


def _tree(before: Overlay, after: Overlay, name: str, heading: str, about: str) -> Picture:
    rows = [
        (node, "" if (parent := after.parent(node)) < 0 else parent, after.depth(node), int(node in promoted))
        for promoted in (set(before.change(after.dead - before.dead).promoted),)
        for node in after.living
    ]
    return Picture(
        name, heading, about, draw_overlay(after, [row[0] for row in rows if row[3]], heading),
        csv_uri(("node", "parent", "depth", "promoted"), rows),
    )  # fmt: skip


def draw_overlay(tree: Overlay, marked: Sequence[int] = (), label: str = "The overlay") -> Markup:
    """The tree as SVG, the root on top, leaves side by side; ``marked`` nodes are filled."""
    at: dict[int, float] = {}
    next_leaf = 0.0

    def place(node: int) -> float:
        nonlocal next_leaf
        below = [place(child) for child in tree.children(node)]
        if below:
            at[node] = (below[0] + below[-1]) / 2
        else:
            at[node], next_leaf = next_leaf, next_leaf + 1
        return at[node]

    place(tree.root)
    width = 460.0
    step = (width - 28) / max(1.0, next_leaf - 1)
    radius, deep = min(9.0, max(2.5, 0.46 * step)), 44.0
    where = {node: (14 + x * step, 16 + deep * tree.depth(node)) for node, x in at.items()}
    parts = [
        element("line", x1=where[node][0], y1=where[node][1], x2=where[above][0], y2=where[above][1], class_="wire")
        for node in at
        if (above := tree.parent(node)) >= 0
    ]
    for node, (x, y) in sorted(where.items()):
        told = title(f"node {node}, depth {tree.depth(node)}" + (", promoted" if node in marked else ""))
        heat = "--share:60%" if node in marked else "--share:0%"
        parts.append(element("circle", told, cx=x, cy=y, r=radius, class_="station", style=heat))
        if radius >= 6:
            parts.append(text(x, y + 3.5, str(node), class_="number middle"))
    return picture(width, 32 + deep * max(tree.depth(node) for node in at), parts, label, "network")
