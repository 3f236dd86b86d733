"""Judges flow under faults: runs of the golden model, one on each core, until so many messages are judged.

Each part is a system of its own, drawn by a seed: links lose 0.3 of the worms and flip bits, one node is reset thirty
times, and there may be an absence, a stall of a host, resets of other nodes, and a death.  The ledger's rules of flow
judge every row (docs/use/traces.md): a message is placed once in a boot of its receiver, in its order, at the port that
it was sent to, where there is a cell for it.  The generators' checkers compare every payload.

Parts are added up in the order of their seeds, so that the sums do not depend on the number of processes.

The exit code is 0 if nothing was found, 1 if something was, 2 for a wrong argument, 130 if it was interrupted.
"""

import argparse
import itertools
import multiprocessing
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Generator
from dataclasses import dataclass, field

import numpy as np
from campaign import a_file, natural, positive, service_rows, write_sums

from lethe.spec.config import System
from lethe.spec.events import Event
from lethe.spec.sections.flow import OF_NI
from lethe_sim.golden.model import Golden
from lethe_sim.ledger.services import AUDITED, followed

#: Cycles in which messages are sent, and after which a part ends even if it has not drained.
SENDING, LIMIT = 60_000, 200_000
LOSS, RESETS = 0.3, 30
#: In turn; few nodes more often, as they exchange the most messages in a second.
TOPOLOGIES = (
    {"kind": "wire"}, {"kind": "crossbar", "nodes": 4}, {"kind": "crossbar", "nodes": 8}, {"kind": "wire"},
    {"kind": "tree", "arity": 4, "levels": 2}, {"kind": "crossbar", "nodes": 3}, {"kind": "wire"},
    {"kind": "crossbar", "nodes": 4}, {"kind": "mesh", "columns": 3, "rows": 3}, {"kind": "wire"},
)  # fmt: skip
#: Seconds from one line of progress to the next.
PROGRESS = 10


@dataclass
class Judged:
    """What parts come to; messages are those with a number, the ones to the own node included.

    Attributes
    ----------
    stuck : parts without a death that had not drained at the end
    found : findings by name
    cases : some of them, in words
    """

    parts: int = 0
    drained: int = 0
    stuck: int = 0
    cycles: int = 0
    messages: int = 0
    placed: int = 0
    resets: int = 0
    deaths: int = 0
    absences: int = 0
    wrong: int = 0
    found: Counter[str] = field(default_factory=Counter)
    cases: list[str] = field(default_factory=list)

    def add(self, other: "Judged") -> None:
        """Take in other parts."""
        for name in (
            "parts",
            "drained",
            "stuck",
            "cycles",
            "messages",
            "placed",
            "resets",
            "deaths",
            "absences",
            "wrong",
        ):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.found += other.found
        self.cases = (self.cases + other.cases)[:20]


