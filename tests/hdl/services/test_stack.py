"""The stack: services fold onto an NI, whatever they are, and without any there is nothing."""

import re

import pytest
from amaranth.sim import Simulator

from lethe.services import stack
from lethe.services.stack import Node
from lethe.spec import services
from lethe.spec.config import System
from lethe.spec.events import Counter, Event, LoopCounter
from lethe.spec.services.loop import LOOP
from lethe.statistics import LATENCY
from lethe.system import SystemTop
from lethe.verilog import emit
from tests.hdl.services.order import ORDER, WINDOW, Order
from tests.helpers.ni_bench import Bench
from tests.helpers.rtl_flow_bench import flow_system
from tests.helpers.tiers import but

SECTIONS = {
    "topology": {"kind": "wire"},
    "wire": {"mtu": 24},
    "ni": {"slots": 4, "sets": 4, "ways": 2},
    "timers": {"jitter_bits": 0},
}


@pytest.fixture
def ordered(monkeypatch):
    """The ordering service is in the tables."""
    monkeypatch.setattr(services, "SERVICES", (LOOP, ORDER))
    monkeypatch.setitem(stack.UNITS, "order", Order)


def numbered(system: System, *, rounds: int = 3) -> tuple[list[list[int]], Bench]:
    """The numbers of the datagrams that came to each node, from the other one, which sends a window at a time.

    With a loop each node also sends one to itself after each window.
    """
    bench, begun = Bench(system, loss=0.25, seed=5, make=Node), [0]

    def offer(bench, ctx):
        if system.loop.slots:
            for node in bench.nis:
                ctx.set(node.host.deliver_loop.ready, 1)
        if begun[0] < rounds and come(bench) == 2 * WINDOW * begun[0]:
            for number in range(begun[0] * WINDOW, (begun[0] + 1) * WINDOW):
                for node, host in enumerate(bench.hosts):
                    host.offers.append(({"destination": 1 - node}, bytes([number, *range(number)])))
            for node, host in enumerate(bench.hosts if system.loop.slots else ()):
                host.offers.append(({"destination": node, "tag": 99}, b""))
            begun[0] += 1

    def come(bench) -> int:
        return sum(len(host.delivered) for host in bench.hosts)

    def ends(host) -> int:
        return len(host.completions)

    each = rounds * (WINDOW + (system.loop.slots > 0))
    bench.hooks.append(offer)
    assert bench.run(10_000, until=lambda b: come(b) == 2 * WINDOW * rounds and min(map(ends, b.hosts)) == each)
    for node, host in enumerate(bench.hosts):
        assert all(source == 1 - node and text[1:] == bytes(range(text[0])) for source, _, text in host.delivered)
        assert sum(end["tag"] == 99 for end in host.completions) == rounds * (system.loop.slots > 0)
    return [[text[0] for *_, text in host.delivered] for host in bench.hosts], bench


@pytest.mark.parametrize("loop", but([2], [0, 2]))
def test_a_service_nobody_foresaw_restores_the_order(ordered, loop):
    """Alone on an NI, and on top of a loop, over links that lose every fourth message."""
    system = System.make(**SECTIONS, loop={"slots": loop})
    found, bench = numbered(system)
    assert system.services == ((LOOP, ORDER) if loop else (ORDER,))
    assert found == [list(range(3 * WINDOW))] * 2
    assert len(bench.kinds(0, Event.REPEAT)) > 2


@pytest.mark.full
def test_without_it_they_come_in_another_order():
    found, _ = numbered(System.make(**SECTIONS, loop={"slots": 2}))
    assert all(numbers != sorted(numbers) == list(range(3 * WINDOW)) for numbers in found)


def test_a_node_has_the_counters_of_its_services_behind_those_of_its_ni(ordered):
    """Each at its level, one cycle after its address, whatever was asked before."""
    system = System.make(**SECTIONS, loop={"slots": 2})
    node = Node(system, watch=False, dump=False)
    read = {}

    async def process(ctx):
        host = node.host
        for name, value in (("node", 1), ("seed", 1), ("incarnation", 1), ("link_enable", 1)):
            ctx.set(getattr(node, name), value)
        for port in (host.completion, host.deliver_loop):
            ctx.set(port.ready, 1)
        await ctx.tick().until(host.ready)
        for destination in (1, 1, 0, 1):
            ctx.set(host.send.payload, {"destination": destination})
            ctx.set(host.send.valid, 1)
            await ctx.tick().until(host.send.ready)
        ctx.set(host.send.valid, 0)
        await ctx.tick().repeat(20)
        step = system.service_counter_step
        addresses = [
            Counter.ACCEPTED,
            *(system.counter_step + c for c in LoopCounter),
            system.counter_step + step,
            Counter.ACKS,
        ]
        for address in addresses:
            ctx.set(node.counter_address, address)
            await ctx.tick().repeat(LATENCY)
            read[address] = ctx.get(node.counter_data)

    simulator = Simulator(node)
    simulator.add_clock(1e-6)
    simulator.add_testbench(process)
    simulator.run()
    assert list(read.values()) == [1, 3, 3, 3, 0, 0]


@pytest.mark.push
def test_nodes_of_a_system_share_the_module_of_a_service_that_is_told_of_resets():
    """Verilog has flow once, and each node's own has its boot."""
    text = emit(SystemTop(flow_system(), watch=False), "top")
    assert text.count("module lethe_flow(") == 1 and len(re.findall(r"\blethe_flow \S+ \(", text)) == 2
