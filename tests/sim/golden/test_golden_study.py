"""Single decisions turned (docs/studies/study.md): what each does cycle by cycle, every datagram delivered once."""

from collections import Counter as Tally
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lethe.spec import sections
from lethe.spec.config import ConfigError, System
from lethe.spec.events import LANE_COMPLETE, LANE_RX, LANE_TX, Counter, Event, Kind, RouterCounter
from lethe.spec.pin import key_hash, pinned, salt_for
from lethe.spec.random import UNIT_ROUTER, advance, scale, seed_for
from lethe.spec.stages import SPARE_SEND
from lethe.spec.topology import NOWHERE, UP
from lethe.spec.trace import NI_FLAG_BITS, NI_FLAGS
from lethe_sim.golden.blocks import Flit, Ni, Router
from lethe_sim.golden.model import Golden
from lethe_sim.golden.study.acceptance import stage_acceptance
from tests.helpers.golden_block_steps import message
from tests.helpers.golden_steps import BEAT, LIMIT, assert_once, offer, run
from tests.helpers.golden_systems import TOPOLOGIES, make
from tests.helpers.tiers import but

READY = 40
SEND_READY = 1 << NI_FLAG_BITS.index("send.ready")
KNOBS = {
    "per_destination": {"per_destination": 1},
    "replies": {"replies": "last"},
    "blind": {"path": "blind"},
    "pinned": {"path": "pinned"},
    "dilation": {"dilation": 3},
    "all": {"per_destination": 2, "replies": "last", "path": "blind", "dilation": 2},
    "all pinned": {"per_destination": 2, "replies": "last", "path": "pinned", "dilation": 2},
}
TREES = ("tree", "tree4")
GRAPHS = {"path": TREES, "dilation": ("tree", "tree4", "fly", "fly3")}
CASES = [
    (name, knob)
    for knob, study in KNOBS.items()
    for name in TOPOLOGIES
    if all(name in GRAPHS.get(key, TOPOLOGIES) for key in study)
]


@pytest.mark.parametrize(("name", "knob"), CASES)
@pytest.mark.parametrize("faults", [{}, {"loss": 0.1, "flip": 0.002}])
def test_every_datagram_once(name, knob, faults):
    golden = Golden(make(name, study=KNOBS[knob], faults=faults, workload={"load": 1.0, "count": 40}))
    golden.run(LIMIT, until_drained=True)
    assert_once(golden)
    if "path" in KNOBS[knob]:
        assert not golden.router_counters[:, RouterCounter.UP].any()


@pytest.mark.parametrize("router", [{"queue": 2}, {"flow": "credits", "credit_flits": 6}])
@pytest.mark.parametrize("study", [KNOBS["per_destination"], KNOBS["replies"]])
def test_every_datagram_once_where_worms_wait(study, router):
    golden = Golden(make("tree4", study=study, router=router, workload={"load": 1.0, "count": 40}))
    golden.run(LIMIT, until_drained=True)
    assert_once(golden)


@pytest.mark.parametrize(("name", "knob"), [case for case in CASES if case[0] != "wire"])
def test_links_die_and_nodes_are_reset(name, knob):
    """Fragments, and slots that were under way when their node was reset."""
    graph = make(name, study=KNOBS[knob]).graph
    dead = [{"link": n, "start": 100 + 3 * n, "end": 160 + 4 * n} for n in range(graph.link_count)]
    resets = [{"node": n, "start": 150 + 90 * n, "cycles": 3} for n in (0, 1)]
    faults = {"links": dead, "resets": resets}
    golden = Golden(make(name, study=KNOBS[knob], faults=faults, workload={"load": 1.0, "count": 30}), record=True)
    golden.run(LIMIT, until_drained=True)
    assert golden.drained and not golden.entries.any() and not golden.busy.any()
    events = golden.take_events()
    delivered = (events["lane"] == 1) & (events["word"] & np.uint64(0xFF) == Event.DELIVER)
    delivered &= (events["unit"] < golden.system.nodes) & (events["unit"] > 1)
    uids = events["uid"][delivered]
    assert len(np.unique(uids)) == len(uids) > 30 * (golden.system.nodes - 2) * 0.5


# Datagrams to one destination.


def ready_for(ni, destination):
    """Whether the NI would take a record for a destination in this cycle; none is offered."""
    return bool(ni.step(None, [0, destination, 0, 0, 0, 0])[NI_FLAGS] & SEND_READY)


