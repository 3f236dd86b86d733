"""The golden model as a transport: every node's port above flow, driven cycle by cycle."""

from collections import deque
from dataclasses import dataclass, field

import numpy as np

from lethe.spec import trace
from lethe.spec.config import System
from lethe.spec.events import Cause, Status
from lethe.spec.services import FLOW
from lethe_sim.golden.model import Golden
from lethe_sim.golden.services.flow.state import Flow
from lethe_sim.golden.state import MERGE, Delivery, ShownPort

from .transport import (
    Accepted,
    Answered,
    Arrived,
    Congested,
    DatagramEnd,
    Died,
    FlowRecord,
    Happening,
    Noticed,
    Restarted,
    SettingCode,
)

__all__ = ["GoldenFlow"]

_OFFERS = {name: 1 << bit for bit, name in enumerate(trace.STIMULUS_BITS)}
_FLAGS = {name: 1 << bit for bit, name in enumerate(FLOW.flag_bits)}
_CONGESTED = trace.Bits(32, 16)
#: Flags that say that the host is shown something in this cycle.
_SHOWS = _FLAGS["completion.valid"] | _FLAGS["deliver.valid"] | _FLAGS["deliver_data.valid"] | _FLAGS["notice.valid"]
#: What a node that says `idle` may still do: the next step of a peer that it leaves or looks for, and the turn of a
#: port that becomes congested, or no more.
_PENDING = (Flow.aging, Flow.watched, Flow.sought, Flow.job, Flow.flips)
#: Cycles that are run at once while nothing can happen.
_AT_ONCE = 256


@dataclass(eq=False)
class Taking:
    """A message whose beats come."""

    record: Arrived
    length: int
    payload: bytearray = field(default_factory=bytearray)


class DrivenHost:
    """What a host has to offer, and what it is taking."""

    def __init__(self, mask: int):
        self.mask = mask
        self.records: deque[FlowRecord] = deque()
        self.beats: deque[tuple[int, int]] = deque()
        self.settings: deque[tuple[SettingCode, int, int]] = deque()
        self.cancels: deque[tuple[int, int]] = deque()
        self.taking: deque[Taking] = deque()

    @property
    def offers(self) -> bool:
        """It has something to offer."""
        return bool(self.records or self.beats or self.settings or self.cancels)


