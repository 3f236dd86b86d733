"""A transport for tests of the RDS driver: nodes with flow in plain Python, message by message.

It does what docs/reference/flow.md says a host sees, but not in the cycles in which hardware does it: streams with
numbers, windows and credits, refusals with their causes, ports and their limits, congestion maps, opening and leaving
of peers, resets, links that are cut.  Delays and losses are drawn by seed, so messages overtake each other below.
"""

import heapq
import itertools
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from lethe.spec.events import Cause, Status
from lethe_sim.rds import transport
from lethe_sim.rds.transport import NOWAIT, REPEATED, FlowRecord, Happening, SettingCode

WINDOW, NUMBERS = 16, 256


@dataclass(eq=False)
class Flight:
    """A datagram that has its number."""

    source: int
    destination: int
    datagram: FlowRecord
    seq: int
    slot: int
    generation: int
    tries: int = 0
    launched: bool = False
    landed: bool = False
    ended: bool = False


@dataclass
class OutStream:
    next: int = 0
    base: int = 0
    limit: int = 2
    done: set[int] = field(default_factory=set)

    def finish(self, number: int) -> None:
        self.done.add(number)
        while self.base in self.done:
            self.done.discard(self.base)
            self.base += 1


@dataclass
class InStream:
    expected: int = 0
    present: dict[int, Flight | None] = field(default_factory=dict)
    gap: int = 1


@dataclass
class RefPort:
    number: int | None
    receive_limit: int
    send_limit: int
    list: deque = field(default_factory=deque)
    used: int = 0
    bytes: int = 0
    congested: bool = False
    sent_bytes: int = 0
    sent_slots: int = 0


@dataclass
class RefNode:
    ports: list[RefPort]
    records: deque[FlowRecord] = field(default_factory=deque)
    free: deque[int] = field(default_factory=deque)
    out: dict[int, str] = field(default_factory=dict)
    opened: dict[int, bool] = field(default_factory=dict)
    maps: dict[int, int] = field(default_factory=dict)
    outs: dict[tuple[int, int], OutStream] = field(default_factory=dict)
    ins: dict[tuple[int, int], InStream] = field(default_factory=dict)
    flights: set[Flight] = field(default_factory=set)
    mask: int = 0
    trying: bool = False
    showing: bool = False


