"""The first cycle at which RTL and golden model part, in words."""

from dataclasses import dataclass

import numpy as np

from lethe.spec import trace
from lethe.spec.config import System
from lethe.spec.events import Drop, Event
from lethe.spec.trace import Layout
from lethe.spec.wire import unpack_uid

_EVENTS, _DROPS = frozenset(map(int, Event)), frozenset(map(int, Drop))


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


def place(layout: Layout, index: int) -> tuple[str, str]:
    """(unit, what) that trace word ``index`` belongs to."""
    graph = layout.graph
    if index < layout.fabric_base:
        node, word = divmod(index, layout.ni_words)
        return f"ni{node}", _ni_word(layout, word)
    if index < layout.link_base:
        for router in reversed(range(graph.routers)):
            base = layout.router_base(router)
            if index >= base:
                back, port = divmod(index - base, graph.ports(router))
                return f"router{router}", f"input {port}" + (", back" if back else "")
    first = (index - layout.link_base) * trace.LINKS_PER_WORD
    return "links", f"{first} to {first + trace.LINKS_PER_WORD - 1}"


def _ni_word(layout: Layout, word: int) -> str:
    """What a word of an NI is."""
    for lane, name in enumerate(layout.lanes):
        if 0 <= (part := word - trace.lane_word(lane)) < 2:
            return f"lane {name}, {'uid' if part else 'event'}"
    if word == trace.NI_FLAGS:
        return "flags"
    return "link_o.data" if word < trace.NI_BEAT else "deliver_data.data"


def describe_word(layout: Layout, index: int, value: int) -> str:
    """A trace word as a person would say it."""
    if index >= layout.link_base:
        codes = list(value.to_bytes(trace.LINKS_PER_WORD, "little"))
        base = (index - layout.link_base) * trace.LINKS_PER_WORD
        return ", ".join(f"link{base + i} {_event(c)}" for i, c in enumerate(codes) if c) or "nothing"
    if index >= layout.fabric_base:
        return (
            f"{_event(trace.EVENT.of(value))} detail {trace.DETAIL.of(value)} head 0x{trace.HEAD.of(value):012x}"
            if value
            else "nothing"
        )
    what = _ni_word(layout, index % layout.ni_words)
    if what == "flags":
        return " ".join(name for i, name in enumerate(trace.NI_FLAG_BITS) if value >> i & 1) or "none"
    if what.endswith("uid"):
        return describe_uid(value)
    return describe_event(value) if what.endswith("event") else f"0x{value:016x}"


def describe_event(word: int) -> str:
    """An event word of a NI lane."""
    if not word:
        return "nothing"
    code, detail, peer, length = (f.of(word) for f in (trace.EVENT, trace.DETAIL, trace.PEER, trace.LENGTH))
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
    layout = system.layout
    differing = np.flatnonzero(golden != rtl)
    differences = []
    run = f"run {system.run.name!r}, seed {system.run.seed}"
    lines = [f"RTL and golden model part in cycle {cycle} ({run}): {len(differing)} words differ"]
    for index in differing.tolist():
        unit, what = place(layout, index)
        differences.append(Difference(unit=unit, what=what, golden=int(golden[index]), rtl=int(rtl[index])))
        if len(differences) <= most:
            lines.append(f"  {unit:10} {what:24} golden {describe_word(layout, index, int(golden[index]))}")
            lines.append(f"  {'':10} {'':24} rtl    {describe_word(layout, index, int(rtl[index]))}")
    uids = _uids_involved(layout, differing, golden, rtl)
    units = {index // layout.ni_words for index in differing.tolist() if index < layout.fabric_base}
    past = _past(layout, history, uids, units)
    if past:
        named = ", ".join(describe_uid(u) for u in sorted(uids)) or "the units that differ"
        lines.append(f"last events of {named} (both sides agree on them):")
        lines += [f"  {text}" for text in past[-16:]]
    lines.append(f"reproduce: {reproduce}")
    return DivergenceError(cycle, differences, "\n".join(lines))


def _uids_involved(layout: Layout, differing: np.ndarray, golden: np.ndarray, rtl: np.ndarray) -> set[int]:
    found, words = set(), [trace.lane_word(lane) for lane in range(len(layout.lanes))]
    for index in differing.tolist():
        node, word = divmod(index, layout.ni_words)
        for at in words if node < layout.graph.nodes else ():
            if word in (at, at + 1):
                event = node * layout.ni_words + at
                found |= {int(side[event + 1]) for side in (golden, rtl) if side[event]}
    return found


def _past(layout: Layout, history: list[tuple[int, np.ndarray]], uids: set[int], units: set[int]) -> list[str]:
    """Events of the datagrams in ``uids`` (or, without any, of the NIs in ``units``), oldest first."""
    found, nodes = [], layout.graph.nodes
    places = np.array([trace.lane_word(lane) for lane in range(len(layout.lanes))])
    for first, rows in history:
        lanes = rows[:, : layout.fabric_base].reshape(len(rows), nodes, layout.ni_words)
        events, ids = lanes[:, :, places], lanes[:, :, places + 1]
        for row, node, lane in zip(*np.nonzero(events), strict=True):
            uid = int(ids[row, node, lane])
            if uid in uids if uids else int(node) in units:
                said = describe_event(int(events[row, node, lane]))
                found.append(f"cycle {first + int(row)} ni{node} {layout.lanes[lane]}: {said} uid {describe_uid(uid)}")
    return found
