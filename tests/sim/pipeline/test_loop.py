"""Loops in a trace: what is sound, what is found when a row is altered, what is told, here and on Spark."""

import itertools

import numpy as np
import pytest

from lethe.spec.config import System
from lethe.spec.events import LOOP_COUNTED, Cause, Event, LoopCounter, Status
from lethe.spec.wire import UID_INCARNATION_SHIFT, UID_SLOT_SHIFT, UID_SOURCE_SHIFT, unpack_uid
from lethe_sim.ledger.audit import BROKEN, ONCE, AuditResult
from lethe_sim.ledger.conclude import conclude
from lethe_sim.ledger.here import audit as audit_trace
from lethe_sim.metrics import of_trace
from lethe_sim.pipeline import judging
from lethe_sim.trace import TraceWriter, open_trace, summed_counters
from lethe_sim.trace.ladder import text_ladder
from tests.helpers.loop_trace import loop_events
from tests.helpers.make_trace import IdleFabric, small_system, tamper

FAULTS = {
    "resets": [
        {"node": 1, "start": 150, "cycles": 9},
        {"node": 2, "start": 200, "cycles": 9, "scope": "ni"},
        {"node": 2, "start": 300, "cycles": 5, "scope": "ni"},
    ],
    "deaths": [{"node": 3, "start": 170}],
}
#: Systems of which traces are made by hand: with resets of both scopes and a death; with names that soon come again.
SYSTEMS = {
    "plain": {},
    "resets": {
        "faults": FAULTS, "ni": {"source_incarnation": True}, "workload": {"retry_limit": 3},
        "timers": {"ack_limit": 60, "backoff_steps": 1},
    },
    "wrapping": {"wire": {"generation_bits": 2}, "timers": {"wrap_guard": 0}},
}  # fmt: skip


def system_of(name: str) -> System:
    return small_system(loop={"slots": 3}, **SYSTEMS[name])


def write(path, system: System, *, part_events: int = 1 << 22) -> None:
    events = loop_events(system)
    codes = events["word"] & np.uint64(0xFF)
    counters = np.array([[(codes == LOOP_COUNTED[counter]).sum() for counter in LoopCounter]], np.uint64)
    with TraceWriter(path, system, part_events=part_events) as writer:
        writer.append(events)
        writer.finish(
            cycles=int(events["cycle"].max()) + 20, drained=True, counters=summed_counters(services={"loop": counters})
        )


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    """name → a sound trace."""
    root = tmp_path_factory.mktemp("loop")
    for name in SYSTEMS:
        write(root / f"{name}.parquet", system_of(name))
    return lambda name: root / f"{name}.parquet"


@pytest.mark.parametrize("name", SYSTEMS)
def test_what_is_sound_is_once(traces, name):
    result = audit_trace(traces(name))
    assert result.verdict == ONCE and not result.findings, result.text()
    rows = open_trace(traces(name)).table().to_pylist()
    events = [row["event"] for row in rows]
    ((service, numbers),) = result.services
    told = {number.name: number.value for number in numbers}
    assert service == "loop" and told["to the own node"] == events.count(Event.LOOPED) > 50
    assert told["taken"] == events.count(Event.LOOP_TAKE)
    assert told["taken"] + told["lost in resets"] == told["to the own node"]
    assert (told["lost in resets"] > 0) == (name == "resets")
    assert f"loop: {told['to the own node']} to the own node" in result.text()
    # Nothing of it counts as of the network.
    assert result.metrics.datagrams == result.metrics.delivered == 0 and result.metrics.goodput == 0
    assert {row.metric: row.value for row in of_trace(traces(name))}["delivered"] == 0


def test_beside_the_network(tmp_path):
    """Datagrams to others and to the own node: each is counted in its own line."""
    system, path = system_of("plain"), tmp_path / "t.parquet"
    idle, loops = IdleFabric(system), loop_events(system)
    with TraceWriter(path, system) as writer:
        events = np.concatenate([idle.events, loops])
        writer.append(events[np.argsort(events["cycle"], kind="stable")])
        writer.finish(cycles=idle.cycles, drained=True)
    result = audit_trace(path)
    assert result.verdict == ONCE and result.metrics.datagrams == 80, result.text()
    assert result.services[0][1][0].value == (loops["word"] & np.uint64(0xFF) == Event.LOOPED).sum()


