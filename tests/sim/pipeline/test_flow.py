"""Flow in a trace: what is sound, what is found when a row is altered, what is told, here and on Spark."""

import itertools

import numpy as np
import pytest

from lethe.spec.events import Cause, Event, Status
from lethe.spec.services.flow import Code
from lethe.spec.trace import DETAIL, EVENT
from lethe_sim.golden.model import Golden
from lethe_sim.ledger.audit import BROKEN, ONCE
from lethe_sim.ledger.conclude import conclude
from lethe_sim.ledger.here import audit as audit_trace
from lethe_sim.pipeline import judging
from lethe_sim.rds.golden import GoldenFlow
from lethe_sim.rds.transport import DatagramEnd, FlowRecord, SettingCode
from lethe_sim.trace import TraceWriter, open_trace
from tests.helpers.flow_oracle import flow_system
from tests.helpers.make_trace import tamper

_SEND, _CARRY, _COMMIT, _PLACE, _TAKE, _END = (
    Event.FLOW_SEND, Event.FLOW_CARRY, Event.FLOW_COMMIT, Event.FLOW_PLACE, Event.FLOW_TAKE, Event.FLOW_END,
)  # fmt: skip
RESETS = [{"node": 1, "start": 1500, "cycles": 9}, {"node": 2, "start": 2600, "cycles": 9, "scope": "ni"}]
SYSTEMS = {
    "plain": {"faults": {"loss": 0.05}},
    "resets": {"faults": {"loss": 0.1, "resets": RESETS}},
    "small": {"faults": {"loss": 0.1}, "flow": {"cells": 2}},
}


def system_of(name: str):
    return flow_system(4, workload={"load": 0.3, "stop": 4000}, run={"cycles": 60_000}, **SYSTEMS[name])


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    """name → the trace of a run of the golden model."""
    root = tmp_path_factory.mktemp("flow")
    for name in SYSTEMS:
        golden = Golden(system_of(name), record=True)
        golden.run(60_000, until_drained=True)
        assert golden.drained
        with TraceWriter(root / f"{name}.parquet", golden.system) as writer:
            writer.append(golden.take_events())
            writer.finish(cycles=golden.cycle, drained=True)
    return lambda name: root / f"{name}.parquet"


@pytest.mark.parametrize("name", SYSTEMS)
def test_what_is_sound_is_once(traces, name):
    result = audit_trace(traces(name))
    assert result.verdict == ONCE and not result.findings, result.text()
    events = [row["event"] for row in open_trace(traces(name)).table().to_pylist()]
    ((service, numbers),) = result.services
    told = {number.name: number.value for number in numbers}
    assert service == "flow" and told["messages"] == events.count(_SEND) > 100
    assert told["taken"] == events.count(_TAKE) and told["control words"] == events.count(Event.FLOW_TOLD)
    assert told["taken"] == told["messages"] or name == "resets"
    assert f"flow: {told['messages']:,} messages" in result.text()


def test_numbers_pass_while_a_port_is_not_bound(tmp_path):
    """More than half of all numbers, so that the next one that is placed seems to be from before."""
    network, many = GoldenFlow(flow_system(flow={"cells": 24}), record=True), 150
    system, ended = network.golden.system, 0

    def send(*tags: int) -> None:
        nonlocal ended
        for tag in tags:
            network.send(0, FlowRecord(1, 0, 1, 3, tag, b"data"))
        wanted = ended + len(tags)
        while ended < wanted:
            ended += sum(isinstance(event, DatagramEnd) for event in network.advance(100))
            assert network.cycle < 50_000
        network.advance(300)

    send(0)
    network.set(1, SettingCode.UNBIND, 1, 0)
    network.advance(100)
    send(*range(1, many + 1))
    network.set(1, SettingCode.BIND, 1, 1)
    network.advance(100)
    send(many + 1)
    events = network.golden.take_events()
    placed = events["word"][EVENT.of(events["word"].astype(np.int64)) == _PLACE].astype(np.int64)
    assert DETAIL.of(placed).tolist() == [0, many + 1]
    with TraceWriter(tmp_path / "run.parquet", system) as writer:
        writer.append(events)
        writer.finish(cycles=network.cycle, drained=False)
    result = audit_trace(tmp_path / "run.parquet")
    assert not result.findings, result.text()


def rows_of(rows, event: Event, node: int = 0) -> list[dict]:
    unit = system_of("plain").layout.service_unit(node, 0)
    return [row for row in rows if row["event"] == event and row["unit"] == unit]


def of(event: Event, which: int = 5, node: int = 0, /, **change):
    """One row of an event with other values; a number is added, and kept to 8 bits where it is a detail."""

    def alter(rows):
        row = rows_of(rows, event, node)[which]
        for name, by in change.items():
            row[name] = row[name] + by & 255 if name == "detail" else row[name] + by

    return alter


def without(event: Event, which: int = 5):
    def remove(rows):
        rows.remove(rows_of(rows, event)[which])

    return remove


def again(event: Event, which: int = 5, later: int = 3):
    """A row comes a second time, some cycles later."""

    def double(rows):
        row = rows_of(rows, event)[which]
        taken = {(other["cycle"], other["unit"], other["port"]) for other in rows}
        cycle = next(c for c in range(row["cycle"] + later, 1 << 20) if (c, row["unit"], row["port"]) not in taken)
        rows.append(dict(row, cycle=cycle))

    return double


