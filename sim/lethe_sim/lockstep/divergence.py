"""The first cycle at which RTL and golden model part, in words."""

from dataclasses import dataclass

import numpy as np

from lethe.spec import trace
from lethe.spec.config import System
from lethe.spec.events import Drop, Event
from lethe.spec.services import Service
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
    if index >= layout.service_base:
        node, level, word = _of_service(layout, index)
        return f"{layout.services[level].name}{node}", _service_word(layout.services[level], word)
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


def _of_service(layout: Layout, index: int) -> tuple[int, int, int]:
    """(node, level, word within the service) of a word behind those of the links."""
    node, word = divmod(index - layout.service_base, layout.service_words)
    level = 0
    while word >= layout.services[level].words:
        word, level = word - layout.services[level].words, level + 1
    return node, level, word


def _service_word(service: Service, word: int) -> str:
    """What a word of a service is."""
    if word < service.flags:
        lane, part = divmod(word, 2)
        return f"lane {service.lanes[lane]}, {'uid' if part else 'event'}"
    return "flags" if word == service.flags else "beat"


def describe_word(layout: Layout, index: int, value: int) -> str:
    """A trace word as a person would say it."""
    if index >= layout.service_base:
        _, level, word = _of_service(layout, index)
        return _described(_service_word(layout.services[level], word), layout.services[level].flag_bits, value)
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
    return _described(_ni_word(layout, index % layout.ni_words), trace.NI_FLAG_BITS, value)


def _described(what: str, flags: tuple[str, ...], value: int) -> str:
    """A word of an NI or a service."""
    if what == "flags":
        return " ".join(name for i, name in enumerate(flags) if value >> i & 1) or "none"
    if what.endswith("uid"):
        return describe_uid(value)
    return describe_event(value) if what.endswith("event") else f"0x{value:016x}"


def describe_event(word: int) -> str:
    """An event word of a lane."""
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
    units = {difference.unit for difference in differences}
    past = _past(layout, history, uids, units)
    if past:
        named = ", ".join(describe_uid(u) for u in sorted(uids)) or "the units that differ"
        lines.append(f"last events of {named} (both sides agree on them):")
        lines += [f"  {text}" for text in past[-16:]]
    lines.append(f"reproduce: {reproduce}")
    return DivergenceError(cycle, differences, "\n".join(lines))


def _uids_involved(layout: Layout, differing: np.ndarray, golden: np.ndarray, rtl: np.ndarray) -> set[int]:
    changed = set(differing.tolist())
    events = [word for _, _, word in _lanes(layout) if changed & {word, word + 1}]
    return {int(side[word + 1]) for word in events for side in (golden, rtl) if side[word]}


def _lanes(layout: Layout) -> list[tuple[str, str, int]]:
    """(unit, lane, index of its event word) of every lane of NIs and services."""
    nodes = range(layout.graph.nodes)
    found = [
        (f"ni{node}", name, node * layout.ni_words + trace.lane_word(lane))
        for node in nodes
        for lane, name in enumerate(layout.lanes)
    ]
    found += [
        (f"{service.name}{node}", name, layout.service_place(node, level) + 2 * lane)
        for node in nodes
        for level, service in enumerate(layout.services)
        for lane, name in enumerate(service.lanes)
    ]
    return found


def _past(layout: Layout, history: list[tuple[int, np.ndarray]], uids: set[int], units: set[str]) -> list[str]:
    """Events of the datagrams in ``uids`` (or, without any, of the NIs and services in ``units``), oldest first."""
    found, lanes = [], _lanes(layout)
    places = np.array([word for _, _, word in lanes])
    for first, rows in history:
        events, ids = rows[:, places], rows[:, places + 1]
        for row, place in zip(*np.nonzero(events), strict=True):
            (unit, lane, _), uid = lanes[place], int(ids[row, place])
            if uid in uids if uids else unit in units:
                said = describe_event(int(events[row, place]))
                found.append(f"cycle {first + int(row)} {unit} {lane}: {said} uid {describe_uid(uid)}")
    return found