# What is altered, and what is found.


def rows_of(rows, event: Event, node: int = 0) -> list[dict]:
    unit = system_of("plain").layout.service_unit(node, 0)
    return [row for row in rows if row["event"] == event and row["unit"] == unit]


def of(event: Event, which: int = 5, node: int = 0, /, **change):
    """One row of an event with other values; a number is added."""

    def alter(rows):
        row = rows_of(rows, event, node)[which]
        for name, by in change.items():
            row[name] = by(row) if callable(by) else by if row[name] is None else row[name] + by

    return alter


def without(event: Event, which: int = 5, node: int = 0):
    def remove(rows):
        rows.remove(rows_of(rows, event, node)[which])

    return remove


def again(event: Event, which: int = 5, later: int = 3):
    """A row comes a second time, some cycles later."""

    def double(rows):
        row = rows_of(rows, event)[which]
        taken = {(other["cycle"], other["unit"], other["port"]) for other in rows}
        cycle = next(c for c in range(row["cycle"] + later, 1 << 20) if (c, row["unit"], row["port"]) not in taken)
        rows.append(dict(row, cycle=cycle))

    return double


def exchange(event: Event, column: str):
    """Two successive rows of an event exchange what they say."""

    def swap(rows):
        mine = rows_of(rows, event)
        one, other = next((a, b) for a, b in itertools.pairwise(mine[3:]) if a[column] != b[column])
        one[column], other[column] = other[column], one[column]

    return swap


def refused(rows) -> None:
    """A datagram that was stored is said to have been refused."""
    accepted = next(row for row in rows_of(rows, Event.LOOP_COMPLETE) if row["detail"] == 0)
    accepted["detail"] = Status.REJECTED << 4 | Cause.MODE


def accepted(rows) -> None:
    """One that was refused is said to have been stored."""
    next(row for row in rows_of(rows, Event.LOOP_COMPLETE) if row["detail"])["detail"] = 0


def too_soon(event: Event):
    """The host takes something in the first cycle after it was stored."""

    def move(rows):
        stored, mine = rows_of(rows, Event.LOOPED), rows_of(rows, event)
        cycles = {row["uid"]: row["cycle"] for row in stored}
        at = 4 if event == Event.LOOP_TAKE else next(n for n, row in enumerate(mine) if row["uid"] in cycles)
        mine[at]["cycle"] = (stored[at]["cycle"] if event == Event.LOOP_TAKE else cycles[mine[at]["uid"]]) + 1

    return move


def never_completed(rows) -> None:
    """The completion of the last datagram that was stored is missing."""
    last = rows_of(rows, Event.LOOPED)[-1]["uid"]
    rows.remove(next(row for row in rows_of(rows, Event.LOOP_COMPLETE) if row["uid"] == last))


def crowded(rows) -> None:
    """A slot is used while its last datagram has not been completed: its completion comes late."""
    for row in rows_of(rows, Event.LOOP_COMPLETE)[8:]:
        row["cycle"] += 4000


def shown_by_the_ni(rows) -> None:
    rows_of(rows, Event.LOOPED)[3]["unit"] = 0


