"""Audit and comparison of a large trace on Spark, beside the same questions put to DuckDB.

`scripts/bench --only pipeline` runs this file once for each engine and question, so that times, processor times and
memory are those of one alone.  Both read the same files; their answers are held against each other.
"""

import argparse
import contextlib
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa

from lethe.spec import stages
from lethe.spec.config import System
from lethe.spec.events import Drop, Event, Kind, Status
from lethe_sim import running
from lethe_sim.lockstep.simulators import ToolError
from lethe_sim.trace import Meta, TraceReader, TraceWriter, open_trace

#: Events of a datagram at this load and loss, about: a trace is as large as is asked for, more or less.
_EVENTS_PER_DATAGRAM = 25.4
_NODES = 16
_MEMORY = "2g"
_RANGES = 512


def large_system(events: int) -> System:
    """A run of about so many events: a 4-ary 2-tree that loses one worm in a hundred on each link."""
    return System.make(
        topology={"kind": "tree", "arity": 4, "levels": 2},
        faults={"loss": 0.01},
        workload={"load": 0.1, "count": max(1, round(events / _EVENTS_PER_DATAGRAM / _NODES))},
        run={"seed": 1, "cycles": 10**9},
    )


def write_trace(path: Path, events: int) -> Meta:
    """A valid trace of about ``events`` events, by the golden model."""
    return running.run(large_system(events), path).meta


def alter(path: Path, to: Path) -> int:
    """Copy the trace at ``path`` with the detail of one row changed, nine tenths in; returns its cycle."""
    trace = open_trace(path)
    wanted, passed, cycle = trace.meta.events * 9 // 10, 0, -1
    with TraceWriter(to, trace.meta.system, "rtl") as writer:
        for batch in trace.batches():
            table = pa.Table.from_batches([batch])
            place = wanted - passed
            if 0 <= place < len(table):
                details = table["detail"].to_numpy().copy()
                details[place] += 1
                column = table.schema.get_field_index("detail")
                table = table.set_column(column, table.schema.field(column), pa.array(details))
                cycle = table["cycle"][place].as_py()
            passed += len(table)
            writer.append_table(table)
        meta = trace.meta
        writer.finish(cycles=meta.cycles, drained=meta.drained, counters=meta.counters)
    return cycle


# Spark.


def spark_audit(path: Path) -> dict:
    from lethe_sim.pipeline.jobs import audit_trace

    result, cost = _on_spark(lambda spark: audit_trace(path, spark=spark), brief=True)
    m = result.metrics
    return cost | {
        "verdict": result.verdict, "findings": {f.name: f.count for f in result.findings}, "datagrams": m.datagrams,
        "delivered": m.delivered, "once": m.once, "messages": round(m.messages_per_datagram * m.delivered),
        "repeated": m.repeated, "overtaken": m.overtaken, "median": m.latency["median"],
        "greatest": m.latency["greatest"], "events": len(m.events),
    }  # fmt: skip


def spark_compare(left: Path, right: Path) -> dict:
    from lethe_sim.pipeline.jobs import BRIEF, compare_traces

    result, cost = _on_spark(
        lambda spark: compare_traces(left, right, spark=spark), brief=open_trace(left).meta.events < BRIEF
    )
    return cost | {"cycle": result.cycle, "left": len(result.left_rows), "right": len(result.right_rows)}


def _on_spark(job, *, brief: bool) -> tuple:
    """The answer and its cost, in a Spark session like those of the commands."""
    from lethe_sim.pipeline.session import session

    started = time.monotonic()
    with session(None, "lethe bench", _MEMORY, brief=brief) as spark:
        ready = time.monotonic()
        result = job(spark)
        done = time.monotonic()
        pid = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()
        costs = [_process(process) for process in (os.getpid(), pid, *_below(pid))]
    return result, {
        "start": ready - started, "seconds": done - ready, "cpu": sum(used for used, _ in costs),
        "memory": sum(held for _, held in costs),
    }  # fmt: skip


def _below(pid: int) -> list[int]:
    """The processes that a process has started, and those that they have: Spark's Python workers."""
    started: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parent = int(path.read_text().rsplit(")", 1)[1].split()[1])
            started.setdefault(parent, []).append(int(path.parent.name))
    found = [pid]
    for process in found:
        found += started.get(process, [])
    return found[1:]


