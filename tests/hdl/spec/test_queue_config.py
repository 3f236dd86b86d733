"""Input queues and pools in a configuration: what they need, and what they change."""

import pytest

from lethe.spec.config import ConfigError, System
from lethe.spec.trace import Layout
from lethe_sim.summary import summary

TREE = {"kind": "tree", "arity": 4, "levels": 2}


def refused(**sections) -> str:
    with pytest.raises(ConfigError) as error:
        System.make(**sections)
    return str(error.value)


@pytest.mark.parametrize(
    ("router", "said"),
    [
        ({"queue": 3}, "router.queue: must be 0, 1, 2 or 4, not 3; choose one of these"),
        ({"queue": 8}, "router.queue: must be 0, 1, 2 or 4, not 8; choose one of these"),
        ({"queue": 1, "max_wait": 0}, "router.max_wait: must be 1 to 65535, not 0; choose a value in that range"),
        ({"max_wait": 65536}, "router.max_wait: must be 1 to 65535, not 65536; choose a value in that range"),
    ],
)
def test_sizes(router, said):
    assert refused(router=router) == f"(configuration): {said}"


def test_the_key_of_a_pinned_path_is_in_the_first_flit():
    """3 bits of kind, 4 of each node, 6 of the slot: 17."""
    sections = {"topology": TREE, "wire": {"flit_bits": 16}, "ni": {"slots": 64}}
    System.make(**sections)
    said = refused(**sections, router={"queue": 1})
    assert "must fit the first flit, but take 17 bits; set wire.flit_bits = 32" in said
    System.make(topology=TREE, wire={"flit_bits": 16}, ni={"slots": 32}, router={"queue": 1})
    # Where no path is pinned, nothing reads the key.
    for kind in ({"kind": "mesh"}, {"kind": "fly"}, {"kind": "tree", "arity": 16, "levels": 1}):
        System.make(**{**sections, "topology": kind}, router={"queue": 1})


def test_lanes_of_a_crossbar_are_numbered_with_eight_bits():
    System.make(topology={"kind": "crossbar", "nodes": 128}, router={"queue": 1})
    said = refused(topology={"kind": "crossbar", "nodes": 129}, router={"queue": 1})
    assert "router.queue: needs routers of at most 128 ports, not 129; leave it at 0" in said


def test_a_link_that_dies_for_ever_cuts_pinned_paths():
    """Without queues another way up is left; with them some pair and slot has none."""
    link = next(
        number
        for number, end in enumerate(System.make(topology=TREE).graph.links)
        if not end.source_is_node and not end.target_is_node
    )
    dead = {"links": [{"link": link, "start": 10, "end": 1 << 41}]}
    System.make(topology=TREE, faults=dead)
    said = refused(topology=TREE, faults=dead, router={"queue": 1})
    assert f"faults.links: with router.queue paths are pinned, and those over link {link} (router" in said
    for ends in ({"retry_limit": 5}, {"deadline": 5000}):
        System.make(topology=TREE, faults=dead, router={"queue": 1}, workload=ends)
    System.make(topology=TREE, faults={"links": [{"link": link, "start": 10, "end": 500}]}, router={"queue": 1})


def test_of_parallel_links_up_each_is_the_only_way_and_of_those_down_none_is():
    """Where paths are pinned."""
    sections = {"topology": TREE, "study": {"path": "pinned", "dilation": 2}}
    graph = System.make(**sections).graph
    between = range(2 * graph.nodes, graph.link_count)
    up, down = (next(n for n in between if (graph.link(n).source < graph.link(n).target) == up) for up in (True, False))
    bundle = sorted(graph.bundle(down))

    def dead(*links):
        return {"links": [{"link": link, "start": 10, "end": 1 << 41} for link in links]}

    assert len(bundle) == 2
    for link in bundle:
        System.make(**sections, faults=dead(link))
    for links in ([up], bundle):
        assert f"paths are pinned, and those over link {links[0]} " in refused(**sections, faults=dead(*links))


def test_packet_life_counts_the_wait():
    plain, queued = (System.make(topology=TREE, router={"queue": queue, "max_wait": 50}) for queue in (0, 2))
    flits, hops = plain.format.max_flits, 3
    assert queued.packet_life - plain.packet_life == hops * (2 * (50 + flits + 3) + flits + 2)


def test_two_lanes_an_input():
    plain, queued = (System.make(topology=TREE, router={"queue": queue}).graph for queue in (0, 1))
    assert [plain.lanes(0), queued.lanes(0)] == [8, 16]
    layouts = Layout(plain), Layout(queued)
    assert layouts[1].router_base(1) - layouts[1].router_base(0) == 16
    assert len({layout.words - layout.link_base for layout in layouts}) == 1


def test_the_summary_tells_of_queues():
    told = [list(summary(System.make(topology=TREE, router={"queue": queue, "max_wait": 50}))) for queue in (0, 1, 2)]
    assert not any("room for" in line for line in told[0])
    assert any("room for one worm, for 67 cycles at most" in line for line in told[1])
    assert any("room for 2 worms, for 126 cycles at most" in line for line in told[2])


