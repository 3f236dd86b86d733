"""Whole systems drawn by seed, RTL and golden model in lockstep: every topology, width and fault."""

import random

import pytest

from lethe.spec.config import System
from lethe.spec.events import LANE_ACCEPT
from lethe.spec.sections.flow import OF_NI
from lethe.spec.sections.router import QUEUES
from lethe.spec.trace import LENGTH
from lethe_sim.golden.model import Golden
from lethe_sim.lockstep import cosim, hosted
from lethe_sim.lockstep.cosim import emit
from lethe_sim.lockstep.matrix import (
    KINDS,
    draw,
    with_flow,
    with_much_flow,
    with_paths,
    with_pools,
    with_relay,
    with_services,
)
from lethe_sim.lockstep.simulators import has_icarus
from tests.helpers.relay_systems import deaths, relay_of
from tests.helpers.tiers import but

CYCLES = 20_000
#: The full test has so many seeds: every topology with every queue.  Every push has five small systems: one of every
#: topology, with queues of each size, with a pool, and with routers that show their events late.
SEEDS, QUICK = 20, (0, 16, 17, 18, 19)
#: One of them is tried always.
FIRST = 17
#: Cycles beyond `workload.stop`, in which no generator begins anything.
AFTER = 500
HOSTED_CYCLES, HOSTED_SEEDS = 10_000, 2
#: What generators never do, or do not live to see.
HOSTED = {
    "BE",
    "DELIVER_BE",
    "ORPHAN",
    "GENERATIONS COME ROUND",
    "KILLED",
    "GIVE_UP",
    "ACK_REPEAT",
    "RESET",
    "DUPLICATE",
}
#: Cycles with flow, whose peers connect first.
FLOW_CYCLES = 10_000
#: Of every four systems one stays as it is drawn, and harsh; each of the others carries at least so many messages.
HARSH, CARRIED = 4, 200
#: Cycles with paths.
PATHS_CYCLES = 10_000
#: Of the systems with relay six small ones, in which nodes die; in the first one relays have four records, all in use.
RELAY_QUICK = (3, 6, 8, 14, 17, 41)
#: One of them is tried always.
RELAY_FIRST = 8
#: Each of these systems plays so many seeds on one build; one whose notices depend on the seed has two builds, and
#: plays two.  That makes more than 100 runs.
RELAY_SYSTEMS, RELAY_SEEDS, RELAY_BUILDS = (*range(24), 41), 5, 2
#: What a loop shows.
LOOPED = {"LOOPED", "LOOP_COMPLETE", "LOOP_TAKE", "LOOP_RESET"}


@pytest.mark.full
def test_sixty_four_nodes():
    """The benchmark's 4-ary 3-tree, saturated, until it has drained.  It is first, since building it takes minutes."""
    system = System.make(
        source="64 nodes, saturated",
        topology={"kind": "tree", "arity": 4, "levels": 3},
        workload={"load": 1.0, "min_length": 32, "max_length": 32, "count": 3},
    )
    result = cosim(system, cycles=20_000)
    assert result.equal, result.report
    assert result.drained
    golden = Golden(system)
    golden.run(20_000, until_drained=True)
    assert result.digest == golden.digest
    assert result.cycles == golden.cycle


def test_system(seed):
    """Twenty thousand cycles of traffic and faults, and some beyond the generators' stop; then the counters.

    With five seeds, 100,000 cycles in all.  Where routers show their events late, the counters are also read in the
    middle of a run.
    """
    system = draw(seed, cycles=CYCLES)
    again = f"pytest cocotb_tests/test_matrix.py -k 'test_system[{seed}]' --seeds {seed + 1}"
    text = emit(system, scripted=False)
    result = cosim(system, cycles=CYCLES + AFTER, until_drained=False, reproduce=again, verilog=text)
    assert result.equal, result.report
    assert result.cycles >= CYCLES + AFTER
    assert result.digest == result.golden_digest
    if system.ni.statistics:
        assert result.counters > 0
    if system.ni.statistics and system.layout.lag > 0:
        result = cosim(system, cycles=1000, until_drained=False, reproduce=again, verilog=text)
        assert result.equal, result.report
        assert result.counters > 0 and not result.drained


