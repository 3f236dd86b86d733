"""The audit is silent on a good trace, and names whatever is done to it."""

from collections.abc import Callable

import pytest

from lethe.spec.events import LANE_RX, Event
from lethe.spec.toml import dump
from lethe.spec.wire import unpack_uid
from lethe_sim.golden.model import Golden
from lethe_sim.ledger.audit import BROKEN, ONCE, UNFINISHED, AuditResult
from lethe_sim.ledger.here import audit as audit_trace
from lethe_sim.ledger.here import judged
from lethe_sim.trace import TraceWriter, open_trace
from lethe_sim.trace.check import scheduled_resets
from tests.helpers.make_trace import IdleFabric, restate, small_system, tamper, write_trace
from tests.helpers.tamperings import TAMPERINGS, Rows, _deliver_a_duplicate, first

NULLABLE = ("uid", "peer", "length", "tag", "head")


@pytest.fixture
def audit(good, tmp_path):
    """Audit the good trace after a change to its rows or metadata."""

    def run(change: Callable[[Rows], object] = lambda rows: None, **meta) -> AuditResult:
        path = tmp_path / "changed.parquet"
        tamper(path, good, change, **meta)
        return audit_trace(path)

    return run


def found(result: AuditResult) -> set[str]:
    return {finding.name for finding in result.findings}


def test_good_trace(good):
    result = audit_trace(good)
    assert result.verdict == ONCE and result.exit_code == 0 and not result.findings
    m = result.metrics
    assert m.datagrams == m.delivered == m.once == m.accepted == 80
    assert m.repeated > 0 and m.most_sends > 1 and m.overtaken > 0
    assert m.messages_per_datagram >= 3
    assert sum(count for *_, count in m.latency_bars) == sum(count for _, count in m.message_bars) == 80
    width = m.goodput_bars[1][0]
    flits = sum(rate * 4 * min(width, result.cycles - start) for start, rate in m.goodput_bars)
    assert round(flits) == m.flits
    assert "every datagram once: 80 of 80" in result.text()


def test_lossless_run_takes_three_messages(tmp_path):
    idle = IdleFabric(small_system(), loss=0.0)
    path = tmp_path / "lossless.parquet"
    with TraceWriter(path, idle.system) as writer:
        writer.append(idle.events)
        writer.finish(cycles=idle.cycles, drained=True)
    m = audit_trace(path).metrics
    assert m.messages_per_datagram == 3 and m.repeats == 0 and m.overtaken == 0


@pytest.fixture(scope="module")
def tampered(good, tmp_path_factory) -> tuple[dict[str, Rows], dict[str, Rows]]:
    """(rows, findings) of each tampering."""
    path = tmp_path_factory.mktemp("tampered") / "t.parquet"
    runs: dict[str, Rows] = {}
    found: dict[str, Rows] = {}
    for name, (change, _, _) in TAMPERINGS.items():
        tamper(path, good, change)
        trace = open_trace(path)
        runs[name] = trace.table().to_pylist()
        found[name] = [row for table in judged(trace, whole=True).rows["findings"] for row in table.to_pylist()]
    return runs, found


@pytest.mark.parametrize("name", TAMPERINGS)
def test_tampering_is_named(tampered, name):
    _, must, may = TAMPERINGS[name]
    names = {case["finding"] for case in tampered[1][name]}
    assert must <= names <= must | may


def test_findings_name_datagram_cycle_and_nodes(tampered):
    before, after = (tampered[0][name] for name in ("nothing", "forgotten deleted"))
    (gone,) = [row for row in before if row not in after]
    (case,) = tampered[1]["forgotten deleted"]
    assert (case["uid"], case["unit"], case["peer"]) == (gone["uid"], gone["unit"], gone["peer"])
    delivered = first(after, Event.DELIVER, uid=gone["uid"])
    assert case["cycle"] == delivered["cycle"]