def _process(pid: int) -> tuple[float, int]:
    """(processor seconds, most bytes held) of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    # A process that has ended, but was not waited for, holds no memory.
    held = next((line for line in lines if line.startswith("VmHWM")), "VmHWM: 0 kB")
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"), int(held.split()[1]) << 10


# DuckDB.

_NAMED = """
    create temp view named as select uid, cycle, unit, peer, length, event, detail, {life} as life
    from events where unit < {nodes} and uid is not null
"""
_DATAGRAMS = """
    create temp table datagrams as select uid, life,
        count(*) filter (event = {ACCEPT}) as accepts, min(cycle) filter (event = {ACCEPT}) as accepted_at,
        min(unit) filter (event = {ACCEPT}) as accepted_by, min(peer) filter (event = {ACCEPT}) as destination,
        min(length) filter (event = {ACCEPT}) as length, min(detail) filter (event = {ACCEPT}) as kind,
        count(*) filter (event = {DELIVER}) as delivers, count(*) filter (event = {DELIVER_BE}) as deliver_bes,
        min(cycle) filter (event in ({DELIVER}, {DELIVER_BE})) as delivered_at,
        min(unit) filter (event in ({DELIVER}, {DELIVER_BE})) as to_least,
        max(unit) filter (event in ({DELIVER}, {DELIVER_BE})) as to_most,
        min(peer) filter (event in ({DELIVER}, {DELIVER_BE})) as from_least,
        max(peer) filter (event in ({DELIVER}, {DELIVER_BE})) as from_most,
        min(length) filter (event in ({DELIVER}, {DELIVER_BE})) as length_least,
        max(length) filter (event in ({DELIVER}, {DELIVER_BE})) as length_most,
        count(*) filter (event = {SEND}) as sends, count(*) filter (event = {BE}) as best_efforts,
        min(cycle) filter (event in ({SEND}, {BE})) as first_send,
        max(cycle) filter (event in ({SEND}, {BE})) as last_send,
        min(unit) filter (event in ({SEND}, {BE})) as sent_least,
        max(unit) filter (event in ({SEND}, {BE})) as sent_most,
        count(*) filter (event = {ACK}) as acks, count(*) filter (event = {FORGET}) as forgets,
        count(*) filter (event = {RELEASE}) as releases, count(*) filter (event = {GIVE_UP}) as give_ups,
        min(cycle) filter (event in ({RELEASE}, {GIVE_UP})) as ended_at,
        max(detail) filter (event = {GIVE_UP}) as cause, count(*) filter (event = {COMPLETE}) as completes,
        max(detail) filter (event = {COMPLETE}) as completion
    from named group by all
"""
#: The rules of `lethe_sim.ledger.findings`.
_RULES = """
    select
        count(*) filter (((delivered = 0) and (releases > 0 or (completes > 0 and status = {ACCEPTED})))
            or ({drained} and kind = {kind_send} and delivered = 0 and completes + give_ups = 0)) as lost,
        count(*) filter (delivered > 1) as doubled,
        count(*) filter (accepts > 0 and (length_least != length or length_most != length or to_least != destination
            or to_most != destination or from_least != accepted_by or from_most != accepted_by
            or accepted_by != source or (kind = {kind_send} and deliver_bes + best_efforts > 0)
            or (kind != {kind_send} and delivers + sends > 0))) as altered,
        count(*) filter ((accepts = 0 and delivered + sent + completes > 0)
            or least(first_send, delivered_at) < accepted_at or accepts > 1
            or (delivered > 0 and coalesce(first_send > delivered_at, true))
            or sent_least != source or sent_most != source) as invented,
        count(*) filter (completes > 1 or releases + give_ups > 1 or (completes > 0 and releases + give_ups = 0)
            or (completes > 0 and status = {ACCEPTED} and releases = 0)
            or (completes > 0 and status != {ACCEPTED} and give_ups = 0)
            or (completes > 0 and (completion & 15) != coalesce(cause, 0))
            or (completes > 0 and status in ({REJECTED}, {NEVER_SENT}) and sent + delivered > 0)) as misreported,
        count(*) filter (last_send > ended_at + {late}) as late,
        count(*) filter ({drained} and accepts > 0 and completes = 0) as held
    from (select *, delivers + deliver_bes as delivered, sends + best_efforts as sent, completion >> 4 as status,
        uid >> 44 & 65535 as source from datagrams)
