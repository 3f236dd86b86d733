"""Single blocks of the golden model, a cycle a call: for benches that hold one RTL block against its model.

Every block begins in its state at system reset, and its first `step` is cycle 0.  The compiled functions
are those of the whole system.
"""

from typing import NamedTuple

import numpy as np

from lethe.spec.config import System
from lethe.spec.random import UNIT_LINK_FLIP, UNIT_LINK_LOSS, UNIT_ROUTER, seed_for
from lethe.spec.trace import NI_FLAG_BITS, NI_FLAGS, STIMULUS_BITS, STIMULUS_WORDS, lane_word

from . import fabric, ladder, link, queue, router
from . import system as machine
from .compile import jit, pointer
from .events import COLUMNS
from .model import state
from .ni import deliver, receiver, transmitter
from .ni import ni as interface
from .state import (
    AT_DATA,
    AT_LAST,
    AT_QUEUES,
    AT_SLOTS,
    AT_TABLE,
    COMPLETION,
    DEAD_COUNT,
    DELIVER,
    DRAWS,
    END,
    EXTERNAL,
    FIFOS,
    FINISH_FROM,
    FIRST,
    FIRST_PORT,
    FLIP,
    FLIP_RANDOM,
    HEAD,
    HOLD,
    HOLD_A,
    HOLD_B,
    IN_RESET,
    INCARNATION_NOW,
    LADDER,
    LADDER_FIELDS,
    LAST,
    LEVEL,
    LINK_COUNT,
    LIVE,
    LOSS_RANDOM,
    NEVER,
    NONE,
    OUT_LINK,
    PHASES,
    PORT_COLUMNS,
    PORT_COUNT,
    QUEUE,
    READY_FROM,
    ROUTER_COUNT,
    SLOT_DESTINATION,
    SLOT_FIELDS,
    SLOT_GENERATION,
    TAG,
    TIME_ZERO,
    UNDER_WAY,
    VALID,
    VISIBLE,
    WAYS,
    WHOLE,
    WORDS,
    parameters,
)  # fmt: skip  # isort: skip
from .topology import place_router

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


class Queue:
    """`Queue(depth)` of section 1."""

    def __init__(self, depth: int):
        self.depth, self.cycle = depth, 0
        self.k = np.zeros(QUEUE + 2, np.int64)
        self.k[QUEUE], self.k[QUEUE + 1] = 3, depth + 1
        self.row = np.zeros(3 + 2 * (depth + 1), np.int64)
        assert (HEAD, LEVEL, VISIBLE) == (0, 1, 2)

    @property
    def output(self) -> int | None:
        """The entry at the output in this cycle."""
        if not queue.present(self.k, self.row, 0, self.cycle):
            return None
        return int(self.row[queue.oldest(self.k, self.row, 0)])

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
        self.number = number
        self.k = parameters(system, EXTERNAL)
        self.row = state(system, self.k, only=0)[0][0]
        ladder.clear(self.k, self.row)

    def step(self, time: int, push: Token | None = None, take: bool = False) -> tuple[tuple[int, int] | None, bool]:
        """One cycle: returns (the hold register's two numbers or None, whether a new datagram has room).

        ``take`` empties a full hold register; ``push`` puts a token on its rung.
        """
        at = LADDER + LADDER_FIELDS * self.number
        hold = (int(self.row[at + HOLD_A]), int(self.row[at + HOLD_B])) if self.row[at + HOLD] else None
        room = bool(ladder.has_room(self.row, self.number))
        if hold is None:
            ladder.poll(self.k, self.row, self.number, time)
        elif take:
            self.row[at + HOLD] = 0
        if push is not None:
            ladder.push(self.k, self.row, self.number, *push)
        return hold, room


