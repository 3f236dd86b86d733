"""A system whose hosts do what stimulus words say, and what their ports show beyond the trace words."""

from amaranth.hdl import Cat, Module, Mux, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from lethe import verilog
from lethe.fabric.schedule import Schedule
from lethe.spec.config import System
from lethe.spec.ports import Record, deliver_record, records
from lethe.spec.trace import WORD_BITS
from lethe.system import SystemTop
from lethe.traffic.script import Script
from lethe.verilog import shared
from lethe_sim.golden.model import Golden
from lethe_sim.golden.state import Delivery, Registers, ShownPort

__all__ = ["TOP", "PortedSystem", "ShownPorts", "emit"]

TOP = "lethe_ported"

#: What has its valid among its fields.
_PULSES = ("accepted", "answer")
#: What the golden model shows as the valid of others than NAME_valid.
_VALIDS = {"answer": "set_ready"}


class ShownPorts:
    """What host ports show beyond the trace words, packed: node after node, record after record, its valid lowest.

    A record whose valid is 0 is 0.

    Attributes
    ----------
    records : fields of each record without its valid, (name, bits), in the order in which they are packed
    bits : of all nodes
    """

    def __init__(self, system: System):
        self._nodes, port = system.nodes, system.top_port
        layouts = records(system, port)
        self.records: dict[str, Record] = {"accepted": layouts["accepted"][1:], "completion": layouts["completion"]}
        self.records |= {name: layouts[deliver_record(port, name)] for name in port.delivers}
        if port.ports:
            self.records |= {"answer": layouts["answer"][1:], "notice": layouts["notice"]}
        self._delivers = port.delivers
        self.bits = sum(bits for *_, bits in self.spans())
        self._places: list[tuple[int, list[tuple[int, int]]]] = []

    def value(self, host) -> Value:
        """What a host port of the RTL shows."""
        shown = []
        for name in self.records:
            port = getattr(host, name)
            payload = Value.cast(port)[1:] if name in _PULSES else Value.cast(port.payload)
            shown += [port.valid, Mux(port.valid, payload, 0)]
        return Cat(*shown)

    def of(self, golden: Golden) -> int:
        """What the ports of the golden model showed in the cycle that ran last."""
        self._places = self._places or self._found(golden)
        word = at = 0
        for numbers in golden.numbers:
            ni = Registers(numbers)
            hidden = bool(ni.rests) or ni.in_reset > 0  # what stands there is of another cycle
            for valid, fields in self._places:
                goes = not hidden and bool(numbers[valid])
                word |= goes << at
                at += 1
                for place, bits in fields:
                    if goes:
                        value = int(numbers[place])
                        assert value >> bits == 0
                        word |= value << at
                    at += bits
        return word

    def _found(self, golden: Golden) -> list[tuple[int, list[tuple[int, int]]]]:
        """Where among a node's numbers each record's valid is, and each of its fields, with its bits."""
        k = golden.k
        streams = int(k.at_top + k.port_width) - Delivery.size * int(k.port_streams)
        shown, found = streams - ShownPort.size, []
        for name, fields in self.records.items():
            if name in self._delivers:
                first = streams + Delivery.size * self._delivers.index(name)
                places = [first + getattr(Delivery, field) for field, _ in fields]
                valid = first + Delivery.valid
            else:
                prefix = "" if name == "completion" else f"{name}_"
                places = [shown + getattr(ShownPort, prefix + field) for field, _ in fields]
                valid = shown + getattr(ShownPort, _VALIDS.get(name, f"{name}_valid"))
            found.append((valid, [(place, bits) for place, (_, bits) in zip(places, fields, strict=True)]))
        return found

    def spans(self) -> list[tuple[int, str, int, int]]:
        """(node, record, shift, bits with its valid) of all that is packed, the lowest first."""
        found, at = [], 0
        for node in range(self._nodes):
            for name, fields in self.records.items():
                bits = 1 + sum(bits for _, bits in fields)
                found.append((node, name, at, bits))
                at += bits
        return found

    def say(self, name: str, word: int) -> str:
        """A record with its valid as a person would say it."""
        if not word & 1:
            return "nothing"
        said, word = [], word >> 1
        for field, bits in self.records[name]:
            said.append(f"{field} {word & (1 << bits) - 1}")
            word >>= bits
        return " ".join(said)


class PortedSystem(wiring.Component):
    """A `SystemTop` whose every host does what its stimulus words say.

    Members
    -------
    stimulus : In(64 · `Layout.stimulus_words` · nodes)
        Stimulus words of node 0 lowest.
    watch, watch1, … : Out
        As those of `SystemTop`.
    ports : Out(`ShownPorts.bits`)
        What the host ports show in this very cycle.
    """

    def __init__(self, system: System):
        self._system, self._shown = system, ShownPorts(system)
        # Hosts stall by themselves here, also when the faults say so.
        self._top = SystemTop(system.replace(faults={"stalls": ()}), host="ports")
        members: dict = {"stimulus": In(WORD_BITS * system.layout.stimulus_words * system.nodes)}
        members |= {name: Out(len(getattr(self._top, name))) for name in system.layout.watch_ports}
        members["ports"] = Out(self._shown.bits)
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        system, shown = self._system, []
        m.submodules.top = top = self._top
        m.submodules.schedule = schedule = Schedule(system)
        for node, words in enumerate(_split(self.stimulus, WORD_BITS * system.layout.stimulus_words)):
            script, m.submodules[f"script{node}"] = shared(platform, "script", Script, system)
            wiring.connect(m, top.host[node], script.host)
            stalled = Cat(0, schedule.stalled[node].replicate(len(script.stalls) - 1))
            m.d.comb += [script.words.eq(words), script.takes.eq(~(stalled | script.stalls))]
            shown.append(self._shown.value(top.host[node]))
        m.d.comb += self.ports.eq(Cat(*shown))
        m.d.comb += [getattr(self, name).eq(getattr(top, name)) for name in system.layout.watch_ports]
        return m


def emit(system: System) -> str:
    """The Verilog of a `PortedSystem`, `TOP`."""
    return verilog.emit(PortedSystem(system), TOP)


def _split(value: Value, bits: int) -> list[Value]:
    return [value[at : at + bits] for at in range(0, len(value), bits)]