"""
_WORMS = """
    select count(*) from (
        select count(*) filter (launch) as launches, count(*) filter (not launch) as arrivals from (
            select uid, family, launch, if(launch, unit, peer) as sender, if(launch, peer, unit) as receiver,
                if(launch, cycle, cycle + 1 - {acts} - if(family = 1, {data} + (coalesce(length, 0) + {flit_bytes} - 1)
                    // {flit_bytes}, {control}) - {latency} * if(unit // {arity} = peer // {arity}, 1, 3)) as launched
            from (select *, event in ({SEND}, {BE}, {ACK}, {FORGET}) as launch, case
                when event in ({SEND}, {BE}, {DELIVER}, {DELIVER_BE}, {DUPLICATE}) then 1
                when event = {DROP} and detail in ({full}) then 1
                when event in ({ACK}, {RELEASE}, {ACK_IGNORED}) then 2
                when event in ({FORGET}, {FORGOTTEN}, {FORGET_IGNORED}) then 3 end as family
                from events where unit < {nodes} and uid is not null)
            where family is not null)
        group by uid, family, sender, receiver, launched)
    where arrivals > launches
"""
_ENTRIES = """
    select count(*) from (
        select max(cycle) filter (event = {DELIVER}) as came, max(cycle) filter (event != {DELIVER}) as gone
        from events where unit < {nodes} and event in ({DELIVER}, {FORGOTTEN}, {ORPHAN})
        group by unit, uid >> 44, uid >> 20 & 65535)
    where came > coalesce(gone, -1)
"""
_TAKEN = """
    select count(*) from (
        select count(*) filter (event = {TAKE}) as taken, count(*) filter (event != {TAKE}) as delivered,
            coalesce(sum(length) filter (event = {TAKE}), 0) as taken_bytes,
            coalesce(sum(length) filter (event != {TAKE}), 0) as delivered_bytes
        from events where unit < {nodes} and event in ({DELIVER}, {DELIVER_BE}, {TAKE}) group by unit, peer)
    where taken != delivered or taken_bytes != delivered_bytes
"""
_EVENTS = "select count(*) from (select count(*), min(cycle), max(cycle) from events group by unit, event, detail)"
_TOTALS = """
    select count(*) filter (accepts > 0), count(*) filter (delivers + deliver_bes > 0),
        count(*) filter (delivers + deliver_bes = 1), sum(sends + best_efforts + acks + forgets),
        count(*) filter (sends > 1), quantile_disc(delivered_at - accepted_at, [0.5, 0.9, 0.99, 0.999]),
        max(delivered_at - accepted_at)
    from datagrams
"""
_OVERTAKEN = """
    select count(*) from (select delivered_at, max(delivered_at) over (partition by accepted_by, destination
        order by accepted_at rows between unbounded preceding and 1 preceding) as before
        from datagrams where delivered_at is not null) where before > delivered_at
"""
_BARS = (
    "select floor(log2(greatest(delivered_at - accepted_at, 1)) * 4) as b, count(*) from datagrams "
    "where delivered_at is not null group by b",
    "select least(sends + best_efforts + acks + forgets, 64) as b, count(*) from datagrams "
    "where delivered_at is not null group by b",
    "select delivered_at // {width} as b, sum((length_least + 7) // 8) from datagrams "
    "where delivered_at is not null group by b",
)


def duckdb_audit(path: Path) -> dict:
    trace = open_trace(path)
    system, wire = trace.meta.system, trace.meta.system.format
    full = (Drop.TABLE_FULL, Drop.TIMER_FULL, Drop.DELIVER_FULL, Drop.INCARNATION)
    accepted = system.workload.count / system.ni.slots
    window = (
        f"sum((event = {int(Event.ACCEPT)})::int) over (partition by uid order by cycle "
        "range between unbounded preceding and current row)"
    )
    values = {event.name: int(event) for event in Event} | {status.name: int(status) for status in Status}
    values |= {
        "nodes": system.nodes, "drained": str(trace.meta.drained).lower(), "kind_send": int(Kind.SEND),
        "life": window if accepted * 1.5 > 1 << wire.generation_bits else "1",
        "data": wire.header_flits + wire.crc_flits, "flit_bytes": wire.flit_bytes, "control": wire.control_flits,
        "latency": system.router.latency, "arity": system.topology.arity, "full": ",".join(str(int(d)) for d in full),
        "width": max(1, trace.meta.cycles // 120), "acts": stages.ACTS, "late": stages.SHOWN - stages.JUDGED,
    }  # fmt: skip

    def job(base) -> dict:
        def ask(sql: str) -> list:
            return base.sql(sql.format(**values)).fetchall()

        base.execute(_NAMED.format(**values))
        base.execute(_DATAGRAMS.format(**values))
        rules = base.sql(_RULES.format(**values))
        found = dict(zip(rules.columns, rules.fetchall()[0], strict=True))
        found |= {"disordered": ask(_WORMS)[0][0], "remembered": ask(_ENTRIES)[0][0], "untaken": ask(_TAKEN)[0][0]}
        ((datagrams, delivered, once, messages, repeated, quantiles, greatest),) = ask(_TOTALS)
        for bars in _BARS:
            ask(bars)
        return {
            "verdict": "every datagram once" if not any(found.values()) else "broken",
            "findings": {name: count for name, count in found.items() if count},
            "datagrams": datagrams, "delivered": delivered, "once": once, "messages": int(messages),
            "repeated": repeated, "overtaken": ask(_OVERTAKEN)[0][0], "median": quantiles[0], "greatest": greatest,
            "events": ask(_EVENTS)[0][0],
        }  # fmt: skip

    return _on_duckdb(job, events=trace)


def duckdb_compare(left: Path, right: Path) -> dict:
    sides = {"l": open_trace(left), "r": open_trace(right)}
    width = -(-sides["l"].meta.cycles // _RANGES)
    columns = "cycle, unit, port, event, uid, peer, length, detail"

    def job(base) -> dict:
        for name in sides:
            base.execute(
                f"create temp table {name}_ranges as select cycle // {width} as b, count(*) as n, "
                f"sum(hash({columns})::hugeint) as h from {name} group by b"
            )
        ((block,),) = base.sql(
            "select min(b) from l_ranges full join r_ranges using (b) "
            "where (l_ranges.n, l_ranges.h) is distinct from (r_ranges.n, r_ranges.h)"
        ).fetchall()
        within = f"where cycle between {block * width} and {(block + 1) * width - 1}"
        only = [
            base.sql(f"select {columns} from {a} {within} except all select {columns} from {b} {within}").fetchall()
            for a, b in (("l", "r"), ("r", "l"))
        ]
        return {"cycle": min(row[0] for rows in only for row in rows), "left": len(only[0]), "right": len(only[1])}

    return _on_duckdb(job, **sides)


def _on_duckdb(job, **traces: TraceReader) -> dict:
    import duckdb

    started = time.monotonic()
    with duckdb.connect() as base:
        base.execute(f"set memory_limit = '{_MEMORY[:-1]}GB'")
        for name, trace in traces.items():
            files = [str(file) for file in trace.files]
            base.execute(f"create temp view {name} as select * from read_parquet({files!r}, hive_partitioning = false)")
        answer = job(base)
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "seconds": time.monotonic() - started, "cpu": usage.ru_utime + usage.ru_stime, "memory": usage.ru_maxrss << 10,
    } | answer  # fmt: skip


# Either, in a process of its own.

JOBS = {
    ("spark", "audit"): spark_audit, ("spark", "compare"): spark_compare,
    ("duckdb", "audit"): duckdb_audit, ("duckdb", "compare"): duckdb_compare,
}  # fmt: skip


def measure(engine: str, question: str, *traces: Path) -> dict:
    """The answer and its cost: seconds, cpu (seconds), memory (bytes), and start (seconds, of Spark)."""
    command = [sys.executable, __file__, engine, question, *map(str, traces)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ToolError(f"{engine} {question} failed: {done.stderr.strip()[-1500:]}")
    return json.loads(done.stdout.splitlines()[-1])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("engine", choices=("spark", "duckdb"))
    parser.add_argument("question", choices=("audit", "compare"))
    parser.add_argument("traces", nargs="+", type=Path)
    chosen = parser.parse_args()
    print(json.dumps(JOBS[chosen.engine, chosen.question](*chosen.traces), default=float))
    return 0


if __name__ == "__main__":
    sys.exit(main())