@pytest.mark.parametrize("number", [pytest.param(n, marks=pytest.mark.full) for n in range(10)])
def test_system_with_options(number):
    """The same with what is off by default, with nodes that die and nodes that are away."""
    system = draw(number, cycles=CYCLES, options=True)
    again = f"pytest cocotb_tests/test_matrix.py -k 'test_system_with_options[{number}]' -m ''"
    result = cosim(system, cycles=CYCLES + AFTER, until_drained=False, reproduce=again)
    assert result.equal, result.report
    assert result.cycles >= CYCLES + AFTER and result.digest == result.golden_digest


@pytest.mark.parametrize("number", but([], range(10)))
def test_system_with_paths(number):
    """Trees whose senders choose the paths, without and with queues and pools; slots linger."""
    system = draw(number, kind="tree", cycles=PATHS_CYCLES, options=number % 2 > 0)
    system = with_paths(system, random.Random(f"lethe paths {number}"))
    again = f"pytest cocotb_tests/test_matrix.py -k 'test_system_with_paths[{number}]' -m ''"
    result = cosim(system, cycles=PATHS_CYCLES + AFTER, until_drained=False, reproduce=again)
    assert result.equal, result.report
    assert result.cycles >= PATHS_CYCLES + AFTER and result.digest == result.golden_digest


@pytest.mark.parametrize("number", but([], range(8)))
def test_system_with_pools(number):
    """Pools whose worms take any up-port, or let control pass; even numbers are trees.  Slots linger."""
    kind = {"kind": "tree"} if number % 2 == 0 else {}
    system = draw(number, cycles=PATHS_CYCLES, options=number % 4 > 1, **kind)
    system = with_pools(system, random.Random(f"lethe pools {number}"))
    again = f"pytest cocotb_tests/test_matrix.py -k 'test_system_with_pools[{number}]' -m ''"
    result = cosim(system, cycles=PATHS_CYCLES + AFTER, until_drained=False, reproduce=again)
    assert result.equal, result.report
    assert result.cycles >= PATHS_CYCLES + AFTER and result.digest == result.golden_digest


@pytest.mark.parametrize("number", but([], range(5)))
def test_system_with_services(number):
    """The same with a loop at every node, through which the generators send, and with resets of NIs and of nodes."""
    system = draw(number, cycles=CYCLES, options=number % 2 > 0)
    system = with_services(system, random.Random(f"lethe services {number}"), CYCLES)
    again = f"pytest cocotb_tests/test_matrix.py -k 'test_system_with_services[{number}]' -m ''"
    result = cosim(system, cycles=CYCLES + AFTER, until_drained=False, reproduce=again)
    assert result.equal, result.report
    assert result.cycles >= CYCLES + AFTER and result.digest == result.golden_digest


def _of_flow(number: int, cycles: int, options: bool):
    system, chance = draw(number, cycles=cycles, options=options), random.Random(f"lethe flow {number}")
    system = with_flow(system, chance, cycles)
    return with_much_flow(system, chance, cycles) if number % HARSH else system


def test_flow_is_drawn_for_any_system():
    """Also for one whose ceiling is below the first time-out of flow's longer messages: drawing ends."""
    assert all(_of_flow(number, FLOW_CYCLES, number % 2 > 0).flow.ports for number in range(60))


@pytest.mark.parametrize("number", but([], (1, 2, *range(4, 12))))
def test_system_with_flow(number):
    """Generators whose messages go through flow, with small ports, odd numbers with nodes that die, and with resets."""
    system = _of_flow(number, FLOW_CYCLES, number % 2 > 0)
    again = f"pytest cocotb_tests/test_matrix.py -k 'test_system_with_flow[{number}]' -m ''"
    result = cosim(system, cycles=FLOW_CYCLES + AFTER, until_drained=False, reproduce=again)
    assert result.equal, result.report
    assert result.cycles >= FLOW_CYCLES + AFTER and result.digest == result.golden_digest


@pytest.mark.parametrize("number", but((5, 6), (1, 2, *range(4, 12))))
def test_systems_with_flow_carry_hundreds(number):
    """The golden models of the test before: all nodes get messages, hundreds in all, but in the harsh ones."""
    system = _of_flow(number, FLOW_CYCLES, number % 2 > 0)
    golden = Golden(system)
    golden.run(FLOW_CYCLES)
    received = golden.sums["received"]
    assert not number % HARSH or (received.sum() >= CARRIED and received.min() > CARRIED / 5 / system.nodes)


