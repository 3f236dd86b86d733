"""The driver over the golden model: what the plain transport stands for is what hardware does."""

import errno

import pytest

from lethe_sim.rds import RdsNetwork, stress
from lethe_sim.rds import constants as rds
from lethe_sim.rds.golden import GoldenFlow
from lethe_sim.rds.transport import FIRST, LAST, NOWAIT, FlowRecord, Happening, Noticed
from tests.helpers.flow_oracle import flow_system
from tests.helpers.rds_sockets import bound, raises, until_quiet

A, B = ("10.0.0.1", 4001), ("10.0.0.2", 4002)


def network(nodes: int = 2, **sections) -> RdsNetwork:
    shape = {"flow": {"ports": 16, "cells": 24, "in_order": 8}}
    return RdsNetwork(GoldenFlow(flow_system(nodes, **{**shape, **sections})))


def test_messages_of_every_length_to_a_peer_and_to_the_own_node():
    with network() as one:
        a, b, own = bound(one, 0, 4001), bound(one, 1, 4002), bound(one, 0, 4003)
        for length in (0, 1, 31, 32, 33, 500):
            payload = bytes(range(256))[:length] * (1 + length // 256)
            for receiver in (b, own):
                a.sendto(payload, receiver.getsockname())
                assert receiver.recvfrom(2000) == (payload, A)
        a.sendto(b"", ("10.0.0.2", 0))
        assert a.recvfrom(9) == (b"", ("10.0.0.2", 0))
        assert one.information(0).streams[-1].next_tx > 0


def test_a_message_is_cut_to_what_a_socket_may_have_under_way():
    """`flow.send_limit` may be less than the MTU; flow refuses what is longer for ever."""
    with network(flow={"ports": 16, "send_limit": 16}) as one:
        a, b = bound(one, 0, 4001), bound(one, 1, 4002)
        a.sendto(b"x" * 17, B)
        assert b.recv(99) == b"x" * 17
        a.drain()
        assert one.information(0).counters["send_again"] == 0


def test_a_port_that_is_full_refuses_and_recovers():
    """RDS-10, RDS-15, RDS-16, RDS-23."""
    with network() as one:
        a, b, other = bound(one, 0, 4001), bound(one, 1, 4002), bound(one, 1, 4003)
        b.setsockopt(rds.SOL_SOCKET, rds.SO_RCVBUF, 100)
        a.setsockopt(rds.SOL_RDS, rds.RDS_CONG_MONITOR, 1)
        sent = 0
        with raises(errno.ENOBUFS):
            while sent < 200:
                sent += a.sendto(bytes([sent]), rds.MSG_DONTWAIT, B)
                one.run(60)
        assert sent >= 100
        a.sendto(b"elsewhere", ("10.0.0.2", 4003))
        assert other.recv(99) == b"elsewhere"
        assert [b.recv(9) for _ in range(sent)] == [bytes([n]) for n in range(sent)]
        assert a.poll(rds.POLLIN, 3000) == rds.POLLIN
        assert a.recvmsg(0).ancdata[0][1] == rds.RDS_CMSG_CONG_UPDATE


def test_a_node_that_is_reset_is_bound_again():
    """RDS-42."""
    resets = [{"node": 1, "start": 1500, "cycles": 4}, {"node": 0, "start": 4500, "cycles": 2}]
    with network(faults={"resets": resets}) as one:
        a, b = bound(one, 0, 4001), bound(one, 1, 4002)
        for at in (1000, 3000, 6000):
            one.run(max(0, at - one.cycle))
            a.sendto(b"%d" % at, B)
            assert b.recv(99) == b"%d" % at
        assert one.information(0).counters["conn_reset"] == 1


@pytest.mark.parametrize("to", [0, 1])
def test_a_port_that_is_read_empty_is_congested_no_more(to):
    """RDS-16: also if all nodes are idle before the turn of the port comes."""
    with network() as one:
        a, b, address = bound(one, 0, 4001), bound(one, to, 4002), (f"10.0.0.{to + 1}", 4002)
        b.setsockopt(rds.SOL_SOCKET, rds.SO_RCVBUF, 16)
        for pause in range(30, 121, 6):
            for _ in range(4):
                a.sendto(bytes(20), address)
            for _ in range(4):
                one.run(pause)
                b.recv(99)
            one.run(1000)
            assert not one.nodes[0].outbox.congested(to, 4002), pause


@pytest.mark.parametrize("loss", [0.0, 0.05])
def test_a_stress(loss):
    with network(3, faults={"loss": loss}) as one:
        addresses = [one.addresses.of(node) for node in range(3)]
        running = stress.Running(one, addresses, stress.Stress(tasks=6, request=40, ack=20, depth=2, cycles=1500))
        intervals = list(running.run())
        assert sum(i.requests for i in intervals) == sum(i.acks for i in intervals) > 20
        running.close()
        until_quiet(one)


def test_a_node_that_dies_is_told_and_others_go_on():
    """A reset while it is dead changes nothing, nor does what it is asked; the network can be idle."""
    faults = {"deaths": [{"node": 1, "start": 4000}], "resets": [{"node": 1, "start": 4500, "cycles": 4}]}
    with network(3, timers={"ack_limit": 20}, workload={"retry_limit": 9}, faults=faults) as one:
        a, b, c = bound(one, 0, 4001), bound(one, 1, 4002), bound(one, 2, 4003)
        a.sendto(b"x", B)
        assert b.recv(9) == b"x"
        one.run(3990 - one.cycle)
        assert b.poll(rds.POLLIN, 100) == rds.POLLIN and one.cycle == 4001
        with raises(errno.ENETDOWN, "node 1 is dead from cycle 4,000 on"):
            b.recv(9)
        one.run(1000)
        b.close()
        with raises(errno.ENETDOWN, "node 1 is dead from cycle 4,000 on"):
            bound(one, 1, 4005)
        a.sendto(b"y", ("10.0.0.3", 4003))
        assert c.recv(9) == b"y"


def test_a_peer_that_comes_up_while_all_nodes_are_idle_is_noticed():
    """It is looked for some time after what was refused, when nothing else is under way."""
    with network(faults={"resets": [{"node": 1, "start": 2000, "cycles": 4}]}) as one:
        a, b, flow = bound(one, 0, 4001), bound(one, 1, 4002), one.transport
        a.sendto(b"", B)
        b.recv(9)
        one.run(3500 - one.cycle)
        noticed: list[Happening] = []
        for until in (4000, 7000):  # the first meets the reset, the second asks for the peer
            flow.send(0, FlowRecord(1, 4001, 4002, FIRST | LAST | NOWAIT, 0, b"refused"))
            while flow.cycle < until:
                noticed += [event for event in flow.advance(until - flow.cycle) if isinstance(event, Noticed)]
        assert [(event.node, event.peer, event.up) for event in noticed] == [(0, 1, False), (0, 1, True)]


def test_a_host_that_is_stalled_takes_a_message_once():
    with network(faults={"stalls": [{"node": 1, "start": 200, "end": 900}]}) as one:
        a, b = bound(one, 0, 4001), bound(one, 1, 4002)
        for number in range(5):
            a.sendto(bytes([number]) * 50, B)
        assert [b.recv(99) for _ in range(5)] == [bytes([number]) * 50 for number in range(5)]
        until_quiet(one)
        assert b.poll(rds.POLLIN, 0) == 0 and one.cycle > 900


def test_a_system_without_flow_is_refused():
    with pytest.raises(ValueError, match=r"flow\.ports: is 0, so there are no ports; set it to 2, 4, 8 or 16"):
        GoldenFlow(flow_system(flow={"ports": 0}))
