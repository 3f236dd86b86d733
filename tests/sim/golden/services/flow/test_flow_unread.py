"""Ports that nobody reads, flooded with messages of a byte: sockets beside them go on."""

import pytest

from lethe_sim.golden.services.flow.state import SlotRow
from tests.helpers.flow_oracle import flow_system
from tests.helpers.flow_sockets import Flood, Socket

#: Cycles until a flood has done what it can, and until the sockets beside it are counted.
FLOODED, COUNTED = 8_000, 16_000
#: Ports of node 0 that nobody reads.
UNREAD = 4
UNREAD_MASK = (1 << UNREAD) - 1


def held(flood: Flood, node: int) -> int:
    """Slots of a node with a message to a port that is not read."""
    flow = flood.at(node)
    rows = [SlotRow(flow, int(flow.at_rows), slot) for slot in range(int(flow.data_slots))]
    return sum(int(row.under_way) for row in rows if row.destination == 0 and row.index < UNREAD)


@pytest.mark.parametrize(
    ("nodes", "most", "sections"),
    [
        pytest.param(2, 0, {}, marks=pytest.mark.push),
        (3, 0, {}),
        (4, 6, {"topology": {"kind": "tree", "levels": 2, "arity": 2}, "flow": {"cells": 16, "in_order": 8}}),
        pytest.param(5, 8, {"faults": {"loss": 0.05}}, marks=pytest.mark.push),
    ],
)
def test_sockets_go_on_beside_ports_that_nobody_reads(nodes, most, sections):
    """Every node but 0 floods four ports of node 0 with messages of a byte, and has sockets to a port of 0 that is
    read, and to one of another node.  A port becomes congested by its cells, long before it would by its bytes; what
    was under way by then has the cells that are left, and few of it stays in its slot.  In the end all is read.
    """
    given = {"ports": 16, "cells": 32, "in_order": 8} | sections.get("flow", {})
    system = flow_system(nodes, **{**sections, "flow": given, "wire": {"mtu": 264}})
    flooding = [Socket(node, port, 0, port) for node in range(1, nodes) for port in range(UNREAD)]
    living = [Socket(node, 8, 0, 8) for node in range(1, nodes)]
    living += [Socket(node, 9, (node + 1) % nodes, 9) for node in range(1, nodes)]
    flood = Flood(system, flooding + living)
    flood.flow.receive(0, 0xFFFF & ~UNREAD_MASK)
    flood.run(FLOODED)
    assert int(flood.at(0).congested) & UNREAD_MASK == UNREAD_MASK
    assert max(held(flood, node) for node in range(1, nodes)) <= most < int(flood.at(1).data_slots)
    flood.run(COUNTED)
    assert max(held(flood, node) for node in range(1, nodes)) <= most
    assert min(sum(cycle >= FLOODED for cycle in socket.taken) for socket in living) > 25
    assert not any(socket.taken for socket in flooding)
    flood.flow.receive(0, 0xFFFF)
    flood.run(COUNTED + 3 * FLOODED, sends=False)
    assert [len(socket.taken) for socket in flood.sockets] == [socket.sent for socket in flood.sockets]
    assert flood.flow.idle and int(flood.at(0).congested) == 0
