"""Relay in a trace: what is sound, and what is found when a row is altered, here and on Spark."""

import pytest

from lethe.spec.config import System
from lethe.spec.events import CAUSE_BITS, Cause, Event, Status
from lethe.spec.services.relay import Type
from lethe_sim.golden.model import Golden
from lethe_sim.ledger.audit import BROKEN
from lethe_sim.ledger.conclude import conclude
from lethe_sim.ledger.here import audit as audit_trace
from lethe_sim.pipeline import judging
from lethe_sim.trace import TraceWriter, open_trace
from tests.helpers.make_trace import tamper
from tests.helpers.relay_systems import deaths, relay_system

_SEND, _END, _POST, _TAKE, _HOP = (
    Event.RELAY_SEND, Event.RELAY_END, Event.RELAY_POST, Event.RELAY_TAKE, Event.RELAY_HOP,
)  # fmt: skip
SYSTEMS = {
    "plain": {"faults": {"loss": 0.05}},
    "deaths": {"faults": deaths((1, 800), (6, 1500)) | {"loss": 0.02}},
    "small": {"faults": {"loss": 0.1}, "relay": {"cells": 2, "buffers": 1, "records": 8}},
}


def system_of(name: str):
    return relay_system(**SYSTEMS[name], run={"cycles": 60_000})


def write_run(path, system, cycles: int) -> None:
    """The trace of a run of the golden model."""
    golden = Golden(system, record=True)
    golden.run(cycles, until_drained=True)
    with TraceWriter(path, golden.system) as writer:
        writer.append(golden.take_events())
        writer.finish(cycles=golden.cycle, drained=golden.drained)


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    """name → the trace of a run."""
    root = tmp_path_factory.mktemp("relay")
    for name in SYSTEMS:
        write_run(root / f"{name}.parquet", system_of(name), 30_000)
    return lambda name: root / f"{name}.parquet"


@pytest.mark.parametrize("name", SYSTEMS)
def test_what_is_sound_has_no_finding(traces, name):
    result = audit_trace(traces(name))
    assert not result.findings, result.text()
    rows = open_trace(traces(name)).table().to_pylist()
    events = [row["event"] for row in rows]
    ((service, numbers),) = result.services
    told = {number.name: number.value for number in numbers}
    assert service == "relay" and told["messages"] == events.count(_SEND) > 60
    assert told["posted"] == events.count(_POST) and told["hops"] == events.count(_HOP)
    again = sum(row["event"] == _HOP and row["detail"] == 1 for row in rows)
    assert told["replays by relays"] + told["replays by origins"] == again
    assert f"relay: {told['messages']:,} messages" in result.text()


def of(event: Event, which: int = 4, /, **change):
    """One row of an event with other values."""

    def alter(rows):
        row = [row for row in rows if row["event"] == event][which]
        for name, by in change.items():
            row[name] += by

    return alter


def without(event: Event, which: int = 4):
    def remove(rows):
        rows.remove([row for row in rows if row["event"] == event][which])

    return remove


def again(event: Event, later: int, which: int = 4):
    """A row comes a second time, some cycles later."""

    def double(rows):
        row = [row for row in rows if row["event"] == event][which]
        taken = {(other["cycle"], other["unit"], other["port"]) for other in rows}
        cycle = next(c for c in range(row["cycle"] + later, 1 << 20) if (c, row["unit"], row["port"]) not in taken)
        rows.append(dict(row, cycle=cycle))

    return double


def exchanged(event: Event):
    """Two messages of a stream change places."""

    def swap(rows):
        some = [row for row in rows if row["event"] == event]
        one, other = next(
            (a, b)
            for i, a in enumerate(some)
            for b in some[i + 1 :]
            if (a["unit"], a["peer"]) == (b["unit"], b["peer"])
        )
        for column in ("uid", "tag", "length"):
            one[column], other[column] = other[column], one[column]

    return swap