class ReferenceTransport:
    """`lethe_sim.rds.transport.FlowTransport` in plain Python.

    Parameters
    ----------
    loss : chance that a message or its acknowledgement is lost, and repeated
    delay : least and most cycles of a way
    cells, in_order, quota, slots, send_limit : as the keys of `[flow]`; slots of a node
    watch : cycles after which a peer that answers nothing is left
    """

    def __init__(
        self, nodes: int = 2, *, ports: int = 16, mtu: int = 32, seed: int = 1, loss: float = 0.1,
        delay: tuple[int, int] = (20, 60), cells: int = 24, in_order: int = 8, quota: int = 3, slots: int = 12,
        receive_limit: int = 0, send_limit: int = 0, watch: int = 2000, tags: int = 1 << 16,
    ):  # fmt: skip
        self.nodes, self.ports, self.mtu, self.tags = nodes, ports, mtu, tags
        self.receive_limit = receive_limit or max(16, cells * mtu // 32 * 16)
        self.cycle = 0
        self.closed = False
        self.offered: list[tuple[int, FlowRecord]] = []
        self.settings: list[tuple[int, SettingCode, int, int]] = []
        self._random = random.Random(seed)
        self._loss, self._delay, self._cells, self._in_order = loss, delay, cells, in_order
        self._quota, self._slots, self._watch = quota, slots, watch
        self._send_limit = send_limit or quota * mtu
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._told: list[Happening] = []
        self._generation = itertools.count(1)
        self._life = [0] * nodes
        self._reset_in: dict[int, int] = {}
        self._cut: set[frozenset[int]] = set()
        self._dead: set[int] = set()
        self._state = [self._fresh(True) for _ in range(nodes)]

    # The transport

    @property
    def idle(self) -> bool:
        return not self._heap and not any(state.records for state in self._state)

    def send(self, node: int, datagram: FlowRecord) -> None:
        assert 0 <= datagram.tag < self.tags
        if node in self._dead:
            return
        self.offered.append((node, datagram))
        self._state[node].records.append(datagram)
        self._try_soon(node)

    def set(self, node: int, code: SettingCode, index: int, value: int) -> None:
        if node in self._dead:
            return
        self.settings.append((node, code, index, value))
        life = self._life[node]
        self._later(5, lambda: self._set(node, life, code, index, value))

    def cancel(self, node: int, slot: int, generation: int) -> None:
        for flight in list(self._state[node].flights):
            if (flight.slot, flight.generation) == (slot, generation):
                self._later(5, lambda flight=flight: self._gone(flight, Cause.CANCELLED))

    def receive(self, node: int, mask: int) -> None:
        self._state[node].mask = mask
        self._show_soon(node)

    def advance(self, cycles: int) -> list[Happening]:
        assert cycles >= 1 and not self.closed
        end = self.cycle + cycles
        while self._heap and self._heap[0][0] <= end:
            self.cycle = self._heap[0][0]
            while self._heap and self._heap[0][0] == self.cycle:
                heapq.heappop(self._heap)[2]()
            if self._told:
                told, self._told = self._told, []
                return told
        self.cycle = end
        return []

    def close(self) -> None:
        self.closed = True

    # What a test does to the network

    def reset(self, node: int) -> None:
        """The node is reset in the next cycle."""
        self._later(1, lambda: self._reset(node))

    def die(self, node: int) -> None:
        """The node is dead from the next cycle on."""
        self._later(1, lambda: self._die(node))

    def cut(self, a: int, b: int) -> None:
        """Nothing passes between two nodes from now on."""
        self._cut.add(frozenset((a, b)))
        for one, other in ((a, b), (b, a)):
            self._later(self._watch, lambda one=one, other=other: self._silent(one, other))

    def heal(self, a: int, b: int) -> None:
        """The end of `cut`."""
        self._cut.discard(frozenset((a, b)))

    def waiting(self, node: int) -> int:
        """Messages in the lists of a node's ports."""
        return sum(len(port.list) for port in self._state[node].ports)

    def reads(self, node: int, index: int) -> bool:
        """Whether the node's host takes messages from a port."""
        return bool(self._state[node].mask >> index & 1)

    # Time

    def _later(self, cycles: int, what: Callable[[], None]) -> None:
        heapq.heappush(self._heap, (self.cycle + cycles, next(self._order), what))

    def _way(self) -> int:
        return self._random.randint(*self._delay)

    def _lost(self, a: int, b: int) -> bool:
        return frozenset((a, b)) in self._cut or self._random.random() < self._loss

    def _fresh(self, bound: bool) -> RefNode:
        ports = [RefPort(i if bound else None, self.receive_limit, self._send_limit) for i in range(self.ports)]
        return RefNode(ports, free=deque(range(self._slots)), mask=(1 << self.ports) - 1)

    # Out

    def _try_soon(self, node: int) -> None:
        state = self._state[node]
        if state.records and not state.trying:
            state.trying = True
            life = self._life[node]
            self._later(4, lambda: self._attempt(node, life))

    def _attempt(self, node: int, life: int) -> None:
        if life != self._life[node]:
            return
        state = self._state[node]
        state.trying = False
        datagram = state.records[0]
        cause = self._cause(node, datagram)
        if cause is None and (state.free or datagram.destination == node):
            state.records.popleft()
            self._admit(node, datagram)
        elif cause is not None and (
            datagram.flags & NOWAIT or cause in (Cause.LENGTH, Cause.DESTINATION, Cause.NOT_BOUND)
        ):
            state.records.popleft()
            generation = next(self._generation)
            self._later(2, lambda: self._tell(life, transport.DatagramEnd(
                node, self.cycle, self._slots, generation, datagram.destination, datagram.tag, Status.REJECTED, cause,
            )))  # fmt: skip
        self._try_soon(node)

    def _cause(self, node: int, datagram: FlowRecord) -> Cause | None:
        state, to = self._state[node], datagram.destination
        socket, index = state.ports[datagram.sport % self.ports], datagram.dport % self.ports
        own = to == node
        length = len(datagram.payload)
        if not 0 <= to < self.nodes:
            return Cause.DESTINATION
        if length > self.mtu or length > socket.send_limit:
            return Cause.LENGTH
        if socket.number != datagram.sport:
            return Cause.NOT_BOUND
        if not own and state.out.get(to) != "UP":
            self._connect(node, to)
            return Cause.NOT_CONNECTED
        if state.ports[index].congested if own else state.maps.get(to, 0) >> index & 1:
            return Cause.CONGESTED
        full = own and state.ports[index].number == datagram.dport and state.ports[index].used == self._cells
        if socket.sent_bytes + length > socket.send_limit or socket.sent_slots >= self._quota or full:
            return Cause.BUFFER
        stream = state.outs.setdefault((to, index), OutStream())
        if not own and (stream.next >= stream.limit or stream.next - stream.base >= WINDOW):
            return Cause.WINDOW
        return None

    def _admit(self, node: int, datagram: FlowRecord) -> None:
        state, life, to = self._state[node], self._life[node], datagram.destination
        generation = next(self._generation)
        if to == node:
            self._tell(life, transport.Accepted(node, self.cycle, self._slots, generation, datagram.tag))
            self._later(2, lambda: self._tell(life, transport.DatagramEnd(
                node, self.cycle, self._slots, generation, node, datagram.tag, Status.ACCEPTED, Cause.NONE,
            )))  # fmt: skip
            port = state.ports[datagram.dport % self.ports]
            if port.number == datagram.dport:
                port.used += 1
                self._place(node, Flight(node, node, datagram, 0, 0, 0), 0)
            return
        stream = state.outs[to, datagram.dport % self.ports]
        flight = Flight(node, to, datagram, stream.next, state.free.popleft(), generation)
        stream.next += 1
        socket = state.ports[datagram.sport % self.ports]
        socket.sent_bytes += len(datagram.payload)
        socket.sent_slots += 1
        state.flights.add(flight)
        beats = 3 + -(-len(datagram.payload) // 8)
        self._later(
            beats, lambda: self._tell(life, transport.Accepted(node, self.cycle, flight.slot, generation, datagram.tag))
        )
        self._later(beats + 1 + self._random.randint(0, 20), lambda: self._launch(flight))

    def _launch(self, flight: Flight) -> None:
        if flight.ended:
            return
        flight.launched = True
        if not self._lost(flight.source, flight.destination):
            tries = flight.tries
            self._later(self._way(), lambda: self._arrive(flight, tries))
        flight.tries += 1
        self._later(150 * min(flight.tries, 4), lambda: self._launch(flight))

    def _connect(self, node: int, to: int) -> None:
        state = self._state[node]
        if state.out.get(to) in (None, "DOWN"):
            state.out[to] = "CONNECTING"
            life = self._life[node], self._life[to]
            self._later(2 * self._way(), lambda: self._open(node, to, life))

    def _open(self, node: int, to: int, life: tuple[int, int]) -> None:
        state = self._state[node]
        if self._life[node] != life[0] or state.out.get(to) != "CONNECTING":
            return
        if frozenset((node, to)) in self._cut or self._life[to] != life[1]:
            # Only who is asked again goes on.
            state.out[to] = "DOWN"
            return
        far = self._state[to]
        for (source, index), stream in far.ins.items():
            if source == node:
                self._flush(to, index, stream)
        state.outs = {key: stream for key, stream in state.outs.items() if key[0] != to}
        far.opened[node] = True
        state.out[to] = "UP"
        state.maps[to] = self._map(to)
        self._tell(life[0], transport.Noticed(node, self.cycle, to, True, state.maps[to]))

    def _flush(self, node: int, index: int, stream: InStream) -> None:
        for number in sorted(stream.present):
            self._take_number(node, index, stream, stream.present[number], stream.expected != number)
        stream.expected, stream.present, stream.gap = 0, {}, 1

    # In

    def _arrive(self, flight: Flight, tries: int) -> None:
        node, source, datagram = flight.destination, flight.source, flight.datagram
        state = self._state[node]
        if not state.opened.get(source) or frozenset((node, source)) in self._cut:
            return
        index = datagram.dport % self.ports
        stream, port = state.ins.setdefault((source, index), InStream()), state.ports[index]
        if not flight.landed:
            if (
                flight.ended
                or not stream.expected <= flight.seq < stream.expected + WINDOW
                or flight.seq in stream.present
            ):
                return
            bound = port.number == datagram.dport
            if bound and port.used >= self._cells - (flight.seq != stream.expected) * self._in_order:
                return
            flight.landed = True
            flight.tries = tries
            port.used += bound
            stream.present[flight.seq] = flight if bound else None
            self._in_order_now(node, index, stream)
            self._judge(node)
        offer = stream.expected + 2 + min(14, max(0, self._cells - port.used) // 2)
        if not self._lost(node, source):
            self._later(self._way(), lambda: self._acknowledged(flight, offer))

    def _in_order_now(self, node: int, index: int, stream: InStream) -> None:
        while stream.expected in stream.present:
            self._take_number(node, index, stream, stream.present.pop(stream.expected), False)
            stream.expected += 1

    def _take_number(self, node: int, index: int, stream: InStream, flight: Flight | None, hole: bool) -> None:
        if flight is None or hole:
            stream.gap = 1
        if flight is not None:
            gap, stream.gap = stream.gap, 0
            self._place(node, flight, gap)

    def _place(self, node: int, flight: Flight, gap: int) -> None:
        port = self._state[node].ports[flight.datagram.dport % self.ports]
        port.list.append((flight, gap))
        port.bytes += len(flight.datagram.payload)
        self._judge(node)
        self._show_soon(node)

    def _show_soon(self, node: int) -> None:
        state = self._state[node]
        if not state.showing and self._choose(node) is not None:
            state.showing = True
            life = self._life[node]
            self._later(6, lambda: self._show(node, life))

    def _choose(self, node: int) -> int | None:
        state = self._state[node]
        for index, port in enumerate(state.ports):
            if port.list and (state.mask >> index & 1 or port.number is None):
                return index
        return None

    def _show(self, node: int, life: int) -> None:
        if life != self._life[node]:
            return
        state = self._state[node]
        state.showing = False
        index = self._choose(node)
        if index is None:
            return
        port = state.ports[index]
        flight, gap = port.list.popleft()
        datagram = flight.datagram
        port.used -= 1
        port.bytes -= len(datagram.payload)
        if port.number == datagram.dport:
            flags = datagram.flags & 0x77 | (REPEATED if flight.tries else 0)
            self._tell(life, transport.Arrived(
                node, self.cycle, flight.source, 0, datagram.sport, datagram.dport, flags, flight.seq % NUMBERS, gap,
                datagram.payload,
            ))  # fmt: skip
        self._judge(node)
        self._show_soon(node)

    # Ends

    def _acknowledged(self, flight: Flight, offer: int) -> None:
        self._raise(flight, offer)
        self._end(flight, Status.ACCEPTED, Cause.NONE)

    def _raise(self, flight: Flight, offer: int) -> None:
        key = flight.destination, flight.datagram.dport % self.ports
        stream = self._state[flight.source].outs.get(key)
        if stream is not None and not flight.ended:
            stream.limit = max(stream.limit, offer)

    def _gone(self, flight: Flight, cause: Cause) -> None:
        self._end(flight, Status.UNKNOWN if flight.launched else Status.NEVER_SENT, cause)

    def _end(self, flight: Flight, status: Status, cause: Cause) -> None:
        if flight.ended:
            return
        flight.ended = True
        node, datagram = flight.source, flight.datagram
        state, life = self._state[node], self._life[node]
        state.flights.discard(flight)
        state.free.append(flight.slot)
        socket = state.ports[datagram.sport % self.ports]
        socket.sent_bytes -= len(datagram.payload)
        socket.sent_slots -= 1
        key = flight.destination, datagram.dport % self.ports
        if status is Status.ACCEPTED:
            state.outs[key].finish(flight.seq)
        elif state.out.get(flight.destination) == "UP":
            lives = life, self._life[flight.destination]
            self._later(self._way(), lambda: self._void(flight, lives))
        ended = transport.DatagramEnd(
            node, self.cycle, flight.slot, flight.generation, flight.destination, datagram.tag, status, cause
        )
        self._later(2, lambda: self._tell(life, ended))
        self._try_soon(node)

    def _void(self, flight: Flight, lives: tuple[int, int]) -> None:
        node, to = flight.source, flight.destination
        if (self._life[node], self._life[to]) != lives or self._state[node].out.get(to) != "UP":
            return
        if self._lost(node, to):
            self._later(150, lambda: self._void(flight, lives))
            return
        index = flight.datagram.dport % self.ports
        stream = self._state[to].ins.setdefault((node, index), InStream())
        if stream.expected <= flight.seq < stream.expected + WINDOW:
            stream.present.setdefault(flight.seq, None)
            self._in_order_now(to, index, stream)
        out = self._state[node].outs[to, index]
        out.finish(flight.seq)
        out.limit = max(out.limit, stream.expected + 2)

    def _leave(self, node: int, to: int, cause: Cause) -> None:
        """Out to a peer is no more UP."""
        state = self._state[node]
        if state.out.get(to) == "UP":
            state.out[to] = "DOWN"
            state.maps[to] = 0
            self._tell(self._life[node], transport.Noticed(node, self.cycle, to, False, 0))
        for flight in sorted((f for f in state.flights if f.destination == to), key=lambda f: f.generation):
            self._gone(flight, cause)

    def _silent(self, node: int, to: int) -> None:
        if frozenset((node, to)) in self._cut:
            self._leave(node, to, Cause.CANCELLED)

    def _reset(self, node: int) -> None:
        if self._reset_in.get(node) == self.cycle:
            return
        self._reset_in[node] = self.cycle
        for flight in self._state[node].flights:
            flight.ended = True
        self._life[node] += 1
        self._state[node] = self._fresh(True)
        self._tell(self._life[node], transport.Restarted(node, self.cycle))
        for other in range(self.nodes):
            if other != node:
                self._later(self._way(), lambda other=other: self._leave(other, node, Cause.RESTARTED))

    def _die(self, node: int) -> None:
        for other in range(self.nodes):
            if other != node:
                self.cut(node, other)
        for flight in self._state[node].flights:
            flight.ended = True
        self._life[node] += 1
        self._state[node] = self._fresh(True)
        self._tell(self._life[node], transport.Died(node, self.cycle))
        self._dead.add(node)

    # Ports

    def _set(self, node: int, life: int, code: SettingCode, index: int, value: int) -> None:
        if life != self._life[node]:
            return
        port, error = self._state[node].ports[index], 0
        match code:
            case SettingCode.UNBIND:
                port.number = None
                self._show_soon(node)
            case SettingCode.BIND if port.number is not None:
                error = 1
            case SettingCode.BIND if port.list:
                error = 2
            case SettingCode.BIND if value % self.ports != index:
                error = 3
            case SettingCode.BIND:
                port.number = value
            case SettingCode.RECEIVE_LIMIT:
                assert value % 16 == 0
                port.receive_limit = value
            case SettingCode.SEND_LIMIT:
                port.send_limit = value
        self._judge(node)
        self._tell(life, transport.Answered(node, self.cycle, error))

    def _map(self, node: int) -> int:
        return sum(1 << i for i, port in enumerate(self._state[node].ports) if port.congested)

    def _judge(self, node: int) -> None:
        before, cells, most = self._map(node), self._cells, self._cells - self._in_order
        for port in self._state[node].ports:
            listed = len(port.list)
            full = port.bytes >= port.receive_limit or port.used >= most or 2 * listed >= cells
            drained = 2 * port.bytes < port.receive_limit and 2 * port.used < most and 4 * listed < cells
            if not port.congested and port.number is not None and full:
                port.congested = True
            elif port.congested and (drained or port.number is None):
                port.congested = False
        if self._map(node) != before:
            self._tell(self._life[node], transport.Congested(node, self.cycle, self._map(node)))
            for other in range(self.nodes):
                if other != node and self._state[other].out.get(node) == "UP":
                    self._later(self._way(), lambda other=other: self._hear(other, node))

    def _hear(self, node: int, of: int) -> None:
        state, bits = self._state[node], self._map(of)
        if state.out.get(of) != "UP":
            return
        if frozenset((node, of)) in self._cut:
            self._later(200, lambda: self._hear(node, of))
        elif state.maps.get(of, 0) != bits:
            state.maps[of] = bits
            self._tell(self._life[node], transport.Noticed(node, self.cycle, of, True, bits))

    def _tell(self, life: int, event: Happening) -> None:
        if life == self._life[event.node]:
            self._told.append(event)
