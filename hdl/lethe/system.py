"""A whole network: hosts, NIs, fabric, faults (cycle contract, sections 5 to 8)."""

from dataclasses import replace
from functools import partial
from itertools import pairwise

from amaranth.hdl import Array, Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from lethe.fabric.fabric import Fabric
from lethe.fabric.schedule import BOOT_BITS, Schedule
from lethe.host import host_signature
from lethe.layouts import flit_layout
from lethe.lib.random import seed_of
from lethe.ni.ni import Ni
from lethe.ni.watch import padded
from lethe.services.stack import booted, service_counters, stacked
from lethe.spec.config import System
from lethe.spec.events import ROUTER_COUNTER_STEP, RouterCounter
from lethe.spec.random import UNIT_GENERATOR, UNIT_NI
from lethe.spec.trace import PORT_WORDS, WORD_BITS
from lethe.statistics import LATENCY, Statistics
from lethe.traffic.host import Traffic
from lethe.traffic.script import Script
from lethe.traffic.tree_player import CYCLE_BITS, TreePlayer
from lethe.verilog import shared

__all__ = ["HOSTS", "FabricTop", "SystemTop"]

#: Who plays the hosts: generators and checkers in the RTL, words from outside, or whoever is on the NIs' host ports.
HOSTS = ("generator", "stimulus", "ports")

SUMS = ("sent", "sent_sum", "received", "received_sum", "wrong")


