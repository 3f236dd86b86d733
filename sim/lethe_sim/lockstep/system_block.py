"""A whole system as a block: hostile hosts at every node; trace words and host ports against the golden model's."""

import random
from collections import deque
from collections.abc import Callable
from functools import partial

import numpy as np
from amaranth.hdl import Cat, Module, Signal, Value

from lethe.spec import trace
from lethe.spec.config import System
from lethe.spec.events import Event
from lethe_sim.golden.model import Golden

from . import divergence
from .blocks import Block, Span
from .hostile import HostileHost
from .ported import PortedSystem, ShownPorts

__all__ = ["SystemBlock"]

_LINK_DISABLE = 1 << trace.STIMULUS_BITS.index("link_disable")


class SystemBlock(Block):
    """All nodes of a system with their services, its fabric and its faults.

    The hosts are others with every seed; the rest draws what the configuration's seed says.  Links are never disabled.
    """

    def __init__(self, system: System):
        self._system, self._layout = system, system.layout
        self.inputs = trace.WORD_BITS * system.nodes * self._layout.stimulus_words
        self.outputs = tuple(
            Span(" ".join(divergence.place(self._layout, word)), trace.WORD_BITS, self._say(word))
            for word in range(self._layout.words)
        )
        self._ports = ShownPorts(system)
        self.outputs += tuple(
            Span(f"node {node}, {record}", bits, partial(self._ports.say, record))
            for node, record, _, bits in self._ports.spans()
        )
        self._events = [word for node in range(system.nodes) for word in self._event_words(node)]

    def _event_words(self, node: int) -> list[int]:
        """Where the services of a node show their events."""
        first, found = self._layout.service_base + self._layout.service_words * node, []
        for service in self._system.services:
            found += range(first, first + service.flags, 2)
            first += service.words
        return found

    def _say(self, word: int) -> Callable[[int], str]:
        return lambda value: divergence.describe_word(self._layout, word, value)

    def build(self, m, name, i, o):
        m.submodules[name] = ported = PortedSystem(self._system)
        watched = [getattr(ported, port) for port in self._layout.watch_ports]
        m.d.comb += [ported.stimulus.eq(i), o.eq(Cat(*watched, _late(m, ported.ports, self._layout.lag)))]

    def play(self, seed):
        system, layout = self._system, self._layout
        golden = Golden(system, external=True)
        hosts = [
            HostileHost(random.Random(f"{seed} {n}"), system, n, stalls=True, fickle=self.fickle)
            for n in range(system.nodes)
        ]
        resets = [(reset.node, reset.start, reset.start + reset.cycles) for reset in system.node_resets]
        rows = np.zeros((1, layout.words), np.uint64)
        # The RTL shows its words some cycles late, and so are its ports here.
        shown = deque([0] * layout.lag)
        while True:
            cycle, offered = golden.cycle, [host.next() for host in hosts]
            for words in offered:
                words[trace.STIMULUS_FLAGS] &= ~_LINK_DISABLE  # links are not the hosts' here
            stimulus = np.array([[word for words in offered for word in words]], np.uint64)
            golden.run(1, words=rows, stimulus=stimulus)
            whole = int.from_bytes(rows.tobytes(), "little") | self._ports.of(golden) << trace.WORD_BITS * layout.words
            shown.append(whole)
            yield int.from_bytes(stimulus.tobytes(), "little"), shown.popleft()
            row = rows[0].tolist()
            for node, host in enumerate(hosts):
                words = row[layout.ni_words * node :][: layout.ni_words]
                words += row[layout.service_base + layout.service_words * node :][: layout.service_words]
                reset = any(node == which and start <= cycle < end for which, start, end in resets)
                host.hear(offered[node], words, reset)

    def seen(self, output):
        events = (trace.EVENT.of(output >> trace.WORD_BITS * word) for word in self._events)
        return [Event(event).name for event in events if event]


def _late(m: Module, value: Value, cycles: int) -> Value:
    """The value as of so many cycles ago."""
    for _ in range(cycles):
        later = Signal(len(value))
        m.d.sync += later.eq(value)
        value = later
    return value