def exchange(event: Event, *columns: str):
    """Two successive rows of an event about one stream exchange what they say."""

    def swap(rows):
        one, other = next(
            (a, b)
            for a, b in itertools.combinations(rows_of(rows, event), 2)
            if (a["peer"], a["tag"]) == (b["peer"], b["tag"]) and a["peer"] != 0
        )
        for column in columns:
            one[column], other[column] = other[column], one[column]

    return swap


def in_another_order(rows) -> None:
    """Two messages of a stream are placed and taken in the wrong order."""
    for event in (_COMMIT, _PLACE, _TAKE):
        exchange(event, "detail", *(["length"] if event != _PLACE else []))(rows)


def too_many(rows) -> None:
    """A port's messages are taken much later than they come."""
    last = max(row["cycle"] for row in rows)
    for number, row in enumerate(rows_of(rows, _TAKE)):
        row["cycle"] = last - 500 + number


def refused(rows) -> None:
    """A message that was sent is said to have been refused."""
    rows_of(rows, _END)[4]["detail"] = Status.REJECTED << 4 | Cause.LENGTH


def reopened(rows) -> None:
    """A stream's numbers begin anew, with no other PING of its source."""
    places = [row for row in rows_of(rows, _PLACE) if row["peer"] == 1]
    heard = [row for row in rows_of(rows, Event.FLOW_HEARD) if row["peer"] == 1 and row["detail"] == Code.PING]
    for row in heard:
        rows.remove(row)
    tag = places[0]["tag"]
    mine = [row for row in places if row["tag"] == tag]
    assert len(mine) > 3
    mine[2]["detail"] = mine[0]["detail"]


#: Alterations of rows, with a digest that fits → what must be found.
ALTERED = {
    "no number": (without(_SEND), "misreported"),
    "another number": (of(_SEND, detail=1), "altered"),
    "sent to another node": (of(_SEND, peer=1), "altered"),
    "no carry": (without(_CARRY), "altered"),
    "carried with another number": (of(_CARRY, detail=1), "misnumbered"),
    "carried to another port": (of(_CARRY, tag=1), "misnumbered"),
    "no commit": (without(_COMMIT), "invented"),
    "committed twice": (again(_COMMIT), "lost"),
    "committed with another number": (of(_COMMIT, detail=1), "invented"),
    "not placed": (without(_PLACE), "lost"),
    "placed twice": (again(_PLACE), "invented"),
    "placed with another number": (of(_PLACE, detail=3), "untaken"),
    "placed in another port": (of(_PLACE, tag=1), "untaken"),
    "not taken": (without(_TAKE), "untaken"),
    "taken twice": (again(_TAKE), "untaken"),
    "taken with another number": (of(_TAKE, detail=1), "untaken"),
    "taken with another length": (of(_TAKE, length=-1), "altered"),
    "taken longer than the longest": (of(_TAKE, length=1000), "untaken"),
    "taken from another node": (of(_TAKE, peer=1), "untaken"),
    "taken from another port": (of(_TAKE, tag=1), "untaken"),
    "a stream in another order": (in_another_order, "disordered"),
    "numbers anew without a PING": (reopened, "disordered"),
    "too many in a port": (too_many, "overrun"),
    "no end": (without(_END), "held"),
    "two ends": (again(_END), "misreported"),
    "an end with another tag": (of(_END, tag=3), "misreported"),
    "an end of another peer": (of(_END, peer=1), "misreported"),
    "sent, but REJECTED": (refused, "misreported"),
    "an end that comes first": (of(_END, cycle=-300), "misreported"),
}  # fmt: skip


@pytest.mark.parametrize("name", ALTERED)
def test_no_row_can_be_altered(traces, tmp_path, name):
    change, finding = ALTERED[name]
    tamper(tmp_path / "t.parquet", traces("plain"), change, counters={})
    result = audit_trace(tmp_path / "t.parquet")
    assert result.verdict == BROKEN and finding in {found.name for found in result.findings}, result.text()


def test_an_undrained_run_may_hold_and_owe(traces, tmp_path):
    """What is under way at the end is no finding."""

    def early(rows):
        rows[:] = [row for row in rows if row["cycle"] < 1200]

    tamper(tmp_path / "t.parquet", traces("plain"), early, counters={}, drained=False, cycles=1200)
    assert not audit_trace(tmp_path / "t.parquet").findings


@pytest.mark.parametrize("how", ["good", "bad"])
def test_on_spark_as_here(spark, traces, tmp_path, how):
    def several(rows):
        for change in ("no commit", "taken with another length", "an end with another tag"):
            ALTERED[change][0](rows)

    path = tmp_path / "t.parquet"
    tamper(path, traces("resets"), several if how == "bad" else lambda rows: None, counters={}, part_events=300)
    trace = open_trace(path, judged=True)
    places, _ = trace.groups()
    assert len(places) > 2
    there, ours = conclude(trace, places, judging.judged(trace, spark, groups=3)), audit_trace(path)
    assert there == ours and bool(ours.findings) == (how == "bad")