class SystemTop(wiring.Component):
    """All NIs of a configuration, joined by its fabric, with its faults, and with hosts.

    A fault, a schedule, a statistics block or the watch words that the configuration or the user leaves out cost
    nothing: without schedule there is not even a cycle counter, and what only feeds ``watch`` is removed by
    synthesis when ``watch`` is not connected.

    Parameters
    ----------
    system : the configuration
    host : "generator" for the generators and checkers of section 5, "stimulus" for the words of section 8, "ports" for
        the host ports of every NI; these stall as they like, so ``system.faults.stalls`` must be empty
    watch : whether there are ``watch`` ports
    seeded : whether the run's seed is a port, so that one build of a simulation plays any seed

    Members
    -------
    watch, watch1, … : Out(64 · `Layout.words`), split into ports of `PORT_WORDS` words
        Trace words in the order of section 7, word 0 lowest, `Layout.lag` cycles after their own.
    seed : In(32), with ``seeded``
        Constant; in the place of ``system.run.seed``.  Only the cycles of ``system.relay_notices`` stay as they are.
    idle : Out(1)
        Every node is idle that has not died.
    stimulus : In(64 · `Layout.stimulus_words` · nodes), with ``host="stimulus"``
        Stimulus words of node 0 lowest.
    host : array of `lethe.host.host_signature`, one for each node, with ``host="ports"``
        What is between a node's NI, or the highest of its services, and its host, seen from there.
    done : Out(1), with ``host="generator"``
        Every generator has offered all its datagrams whose node has not died.
    sent, sent_sum, received, received_sum, wrong : Out(32), with ``host="generator"``
        Totals over all nodes, some cycles late.
    ok : Out(1), with ``host="generator"``
        Done, idle, and the totals agree: every datagram was delivered exactly once.
    counter_address, counter_data : In, Out(32), with ``ni.statistics``
        The counter as of two cycles before the cycle of the address, four cycles after it; a router's as of
        `Layout.lag` + `SUMMED` cycles before that.
        With s = `System.counter_step`, NI n's `Counter` c is at s·n + c, router r's `RouterCounter` c at s·nodes +
        `ROUTER_COUNTER_STEP`·r + c.  Services, k at each node, come behind the routers: with t =
        `System.service_counter_step`, counter c of node n's l-th is t·(k·n + l) + c after their first.
    """

    def __init__(self, system: System, host: str = "generator", *, watch: bool = True, seeded: bool = False):
        if host not in HOSTS:
            raise ValueError(f"host must be one of {', '.join(HOSTS)}, not {host!r}")
        if host == "ports" and system.faults.stalls:
            raise ValueError("system.faults.stalls must be empty where hosts stall by themselves")
        self._system, self._host, self._watch, self._seeded = system, host, watch, seeded
        graph, layout = system.graph, system.layout
        members: dict = {"idle": Out(1)} | ({"seed": In(32)} if seeded else {})
        for part, name in enumerate(layout.watch_ports if watch else ()):
            members[name] = Out(WORD_BITS * min(PORT_WORDS, layout.words - part * PORT_WORDS))
        if host == "stimulus":
            members["stimulus"] = In(WORD_BITS * layout.stimulus_words * graph.nodes)
        elif host == "ports":
            members["host"] = Out(host_signature(system, system.top_port)).array(graph.nodes)
        else:
            members |= {"done": Out(1), "ok": Out(1)} | {name: Out(32) for name in SUMS}
        if system.ni.statistics:
            addresses = graph.nodes * system.counter_step + graph.routers * ROUTER_COUNTER_STEP
            addresses += graph.nodes * len(system.services) * system.service_counter_step
            members |= {"counter_address": In(range(addresses)), "counter_data": Out(32)}
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        system, graph = self._system, self._system.graph
        bits = system.format.incarnation_bits
        m.submodules.schedule = schedule = Schedule(system)
        m.submodules.fabric = fabric = Fabric(system, seeded=self._seeded)
        m.d.comb += fabric.dead.eq(schedule.dead)
        self._seed = system.run.seed
        if self._seeded:
            self._seed = self.seed
            m.d.comb += fabric.seed.eq(self.seed)

        nis, stacks, ports = [], [], []
        make = partial(Ni, watch=self._watch, dump=self._host != "ports")
        for node in range(graph.nodes):
            ni, m.submodules[f"ni{node}"] = shared(platform, "ni", make, system)
            nis.append(ni)
            m.d.comb += [
                ni.node.eq(node),
                ni.seed.eq(seed_of(m, self._seed, UNIT_NI, node)),
                ni.incarnation.eq(schedule.incarnation.word_select(node, bits)),
                ni.node_reset.eq(schedule.reset[node]),
                ni.link_i.eq(fabric.o[node]),
                fabric.i[node].eq(ni.link_o),
            ]
            units = stacked(m, platform, system, ni, number=str(node), watch=self._watch)
            m.d.comb += [unit.service_reset.eq(schedule.service_reset[node]) for unit in units]
            m.d.comb += [unit.boot.eq(schedule.boot.word_select(node, BOOT_BITS)) for unit in booted(units)]
            stacks.append(units)
            ports.append(units[-1].above if units else ni.host)
        if system.top_port.tree:
            ports = self._trees(m, ports, schedule)
        m.d.comb += self.idle.eq(_all(port.idle | died for port, died in zip(ports, schedule.died, strict=True)))
        if self._watch:
            self._trace(m, nis, stacks, fabric)

        if self._host == "stimulus":
            bits = WORD_BITS * system.layout.stimulus_words
            for node, (ni, port) in enumerate(zip(nis, ports, strict=True)):
                words = self.stimulus.word_select(node, bits)
                script, m.submodules[f"script{node}"] = shared(platform, "script", Script, system)
                wiring.connect(m, port, script.host)
                stalled = Cat(0, schedule.stalled[node].replicate(len(script.stalls) - 1))
                m.d.comb += [
                    script.words.eq(words),
                    script.takes.eq(~(stalled | script.stalls)),
                    ni.link_enable.eq(script.link_enable & ~schedule.absent[node]),
                ]
        elif self._host == "ports":
            for node, (ni, port, host) in enumerate(zip(nis, ports, self.host, strict=True)):
                m.d.comb += ni.link_enable.eq(~schedule.absent[node])
                wiring.connect(m, port, wiring.flipped(host))
        else:
            self._generate(m, platform, nis, ports, schedule)
        if system.ni.statistics:
            count(m, platform, system, self, nis, fabric, stacks)
        return m

    def _trace(self, m, nis, stacks, fabric):
        """The trace words of NIs, routers, links and services; those of the others wait for those of the routers."""
        graph, layout = self._system.graph, self._system.layout
        seen = [_late(m, f"watch_ni{n}", ni.watch, layout.lag) for n, ni in enumerate(nis)]
        watched = [words.word_select(word, WORD_BITS) for words in seen for word in range(layout.ni_words)]
        for r in range(graph.routers):
            watched += [getattr(fabric, f"watch{r}").word_select(lane, WORD_BITS) for lane in range(graph.lanes(r))]
        links = _late(m, "watch_links", fabric.watch_links, layout.lag)
        watched += [padded(links[first : first + WORD_BITS], WORD_BITS) for first in range(0, len(links), WORD_BITS)]
        for node, units in enumerate(stacks):
            for service, unit in zip(self._system.services, units, strict=True):
                words = _late(m, f"watch_{service.name}{node}", unit.watch, layout.lag)
                watched += [words[first : first + WORD_BITS] for first in range(0, len(words), WORD_BITS)]
        for part, name in enumerate(layout.watch_ports):
            m.d.comb += getattr(self, name).eq(Cat(*watched[part * PORT_WORDS : (part + 1) * PORT_WORDS]))

    def _trees(self, m, ports, schedule):
        """The ports above the tree players."""
        cycle = Signal(CYCLE_BITS)
        with m.If(~cycle.all()):
            m.d.sync += cycle.eq(cycle + 1)
        found = []
        for node, port in enumerate(ports):
            m.submodules[f"tree{node}"] = player = TreePlayer(self._system, node)
            wiring.connect(m, port, player.below)
            m.d.comb += [player.cycle.eq(cycle), player.node_reset.eq(schedule.reset[node])]
            found.append(player.above)
        return found

    def _generate(self, m, platform, nis, ports, schedule):
        """A generator and a checker for every node, and what they have seen."""
        system = self._system
        hosts = []
        for node, (ni, port) in enumerate(zip(nis, ports, strict=True)):
            host, m.submodules[f"host{node}"] = shared(platform, "host", Traffic, system)
            hosts.append(host)
            wiring.connect(m, port, host.host)
            m.d.comb += [
                ni.link_enable.eq(~schedule.absent[node]),
                host.node.eq(node),
                host.seed.eq(seed_of(m, self._seed, UNIT_GENERATOR, node)),
                host.node_reset.eq(schedule.reset[node]),
                host.stopped.eq(schedule.stopped),
                host.stalled.eq(schedule.stalled[node]),
            ]

        m.d.comb += self.done.eq(_all(host.done | died for host, died in zip(hosts, schedule.died, strict=True)))
        for name in SUMS:
            m.d.comb += getattr(self, name).eq(_total(m, name, [getattr(host, name) for host in hosts]))
        m.d.sync += self.ok.eq(
            self.done
            & self.idle
            & (self.sent == self.received)
            & (self.sent_sum == self.received_sum)
            & (self.wrong == 0)
        )


