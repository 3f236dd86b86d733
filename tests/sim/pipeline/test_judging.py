"""Spark and this process judge alike, row for row: findings, the ledger, and the result."""

import pyarrow as pa
import pytest

from lethe.spec.config import System
from lethe.spec.events import Event
from lethe_sim.ledger import here
from lethe_sim.ledger.conclude import conclude
from lethe_sim.ledger.judge import Summary
from lethe_sim.pipeline import judging
from lethe_sim.trace import open_trace
from tests.helpers.cell_changes import MIXED
from tests.helpers.golden_runs import system_of
from tests.helpers.golden_trace import write_golden, write_options
from tests.helpers.make_trace import tamper
from tests.helpers.tamperings import TAMPERINGS


def several(rows):
    """Much is wrong, at several places."""
    for name in ("deliver deleted", "length altered", "completion altered", "sent after the end", "forgotten deleted"):
        TAMPERINGS[name][0](rows)
    # Not the first, which may be of the two nodes whose delivery is gone: then nothing is missing.
    rows.remove([row for row in rows if row["event"] == Event.TAKE][-1])
    rows.insert(40, dict(rows[40]))
    sends = [row for row in rows if row["event"] == Event.SEND]
    sends[len(sends) // 2]["unit"] = 9999


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    """name → a trace in many parts."""
    root = tmp_path_factory.mktemp("judging")
    systems = {"mixed": System.make("mixed", **MIXED), "queued": system_of("queued"), "wrapping": system_of("wrapping")}

    def get(name: str, change=lambda rows: None):
        if name == "options":
            write_options(root / name)
        else:
            write_golden(root / name, systems[name])
        tamper(root / "t", root / name, change, part_events=300)
        return open_trace(root / "t", judged=True)

    return get


def sorted_rows(found: Summary, name: str) -> list[dict]:
    rows = pa.concat_tables(found.rows[name]).to_pylist() if found.rows[name] else []
    return sorted(rows, key=lambda row: [(value is not None, value) for value in row.values()])


@pytest.mark.parametrize("name", ["mixed", "queued", "wrapping", "options"])
@pytest.mark.parametrize("how", ["good", "bad"])
def test_on_spark_as_here(spark, traces, name, how):
    trace = traces(name, several if how == "bad" else lambda rows: None)
    places, _ = trace.groups()
    assert len(places) > 2
    there, ours = judging.judged(trace, spark, groups=3, whole=True), here.judged(trace, groups=1, whole=True)
    for rows in ("findings", "datagrams"):
        assert sorted_rows(there, rows) == sorted_rows(ours, rows)
    assert len(sorted_rows(ours, "datagrams")) >= trace.meta.system.workload.count * trace.meta.system.nodes
    assert conclude(trace, places, there) == conclude(trace, places, ours)
    names = {finding.name for finding in conclude(trace, places, ours).findings}
    wanted = {"altered", "misreported", "untaken", "misplaced", "garbled"}
    assert names == set() if how == "good" else wanted <= names, names


def test_groups_make_no_difference(traces):
    trace = traces("mixed", several)
    places, _ = trace.groups()
    results = [conclude(trace, places, here.judged(trace, groups=groups)) for groups in (1, 2, 7)]
    assert results[0] == results[1] == results[2] and results[0].findings
