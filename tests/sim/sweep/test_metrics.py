"""The ledger of a run, against one that is kept cycle by cycle and datagram by datagram, and against its trace."""

import numpy as np
import pytest

from lethe.spec.config import System
from lethe.spec.events import DISCARDS, Event
from lethe_sim import running
from lethe_sim.golden.model import Golden
from lethe_sim.metrics import METRICS, RunLedger, of_trace
from lethe_sim.metrics.ledger import ENTRY_TIME, SHORT, SLOT_TIME, SLOTS_NOW
from lethe_sim.metrics.places import places
from lethe_sim.metrics.table import PERCENTILES, table, unit_of

SYSTEMS = {
    "tree": {"faults": {"loss": 0.05}, "workload": {"count": 20}},
    "one way": {"topology": {"kind": "wire"}, "workload": {"count": 30, "retry_limit": 1}, "faults": {"loss": 0.3}},
    "mesh": {
        "topology": {"kind": "mesh", "columns": 3, "rows": 2},
        "workload": {"count": 20, "load": 0.3, "min_length": 4},
        "faults": {"flip": 0.001, "resets": [{"node": 2, "start": 600, "cycles": 10}]},
    },
    "hotspot": {"workload": {"kind": "pattern", "pattern": "hotspot", "node": 3, "fraction": 0.5, "count": 20}},
}


@pytest.fixture(scope="module", params=SYSTEMS)
def run(request):
    """(system, raw events, cycles) of a run that has drained."""
    system = System.make(timers={"wrap_guard": 0}, **SYSTEMS[request.param])
    golden, _ = running.begin(system)
    golden.run(system.run.cycles, until_drained=True)
    assert golden.drained
    return system, golden.take_events(), golden.cycle


def rows_of(system: System, events: np.ndarray, cycles: int, pieces: int = 1, **measure) -> dict[str, float]:
    ledger = RunLedger(system, **measure)
    cuts = np.searchsorted(events["cycle"], np.linspace(0, cycles, pieces + 1)[1:-1].astype(int))
    for part in np.split(events, cuts):
        ledger.append(part)
    return {row.metric: row.value for row in table(ledger, cycles=cycles, drained=True)}


