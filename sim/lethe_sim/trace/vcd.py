"""A run as a waveform: the events of a trace, and the flits of its words, as VCD with a GTKWave save file.

One cycle is one nanosecond.  An event is a text that stands for its cycle, so that a viewer shows SEND or DELIVER
where it happened; UID and peer stand beside it.
"""

import itertools
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from vcd import VCDWriter
from vcd.gtkw import GTKWSave

from lethe.spec import trace as spec
from lethe.spec.events import LANE_FRAGMENT, Event
from lethe.spec.topology import Topology
from lethe_sim.files import MARK, whole

from .store import TraceReader, open_trace

#: What a lane shows while nothing happens; an empty text would confuse viewers.
NOTHING = "-"
_COLUMNS = ["cycle", "unit", "port", "event", "uid", "peer", "detail"]


def write_vcd(
    trace: str | Path,
    vcd: str | Path,
    gtkw: str | Path | None = None,
    *,
    first: int = 0,
    last: int | None = None,
    words: np.ndarray | None = None,
) -> int:
    """Write cycles ``first`` … ``last`` of a trace to ``vcd``, and a save file for GTKWave to ``gtkw``.

    ``words``, uint64[cycles, `Layout.words`] from cycle ``first`` on, adds each NI's outgoing flits and flags.
    Returns the number of events written.  Raises `TraceError` if the trace is unusable, `WriteError` if a file cannot
    be written.
    """
    reader = open_trace(trace)
    end = reader.meta.cycles - 1 if last is None else last
    with whole(vcd) as part:
        with part.open("w", encoding="utf-8") as file:
            wave = _Wave(file, reader, first, end, words)
            written = wave.write()
        if gtkw is not None:
            with whole(gtkw) as save, save.open("w", encoding="utf-8") as file:
                _save(file, Path(vcd), part.stat().st_mtime, wave.shown)
    return written


