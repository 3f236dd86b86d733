"""What a trace says of flow over time: messages, ports, credits, congestion, peers; and the charts of it."""

from collections import Counter as Multiset
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from lethe.spec.config import System
from lethe.spec.events import CAUSE_BITS, Cause, Event, Status
from lethe.spec.services import FLOW
from lethe.spec.services.flow import WINDOW, Code, Out
from lethe_sim.ledger.columns import NULL, starts_of
from lethe_sim.trace import TraceReader

from .course import Course, Levels, Picture, service_rows
from .curves import Cell, heat_map
from .html import csv_uri
from .timeline import MOST_LINES, Steps, Stretch, bars, steps

__all__ = ["FlowCourse", "course", "pictures", "streams"]

#: Ports and streams that are shown one by one.
_PORTS, _BARS, _STREAMS = 6, 12, 10
#: Nodes whose pairs a heat map has room for.
_NODES = 32
#: Stretches of congestion that are kept.
_STRETCHES = 20_000
#: In the lowest 16 bits of a WINDOW behind its code: the index, the credit, and of the ack the lowest 4.
_INDEX_BITS, _CREDIT_BITS = 4, 8
_COLUMNS = ("cycle", "event", "peer", "detail", "tag")
#: What is counted, by the name of its line.
COUNTED = {"admitted": Event.FLOW_SEND, "placed": Event.FLOW_PLACE, "taken": Event.FLOW_TAKE}


class Congestion(NamedTuple):
    """A port's congestion: ``end`` is the run's if it did not end."""

    node: int
    index: int
    start: int
    end: int