def by_hand(system: System, events: np.ndarray, cycles: int, first: int, last: int) -> dict[str, float]:
    """The same figures, the long way round: sets of what is live, looked at in every cycle."""
    slots: dict[int, int] = {}
    entries = [0] * system.nodes
    latency, completion, others, sends = [], [], [], {}
    accepted_at, delivered_at = {}, {}
    slot_time = entry_time = delivered = messages = discards = repeats = most_slots = most_entries = 0
    flits_from = [0] * system.nodes
    by_cycle: dict[int, list] = {}
    for row in sorted(events.tolist(), key=lambda row: row[:3]):
        by_cycle.setdefault(row[0], []).append(row)
    for cycle in range(cycles):
        within = first <= cycle < last
        for _, unit, _lane, word, uid in by_cycle.get(cycle, ()):
            event, detail, length = Event(word & 0xFF), word >> 8 & 0xFF, word >> 32 & 0xFFFF
            if unit >= system.nodes:
                discards += within and event in DISCARDS
                continue
            discards += within and event in (Event.DROP, Event.FRAGMENT)
            messages += within and event in (Event.SEND, Event.ACK, Event.FORGET, Event.BE)
            match event:
                case Event.ACCEPT:
                    accepted_at[uid], slots[uid], sends[uid] = cycle, unit, 0
                case Event.SEND:
                    repeats += within and detail > 0
                    sends[uid] = sends.get(uid, 0) + 1
                case Event.DELIVER:
                    entries[unit] += 1
                    if within:
                        delivered += 1
                        flits_from[uid >> 44] += -(-length // system.format.flit_bytes)
                    if uid not in delivered_at:
                        delivered_at[uid] = cycle
                        if uid in slots and first <= accepted_at[uid] < last:
                            latency.append(cycle - accepted_at[uid])
                            if unit != system.workload.node:
                                others.append(cycle - accepted_at[uid])
                case Event.COMPLETE:
                    slots.pop(uid, None)
                    if detail >> 4 == 0 and first <= accepted_at[uid] < last:
                        completion.append(cycle - accepted_at[uid])
                case Event.FORGOTTEN | Event.ORPHAN:
                    entries[unit] -= 1
                case Event.RESET:
                    entries[unit] = 0
                    slots = {uid: node for uid, node in slots.items() if node != unit}
        busy = np.bincount(list(slots.values()), minlength=system.nodes)
        most_slots, most_entries = max(most_slots, busy.max()), max(most_entries, *entries)
        # A level that rises in a cycle counts from that cycle on.
        slot_time += len(slots) * within
        entry_time += sum(entries) * within
    span = system.nodes * (min(last, cycles) - first)
    latencies = {"latency": latency, "completion": completion}
    if system.workload.pattern == "hotspot":
        latencies["others"] = others
    return {
        "delivered": delivered, "messages": messages, "discards": discards, "repeats": repeats,
        "slots_mean": slot_time / span, "entries_mean": entry_time / span, "slots_max": most_slots,
        "entries_max": most_entries, "goodput": sum(flits_from) / span,
        "fairness": sum(flits_from) ** 2 / (len(flits_from) * sum(x * x for x in flits_from)),
        **{f"{what}_mean": np.mean(cycles) for what, cycles in latencies.items()},
        **{
            f"{what}_{name}": np.quantile(cycles, p, method="inverted_cdf")
            for what, cycles in latencies.items()
            for name, p in PERCENTILES.items()
        },
    }  # fmt: skip


@pytest.mark.parametrize("window", [None, (100, 450)])
def test_as_by_hand(run, window):
    system, events, cycles = run
    if window is None:
        rows, expected = rows_of(*run), by_hand(system, events, cycles, 0, cycles)
    else:
        warmup, length = window
        rows = rows_of(*run, warmup=warmup, window=length)
        expected = by_hand(system, events, cycles, warmup, warmup + length)
        assert rows["measured"] == length
    assert expected["delivered"] > 3 and {name: rows[name] for name in expected} == pytest.approx(expected)


def test_pieces_and_the_order_within_a_cycle_do_not_matter(run):
    system, events, cycles = run
    whole = rows_of(*run)
    assert rows_of(*run, pieces=17) == whole
    shuffled = events[np.random.default_rng(1).permutation(len(events))]
    shuffled = shuffled[np.argsort(shuffled["cycle"], kind="stable")]
    assert not (shuffled == events).all() and rows_of(system, shuffled, cycles) == whole


def test_a_trace_gives_the_same_rows(tmp_path):
    system = System.make(**SYSTEMS["tree"])
    ran = running.run(system, tmp_path / "run.parquet")
    golden, ledger = Golden(system, record=True), RunLedger(system)
    while not golden.drained:
        golden.run(100, until_drained=True)
        ledger.append(golden.take_events())
    rows = table(ledger, cycles=golden.cycle, drained=True, wrong=0)
    assert of_trace(tmp_path / "run.parquet") == rows and rows[0].value == ran.meta.cycles
    assert [row.metric for row in rows[:4]] == ["cycles", "measured", "drained", "accepted"]


def test_every_run_of_a_system_has_the_same_rows(run):
    """A discard that never happened is a row of 0: an average over replicas must not leave it out."""
    system, events, cycles = run
    rows, none = rows_of(*run), rows_of(system, events[:0], cycles)
    found = {name for name in rows if name.startswith("discards.")}
    assert found == {name for name in none if name.startswith("discards.")}
    assert sum(rows[name] for name in found) == rows["discards"] > 0 == none["discards"]
    assert "discards.crc.nodes" in found and ("discards.busy.level1" in found) == (system.topology.kind == "tree")


def test_every_row_is_documented(run):
    for name in rows_of(*run):
        assert unit_of(name)
    with pytest.raises(KeyError):
        unit_of("speed")
    assert all(unit and about for unit, about in METRICS.values())


def test_what_breaks_the_promise_is_seen():
    system = System.make(workload={"count": 5})
    golden = Golden(system, record=True)
    golden.run(10_000, until_drained=True)
    events = golden.take_events()
    delivers = np.flatnonzero((events["word"] & np.uint64(0xFF)) == Event.DELIVER)
    assert rows_of(system, events, golden.cycle)["lost"] == rows_of(system, events, golden.cycle)["doubled"] == 0
    fewer = np.delete(events, delivers[3])
    assert rows_of(system, fewer, golden.cycle)["lost"] == 1
    more = np.insert(events, delivers[3], events[delivers[3]])
    assert rows_of(system, more, golden.cycle)["doubled"] == 1


def test_the_worst_are_the_worst(run):
    system, events, _ = run
    ledger = RunLedger(system)
    ledger.append(events)
    accepts = {int(e["uid"]): int(e["cycle"]) for e in events if int(e["word"]) & 0xFF == Event.ACCEPT}
    completed = {int(e["uid"]) for e in events if int(e["word"]) & 0xFF == Event.COMPLETE}
    first: dict[int, int] = {}
    for event in events:
        if int(event["word"]) & 0xFF == Event.DELIVER:
            first.setdefault(int(event["uid"]), int(event["cycle"]))
    sends = [int(e["uid"]) for e in events if int(e["word"]) & 0xFF == Event.SEND]
    late = sorted((first[uid] - accepts[uid] for uid in completed if uid in first), reverse=True)
    assert ledger.slowest[0]["latency"] >= late[4] and len(ledger.slowest) == 5
    if not system.faults.resets and not system.workload.retry_limit:
        assert [life["latency"] for life in ledger.slowest] == late[:5]
        assert ledger.unlucky[0]["sends"] == max(map(sends.count, set(sends)))


def test_latencies_too_long_to_be_counted_one_by_one_are_listed():
    system = System.make(topology={"kind": "wire"})
    values = [*range(1, 8), SHORT - 1, SHORT, SHORT + 5, 10**9]
    uid = (0 << 44) | (1 << 36)
    events = np.zeros(3 * len(values), Golden(system, record=True).take_events().dtype)
    cycle = 0
    for n, value in enumerate(values):
        accept, deliver, complete = events[3 * n : 3 * n + 3]
        accept["cycle"], deliver["cycle"], complete["cycle"] = cycle, cycle + value, cycle + value
        deliver["unit"] = 1
        for row, event in ((accept, Event.ACCEPT), (deliver, Event.DELIVER), (complete, Event.COMPLETE)):
            row["word"], row["uid"] = int(event) | 32 << 32, uid | n
        cycle += value + 1
    ledger = RunLedger(system)
    ledger.append(events)
    for share in (0.01, 0.5, 0.7, 0.8, 0.9, 1.0):
        assert ledger.percentile(0, share) == np.quantile(values, share, method="inverted_cdf")
    assert ledger.level_time(SLOT_TIME, cycle) == sum(values) and ledger.most(SLOTS_NOW) == 1
    assert ledger.level_time(ENTRY_TIME, cycle) > 0


@pytest.mark.parametrize(
    ("topology", "dilation"),
    [
        ({"kind": "wire"}, 1),
        ({"kind": "crossbar", "nodes": 5}, 1),
        ({"kind": "fly", "arity": 2, "levels": 3}, 1),
        ({"kind": "fly", "arity": 2, "levels": 3}, 3),
        ({"kind": "tree", "arity": 3, "levels": 1}, 1),
        ({"kind": "tree", "arity": 2, "levels": 4}, 1),
        ({"kind": "tree", "arity": 2, "levels": 4}, 2),
        ({"kind": "mesh", "columns": 4, "rows": 3}, 1),
    ],
)
def test_places(topology, dilation):
    """The place of each unit follows from the graph itself."""
    layout = System.make(topology=topology, study={"dilation": dilation}).layout
    graph = layout.graph
    names, of_unit = places(layout)
    found = [names[place] for place in of_unit]
    assert found[: graph.nodes] == ["nodes"] * graph.nodes
    prefix = {"tree": "level", "fly": "stage"}.get(graph.kind)
    for router in range(graph.routers):
        assert found[graph.nodes + router] == (f"{prefix}{graph.level(router)}" if prefix else "routers")
    for number, link in enumerate(graph.links):
        if graph.kind == "wire":
            expected = "wire"
        elif link.source_is_node:
            expected = "injection"
        elif link.target_is_node:
            expected = "ejection"
        elif graph.kind == "mesh":
            expected = "x" if abs(link.source - link.target) == 1 else "y"
        else:
            low, high = graph.level(link.source), graph.level(link.target)
            expected = f"between{low}" if graph.kind == "fly" else f"up{low}" if high > low else f"down{high}"
        assert found[graph.nodes + graph.routers + number] == expected, graph.link_name(number)
