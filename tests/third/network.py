"""A whole system: network interfaces, generators, checkers, links and routers (sections 1 to 8, 9.5).

Written from `docs/` alone, as `ni.py`.
"""

import derived
from fabric import Link, QueuedRouter, Router, Shape
from ni import LANES, PORTS, Flit, Inputs, Ni, Ports, Record, from_stimulus, word_names
from traffic import Checker, Datagram, Generator, ScriptHost


class Node:
    """A NI with the resets and stalls of the schedule (section 6); the hosts are those of a subclass."""

    def __init__(self, numbers: derived.Numbers, node: int):
        faults = numbers.section["faults"]
        self.n, self.node, self.ni = numbers, node, Ni(numbers, node)
        self.stalls = [(f["start"], f["end"]) for f in faults.get("stalls", ()) if f["node"] == node]
        resets = [f for f in faults.get("resets", ()) if f["node"] == node]
        self.resets = [(f["start"], f["start"] + f["cycles"]) for f in resets]
        self.incarnation, self.was_reset = 1, False

    def reset(self, cycle: int) -> bool:
        return any(start <= cycle < end for start, end in self.resets)

    def stalled(self, cycle: int) -> bool:
        return any(start <= cycle < end for start, end in self.stalls)

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

    def inputs(self, cycle: int, flit: Flit) -> Inputs:
        """What the hosts offer and take in a cycle."""
        raise NotImplementedError

    def move(self, cycle: int, inputs: Inputs, ports: Ports, flags: int, *, reset: bool) -> None:
        """The end of a cycle for the hosts; ``flags``: word 12 of the NI."""
        raise NotImplementedError


class GeneratorNode(Node):
    """A NI between its generator and its checker (section 5)."""

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
            send=int(record is not None),
            send_data=int(beat is not None),
            cancel=0,
            quiesce=0,
            link_enable=1,
            record=record or Record(),
            data=beat or 0,
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
            record_taken=bool(inputs.send and flags >> 4 & 1),
            beat_taken=bool(inputs.send_data and flags >> 5 & 1),
            reset=reset,
        )
        record_ready, data_ready = inputs.deliver_ready[0]
        self.checker.step(
            ports.deliver[0] if record_ready else None, ports.deliver_data[0] if data_ready else None, reset=reset
        )


class ScriptNode(Node):
    """A NI whose host plays a list of datagrams and takes whatever comes (section 8)."""

    def __init__(self, numbers: derived.Numbers, node: int, datagrams: list[Datagram]):
        super().__init__(numbers, node)
        self.host = ScriptHost(datagrams)
        self.stimulus = [0] * 6  # of the last cycle

    def inputs(self, cycle: int, flit: Flit) -> Inputs:
        self.stimulus = self.host.words(cycle)
        stalled = self.stalled(cycle)
        return from_stimulus(self.n, self.stimulus, flit, incarnation=self.incarnation, stalled=stalled)

    def move(self, cycle: int, inputs: Inputs, ports: Ports, flags: int, *, reset: bool) -> None:
        record_taken, beat_taken = inputs.send and flags >> 4 & 1, inputs.send_data and flags >> 5 & 1
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
        made = QueuedRouter if self.n.section["router"]["queue"] else Router
        self.routers = [made(self.n, self.shape, r) for r in range(self.shape.routers)]
        self.links = [Link(self.n, number) for number in range(len(self.shape.links))]
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
        for r, router in enumerate(self.routers):
            said = router.step([heard.get((r, i), Flit()) for i in range(router.ports)])
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
        for r, router in enumerate(self.routers):
            names += [f"router {r}, lane {lane}" for lane in range(router.lanes)]
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