@pytest.mark.parametrize("name", ["nothing", "deliver deleted", "row doubled", "datagrams swapped", "length altered"])
def test_findings_in_parts(good, tmp_path, name):
    """A datagram's events lie in several parts."""
    change, must, may = TAMPERINGS[name]
    tamper(tmp_path / "t.parquet", good, change, part_events=100, counters={})
    assert len(open_trace(tmp_path / "t.parquet").parts) > 5
    assert must <= found(audit_trace(tmp_path / "t.parquet")) <= must | may | {"misplaced"}


def test_broken_audit_in_words(audit):
    changed: Rows = []

    def double(rows: Rows) -> None:
        changed.append(first(rows, Event.DUPLICATE))
        _deliver_a_duplicate(rows)

    result = audit(double)
    assert result.verdict == BROKEN and result.exit_code == 1
    doubled = result.findings[0]
    assert (doubled.name, doubled.count, doubled.examples[0].uid) == ("doubled", 1, changed[0]["uid"])
    source, *_ = unpack_uid(changed[0]["uid"])
    assert f"ni{source}" in result.text() and "delivered 2 times" in result.text()


def test_events_outside(audit):
    def stray(rows: Rows) -> None:
        rows[-1] = rows[-1] | {"cycle": 10**6}
        rows.append(rows[0] | {"unit": 999, "event": int(Event.LOST), "detail": 0, **dict.fromkeys(NULLABLE)})

    result = audit(stray)
    (outside,) = [finding for finding in result.findings if finding.name == "outside"]
    assert outside.count == 2 and "LOST at unit 999" in result.text() and "the run has" in result.text()


def test_counters_disagree(audit):
    counters = {"ni": {"SENDS": 1}, "sums": {"wrong": 2, "sent": 80, "received": 79, "sent_sum": 1, "received_sum": 1}}
    result = audit(counters=counters)
    assert found(result) == {"altered", "miscounted"}
    assert "counter SENDS says 1" in result.text() and "sent is 80, received is 79" in result.text()


def test_unfinished(tmp_path):
    path = tmp_path / "unfinished.parquet"
    write_trace(path, drained=False)
    result = audit_trace(path)
    assert result.verdict == UNFINISHED and result.exit_code == 1
    assert "had not drained" in result.text()


def test_unfinished_but_broken(audit):
    result = audit(_deliver_a_duplicate, drained=False)
    assert found(result) == {"doubled"} and result.verdict == BROKEN


RESETS = {"resets": [{"node": 2, "start": 300, "cycles": 5}]}


def reset_row(rows: Rows, cycle: int = 300, node: int = 2) -> dict:
    return rows[0] | dict.fromkeys(NULLABLE) | {
        "cycle": cycle, "unit": node, "port": LANE_RX, "event": int(Event.RESET), "detail": 0, "length": 0,
    }  # fmt: skip


@pytest.fixture(scope="module")
def with_reset(tmp_path_factory):
    """A trace in which node 2 was reset as scheduled."""
    path = tmp_path_factory.mktemp("reset") / "good.parquet"
    write_trace(path, small_system(faults=RESETS))

    def reset(rows: Rows) -> None:
        rows[:] = [row for row in rows if (row["cycle"], row["unit"], row["port"]) != (300, 2, LANE_RX)]
        rows.append(reset_row(rows))

    tamper(path, path, reset)
    return path


def test_reset_is_listed_not_judged(with_reset, tmp_path):
    untouched = audit_trace(with_reset)
    assert untouched.by_reset > 0 and untouched.verdict == ONCE, untouched.text()
    victim = untouched.by_reset_examples[0]
    bad = tmp_path / "bad.parquet"

    def lose(rows: Rows) -> None:
        rows.remove(first(rows, Event.COMPLETE, uid=victim.uid))

    tamper(bad, with_reset, lose)
    result = audit_trace(bad)
    assert not result.findings and result.by_reset >= untouched.by_reset


