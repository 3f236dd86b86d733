"""A whole network: hosts, NIs, fabric, faults (cycle contract, sections 5 to 8)."""

from dataclasses import replace
from functools import partial

from amaranth.hdl import Array, Cat, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from lethe.fabric.fabric import Fabric
from lethe.fabric.schedule import Schedule
from lethe.layouts import flit_layout
from lethe.ni.ni import Ni, host_signature
from lethe.spec.config import System
from lethe.spec.events import COUNTER_STEP, ROUTER_COUNTER_STEP, RouterCounter
from lethe.spec.random import UNIT_GENERATOR, UNIT_NI, seed_for
from lethe.spec.trace import (
    PORT_WORDS,
    STIMULUS_BEAT,
    STIMULUS_BITS,
    STIMULUS_CANCEL,
    STIMULUS_CANCEL_WORD,
    STIMULUS_FLAGS,
    STIMULUS_LIMITS,
    STIMULUS_LIMITS_WORD,
    STIMULUS_RECORD,
    STIMULUS_RECORD_WORD,
    STIMULUS_WORDS,
    WORD_BITS,
    fields,
)
from lethe.statistics import Statistics
from lethe.traffic.checker import Checker
from lethe.traffic.generator import Generator
from lethe.verilog import shared

__all__ = ["HOSTS", "FabricTop", "SystemTop", "control_ports", "drive_host"]

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

    Members
    -------
    watch, watch1, … : Out(64 · `Layout.words`), split into ports of `PORT_WORDS` words
        Trace words in the order of section 7, word 0 lowest.
    idle : Out(1)
        Every NI is idle.
    stimulus : In(64 · `STIMULUS_WORDS` · nodes), with ``host="stimulus"``
        Stimulus words of node 0 lowest.
    host : array of `lethe.ni.ni.host_signature`, one for each node, with ``host="ports"``
        What is between a NI and its host, seen from the NI.
    done : Out(1), with ``host="generator"``
        Every generator has offered all its datagrams.
    sent, sent_sum, received, received_sum, wrong : Out(32), with ``host="generator"``
        Totals over all nodes, some cycles late.
    ok : Out(1), with ``host="generator"``
        Done, idle, and the totals agree: every datagram was delivered exactly once.
    counter_address, counter_data : In, Out(32), with ``ni.statistics``
        The counter as of the cycle of the address, two cycles later.  NI n's `Counter` c is at `COUNTER_STEP`·n + c,
        router r's `RouterCounter` c at `COUNTER_STEP`·nodes + `ROUTER_COUNTER_STEP`·r + c.
    """

    def __init__(self, system: System, host: str = "generator", *, watch: bool = True):
        if host not in HOSTS:
            raise ValueError(f"host must be one of {', '.join(HOSTS)}, not {host!r}")
        if host == "ports" and system.faults.stalls:
            raise ValueError("system.faults.stalls must be empty where hosts stall by themselves")
        self._system, self._host, self._watch = system, host, watch
        graph, layout = system.graph, system.layout
        members: dict = {"idle": Out(1)}
        for part, name in enumerate(layout.watch_ports if watch else ()):
            members[name] = Out(WORD_BITS * min(PORT_WORDS, layout.words - part * PORT_WORDS))
        if host == "stimulus":
            members["stimulus"] = In(WORD_BITS * STIMULUS_WORDS * graph.nodes)
        elif host == "ports":
            members["host"] = Out(host_signature(system)).array(graph.nodes)
        else:
            members |= {"done": Out(1), "ok": Out(1)} | {name: Out(32) for name in SUMS}
        if system.ni.statistics:
            addresses = graph.nodes * COUNTER_STEP + graph.routers * ROUTER_COUNTER_STEP
            members |= {"counter_address": In(range(addresses)), "counter_data": Out(32)}
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        system, graph = self._system, self._system.graph
        bits = system.format.incarnation_bits
        m.submodules.schedule = schedule = Schedule(system)
        m.submodules.fabric = fabric = Fabric(system)
        m.d.comb += fabric.dead.eq(schedule.dead)

        nis = []
        make = partial(Ni, watch=self._watch, dump=self._host != "ports")
        for node in range(graph.nodes):
            ni, m.submodules[f"ni{node}"] = shared(platform, "ni", make, system)
            nis.append(ni)
            m.d.comb += [
                ni.node.eq(node),
                ni.seed.eq(seed_for(system.run.seed, UNIT_NI, node)),
                ni.incarnation.eq(schedule.incarnation.word_select(node, bits)),
                ni.node_reset.eq(schedule.reset[node]),
                ni.link_i.eq(fabric.o[node]),
                fabric.i[node].eq(ni.link_o),
            ]
            if self._host != "ports":
                m.d.comb += ni.completion.ready.eq(1)
        m.d.comb += self.idle.eq(_all(ni.idle for ni in nis))
        if self._watch:
            self._trace(m, nis, fabric)

        if self._host == "stimulus":
            for node, ni in enumerate(nis):
                words = self.stimulus[node * STIMULUS_WORDS * WORD_BITS :][: STIMULUS_WORDS * WORD_BITS]
                drive_host(m, system, ni, words, schedule.stalled[node])
        elif self._host == "ports":
            for ni, port in zip(nis, self.host, strict=True):
                m.d.comb += ni.link_enable.eq(1)
                _lead_out(m, ni, port)
        else:
            self._generate(m, platform, nis, schedule)
        if system.ni.statistics:
            count(m, platform, system, self, nis, fabric)
        return m

    def _trace(self, m, nis, fabric):
        """The trace words of NIs, routers and links."""
        graph, layout = self._system.graph, self._system.layout
        watched = [ni.watch.word_select(word, WORD_BITS) for ni in nis for word in range(layout.ni_words)]
        for r in range(graph.routers):
            watched += [getattr(fabric, f"watch{r}").word_select(lane, WORD_BITS) for lane in range(graph.lanes(r))]
        links = fabric.watch_links
        watched += [links[first : first + WORD_BITS] for first in range(0, len(links), WORD_BITS)]
        for part, name in enumerate(layout.watch_ports):
            m.d.comb += getattr(self, name).eq(Cat(*watched[part * PORT_WORDS : (part + 1) * PORT_WORDS]))

    def _generate(self, m, platform, nis, schedule):
        """A generator and a checker for every NI, and what they have seen."""
        system = self._system
        generators, checkers = [], []
        for node, ni in enumerate(nis):
            generator, m.submodules[f"generator{node}"] = shared(platform, "generator", Generator, system)
            checker, m.submodules[f"checker{node}"] = shared(platform, "checker", Checker, system)
            generators.append(generator)
            checkers.append(checker)
            offer = generator.offer
            m.d.comb += [
                ni.link_enable.eq(1),
                generator.node.eq(node),
                generator.seed.eq(seed_for(system.run.seed, UNIT_GENERATOR, node)),
                generator.ready.eq(ni.ready),
                generator.node_reset.eq(schedule.reset[node]),
                generator.stopped.eq(schedule.stopped),
                ni.send.valid.eq(offer.valid),
                offer.ready.eq(ni.send.ready),
                ni.send.payload.destination.eq(offer.payload.destination),
                ni.send.payload.length.eq(offer.payload.length),
                ni.send.payload.tag.eq(offer.payload.tag),
                ni.send.payload.deadline.eq(system.workload.deadline),
                ni.send.payload.retry_limit.eq(system.workload.retry_limit),
                ni.send_data.valid.eq(generator.data.valid),
                ni.send_data.payload.eq(generator.data.payload),
                generator.data.ready.eq(ni.send_data.ready),
                checker.stalled.eq(schedule.stalled[node]),
                checker.node_reset.eq(schedule.reset[node]),
                checker.record.valid.eq(ni.deliver.valid),
                checker.record.payload.eq(ni.deliver.payload.length),
                ni.deliver.ready.eq(checker.record.ready),
                checker.data.valid.eq(ni.deliver_data.valid),
                checker.data.payload.eq(ni.deliver_data.payload),
                ni.deliver_data.ready.eq(checker.data.ready),
            ]
            m.d.comb += [port.ready.eq(~schedule.stalled[node]) for port in control_ports(system, ni)]

        m.d.comb += self.done.eq(_all(generator.done for generator in generators))
        for name in SUMS:
            units = generators if name.startswith("sent") else checkers
            m.d.comb += getattr(self, name).eq(_total(m, name, [getattr(unit, name) for unit in units]))
        m.d.sync += self.ok.eq(
            self.done
            & self.idle
            & (self.sent == self.received)
            & (self.sent_sum == self.received_sum)
            & (self.wrong == 0)
        )


def _lead_out(m, ni, port):
    """Connect the host members of ``ni`` to the port of the same members."""
    for path, member, value in port.signature.flatten(port):
        inner = ni
        for part in path:
            inner = getattr(inner, str(part))
        inner = Value.cast(inner)
        m.d.comb += inner.eq(value) if member.flow == In else Value.cast(value).eq(inner)


def count(m, platform, system, top, nis, fabric):
    """All counters behind the address of ``top``: those of ``nis``, then those of the routers."""
    step = ROUTER_COUNTER_STEP
    units = []  # for every ``step`` addresses
    for ni in nis:
        m.d.comb += ni.counter_address.eq(top.counter_address)
        units += [ni.counter_data] * (COUNTER_STEP // step)
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
    unit = Signal(range(len(units)))
    m.d.sync += [
        unit.eq(top.counter_address[step.bit_length() - 1 :]),
        top.counter_data.eq(Array(units)[unit]),
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
        The counter as of the cycle of the address, two cycles later.  Router r's `RouterCounter` c is at
        `ROUTER_COUNTER_STEP`·r + c.
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


def control_ports(system: System, ni):
    """Record and data ports of the deliver FIFOs of control classes."""
    for i in range(1, system.ni.control_classes + 1):
        yield getattr(ni, f"deliver_control{i}")
        yield getattr(ni, f"deliver_control{i}_data")


def drive_host(m, system: System, ni, words, stalled):
    """Connects one node's stimulus words (section 8) to the host side of its NI.

    Fields wider than their ports are cut off.  While ``stalled`` no deliver port is ready.
    """
    word = [words.word_select(i, WORD_BITS) for i in range(STIMULUS_WORDS)]
    bit = {name: word[STIMULUS_FLAGS][i] for i, name in enumerate(STIMULUS_BITS)}

    def taken(source, table):
        return {name: source[field.shift :][: field.bits] for name, field in fields(table).items()}

    record = taken(word[STIMULUS_RECORD_WORD], STIMULUS_RECORD) | taken(word[STIMULUS_LIMITS_WORD], STIMULUS_LIMITS)
    record["cls"] = record.pop("class")
    cancel = taken(word[STIMULUS_CANCEL_WORD], STIMULUS_CANCEL)
    ready = ~stalled & ~bit["deliver_stall"]
    m.d.comb += [
        ni.link_enable.eq(~bit["link_disable"]),
        ni.quiesce.eq(bit["quiesce"]),
        ni.send.valid.eq(bit["send.valid"]),
        *(ni.send.payload[name].eq(value) for name, value in record.items()),
        ni.send_data.valid.eq(bit["send_data.valid"]),
        ni.send_data.payload.eq(words[STIMULUS_BEAT * WORD_BITS :][: 2 * WORD_BITS]),
        ni.cancel.valid.eq(bit["cancel.valid"]),
        *(ni.cancel.payload[name].eq(value) for name, value in cancel.items()),
        ni.deliver.ready.eq(ready),
        ni.deliver_data.ready.eq(ready),
    ]
    m.d.comb += [port.ready.eq(ready) for port in control_ports(system, ni)]