@jit
def _pass_link(tables, k, events, flags, low, high, cycle):
    f, ev = fabric.pointers(tables), pointer(events)
    if flags == 0 or not link.survives(k, f, ev, cycle, 0, 0, flags):
        return 0, np.uint64(0), np.uint64(0)
    if k[FLIP] > 0:
        flags, low, high = link.flip(k, f, ev, cycle, 0, 0, flags, low, high)
    return flags, low, high


class LinkFault:
    """The fault element of link ``number`` (section 2)."""

    def __init__(self, system: System, number: int):
        self.k, self.cycle = parameters(system, EXTERNAL), 0
        self.k[LINK_COUNT] = 1
        self.tables = fabric.empty(self.k, np.zeros(0, np.int64))
        self.tables.links[LOSS_RANDOM] = seed_for(system.run.seed, UNIT_LINK_LOSS, number)
        self.tables.links[FLIP_RANDOM] = seed_for(system.run.seed, UNIT_LINK_FLIP, number)
        self.events = np.zeros(4 * COLUMNS, np.uint64)

    def step(self, flit: Flit, dead: bool = False) -> tuple[Flit, int]:
        """One cycle: returns (what reaches the receiver, the event with its detail · 256, or 0)."""
        self.tables.links[DEAD_COUNT] = dead
        self.events[0] = 0
        flags, low, high = _pass_link(self.tables, self.k, self.events, flit.flags, *flit.halves, self.cycle)
        self.cycle += 1
        event = int(self.events[COLUMNS + 2]) if self.events[0] else 0
        return (Flit.of(flags, low, high) if flags else Flit()), event


@jit
def _step_router(tables, k, events, flags, data, cycle):
    f, ev = fabric.pointers(tables), pointer(events)
    phase = fabric.list_at(k, 3) + (cycle & (k[PHASES] - 1))
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
        self.k[ROUTER_COUNT], self.k[PORT_COUNT], self.k[LINK_COUNT] = 1, self.ports, self.ports
        self.k[WHOLE] = 0  # its inputs may do what no network does
        self.tables = fabric.empty(self.k, np.array([self.ports], np.int64))
        place_router(self.k, self.tables.routers, 0, number)
        self.tables.routers[DRAWS] = seed_for(system.run.seed, UNIT_ROUTER, number)
        self.tables.ports.reshape(-1, PORT_COLUMNS)[:, OUT_LINK] = np.arange(self.ports)
        self.events = np.zeros((self.lanes + 4) * COLUMNS, np.uint64)
        assert self.tables.routers[FIRST_PORT] == 0

    def step(self, flits: list[Flit]) -> tuple[list[Flit], list[int]]:
        """One cycle: returns (flits visible at the outputs in it, trace word of each lane)."""
        shown = [Flit() for _ in range(self.ports)]
        phase = self.cycle & int(self.k[PHASES]) - 1
        first = 2 * phase * self.ports
        count = int(self.tables.lists[fabric.list_at(self.k, 3) + phase])
        for at in range(first, first + 2 * count, 2):
            words = self.tables.flight_data[at : at + 2]
            shown[self.tables.flight[at]] = Flit.of(int(self.tables.flight[at + 1]), *words)
        flags = np.array([flit.flags for flit in flits], np.int64)
        data = np.array([flit.halves for flit in flits], np.uint64)
        self.events[0] = 0
        _step_router(self.tables, self.k, self.events, flags, data, self.cycle)
        self.cycle += 1
        words = [0] * self.lanes
        for row in self.events.reshape(-1, COLUMNS)[1 : int(self.events[0]) + 1]:
            words[int(row[1]) & 0xFF] = int(row[2])
        return shown, words


class Record(NamedTuple):
    """What goes before a delivered payload."""

    source: int
    cls: int
    length: int


class Completion(NamedTuple):
    """How a datagram ended."""

    slot: int
    generation: int
    destination: int
    tag: int
    status: int
    cause: int
    peer_incarnation: int


