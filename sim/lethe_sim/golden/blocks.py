"""Single blocks of the golden model, a cycle a call: for benches that hold one RTL block against its model.

Every block begins in its state at system reset, and its first `step` is cycle 0.  The compiled functions
are those of the whole system.
"""

from typing import NamedTuple

import numpy as np

from lethe.spec.config import System
from lethe.spec.random import UNIT_LINK_FLIP, UNIT_LINK_LOSS, UNIT_ROUTER, seed_for
from lethe.spec.trace import NI_FLAGS, NI_FLIT, WORD_BITS, lane_word
from lethe_sim.golden.fabric import fabric, fault, router
from lethe_sim.golden.fabric.topology import place_router
from lethe_sim.golden.lib import queue
from lethe_sim.golden.lib.bits import U0

from . import system as machine
from .compile import bound, jit, pointer
from .events import COLUMNS
from .model import state
from .ni import ladder, transmitter
from .ni import ni as interface
from .state import (
    EXTERNAL,
    FIRST,
    LAST,
    NEVER,
    NONE,
    VALID,
    Buffer,
    HostPort,
    Link,
    Parameters,
    Port,
    Registers,
    Ring,
    parameters,
)
from .state import Queue as QueueState
from .state import Router as RouterState
from .study import credits
from .traffic import host as hosts
from .view import NiView

MASK64 = (1 << 64) - 1


class Flit(NamedTuple):
    """What is on a link in one cycle; all 0 if there is nothing."""

    valid: int = 0
    first: int = 0
    last: int = 0
    data: int = 0

    @property
    def flags(self) -> int:
        """The flags as the model keeps them."""
        return (VALID | FIRST * bool(self.first) | LAST * bool(self.last)) if self.valid else 0

    @property
    def halves(self) -> tuple[np.uint64, np.uint64]:
        """The data as two words."""
        return np.uint64(self.data & MASK64), np.uint64(self.data >> 64)

    @classmethod
    def of(cls, flags: int, low: int, high: int) -> "Flit":
        """A flit from the model's flags and words."""
        return cls(1, int(flags & FIRST > 0), int(flags & LAST > 0), int(low) | int(high) << 64)


@jit
def _oldest(k, row):
    return queue.oldest(k, row, 0).a


class Queue:
    """`Queue(depth)` of section 1."""

    def __init__(self, depth: int):
        self.depth, self.cycle = depth, 0
        self.k = Parameters(np.zeros(Parameters.size + Ring.size, np.int64))
        self.k.queues[0].at, self.k.queues[0].places = QueueState.size, depth + 1
        self.row = Registers(np.zeros(QueueState.size + 2 * (depth + 1), np.int64))

    @property
    def output(self) -> int | None:
        """The entry at the output in this cycle."""
        if not queue.present(self.k, self.row, 0, self.cycle):
            return None
        return int(_oldest(self.k, self.row))

    @property
    def level(self) -> int:
        """Entries in memory in this cycle."""
        return int(queue.level(self.k, self.row, 0, self.cycle))

    def step(self, push: int | None = None, pop: bool = False) -> tuple[int | None, int]:
        """One cycle: returns (output, level) as they are in it; illegal pushes and pops raise `ValueError`."""
        seen = self.output, self.level
        if (pop and seen[0] is None) or (push is not None and seen[1] >= self.depth):
            raise ValueError(f"cycle {self.cycle}: push or pop is not legal with output and level {seen}")
        if pop:
            queue.pop(self.k, self.row, 0, self.cycle)
        if push is not None:
            queue.push(self.k, self.row, 0, push, 0, self.cycle)
        self.cycle += 1
        return seen


class Token(NamedTuple):
    """A token on a ladder: its rung, when it is due, and two numbers that say what it is for."""

    rung: int
    due: int
    a: int
    b: int = 0


class Ladder:
    """One ladder of section 4.6, ``number`` 0 for the Sends' and 1 for the Acks'."""

    def __init__(self, system: System, number: int = 0):
        self.number, self.cycle = number, 0
        self.k = parameters(system, EXTERNAL)
        self.row = Registers(state(system, self.k, only=0)[0][0])
        self.row.ready_from = self.k.initial
        ladder.clear(self.k, self.row)

    def step(self, time: int, push: Token | None = None, take: bool = False) -> tuple[tuple[int, int] | None, bool]:
        """One cycle: returns (the hold register's two numbers or None, whether a new datagram has room).

        ``take`` empties a full hold register; ``push`` puts a token on its rung.  ``time`` is as in the cycle before
        or one more.
        """
        register, cycle = self.row.ladders[self.number], self.cycle
        self.row.time_zero = cycle - time
        hold = (int(register.a), int(register.b)) if register.full else None
        room = bool(ladder.has_room(self.row, self.number, cycle))
        ladder.poll(self.k, self.row, self.number, cycle)
        if hold and take:
            ladder.take(register, cycle)
        if push is not None:
            ladder.push(self.k, self.row, self.number, cycle, *push)
        self.cycle += 1
        return hold, room