def give(ni, destination):
    """Hand over a datagram of one beat."""
    assert ni.step(None, offer(destination, 8))[NI_FLAGS] & SEND_READY
    ni.step(None, [BEAT, destination, 0, 7, 0, 0])


def test_a_record_waits_while_its_destination_is_at_the_limit():
    """From the cycle after the handshake to that in which the completion is taken."""
    ni = Ni(make("tree", study={"per_destination": 2}), 3)
    run(ni, READY)
    for destination in (6, 5, 6):
        assert ready_for(ni, destination)
        give(ni, destination)
        run(ni, 20)
    assert [ready_for(ni, destination) for destination in (4, 5, 6, 7)] == [True, True, False, True]
    assert ni.step(None, offer(6, 8))[NI_FLAGS] & SEND_READY == 0
    assert ready_for(ni, 4)  # the record was not taken
    # An Ack for the first of the two to 6, which is in slot 0.
    rows = [ni.step(flit, [0, 6, 0, 0, 0, 0]) for flit in message(Kind.ACK, generation=0, peer_incarnation=1)]
    while rows[-1][2 * LANE_COMPLETE] & 0xFF != Event.COMPLETE:
        rows.append(ni.step(None, [0, 6, 0, 0, 0, 0]))
    assert not any(row[NI_FLAGS] & SEND_READY for row in rows)
    assert ready_for(ni, 6)


def test_a_destination_that_is_no_node_is_not_limited():
    ni = Ni(make("tree", study={"per_destination": 1}), 3)
    run(ni, READY)
    give(ni, 8)
    give(ni, 8)
    give(ni, 3)  # it will be refused, but is a node
    assert ready_for(ni, 8) and not ready_for(ni, 3)


def test_a_reset_takes_all_that_was_under_way():
    ni = Ni(make("tree", study={"per_destination": 1}), 3)
    run(ni, READY)
    give(ni, 6)
    run(ni, 10)
    assert not ready_for(ni, 6)
    run(ni, 2, reset=True, incarnation=2)
    run(ni, READY, incarnation=2)
    assert ready_for(ni, 6)


def most_under_way(golden):
    """The most datagrams of any node under way to one destination, by the events."""
    now, most = Tally(), 0
    for event in golden.take_events():
        kind, unit, peer = int(event["word"]) & 0xFF, int(event["unit"]), int(event["word"]) >> 16 & 0xFFFF
        if unit < golden.system.nodes and kind in (Event.ACCEPT, Event.COMPLETE):
            now[unit, peer] += 1 if kind == Event.ACCEPT else -1
            most = max(most, now[unit, peer])
    return most


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_no_more_than_so_many_are_under_way(limit):
    runs = {}
    for study in (0, limit):
        golden = Golden(
            make("tree", study={"per_destination": study}, workload={"load": 1.0, "count": 200}), record=True
        )
        golden.run(LIMIT, until_drained=True)
        assert_once(golden)
        runs[study] = most_under_way(golden)
    assert runs[limit] == limit < runs[0]


# Order of replies.


DISABLED = 1 << 4  # link_disable: nothing is granted


def loaded(replies, **timers):
    """An NI that has three new datagrams and three Acks to send, and nothing sent yet."""
    ni = Ni(make("tree", study={"replies": replies}, timers=timers), 3)
    run(ni, READY)
    for slot in range(3):
        ni.step(None, offer(6, 0, extra=DISABLED))
        run(ni, 9, [DISABLED, 0, 0, 0, 0, 0], arrivals=message(Kind.SEND, slot=slot, length=8))
    return ni


def launched(rows):
    """What was sent, in its order."""
    return [Event(row[2 * LANE_TX] & 0xFF) for row in rows if row[2 * LANE_TX]]


@pytest.mark.parametrize(
    ("replies", "order"),
    [("first", 3 * [Event.ACK] + 3 * [Event.SEND]), ("last", 3 * [Event.SEND] + 3 * [Event.ACK])],
)
def test_replies_go_first_or_last(replies, order):
    assert launched(run(loaded(replies), 30)) == order


