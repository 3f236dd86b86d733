"""Kills each node of a tree of 15 at each cycle, in a run of the golden model of its own, and judges every message.

Relay has radix 2.  Every node sends messages to all others from the start, and the others are told of the death after a
while.  A run is good if each message between two nodes that live is given, posted once, in the order of its stream, and
ends ACCEPTED; if every host took what was posted; and if the ledger's rules of relay find nothing.

A run that is not good is told with its TOML (`--toml` writes it), which `lethe run` takes.  The exit code is 0 if all
are good, 1 if one is not, 2 for a wrong argument, 130 if it was interrupted.
"""

import argparse
import itertools
import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
from campaign import a_file, a_seed, natural, positive, service_rows, write, write_sums

from lethe.spec.config import System
from lethe.spec.events import CAUSE_BITS, Cause, Event, RelayCounter, Status
from lethe.spec.sections.relay import OF_NI
from lethe.spec.toml import dump
from lethe_sim.golden.model import Golden
from lethe_sim.ledger.services import AUDITED, ServiceRows, posted, replayed

NODES, RADIX = 15, 2
#: Messages of each node, the first cycle in which nobody dies any more, cycles after which a run is stuck.
MESSAGES, UNTIL, LIMIT = 12, 2000, 100_000
#: Seconds from one line of progress to the next.
PROGRESS = 10


class Kill(NamedTuple):
    """Who dies, when; seed of the run."""

    node: int
    cycle: int
    seed: int