@jit
def _pass_link(tables, k, events, flags, low, high, cycle):
    f, ev = fabric.pointers(tables), pointer(events)
    if flags == 0 or not fault.survives(k, f, ev, cycle, 0, 0, flags):
        return 0, np.uint64(0), np.uint64(0)
    if k.flip > 0:
        flags, low, high = fault.flip(k, f, ev, cycle, 0, 0, flags, low, high)
    return flags, low, high


class LinkFault:
    """The fault element of link ``number`` (section 2)."""

    def __init__(self, system: System, number: int):
        self.k, self.cycle = parameters(system, EXTERNAL), 0
        self.k.link_count = 1
        self.tables = fabric.empty(self.k, np.zeros(0, np.int64))
        self.link = Link(self.tables.links)
        self.link.loss_random = seed_for(system.run.seed, UNIT_LINK_LOSS, number)
        self.link.flip_random = seed_for(system.run.seed, UNIT_LINK_FLIP, number)
        self.events = np.zeros(4 * COLUMNS, np.uint64)
        self._pass = bound(_pass_link, self.tables, self.k, self.events, 0, U0, U0, 0)

    def step(self, flit: Flit, dead: bool = False) -> tuple[Flit, int]:
        """One cycle: returns (what reaches the receiver, the event with its detail · 256, or 0)."""
        self.link.dead_count = dead
        self.events[0] = 0
        flags, low, high = self._pass(self.tables, self.k, self.events, flit.flags, *flit.halves, self.cycle)
        self.cycle += 1
        event = int(self.events[COLUMNS + 2]) if self.events[0] else 0
        return (Flit.of(flags, low, high) if flags else Flit()), event


@jit
def _step_router(tables, k, events, flags, data, cycle):
    f, ev = fabric.pointers(tables), pointer(events)
    phase = fabric.list_at(k, 3) + (cycle & (k.phases - 1))
    f.lists[phase] = 0
    for port in range(len(flags)):
        if flags[port]:
            router.arrive(k, f, ev, cycle, port, flags[port], data[port, 0], data[port, 1])
    router.gaps(k, f, ev, cycle)
    router.decide_all(k, f, ev, cycle)


class Router:
    """Router ``number`` of a system, without the fault elements of its links (section 3)."""

    def __init__(self, system: System, number: int):
        self.k, self.cycle = parameters(system, EXTERNAL), 0
        self.ports, self.lanes = system.graph.ports(number), system.graph.lanes(number)
        self.k.router_count, self.k.port_count, self.k.link_count = 1, self.ports, self.ports
        self.k.whole = 0  # its inputs may do what no network does
        self.tables = fabric.empty(self.k, np.array([self.ports], np.int64))
        self.state = RouterState(self.tables.routers)
        place_router(self.k, self.state, number)
        self.state.draw = seed_for(system.run.seed, UNIT_ROUTER, number)
        self.state.path_draw = seed_for(system.run.seed, UNIT_ROUTER, system.graph.routers + number)
        fabric.rows(self.tables.ports, Port)[:, Port.out_link] = np.arange(self.ports)
        self.events = np.zeros((self.lanes + 4) * COLUMNS, np.uint64)
        self._flags, self._data = np.zeros(self.ports, np.int64), np.zeros((self.ports, 2), np.uint64)
        self._step = bound(_step_router, self.tables, self.k, self.events, self._flags, self._data, 0)

    def step(self, flits: list[Flit]) -> tuple[list[Flit], list[int]]:
        """One cycle: returns (flits visible at the outputs in it, trace word of each lane)."""
        shown = _shown(self.k, self.tables, self.cycle)
        _enter(flits, self._flags, self._data)
        self.events[0] = 0
        self._step(self.tables, self.k, self.events, self._flags, self._data, self.cycle)
        self.cycle += 1
        return shown, _lanes(self.events, self.lanes)

    @property
    def extra_fragments(self) -> int:
        """Fragments that no event has shown."""
        return int(self.state.extra_fragments)