def test_the_summary_tells_of_a_pool():
    told = [list(summary(System.make(topology=TREE, router={"pool": pool}))) for pool in (0, 8)]
    assert not any("room for" in line for line in told[0])
    assert any("each router has room for 8 worms of all inputs" in line for line in told[1])
    assert not any("up-port" in line or "pass" in line for line in told[1])
    order = {"pool": 8, "pool_path": "any", "control_first": 24}
    told = [*summary(System.make(topology=TREE, router=order, ni={"linger": -1}))]
    assert any("a worm takes any up-port that is free" in line for line in told)
    assert any("Acks and Forgets pass what came into the pool up to 24 cycles before them" in line for line in told)


@pytest.mark.parametrize(
    ("router", "said"),
    [
        ({"pool": -1}, "router.pool: must be 0 to 64, not -1; choose a value in that range"),
        ({"pool": 65}, "router.pool: must be 0 to 64, not 65; choose a value in that range"),
        (
            {"pool": 8, "queue": 1},
            "router.pool: a router has input queues or a pool, not both; leave router.queue or router.pool at 0",
        ),
        (
            {"pool": 8, "flow": "credits"},
            "router.pool: with credits each input has a buffer of its own; leave it at 0",
        ),
    ],
)
def test_sizes_of_a_pool(router, said):
    assert f"(configuration): {said}" in refused(topology=TREE, router=router)


def test_a_pool_needs_what_queues_need():
    sections = {"topology": TREE, "wire": {"flit_bits": 16}, "ni": {"slots": 64}, "router": {"pool": 8}}
    assert "router.pool: kind, destination, source and slot must fit the first flit" in refused(**sections)
    said = refused(topology={"kind": "crossbar", "nodes": 129}, router={"pool": 1})
    assert "router.pool: needs routers of at most 128 ports, not 129; leave it at 0" in said
    graph = System.make(topology=TREE).graph
    link = next(n for n, end in enumerate(graph.links) if not end.source_is_node and not end.target_is_node)
    dead = {"links": [{"link": link, "start": 10, "end": 1 << 41}]}
    said = refused(topology=TREE, faults=dead, router={"pool": 1})
    assert f"faults.links: with router.pool paths are pinned, and those over link {link} (router" in said


def test_a_pool_with_any_up_port_needs_less():
    """No field but kind and destination is read from a first flit, and a dead link up has others beside it."""
    order, ni = {"pool": 8, "pool_path": "any"}, {"linger": -1}
    System.make(topology=TREE, wire={"flit_bits": 16}, ni=ni | {"slots": 64}, router=order)
    system = System.make(topology=TREE, ni=ni, router=order)
    up = next(
        n
        for n, end in enumerate(system.graph.links)
        if not end.source_is_node and not end.target_is_node and end.source < end.target
    )
    dead = {"links": [{"link": up, "start": 10, "end": 1 << 41}]}
    System.make(topology=TREE, ni=ni, router=order, faults=dead)
    assert "with router.pool paths are pinned" in refused(topology=TREE, ni=ni, router={"pool": 8}, faults=dead)


def test_packet_life_counts_the_wait_in_a_pool():
    plain, pooled = (System.make(topology=TREE, router={"pool": pool}) for pool in (0, 8))
    assert pooled.packet_life - plain.packet_life == 3 * (8 * (plain.format.max_flits + 1) + 9)
    passed = pooled.replace(router={"control_first": 24}, ni={"linger": -1})
    assert passed.packet_life - pooled.packet_life == 3 * 24 and passed.linger == passed.packet_life + 6


@pytest.mark.parametrize(
    ("topology", "router", "said"),
    [
        (
            TREE,
            {"flow": "credits", "credit_channels": 3},
            "router.credit_channels: must be 1, 2 or 4, not 3; choose one of these",
        ),
        (
            TREE,
            {"flow": "credits", "credit_path": "free"},
            "router.credit_path: no such choice 'free'; choose pinned or adaptive",
        ),
        (
            {"kind": "mesh"},
            {"flow": "credits", "credit_path": "adaptive"},
            'router.credit_path: a mesh with one channel has no choice; set it to "pinned"',
        ),
        *(
            (
                TREE,
                router,
                f"router.{next(iter(router))}: a network that discards has no virtual channels; leave it out, or set "
                'flow = "credits"',
            )
            for router in ({"credit_channels": 2}, {"credit_path": "adaptive"})
        ),
    ],
)
def test_channels(topology, router, said):
    assert f"(configuration): {said}" in refused(topology=topology, router=router)


def test_a_pinned_channel_needs_the_key_in_the_first_flit_and_a_free_one_does_not():
    sections = {"wire": {"flit_bits": 16}, "ni": {"slots": 64}}
    for topology in (TREE, {"kind": "mesh"}):
        router = {"flow": "credits", "credit_channels": 2}
        said = refused(**sections, topology=topology, router=router)
        assert "router.flow: kind, destination, source and slot must fit the first flit, but take 17 bits" in said
        System.make(**sections, topology=topology, router=router | {"credit_path": "adaptive"})