@pytest.mark.parametrize(("path_bits", "paths", "queue"), but([], [(2, 4, 1), (3, 2, 0), (1, 2, 2)], push=[(2, 4, 1)]))
def test_system_with_flow_on_paths(path_bits, paths, queue):
    """Streams that are spread over the paths of a tree, and carry something.  PINGs of the watch and VOIDs end in
    vain, too, while peers accept messages.
    """
    system = System.make(
        topology={"kind": "tree", "arity": 2, "levels": 2},
        wire={"path_bits": path_bits, "mtu": 24},
        router={"queue": queue},
        ni=OF_NI | {"linger": -1, "slots": 8},
        timers={"path_after": 2},
        faults={"loss": 0.1},
        flow={"ports": 4, "paths": paths, "watch": 256, "tries": 1},
        workload={"load": 0.2, "count": 0, "max_length": 16, "retry_limit": 1},
    )
    again = f"pytest cocotb_tests/test_matrix.py -k 'test_system_with_flow_on_paths[{path_bits}-{paths}-{queue}]' -m ''"
    result = cosim(system, cycles=FLOW_CYCLES, until_drained=False, reproduce=again)
    assert result.equal, result.report
    golden = Golden(system)
    golden.run(FLOW_CYCLES)
    assert golden.sums["received"].sum() > 200


@pytest.mark.parametrize("number", but([1], range(7)))
def test_hostile_hosts_of_flow(number, request):
    """Hosts that send to ports that are not bound, bind and unbind, change limits, read some ports or none."""
    system = hosted.draw(number, cycles=HOSTED_CYCLES)
    system = with_flow(system, random.Random(f"lethe flow {number}"), HOSTED_CYCLES)
    again = f"pytest cocotb_tests/test_matrix.py -k 'test_hostile_hosts_of_flow[{number}]' -m '' --seeds {{seeds}}"
    result = hosted.hold(system, request.config.getoption("--seeds") or 1, HOSTED_CYCLES, reproduce=again)
    assert not result.report, result.report
    assert result.seen.keys() >= {"FLOW_REFUSED", "FLOW_END", "FLOW_TOLD", "FLOW_HEARD", "FLOW_PEER", "FLOW_RESET"}


def _of_relay(number: int) -> System:
    system = draw(number, cycles=HOSTED_CYCLES)
    return with_relay(system, random.Random(f"lethe relay {number}"), HOSTED_CYCLES)


@pytest.mark.parametrize("number", but([RELAY_FIRST], RELAY_QUICK, push=RELAY_QUICK))
def test_system_with_relay(number):
    """Generators that send messages of relay; nodes die, some are said to be dead and live, some are reset."""
    system = _of_relay(number)
    again = f"pytest cocotb_tests/test_matrix.py -k 'test_system_with_relay[{number}]' -m ''"
    result = cosim(system, cycles=HOSTED_CYCLES, until_drained=False, reproduce=again)
    assert result.equal, result.report
    assert result.cycles >= HOSTED_CYCLES and result.digest == result.golden_digest


@pytest.mark.full
@pytest.mark.parametrize("number", RELAY_SYSTEMS)
def test_seeds_of_a_system_with_relay(number):
    """The same with more seeds: traffic, losses and, with `spread`, the cycles of notices differ between them."""
    system, texts, digests = _of_relay(number), {}, set()
    again = f"pytest cocotb_tests/test_matrix.py -k 'test_seeds_of_a_system_with_relay[{number}]' -m ''"
    seeds = range(system.run.seed, system.run.seed + 1000 * RELAY_SEEDS, 1000)
    notices = {seed: system.replace(run={"seed": seed}).relay_notices for seed in seeds}
    if len(set(notices.values())) > 1:
        seeds = seeds[:RELAY_BUILDS]
    for seed in seeds:
        seeded = system.replace(run={"seed": seed})
        # Of the seed only the notices are in the Verilog.
        if notices[seed] not in texts:
            texts[notices[seed]] = emit(seeded, scripted=False)
        text = texts[notices[seed]]
        result = cosim(seeded, cycles=HOSTED_CYCLES, until_drained=False, reproduce=again, verilog=text)
        assert result.equal, f"seed {seed}: {result.report}"
        assert result.cycles >= HOSTED_CYCLES and result.digest == result.golden_digest
        digests.add(result.digest)
    assert len(digests) == len(seeds)