class Ports(NamedTuple):
    """What a NI's ports show in one cycle beside the trace words; None where nothing is valid.

    ``deliver`` and ``deliver_data`` have an item for each deliver FIFO; a beat is (data, last).
    """

    ready: bool
    time: int
    cancel_ready: bool
    dump_ready: bool
    completion: Completion | None
    deliver: list[Record | None]
    deliver_data: list[tuple[int, int] | None]


class Dumped(NamedTuple):
    """A slot, and the packed UIDs of a set's entries (None: the way is empty)."""

    live: bool
    generation: int
    destination: int
    entries: list[int | None]


@jit
def _step_ni(plant, cycle, flags, low, high, reset, incarnation, row, taken):
    p = machine.pointers(plant)
    k, ni = p.k, machine.ni_of(p, 0)
    if reset and not ni[IN_RESET]:
        interface.begin_reset(k, ni, p.events, cycle)
    ni[IN_RESET] = 1 if reset else 0
    ni[INCARNATION_NOW] = incarnation
    if not reset:
        interface.outputs(k, ni, p.data, p.stimulus, cycle, pointer(row), 0)
        transmitter.shown(k, ni, p.events, cycle)
        if flags or ni[UNDER_WAY]:
            machine.hear(p, cycle, 0, flags, low, high)
    for fifo in range(k[FIFOS] if not reset and len(taken) > 0 else 0):
        if taken[2 * fifo] and queue.present(k, ni, DELIVER + fifo, cycle):
            deliver.take_record(k, ni, p.events, cycle, fifo)
        if taken[2 * fifo + 1] and deliver.beat_present(k, ni, fifo, cycle):
            deliver.take_beat(k, ni, fifo, cycle)
    machine.step_node(p, cycle, 0)


#: Stimulus bit that keeps the host of the whole system from taking, where a bench says what is taken.
_STALL = np.uint64(1 << STIMULUS_BITS.index("deliver_stall"))