_COMPLETE, _TAKE, _RESET = Event.LOOP_COMPLETE, Event.LOOP_TAKE, Event.LOOP_RESET
#: Alterations of rows, with a digest that fits → what must be found.
ALTERED = {
    "LOOPED is missing": (without(Event.LOOPED), "lost"),
    "LOOPED comes twice": (again(Event.LOOPED), "doubled"),
    "LOOPED with another generation": (of(Event.LOOPED, uid=1), "misnamed"),
    "LOOPED in another slot": (of(Event.LOOPED, uid=1 << UID_SLOT_SHIFT), "lost"),
    "LOOPED in a slot of the NI": (of(Event.LOOPED, uid=-3 << UID_SLOT_SHIFT), "misnamed"),
    "LOOPED of another incarnation": (of(Event.LOOPED, uid=1 << UID_INCARNATION_SHIFT), "misnamed"),
    "LOOPED of another node": (of(Event.LOOPED, uid=1 << UID_SOURCE_SHIFT), "misnamed"),
    "LOOPED without a UID": (of(Event.LOOPED, uid=lambda row: None), "misnamed"),
    "LOOPED for another node": (of(Event.LOOPED, peer=1), "altered"),
    "LOOPED with another length": (exchange(Event.LOOPED, "length"), "untaken"),
    "LOOPED longer than the MTU": (of(Event.LOOPED, length=1000), "altered"),
    "LOOPED with a detail": (of(Event.LOOPED, detail=1), "altered"),
    "LOOPED with another tag": (of(Event.LOOPED, tag=1), "misreported"),
    "LOOPED much later": (of(Event.LOOPED, cycle=40), "lost"),
    "LOOPED on another lane": (of(Event.LOOPED, port=1), "outside"),
    "LOOPED at another node": (of(Event.LOOPED, unit=1), "misnamed"),
    "LOOPED at an NI": (shown_by_the_ni, "garbled"),
    "LOOPED in other words": (exchange(Event.LOOPED, "uid"), "misnamed"),
    "a completion is missing": (without(_COMPLETE), "misnamed"),
    "the last completion is missing": (never_completed, "held"),
    "a completion comes twice": (again(_COMPLETE), "misreported"),
    "a completion with another UID": (of(_COMPLETE, uid=1), "misnamed"),
    "a completion of another incarnation": (of(_COMPLETE, uid=1 << UID_INCARNATION_SHIFT), "misreported"),
    "completions in another order": (exchange(_COMPLETE, "uid"), "misnamed"),
    "a completion for another node": (of(_COMPLETE, peer=1), "misreported"),
    "a completion with a length": (of(_COMPLETE, length=lambda row: 3), "misreported"),
    "a completion with another tag": (of(_COMPLETE, 0, tag=1), "misreported"),
    "a completion of no status": (of(_COMPLETE, detail=lambda row: 0x10 | Cause.DEADLINE), "misreported"),
    "stored, but REJECTED": (refused, "misreported"),
    "refused, but ACCEPTED": (accepted, "lost"),
    "a completion too soon": (too_soon(_COMPLETE), "misreported"),
    "too many at once": (crowded, "misnamed"),
    "a completion on another lane": (of(_COMPLETE, port=1), "outside"),
    "a completion at another node": (of(_COMPLETE, unit=1), "misnamed"),
    "a take is missing": (without(_TAKE), "untaken"),
    "the last take is missing": (without(_TAKE, -1), "untaken"),
    "a take comes twice": (again(_TAKE), "untaken"),
    "a take of another length": (of(_TAKE, length=1), "untaken"),
    "takes in another order": (exchange(_TAKE, "length"), "untaken"),
    "a take too soon": (too_soon(_TAKE), "untaken"),
    "a take with a UID": (of(_TAKE, uid=lambda row: 1 << UID_INCARNATION_SHIFT), "untaken"),
    "a take from another node": (of(_TAKE, peer=1), "untaken"),
    "a take with a detail": (of(_TAKE, detail=1), "untaken"),
    "a take with a tag": (of(_TAKE, tag=lambda row: 7), "untaken"),
    "a take on another lane": (of(_TAKE, port=-1), "outside"),
    "a take at another node": (of(_TAKE, unit=1), "untaken"),
    "a take that is a completion": (of(_TAKE, event=lambda row: _COMPLETE, port=-1), "misnamed"),
}  # fmt: skip
#: The same, of a trace with resets.
OF_RESETS = {
    "a reset is missing": (without(_RESET, 0, 1), "reset"),
    "a reset in another cycle": (of(_RESET, 0, 1, cycle=1), "reset"),
    "a reset that loses more": (of(_RESET, 0, 1, length=1), "untaken"),
    "a reset with a detail": (of(_RESET, 0, 1, detail=1), "untaken"),
    "a reset with a peer": (of(_RESET, 0, 1, peer=lambda row: 1), "untaken"),
    "a reset with a UID": (of(_RESET, 0, 1, uid=lambda row: 1 << UID_INCARNATION_SHIFT), "untaken"),
    "a reset with a tag": (of(_RESET, 0, 1, tag=lambda row: 4), "untaken"),
    "a reset of the NI alone": (lambda rows: rows.append(_reset_of_the_ni_alone(rows)), "reset"),
    "the incarnation of a take": (of(_TAKE, 20, 2, detail=1), "untaken"),
    "the incarnation from before a reset": (of(Event.LOOPED, -1, 1, uid=-1 << UID_INCARNATION_SHIFT), "misnamed"),
    "the dead store": (lambda rows: rows.append(dict(rows_of(rows, Event.LOOPED, 3)[-1], cycle=180)), "dead"),
    "the dead forget to say so": (without(_RESET, 0, 3), "reset"),
}  # fmt: skip