def test_origins_ask_in_the_quick_systems_with_relay():
    """With a longer watch no origin would ask for a message in so few cycles; with relays and without."""
    asking = [system.relay for system in map(_of_relay, RELAY_QUICK) if system.relay.watch_cycles < HOSTED_CYCLES // 4]
    assert {relay.radix > 0 for relay in asking} == {False, True}


@pytest.mark.push
def test_the_watch_of_relay_waits_for_room():
    """So much is lost that relays drop control while messages are live for longer than `watch_cycles`."""
    system = System.make(
        topology={"kind": "tree", "arity": 2, "levels": 3}, wire={"mtu": 32}, faults={"loss": 0.3},
        ni={"control_classes": 2, "control_slots": 2}, run={"cycles": HOSTED_CYCLES},
        relay={
            "slots": 8, "radix": 1, "control": 8, "buffers": 4, "cells": 4, "records": 16, "cache_cycles": 256,
            "watch_cycles": 4096, "entry_cycles": 4096, "hop_cycles": 4096,
        },
        workload={"mode": "relay", "count": 0, "load": 0.5, "max_length": 16},
    )  # fmt: skip
    again = "pytest cocotb_tests/test_matrix.py -k waits_for_room -m ''"
    result = cosim(system, until_drained=False, reproduce=again)
    assert result.equal, result.report
    assert result.cycles >= HOSTED_CYCLES and result.digest == result.golden_digest


@pytest.mark.full
def test_relay_with_the_largest_tables():
    """Four nodes in a row, one of which dies: more than 128 records at a relay, all slots live."""
    most = {"slots": 256, "cells": 256, "records": 1024, "buffers": 64, "control": 256}
    times = {"cache_cycles": 4096, "entry_cycles": 16384, "watch_cycles": 1 << 16, "hop_cycles": 4096, "notice": 800}
    system = System.make(
        topology={"kind": "mesh", "columns": 2, "rows": 2}, ni={"slots": 16, "control_classes": 2, "control_slots": 4},
        wire={"class_bits": 3, "mtu": 24, "generation_bits": 16}, timers={"ack_limit": 255},
        relay={"radix": 1, "window": 200} | most | times, faults=deaths((1, 16_000)) | {"loss": 0.02},
        workload={"mode": "relay", "load": 1.0, "count": 0, "min_length": 4, "max_length": 8, "retry_limit": 2},
    )  # fmt: skip
    golden, known, live = Golden(system), 0, 0
    while golden.cycle < CYCLES:
        golden.run(100)
        relays = [relay_of(golden, node) for node in range(system.nodes)]
        known = max(known, *(int(relay.known) for relay in relays))
        live = max(live, *(int(relay.live) for relay in relays))
    assert known > 128 and live == system.relay.slots
    again = "pytest cocotb_tests/test_matrix.py -k largest_tables -m ''"
    result = cosim(system, cycles=CYCLES, until_drained=False, reproduce=again)
    assert result.equal, result.report
    assert result.cycles >= CYCLES and result.digest == golden.digest


@pytest.mark.full
@pytest.mark.parametrize("number", [0, 1, 2, 3, 4, 6, 7, 8])
def test_hostile_hosts_of_relay(number, request):
    """As the block of relay, in larger systems."""
    system = with_relay(
        hosted.draw(number, cycles=HOSTED_CYCLES), random.Random(f"lethe relay {number}"), HOSTED_CYCLES
    )
    system = system.replace(workload={"mode": "exactly_once"}, faults={"deaths": (), "notices": ()})
    again = f"pytest cocotb_tests/test_matrix.py -k 'test_hostile_hosts_of_relay[{number}]' -m '' --seeds {{seeds}}"
    result = hosted.hold(system, request.config.getoption("--seeds") or 2, HOSTED_CYCLES, reproduce=again)
    assert not result.report, result.report
    assert result.seen.keys() >= {"RELAY_REFUSED", "RELAY_SEND", "RELAY_NOTICE", "RELAY_END", "RELAY_HEARD"}


def test_options_come_up():
    """In the systems of the test before, and together: each is on in some and off in others."""
    drawn = [draw(number, options=True) for number in range(10)]
    for on in (
        lambda s: s.ni.control_slots > 0,
        lambda s: s.ni.reject,
        lambda s: s.ni.source_incarnation,
        lambda s: s.ni.merge_bits > 0,
        lambda s: s.ni.acceptance,
        lambda s: s.ni.sweep,
        lambda s: s.timers.silent_after > 0,
        lambda s: len(s.faults.deaths) > 0,
    ):
        assert 0 < sum(map(on, drawn)) < len(drawn)


def test_every_topology_takes_its_turn():
    """Ten seeds give every topology twice; the five of CI once, 20,000 cycles each."""
    kinds = [draw(seed).topology.kind for seed in range(10)]
    assert {kind: kinds.count(kind) for kind in KINDS} == dict.fromkeys(KINDS, 2)
    assert sorted(draw(seed).topology.kind for seed in QUICK) == sorted(KINDS)


def test_every_topology_has_every_queue():
    """Within twenty seeds; within ten each has some.  Those of CI have each, a pool, and events that come late."""
    drawn = [draw(seed) for seed in range(SEEDS)]
    assert {(s.topology.kind, s.router.queue) for s in drawn} == {(kind, queue) for kind in KINDS for queue in QUEUES}
    assert {s.topology.kind for s in drawn[:10] if s.router.queue} == {*KINDS}
    routed = [drawn[seed] for seed in QUICK if drawn[seed].graph.routers]
    assert {s.router.queue for s in routed} == {*QUEUES} and any(s.router.pool for s in routed)
    assert any(s.layout.lag > 0 and s.ni.statistics for s in routed), "counters are read in mid-run of these only"


def test_time_outs_are_measured_in_some_and_fixed_in_others():
    """Within twenty seeds with every topology; within the five of CI with queues and without."""
    drawn = [draw(seed) for seed in range(SEEDS)]
    assert {(s.topology.kind, s.measured) for s in drawn} == {(kind, m) for kind in KINDS for m in (False, True)}
    assert len({(s.measured, s.router.queue > 0) for s in (drawn[seed] for seed in QUICK)}) == 4


def test_generators_stop():
    """The runs of the matrix go beyond the generators' stop, and some generators would have gone on."""
    cut = 0
    for seed in range(5):
        sent = []
        for stop in (CYCLES, 0):
            golden = Golden(draw(seed, cycles=CYCLES).replace(workload={"stop": stop}))
            golden.run(CYCLES + AFTER)
            sent.append(int(golden.sums["sent"].sum()))
        assert sent[0] <= sent[1]
        cut += sent[0] < sent[1]
    assert cut >= 2


@pytest.mark.parametrize("number", but([], range(15), push=[7, 11]))
def test_hostile_hosts(number, request):
    """Hosts that send best effort, cancel, hold and give up, on every NI of a system; its generations come round.

    In system 7 the time-out of a datagram finds another of the same generation, whose destination is nearer.

    Systems from 5 on have options: control on a port of its own, REJECT, silent nodes, a merge port.  Those from 10 on
    have loops, through which they also send to themselves.
    """
    system = hosted.draw(number, cycles=HOSTED_CYCLES)
    again = f"pytest cocotb_tests/test_matrix.py -k 'test_hostile_hosts[{number}]' -m '' --seeds {{seeds}}"
    seeds = request.config.getoption("--seeds") or HOSTED_SEEDS
    result = hosted.hold(system, seeds, HOSTED_CYCLES, reproduce=again)
    assert not result.report, result.report
    rare = {"ORPHAN"} if system.faults.loss < 0.1 else set()  # five Forgets or more in a row must be lost
    assert result.seen.keys() >= (HOSTED | LOOPED if system.services else HOSTED) - rare


@pytest.mark.full
@pytest.mark.parametrize(("flit_bits", "mtu"), [(16, 512), (32, 1500), (64, 4096), (128, 4096)])
def test_long_payloads(flit_bits, mtu):
    """Payloads of up to 4,096 bytes through generators, NIs and checkers, until all of them have arrived."""
    system = System.make(
        source=f"{mtu} bytes in flits of {flit_bits} bits",
        topology={"kind": "wire"},
        wire={"flit_bits": flit_bits, "mtu": mtu},
        ni={"slots": 2, "sets": 2, "ways": 1, "statistics": False},
        timers={"wrap_guard": 0},
        faults={"loss": 0.1},
        workload={"load": 1.0, "min_length": 4, "max_length": mtu, "stop": 40 * mtu * 8 // flit_bits},
    )
    result = cosim(system)
    assert result.equal, result.report
    assert result.drained
    golden = Golden(system, record=True)
    golden.run(result.cycles, until_drained=True)
    events = golden.take_events()
    lengths = LENGTH.of(events["word"][events["lane"] == LANE_ACCEPT])
    assert lengths.max() > 0.9 * mtu and len(lengths) > 30


@pytest.mark.push
@pytest.mark.skipif(not has_icarus(), reason="Icarus Verilog is not installed")
def test_second_simulator():
    """The same lockstep under Icarus: four-valued logic, another scheduler."""
    system = draw(0, cycles=1000)
    result = cosim(system, cycles=1000, until_drained=False, simulator="icarus")
    assert result.equal, result.report
