"""The routes in hardware are those of `Topology.route`, for every router, port and destination."""

import pytest
from amaranth.hdl import Cat, Const, Module, Signal

from lethe.fabric.routes import Rule
from lethe.spec.config import System
from lethe.spec.topology import NOWHERE, UP
from tests.helpers.fabric_bench import run

SHAPES = [
    {"kind": "tree", "arity": 2, "levels": 3},
    {"kind": "tree", "arity": 4, "levels": 2},
    {"kind": "tree", "arity": 3, "levels": 3},
    {"kind": "tree", "arity": 4, "levels": 1},
    {"kind": "fly", "arity": 2, "levels": 3},
    {"kind": "fly", "arity": 3, "levels": 2},
    {"kind": "mesh", "columns": 4, "rows": 4},
    {"kind": "mesh", "columns": 3, "rows": 5},
    {"kind": "mesh", "columns": 1, "rows": 3},
    {"kind": "mesh", "columns": 5, "rows": 1},
    {"kind": "crossbar", "nodes": 5},
]


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "-".join(map(str, shape.values())))
def test_every_route(shape, wide):
    graph = System.make(topology=shape).graph
    bits = max(1, (graph.nodes - 1).bit_length()) + wide
    shapes = {Rule.of(graph, r): r for r in range(graph.routers)}
    m = Module()
    m.d.sync += Signal().eq(0)
    destination = Signal(bits)
    positions = {rule: Signal(rule.position_bits, name=f"position{i}") for i, rule in enumerate(shapes)}
    found = {}
    for rule in shapes:
        for port in range(rule.ports):
            fixed, up = rule.route(port, destination, positions[rule])
            found[rule, port] = Signal(rule.ports + 1)
            wanted = Cat(fixed.get(o, Const(0, 1)) for o in range(rule.ports))
            m.d.comb += found[rule, port].eq(Cat(wanted, Const(0, 1) if up is None else up))

    async def testbench(ctx):
        for router in range(graph.routers):
            rule = Rule.of(graph, router)
            assert (rule.ports, rule.up_ports) == (graph.ports(router), graph.up_ports(router))
            ctx.set(positions[rule], rule.position(router))
            for node in range(1 << bits):
                ctx.set(destination, node)
                for port in range(rule.ports):
                    route = graph.route(router, port, node)
                    expected = 0 if route == NOWHERE else 1 << (rule.ports if route == UP else route)
                    assert ctx.get(found[rule, port]) == expected, (router, port, node)

    run(m, testbench)


def test_impossible_turns_have_no_logic():
    graph = System.make(topology={"kind": "tree", "arity": 4, "levels": 2}).graph
    rule = Rule.of(graph, 0)
    assert [rule.turns(i) for i in (0, 4)] == [(1, 2, 3), (0, 1, 2, 3)]
    assert [rule.may_climb(i) for i in (3, 4)] == [True, False]
    mesh = Rule.of(System.make(topology={"kind": "mesh"}).graph, 5)
    assert mesh.turns(3) == (0, 4)
    assert mesh.turns(1) == (0, 2, 3, 4)