def _reset_of_the_ni_alone(rows) -> dict:
    (reset,) = rows_of(rows, _RESET, 1)
    return dict(reset, unit=reset["unit"] + 1, cycle=200, length=0)


def altered(traces, tmp_path, name: str, change) -> AuditResult:
    path = tmp_path / "t.parquet"
    tamper(path, traces(name), change, counters={})
    return audit_trace(path)


@pytest.mark.parametrize("name", ALTERED)
def test_no_row_can_be_altered(traces, tmp_path, name):
    change, finding = ALTERED[name]
    result = altered(traces, tmp_path, "plain", change)
    assert result.verdict == BROKEN and finding in {found.name for found in result.findings}, result.text()


@pytest.mark.parametrize("name", OF_RESETS)
def test_no_reset_can_be_altered(traces, tmp_path, name):
    change, finding = OF_RESETS[name]
    result = altered(traces, tmp_path, "resets", change)
    assert result.verdict == BROKEN and finding in {found.name for found in result.findings}, result.text()


def test_a_finding_names_datagram_cycle_and_node(traces, tmp_path):
    """One alteration is one finding, not one for all that follows."""
    gone: list[dict] = []

    def change(rows):
        gone.append(rows_of(rows, Event.LOOPED, 2)[7])
        rows.remove(gone[0])

    found = {finding.name: finding for finding in altered(traces, tmp_path, "plain", change).findings}
    assert found.keys() == {"lost", "untaken"}
    assert found["lost"].count == found["untaken"].count == 1
    (case,) = found["lost"].examples
    assert case.uid == gone[0]["uid"] and case.cycle > gone[0]["cycle"] and case.unit == gone[0]["unit"]
    uid = ":".join(map(str, unpack_uid(gone[0]["uid"])))
    assert f"{uid}, cycle {case.cycle}, loop2, peer node 2: its sender" in case.text(system_of("plain").layout)


def test_counters_are_held_against_the_rows(traces, tmp_path):
    counters = open_trace(traces("plain")).meta.counters
    counters["loop"]["TAKEN"] += 1
    tamper(tmp_path / "t.parquet", traces("plain"), lambda rows: None, counters=counters)
    (found,) = audit_trace(tmp_path / "t.parquet").findings
    assert found.name == "miscounted" and "loop TAKEN says" in found.examples[0].note


def test_an_undrained_run_may_hold_and_owe(traces, tmp_path):
    """What is under way at the end is no finding."""

    def early(rows):
        rows[:] = [row for row in rows if row["cycle"] < 150]

    tamper(tmp_path / "t.parquet", traces("plain"), early, counters={}, drained=False, cycles=150)
    assert not audit_trace(tmp_path / "t.parquet").findings
    tamper(tmp_path / "t.parquet", traces("plain"), early, counters={}, drained=True, cycles=150)
    assert {"held", "untaken"} <= {found.name for found in audit_trace(tmp_path / "t.parquet").findings}


@pytest.mark.parametrize("how", ["good", "bad"])
def test_on_spark_as_here(spark, traces, tmp_path, how):
    def several(rows):
        for change in ("LOOPED is missing", "takes in another order", "a completion with another tag"):
            ALTERED[change][0](rows)

    path = tmp_path / "t.parquet"
    tamper(path, traces("resets"), several if how == "bad" else lambda rows: None, counters={}, part_events=100)
    trace = open_trace(path, judged=True)
    places, _ = trace.groups()
    assert len(places) > 2
    there, ours = conclude(trace, places, judging.judged(trace, spark, groups=3)), audit_trace(path)
    assert there == ours and bool(ours.findings) == (how == "bad")


def test_the_life_of_an_own_datagram(traces):
    rows = open_trace(traces("plain")).table().to_pylist()
    stored = rows_of(rows, Event.LOOPED, 2)[4]
    uid = ":".join(map(str, unpack_uid(stored["uid"])))
    text = text_ladder(traces("plain"), uid)
    assert f"datagram {uid}: node 2 to node 2, {stored['length']} bytes" in text
    assert f"{stored['cycle']}  ●stored, offered to its own host" in text and "completed ACCEPTED" in text
