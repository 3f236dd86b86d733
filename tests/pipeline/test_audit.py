"""The audit is silent on a good trace, and names whatever is done to it."""

from collections.abc import Callable

import pytest
from make_trace import Account, small_system, tamper, write_trace

from lethe.spec.events import Event
from lethe.spec.wire import unpack_uid
from lethe_sim.pipeline.audit import BROKEN, ONCE, UNFINISHED, AuditResult
from lethe_sim.pipeline.jobs import audit_trace
from lethe_sim.trace import TraceWriter

Rows = list[dict]


def first(rows: Rows, *events: Event, **wanted) -> dict:
    return next(r for r in rows if r["event"] in events and all(r[k] == v for k, v in wanted.items()))


@pytest.fixture
def audit(spark, good, tmp_path):
    """Audit the good trace after a change to its rows or metadata."""

    def run(change: Callable[[Rows], object] = lambda rows: None, **meta) -> AuditResult:
        path = tmp_path / "changed.parquet"
        tamper(path, good, change, **meta)
        return audit_trace(path, spark=spark)

    return run


def found(result: AuditResult) -> set[str]:
    return {finding.name for finding in result.findings}


def test_good_trace(spark, good):
    result = audit_trace(good, spark=spark)
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


def test_lossless_run_takes_three_messages(spark, tmp_path):
    account = Account(small_system(), loss=0.0)
    path = tmp_path / "lossless.parquet"
    with TraceWriter(path, account.system) as writer:
        writer.append(account.events)
        writer.finish(cycles=account.cycles, drained=True)
    m = audit_trace(path, spark=spark).metrics
    assert m.messages_per_datagram == 3 and m.repeats == 0 and m.overtaken == 0


def test_deleted_delivery_is_lost(audit):
    def delete(rows: Rows) -> None:
        rows.remove(first(rows, Event.DELIVER))

    result = audit(delete)
    assert result.verdict == BROKEN and result.exit_code == 1
    assert {"lost", "untaken"} <= found(result)


def test_deleted_launch_is_disorder(audit):
    result = audit(lambda rows: rows.remove(first(rows, Event.ACK)))
    assert found(result) == {"disordered"}


def test_deleted_completion_holds_the_slot(audit):
    result = audit(lambda rows: rows.remove(first(rows, Event.COMPLETE)))
    assert found(result) == {"held"}


def test_deleted_forgotten_is_remembered(audit):
    gone = {}

    def delete(rows: Rows) -> None:
        last = max((r for r in rows if r["event"] == Event.FORGOTTEN), key=lambda r: r["cycle"])
        gone.update(last)
        rows.remove(last)

    result = audit(delete)
    (finding,) = result.findings
    assert finding.name == "remembered"
    (case,) = finding.examples
    assert (case.uid, case.unit, case.peer) == (gone["uid"], gone["unit"], gone["peer"])


def test_doubled_delivery(audit):
    """A delivery again, where a duplicate had been recognised."""
    changed = {}

    def double(rows: Rows) -> None:
        row = first(rows, Event.DUPLICATE)
        row["event"] = int(Event.DELIVER)
        changed.update(row)

    result = audit(double)
    assert {"doubled", "untaken", "remembered"} >= found(result) >= {"doubled", "untaken"}
    doubled = result.findings[0]
    assert doubled.count == 1 and doubled.examples[0].uid == changed["uid"]
    source, *_ = unpack_uid(changed["uid"])
    assert f"ni{source}" in result.text() and "delivered 2 times" in result.text()


def test_doubled_row(audit):
    result = audit(lambda rows: rows.append(dict(first(rows, Event.DELIVER))))
    assert {"doubled", "disordered"} <= found(result)


def test_swapped_uids(audit):
    """Two deliveries of one receiver exchange their datagrams."""

    def swap(rows: Rows) -> None:
        a = first(rows, Event.DELIVER)
        b = next(r for r in rows if r["event"] == Event.DELIVER and r["unit"] == a["unit"] and r["uid"] != a["uid"])
        a["uid"], b["uid"] = b["uid"], a["uid"]

    assert {"disordered"} <= found(audit(swap))


def test_swapped_times_are_disorder(audit):
    """An Ack overtakes: it arrives a cycle before the fabric could have brought it."""

    def hurry(rows: Rows) -> None:
        first(rows, Event.RELEASE)["cycle"] -= 1

    assert found(audit(hurry)) == {"disordered"}