def relay_sends_again(later: int):
    """A hop of a relay comes again, some cycles later."""

    def double(rows):
        first = system_of("plain").layout.service_unit(0, 0)
        hops = [row for row in rows if row["event"] == _HOP and row["uid"] >> 44 != row["unit"] - first]
        row = hops[0]
        rows.append(dict(row, cycle=row["cycle"] + later, detail=1))

    return double


def relay_answers(later: int, waits: int):
    """A relay is asked for a message some cycles after its last hop with it, and sends it when that has waited."""

    def add(rows):
        first = system_of("plain").layout.service_unit(0, 0)
        hop = next(row for row in rows if row["event"] == _HOP and row["uid"] >> 44 != row["unit"] - first)
        message = {name: hop[name] for name in ("unit", "uid", "tag")}
        hop = max((row for row in rows if row["event"] == _HOP and message.items() <= row.items()), key=_cycle)
        heard = next(row for row in rows if row["event"] == Event.RELAY_HEARD)
        rows.append(heard | message | {"cycle": hop["cycle"] + later, "detail": Type.REQUESTED << 3})
        rows.append(hop | {"cycle": hop["cycle"] + later + waits, "detail": 1})

    return add


def relay_halts(rows):
    """A relay halts, and goes on."""
    rows.append(dict.fromkeys(rows[0]) | next(row for row in rows if row["event"] == Event.RELAY_HEARD))
    rows[-1] |= {"event": Event.RELAY_HALT, "detail": 2}


def _cycle(row: dict) -> int:
    return row["cycle"]


#: Alterations of rows, with a digest that fits, and what must be found.
ALTERED = [
    (again(_POST, 40), "doubled"), (without(_POST), "disordered"), (without(_POST, -1), "lost"),
    (of(_POST, tag=1), "invented"), (of(_POST, length=1), "altered"), (exchanged(_POST), "disordered"),
    (without(_TAKE), "untaken"), (of(_TAKE, length=1), "untaken"), (of(_TAKE, tag=1), "untaken"),
    (of(_SEND, tag=1), "misnumbered"), (without(_SEND), "misnumbered"), (of(_END, detail=26), "misreported"),
    (of(_END, peer=1), "misreported"), (without(_SEND, -1), "misreported"), (again(_SEND, 0), "misnumbered"),
    (relay_sends_again(300), "unasked"), (relay_halts, "dead"), (exchanged(_END), "misreported"),
    (without(_END), "held"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "name"), ALTERED, ids=[f"{n}-{name}" for n, (_, name) in enumerate(ALTERED)])
def test_what_is_altered_is_found(traces, tmp_path, change, name):
    path = tmp_path / "altered.parquet"
    tamper(path, traces("plain"), change, counters={})
    result = audit_trace(path)
    assert result.verdict == BROKEN
    assert name in {finding.name for finding in result.findings}, result.text()


def ends_of(path) -> list[tuple[int, int, int, int]]:
    """(number, origin, destination, detail) of each end."""
    trace = open_trace(path)
    first = trace.meta.system.layout.service_unit(0, 0)
    rows = [row for row in trace.table().to_pylist() if row["event"] == _END]
    return [(number, row["unit"] - first, row["peer"], row["detail"]) for number, row in enumerate(rows)]


def test_an_end_that_is_missing_is_found_where_a_node_died(traces, tmp_path):
    """Such a run has not drained after 30,000 cycles; an end between nodes that live is missed all the same."""
    assert not open_trace(traces("deaths")).meta.drained
    between = [number for number, *ends, _ in ends_of(traces("deaths")) if not {1, 6} & {*ends}]
    assert len(between) > 40
    for number in between[::4]:
        path = tmp_path / "altered.parquet"
        tamper(path, traces("deaths"), without(_END, number), counters={})
        result = audit_trace(path)
        assert [(finding.name, finding.count) for finding in result.findings] == [("held", 1)], (number, result.text())


