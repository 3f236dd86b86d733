"""A whole system: network interfaces, generators, checkers, links and routers (sections 1 to 8, 9.5).

Written from `docs/` alone, as `ni.py`.
"""

import abc
import math

from tests.third import derived
from tests.third.fabric import Link, Shape, router
from tests.third.ni import (
    LANES,
    PORTS,
    Flit,
    Inputs,
    Ni,
    Offered,
    Ports,
    Record,
    from_stimulus,
    stimulus_words,
    word_names,
)
from tests.third.traffic import Checker, Datagram, Generator, ScriptHost


class Node(abc.ABC):
    """An NI with the faults of the schedule that touch its node (section 6); the hosts are those of a subclass."""

    def __init__(self, numbers: derived.Numbers, node: int):
        faults = numbers.section["faults"]
        self.n, self.node, self.ni = numbers, node, Ni(numbers, node)
        self.stalls = [(f["start"], f["end"]) for f in faults.get("stalls", ()) if f["node"] == node]
        resets = [f for f in faults.get("resets", ()) if f["node"] == node]
        self.resets = [(f["start"], f["start"] + f["cycles"]) for f in resets]
        self.death = min((f["start"] for f in faults.get("deaths", ()) if f["node"] == node), default=math.inf)
        self.absences = [(f["start"], f["end"]) for f in faults.get("absences", ()) if f["node"] == node]
        self.incarnation, self.was_reset = 1, False

    def reset(self, cycle: int) -> bool:
        return cycle >= self.death or any(start <= cycle < end for start, end in self.resets)

    def stalled(self, cycle: int) -> bool:
        return any(start <= cycle < end for start, end in self.stalls)

    def absent(self, cycle: int) -> bool:
        return any(start <= cycle < end for start, end in self.absences)

    @property
    def dead_links(self) -> list[tuple[float, float]]:
        """When the links of the node are dead with it, from the first cycle to before the second."""
        return [*self.absences, (self.death, math.inf)]

    def link_o(self, cycle: int) -> Flit:
        return Flit() if self.reset(cycle) else self.ni.link_o

    def step(self, cycle: int, flit: Flit) -> list[int]:
        reset = self.reset(cycle)
        if reset and not self.was_reset:
            self.incarnation = (self.incarnation + 1) % (1 << self.n.section["wire"]["incarnation_bits"]) or 1
        self.was_reset = reset
        inputs, ports = self.inputs(cycle, flit), self.ni.ports()
        words = self.ni.step(inputs, reset)
        self.move(cycle, inputs, ports, words[2 * len(LANES)], reset=reset)
        return words

    @abc.abstractmethod
    def inputs(self, cycle: int, flit: Flit) -> Inputs:
        """What the hosts offer and take in a cycle."""

    @abc.abstractmethod
    def move(self, cycle: int, inputs: Inputs, ports: Ports, flags: int, *, reset: bool) -> None:
        """The end of a cycle for the hosts; ``flags``: word 12 of the NI."""


class GeneratorNode(Node):
    """An NI between its generator and its checker (section 5)."""

    def __init__(self, numbers: derived.Numbers, node: int):
        super().__init__(numbers, node)
        self.generator, self.checker = Generator(numbers, node), Checker(numbers)

    def inputs(self, cycle: int, flit: Flit) -> Inputs:
        record, beat = self.generator.offered
        stalled = self.stalled(cycle)
        taking = (0, 0) if stalled else self.checker.ready
        # A node has one checker: it hears the classes of data.
        others = [(int(not stalled),) * 2] * self.n.section["ni"]["control_classes"]
        return Inputs(
            flit=flit,
            data=Offered(int(record is not None), int(beat is not None), record or Record(), beat or 0),
            cancel=0,
            quiesce=0,
            link_enable=int(not self.absent(cycle)),
            slot=0,
            generation=0,
            incarnation=self.incarnation,
            deliver_ready=[taking, *others],
            completion_ready=1,
        )

    def move(self, cycle: int, inputs: Inputs, ports: Ports, flags: int, *, reset: bool) -> None:
        self.generator.step(
            cycle,
            ready=ports.ready and not reset,
            record_taken=bool(inputs.data.send and flags >> 4 & 1),
            beat_taken=bool(inputs.data.send_data and flags >> 5 & 1),
            reset=reset,
        )
        record_ready, data_ready = inputs.deliver_ready[0]
        self.checker.step(
            ports.deliver[0] if record_ready else None, ports.deliver_data[0] if data_ready else None, reset=reset
        )


