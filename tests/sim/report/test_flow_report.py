"""What the page says of flow is what happened: against a plain replay of the rows, and the flags of the trace words."""

import csv
import io
import re
from base64 import b64decode
from collections import Counter

import numpy as np
import pytest

from lethe.spec import trace as layouts
from lethe.spec.config import System
from lethe.spec.events import Cause, Event, Status
from lethe.spec.services import FLOW
from lethe.spec.services.flow import Code, Out
from lethe_sim.golden.model import Golden
from lethe_sim.report import flow, timeline
from lethe_sim.report.timeline import Stretch
from lethe_sim.trace import TraceWriter, open_trace
from tests.helpers.flow_oracle import flow_system
from tests.helpers.html_balance import Balance
from tests.sim.report.test_report import audit_of, meta_of, render

CYCLES = 12_000
FAULTS = {
    "loss": 0.05,
    "stalls": [{"node": 0, "start": 2500, "end": 5500}],
    "resets": [{"node": 2, "start": 7000, "cycles": 9}, {"node": 0, "start": 3600, "cycles": 2, "scope": "ni"}],
}


class Replay:
    """The same as `flow.FlowCourse`, row by row."""

    def __init__(self, system: System, rows: list[dict], cycles: int):
        first = system.layout.service_unit(0, 0)
        self.used, self.open, self.up, self.congested = Counter(), Counter(), {}, {}
        self.levels: list[tuple[int, int, int]] = []  # the sums of open and up after each cycle with a change
        self.peaks: list[tuple[int, int, int]] = []  # cycle, port, cells
        self.counts, self.refused, self.told, self.streams = Counter(), Counter(), Counter(), Counter()
        self.windows: list[tuple[int, int]] = []
        self.congestions = []
        for row in rows:
            if row["unit"] < first:
                continue
            node, cycle, event, detail = row["unit"] - first, row["cycle"], row["event"], row["detail"]
            own = node == row["peer"]
            port = (node, (row["tag"] or 0) % system.flow.ports)
            match event:
                case Event.FLOW_RESET:
                    for key in [key for key in self.used if key[0] == node]:
                        self.used[key] = 0
                    for key in [key for key in self.congested if key[0] == node]:
                        self.congestions.append((*key, self.congested.pop(key), cycle))
                    self.open[node], self.up[node] = 0, set()
                case Event.FLOW_SEND:
                    self.counts["admitted", cycle] += 1
                    self.open[node] += not own
                case Event.FLOW_END if detail >> 4 != Status.REJECTED:
                    self.open[node] -= not own
                case Event.FLOW_REFUSED:
                    self.refused[Cause(detail), cycle] += 1
                case Event.FLOW_COMMIT:
                    self.used[port] += 1
                case Event.FLOW_PLACE:
                    self.counts["placed", cycle] += 1
                    self.streams[row["peer"], *port] += 1
                    self.used[port] += own
                case Event.FLOW_TAKE | Event.FLOW_FLUSHED:
                    self.counts["taken", cycle] += event == Event.FLOW_TAKE
                    self.used[port] -= 1
                case Event.FLOW_TOLD:
                    self.told[Code(detail), cycle] += 1
                    if detail == Code.WINDOW:
                        credit, ack = row["tag"] >> 4 & 255, row["tag"] >> 12
                        self.windows.append((cycle, next(n for n in range(1, 17) if (credit - n) % 16 == ack)))
                case Event.FLOW_CONGESTED if detail:
                    self.congested.setdefault((node, row["tag"]), cycle)
                case Event.FLOW_CONGESTED:
                    self.congestions.append((node, row["tag"], self.congested.pop((node, row["tag"])), cycle))
                case Event.FLOW_PEER:
                    self.up.setdefault(node, set()).discard(row["peer"])
                    if detail == Out.UP:
                        self.up[node].add(row["peer"])
            self.levels.append((cycle, sum(self.open.values()), sum(map(len, self.up.values()))))
            self.peaks.append((cycle, port[0] * system.flow.ports + port[1], self.used[port]))
        self.congestions += [(*key, start, cycles) for key, start in self.congested.items()]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run in which a host stalls, and nodes are reset: its trace, its replay, the congested ports in each cycle."""
    path = tmp_path_factory.mktemp("flow") / "run.parquet"
    system = flow_system(
        4, flow={"ports": 4, "cells": 8, "in_order": 2}, faults=FAULTS,
        workload={"load": 0.5, "stop": 9000, "count": 0},
    )  # fmt: skip
    golden = Golden(system, record=True)
    words = np.zeros((CYCLES, system.layout.words), np.uint64)
    golden.run(CYCLES, words=words)
    with TraceWriter(path, system) as writer:
        writer.append(golden.take_events())
        writer.finish(cycles=CYCLES, drained=False)
    places = [system.layout.service_place(node, 0) + FLOW.flags for node in range(system.nodes)]
    congested = layouts.Bits(32, 16).of(words[:, places])
    trace = open_trace(path)
    return trace, Replay(system, trace.table().to_pylist(), CYCLES), congested


@pytest.fixture(scope="module")
def found(run) -> flow.FlowCourse:
    course = flow.course(run[0])
    assert course is not None
    return course


def binned(counted: Counter, found: flow.FlowCourse) -> dict:
    """Counts by name, in columns."""
    bins = {name: [0] * found.columns for name, _ in counted}
    for (name, cycle), count in counted.items():
        bins[name][cycle // found.width] += count
    return bins


def test_what_is_counted_is_what_the_rows_say(run, found):
    _, replay, _ = run
    assert (found.width, found.columns) == (100, 120)
    assert {name: values.tolist() for name, values in found.counts.items()} == binned(replay.counts, found)
    assert {name: values.tolist() for name, values in found.told.items()} == binned(replay.told, found)
    assert {name: values.tolist() for name, values in found.refused.items()} == binned(replay.refused, found)
    assert found.streams == replay.streams and sum(found.streams.values()) > 300
    assert set(found.told) > {Code.PING, Code.MAP, Code.WINDOW}


def test_levels_are_those_at_the_end_of_each_column(run, found):
    _, replay, _ = run
    for column in range(found.columns):
        before = [level for level in replay.levels if level[0] < (column + 1) * found.width]
        _, under_way, up = before[-1] if before else (0, 0, 0)
        assert (found.under_way[column], found.up[column]) == (under_way, up), column
    assert found.up.max() == 12 and found.under_way.max() > 5


def test_a_port_holds_in_a_column_what_it_held_at_its_fullest(run, found):
    _, replay, _ = run
    ports = found.held.shape[0]
    last, expected, changes = [0] * ports, np.zeros_like(found.held), iter([*replay.peaks, (CYCLES, 0, 0)])
    change = next(changes)
    for column in range(found.columns):
        expected[:, column] = last
        while change[0] < (column + 1) * found.width:
            cycle, port, cells = change
            reset = [node for at, node in RESET_CYCLES if at == cycle]
            last = [0 if at // found.system.flow.ports in reset else level for at, level in enumerate(last)]
            last[port] = cells
            expected[port, column] = max(expected[port, column], cells)
            change = next(changes)
    assert found.held.tolist() == expected.tolist()
    assert found.held.max() == found.system.flow.cells and (found.held.max(axis=1) > 0).sum() > 8


#: (cycle, node) of the resets: what a port held then is gone.
RESET_CYCLES = {(reset["start"], reset["node"]) for reset in FAULTS["resets"]}


def test_a_port_is_congested_when_the_flags_say_so(run, found):
    _, replay, congested = run
    assert sorted(found.congestions) == sorted(replay.congestions) and len(found.congestions) >= 4
    shown = np.zeros((CYCLES, found.system.nodes), np.uint64)
    for one in found.congestions:
        # The flags show it from the cycle after the event on.
        shown[one.start + 1 : one.end + 1, one.node] |= np.uint64(1 << one.index)
    # In the cycles of a reset nothing is shown.
    for cycle, node in RESET_CYCLES:
        shown[cycle : cycle + 9, node] = congested[cycle : cycle + 9, node]
    assert (shown == congested).all()


def test_credits_are_those_of_the_windows(run, found):
    _, replay, _ = run
    by_column: dict[int, list[int]] = {}
    for cycle, credit in replay.windows:
        by_column.setdefault(cycle // found.width, []).append(credit)
    assert len(replay.windows) > 20
    for column, credits in by_column.items():
        told = found.windows[column], found.credits[column], found.least[column]
        assert told == (len(credits), sum(credits), min(credits))
    assert found.windows.sum() == len(replay.windows)
    # 2 and up to 14, by the free cells.
    assert all(2 <= credit <= 2 + found.system.flow.cells // 2 for _, credit in replay.windows)


@pytest.mark.parametrize(("credit", "ack", "allowed"), [(16, 0, 16), (2, 0, 2), (3, 243, 16), (250, 240, 10)])
def test_a_credit_is_read_from_a_word(credit, ack, allowed):
    """Also where the numbers wrap: 3 is 16 beyond 243."""
    found = flow.FlowCourse(flow_system(), 1000)
    word = {"node": 0, "peer": 1, "cycle": 5, "event": int(Event.FLOW_TOLD), "detail": int(Code.WINDOW)}
    word["tag"] = (1 | credit << 4 | ack << 12) & 0xFFFF
    found.append({name: np.array([value]) for name, value in word.items()})
    assert (found.windows[0], found.credits[0], found.least[0]) == (1, allowed, allowed)


def page_of(found: flow.FlowCourse) -> str:
    system = found.system
    return render(audit_of(system, services=(("flow", ()),)), meta_of(system), flow=found)


def test_the_page_shows_it_and_gives_the_numbers(found):
    page = page_of(found)
    files = dict(re.findall(r'download="flow_(\w+)\.csv" href="data:[^,]*,([^"]*)"', page))
    assert set(files) == {"messages", "open", "cells", "congestion", "credits", "control", "streams"}
    tables = {name: list(csv.DictReader(io.StringIO(b64decode(data).decode()))) for name, data in files.items()}
    for name, counted in found.counts.items():
        assert [int(row["messages"]) for row in tables["messages"] if row["line"] == name] == counted.tolist()
    assert len(tables["congestion"]) == len(found.congestions)
    streams = {
        (int(r["source"]), int(r["destination"]), int(r["index"])): int(r["messages"]) for r in tables["streams"]
    }
    assert streams == found.streams
    busiest = max(found.streams.values())
    assert f"<td>{busiest}</td>" in page
    balance = Balance()
    balance.feed(page)
    assert balance.open == []
    assert page.count("congested from cycle") >= len(found.congestions)


def test_a_page_without_flow_has_none_of_it(found):
    system = flow_system(flow={"ports": 0})
    page = render(audit_of(system), meta_of(system))
    assert "The fullest ports" in page_of(found) and "The fullest ports" not in page and "flow_" not in page


def test_a_run_in_which_nothing_happened():
    found = flow.FlowCourse(flow_system(), 0)
    found.finish()
    assert [picture.name for picture in flow.pictures(found)] == ["messages", "open"]
    assert flow.streams(found) == []


def test_refusals_have_a_chart_by_cause():
    found = flow.FlowCourse(flow_system(), 1000)
    rows = [(7, Cause.WINDOW), (8, Cause.CONGESTED), (900, Cause.WINDOW)]
    columns = {name: np.zeros(len(rows), np.int64) for name in ("node", "peer", "tag")}
    columns |= {"cycle": np.array([row[0] for row in rows]), "detail": np.array([row[1] for row in rows])}
    found.append(columns | {"event": np.full(len(rows), int(Event.FLOW_REFUSED))})
    found.finish()
    (picture,) = (picture for picture in flow.pictures(found) if picture.name == "refused")
    assert ">WINDOW<" in picture.drawn and ">CONGESTED<" in picture.drawn
    assert {cause: np.flatnonzero(counts).tolist() for cause, counts in found.refused.items()} == {
        Cause.WINDOW: [0, 100], Cause.CONGESTED: [0],
    }  # fmt: skip


def test_how_the_rows_are_cut_does_not_matter(run, found, monkeypatch):
    trace = run[0]
    whole = trace.table(columns=["cycle", "unit", "event", "peer", "detail", "tag"])
    monkeypatch.setattr(type(trace), "batches", lambda self, columns: iter(whole.to_batches(max_chunksize=17)))
    pieces = flow.course(trace)
    assert pieces is not None and pieces.held.tolist() == found.held.tolist()
    assert pieces.under_way.tolist() == found.under_way.tolist() and pieces.up.tolist() == found.up.tolist()
    assert pieces.congestions == found.congestions and pieces.streams == found.streams


def test_more_congestions_than_are_kept_are_counted(monkeypatch):
    monkeypatch.setattr(flow, "_STRETCHES", 2)
    found = flow.FlowCourse(flow_system(), 1000)
    count = 10
    columns = {name: np.zeros(count, np.int64) for name in ("node", "peer", "tag")}
    columns |= {"cycle": np.arange(count), "detail": (np.arange(count) + 1) % 2}
    found.append(columns | {"event": np.full(count, int(Event.FLOW_CONGESTED))})
    found.finish()
    assert len(found.congestions) == 2 and found.more == 3
    (picture,) = (picture for picture in flow.pictures(found) if picture.name == "congestion")
    assert picture.about.endswith("3 later times are left out.")


def test_lines_and_stretches_are_drawn_where_they_are():
    drawn = timeline.steps(
        {"a": [(0, 1.0)], "b": [(0, 2.0), (50, 0.0)]}, 100, title="t", label="l", spans=[Stretch(20, 30, "a while")]
    )
    assert "a while" in drawn and ">a<" in drawn and ">b<" in drawn
    assert ">a<" not in timeline.steps({"a": [(0, 1.0)]}, 100, title="t", label="l"), "one line needs no legend"
    bars = timeline.bars({"0:1": [Stretch(10, 20, "once"), Stretch(40, 40, "briefly")]}, 100, label="l")
    assert bars.count("0:1: once") == 2 and "0:1: briefly" in bars