class Ni:
    """The NI of node ``node``, driven by stimulus words and a link (section 4)."""

    def __init__(self, system: System, node: int):
        self.k, self.cycle, self._words = parameters(system, EXTERNAL), 0, system.layout.ni_words
        ni, data = state(system, self.k, only=node)
        self.plant = machine.fresh(
            self.k,
            ni.reshape(-1),
            data.reshape(-1),
            events=np.zeros(16 * COLUMNS, np.uint64),
            stimulus=np.zeros(STIMULUS_WORDS, np.uint64),
        )
        interface.reset(self.k, self.plant.ni, 0)

    def step(
        self,
        flit: Flit | None = None,
        stimulus: tuple[int, ...] | list[int] = (0,) * STIMULUS_WORDS,
        *,
        incarnation: int = 1,
        reset: bool = False,
        deliver_ready: list[tuple[int, int]] | None = None,
        completion_ready: bool = True,
    ) -> list[int]:
        """One cycle: returns the trace words (section 7), of which 12 to 14 show `link_o` and the ports.

        ``flit`` is on `link_i`; ``stimulus`` also carries cancel, quiesce, link_disable and deliver_stall.
        ``deliver_ready`` instead says of each deliver FIFO which of its ports, record and data, are ready.
        """
        flit = flit or Flit()
        self.plant.stimulus[:] = stimulus
        self.plant.events[0] = 0
        self.plant.lists[:] = 0  # nobody else empties them
        row = np.zeros(self._words, np.uint64)
        taken = np.array(deliver_ready or (), np.int64).ravel()
        if deliver_ready is not None:
            self.plant.stimulus[0] |= _STALL
        # A completion that is not taken is to the model one that is not there yet.
        completions = int(self.k[AT_QUEUES]) + 3 * COMPLETION
        held = not completion_ready and not reset and queue.present(self.k, self.plant.ni, COMPLETION, self.cycle)
        if held:
            visible = int(self.plant.ni[completions + VISIBLE])
            self.plant.ni[completions + VISIBLE] = NEVER
        _step_ni(self.plant, self.cycle, flit.flags, *flit.halves, reset, incarnation, row, taken)
        if held:
            self.plant.ni[completions + VISIBLE] = visible
            row[NI_FLAGS] |= np.uint64(1 << NI_FLAG_BITS.index("completion.valid"))
        self.cycle += 1
        for event in self.plant.events.reshape(-1, COLUMNS)[1 : int(self.plant.events[0]) + 1]:
            at = lane_word(int(event[1]) & 0xFF)
            row[at], row[at + 1] = event[2], event[3]
        return [int(word) for word in row]

    def ports(self, *, cancel: bool = False, quiesce: bool = False) -> Ports:
        """What the other ports show in the cycle that the next `step` will be, if that is none of reset.

        ``cancel`` and ``quiesce`` are what it will be given; only ``dump_ready`` depends on them.
        """
        k, ni, cycle, fifos = self.k, self.plant.ni, self.cycle, range(int(self.k[FIFOS]))
        ready = bool(cycle >= ni[READY_FROM])
        free = ready and not ni[receiver.stage(cycle + 1)] & END and ni[FINISH_FROM] > cycle
        free = free and not any(ni[LADDER + LADDER_FIELDS * number + HOLD] for number in (0, 1))
        ended = None
        if queue.present(k, ni, COMPLETION, cycle):
            entry, result = (int(word) for word in ni[queue.oldest(k, ni, COMPLETION) :][:2])
            slot = int(k[AT_SLOTS]) + (entry >> 20) * SLOT_FIELDS
            ended = Completion(
                entry >> 20, entry & 0xFFFFF, int(ni[slot + SLOT_DESTINATION]), int(ni[slot + TAG]),
                result >> 4 & 0xF, result & 0xF, result >> 8,
            )  # fmt: skip
        return Ports(
            ready, cycle - int(ni[TIME_ZERO]), bool(free), bool(free and quiesce and not cancel), ended,
            [self._record(fifo) for fifo in fifos], [self._beat(fifo) for fifo in fifos],
        )  # fmt: skip

    def _record(self, fifo: int) -> Record | None:
        k, ni = self.k, self.plant.ni
        if not queue.present(k, ni, DELIVER + fifo, self.cycle):
            return None
        record = int(ni[queue.oldest(k, ni, DELIVER + fifo)])
        return Record(record >> 24, record >> 16 & 0xFF, record & 0xFFFF)

    def _beat(self, fifo: int) -> tuple[int, int] | None:
        k, ni = self.k, self.plant.ni
        if not deliver.beat_present(k, ni, fifo, self.cycle):
            return None
        place, words = int(deliver.place_of(k, ni, fifo, 0)), int(k[WORDS])
        halves = self.plant.data[int(k[AT_DATA]) + place * words :][:words]
        return sum(int(half) << 64 * i for i, half in enumerate(halves)), int(ni[int(k[AT_LAST]) + place])

    def dumped(self, slot: int, number: int) -> Dumped:
        """A slot and set ``number`` of the receive table, as at the start of the cycle that the next `step` will be."""
        k, ni = self.k, self.plant.ni
        at, ways = int(k[AT_SLOTS]) + slot * SLOT_FIELDS, int(k[WAYS])
        entries = [int(entry) for entry in ni[int(k[AT_TABLE]) + number * ways :][:ways]]
        return Dumped(
            bool(ni[at + LIVE]), int(ni[at + SLOT_GENERATION]), int(ni[at + SLOT_DESTINATION]),
            [None if entry == NONE else entry for entry in entries],
        )  # fmt: skip

    @staticmethod
    def link_o(words: list[int]) -> Flit:
        """The flit on `link_o` in a step's words."""
        flags = words[12]
        return Flit(flags & 1, flags >> 1 & 1, flags >> 2 & 1, words[13] | words[14] << 64)