@pytest.mark.parametrize("column, change", [("length", 1), ("peer", -1)])
def test_altered_delivery(audit, column, change):
    def alter(rows: Rows) -> None:
        first(rows, Event.DELIVER, peer=1)[column] += change

    result = audit(alter)
    assert "altered" in found(result)


def test_delivered_elsewhere(audit):
    def misdeliver(rows: Rows) -> None:
        row = first(rows, Event.DELIVER)
        row["unit"] = next(n for n in range(4) if n not in (row["unit"], row["peer"]))

    assert "altered" in found(audit(misdeliver))


def test_never_accepted(audit):
    assert "invented" in found(audit(lambda rows: rows.remove(first(rows, Event.ACCEPT))))


def test_contradicted_completion(audit):
    def contradict(rows: Rows) -> None:
        first(rows, Event.COMPLETE)["detail"] = 3 << 4 | 3

    assert found(audit(contradict)) == {"misreported"}


def test_late_send(audit):
    """T6: a worm of a datagram that has long ended."""

    def resurrect(rows: Rows) -> None:
        end = first(rows, Event.RELEASE)
        send = dict(first(rows, Event.SEND, uid=end["uid"]))
        rows.append(send | {"cycle": end["cycle"] + 3})

    assert found(audit(resurrect)) == {"late"}


def test_events_outside(audit):
    def stray(rows: Rows) -> None:
        rows[-1] = rows[-1] | {"cycle": 10**6}
        rows.append(rows[0] | {"unit": 999, "uid": None})

    result = audit(stray)
    assert "outside" in found(result)
    assert "unit 999" in result.text()


def test_counters_disagree(audit):
    counters = {"ni": {"SENDS": 1}, "sums": {"wrong": 2, "sent": 80, "received": 79, "sent_sum": 1, "received_sum": 1}}
    result = audit(counters=counters)
    assert found(result) == {"altered", "miscounted"}
    assert "counter SENDS says 1" in result.text() and "sent is 80, received is 79" in result.text()


def test_unfinished(spark, tmp_path):
    path = tmp_path / "unfinished.parquet"
    write_trace(path, drained=False)
    result = audit_trace(path, spark=spark)
    assert result.verdict == UNFINISHED and result.exit_code == 1
    assert "had not drained" in result.text()


def test_unfinished_but_broken(audit):
    def double(rows: Rows) -> None:
        first(rows, Event.DUPLICATE)["event"] = int(Event.DELIVER)

    result = audit(double, drained=False)
    assert found(result) == {"doubled"} and result.verdict == BROKEN


def test_unknown_may_be_delivered_or_not(audit):
    """A datagram given up is not lost, whether it was delivered or not."""

    def give_up(rows: Rows) -> None:
        end = first(rows, Event.RELEASE)
        uid = end["uid"]
        end |= {"event": int(Event.GIVE_UP), "detail": 1}
        first(rows, Event.COMPLETE, uid=uid)["detail"] = 1 << 4 | 1

    result = audit(give_up)
    assert not result.findings and result.metrics.unknown == 1


def test_reset_is_listed_not_judged(spark, tmp_path):
    system = small_system(faults={"resets": [{"node": 2, "start": 300, "cycles": 5}]})
    good = tmp_path / "good.parquet"
    write_trace(good, system)
    untouched = audit_trace(good, spark=spark)
    assert untouched.by_reset > 0 and untouched.verdict == ONCE
    victim = untouched.by_reset_examples[0]
    bad = tmp_path / "bad.parquet"

    def lose(rows: Rows) -> None:
        rows.remove(first(rows, Event.COMPLETE, uid=victim.uid))

    tamper(bad, good, lose)
    result = audit_trace(bad, spark=spark)
    assert not result.findings and result.by_reset >= untouched.by_reset


def test_generations_wrap(spark, tmp_path):
    """UIDs that come round again are other datagrams."""
    system = small_system(
        wire={"generation_bits": 1}, ni={"slots": 2}, timers={"wrap_guard": 0}, topology={"kind": "wire"}
    )
    account = Account(system, datagrams=12, loss=0.0)
    path = tmp_path / "wraps.parquet"
    with TraceWriter(path, system) as writer:
        writer.append(account.events)
        writer.finish(cycles=account.cycles, drained=True)
    result = audit_trace(path, spark=spark)
    assert result.verdict == ONCE and result.metrics.datagrams == 24
