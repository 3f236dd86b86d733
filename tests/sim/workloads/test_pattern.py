"""Patterns: who sends to whom, how much and when; and what is told of what came."""

import itertools

import numpy as np
import pytest

from lethe.spec.config import System
from lethe.spec.sections.faults import NodeDeath, Notice
from lethe.spec.sections.workload import PATTERNS
from lethe_sim import running
from lethe_sim.workloads.pattern import PatternWorkload
from tests.helpers.perfect_network import played


def pattern(nodes: int = 16, **keys) -> PatternWorkload:
    workload = {"kind": "pattern", "count": 60} | keys
    return PatternWorkload(System.make("p.toml", topology={"kind": "crossbar", "nodes": nodes}, workload=workload))


def pairs(workload: PatternWorkload) -> set[tuple[int, int]]:
    source, _, destination, _ = workload.columns
    return set(zip(source.tolist(), destination.tolist(), strict=True))


@pytest.mark.parametrize(("kind", "arrivals"), [*itertools.product(PATTERNS, ["bernoulli", "bursty"])])
def test_every_pattern_arrives(kind, arrivals):
    workload = pattern(pattern=kind, arrivals=arrivals, min_length=5)
    verdict = played(workload)
    assert verdict.good and verdict.text.startswith(f"pattern: {workload.expected:,} datagrams, ")


def test_fixed_destinations():
    # Node x + 4·y of a square of sixteen goes to y + 4·x.
    assert pairs(pattern(pattern="transpose")) == {(x + 4 * y, y + 4 * x) for x in range(4) for y in range(4) if x != y}
    reverse = {n: int(f"{n:04b}"[::-1], 2) for n in range(16)}
    assert pairs(pattern(pattern="bit-reverse")) == {(n, r) for n, r in reverse.items() if n != r}
    assert pairs(pattern(pattern="neighbour")) == {(n, (n + 1) % 16) for n in range(16)}
    assert pairs(pattern(pattern="incast", node=5)) == {(n, 5) for n in range(16) if n != 5}


def test_a_loop_takes_what_a_node_sends_to_itself():
    for kind, before in (("transpose", 12), ("bit-reverse", 12), ("incast", 15), ("neighbour", 16), ("uniform", None)):
        plain = pattern(pattern=kind)
        looped = PatternWorkload(plain.system.replace(loop={"slots": 2}))
        own = {(n, n) for n in range(16)} & pairs(looped)
        assert pairs(looped) - own == pairs(plain)
        assert before is None or (len(pairs(plain)), len(own)) == (before, 16 - before)
        assert played(looped).good


def test_all_to_all_is_even():
    source, _, destination, _ = pattern(pattern="all-to-all", count=30).columns
    counts = np.zeros((16, 16), int)
    np.add.at(counts, (source, destination), 1)
    assert (counts == 2 * (1 - np.eye(16))).all()


def test_uniform_and_hotspot_have_their_shares():
    source, _, destination, _ = pattern(count=3000).columns
    counts = np.zeros((16, 16), int)
    np.add.at(counts, (source, destination), 1)
    # 200 expected for each pair, standard deviation 14.
    assert (counts.diagonal() == 0).all() and counts[~np.eye(16, dtype=bool)].min() > 120
    assert counts.max() < 280
    source, _, destination, _ = pattern(count=3000, pattern="hotspot", node=3, fraction=0.4).columns
    share = (destination[source != 3] == 3).mean()
    assert abs(share - (0.4 + 0.6 / 15)) < 0.01