class GoldenFlow:
    """A system with flow under the golden model, as `transport.FlowTransport`.

    Parameters
    ----------
    system : with ``[flow]``; its workload does not run, its faults do
    record : keep events for ``golden.take_events``

    Raises
    ------
    ValueError : the system has no flow
    """

    def __init__(self, system: System, *, record: bool = False):
        if not system.flow.ports:
            raise ValueError("flow.ports: is 0, so there are no ports; set it to 2, 4, 8 or 16")
        self.system = system
        self.nodes, self.ports = system.nodes, system.flow.ports
        # What is longer than a socket may have under way is refused, however often it is offered.
        self.mtu = min(system.flow_mtu, system.flow_send_limit)
        self.tags = 1 << system.wire.tag_bits
        self.receive_limit = system.flow_receive_limit
        self.golden = Golden(system, external=True, record=record)
        layout, level = system.layout, system.services.index(FLOW)
        self._places = np.array([layout.service_place(node, level) + FLOW.flags for node in range(system.nodes)])
        self._words = np.zeros((_AT_ONCE, layout.words), np.uint64)
        self._stimulus = np.zeros((system.nodes, layout.stimulus_words), np.uint64)
        self._hosts = [DrivenHost((1 << self.ports) - 1) for _ in range(system.nodes)]
        self._dirty = set(range(system.nodes))
        self._congested = [0] * system.nodes
        self._idle, self._waits = False, True
        self._deaths = [system.death(node) for node in range(system.nodes)]
        self._live = list(range(system.nodes))
        # When nodes are reset or die, the last first; a dead one is reset no more.
        resets = {(reset.start, reset.node) for reset in system.node_resets}
        self._faults = sorted(
            ((start, node) for start, node in resets if (died := self._deaths[node]) is None or start <= died),
            reverse=True,
        )
        k = self.golden.k
        end = int(k.at_top + k.port_width) - int(k.port_streams) * Delivery.size
        self._shown_at, self._delivery_at = end - ShownPort.size, end
        self._beat_at = int(k.at_top_data) + MERGE + 2
        self._accepted = self._shown_at + ShownPort.accepted_valid
        self._pending = [int(k.rooms[level].at) + at for at in _PENDING]
        self._waiting = np.ix_(self._live, self._pending)

    # The transport

    @property
    def cycle(self) -> int:
        return self.golden.cycle

    @property
    def idle(self) -> bool:
        return self._idle and not any(host.offers or host.taking for host in self._hosts)

    def send(self, node: int, datagram: FlowRecord) -> None:
        self._host(node).records.append(datagram)

    def set(self, node: int, code: SettingCode, index: int, value: int) -> None:
        limit = code in (SettingCode.RECEIVE_LIMIT, SettingCode.SEND_LIMIT)
        self._host(node).settings.append((code, index, value // 16 if limit else value))

    def cancel(self, node: int, slot: int, generation: int) -> None:
        self._host(node).cancels.append((slot, generation))

    def receive(self, node: int, mask: int) -> None:
        self._host(node).mask = mask

    def advance(self, cycles: int) -> list[Happening]:
        end = self.cycle + cycles
        while self.cycle < end:
            if self.idle and not self._dirty:
                self._pass(min(end, self._faults[-1][0] if self._faults else end) - self.cycle)
                if self.cycle >= end:
                    break
            if told := self._step():
                return told
        return []

    def close(self) -> None:
        """Nothing is outside this process."""

    # The steps

    def _host(self, node: int) -> DrivenHost:
        """What a host has to offer; what a dead node is asked for goes nowhere."""
        if node not in self._live:
            return DrivenHost(0)
        self._dirty.add(node)
        return self._hosts[node]

    def _pass(self, cycles: int) -> None:
        """Cycles in which nothing can happen."""
        while cycles > 0:
            part = min(cycles, _AT_ONCE)
            self._run(part)
            cycles -= part

    def _run(self, cycles: int, words: np.ndarray | None = None) -> None:
        """Cycles in which the hosts offer the same; their trace words go into ``words``."""
        self.golden.run(cycles, words=words, stimulus=np.repeat(self._stimulus.reshape(1, -1), cycles, axis=0))

    def _step(self) -> list[Happening]:
        """One cycle: what its hosts are told in it."""
        for node in self._dirty:
            self._stimulus[node] = self._offer(self._hosts[node])
        self._dirty.clear()
        cycle = self.cycle
        self._run(1, self._words)
        flags = self._words[0, self._places].tolist()
        accepted = self.golden.numbers[:, self._accepted].tolist()
        # `idle` is by the state at the start of the cycle; what was pending then may have acted in it.
        before, self._waits = self._waits, bool(self.golden.numbers[self._waiting].any())
        self._idle = all(flags[node] & _FLAGS["idle"] for node in self._live) and not before and not self._waits
        told: list[Happening] = []
        while self._faults and self._faults[-1][0] <= cycle:
            start, node = self._faults.pop()
            self._hosts[node] = DrivenHost(self._host(node).mask)
            self._congested[node] = 0
            told.append(self._died(node, cycle) if self._deaths[node] == start else Restarted(node, cycle))
        for node in self._live:
            flag, has, host = flags[node], accepted[node], self._hosts[node]
            if flag & _SHOWS or has or host.offers or _CONGESTED.of(flag) != self._congested[node]:
                self._look(node, host, flag, cycle, told)
        return told

    def _died(self, node: int, cycle: int) -> Died:
        self._live.remove(node)
        self._waiting = np.ix_(self._live, self._pending)
        return Died(node, cycle)

    def _offer(self, host: DrivenHost) -> list[int]:
        """The stimulus words of a host."""
        layout = self.system.layout
        words = [0] * layout.stimulus_words
        ports = {"receive_mask": host.mask}
        if host.records:
            datagram = host.records[0]
            words[trace.STIMULUS_FLAGS] |= _OFFERS["send.valid"]
            record = {
                "destination": datagram.destination, "class": 0, "mode": 0, "length": len(datagram.payload),
                "tag": datagram.tag,
            }  # fmt: skip
            words[trace.STIMULUS_RECORD_WORD] = _packed(record, trace.STIMULUS_RECORD)
            limits = {"deadline": datagram.deadline, "retry_limit": 0, "expect": 0}
            words[trace.STIMULUS_LIMITS_WORD] = _packed(limits, trace.STIMULUS_LIMITS)
            ports |= {"sport": datagram.sport, "dport": datagram.dport, "flags": datagram.flags}
        if host.beats:
            words[trace.STIMULUS_FLAGS] |= _OFFERS["send_data.valid"]
            words[trace.STIMULUS_BEAT], words[trace.STIMULUS_BEAT + 1] = host.beats[0]
        if host.cancels:
            words[trace.STIMULUS_FLAGS] |= _OFFERS["cancel.valid"]
            slot, generation = host.cancels[0]
            cancel = {"slot": slot, "generation": generation}
            words[trace.STIMULUS_CANCEL_WORD] = _packed(cancel, trace.STIMULUS_CANCEL)
        words[layout.stimulus_ports] = _packed(ports, trace.STIMULUS_PORTS)
        if host.settings:
            code, index, value = host.settings[0]
            setting = {"valid": 1, "code": code, "index": index, "value": value}
            words[layout.stimulus_ports + 1] = _packed(setting, trace.STIMULUS_SET)
        return words

    def _look(self, node: int, host: DrivenHost, flag: int, cycle: int, told: list[Happening]) -> None:
        """What happened at a host in the cycle: transfers, and what it is told."""
        shown = ShownPort(self.golden.numbers[node], self._shown_at)
        if host.offers:
            self._transfers(node, host, flag, cycle, told, shown)
        if shown.accepted_valid:
            slot, generation = int(shown.accepted_slot), int(shown.accepted_generation)
            told.append(Accepted(node, cycle, slot, generation, int(shown.accepted_tag)))
        if flag & _FLAGS["completion.valid"]:
            told.append(
                DatagramEnd(
                    node, cycle, int(shown.slot), int(shown.generation), int(shown.destination), int(shown.tag),
                    Status(int(shown.status)), Cause(int(shown.cause)), int(shown.peer_incarnation),
                )
            )  # fmt: skip
        if flag & _FLAGS["notice.valid"]:
            told.append(Noticed(node, cycle, int(shown.notice_peer), bool(shown.notice_up), int(shown.notice_map)))
        if (bits := _CONGESTED.of(flag)) != self._congested[node]:
            self._congested[node] = bits
            told.append(Congested(node, cycle, bits))
        takes = not self._stalled(node, cycle)
        if takes and flag & _FLAGS["deliver.valid"]:
            it = Delivery(self.golden.numbers[node], self._delivery_at)
            record = Arrived(
                node, cycle, int(it.source), int(it.cls), int(it.sport), int(it.dport), int(it.flags), int(it.seq),
                int(it.gap), b"",
            )  # fmt: skip
            host.taking.append(Taking(record, int(it.length)))
        if takes and flag & _FLAGS["deliver_data.valid"]:
            words = self.golden.words[node, self._beat_at : self._beat_at + 2]
            taking = next(taking for taking in host.taking if len(taking.payload) < taking.length)
            taking.payload += words.tobytes()[: self.system.format.flit_bytes]
        while host.taking and len(host.taking[0].payload) >= host.taking[0].length:
            whole = host.taking.popleft()
            it = whole.record
            told.append(
                Arrived(
                    node, cycle, it.source, it.cls, it.sport, it.dport, it.flags, it.seq, it.gap,
                    bytes(whole.payload[: whole.length]),
                )
            )  # fmt: skip

    def _stalled(self, node: int, cycle: int) -> bool:
        """The faults keep the host from taking messages."""
        return any(one.node == node and one.start <= cycle < one.end for one in self.system.faults.stalls)

    def _transfers(
        self, node: int, host: DrivenHost, flag: int, cycle: int, told: list[Happening], shown: ShownPort
    ) -> None:
        """What the node has taken of what the host offered."""
        offered = int(self._stimulus[node, trace.STIMULUS_FLAGS])
        if offered & _OFFERS["send_data.valid"] and flag & _FLAGS["send_data.ready"]:
            host.beats.popleft()
            self._dirty.add(node)
        if offered & _OFFERS["send.valid"] and flag & _FLAGS["send.ready"]:
            host.beats.extend(self._beats(host.records.popleft().payload))
            self._dirty.add(node)
        if offered & _OFFERS["cancel.valid"] and flag & _FLAGS["cancel.ready"]:
            host.cancels.popleft()
            self._dirty.add(node)
        if int(self._stimulus[node, self.system.layout.stimulus_ports + 1]) & 1 and flag & _FLAGS["set.ready"]:
            host.settings.popleft()
            told.append(Answered(node, cycle, int(shown.answer_error)))
            self._dirty.add(node)

    def _beats(self, payload: bytes) -> list[tuple[int, int]]:
        """Both stimulus words of each beat."""
        step = self.system.format.flit_bytes
        beats = (payload[at : at + step] for at in range(0, len(payload), step))
        return [(int.from_bytes(beat[:8], "little"), int.from_bytes(beat[8:], "little")) for beat in beats]


def _packed(values: dict[str, int], table: tuple[tuple[str, int], ...]) -> int:
    """A stimulus word; what is not named is 0."""
    return sum(values.get(name, 0) << bits.shift for name, bits in trace.fields(table).items())
