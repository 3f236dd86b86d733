"""The registers of an NI behind AXI4-Lite, as `lethe.spec.registers` maps them."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, ResetInserter, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from lethe.host import host_records
from lethe.lib.memory import LUT_DEPTH, Ram
from lethe.lib.queue import Queue
from lethe.ni.layouts import Records
from lethe.spec.config import System
from lethe.spec.ports import counter_bits, since_bits
from lethe.spec.registers import (
    ADDRESS_BITS,
    LEVELS,
    Access,
    Interrupt,
    Register,
    RegisterMap,
    dump_parts,
    interrupts_of,
)
from lethe.statistics import LATENCY

from .lite import Lite
from .signature import axi_lite

__all__ = ["Registers"]


class Registers(wiring.Component):
    """The registers of an NI on an AXI4-Lite bus.

    The bus is that of `Lite`: one transfer at a time, an answer five cycles after it is offered, and to a SNAPSHOT when
    all counters are copied.  A transfer that the map does not allow is answered with SLVERR and changes nothing: an
    address without a register, a write to what cannot be written, a read of a command, a write of fewer than four bytes
    to a command, a command that is refused.  Other writes change the bytes that ``wstrb`` names.

    A RESET sets ``node_reset`` for as many cycles as it says; ``incarnation`` and ``boot`` change with the first of
    them.  A RESET during one replaces the cycles that are left: it is the same reset, of the same incarnation.  A node
    reset drops names, and a CANCEL, SET, ROUTE or DEATH that waits, and ends a DUMP; all other registers stay.

    Parameters
    ----------
    system : the configuration
    dump : whether the NI has a state dump
    names : names of accepted datagrams that can wait

    Members
    -------
    bus : In(`axi_lite`)
    node : In(node_bits)
        The node's number, constant.
    node_reset, incarnation : Out(1), Out(incarnation_bits)
        To the NI.
    service_reset : Out(1), with services
        Likewise.
    link_enable, quiesce : Out(1)
        To the NI.
    idle, ready, time_base : In
        From the NI.
    accepted : In(layout of the host port at the top)
        Each datagram that is accepted; its name goes to ACCEPTED.
    deliver_waiting, completion_waiting : In(1)
        The host has something to take.
    cancel : Out(stream {slot, generation})
        Holds until taken, or until a node reset.
    boot : Out(32), receive_mask : Out(ports), with flow
        To the NI.
    readable, congested : In(ports), with flow
        From the NI.
    set : Out(stream {code, index, value}), answer : In {valid, error}, with flow
        Holds until taken, or until a node reset; it is answered when it is taken.
    notice : In(stream {peer, up, map}), with flow
        A read of NOTICE takes one.
    tree : Out(stream {code, target, hop, way, depth, promoted}), with relay
        Holds until taken, or until a node reset.
    dump : Out(stream, index), dumped, dumped_valid : In, with ``dump``
        The NI's state dump; the index holds until taken, or until a node reset.
    counter_address, counter_data : Out, In(32), with ``ni.statistics``
        The NI's counter port.
    counter_walk, counter_since : Out(1), In, with ``ni.statistics``
        1 while a snapshot reads the counters; and what was counted from its first cycle on, which does not belong to
        the snapshot.  It comes with ``counter_data``.  Where nothing drives it, each counter of a snapshot is of a
        cycle of its own.
    malformed : In(1)
        A datagram on a stream was not as it must be; one cycle.
    irq : Out(1)
        An interrupt is pending and enabled, one cycle ago.

    Raises `ConfigError` (`RegisterMap`), and `ValueError` if ``names`` is below 1.
    """

    def __init__(self, system: System, *, dump: bool = True, names: int = 16):
        if names < 1:
            raise ValueError(f"names must be at least 1, not {names!r}")
        self._system, self._dump, self._names = system, dump, names
        self._map = RegisterMap(system, dump=dump)
        records = host_records(system, system.top_port)
        members = {
            "bus": In(axi_lite(ADDRESS_BITS)),
            "node": In(system.format.node_bits),
            "node_reset": Out(1),
            "incarnation": Out(system.format.incarnation_bits, init=1),
            "link_enable": Out(1),
            "quiesce": Out(1),
            "idle": In(1),
            "ready": In(1),
            "time_base": In(system.time_bits),
            "accepted": In(records["accepted"]),
            "deliver_waiting": In(1),
            "completion_waiting": In(1),
            "malformed": In(1),
            "cancel": Out(stream.Signature(records["cancel"])),
            "irq": Out(1),
        }
        if system.services:
            members["service_reset"] = Out(1)
        if ports := system.top_port.ports:
            members |= {"boot": Out(32), "receive_mask": Out(ports), "readable": In(ports), "congested": In(ports)}
            members |= {"set": Out(stream.Signature(records["set"])), "answer": In(records["answer"])}
            members |= {"notice": In(stream.Signature(records["notice"]))}
        if system.top_port.tree:
            members["tree"] = Out(stream.Signature(records["tree"]))
        if dump:
            members["dump"] = Out(stream.Signature(range(max(system.ni.slots, system.ni.sets))))
            members |= {"dumped": In(Records(system).dump), "dumped_valid": In(1)}
        if system.ni.statistics:
            members |= {"counter_address": Out(counter_bits(system)), "counter_data": In(32)}
            members |= {"counter_walk": Out(1), "counter_since": In(since_bits(system))}
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        m.submodules.lite = lite = Lite(ADDRESS_BITS)
        wiring.connect(m, wiring.flipped(self.bus), lite.bus)
        registers = {register.name: register for register in self._map.registers}
        transfer = lite.transfer
        # Which register it is, and whether all its bytes count, known when the transfer acts.
        self._whole = Signal()
        m.d.sync += self._whole.eq(transfer.strobe.all())
        at = {name: Signal(name=f"at_{name.lower()}") for name in registers}
        m.d.sync += [here.eq(transfer.index == registers[name].address >> 2) for name, here in at.items()]
        writes = _Writes(lite, registers, at, self._whole)

        shown = self._stored(m, writes)  # what software reads, by register and field
        self._reset(m, writes, shown)
        shown |= self._names_of_accepted(m)
        self._cancel(m, writes)
        if self._system.top_port.ports:
            shown |= self._flow(m, writes, shown)
        if self._system.top_port.tree:
            self._tree(m, writes)
        if self._dump:
            shown |= self._state_dump(m, writes)
        shown |= self._status(m, shown)
        copied, counter = Const(0, 32), Signal()
        readable = [register.address >> 2 for register in registers.values() if register.readable]
        if self._system.ni.statistics:
            copied = self._counters(m, writes)
            counters = [register.address >> 2 for register in self._map.counters]
            readable += counters
            m.d.sync += counter.eq(0)
            with m.Switch(transfer.index), m.Case(*counters):
                m.d.sync += counter.eq(1)
        shown |= self._interrupts(m, writes, shown)
        for name, fields in shown.items():
            assert set(fields) == {field.name for field in registers[name].fields}, name

        # Constants are a table, which comes with ``at``; all else is gathered.
        known, table, gathered = Signal(), Signal(32), Signal(32)
        m.d.sync += [known.eq(0), table.eq(0)]
        with m.Switch(transfer.index), m.Case(*readable):
            m.d.sync += known.eq(1)
        with m.Switch(transfer.index):
            for register in registers.values():
                if register.fields[0].access is Access.CONSTANT:
                    with m.Case(register.address >> 2):
                        m.d.sync += table.eq(sum((field.reset or 0) << field.shift for field in register.fields))
        columns: list[list[Value]] = [[table[bit]] for bit in range(32)]
        for name, fields in shown.items():
            # What nothing waits for reads as 0, whatever the queue of names, or of notices, shows.
            here = at[name]
            if name.startswith("ACCEPTED"):
                here = here & self._names_out.valid
            elif name == "NOTICE":
                here = here & self.notice.valid
            for field in registers[name].fields:
                for bit, value in enumerate(Value.cast(fields[field.name])):
                    columns[field.shift + bit].append(value & here)
        m.d.sync += gathered.eq(Cat(Cat(*column).any() for column in columns))
        with m.If(lite.act):
            m.d.sync += lite.good.eq(Mux(transfer.write, Cat(writes.good).any(), known))
        m.d.comb += lite.data.eq(gathered | (copied & counter.replicate(32)))

        # ACCEPTED is taken away with the very value that was read, and so is NOTICE.
        m.d.comb += self._names_out.ready.eq(lite.act & ~transfer.write & at["ACCEPTED"])
        if self._system.top_port.ports:
            m.d.comb += self.notice.ready.eq(lite.act & ~transfer.write & at["NOTICE"])
            with m.If(self.notice.valid & self.notice.ready):
                m.d.sync += self._notice_map.eq(self.notice.payload.map)
        return m

    def _stored(self, m, writes: "_Writes") -> dict[str, dict[str, Value]]:
        """The registers that are what was written."""
        found: dict[str, dict[str, Value]] = {}
        for name, register in writes.registers.items():
            if register.fields[0].access is Access.WRITE:
                fields = {
                    f.name: Signal(f.bits, name=f"{name}_{f.name}".lower(), init=f.reset or 0) for f in register.fields
                }
                with m.If(writes.to(name)):
                    for field in register.fields:
                        value, strobes = writes.given(name, field.name), writes.strobes(name, field.name)
                        for bit, (new, strobe) in enumerate(zip(value, strobes, strict=True)):
                            with m.If(strobe):
                                m.d.sync += fields[field.name][bit].eq(new)
                found[name] = dict(fields)
        control = found["CONTROL"]
        m.d.comb += [self.link_enable.eq(control["LINK_ENABLE"]), self.quiesce.eq(control["QUIESCE"])]
        return found

    def _reset(self, m, writes: "_Writes", shown) -> None:
        """Node resets, incarnations, and with flow the count of resets."""
        begins = writes.to("RESET") & writes.given("RESET", "CYCLES").any()
        if self._system.top_port.ports:
            least, counted = shown["LEAST_BOOT"]["BOOT"], Signal(32)
            m.d.sync += counted.eq(Mux(least > self.boot, least, self.boot + 1))
            with m.If(begins & ~self.node_reset):
                m.d.sync += self.boot.eq(counted)
        cycles, wanted = writes.given("RESET", "CYCLES"), writes.given("RESET", "INCARNATION")
        left, following = Signal.like(cycles), Signal.like(self.incarnation)
        m.d.comb += following.eq(self.incarnation + 1)
        with m.If(begins):
            m.d.sync += [self.node_reset.eq(1), left.eq(cycles - 1)]
            if self._system.services:
                kept = any(field.name == "NI_ONLY" for field in writes.registers["RESET"].fields)
                m.d.sync += self.service_reset.eq(~writes.given("RESET", "NI_ONLY") if kept else 1)
            with m.If(~self.node_reset):
                m.d.sync += self.incarnation.eq(Mux(wanted.any(), wanted, Mux(following.any(), following, 1)))
        with m.Elif(left.any()):
            m.d.sync += left.eq(left - 1)
        with m.Else():
            m.d.sync += self.node_reset.eq(0)
            if self._system.services:
                m.d.sync += self.service_reset.eq(0)

    def _names_of_accepted(self, m) -> dict[str, dict[str, Value]]:
        """The queue of names; a name comes from a register, since the NI's outputs are late in their cycle."""
        heard: Any = Signal(self.accepted.shape())
        name = data.StructLayout({part: shape for part, shape in heard.shape().members.items() if part != "valid"})
        m.submodules.names = names = ResetInserter(self.node_reset)(Queue(name, self._names))
        m.d.sync += heard.eq(self.accepted)
        m.d.comb += [names.i.valid.eq(heard.valid), *(names.i.payload[part].eq(heard[part]) for part in name.members)]
        oldest, self._names_out = names.o.payload, names.o
        self._name_lost = heard.valid & ~names.i.ready & ~self.node_reset
        control = {"CONTROL": oldest.control} if "control" in name.members else {}
        return {
            "ACCEPTED_TAG": {"TAG": oldest.tag, "VALID": names.o.valid, **control},
            "ACCEPTED": {"SLOT": oldest.slot, "GENERATION": oldest.generation},
        }

    def _cancel(self, m, writes: "_Writes") -> None:
        """The CANCEL that waits."""
        with m.If(self.cancel.ready | self.node_reset):
            m.d.sync += self.cancel.valid.eq(0)
        with m.If(writes.to("CANCEL", refused=self.cancel.valid | self.node_reset)):
            m.d.sync += [
                self.cancel.valid.eq(1),
                self.cancel.payload.slot.eq(writes.given("CANCEL", "SLOT")),
                self.cancel.payload.generation.eq(writes.given("CANCEL", "GENERATION")),
            ]

    def _flow(self, m, writes: "_Writes", shown) -> dict[str, dict[str, Value]]:
        """Ports, the SET that waits and its answer, and notices."""
        # What ports are readable is known late in a cycle.
        readable, congested = Signal.like(self.readable), Signal.like(self.congested)
        mask = shown["RECEIVE"]["MASK"]
        self._unread, self._congestion_moves = Signal(), congested != self.congested
        m.d.sync += [
            readable.eq(self.readable),
            congested.eq(self.congested),
            self._unread.eq((readable & ~mask).any()),
        ]
        m.d.comb += self.receive_mask.eq(mask)
        answered, error = Signal(), Signal.like(self.answer.error)
        with m.If(self.set.ready | self.node_reset):
            m.d.sync += self.set.valid.eq(0)
        with m.If(self.answer.valid):
            m.d.sync += [answered.eq(1), error.eq(self.answer.error)]
        with m.If(writes.to("SET", refused=self.set.valid | self.node_reset)):
            m.d.sync += [
                self.set.valid.eq(1),
                answered.eq(0),
                *(self.set.payload[name].eq(writes.given("SET", name.upper())) for name in ("code", "index", "value")),
            ]
        self._notice_map = Signal.like(self.notice.payload.map)
        notice = self.notice.payload
        return {
            "BOOT": {"BOOT": self.boot},
            "PORTS": {"READABLE": readable, "CONGESTED": congested},
            "ANSWER": {"ERROR": error, "VALID": answered},
            "NOTICE": {"PEER": notice.peer, "UP": notice.up, "VALID": self.notice.valid},
            "NOTICE_MAP": {"MAP": self._notice_map},
        }

    def _tree(self, m, writes: "_Writes") -> None:
        """The ROUTE or DEATH that waits."""
        word, refused = self.tree.payload, self.tree.valid | self.node_reset
        with m.If(self.tree.ready | self.node_reset):
            m.d.sync += self.tree.valid.eq(0)
        for code, (name, parts) in enumerate((("ROUTE", ("hop", "way")), ("DEATH", ("depth", "promoted")))):
            with m.If(writes.to(name, refused=refused)):
                m.d.sync += [
                    self.tree.valid.eq(1),
                    word.code.eq(code),
                    *(word[part].eq(writes.given(name, part.upper())) for part in ("target", *parts)),
                ]

    def _state_dump(self, m, writes: "_Writes") -> dict[str, dict[str, Value]]:
        """The DUMP under way, and what the last one read."""
        self._dumping = dumping = Signal()
        kept: Any = Signal(self.dumped.shape())
        with m.If(self.dump.ready | self.node_reset):
            m.d.sync += self.dump.valid.eq(0)
        with m.If(self.dumped_valid | self.node_reset):
            m.d.sync += dumping.eq(0)
        with m.If(self.dumped_valid):
            m.d.sync += kept.eq(self.dumped)
        with m.If(writes.to("DUMP", refused=dumping | self.node_reset | ~self.quiesce)):
            m.d.sync += [dumping.eq(1), self.dump.valid.eq(1), self.dump.payload.eq(writes.given("DUMP", "INDEX"))]
        slot, destination = dump_parts(self._system, None)
        found = {
            "DUMPED_SLOT": {name.upper(): kept[name] for name, _ in slot},
            "DUMPED_DESTINATION": {name.upper(): kept[name] for name, _ in destination},
        }
        for way in range(self._system.ni.ways):
            first, second = dump_parts(self._system, way)
            for name, parts in ((f"DUMPED_SOURCE{way}", first), (f"DUMPED_ENTRY{way}", second)):
                found[name] = {part.upper(): kept.entries[way][part] for part, _ in parts}
        return found

    def _status(self, m, shown) -> dict[str, dict[str, Value]]:
        """What only the hardware says."""
        self._was_ready, self._is_idle = ready, idle = Signal(), Signal()
        m.d.sync += [ready.eq(self.ready), idle.eq(self.idle)]
        time = self._map["TIME"].field("TIME")
        return {
            "NODE": {"NODE": self.node},
            "INCARNATION": {"INCARNATION": self.incarnation},
            "TIME": {"TIME": self.time_base[: time.bits]},
            "STATUS": {
                "READY": ready, "IDLE": idle, "RESETTING": self.node_reset, "DELIVER": self.deliver_waiting,
                "COMPLETION": self.completion_waiting, "ACCEPTED": shown["ACCEPTED_TAG"]["VALID"],
                "CANCELLING": self.cancel.valid, **({"DUMPING": self._dumping} if self._dump else {}),
                **({"NOTICE": self.notice.valid, "SETTING": self.set.valid} if self._system.top_port.ports else {}),
                **({"TELLING": self.tree.valid} if self._system.top_port.tree else {}),
            },
        }  # fmt: skip

    def _interrupts(self, m, writes: "_Writes", shown) -> dict[str, dict[str, Value]]:
        """Pending interrupts; what happens wins over what is cleared in the same cycle.

        That the NI is idle, or something malformed, is known late in its cycle, and pending a cycle later.
        """
        was_idle, malformed = Signal(), Signal()
        m.d.sync += [was_idle.eq(self._is_idle), malformed.eq(self.malformed)]
        happens: dict[Interrupt, Value] = {
            Interrupt.DELIVER: self.deliver_waiting,
            Interrupt.COMPLETION: self.completion_waiting,
            Interrupt.ACCEPTED: shown["ACCEPTED_TAG"]["VALID"],
            Interrupt.READY: self.ready & ~self._was_ready,
            Interrupt.IDLE: self._is_idle & ~was_idle,
            Interrupt.NAME_LOST: self._name_lost,
            Interrupt.MALFORMED: malformed,
            **({Interrupt.DUMPED: self.dumped_valid} if self._dump else {}),
        }
        if self._system.top_port.ports:
            happens |= {
                Interrupt.NOTICE: self.notice.valid, Interrupt.ANSWERED: self.answer.valid,
                Interrupt.CONGESTED: self._congestion_moves, Interrupt.READABLE: self._unread,
            }  # fmt: skip
        assert set(happens) == set(interrupts_of(self._system, dump=self._dump))
        name, pending = "INTERRUPT_PENDING", {}
        clears = writes.to(name)
        for interrupt, cause in happens.items():
            pending[interrupt.name] = cause
            if interrupt not in LEVELS:
                pending[interrupt.name] = bit = Signal(name=f"pending_{interrupt.name.lower()}")
                cleared = clears & writes.given(name, interrupt.name) & writes.strobes(name, interrupt.name)
                m.d.sync += bit.eq((bit & ~cleared) | cause)
        enabled = shown["INTERRUPT_ENABLE"]
        m.d.sync += self.irq.eq(Cat(pending[i.name] & enabled[i.name] for i in happens).any())
        return {name: pending}

    def _counters(self, m, writes: "_Writes") -> Value:
        """The copies of a snapshot: the word at the transfer's index, two cycles after it.

        All addresses have their turn twice: first to clear what was counted since the last snapshot, then to read.
        """
        bits, lite = counter_bits(self._system), writes.lite
        # Deep enough for block RAM.
        m.submodules.copies = copies = Ram(32, max(1 << bits, 2 * LUT_DEPTH))
        running, step = Signal(), Signal(bits + 1)
        coming, writing, place = Signal(LATENCY), Signal(), Signal(bits)
        begins = writes.to("SNAPSHOT") & writes.given("SNAPSHOT", "TAKE")
        m.d.comb += [self.counter_address.eq(step[:-1]), self.counter_walk.eq(step[-1]), lite.later.eq(begins)]
        m.d.sync += [
            step.eq(step + running),
            coming.eq(Cat(step == 1 << bits, coming)),
            copies.write_data.eq(self.counter_data - self.counter_since),
            place.eq(place + writing),
        ]
        with m.If(begins):
            m.d.sync += running.eq(1)
        with m.Elif(step.all()):
            m.d.sync += running.eq(0)
        with m.If(coming[-1]):
            m.d.sync += writing.eq(1)
        with m.Elif(place.all()):
            m.d.sync += writing.eq(0)
        m.d.comb += [
            copies.write_addr.eq(place),
            copies.write_en.eq(writing),
            lite.done.eq(writing & place.all()),
            copies.read_addr.eq(lite.transfer.index[: len(copies.read_addr)]),
        ]
        return copies.read_data


class _Writes:
    """What the transfer writes."""

    def __init__(self, lite: Lite, registers: dict[str, Register], at: dict[str, Signal], whole: Signal):
        self.lite, self.registers, self._at, self._whole = lite, registers, at, whole
        self.good: list[Value] = []  # whether it is a good write to each register that can be written

    def to(self, name: str, *, refused: Value | int = 0) -> Value:
        """1 in the cycle in which this register is written, unless it is refused."""
        good = self._at[name]
        if self.registers[name].command:
            good = good & self._whole & ~Value.cast(refused)
        self.good.append(good)
        return self.lite.writes & good

    def given(self, name: str, field: str) -> Value:
        """What is written to a field."""
        found = self.registers[name].field(field)
        return self.lite.transfer.data[found.shift : found.shift + found.bits]

    def strobes(self, name: str, field: str) -> Value:
        """Whether each bit of a field is in a byte that counts."""
        found = self.registers[name].field(field)
        bytes_of_bits = Cat(strobe.replicate(8) for strobe in self.lite.transfer.strobe)
        return bytes_of_bits[found.shift : found.shift + found.bits]