@pytest.mark.parametrize("arrivals", ["bernoulli", "bursty"])
@pytest.mark.parametrize("load", [0.05, 0.5])
def test_the_load_is_what_was_asked_for(load, arrivals):
    _, _, _, cycle = pattern(count=20_000, load=load, arrivals=arrivals, min_length=8).columns
    # Payloads of 8 to 32 bytes: 1 to 4 flits.
    flits = np.mean([-(-length // 8) for length in range(8, 33)])
    cycles = cycle.reshape(16, -1)
    assert (np.diff(cycles) >= 0).all() and (cycles[:, 0] >= 0).all()
    assert flits * 20_000 / cycles[:, -1].mean() == pytest.approx(load, rel=0.02)


def test_bursts_are_as_long_as_was_asked_for():
    # Datagrams of a burst are 4 flits apart; an exponential pause of 1,216 cycles adds nothing once in 1,216.
    cycles = pattern(count=20_000, arrivals="bursty", burst=16.0).columns[3].reshape(16, -1)
    assert 20_000 / (np.diff(cycles) > 4).sum(axis=1).mean() == pytest.approx(16, rel=0.05)


def test_an_incast_bursts_at_all_nodes_at_once():
    def cycles(**keys):
        return pattern(pattern="incast", count=50, **keys).columns[3].reshape(15, -1)

    together = cycles(arrivals="bursty")
    assert (together == together[0]).all()
    assert (cycles() != cycles()[0]).any()


def test_stop_and_count():
    whole, cut = pattern(count=200), pattern(count=200, stop=9000)
    kept = whole.columns[3] < 9000
    assert 0 < kept.sum() < len(kept)
    for all_of_it, part in zip(whole.columns, cut.columns, strict=True):
        assert (all_of_it[kept] == part).all()
    endless = pattern(count=0, stop=9000)
    assert endless.columns[3].max() < 9000
    assert endless.expected == cut.expected
    assert not pattern(load=1.0).columns[3].any()


def test_the_seed_decides():
    def columns(seed):
        return PatternWorkload(pattern().system.replace(run={"seed": seed})).columns

    assert all((a == b).all() for a, b in zip(columns(1), columns(1), strict=True))
    assert (columns(1)[2] != columns(2)[2]).any()


@pytest.mark.parametrize("flit_bits", [16, 32, 64, 128])
def test_on_the_golden_model(flit_bits, tmp_path):
    system = System.make(
        "p.toml", topology={"kind": "mesh", "columns": 2, "rows": 2}, faults={"loss": 0.1}, run={"cycles": 10**6},
        wire={"flit_bits": flit_bits, "mtu": 30},
        workload={"kind": "pattern", "min_length": 4, "max_length": 30, "count": 40, "load": 0.5},
    )  # fmt: skip
    ran = running.run(system, tmp_path / "p.parquet")
    assert ran.verdict and ran.verdict.good, ran.verdict
    # Open loop: nothing is accepted before its time.
    arrived = np.sort(PatternWorkload(system).columns[3])
    from lethe_sim.trace import open_trace

    assert ran.meta.cycles > arrived[-1] and open_trace(tmp_path / "p.parquet").meta.digest == ran.meta.digest


def replaced(rows, i, **keys):
    row = dict(zip(("node", "source", "cycle", "payload"), rows[i], strict=True)) | keys
    rows[i] = (row["node"], row["source"], row["cycle"], row["payload"])


@pytest.mark.parametrize(
    ("meddle", "counts"),
    [
        (lambda rows: rows.pop(7), (1, 0, 0)),
        (lambda rows: rows.append(rows[7]), (0, 1, 0)),
        (lambda rows: replaced(rows, 7, payload=rows[7][3][:-1] + b"\0"), (1, 0, 1)),
        (lambda rows: replaced(rows, 7, payload=rows[7][3][:-1]), (1, 0, 1)),
        (lambda rows: replaced(rows, 7, node=(rows[7][0] + 1) % 16), (1, 0, 1)),
        (lambda rows: replaced(rows, 7, source=(rows[7][1] + 1) % 16), (1, 0, 1)),
        (lambda rows: rows.clear(), (960, 0, 0)),
    ],
    ids=["lost", "doubled", "altered", "shortened", "misrouted", "of another", "nothing"],
)
def test_what_went_wrong_is_told(meddle, counts):
    verdict = played(pattern(), lambda phase, rows: meddle(rows) and None)
    missing, doubled, strange = counts
    assert not verdict.good
    assert verdict.text == (
        f"pattern: not received as sent: {missing} datagrams missing, {doubled} more than once, "
        f"{strange} altered or at the wrong node"
    )


def test_what_is_missing_of_nodes_that_die_is_no_fault():
    """A node that dies sends and takes no more; all others have what is theirs."""
    system = pattern(retry_limit=20).system.replace(
        timers={"ack_limit": 40}, faults={"deaths": (NodeDeath(node=3, start=500),)}
    )
    dying, dropped = PatternWorkload(system), []

    def without(*nodes):
        def meddle(phase, rows):
            lost = [row for row in rows if row[0] in nodes or row[1] in nodes]
            dropped.append(len(lost))
            rows[:] = [row for row in rows if row not in lost]

        return meddle

    verdict = played(dying, without(3))
    told = f"received as sent, each once, but for {dropped[0]} from or to nodes that died"
    assert verdict.good and verdict.text.endswith(told) and dropped[0] > 60
    verdict = played(dying, without(3, 5))
    told = f"{dropped[1]} datagrams missing ({dropped[0]} from or to nodes that died), 0 more than once"
    assert not verdict.good and told in verdict.text and dropped[1] > dropped[0] + 60
    assert played(dying).text.endswith("received as sent, each once")
    ni = {"control_classes": 2, "control_slots": 4}
    notices = (Notice(node=1, died=5, start=600),)
    suspecting = system.replace(
        ni=ni, wire={"mtu": 64}, relay={"slots": 4}, workload={"mode": "relay"}, faults={"notices": notices}
    )
    verdict = played(PatternWorkload(suspecting), without(3, 5))
    told = f"each once, but for {dropped[-1]} from or to nodes that died or were declared dead"
    assert verdict.good and verdict.text.endswith(told)


def test_a_million_datagrams_are_made_at_once():
    system = System.make(topology={"levels": 3}, workload={"kind": "pattern", "count": 16_384})
    script = PatternWorkload(system).script()
    assert len(script) == 1 << 20
    # About 50 bytes each for what the model reads, and 32 of payload: no object for each.
    assert script.rows.nbytes + script.data.nbytes < 90 << 20