def _shown(k: Parameters, tables: fabric.Fabric, cycle: int) -> list[Flit]:
    """The flits that the outputs of a single router show in a cycle."""
    ports = int(k.port_count)
    shown = [Flit() for _ in range(ports)]
    phase = cycle & int(k.phases) - 1
    first = 2 * phase * ports
    count = int(tables.lists[fabric.list_at(k, 3) + phase])
    for at in range(first, first + 2 * count, 2):
        words = tables.flight_data[at : at + 2].tolist()
        shown[tables.flight[at]] = Flit.of(int(tables.flight[at + 1]), *words)
    return shown


def _enter(flits: list[Flit], flags: np.ndarray, data: np.ndarray) -> None:
    """The flits on the inputs of a router as its compiled step takes them."""
    flags[:] = [flit.flags for flit in flits]
    for port, flit in enumerate(flits):
        if flit.valid:
            data[port] = flit.halves


def _lanes(events: np.ndarray, lanes: int) -> list[int]:
    """The trace word of each lane of a router."""
    words = [0] * lanes
    if count := int(events[0]):
        for row in events[COLUMNS : (count + 1) * COLUMNS].reshape(-1, COLUMNS).tolist():
            words[row[1] & 0xFF] = row[2]
    return words


@jit
def _step_credit_router(tables, k, events, flags, data, returned, cycle):
    f, ev = fabric.pointers(tables), pointer(events)
    credits.take_back(k, f, cycle)
    f.lists[fabric.list_at(k, 3) + (cycle & k.phases - 1)] = 0
    for port in range(len(flags)):
        if flags[port]:
            credits.arrive(k, f, cycle, port, flags[port], data[port, 0], data[port, 1])
    credits.step(k, f, ev, cycle)
    for port in range(len(flags)):
        if returned[port]:
            credits.give_back(k, f, cycle + 1, port)


class CreditRouter:
    """Router ``number`` of a system with credits and one channel (docs/studies/credits.md).

    ``route_delay`` and ``grant_delay`` are R and G; ``sinks`` are the outputs that lead to nodes.
    """

    def __init__(self, system: System, number: int, *, sinks: list[int], route_delay: int = 0, grant_delay: int = 0):
        self.k, self.cycle = parameters(system, EXTERNAL), 0
        self.k.route_delay, self.k.grant_delay = route_delay, grant_delay
        self.ports = system.graph.ports(number)
        self.k.router_count, self.k.port_count, self.k.link_count = 1, self.ports, self.ports
        self.tables = fabric.empty(self.k, np.array([self.ports], np.int64))
        place_router(self.k, RouterState(self.tables.routers), number)
        fabric.rows(self.tables.ports, Port)[:, Port.out_link] = np.arange(self.ports)
        buffers = credits.empty(self.k, self.tables)
        # The credits of the inputs go to rows that nobody else uses.
        buffers[: self.ports, Buffer.upstream] = self.ports + np.arange(self.ports)
        buffers[sinks, Buffer.credits] = NEVER
        self.events = np.zeros((self.ports + 4) * COLUMNS, np.uint64)
        self._flags, self._data = np.zeros(self.ports, np.int64), np.zeros((self.ports, 2), np.uint64)
        self._returned = np.zeros(self.ports, np.int64)
        inputs = self._flags, self._data, self._returned
        self._step = bound(_step_credit_router, self.tables, self.k, self.events, *inputs, 0)

    def step(self, flits: list[Flit], returned: list[int]) -> tuple[list[Flit], list[int], list[int]]:
        """One cycle, in which outputs have ``returned`` a credit to be used from the next cycle on.

        Returns (flits visible at the outputs in it, trace word of each input, inputs that give back such a credit).
        """
        shown = _shown(self.k, self.tables, self.cycle)
        _enter(flits, self._flags, self._data)
        self._returned[:] = returned
        self.events[0] = 0
        self._step(self.tables, self.k, self.events, self._flags, self._data, self._returned, self.cycle)
        self.cycle += 1
        at = int(credits.credits_of(self.k, self.cycle))
        coming = self.tables.returning[at + 1 : at + 1 + int(self.tables.returning[at])].tolist()
        back = [int(self.ports + port in coming) for port in range(self.ports)]
        return shown, _lanes(self.events, self.ports), back

    @property
    def waits(self) -> list[str]:
        """What somebody waits for behind the cycle: a head for its output, a worm for a credit, a link for a place."""
        ports = fabric.rows(self.tables.buffers, Buffer)[: self.ports]
        found = {
            "waits for an output": (ports[:, Buffer.asks] != NONE) & (ports[:, Buffer.holds] == NONE),
            "waits for a credit": (ports[:, Buffer.holder] != NONE) & (ports[:, Buffer.credits] == 0),
            "full": ports[:, Buffer.level] == int(self.k.credit_flits),
        }
        return [name for name, rows in found.items() if rows.any()]