@dataclass
class Judged:
    """What runs come to.

    Attributes
    ----------
    messages : between nodes that live to the end
    found : findings by name
    cases : some of them, in words
    bad : the runs that had one
    """

    runs: int = 0
    messages: int = 0
    posted: int = 0
    replays: int = 0
    cycles: int = 0
    found: Counter[str] = field(default_factory=Counter)
    cases: list[str] = field(default_factory=list)
    bad: list[Kill] = field(default_factory=list)

    def add(self, other: "Judged") -> None:
        """Take in other runs."""
        for name in ("runs", "messages", "posted", "replays", "cycles"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.found += other.found
        self.cases = (self.cases + other.cases)[:20]
        self.bad = (self.bad + other.bad)[:100]

    def miss(self, run: str, name: str, note: str) -> None:
        """A finding."""
        self.found[name] += 1
        if self.found[name] <= 2:
            self.cases.append(f"{run}: {name}: {note}")


def drawn(kill: Kill) -> System:
    """The system of a run."""
    return System.make(
        topology={"kind": "crossbar", "nodes": NODES},
        ni=OF_NI | {"slots": 16},
        wire={"mtu": 64},
        relay={
            "slots": 16, "radix": RADIX, "notice": 1500, "spread": 500, "cache_cycles": 4096, "entry_cycles": 16384,
            "watch_cycles": 4096, "hop_cycles": 4096,
        },
        workload={
            "mode": "relay", "count": MESSAGES, "load": 0.03, "min_length": 4, "max_length": 48, "retry_limit": 30,
        },
        timers={"ack_limit": 40},
        faults={"deaths": [{"node": kill.node, "start": kill.cycle}]},
        run={"seed": kill.seed, "cycles": LIMIT, "name": f"node {kill.node} dies in {kill.cycle}, seed {kill.seed}"},
    )  # fmt: skip


def ran(system: System) -> Golden:
    """A system that has run until all are told of the deaths, and nothing that was given is live."""
    golden = Golden(system, record=True)
    last = max((cycle + 1 for told in system.relay_notices for cycle, _ in told), default=0)
    golden.run(min(last, system.run.cycles))
    while golden.cycle < system.run.cycles and not _over(golden):
        golden.run(min(500, system.run.cycles - golden.cycle))
    return golden


def judge(system: System) -> Judged:
    """Run a system to its end, and judge it."""
    golden = ran(system)
    return judged(golden, golden.take_events())


def gone(system: System) -> set[int]:
    """The nodes that die, and those that somebody is told have died."""
    return {death.node for death in system.faults.deaths} | {row.died for row in system.faults.notices}


def _over(golden: Golden) -> bool:
    """Whether the nodes that live have given all, and nothing that they gave is live.  (A dead one never drains.)"""
    dead = gone(golden.system)
    (counts,) = golden.service_counters.values()
    living = counts[[node for node in range(golden.system.nodes) if node not in dead]]
    given = living[:, RelayCounter.SENT] + living[:, RelayCounter.REFUSED]
    ended = (living[:, RelayCounter.SENT] == living[:, RelayCounter.ENDED]).all()
    taken = (living[:, RelayCounter.POSTED] == living[:, RelayCounter.TAKEN]).all()
    return bool(ended and taken and (given >= golden.system.workload.count).all())


def judged(golden: Golden, events: np.ndarray) -> Judged:
    """What is found in what a run has shown."""
    system, name = golden.system, golden.system.run.name
    mine, garbled = service_rows(golden, events[events["unit"] >= system.layout.first_service])
    result = Judged(runs=1, cycles=golden.cycle)
    if garbled:
        result.miss(name, "garbled", f"{garbled} rows")
    if (wrong := int(golden.sums["wrong"].sum())) > 0:
        result.miss(name, "wrong bits", f"in {wrong} payloads")
    audited = AUDITED[system.services[0].unit]
    facts = audited.facts(mine)
    tables = (*audited.findings(mine), *posted(mine.run, facts["posts"]), *replayed(mine.run, facts["hops"]))
    for table in tables:
        for case in table.to_pylist():
            note = f"cycle {case['cycle']}, unit {case['unit']}, peer {case['peer']}: {case['note']}"
            result.miss(name, case["finding"], note)
    _living(system, mine, result)
    if result.found:
        result.bad += [Kill(death.node, death.start, system.run.seed) for death in system.faults.deaths]
    return result


def _living(system: System, rows: ServiceRows, result: Judged) -> None:
    """Between nodes that live: given is posted, once, in order, and has ended ACCEPTED (the slot's end comes once)."""
    dead = gone(system)
    names = ("event", "node", "peer", "uid", "tag", "detail", "cycle")
    event, node, peer, uid, tag, detail, cycle = (np.asarray(getattr(rows, name)).tolist() for name in names)
    sent: dict[tuple[int, int], list] = {}
    posts: dict[tuple[int, int], list] = {}
    ends: dict[tuple[int, int], Counter] = {}
    given: Counter[int] = Counter()
    for at in sorted(range(len(event)), key=cycle.__getitem__):
        what = event[at]
        if what == Event.RELAY_HOP:
            result.replays += detail[at]
        if what in (Event.RELAY_SEND, Event.RELAY_REFUSED):
            given[node[at]] += 1
        if node[at] in dead or peer[at] in dead:
            continue
        if what == Event.RELAY_SEND:
            sent.setdefault((node[at], peer[at]), []).append((uid[at], tag[at]))
        elif what == Event.RELAY_POST:
            posts.setdefault((peer[at], node[at]), []).append((uid[at], tag[at]))
        elif what == Event.RELAY_END and detail[at] == Status.ACCEPTED << CAUSE_BITS | Cause.NONE:
            ends.setdefault((node[at], peer[at]), Counter())[uid[at], tag[at]] += 1
    result.messages += sum(map(len, sent.values()))
    result.posted += sum(map(len, posts.values()))
    for pair in sent.keys() | posts.keys() | ends.keys():
        here = f"from {pair[0]} to {pair[1]}"
        mine, came = sent.get(pair, []), posts.get(pair, [])
        if mine != came:
            note = f"{here}: {len(mine)} given, {len(came)} posted"
            result.miss(system.run.name, "not once and in order", note)
        if Counter(mine) != ends.get(pair, Counter()):
            result.miss(system.run.name, "not ended", f"{here}: {len(mine)} given")
    if system.workload.count:
        for one in set(range(system.nodes)).difference(dead):
            if given[one] < system.workload.count:
                result.miss(system.run.name, "not given", f"node {one} gave {given[one]} of {system.workload.count}")


def run(kill: Kill) -> Judged:
    """One run."""
    return judge(drawn(kill))


def swept(kills: Sequence[Kill], processes: int) -> Judged:
    """All runs; an interrupt ends with those that are judged."""
    all_of, begin, said = Judged(), time.monotonic(), 0.0
    pool = multiprocessing.get_context("spawn").Pool(processes) if processes > 1 else None
    try:
        for one in pool.imap_unordered(run, kills, chunksize=8) if pool else map(run, kills):
            all_of.add(one)
            spent = time.monotonic() - begin
            if spent - said > PROGRESS or all_of.runs == len(kills):
                told = f"{all_of.runs:,} of {len(kills):,} runs, {sum(all_of.found.values()):,} findings"
                print(f"kills: {told}, {spent:,.0f} s", file=sys.stderr, flush=True)
                said = spent
    except KeyboardInterrupt:
        print("kills: interrupted", file=sys.stderr)
    finally:
        if pool:
            pool.terminate()
            pool.join()
    return all_of


def report(all_of: Judged, seconds: float) -> str:
    """The end of a sweep."""
    lines = [
        f"{all_of.runs:,} runs in {all_of.cycles:,} cycles and {seconds:,.0f} s: {all_of.messages:,} messages between "
        f"nodes that live, {all_of.posted:,} posted, {all_of.replays:,} hops again",
    ]
    if not all_of.found:
        return "\n".join([*lines, "0 lost, twice, out of order, or without an end; no finding"])
    lines += [f"{count:,} {name}" for name, count in sorted(all_of.found.items())]
    return "\n".join([*lines, *all_of.cases])


def a_node(text: str) -> int:
    if (value := natural(text)) >= NODES:
        raise argparse.ArgumentTypeError(f"must be 0 to {NODES - 1}, not {value}")
    return value


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--step", type=positive, default=1, help="each so many cycles (default: 1)")
    parser.add_argument("--first", type=natural, default=0, metavar="CYCLE", help="of the first deaths (default: 0)")
    parser.add_argument("--until", type=positive, default=UNTIL, metavar="CYCLE", help=f"the end (default: {UNTIL:,})")
    parser.add_argument("--node", type=a_node, action="append", help="only this one dies (may be given again)")
    parser.add_argument("--seed", type=a_seed, default=1, help="of all runs (default: 1)")
    parser.add_argument("--processes", type=positive, default=2, help="at a time (default: 2)")
    parser.add_argument("--toml", type=Path, metavar="DIRECTORY", help="write the systems of bad runs there")
    parser.add_argument("--json", type=a_file, metavar="FILE", help="write the sums there, too")
    chosen = parser.parse_args(arguments)
    cycles = range(chosen.first, chosen.until, chosen.step)
    if not cycles:
        parser.error("--first must be below --until")
    if chosen.toml:
        try:
            chosen.toml.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            parser.error(f"--toml: {chosen.toml}: cannot be a directory: {error.strerror}")
    nodes = sorted(set(chosen.node or range(NODES)))
    kills = [Kill(node, cycle, chosen.seed) for cycle, node in itertools.product(cycles, nodes)]
    begin = time.monotonic()
    all_of = swept(kills, chosen.processes)
    print(report(all_of, time.monotonic() - begin))
    for kill in all_of.bad if chosen.toml else ():
        path = chosen.toml / f"node{kill.node}-cycle{kill.cycle}-seed{kill.seed}.toml"
        write(parser, path, dump(drawn(kill)))
    if chosen.json:
        write_sums(parser, chosen.json, all_of)
    if all_of.runs < len(kills):
        return 130
    return int(bool(all_of.found))


if __name__ == "__main__":
    sys.exit(main())
