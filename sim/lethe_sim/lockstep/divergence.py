"""The first cycle at which RTL and golden model part, in words."""

from dataclasses import dataclass

import numpy as np

from lethe.spec import trace
from lethe.spec.config import System
from lethe.spec.events import Drop, Event
from lethe.spec.topology import Topology
from lethe.spec.wire import unpack_uid

_EVENTS, _DROPS = frozenset(map(int, Event)), frozenset(map(int, Drop))
LANE_NAMES = ("tx", "rx", "accept", "complete", "take", "fragment")


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One trace word on which the sides disagree."""

    unit: str
    what: str
    golden: int
    rtl: int


class DivergenceError(AssertionError):
    """RTL and golden model disagree; `str()` is the whole report."""

    def __init__(self, cycle: int, differences: list[Difference], report: str):
        super().__init__(report)
        self.cycle = cycle
        self.differences = differences


def place(graph: Topology, index: int) -> tuple[str, str]:
    """(unit, what) that trace word ``index`` belongs to."""
    if index < graph.nodes * trace.NI_WORDS:
        node, word = divmod(index, trace.NI_WORDS)
        if word < trace.NI_FLAGS:
            return f"ni{node}", f"lane {LANE_NAMES[word // 2]}, {'uid' if word % 2 else 'event'}"
        if word == trace.NI_FLAGS:
            return f"ni{node}", "flags"
        return f"ni{node}", "link_o.data" if word < trace.NI_BEAT else "deliver_data.data"
    if index < trace.link_base(graph):
        for router in reversed(range(graph.routers)):
            base = trace.router_base(graph, router)
            if index >= base:
                back, port = divmod(index - base, graph.ports(router))
                return f"router{router}", f"input {port}" + (", back" if back else "")
    first = (index - trace.link_base(graph)) * trace.LINKS_PER_WORD
    return "links", f"{first} to {first + trace.LINKS_PER_WORD - 1}"


def describe_word(graph: Topology, index: int, value: int) -> str:
    """A trace word as a person would say it."""
    if index >= trace.link_base(graph):
        codes = [(value >> 8 * i) & 0xFF for i in range(trace.LINKS_PER_WORD)]
        base = (index - trace.link_base(graph)) * trace.LINKS_PER_WORD
        return ", ".join(f"link{base + i} {_event(c)}" for i, c in enumerate(codes) if c) or "nothing"
    if index >= graph.nodes * trace.NI_WORDS:
        return (
            f"{_event(value & 0xFF)} detail {value >> 8 & 0xFF} head 0x{value >> trace.HEAD_SHIFT:012x}"
            if value
            else "nothing"
        )
    word = index % trace.NI_WORDS
    if word == trace.NI_FLAGS:
        return " ".join(name for i, name in enumerate(trace.NI_FLAG_BITS) if value >> i & 1) or "none"
    if word > trace.NI_FLAGS:
        return f"0x{value:016x}"
    return describe_uid(value) if word % 2 else describe_event(value)


def describe_event(word: int) -> str:
    """An event word of a NI lane."""
    if not word:
        return "nothing"
    code, detail, peer, length = (
        word >> s & (1 << w) - 1 for s, w in (trace.EVENT, trace.DETAIL, trace.PEER, trace.LENGTH)
    )
    text = f"{_event(code)} peer {peer} length {length}"
    if code == Event.DROP and detail in _DROPS:
        return f"{text} reason {Drop(detail).name}"
    return f"{text} detail {detail}"


def describe_uid(uid: int) -> str:
    source, incarnation, slot, generation = unpack_uid(uid)
    return f"{source}:{incarnation}:{slot}:{generation}"


def _event(code: int) -> str:
    return Event(code).name if code in _EVENTS else f"event {code}?"


def report(
    system: System,
    cycle: int,
    golden: np.ndarray,
    rtl: np.ndarray,
    history: list[tuple[int, np.ndarray]],
    reproduce: str,
    *,
    most: int = 12,
) -> DivergenceError:
    """The divergence at ``cycle``.

    ``golden`` and ``rtl`` are the trace words of that cycle; ``history`` holds (first cycle, golden rows) of the cycles
    before it, equal on both sides.
    """
    graph = system.graph
    differing = np.flatnonzero(golden != rtl)
    differences = []
    run = f"run {system.run.name!r}, seed {system.run.seed}"
    lines = [f"RTL and golden model part in cycle {cycle} ({run}): {len(differing)} words differ"]
    for index in differing.tolist():
        unit, what = place(graph, index)
        differences.append(Difference(unit=unit, what=what, golden=int(golden[index]), rtl=int(rtl[index])))
        if len(differences) <= most:
            lines.append(f"  {unit:10} {what:24} golden {describe_word(graph, index, int(golden[index]))}")
            lines.append(f"  {'':10} {'':24} rtl    {describe_word(graph, index, int(rtl[index]))}")
    uids = _uids_involved(graph, differing, golden, rtl)
    units = {index // trace.NI_WORDS for index in differing.tolist() if index < graph.nodes * trace.NI_WORDS}
    past = _past(graph, history, uids, units)
    if past:
        named = ", ".join(describe_uid(u) for u in sorted(uids)) or "the units that differ"
        lines.append(f"last events of {named} (both sides agree on them):")
        lines += [f"  {text}" for text in past[-16:]]
    lines.append(f"reproduce: {reproduce}")
    return DivergenceError(cycle, differences, "\n".join(lines))


def _uids_involved(graph: Topology, differing: np.ndarray, golden: np.ndarray, rtl: np.ndarray) -> set[int]:
    found = set()
    for index in differing.tolist():
        if index < graph.nodes * trace.NI_WORDS and index % trace.NI_WORDS < trace.NI_FLAGS:
            node, word = divmod(index, trace.NI_WORDS)
            uid = node * trace.NI_WORDS + (word | 1)
            found |= {int(side[uid]) for side in (golden, rtl) if side[uid - 1]}
    return found


def _past(graph: Topology, history: list[tuple[int, np.ndarray]], uids: set[int], units: set[int]) -> list[str]:
    """Events of the datagrams in ``uids`` (or, without any, of the NIs in ``units``), oldest first."""
    found = []
    for first, rows in history:
        lanes = rows[:, : graph.nodes * trace.NI_WORDS].reshape(len(rows), graph.nodes, trace.NI_WORDS)
        events, ids = lanes[:, :, 0 : trace.NI_FLAGS : 2], lanes[:, :, 1 : trace.NI_FLAGS : 2]
        for row, node, lane in zip(*np.nonzero(events), strict=True):
            uid = int(ids[row, node, lane])
            if uid in uids if uids else int(node) in units:
                said = describe_event(int(events[row, node, lane]))
                found.append(f"cycle {first + int(row)} ni{node} {LANE_NAMES[lane]}: {said} uid {describe_uid(uid)}")
    return found