@jit
def _step_ni(plant, cycle, flags, low, high, reset, incarnation, row):
    p = machine.pointers(plant)
    k, ni = p.k, machine.ni_of(p, 0)
    if reset and not ni.in_reset:
        interface.begin_reset(k, ni, p.events, cycle)
    ni.in_reset = 1 if reset else 0
    ni.incarnation_now = incarnation
    if not reset:
        interface.outputs(k, ni, p.data, machine.port_of(p, 0), cycle, pointer(row), 0)
        transmitter.shown(k, ni, p.events, cycle)
        if flags or ni.under_way:
            machine.hear(p, cycle, 0, flags, low, high)
    machine.step_node(p, cycle, 0)


@jit
def _drive(plant, words):
    p = machine.pointers(plant)
    hosts.drive(p.k, machine.host_of(p, 0), machine.port_of(p, 0), machine.beat_of(p, 0), words)


class Ni(NiView):
    """The NI of node ``node``, driven by stimulus words and a link (section 4), whatever the schedule of its system."""

    def __init__(self, system: System, node: int):
        self.k, self._cycle, self._words = parameters(system, EXTERNAL), 0, system.layout.ni_words
        ni, data = state(system, self.k, only=node)
        self.plant = machine.fresh(self.k, ni.reshape(-1), data.reshape(-1), events=np.zeros(16 * COLUMNS, np.uint64))
        super().__init__(self.k, Registers(self.plant.ni), self.plant.data)
        self.port = HostPort(self.plant.ni, int(self.k.at_port))
        self.ni.dead_from = NEVER
        interface.reset(self.k, self.ni, 0)
        words = np.zeros(1, np.uint64)
        self._drive = bound(_drive, self.plant, words)
        self._step = bound(_step_ni, self.plant, 0, 0, U0, U0, False, 0, words)

    def step(
        self,
        flit: Flit | None = None,
        stimulus: list[int] | None = None,
        *,
        incarnation: int = 1,
        reset: bool = False,
        deliver_ready: list[tuple[int, int]] | None = None,
        completion_ready: bool | None = None,
    ) -> list[int]:
        """One cycle: returns the trace words (section 7), of which 12 to 14 show `link_o` and the ports.

        ``flit`` is on `link_i`; ``stimulus`` also carries cancel, quiesce, link_disable and stalls.
        ``deliver_ready`` instead says of each deliver FIFO which of its ports, record and data, are ready;
        ``completion_ready`` likewise.
        """
        flit = flit or Flit()
        self.plant.events[0] = 0
        self.plant.lists[:] = 0  # nobody else empties them
        row = np.zeros(self._words, np.uint64)
        words = [0] * int(self.k.stimulus_words) if stimulus is None else stimulus
        if len(words) != self.k.stimulus_words:
            raise ValueError(f"stimulus must be {self.k.stimulus_words} words, not {len(words)}")
        self._drive(self.plant, np.array(words, np.uint64))
        if completion_ready is not None:
            self.port.completion_ready = completion_ready
        if deliver_ready is not None:
            self.port.deliver_ready, self.port.deliver_data_ready = (
                sum(ready[which] << fifo for fifo, ready in enumerate(deliver_ready)) for which in range(2)
            )
        self._step(self.plant, self._cycle, flit.flags, *flit.halves, reset, incarnation, row)
        self._cycle += 1
        for event in self.plant.events.reshape(-1, COLUMNS)[1 : int(self.plant.events[0]) + 1]:
            at = lane_word(int(event[1]) & 0xFF)
            row[at], row[at + 1] = event[2], event[3]
        return [int(word) for word in row]

    @property
    def cycle(self) -> int:
        """That of the next `step`."""
        return self._cycle

    @property
    def replies_dropped(self) -> int:
        """The counter `REPLIES_DROPPED`."""
        return int(self.ni.replies_dropped)

    @staticmethod
    def link_o(words: list[int]) -> Flit:
        """The flit on `link_o` in a step's words."""
        flags = words[NI_FLAGS]
        return Flit(flags & 1, flags >> 1 & 1, flags >> 2 & 1, words[NI_FLIT] | words[NI_FLIT + 1] << WORD_BITS)
