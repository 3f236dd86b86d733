"""The transport over the golden model: a network whose hosts are played by drivers."""

from collections import deque

import numpy as np

from lethe.spec import trace
from lethe.spec.config import System
from lethe.spec.events import LANE_ACCEPT, Cause, Event, Status
from lethe.spec.registers import RegisterMap
from lethe.spec.sections.faults import LAST_CYCLE
from lethe.spec.wire import unpack_uid
from lethe_sim.golden.model import Golden
from lethe_sim.golden.view import SystemNi

from .register_file import RegisterFile
from .transport import Completion, Datagram, Delivery, DriverError, Transport

__all__ = ["GoldenNetwork", "GoldenTransport"]

#: Cycles that a transfer of a register takes.
TRANSFER = 8
_RECORD, _LIMITS = trace.fields(trace.STIMULUS_RECORD), trace.fields(trace.STIMULUS_LIMITS)
_CANCEL = trace.fields(trace.STIMULUS_CANCEL)
_BITS = {name: 1 << bit for bit, name in enumerate(trace.STIMULUS_BITS)}


class GoldenNetwork:
    """A system under the golden model, whose every node has a `Driver`'s transport in ``transports``.

    Time passes in all nodes while any of them waits.  The faults of the configuration happen.

    Raises `DriverError` for a system with services, whose ports the model does not show, and for scheduled resets, of
    which no register would know.
    """

    def __init__(self, system: System):
        if system.services:
            name = system.services[0].name
            raise DriverError(f"{system.source}: [{name}]: the golden model's driver has no services; leave them out")
        if system.faults.resets:
            raise DriverError(f"{system.source}: faults.resets: its registers would not know; reset nodes by drivers")
        self.system = system
        self.golden = Golden(system, external=True)
        self._words = np.zeros((1, system.layout.words), np.uint64)
        self._stimulus = np.zeros((1, system.nodes * system.layout.stimulus_words), np.uint64)
        self.transports = [GoldenTransport(self, node) for node in range(system.nodes)]

    def step(self, cycles: int) -> None:
        """Let so many cycles pass."""
        layout = self.system.layout
        for _ in range(cycles):
            offered = [transport.offer() for transport in self.transports]
            self._stimulus[0] = np.concatenate(offered)
            self.golden.run(1, words=self._words, stimulus=self._stimulus)
            row = self._words[0].tolist()
            for node, transport in enumerate(self.transports):
                transport.hear(row[layout.ni_words * node : layout.ni_words * (node + 1)])


class _Sender:
    """What goes by one of the streams ``send`` and ``send_control``."""

    def __init__(self, system: System, first: int, bits: tuple[str, str]):
        self._system, self._first = system, first
        self._bits, self._ready = bits, tuple(bit.replace("valid", "ready") for bit in bits)
        self.waiting: deque[Datagram] = deque()
        self._beats: deque[int] = deque()

    def offer(self, words: np.ndarray) -> int:
        """Put record or beat into a node's stimulus words; returns bits of its flags."""
        if self._beats:
            words[self._first + 2] = self._beats[0] & trace.MASK64
            words[self._first + 3] = self._beats[0] >> trace.WORD_BITS
            return _BITS[self._bits[1]]
        if not self.waiting:
            return 0
        one = self.waiting[0]
        record = {
            "destination": one.destination, "class": one.cls, "mode": one.mode, "length": len(one.payload),
            "tag": one.tag,
        }  # fmt: skip
        limits = {"deadline": one.deadline, "retry_limit": one.retry_limit, "expect": one.expect, "path": one.path}
        words[self._first] = sum(value << _RECORD[name].shift for name, value in record.items())
        words[self._first + 1] = sum(value << _LIMITS[name].shift for name, value in limits.items())
        return _BITS[self._bits[0]]

    def hear(self, flags: dict[str, bool]) -> None:
        """What was taken."""
        if self._beats:
            if flags[self._ready[1]]:
                self._beats.popleft()
        elif self.waiting and flags[self._ready[0]]:
            payload, step = self.waiting.popleft().payload, self._system.format.flit_bytes
            parts = (payload[at : at + step] for at in range(0, len(payload), step))
            self._beats.extend(int.from_bytes(part, "little") for part in parts)

    def reset(self) -> None:
        """A node reset drops the rest of a datagram that the NI has in part."""
        self._beats.clear()