class _Wave:
    def __init__(self, file, reader: TraceReader, first: int, last: int, words: np.ndarray | None):
        self.layout, self.pool = reader.meta.system.layout, reader.meta.system.pool > 0
        self.graph: Topology = self.layout.graph
        self.flit_bits = reader.meta.system.format.flit_bits
        self.rows = reader.sound(filters=[("cycle", ">=", first), ("cycle", "<=", last)]).select(_COLUMNS)
        self.first, self.last, self.words = first, last, words
        self.out = VCDWriter(
            file, timescale="1 ns", date="", comment=f"{MARK} run {reader.meta.run}", init_timestamp=first
        )
        #: (group, [(signal, whether it is a text)]) for the save file.
        self.shown: dict[str, list[str]] = {}
        self.places: dict[tuple[int, int], tuple] = {}

    def _register(self, unit: int, port: int) -> tuple:
        """(text, uid, peer, detail) of one lane, input port or link; a fabric unit has no peer column of its own."""
        scope = self.layout.unit_name(unit)
        if unit >= self.layout.first_service:
            _, level = self.layout.service_at(unit)
            lane = self.layout.services[level].lanes[port]
        elif unit < self.graph.first_router:
            lane = self.layout.lanes[port].replace(" ", "")
        elif unit < self.graph.first_link:
            back, port = divmod(port, self.graph.ports(unit - self.graph.first_router))
            lane = f"out{port}" if back and self.pool else f"in{port}" + ("_back" if back else "")
        else:
            lane = "fault"
        scope = f"lethe.{scope}"
        names = [lane, f"{lane}_uid", f"{lane}_peer", f"{lane}_detail"]
        text = self.out.register_var(scope, names[0], "string", init=NOTHING)
        others = [
            self.out.register_var(scope, name, "wire", size=size, init=0)
            for name, size in zip(names[1:], (64, 16, 16), strict=True)
        ]
        self.shown.setdefault(scope, []).append(f"{scope}.{lane}")
        return (text, *others)

    def write(self) -> int:
        columns = [self.rows[name].to_pylist() for name in _COLUMNS]
        # Fragments are rare: their lane is there if there are any.
        lanes = [lane for lane in range(len(self.layout.lanes)) if lane != LANE_FRAGMENT]
        wanted = {(node, lane) for node in range(self.graph.nodes) for lane in lanes}
        for unit in range(self.layout.first_service, self.layout.units):
            _, level = self.layout.service_at(unit)
            wanted |= {(unit, lane) for lane in range(len(self.layout.services[level].lanes))}
        for place in sorted(wanted | set(zip(columns[1], columns[2], strict=True))):
            self.places[place] = self._register(*place)
        changes = _merge(self._event_changes(zip(*columns, strict=True)), self._flit_changes())
        cycle = self.first
        for cycle, variable, value in changes:
            self.out.change(variable, cycle, value)
        self.out.close(max(cycle, self.last + 1))
        return len(self.rows)

    def _event_changes(self, rows: Iterable[tuple]):
        """(cycle, variable, value) in order: an event rises in its cycle and falls in the next."""
        standing, since = {}, 0
        nothing = (NOTHING, 0, 0, 0)
        for cycle, together in itertools.groupby(rows, key=lambda row: row[0]):
            rising = {}
            for _, unit, port, event, uid, peer, detail in together:
                name = Event(event).name if event in Event._value2member_map_ else f"event{event}"
                rising[unit, port] = (name, uid or 0, peer or 0, detail)
            falling = standing.keys() - rising.keys() if cycle == since + 1 else standing.keys()
            yield from self._set(since + 1, dict.fromkeys(falling, nothing))
            yield from self._set(cycle, rising)
            standing, since = rising, cycle
        yield from self._set(since + 1, dict.fromkeys(standing, nothing))

    def _set(self, cycle: int, values: dict[tuple[int, int], tuple]):
        for place, wanted in sorted(values.items()):
            for variable, value in zip(self.places[place], wanted, strict=True):
                yield cycle, variable, value

    def _flit_changes(self):
        if self.words is None:
            return
        for node in range(self.graph.nodes):
            scope = f"lethe.{self.layout.unit_name(node)}"
            base = node * self.layout.ni_words
            yield from self._flags(scope, self.words[:, base + spec.NI_FLAGS], spec.NI_FLAG_BITS)
            low = self.words[:, base + spec.NI_FLIT].tolist()
            high = self.words[:, base + spec.NI_FLIT + 1].tolist()
            yield from self._column(
                scope, "link_data", self.flit_bits, [a | b << 64 for a, b in zip(low, high, strict=True)]
            )
        for unit in range(self.layout.first_service, self.layout.units):
            node, level = self.layout.service_at(unit)
            service = self.layout.services[level]
            flags = self.words[:, self.layout.service_place(node, level) + service.flags]
            yield from self._flags(f"lethe.{self.layout.unit_name(unit)}", flags, service.flag_bits)

    def _flags(self, scope: str, flags: np.ndarray, names: tuple[str, ...]):
        for bit, name in enumerate(names):
            column = (flags >> np.uint64(bit) & np.uint64(1)).tolist()
            yield from self._column(scope, name.replace(".", "_"), 1, column)

    def _column(self, scope: str, name: str, size: int, values: list[int]):
        variable = self.out.register_var(scope, name, "wire", size=size, init=0)
        self.shown.setdefault(scope, []).append(f"{scope}.{name}" + (f"[{size - 1}:0]" if size > 1 else ""))
        before = 0
        for offset, value in enumerate(values):
            if value != before:
                yield self.first + offset, variable, value
                before = value


def _merge(events, flits):
    """All changes in order of time; flits are few enough to sort, and their variables must all be declared first."""
    flits = sorted(flits, key=lambda change: change[0])
    return sorted([*events, *flits], key=lambda change: change[0]) if flits else events


def _save(file, vcd: Path, written: float, shown: dict[str, list[str]]) -> None:
    save = GTKWSave(file)
    save.comment(MARK)
    save.dumpfile(str(vcd.resolve()))
    save.dumpfile_mtime(datetime.fromtimestamp(written, UTC))
    save.treeopen("lethe.")
    for group, signals in shown.items():
        with save.group(group.removeprefix("lethe."), closed=".ni" not in group):
            for signal in signals:
                # Texts are shown as texts, vectors in hexadecimal.
                save.trace(signal, datafmt="hex" if signal.endswith("]") else "ascii")
