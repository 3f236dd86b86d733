"""Two whole nodes over a wire: streams open, come in order through losses, cancels and resets, and end idle."""

import pytest

from lethe.spec.events import Cause, Event, Status
from lethe.spec.services.flow import Code, Out
from tests.helpers.rtl_flow_bench import FlowBench, flow_system

LONGEST = 40000


def payload(source: int, stream: int, number: int, length: int) -> bytes:
    """What message ``number`` of a stream says."""
    return bytes((source * 131 + stream * 31 + number * 7 + at) & 0xFF for at in range(length))


def offers(bench: FlowBench, source: int, messages: int, *, ports: int = 4, **record) -> dict[int, list[bytes]]:
    """MessagesOut of all lengths to the ports of the other node in turn; those of each port."""
    given: dict[int, list[bytes]] = {port: [] for port in range(ports)}
    for number in range(messages):
        port = number % ports
        told = payload(source, port, number, number * 5 % (bench.system.flow_mtu + 1))
        bench.hosts[source].send(1 - source, told, sport=port, dport=port, tag=number, **record)
        given[port].append(told)
    return given


def got(bench: FlowBench, node: int) -> dict[int, list[bytes]]:
    found: dict[int, list[bytes]] = {}
    for record, told in bench.hosts[node].delivered:
        found.setdefault(record["dport"], []).append(told)
    return found


def placed_once(bench: FlowBench, node: int) -> None:
    """Each number of a stream is placed once, in its order."""
    for index in range(bench.system.flow.ports):
        numbers = [e[2] for e in bench.seen(node, Event.FLOW_PLACE) if e[5] == index]
        assert numbers == [n & 0xFF for n in range(len(numbers))]


@pytest.mark.full
def test_messages_both_ways_through_a_link_that_loses_every_third_worm():
    """Delivered once, in order, whole, to hosts that pause; then both nodes are idle, and all is accounted for."""
    bench = FlowBench(flow_system(), lost=lambda node, number, cycle: number % 3 == 2)
    given = [offers(bench, source, 8) for source in (0, 1)]
    for host in bench.hosts:
        host.pause = 0.2
    assert bench.run(LONGEST, until=lambda: bench.cycle > 100 and bench.all_idle()), bench.cycle
    for node in (0, 1):
        assert got(bench, node) == given[1 - node]
        placed_once(bench, node)
        ends = bench.hosts[node].completions
        assert sorted(end["tag"] for end in ends) == list(range(8))
        assert all((end["status"], end["cause"]) == (Status.ACCEPTED, Cause.NONE) for end in ends)
        assert [notice[:2] for notice in bench.hosts[node].notices][:1] == [(1 - node, 1)]
        assert {e[2] for e in bench.seen(node, Event.FLOW_HEARD)} >= {Code.PING, Code.PONG, Code.WINDOW}
        assert len(bench.hosts[node].accepted) == 8


@pytest.mark.full
def test_a_port_that_is_not_read():
    """Its cells fill, it is congested, and its sender waits; then it is read, and all comes."""
    bench = FlowBench(flow_system())
    host, other = bench.hosts[0], bench.hosts[1]
    told = [payload(0, 2, number, 32) for number in range(12)]
    for number, message in enumerate(told):
        host.send(1, message, dport=2, tag=number)
    other.mask = 0b1011

    def each(cycle):
        if cycle == 900:
            assert not other.delivered and len(host.offers) + len(host.beats) > 0
            assert [e[2] for e in bench.seen(1, Event.FLOW_CONGESTED)] == [1]
            assert host.notices[-1] == (1, 1, 0b0100)
            other.mask = 0xF

    assert bench.run(LONGEST, until=lambda: bench.cycle > 1000 and bench.all_idle(), each=each)
    assert got(bench, 1) == {2: told}
    placed_once(bench, 1)
    assert bench.seen(1, Event.FLOW_CONGESTED)[-1][2] == 0 and host.notices[-1] == (1, 1, 0)


@pytest.mark.push
def test_a_cancelled_message_is_passed_over():
    """The first of a stream is lost, repeated and cancelled: VOID; those behind it come, the first of them with gap."""
    system = flow_system(flow={"ports": 4, "cells": 6, "in_order": 2, "watch": 512})
    bench = FlowBench(system, lost=lambda node, number, cycle: node == 0 and 150 < cycle < 420)
    host = bench.hosts[0]
    told = [payload(0, 1, number, 16) for number in range(3)]
    host.send(1, b"first", dport=1, tag=99)
    for number, message in enumerate(told):
        host.send(1, message, dport=1, tag=number)

    def each(cycle):
        if cycle == 400:
            assert host.accepted and host.accepted[0][2] == 99
            host.cancels.append(host.accepted[0][:2])

    assert bench.run(LONGEST, until=lambda: bench.cycle > 450 and bench.all_idle(), each=each)
    ended = {end["tag"]: (end["status"], end["cause"]) for end in host.completions}
    assert ended.pop(99) == (Status.UNKNOWN, Cause.CANCELLED)
    assert ended == dict.fromkeys(range(3), (Status.ACCEPTED, Cause.NONE))
    assert got(bench, 1) == {1: told}
    assert [record["gap"] for record, _ in bench.hosts[1].delivered] == [1, 0, 0]
    assert [record["seq"] for record, _ in bench.hosts[1].delivered] == [1, 2, 3]
    assert Code.VOID in {e[2] for e in bench.seen(1, Event.FLOW_HEARD)}


@pytest.mark.full
def test_a_reset_of_one_end():
    """What was under way ends; both open again, with a sweep, and what is sent afterwards arrives once and in order."""
    bench = FlowBench(flow_system(), lost=lambda node, number, cycle: number % 5 == 4)
    before = offers(bench, 0, 12)
    bench.resets[1] = (300, 310)
    later: dict[int, list[bytes]] = {}

    def each(cycle):
        if cycle == 1800:
            later.update(offers(bench, 0, 8))
            later.update({10 + port: told for port, told in offers(bench, 1, 8).items()})

    assert bench.run(LONGEST, until=lambda: bench.cycle > 1900 and bench.all_idle(), each=each), bench.cycle
    states = [e[2] for e in bench.seen(0, Event.FLOW_PEER)]
    assert states == [Out.CONNECTING, Out.UP, Out.LEAVING, Out.ERROR, Out.CONNECTING, Out.UP]
    assert bench.seen(1, Event.FLOW_RESET)
    ends = bench.hosts[0].completions
    assert len(ends) == 20 and len(bench.hosts[1].completions) == 8
    fresh = got(bench, 1)
    for port in range(4):
        assert fresh[port][-2:] == later[port]
        assert all(told in before[port] for told in fresh[port][:-2])
        assert got(bench, 0)[port] == later[10 + port]


@pytest.mark.full
def test_messages_to_the_own_node():
    bench = FlowBench(flow_system())
    host = bench.hosts[0]
    told = [payload(0, 3, number, number * 4) for number in range(9)]
    for number, message in enumerate(told):
        host.send(0, message, sport=1, dport=3, tag=number, flags=0x77)
    host.send(0, b"nobody", dport=7, tag=77)
    assert bench.run(4000, until=lambda: bench.cycle > 100 and bench.all_idle())
    assert got(bench, 0) == {3: told}
    assert all((end["slot"], end["status"]) == (8, Status.ACCEPTED) for end in host.completions)
    assert [end["generation"] for end in host.completions] == list(range(10))
    assert {(r["source"], r["sport"], r["flags"], r["seq"]) for r, _ in host.delivered} == {(0, 1, 0x77, 0)}
