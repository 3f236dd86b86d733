"""Captures of links: every message that crosses a tapped link is there once, as it was, with what became of it."""

from collections import Counter, defaultdict
from itertools import pairwise
from typing import Any

import pytest
from dpkt import pcapng

from lethe.spec.capture import HEADER, PACKING, Mark, Passage
from lethe.spec.config import System
from lethe.spec.events import ARRIVALS, DISCARDS, LANE_RX, LAUNCHES, Drop, Event, Kind, LinkCounter
from lethe_sim.golden.model import Golden
from lethe_sim.wireshark.links import LinksError, links_of
from lethe_sim.workloads import capture_file
from tests.helpers.link_captures import packets, taken

LOAD = {"count": 6, "load": 0.4}
SYSTEMS = {
    "tree, loss": System.make(faults={"loss": 0.1}, workload=LOAD),
    "tree, flips": System.make(faults={"flip": 0.004}, workload=LOAD),
    "mesh, queues": System.make(
        topology={"kind": "mesh", "columns": 3, "rows": 2}, router={"queue": 2}, faults={"loss": 0.02}, workload=LOAD
    ),
    "tree, pools": System.make(
        router={"pool": 3}, faults={"loss": 0.02, "flip": 0.0005}, workload=LOAD | {"load": 1.0, "count": 12}
    ),
    "fly of 32 bits": System.make(
        topology={"kind": "fly", "arity": 2, "levels": 3}, wire={"flit_bits": 32}, workload=LOAD
    ),
    "wire of 128 bits, flips": System.make(
        topology={"kind": "wire"}, wire={"flit_bits": 128}, faults={"flip": 0.02}, workload=LOAD
    ),
    "crossbar of 16 bits": System.make(
        topology={"kind": "crossbar", "nodes": 4}, wire={"flit_bits": 16}, faults={"loss": 0.1}, workload=LOAD
    ),
    "a node resets, a link dies": System.make(
        faults={
            "loss": 0.05,
            "resets": [{"node": 3, "start": 150, "cycles": 20}],
            "links": [{"link": 5, "start": 40, "end": 200}],
        },
        workload=LOAD | {"retry_limit": 10},
    ),
}  # fmt: skip


def _event(row) -> int:
    return int(row["word"]) & 0xFF


#: Those whose routers forward a worm in a fixed number of cycles.
HOPS = tuple(name for name, system in SYSTEMS.items() if system.graph.routers and not system.stores)


def _id(name: str) -> str:
    return name.replace(", ", "-").replace(" ", "-")


@pytest.fixture(scope="module", params=SYSTEMS, ids=_id)
def run(request):
    system = SYSTEMS[request.param]
    links = list(range(system.graph.link_count))
    capture, events, golden = taken(system, links, 4000)
    return system, packets(capture), events, golden


def test_taps_change_nothing(run):
    system, _, _, golden = run
    untapped = Golden(system)
    untapped.run(golden.cycle)
    assert untapped.digest == golden.digest


def test_every_message_is_there_once_in_the_order_of_time(run):
    system, seen, events, _ = run
    nodes = system.nodes
    launched = Counter(int(e["unit"]) for e in events if e["unit"] < nodes and _event(e) in LAUNCHES)
    begun = Counter(
        p.header["link"] for p in seen if p.header["link"] < nodes and not p.header["marks"] & Mark.HEADLESS
    )
    # A flipped `first` or `last` makes one message two, or the rest of one.
    odd = {p.header["link"] for p in seen if p.header["marks"]}
    assert launched and {n: c for n, c in launched.items() if n not in odd} == {
        n: c for n, c in begun.items() if n not in odd
    }
    assert all(a.header["cycle"] <= b.header["cycle"] for a, b in pairwise(seen))


def test_what_links_do_agrees_with_their_counters(run):
    system, seen, _, golden = run
    counters = golden.link_counters
    lost = Counter(p.header["link"] for p in seen if p.header["passage"] == Passage.LOST)
    assert [lost[n] for n in range(system.graph.link_count)] == counters[:, LinkCounter.LOST].tolist()
    flips = Counter()
    for p in seen:
        flips[p.header["link"]] += p.header["flips"]
    assert [flips[n] for n in range(system.graph.link_count)] == counters[:, LinkCounter.FLIPS].tolist()
    dead = sum(p.header["passage"] == Passage.DEAD and not p.header["marks"] & Mark.HEADLESS for p in seen)
    # A head that passed before its link died is no event.
    assert counters[:, LinkCounter.DEAD].sum() == dead - sum(
        p.header["passage"] == Passage.DEAD and p.header["reached"] > 0 for p in seen
    )