class GoldenTransport(Transport):
    """The host of one node of a `GoldenNetwork`."""

    def __init__(self, network: GoldenNetwork, node: int):
        self._network, self._node, system = network, node, network.system
        self.system = system
        self._view = SystemNi(network.golden, node)
        self._file = RegisterFile(
            system, node, counters=self._counters, reset=self._reset, cancel=self._cancel, ask=self._ask
        )
        self.map: RegisterMap = self._file.map
        self._data = _Sender(system, trace.STIMULUS_RECORD_WORD, ("send.valid", "send_data.valid"))
        self._control = _Sender(system, trace.CONTROL_RECORD_WORD, ("send_control.valid", "send_control_data.valid"))
        self._cancelling: tuple[int, int] | None = None
        self._asked: int | None = None
        fifos = 1 + system.ni.control_classes
        self._records: list[deque] = [deque() for _ in range(fifos)]
        self._parts: list[bytearray] = [bytearray() for _ in range(fifos)]
        self._payloads: list[deque[bytes]] = [deque() for _ in range(fifos)]
        self._deliveries: deque[Delivery] = deque()
        self._completions: deque[Completion] = deque()
        self._reset_ends = -1
        #: From then on the node is in reset for ever.
        self._dies = min((death.start for death in system.faults.deaths if death.node == node), default=LAST_CYCLE)
        self._stalls = [(stall.start, stall.end) for stall in system.faults.stalls if stall.node == node]
        self._incarnation = 1

    # As `Transport` says.

    async def read(self, address: int) -> tuple[int, bool]:
        self._network.step(TRANSFER)
        return self._file.read(address)

    async def write(self, address: int, word: int) -> bool:
        self._network.step(TRANSFER)
        return self._file.write(address, word)

    def put(self, datagram: Datagram) -> None:
        (self._control if self.controls(datagram.cls) else self._data).waiting.append(datagram)

    def delivery(self) -> Delivery | None:
        return self._deliveries.popleft() if self._deliveries else None

    def completion(self) -> Completion | None:
        return self._completions.popleft() if self._completions else None

    async def wait(self, cycles: int) -> None:
        self._network.step(cycles)

    # What the registers ask for.

    def _counters(self) -> dict[int, int]:
        counters = self._network.golden.counters[self._node] if self.system.ni.statistics else ()
        return {address: int(count) & 0xFFFF_FFFF for address, count in enumerate(counters)}

    def _reset(self, cycles: int, incarnation: int, _: bool) -> None:
        golden = self._network.golden
        golden.reset_node(self._node, cycles)
        self._reset_ends, self._incarnation = golden.cycle + cycles, incarnation
        self._cancelling = self._asked = None
        for sender in (self._data, self._control):
            sender.reset()
        for fifo in range(len(self._records)):
            self._records[fifo].clear()
            self._payloads[fifo].clear()
            self._parts[fifo].clear()

    def _cancel(self, slot: int, generation: int) -> None:
        self._cancelling = (slot, generation)

    def _ask(self, index: int) -> None:
        self._asked = index

    # A cycle.

    def offer(self) -> np.ndarray:
        """The stimulus words of the next cycle; what is shown in it is taken, in a stall completions alone."""
        words = np.zeros(self.system.layout.stimulus_words, np.uint64)
        flags = self._data.offer(words)
        if self.system.ni.control_slots:
            flags |= self._control.offer(words)
        if self._cancelling is not None:
            flags |= _BITS["cancel.valid"]
            slot, generation = self._cancelling
            words[trace.STIMULUS_CANCEL_WORD] = (
                slot << _CANCEL["slot"].shift | generation << _CANCEL["generation"].shift
            )
        flags |= _BITS["quiesce"] * self._file.quiesce | _BITS["link_disable"] * (not self._file.link_enable)
        words[trace.STIMULUS_FLAGS] = flags
        self._shown = (
            None
            if self._in_reset()
            else self._view.ports(cancel=self._cancelling is not None, quiesce=self._file.quiesce)
        )
        self._stalled = any(start <= self._network.golden.cycle < end for start, end in self._stalls)
        return words

    def _in_reset(self) -> bool:
        """Whether the node is in reset in the next cycle."""
        cycle = self._network.golden.cycle
        return cycle < self._reset_ends or cycle >= self._dies

    def hear(self, words: list[int]) -> None:
        """What came of it, from the NI's trace words."""
        file, shown = self._file, self._shown
        if shown is None:
            self._network.golden.name_incarnation(self._node, self._incarnation)
            file.show(ready=False, idle=False)
            file.time_base = 0
            if self._in_reset() and not file.resetting:
                file.begin_reset()
            file.resetting = self._in_reset()
            return
        file.resetting = False
        flags = {name: bool(words[trace.NI_FLAGS] >> bit & 1) for bit, name in enumerate(trace.NI_FLAG_BITS)}
        file.show(ready=shown.ready, idle=flags["idle"])
        file.time_base = shown.time
        event, uid = trace.at_lane(words, LANE_ACCEPT)
        if trace.EVENT.of(event) == Event.ACCEPT:
            _, _, slot, generation = unpack_uid(uid)
            control = slot >= self.system.ni.slots - self.system.ni.control_slots
            file.accept(slot, generation, trace.EXTRA.of(event), int(control))
        self._control.hear(flags)
        self._data.hear(flags)
        if self._cancelling is not None and shown.cancel_ready:
            self._cancelling = None
            file.cancelled()
        if self._asked is not None and shown.dump_ready:
            self._answer(self._asked)
            self._asked = None
        if shown.completion is not None:
            one = shown.completion
            self._completions.append(
                Completion(
                    tag=one.tag, status=Status(one.status), cause=Cause(one.cause), destination=one.destination,
                    slot=one.slot, generation=one.generation, peer_incarnation=one.peer_incarnation,
                    incarnation=file.incarnation,
                )
            )  # fmt: skip
        file.deliver_waiting = self._stalled and any(record is not None for record in shown.deliver)
        if not self._stalled:
            for fifo, (record, beat) in enumerate(zip(shown.deliver, shown.deliver_data, strict=True)):
                self._take(fifo, record, beat)

    def _take(self, fifo: int, record, beat) -> None:
        """A record and a beat of one deliver FIFO, each of which may run ahead of the other."""
        if record is not None:
            self._records[fifo].append(record)
        if beat is not None:
            data, last = beat
            self._parts[fifo] += data.to_bytes(self.system.format.flit_bytes, "little")
            if last:
                self._payloads[fifo].append(bytes(self._parts[fifo]))
                self._parts[fifo].clear()
        while (records := self._records[fifo]) and (records[0].length == 0 or self._payloads[fifo]):
            one = records.popleft()
            payload = self._payloads[fifo].popleft()[: one.length] if one.length else b""
            incarnation = one.incarnation if self.system.ni.source_incarnation else 0
            self._deliveries.append(Delivery(source=one.source, payload=payload, cls=one.cls, incarnation=incarnation))

    def _answer(self, index: int) -> None:
        """The state dump of an index, as registers."""
        ni, found = self.system.ni, {}
        dumped = self._view.dumped(index % (1 << (ni.slots - 1).bit_length()), index % ni.sets)
        if index % (1 << (ni.slots - 1).bit_length()) >= ni.slots:
            dumped = dumped._replace(live=False, generation=0, destination=0)
        found["DUMPED_SLOT"] = self.map["DUMPED_SLOT"].pack(LIVE=int(dumped.live), GENERATION=dumped.generation)
        found["DUMPED_DESTINATION"] = self.map["DUMPED_DESTINATION"].pack(DESTINATION=dumped.destination)
        for way, entry in enumerate(dumped.entries):
            source, incarnation, slot, generation = unpack_uid(entry) if entry is not None else (0, 0, 0, 0)
            found[f"DUMPED_SOURCE{way}"] = self.map[f"DUMPED_SOURCE{way}"].pack(SOURCE=source, SLOT=slot)
            found[f"DUMPED_ENTRY{way}"] = self.map[f"DUMPED_ENTRY{way}"].pack(
                GENERATION=generation, INCARNATION=incarnation, VALID=int(entry is not None)
            )
        self._file.dumped(found)