class ScriptNode(Node):
    """An NI whose host plays a list of datagrams and takes whatever comes (section 8)."""

    def __init__(self, numbers: derived.Numbers, node: int, datagrams: list[Datagram]):
        super().__init__(numbers, node)
        self.host = ScriptHost(datagrams)
        self.stimulus = [0] * stimulus_words(numbers)  # of the last cycle

    def inputs(self, cycle: int, flit: Flit) -> Inputs:
        self.stimulus = self.host.words(cycle, self.n)
        stalled, absent = self.stalled(cycle), self.absent(cycle)
        return from_stimulus(self.n, self.stimulus, flit, incarnation=self.incarnation, stalled=stalled, absent=absent)

    def move(self, cycle: int, inputs: Inputs, ports: Ports, flags: int, *, reset: bool) -> None:
        data, control = inputs.data, inputs.control
        record_taken = (data.send and flags >> 4 & 1) or (control.send and flags >> 10 & 1)
        beat_taken = (data.send_data and flags >> 5 & 1) or (control.send_data and flags >> 11 & 1)
        self.host.step(record_taken=bool(record_taken), beat_taken=bool(beat_taken), reset=reset)


class Network:
    """A system from cycle 0 on, with its hardware generators, or with the datagrams of script hosts by node."""

    def __init__(self, text: str, scripts: list[list[Datagram]] | None = None):
        self.n = derived.read(text)
        self.shape = Shape(self.n)
        self.nodes: list[Node] = [
            ScriptNode(self.n, node, scripts[node]) if scripts else GeneratorNode(self.n, node)
            for node in range(self.n.nodes)
        ]
        self.routers = [router(self.n, self.shape, r) for r in range(self.shape.routers)]
        self.links = []
        for number, out in enumerate(self.shape.links):
            ends = [self.nodes[n] for where, n in (out, self.shape.joins[out]) if where == "node"]
            self.links.append(Link(self.n, number, [span for node in ends for span in node.dead_links]))
        self.cycle = self.digest = 0

    def step(self) -> list[int]:
        """One cycle; returns the trace words of the system."""
        heard: dict[tuple, Flit] = {}
        happened = []
        for link, out in zip(self.links, self.shape.links, strict=True):
            shown = self.nodes[out[1]].link_o(self.cycle) if out[0] == "node" else self.routers[out[0]].outputs[out[1]]
            heard[self.shape.joins[out]], event = link.step(self.cycle, shown)
            happened.append(event)
        words = []
        for n, node in enumerate(self.nodes):
            said = node.step(self.cycle, heard["node", n])
            words += said
            ports = 2 * len(LANES)
            lanes = [*said[:ports], *said[ports + len(PORTS) :]]
            for lane in range(len(lanes) // 2):
                self._add(n, lane, lanes[2 * lane], lanes[2 * lane + 1])
        for r, unit in enumerate(self.routers):
            said = unit.step([heard.get((r, i), Flit()) for i in range(unit.ports)])
            words += said
            for lane, word in enumerate(said):
                self._add(len(self.nodes) + r, lane, word)
        for number, event in enumerate(happened):
            self._add(len(self.nodes) + len(self.routers) + number, 0, event)
        for at in range(0, len(happened), 8):
            words.append(sum(event << 8 * j for j, event in enumerate(happened[at : at + 8])))
        self.cycle += 1
        return words

    def _add(self, unit: int, lane: int, word: int, uid: int = 0) -> None:
        if word:
            hashed = derived.event_hash(self.cycle, unit, lane, word, uid)
            self.digest = self.digest + hashed & derived.MASK64

    def word_names(self) -> list[str]:
        """What each trace word of the system shows."""
        of_ni = word_names(self.n.section["ni"]["control_classes"])
        names = [f"ni {node}, {name}" for node in range(len(self.nodes)) for name in of_ni]
        for r, unit in enumerate(self.routers):
            names += [f"router {r}, lane {lane}" for lane in range(unit.lanes)]
        return names + [f"links from {at}" for at in range(0, len(self.links), 8)]

    @property
    def stimulus(self) -> list[int]:
        """The stimulus words of the last cycle, by node (section 8)."""
        return [word for node in self.nodes if isinstance(node, ScriptNode) for word in node.stimulus]

    @property
    def sums(self) -> list[tuple[int, int, int, int, int]]:
        """Of each node: sent, sent_sum, received, received_sum, wrong (section 5)."""
        ends = [(node.generator, node.checker) for node in self.nodes if isinstance(node, GeneratorNode)]
        return [(g.sent, g.sent_sum, c.received, c.received_sum, c.wrong) for g, c in ends]