def count(m, platform, system, top, nis, fabric, stacks=()):
    """All counters behind the address of ``top``: those of ``nis``, of the routers, then of the services."""
    step = ROUTER_COUNTER_STEP
    units = []  # for every ``step`` addresses
    for ni in nis:
        m.d.comb += ni.counter_address.eq(top.counter_address)
        units += [ni.counter_data] * (system.counter_step // step)
    # FULL, the last, is only there with queues.
    counters = len(RouterCounter) if system.graph.queued else int(RouterCounter.FULL)
    for r, rule in enumerate(fabric.rules):
        statistics, m.submodules[f"statistics{r}"] = shared(
            platform, f"statistics{rule.ports}", Statistics, 32, counters, rule.ports
        )
        m.d.comb += [
            statistics.pulse.eq(getattr(fabric, f"counts{r}")),
            statistics.address.eq(top.counter_address),
        ]
        units.append(statistics.data)
    for node, services in enumerate(stacks):
        first = len(units) * step
        found = service_counters(m, platform, system, services, top.counter_address, first, number=str(node))
        units += [statistics.data for statistics in found]
    unit = [Signal(range(len(units)), name=f"unit{cycles}") for cycles in range(LATENCY)]
    m.d.sync += [
        unit[0].eq(top.counter_address[step.bit_length() - 1 :]),
        *(after.eq(before) for before, after in pairwise(unit)),
        top.counter_data.eq(Array(units)[unit[-1]]),
    ]


class FabricTop(wiring.Component):
    """The network of a configuration with its link faults, for NIs that are elsewhere.

    Parameters
    ----------
    system : topology, wire format, routers, link faults and their schedule; ``ni.statistics`` for counters

    Members
    -------
    link_i, link_o : arrays of In(flit), Out(flit), one for each node
        To a node's ``link_o`` and ``link_i``, in this order.
    counter_address, counter_data : In, Out(32), with ``ni.statistics``, if there are routers
        The counter as of `Layout.lag` + `SUMMED` + 2 cycles before the cycle of the address, four cycles after it.
        Router r's `RouterCounter` c is at `ROUTER_COUNTER_STEP`·r + c.
    """

    def __init__(self, system: System):
        self._system = system
        graph, flit = system.graph, flit_layout(system.format)
        self._counts = system.ni.statistics and graph.routers > 0
        members: dict = {"link_i": In(flit).array(graph.nodes), "link_o": Out(flit).array(graph.nodes)}
        if self._counts:
            members |= {"counter_address": In(range(graph.routers * ROUTER_COUNTER_STEP)), "counter_data": Out(32)}
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        system = self._system
        # Nodes and their hosts are elsewhere, and so is what befalls them.
        alone = replace(system, hosted=False).replace(faults={"stalls": (), "resets": ()}, workload={"stop": 0})
        m.submodules.schedule = schedule = Schedule(alone)
        m.submodules.fabric = fabric = Fabric(system)
        m.d.comb += fabric.dead.eq(schedule.dead)
        for node in range(system.nodes):
            m.d.comb += [fabric.i[node].eq(self.link_i[node]), self.link_o[node].eq(fabric.o[node])]
        if self._counts:
            count(m, platform, system, self, [], fabric)
        return m


def _all(bits):
    """Whether all of these are 1."""
    every = 1
    for bit in bits:
        every = every & bit
    return every


def _late(m, name: str, value, cycles: int):
    """The value as of so many cycles ago."""
    for cycle in range(cycles):
        later = Signal.like(value, name=f"{name}_{cycle}")
        m.d.sync += later.eq(value)
        value = later
    return value


def _total(m, name: str, terms: list):
    """The sum modulo 2^32 of the terms, as of one cycle ago for every level of pairs."""
    level = 0
    while len(terms) > 1:
        sums = []
        for i in range(0, len(terms), 2):
            pair = Signal(32, name=f"{name}_{level}_{i // 2}")
            m.d.sync += pair.eq(sum(terms[i : i + 2]))
            sums.append(pair)
        terms, level = sums, level + 1
    return terms[0]