def test_a_reset_without_its_event_excuses_nothing(with_reset, tmp_path):
    """A reset that stands in the configuration only; and one that stands in the rows only."""
    bad = tmp_path / "bad.parquet"
    victim = audit_trace(with_reset).by_reset_examples[0]

    def lose(rows: Rows) -> None:
        rows.remove(first(rows, Event.RESET))
        rows.remove(first(rows, Event.COMPLETE, uid=victim.uid))
        rows.append(reset_row(rows, 321, 1))

    tamper(bad, with_reset, lose)
    result = audit_trace(bad)
    assert {"reset", "held"} <= found(result) and result.by_reset == 0
    (reset,) = [finding for finding in result.findings if finding.name == "reset"]
    assert {(case.unit, case.cycle) for case in reset.examples} == {(2, 300), (1, 321)}


def test_resets_added_to_the_metadata_hide_nothing(good, tmp_path):
    bad = tmp_path / "bad.parquet"
    tamper(bad, good, lambda rows: rows.remove(first(rows, Event.COMPLETE)))
    resets = [{"node": n, "start": 12, "cycles": 9000} for n in range(4)]
    restate(bad, config=dump(small_system(faults={"resets": resets})), seal=False)
    result = audit_trace(bad)
    assert {"held", "reset", "changed"} <= found(result) and result.by_reset == 0
    assert "metadata were changed" in result.text()


def test_touching_resets_are_one():
    resets = [
        {"node": 1, "start": s, "cycles": n} for s, n in ((50, 10), (60, 5), (40, 3), (30, 10), (90, 1), (200, 1))
    ]
    due = scheduled_resets(small_system(faults={"resets": resets}), 150)
    assert {place: [r.start for r in theirs] for place, theirs in due.items()} == {
        (1, 30): [30, 40], (1, 50): [50, 60], (1, 90): [90],
    }  # fmt: skip


def test_a_death_is_a_reset_that_does_not_end():
    """One with the reset that it touches; a reset of the dead is none."""
    faults = {
        "resets": [{"node": 1, "start": s, "cycles": 10} for s in (40, 90)],
        "deaths": [{"node": 1, "start": 50}, {"node": 2, "start": 60}],
    }
    system = small_system(faults=faults, timers={"ack_limit": 12}, workload={"retry_limit": 2})
    due = scheduled_resets(system, 150)
    assert {place: [r.start for r in theirs] for place, theirs in due.items()} == {
        (1, 40): [40, 50, 90], (2, 60): [60],
    }  # fmt: skip


def test_what_a_death_cuts_off_is_not_judged(tmp_path):
    """A run in which a node dies drains without it, and the audit has nothing to say against it."""
    faults = {"deaths": [{"node": 2, "start": 300}]}
    system = small_system(faults=faults, timers={"ack_limit": 12}, workload={"retry_limit": 2, "load": 0.5})
    golden = Golden(system, record=True)
    golden.run(200_000, until_drained=True)
    path = tmp_path / "death.parquet"
    with TraceWriter(path, system) as writer:
        writer.append(golden.take_events())
        writer.finish(cycles=golden.cycle, drained=golden.drained, digest=golden.digest)
    result = audit_trace(path)
    assert golden.drained and result.by_reset > 0 and result.verdict == ONCE, result.text()


def test_generations_wrap(tmp_path):
    """UIDs that come round again are other datagrams."""
    system = small_system(
        wire={"generation_bits": 1}, ni={"slots": 2}, timers={"wrap_guard": 0}, topology={"kind": "wire"}
    )
    idle = IdleFabric(system, datagrams=12, loss=0.0)
    path = tmp_path / "wraps.parquet"
    with TraceWriter(path, system) as writer:
        writer.append(idle.events)
        writer.finish(cycles=idle.cycles, drained=True)
    result = audit_trace(path)
    assert result.verdict == ONCE and result.metrics.datagrams == 24