def test_every_fate_is_that_of_one_message(run):
    system, seen, events, _ = run
    graph = system.graph
    wanted = Counter()
    for e in events:
        event, unit = _event(e), int(e["unit"])
        acted = unit < graph.nodes and e["lane"] == LANE_RX and event in ARRIVALS
        decided = graph.nodes <= unit < graph.first_link and event in {*DISCARDS, Event.FORWARD}
        if acted or decided:
            wanted[unit, event] += 1
    found = Counter()
    for p in seen:
        if fate := p.header["fate"]:
            end = graph.link(p.header["link"])
            unit = end.target if end.target_is_node else graph.nodes + end.target
            found[unit, fate] += 1
    assert wanted and found == wanted


@pytest.mark.parametrize("run", HOPS, indirect=True, ids=_id)
def test_a_message_that_was_forwarded_is_on_the_next_link(run):
    """The same bytes, a hop later, on the link of the output that the capture names."""
    system, seen, _, _ = run
    graph = system.graph
    output = {(e.source, e.source_port): n for n, e in enumerate(graph.links) if not e.source_is_node}
    begins = {(p.header["link"], p.header["cycle"]): p for p in seen}
    forwarded = [p for p in seen if p.header["fate"] == Event.FORWARD and p.passed]
    assert forwarded
    for p in forwarded:
        link = output[graph.link(p.header["link"]).target, p.header["detail"]]
        after = begins[link, p.header["cycle"] + system.router.latency]
        if not after.header["marks"] and not p.header["marks"]:
            assert after.message == p.message


def test_messages_are_those_of_the_specification(run):
    system, seen, events, _ = run
    sends = {(int(e["unit"]), int(e["cycle"])): e for e in events if _event(e) in LAUNCHES}
    checked = Counter()
    for p in seen:
        if not p.whole or p.header["flips"] or p.header["link"] >= system.nodes:
            continue
        fields = p.fields(system)
        e = sends[p.header["link"], p.header["cycle"]]
        word = int(e["word"])
        assert Event(word & 0xFF).name == Kind(fields["kind"]).name
        assert fields["source"] == e["unit"] and fields["destination"] == word >> 16 & 0xFFFF
        assert p.good(system)
        length = fields.get("length", 0)
        payload = p.message[system.format.header_flits * system.format.flit_bytes :][:length]
        flits = system.format.flits(fields, payload)
        assert p.message == b"".join(flit.to_bytes(system.format.flit_bytes, "little") for flit in flits)
        assert p.header["flits"] == len(flits)
        checked[fields["kind"]] += 1
    assert set(checked) >= {Kind.SEND, Kind.ACK, Kind.FORGET}


def test_a_flip_is_seen_by_the_crc(run):
    """What an NI drops for its CRC is wrong in the capture, and nothing else that reaches it is."""
    system, seen, _, _ = run
    at_nodes = [p for p in seen if system.graph.link(p.header["link"]).target_is_node and p.header["fate"]]
    assert at_nodes
    for p in at_nodes:
        dropped = p.header["fate"] == Event.DROP and p.header["detail"] == Drop.CRC
        assert p.good(system) is not dropped


@pytest.mark.parametrize("latency", [1, 3])
def test_a_stored_worm_has_the_fate_with_which_it_leaves(latency):
    """The same bytes are on the link of the output that the capture names, at once or after a wait; none is missing."""
    system = System.make(router={"pool": 2, "latency": latency}, workload=LOAD | {"load": 1.0, "count": 12})
    graph = system.graph
    seen = packets(taken(system, list(range(graph.link_count)), 8000)[0])
    output = {(e.source, e.source_port): n for n, e in enumerate(graph.links) if not e.source_is_node}
    begins = defaultdict(list)
    for p in seen:
        begins[p.header["link"], p.message].append(p.header["cycle"])
    at_routers = [p for p in seen if not graph.link(p.header["link"]).target_is_node]
    assert {p.header["fate"] for p in at_routers} == {Event.FORWARD, Event.DISCARD_FULL}
    waits = set()
    for p in at_routers:
        if p.header["fate"] == Event.FORWARD:
            link = output[graph.link(p.header["link"]).target, p.header["detail"]]
            waits.add(begins[link, p.message].pop(0) - p.header["cycle"] - latency)
    assert min(waits) == 0 and 1 not in waits and max(waits) > 8
    left = [key for key, cycles in begins.items() if cycles and not graph.link(key[0]).source_is_node]
    assert not left