def test_an_end_that_is_missing_is_found_in_silence(tmp_path):
    """A message to the dead is ended by a walk alone; without its end its origin would ask for it again and again."""
    system = system_of("deaths").replace(run={"cycles": 80_000})
    write_run(tmp_path / "long.parquet", system, 75_000)
    assert not audit_trace(tmp_path / "long.parquet").findings
    ends = ends_of(tmp_path / "long.parquet")
    unknown = [number for number, _, _, detail in ends if detail == Status.UNKNOWN << CAUSE_BITS | Cause.SILENT]
    of_the_dead = next(number for number, origin, _, _ in ends if origin == 1)
    for number, names in ((unknown[-1], ["held"]), (unknown[0], ["held"]), (of_the_dead, [])):
        path = tmp_path / "altered.parquet"
        tamper(path, tmp_path / "long.parquet", without(_END, number), counters={})
        assert [finding.name for finding in audit_trace(path).findings] == names


@pytest.mark.parametrize("cycles", [700, 1200, 1900, 2600, 3400, 5000, 9000])
def test_a_run_that_is_cut_off_has_no_finding(traces, tmp_path, cycles):
    """What has not ended by then may be under way."""

    def cut(rows):
        rows[:] = [row for row in rows if row["cycle"] < cycles]

    for name in SYSTEMS:
        path = tmp_path / f"{name}.parquet"
        tamper(path, traces(name), cut, counters={}, cycles=cycles, drained=False)
        assert not audit_trace(path).findings


@pytest.mark.parametrize(
    ("later", "waits", "names"), [(4000, 20, set()), (4000, 24_000, set()), (14_000, 20, {"kept"})],
    ids=["in time", "asked in time", "too late"],
)  # fmt: skip
def test_data_are_not_held_for_ever(traces, tmp_path, later, waits, names):
    path = tmp_path / "altered.parquet"
    tamper(path, traces("plain"), relay_answers(later, waits), counters={}, cycles=60_000, drained=False)
    result = audit_trace(path)
    assert {finding.name for finding in result.findings} == names, result.text()


@pytest.mark.parametrize("radix", [1, 2])
def test_data_are_let_go_while_the_queue_of_control_is_full(tmp_path, radix):
    """At a loss of 0.3 relays drop control for most of the time, and look for what is old all the same."""
    system = System.make(
        topology={"kind": "tree"}, wire={"mtu": 64}, faults={"loss": 0.3},
        ni={"control_classes": 2, "control_slots": 4},
        relay={"slots": 16, "radix": radix, "cache_cycles": 4096, "watch_cycles": 8192, "entry_cycles": 16384},
        workload={"mode": "relay", "count": 30, "load": 0.3}, run={"cycles": 200_000},
    )  # fmt: skip
    golden, path = Golden(system, record=True), tmp_path / "full.parquet"
    golden.run(system.run.cycles)
    with TraceWriter(path, system) as writer:
        writer.append(golden.take_events())
        writer.finish(cycles=golden.cycle, drained=golden.drained)
    result = audit_trace(path)
    ((_, numbers),) = result.services
    assert {number.name: number.value for number in numbers}["control dropped"] > 1000, numbers
    assert not result.findings, result.text()


@pytest.mark.parametrize("how", ["good", "bad"])
def test_on_spark_as_here(spark, traces, tmp_path, how):
    def several(rows):
        for change in (without(_POST, -1), of(_TAKE, length=1), of(_END, 9, detail=26), relay_sends_again(300)):
            change(rows)

    path = tmp_path / "t.parquet"
    tamper(path, traces("deaths"), several if how == "bad" else lambda rows: None, counters={}, part_events=300)
    trace = open_trace(path, judged=True)
    places, _ = trace.groups()
    assert len(places) > 2
    there, ours = conclude(trace, places, judging.judged(trace, spark, groups=3)), audit_trace(path)
    assert there == ours
    names = {finding.name for finding in ours.findings}
    assert {"lost", "untaken", "misreported", "unasked"} <= names if how == "bad" else not names