@pytest.mark.parametrize("replies", ["first", "last"])
def test_repeats_too_go_before_replies_that_go_last(replies):
    """Three repeats and some Acks wait for the link, which was held when the first repeat was due."""
    ni = loaded(replies, jitter_bits=0)
    while not any(row[2 * LANE_RX] & 0xFF == Event.REPEAT for row in run(ni, 1)):
        pass
    arrivals = [flit for slot in range(3, 6) for flit in message(Kind.SEND, slot=slot)]
    held = run(ni, 60, [DISABLED, 0, 0, 0, 0, 0], arrivals=arrivals)
    answers = [row[2 * LANE_RX] & 0xFF in (Event.DELIVER, Event.ACK_REPEAT) for row in held].count(True)
    assert answers >= 3
    acks, sends = answers * [Event.ACK], 3 * [Event.SEND]
    assert launched(run(ni, 60))[: answers + 3] == (acks + sends if replies == "first" else sends + acks)


def test_replies_go_while_sends_are_not_allowed():
    """With rungs of nine tokens Sends stop when five are known to be there, though more wait; an Ack does not."""
    timers = {"timer_depth": 9, "slack": 200, "jitter_bits": 0}
    ni = Ni(make("tree", study={"replies": "last"}, timers=timers, ni={"slots": 16}), 3)
    run(ni, READY)
    rows = run(ni, 50, offer(6, 0))
    unknown = 1  # granted when the sixth is not yet known to be there
    assert launched(rows) == (timers["timer_depth"] - SPARE_SEND + 1 + unknown) * [Event.SEND]
    rows = [ni.step(flit, offer(6, 0)) for flit in message(Kind.SEND, length=8)] + run(ni, 20, offer(6, 0))
    assert launched(rows) == [Event.ACK]


def test_a_reply_goes_while_a_new_datagram_waits_for_the_finish_register():
    """A refused record fills it for a cycle in which nothing else new may go."""
    ni = Ni(make("tree", study={"replies": "last"}), 3)
    run(ni, READY)
    for destination in (3, 6):
        ni.step(None, offer(destination, 0, extra=DISABLED))
    run(ni, 12, [DISABLED, 0, 0, 0, 0, 0], arrivals=message(Kind.SEND, length=8))
    assert launched(run(ni, 12)) == [Event.ACK, Event.SEND]


WIRE = {"topology": {"kind": "wire"}, "workload": {"count": 50, "load": 1.0}, "study": {"replies": "last"}}
TREE = WIRE | {"topology": {"levels": 2}}


@pytest.mark.parametrize(("sections", "steps", "slots"), [(TREE, 2, 36), (TREE, 1, 18), (WIRE, 2, 32), (WIRE, 1, 16)])
def test_replies_that_go_last_go_in_the_tightest_system_there_may_be(sections, steps, slots):
    timers = {"backoff_steps": steps, "wrap_guard": 0, "timer_depth": slots}
    with pytest.raises(ConfigError, match=r"study\.replies: repeats of"):
        System.make(timers=timers, ni={"slots": slots + 1}, **sections)
    for loss in (0.0, 0.2):
        golden = Golden(System.make(timers=timers, ni={"slots": slots}, faults={"loss": loss}, **sections))
        golden.run(LIMIT, until_drained=True)
        assert_once(golden)


def test_replies_that_are_refused_to_go_last_would_wait_for_ever(monkeypatch):
    monkeypatch.setattr(sections.study, "check", lambda *_: None)
    golden = Golden(System.make(timers={"backoff_steps": 0, "wrap_guard": 0, "jitter_bits": 4}, **WIRE))
    golden.run(100_000)
    done = golden.sums["received"].sum()
    golden.run(100_000)
    assert golden.sums["received"].sum() == done < 100
    assert golden.counters[:, Counter.ACKS].sum() < done + 10


# Paths and parallel links: a router of its own, written from the documents.


