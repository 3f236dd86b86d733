"""A whole system as a block: hostile hosts at every node; trace words and host ports against the golden model's."""

# A component's members come from its signature when it is made, where no type checker sees them.
# pyright: reportAttributeAccessIssue=false

import random
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring

from lethe.spec import trace
from lethe.spec.config import System
from lethe.spec.events import Event
from lethe.spec.ports import deliver_record, records
from lethe.system import SystemTop
from lethe.traffic.script import Script
from lethe_sim.golden.model import Golden
from lethe_sim.golden.state import Delivery, Registers, ShownPort

from . import divergence
from .blocks import Block, Span, pack
from .hostile import HostileHost

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
        self._port = port = system.top_port
        layouts = records(system, port)
        self._records = {"accepted": layouts["accepted"][1:], "completion": layouts["completion"]}
        self._records |= {name: layouts[deliver_record(port, name)] for name in port.delivers}
        self.outputs += tuple(
            span
            for node in range(system.nodes)
            for name, fields in self._records.items()
            for span in (
                Span(f"node {node}, {name}.valid", 1), Span(f"node {node}, {name}", sum(bits for _, bits in fields))
            )
        )  # fmt: skip
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
        system, layout = self._system, self._layout
        m.submodules[name] = top = SystemTop(system, host="ports")
        words, shown = trace.WORD_BITS * layout.stimulus_words, [getattr(top, port) for port in layout.watch_ports]
        for node in range(system.nodes):
            host = top.host[node]
            m.submodules[f"{name}_host{node}"] = script = Script(system)
            wiring.connect(m, host, script.host)
            m.d.comb += [script.words.eq(i[words * node :][:words]), script.takes.eq(~script.stalls)]
            for record in self._records:
                port = getattr(host, record)
                payload = Value.cast(port)[1:] if record == "accepted" else Value.cast(port.payload)
                valid = Cat(port.valid, Mux(port.valid, payload, 0))
                shown.append(_late(m, valid, layout.lag))
        m.d.comb += o.eq(Cat(*shown))

    def play(self, seed):
        system, layout = self._system, self._layout
        golden = Golden(system, external=True)
        hosts = [HostileHost(random.Random(f"{seed} {n}"), system, n, stalls=True) for n in range(system.nodes)]
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
            ports = pack(*(field for node in range(system.nodes) for field in self._shown(golden, node)))
            whole = int.from_bytes(rows.tobytes(), "little") | ports << trace.WORD_BITS * layout.words
            shown.append(whole)
            yield int.from_bytes(stimulus.tobytes(), "little"), shown.popleft()
            row = rows[0].tolist()
            for node, host in enumerate(hosts):
                words = row[layout.ni_words * node :][: layout.ni_words]
                words += row[layout.service_base + layout.service_words * node :][: layout.service_words]
                reset = any(node == which and start <= cycle < end for which, start, end in resets)
                host.hear(offered[node], words, reset)

    def _shown(self, golden: Golden, node: int) -> list[tuple[int, int]]:
        """What the golden model shows at a host port: valid, then the fields of the record, of each stream."""
        numbers, k = golden.numbers[node], golden.k
        ni = Registers(numbers)
        at = int(k.at_top + k.port_width) - Delivery.size * int(k.port_streams)
        shown = ShownPort(numbers, at - ShownPort.size)
        hidden = bool(ni.rests) or ni.in_reset > 0  # what stands there is of another cycle
        found: list[tuple[int, int]] = []
        for number, (name, fields) in enumerate(self._records.items()):
            stream: Any = Delivery(numbers, at + Delivery.size * (number - 2)) if number > 1 else shown
            prefix = "accepted_" if name == "accepted" else ""
            valid = stream.valid if number > 1 else getattr(shown, f"{name}_valid")
            goes = bool(valid) and not hidden
            found.append((int(goes), 1))
            found += [(int(getattr(stream, prefix + field)) if goes else 0, bits) for field, bits in fields]
        return found

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