@pytest.mark.parametrize("piece", [1, 13, 4000])
def test_pieces_of_a_run_give_the_same_file(piece):
    for name in ("mesh, queues", "tree, flips", "tree, pools"):
        system = SYSTEMS[name]
        links = links_of(system, "nodes,router1")
        assert taken(system, links, 600, piece=piece)[0] == taken(system, links, 600)[0]


def test_worms_that_pause_are_one_message():
    system = System.make(
        topology={"kind": "mesh", "columns": 3, "rows": 3}, router={"flow": "credits"},
        workload={"count": 8, "load": 1.0},
    )  # fmt: skip
    capture, events, _ = taken(system, list(range(system.graph.link_count)), 4000)
    seen = packets(capture)
    assert seen and all(p.whole and p.passed and p.good(system) for p in seen)
    delivered = sum(_event(e) == Event.DELIVER for e in events)
    assert delivered == sum(p.header["fate"] == Event.DELIVER for p in seen) > 0


def test_memory_is_that_of_what_is_under_way():
    """Nothing of a message that has been written is kept."""
    from lethe_sim.wireshark.messages import Messages

    system = System.make(faults={"loss": 0.1}, workload={"count": 0, "load": 0.5})
    links = list(range(system.graph.link_count))
    golden, messages = Golden(system, record=True, tapped=links), Messages(system, links)
    for _ in range(20):
        golden.run(500)
        count = sum(1 for _ in messages.take(golden.take_flits(), golden.take_events(), golden.cycle))
        assert count > 500
        assert len(messages._pending) < 6 * len(links) and len(messages._kept) < 6 * len(links)
        assert sum(map(len, messages._heads.values())) <= len(links) >= sum(map(len, messages._fates.values()))


def test_packets_say_their_link_their_way_and_what_was_lost():
    """As any reader of pcapng sees it: interface, direction from the node, and a comment on what did not pass."""
    system = SYSTEMS["tree, loss"]
    links = links_of(system, "node1,router0")
    seen = capture_file.parse(taken(system, links, 400)[0]).packets
    found = Counter()
    for packet in seen:
        block: Any = pcapng.EnhancedPacketBlockLE(packet.record)
        options = {one.code: one.data for one in block.opts}
        header = dict(zip([name for name, _, _ in HEADER], PACKING.unpack(packet.data[: PACKING.size]), strict=True))
        end = system.graph.link(header["link"])
        assert links[packet.interface] == header["link"]
        way = 2 if end.source_is_node else 1 if end.target_is_node else None
        assert options.get(2) == (None if way is None else way.to_bytes(4, "little"))
        name = system.graph.link_name(header["link"])
        lost = f"lost on link{header['link']} {name}".encode()
        assert options.get(1) == (lost if header["passage"] == Passage.LOST else None)
        found[way, header["passage"]] += 1
    assert {way for way, _ in found} == {None, 1, 2} and {lost for _, lost in found} == {0, 1}


def test_which_links():
    system = System.make()
    graph = system.graph
    assert links_of(system, "nodes") == [*range(32)]
    assert links_of(system, "node3") == [3, 19]
    assert links_of(system, "40-42, link5,5") == [5, 40, 41, 42]
    assert (
        links_of(system, "all")
        == [*range(graph.link_count)]
        == sorted({*links_of(system, "nodes"), *links_of(system, "routers")})
    )
    found = links_of(system, "router5")
    assert found and all("router5." in graph.link_name(number) for number in found)
    assert len(found) == sum("router5." in graph.link_name(number) for number in range(graph.link_count))


@pytest.mark.parametrize(
    ("told", "error"),
    [
        ("99999", "99999: no such links; the network has links 0 to 63"),
        ("9-3", "9-3: no such links"),
        ("node16", "node16: no such node; the network has nodes 0 to 15"),
        ("router8", "router8: no such router; the network has routers 0 to 7"),
        ("eth0", "'eth0': names no links; give nodes, node3, routers, router1, 12, 12-20 or all"),
        ("", "'': names no links"),
    ],
)
def test_links_that_are_not_there(told, error):
    with pytest.raises(LinksError, match=error):
        links_of(System.make(), told)


def test_a_network_without_routers():
    with pytest.raises(LinksError, match="routers: there are no such links in this network; choose others, or nodes"):
        links_of(System.make(topology={"kind": "wire"}), "routers")