class Reference:
    """Router ``number`` of a network that discards, one step a cycle: heads, and worms without gaps."""

    def __init__(self, system: System, number: int):
        self.system, self.number, self.graph = system, number, system.graph
        self.ports, self.level = self.graph.ports(number), self.graph.level(number)
        self.state = seed_for(system.run.seed, UNIT_ROUTER, number)
        self.blind = seed_for(system.run.seed, UNIT_ROUTER, system.graph.routers + number)
        self.held: dict[int, int] = {}  # output: input
        self.salt = salt_for(system.run.seed)

    def up_port(self, head: dict) -> int:
        """The one up-port that a head asks for."""
        first, count = self.ports - self.graph.up_ports(self.number), self.graph.up_ports(self.number)
        if self.system.study.path == "blind":
            self.blind = advance(self.blind)
            return first + scale(self.blind & 0xFFFF, 16, count)
        key = {name: head[name] for name in ("kind", "source", "destination", "slot")}
        return first + pinned(key_hash(self.system.format, self.salt, **key), self.level, count)

    def step(self, heads: dict[int, dict], ending: set[int]) -> dict[int, tuple[Event, int]]:
        """Fates of the heads of a cycle, by input; the worms on inputs ``ending`` show their last flit."""
        graph, fates, asks = self.graph, {}, {}
        for port, head in sorted(heads.items()):
            asks[port] = graph.route(self.number, port, head["destination"])
        self.state = draw = advance(self.state)
        w, h = cut(draw, self.ports), cut(draw >> 8, self.ports)
        busy = set(self.held)
        up = range(self.ports - graph.up_ports(self.number), self.ports)
        groups = defaultdict(list)  # (outputs, whether they are up-ports that are all as good): inputs
        for port, ask in asks.items():
            if ask == NOWHERE:
                fates[port] = Event.DISCARD_ROUTE, 0
            elif ask == UP and self.system.study.path == "free":
                groups[up, True].append(port)
            elif ask == UP:
                one = self.up_port(heads[port])
                groups[range(one, one + 1), False].append(port)
            else:
                groups[range(ask, ask + graph.parallel(self.number, ask)), False].append(port)
        for (outputs, rising), inputs in groups.items():
            if len(outputs) == 1 and not rising:
                free = outputs[0] not in busy
                winner = min(inputs, key=lambda port: port ^ w)
                for port in inputs:
                    lost = Event.DISCARD_CONTENTION if free else Event.DISCARD_BUSY
                    fates[port] = (Event.FORWARD, outputs[0]) if free and port == winner else (lost, 0)
                continue
            u = cut(draw >> 16, len(outputs))
            turned = sorted(inputs, key=lambda port: port ^ h)
            order = sorted(range(len(outputs)), key=lambda j: j ^ u)
            free = [outputs[j] for j in order if outputs[j] not in busy]
            lost = Event.DISCARD_UP if rising else Event.DISCARD_CONTENTION if free else Event.DISCARD_BUSY
            for j, port in enumerate(turned):
                fates[port] = (Event.FORWARD, free[j]) if j < len(free) else (lost, 0)
        self.held = {output: port for output, port in self.held.items() if port not in ending}
        for port, (event, output) in fates.items():
            if event == Event.FORWARD and not heads[port]["last"]:
                self.held[output] = port
        return fates


def cut(draw, count):
    """The low byte of a draw, cut to as many bits as ``count`` − 1 has."""
    return draw & 0xFF & (1 << (count - 1).bit_length()) - 1


def first_flit(system, fields):
    """The first flit of a message with these fields, which is all that a router reads."""
    send = {"generation": 0, "incarnation": 1}
    data = system.format.flits(send | {name: fields[name] for name in ("kind", "source", "destination", "slot")}, b"")
    return Flit(1, 1, int(fields["last"]), data[0])


ROUTERS = [
    ("tree", {"path": "free"}, 0),  # the reference itself, against the rules of the contract
    ("tree4", {"path": "blind"}, 1),
    ("tree4", {"path": "pinned"}, 0),
    ("tree", {"path": "pinned"}, 5),
    ("tree", {"dilation": 2}, 0),
    ("tree", {"dilation": 2}, 5),
    ("tree", {"dilation": 3}, 9),
    ("tree4", {"dilation": 5}, 2),
    ("tree4", {"dilation": 2, "path": "blind"}, 3),
    ("tree", {"dilation": 3, "path": "pinned"}, 6),
    ("fly3", {"dilation": 2}, 1),
    ("fly", {"dilation": 3}, 6),
    ("fly3", {"dilation": 2}, 4),
    ("fly", {"dilation": 2}, 10),
]