class FlowCourse(Course):
    """Flow of a run, in columns of ``width`` cycles.

    Attributes
    ----------
    counts : by name of `COUNTED`, messages in each column
    refused : by cause, records that were refused in each column
    told : by code, control words that were sent in each column
    under_way : messages to other nodes that were admitted and have not ended, at the end of each column
    held : int[nodes · ports, columns]: the most cells that a port held in a column
    credits, least : of the limits that WINDOW words told in each column, the sum of how many messages more than the
        receiver's expected number they allow, and the least; ``windows`` is their number
    up : peers that are UP, over all nodes, at the end of each column
    congestions : in the order of their ends; ``more`` further ones are not kept
    streams : messages placed, by (source, destination, index)
    """

    def __init__(self, system: System, cycles: int):
        super().__init__(system, cycles)
        nodes, ports = system.nodes, system.flow.ports
        self.counts = {name: self.zeros for name in COUNTED}
        self.refused: dict[Cause, np.ndarray] = {}
        self.told: dict[Code, np.ndarray] = {}
        self.congestions: list[Congestion] = []
        self.more = 0
        self.streams: Multiset[tuple[int, int, int]] = Multiset()
        self.windows, self.credits, self.least = self.zeros, self.zeros, np.full(self.columns, WINDOW + 1)
        self.held = np.zeros((nodes * ports, self.columns), np.int64)
        self._under_way, self._up = Levels(nodes, self.columns), Levels(nodes, self.columns)
        self._cells = np.zeros(nodes * ports, np.int64)
        self._ends = np.full_like(self.held, NULL)
        self._states: dict[int, set[int]] = {}
        self._congested: dict[tuple[int, int], int] = {}

    @property
    def under_way(self) -> np.ndarray:
        return self._under_way.sums()

    @property
    def up(self) -> np.ndarray:
        return self._up.sums()

    # What is read

    def append(self, rows: dict[str, np.ndarray]) -> None:
        """More rows of flow, after all that came before: node, and the columns `_COLUMNS`."""
        resets = np.flatnonzero(rows["event"] == Event.FLOW_RESET)
        # What a reset takes away is known when all before it is.
        for part in np.split(np.arange(len(rows["event"])), resets):
            piece = {name: values[part] for name, values in rows.items()}
            if len(part) and piece["event"][0] == Event.FLOW_RESET:
                self._reset(int(piece["node"][0]), int(piece["cycle"][0]))
            self._append(piece)

    def finish(self) -> None:
        """No more rows come."""
        for (node, index), start in self._congested.items():
            self._keep(Congestion(node, index, start, self.cycles))
        self._congested.clear()
        # What a port holds at the end of a column it holds at the beginning of the next.
        known = np.maximum.accumulate(np.where(self._ends == NULL, 0, np.arange(self.columns)), axis=1)
        ends = np.maximum(np.take_along_axis(self._ends, known, axis=1), 0)
        np.maximum(self.held[:, 1:], ends[:, :-1], out=self.held[:, 1:])

    def _append(self, rows: dict[str, np.ndarray]) -> None:
        event, column = rows["event"], rows["cycle"] // self.width
        node, peer, detail, extra = (rows[name].astype(np.int64) for name in ("node", "peer", "detail", "tag"))
        # 0 is no cell of a trace where a column is not always there.
        others, extra = node != peer, np.maximum(extra, 0)
        for name, counted in COUNTED.items():
            np.add.at(self.counts[name], column[event == counted], 1)
        refused, told = event == Event.FLOW_REFUSED, event == Event.FLOW_TOLD
        for value in np.unique(detail[refused]).tolist():
            np.add.at(self.refused.setdefault(Cause(value), self.zeros), column[refused & (detail == value)], 1)
        for value in np.unique(detail[told]).tolist():
            np.add.at(self.told.setdefault(Code(value), self.zeros), column[told & (detail == value)], 1)
        self._windows(column, extra, told & (detail == Code.WINDOW))
        placed = event == Event.FLOW_PLACE
        nodes, ports = self.system.nodes, self.system.flow.ports
        names = (peer[placed] * nodes + node[placed]) * ports + extra[placed] % ports
        for name, count in zip(*(part.tolist() for part in np.unique(names, return_counts=True)), strict=True):
            self.streams[name // ports // nodes, name // ports % nodes, name % ports] += count
        begun, ended = event == Event.FLOW_SEND, event == Event.FLOW_END
        ended &= detail >> CAUSE_BITS != Status.REJECTED
        self._under_way.add(node, column, others * (begun.astype(np.int64) - ended))
        self._hold(column, node, extra, event, others)
        self._follow(rows, (event == Event.FLOW_PEER) | (event == Event.FLOW_CONGESTED))

    def _windows(self, column: np.ndarray, extra: np.ndarray, which: np.ndarray) -> None:
        column, extra = column[which], extra[which]
        credit, ack = extra >> _INDEX_BITS & (1 << _CREDIT_BITS) - 1, extra >> _INDEX_BITS + _CREDIT_BITS
        # A limit is 2 to 16 beyond the expected number, of which the ack has the lowest bits.
        allowed = (credit - ack - 1) % WINDOW + 1
        np.add.at(self.windows, column, 1)
        np.add.at(self.credits, column, allowed)
        np.minimum.at(self.least, column, allowed)

    def _hold(
        self, column: np.ndarray, node: np.ndarray, extra: np.ndarray, event: np.ndarray, others: np.ndarray
    ) -> None:
        """Cells: taken at the commit of what another node sent, at the place of what the own one did."""
        taken = others & (event == Event.FLOW_COMMIT) | ~others & (event == Event.FLOW_PLACE)
        given = (event == Event.FLOW_TAKE) | (event == Event.FLOW_FLUSHED)
        which = np.flatnonzero(taken | given)
        if not len(which):
            return
        port = node[which] * self.system.flow.ports + extra[which] % self.system.flow.ports
        adds, at = np.where(taken[which], 1, -1), column[which]
        order = np.argsort(port, kind="stable")
        port, adds, at = port[order], adds[order], at[order]
        starts = starts_of(port)
        sums = np.cumsum(adds)
        before = np.append(0, sums[starts[1:] - 1]) - self._cells[port[starts]]
        levels = sums - np.repeat(before, np.diff(np.append(starts, len(port))))
        np.maximum.at(self.held, (port, at), levels)
        last = np.append((port[1:] != port[:-1]) | (at[1:] != at[:-1]), True)
        self._ends[port[last], at[last]] = levels[last]
        ends = np.append(starts[1:], len(port)) - 1
        self._cells[port[ends]] = levels[ends]

    def _follow(self, rows: dict[str, np.ndarray], which: np.ndarray) -> None:
        columns = (rows[name][which].tolist() for name in ("cycle", "node", "event", "peer", "detail", "tag"))
        for cycle, node, event, peer, detail, extra in zip(*columns, strict=True):
            if event == Event.FLOW_CONGESTED:
                if detail:
                    self._congested.setdefault((node, extra), cycle)
                elif (start := self._congested.pop((node, extra), None)) is not None:
                    self._keep(Congestion(node, extra, start, cycle))
                continue
            up = self._states.setdefault(node, set())
            change = (detail == Out.UP) - (peer in up)
            (up.add if detail == Out.UP else up.discard)(peer)
            self._up.add(np.array([node]), np.array([cycle // self.width]), np.array([change]))

    def _keep(self, congestion: Congestion) -> None:
        if len(self.congestions) < _STRETCHES:
            self.congestions.append(congestion)
        else:
            self.more += 1

    def _reset(self, node: int, cycle: int) -> None:
        column, ports = cycle // self.width, self.system.flow.ports
        mine = slice(node * ports, (node + 1) * ports)
        self._cells[mine] = 0
        self._ends[mine, column] = 0
        self._under_way.clear(node, column)
        self._up.clear(node, column)
        self._states.pop(node, None)
        for key in [key for key in self._congested if key[0] == node]:
            self._keep(Congestion(*key, self._congested.pop(key), cycle))


def course(trace: TraceReader) -> FlowCourse | None:
    """What a trace says of flow; None if its system has none.  Its rows must be sound (`TraceReader.sound_batches`)."""
    system = trace.meta.system
    if FLOW not in system.services:
        return None
    found = FlowCourse(system, trace.meta.cycles)
    for rows in service_rows(trace, FLOW, _COLUMNS):
        found.append(rows)
    found.finish()
    return found


# Pictures


def pictures(found: FlowCourse) -> list[Picture]:
    """The charts that a run has something to show in."""
    drawn = [_messages(found), _under_way(found), _ports(found), _congestion(found), _credits(found)]
    drawn += [_by_kind(found), _refused(found), _pairs(found)]
    return [picture for picture in drawn if picture is not None]


def streams(found: FlowCourse) -> list[tuple[int, int, int, int]]:
    """(source, destination, index, messages placed) of the streams with the most messages."""
    return [(*stream, count) for stream, count in found.streams.most_common(_STREAMS)]


def _messages(found: FlowCourse) -> Picture:
    return found.lines(
        "messages", "Messages", "Admitted by flow with a number, placed in a port in their order, and taken by "
        "the hosts.", found.each("messages"), found.counts,
    )  # fmt: skip


def _under_way(found: FlowCourse) -> Picture:
    return found.lines(
        "open", "Under way, and peers", "Messages to other nodes that have not ended, and peers that are UP, of "
        "all nodes together.", "messages, peers", {"messages under way": found.under_way, "peers UP": found.up},
    )  # fmt: skip


def _port(found: FlowCourse, number: int) -> str:
    ports = found.system.flow.ports
    return f"{number // ports}:{number % ports}"


def _ports(found: FlowCourse) -> Picture | None:
    most = found.held.max(axis=1)
    # The fullest; of those that are as full, the longest.
    order = np.lexsort((-found.held.sum(axis=1), -most))
    chosen = [int(number) for number in order[:_PORTS] if most[number]]
    if not chosen:
        return None
    cells = found.system.flow.cells
    return found.lines(
        "cells", "The fullest ports", f"Cells that hold a message, of {cells:,} in each port, by node and "
        "index; the most in each column.", "cells", {_port(found, number): found.held[number] for number in chosen},
    )  # fmt: skip


def _congestion(found: FlowCourse) -> Picture | None:
    if not found.congestions:
        return None
    by_port: dict[tuple[int, int], list[Congestion]] = {}
    for one in found.congestions:
        by_port.setdefault((one.node, one.index), []).append(one)
    longest = sorted(by_port, key=lambda port: (-sum(one.end - one.start for one in by_port[port]), port))
    rows = {
        f"{node}:{index}": [
            Stretch(one.start, one.end, f"congested from cycle {one.start:,} to {one.end:,}")
            for one in by_port[node, index]
        ]
        for node, index in longest[:_BARS]
    }  # fmt: skip
    hidden = len(longest) - len(rows)
    about = "By node and index: when it asked its peers to send nothing more"
    about += f"; {hidden:,} further ports are in the numbers only." if hidden else "."
    if found.more:
        about += f" {found.more:,} later times are left out."
    return Picture(
        "congestion", "Congested ports", about, bars(rows, found.cycles, label="Congested ports"),
        csv_uri(Congestion._fields, sorted(found.congestions, key=attrgetter("start"))),
    )  # fmt: skip


def _credits(found: FlowCourse) -> Picture | None:
    """Steps hold from a column with words to the next."""
    told = np.flatnonzero(found.windows)
    if not len(told):
        return None
    mean, least = np.round(found.credits[told] / found.windows[told], 2).tolist(), found.least[told].tolist()
    marks = (told * found.width).tolist()
    lines: dict[str, Steps] = {
        "mean": list(zip(marks, mean, strict=True)),
        "least": list(zip(marks, least, strict=True)),
    }
    return Picture(
        "credits", "Credits that WINDOW words told", "Messages that a stream may have beyond the one its receiver "
        "expects: 2 to 16. Most credits travel in the headers of messages, which a trace does not have.",
        steps(lines, found.cycles, title="messages", label="Credits"),
        csv_uri(
            ("cycle_from", "words", "mean", "least"),
            zip(marks, found.windows[told].tolist(), mean, least, strict=True),
        ),
    )  # fmt: skip


def _by_kind(found: FlowCourse) -> Picture | None:
    if not found.told:
        return None
    return found.lines(
        "control", "Control words", "Sent to other nodes: PING and PONG open, MAP says which ports are "
        "congested, WINDOW gives credit, VOID gives numbers up.", found.each("words"),
        {code.name: found.told[code] for code in sorted(found.told)},
    )  # fmt: skip


def _refused(found: FlowCourse) -> Picture | None:
    if not found.refused:
        return None
    most = sorted(found.refused, key=lambda cause: (-int(found.refused[cause].sum()), cause))[:MOST_LINES]
    return found.lines(
        "refused", "Refused records", "By cause; their hosts were told so, and nothing was sent.",
        found.each("records"), {cause.name: found.refused[cause] for cause in most},
    )  # fmt: skip


def _pairs(found: FlowCourse) -> Picture | None:
    nodes = found.system.nodes
    if nodes > _NODES or not found.streams:
        return None
    pairs: Multiset[tuple[int, int]] = Multiset()
    for (source, destination, _), count in found.streams.items():
        pairs[source, destination] += count
    names = [str(node) for node in range(nodes)]
    shown = [Cell(destination, source, pairs[source, destination]) for source, destination in sorted(pairs)]
    return Picture(
        "streams", "Messages by source and destination", "All streams of a pair together, as they were placed.",
        heat_map(shown, names, names, x_label="destination", y_label="source", unit="messages"),
        csv_uri(
            ("source", "destination", "index", "messages"),
            [(*stream, found.streams[stream]) for stream in sorted(found.streams)],
        ),
    )  # fmt: skip