def drawn(seed: int) -> System:
    """The system of a part."""
    chance = random.Random(seed)
    topology = TOPOLOGIES[seed % len(TOPOLOGIES)]
    nodes = System.make(topology=topology).nodes
    victim = chance.randrange(nodes)
    gap = SENDING // RESETS
    resets = [
        {"node": victim, "start": 300 + gap * at + chance.randrange(gap // 2), "cycles": chance.randrange(1, 40),
         "scope": chance.choice(("node", "ni"))}
        for at in range(RESETS)
    ]  # fmt: skip
    resets += [
        {"node": chance.randrange(nodes), "start": chance.randrange(SENDING), "cycles": chance.randrange(1, 9)}
        for _ in range(chance.randrange(3))
    ]
    faults: dict = {"loss": LOSS, "flip": chance.choice((0.0001, 0.001))}
    others = [node for node in range(nodes) if node != victim]
    if chance.random() < 0.5:
        start = chance.randrange(SENDING // 2)
        end = start + chance.randrange(100, SENDING // 3)
        faults["absences"] = [{"node": chance.choice(others), "start": start, "end": end}]
    if chance.random() < 0.3:
        start = chance.randrange(SENDING // 2)
        end = start + chance.randrange(100, SENDING // 3)
        faults["stalls"] = [{"node": chance.choice(others), "start": start, "end": end}]
    dying = nodes > 2 and chance.random() < 0.25
    if dying:
        faults["deaths"] = [{"node": chance.choice(others), "start": chance.randrange(SENDING)}]
        resets = [reset for reset in resets if reset["node"] not in {death["node"] for death in faults["deaths"]}]
    flow = {
        "ports": chance.choice((2, 4, 16)), "cells": chance.choice((2, 4, 24)), "in_order": 1,
        "watch": chance.choice((300, 4096)), "tries": chance.choice((3, 6)),
    }  # fmt: skip
    return System.make(
        topology=topology, flow=flow, ni=OF_NI | {"slots": chance.choice((8, 16, 32))},
        wire={"mtu": 24, "flit_bits": chance.choice((32, 64)), "generation_bits": 16},
        faults=faults | {"resets": sorted(_apart(resets), key=lambda reset: reset["start"])},
        timers={"backoff_steps": 2, "wrap_guard": 0} | ({"ack_limit": 60} if dying else {}),
        workload={
            "load": 1.0, "min_length": 4, "max_length": 16, "count": 0, "stop": SENDING,
            "retry_limit": 6 if dying else chance.choice((0, 0, 3)), "deadline": chance.choice((0, 300, 2000)),
        },
        run={"seed": seed + 1, "name": f"part {seed}"},
    )  # fmt: skip


def _apart(resets: list[dict]) -> list[dict]:
    """Those that do not meet another one of their node."""
    kept: list[dict] = []
    for reset in resets:
        if all(one["node"] != reset["node"] or abs(one["start"] - reset["start"]) > 60 for one in kept):
            kept.append(reset)
    return kept


def played(system: System) -> tuple[Golden, np.ndarray]:
    """A part: its model when it has ended, and what its flows have shown."""
    golden, kept = Golden(system, record=True), []
    while golden.cycle < LIMIT and not (golden.cycle > SENDING and golden.drained):
        golden.run(min(5000, LIMIT - golden.cycle), until_drained=golden.cycle >= SENDING)
        events = golden.take_events()
        kept.append(events[events["unit"] >= system.layout.first_service])
    return golden, np.concatenate(kept)


def judged(golden: Golden, events: np.ndarray) -> Judged:
    """What the rules of flow find in what was shown."""
    system = golden.system
    mine, garbled = service_rows(golden, events)
    audited = AUDITED[system.services[0].unit]
    count = Counter(mine.event.tolist())
    faults = system.faults
    result = Judged(
        parts=1, drained=int(golden.drained), stuck=int(not golden.drained and not faults.deaths), cycles=golden.cycle,
        messages=count[Event.FLOW_SEND], placed=count[Event.FLOW_PLACE], resets=len(faults.resets),
        deaths=len(faults.deaths), absences=len(faults.absences), wrong=int(golden.sums["wrong"].sum()),
    )  # fmt: skip
    if garbled:
        result.found["garbled"] += garbled
    if result.wrong:
        result.found["wrong bits"] += result.wrong
    for table in (*audited.findings(mine), *followed(mine.run, audited.facts(mine)["streams"])):
        for case in table.to_pylist():
            result.found[case["finding"]] += 1
            if result.found[case["finding"]] <= 2:
                where = f"cycle {case['cycle']}, unit {case['unit']}, peer {case['peer']}"
                result.cases.append(f"{system.run.name}: {case['finding']}: {where}: {case['note']}")
    return result


def part(seed: int) -> Judged:
    """One part, judged."""
    return judged(*played(drawn(seed)))


def _worker() -> None:
    """An interrupt is for the process that adds up, which ends the others."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def parts(first: int, processes: int) -> Generator[Judged]:
    """The parts from a seed on, in their order, without end; with several processes a few are played ahead."""
    if processes == 1:
        yield from map(part, itertools.count(first))
        return
    with multiprocessing.get_context("spawn").Pool(processes, _worker) as pool:  # leaving it ends the processes
        ahead = [pool.apply_async(part, (seed,)) for seed in range(first, first + 4 * processes)]
        for seed in itertools.count(first + len(ahead)):
            yield ahead.pop(0).get()
            ahead.append(pool.apply_async(part, (seed,)))


def report(all_of: Judged, seconds: float) -> str:
    """The end of a campaign."""
    lines = [
        f"{all_of.messages:,} messages of {all_of.parts:,} systems ({all_of.drained:,} drained) in {all_of.cycles:,} "
        f"cycles and {seconds:,.0f} s: {all_of.placed:,} placed",
        f"{all_of.resets:,} resets, {all_of.deaths:,} deaths, {all_of.absences:,} absences; each link loses {LOSS}",
    ]
    if all_of.stuck:
        lines.append(f"{all_of.stuck:,} systems in which no node died had not drained after {LIMIT:,} cycles")
    if not all_of.found:
        rules = "out of order, twice within a boot, to the wrong port, over-run, with a wrong bit"
        return "\n".join([*lines, f"0 {rules}"])
    lines += [f"{count:,} {name}" for name, count in sorted(all_of.found.items())]
    return "\n".join([*lines, *all_of.cases])


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=natural, default=10_000_000, help="how many are judged (default: 10⁷)")
    parser.add_argument("--seconds", type=natural, default=0, help="no new part begins after so long; 0: no limit")
    parser.add_argument("--first", type=natural, default=0, metavar="SEED", help="of the first part (default: 0)")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    parser.add_argument("--processes", type=positive, default=cores, help=f"at a time (default: {cores}, the cores)")
    parser.add_argument("--json", type=a_file, metavar="FILE", help="write the sums there, too")
    chosen = parser.parse_args(arguments)
    all_of, begin, code, said = Judged(), time.monotonic(), 0, 0.0
    coming = parts(chosen.first, chosen.processes)
    try:
        while all_of.messages < chosen.messages:
            spent = time.monotonic() - begin
            if chosen.seconds and spent > chosen.seconds:
                break
            all_of.add(next(coming))
            spent = time.monotonic() - begin
            if spent - said > PROGRESS or all_of.messages >= chosen.messages:
                told = (
                    f"{all_of.parts:,} systems, {all_of.messages:,} of {chosen.messages:,} messages, "
                    f"{sum(all_of.found.values()):,} findings"
                )
                print(f"safety: {told}, {spent:,.0f} s", file=sys.stderr, flush=True)
                said = spent
    except KeyboardInterrupt:
        code = 130
    finally:
        coming.close()
    print(report(all_of, time.monotonic() - begin))
    if chosen.json:
        write_sums(parser, chosen.json, all_of)
    return code or int(bool(all_of.found))


if __name__ == "__main__":
    sys.exit(main())