@pytest.mark.parametrize(("name", "study", "number"), but(ROUTERS[::4], ROUTERS, push=ROUTERS))
@settings(derandomize=True, deadline=None, max_examples=25)
@given(data=st.data())
def test_a_router_decides_as_the_documents_say(name, study, number, data):
    seed = data.draw(st.integers(0, 1 << 31))
    system = make(name, study=study, run={"seed": seed})
    router, reference = Router(system, number), Reference(system, number)
    graph, chance = system.graph, np.random.default_rng(seed)
    joined = {link.target_port for link in graph.links if not link.target_is_node and link.target == number}
    left: dict[int, int] = {}  # input: flits of its worm still to come
    seen = Tally()
    for _ in range(120):
        heads, ending, flits = {}, set(), [Flit()] * router.ports
        for port in sorted(joined):
            if left.get(port):
                left[port] -= 1
                flits[port] = Flit(1, 0, int(left[port] == 0), 1)
                ending |= {port} if left[port] == 0 else set()
            elif chance.random() < 0.7:
                more = int(chance.integers(0, 4))
                nodes = chance.permutation(system.nodes)
                heads[port] = {
                    "kind": int(chance.choice([Kind.SEND, Kind.ACK, Kind.FORGET])), "source": int(nodes[0]),
                    "destination": int(nodes[1]), "slot": int(chance.integers(0, 16)), "last": more == 0,
                }  # fmt: skip
                flits[port], left[port] = first_flit(system, heads[port]), more
        _, words = router.step(flits)
        got = {port: (word & 0xFF, word >> 8 & 0xFF) for port, word in enumerate(words) if word}
        expected = reference.step(heads, ending)
        assert got == expected, f"seed {seed}"
        seen.update(event for event, _ in got.values())
    assert seen[Event.FORWARD] > 50 and len(seen) > 1


# Parallel links in whole systems.


def events_of_nodes(golden):
    """All events of NIs."""
    events = golden.take_events()
    return events[events["unit"] < golden.system.nodes]


@pytest.mark.parametrize("name", ["tree", "tree4", "fly", "fly3"])
@pytest.mark.parametrize("study", [{"dilation": 2}, {"dilation": 4}])
def test_without_contention_parallel_links_change_nothing(name, study):
    """Every event of every NI is in its cycle."""
    for seed in range(1, 40):
        section = {"workload": {"load": 0.002, "count": 3}, "run": {"seed": seed}}
        plain, dilated = (Golden(make(name, study=turned, **section), record=True) for turned in ({}, study))
        discarded = 0
        for golden in (plain, dilated):
            golden.run(LIMIT, until_drained=True)
            discarded += golden.router_counters[:, RouterCounter.FORWARDED + 1 :].sum()
        if not discarded:
            assert (events_of_nodes(plain) == events_of_nodes(dilated)).all() and dilated.cycle == plain.cycle
            return
    pytest.fail("no seed gave a run without contention")


def test_every_parallel_link_is_used():
    """The heads that pass a router are spread over all links of its directions."""
    golden = Golden(make("tree4", study={"dilation": 2}, workload={"load": 1.0, "count": 60}), record=True)
    golden.run(LIMIT, until_drained=True)
    graph, events = golden.system.graph, golden.take_events()
    passed = events[(events["unit"] >= graph.nodes) & (events["word"] & np.uint64(0xFF) == Event.FORWARD)]
    ports = passed["word"] >> np.uint64(8) & np.uint64(0xFF)
    used = Tally(zip((passed["unit"] - graph.nodes).tolist(), ports.tolist(), strict=True))
    outputs = {(link.source, link.source_port) for link in graph.links if not link.source_is_node}
    assert set(used) == outputs and min(used.values()) > 5


@pytest.mark.parametrize(("arity", "levels", "dilation"), [(2, 5, 2), (2, 5, 3), (4, 3, 2)])
def test_a_dilated_butterfly_accepts_what_kruskal_and_snir_say(arity, levels, dilation):
    """One-flit worms: a bundle carries the least of d and of what k bundles send there (1983)."""
    topology = {"kind": "fly", "arity": arity, "levels": levels}
    system = System.make(topology=topology, study={"dilation": dilation}, timers={"wrap_guard": 0})
    cycles = 1_000_000 // system.nodes
    heads, passed = stage_acceptance(system, 1.0, cycles)
    bundle = np.array([0.0, 1.0])  # chances of so many worms on a bundle
    for stage in range(levels):
        carried = (bundle * np.arange(len(bundle))).sum()
        assert heads[stage] / (system.nodes * cycles) == pytest.approx(carried, rel=0.01)
        one = np.zeros(len(bundle))  # how many of them want one direction
        for n, chance in enumerate(bundle):
            one[: n + 1] += chance * binomial(n, 1 / arity)
        wanted = np.array([1.0])
        for _ in range(arity):
            wanted = np.convolve(wanted, one)
        room = dilation if stage < levels - 1 else 1
        bundle = np.append(wanted[:room], wanted[room:].sum())
    carried = (bundle * np.arange(len(bundle))).sum()
    assert passed[-1] / (system.nodes * cycles) == pytest.approx(carried, rel=0.01)


def binomial(n, p):
    """Chances of 0 … n."""
    chances = np.array([1.0])
    for _ in range(n):
        chances = np.convolve(chances, [1 - p, p])
    return chances
