"""What the ports of a golden NI show in a cycle, and what its tables hold, for who looks on from outside."""

import abc
from typing import NamedTuple

from lethe.spec.stages import ACCEPT_ACTS

from .compile import bound, jit, pointer
from .model import Golden
from .ni import host_port, layouts, receive_table, receiver, send_table, transmitter
from .state import NONE, Parameters, Registers
from .state import Slot as SlotState

__all__ = ["Arrival", "Completion", "Dumped", "Merge", "NiView", "Ports", "Record", "SystemNi"]


class Record(NamedTuple):
    """What goes before a delivered payload."""

    source: int
    incarnation: int
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


class Merge(NamedTuple):
    """A Send that asks for what is to be written into its payload."""

    slot: int
    generation: int
    tries: int


class Arrival(NamedTuple):
    """A data message that has just ended, not yet checked."""

    source: int
    incarnation: int
    cls: int
    length: int
    attempt: int
    best_effort: int
    word: int


class Ports(NamedTuple):
    """What an NI's ports show in one cycle beside the trace words; None where nothing is valid.

    ``deliver`` and ``deliver_data`` have an item for each deliver FIFO; a beat is (data, last).
    """

    ready: bool
    time: int
    cancel_ready: bool
    dump_ready: bool
    completion: Completion | None
    deliver: list[Record | None]
    deliver_data: list[tuple[int, int] | None]
    merge: Merge | None
    arrival: Arrival | None
    delivered: bool
    sweep_ready: bool


class Dumped(NamedTuple):
    """A slot, and the packed UIDs of a set's entries (None: the way is empty)."""

    live: bool
    generation: int
    destination: int
    entries: list[int | None]


@jit
def _beat(k, ni, data, fifo):
    return host_port.deliver_beat(k, ni, pointer(data), fifo)


@jit
def _word(k, data, cycle):
    return receiver.word_of(k, pointer(data), cycle)


@jit
def _delivers(k, ni, data, cycle, refusal):
    return host_port.delivers(k, ni, pointer(data), cycle, refusal)


@jit
def _known(datagram, cycle):
    return send_table.is_live(datagram, datagram.generation, cycle - ACCEPT_ACTS)


@jit
def _entry(k, ni, way):
    return receive_table.entries(k, ni)[way]


class NiView(abc.ABC):
    """An NI of the golden model, looked at between two cycles.

    Parameters
    ----------
    k : the parameters of its system
    ni, data : its numbers and its words
    """

    def __init__(self, k: Parameters, ni: Registers, data):
        self.k, self.ni, self._data = k, ni, data
        self._beat_words = bound(_beat, k, ni, data, 0)

    @property
    @abc.abstractmethod
    def cycle(self) -> int:
        """The cycle that comes next."""

    def ports(self, *, cancel: bool = False, quiesce: bool = False, refusal: int = 0, sweep: bool = False) -> Ports:
        """What the other ports show in the cycle that the next `step` will be, if that is none of reset.

        ``cancel``, ``quiesce``, ``refusal`` and ``sweep`` are what it will be given; only ``dump_ready`` depends on
        them, and ``delivered`` on ``refusal``.
        It is that of an NI of which no dump was taken in the four cycles before: in those it is False.
        """
        k, ni, cycle, fifos = self.k, self.ni, self.cycle, range(int(self.k.fifos))
        ready = bool(cycle >= host_port.ready_from(ni))
        free = bool(host_port.cancel_ready(ni, cycle))
        dump = quiesce and not cancel and not sweep and bool(host_port.dump_ready(ni, cycle))
        ended = Completion(*map(int, host_port.completion(k, ni))) if host_port.completion_valid(k, ni, cycle) else None
        return Ports(
            ready, cycle - int(ni.time_zero), free, dump, ended,
            [self._record(fifo) for fifo in fifos], [self._beat(fifo) for fifo in fifos], self._merge(),
            self._arrival(), self._delivered(refusal), k.sweep > 0 and bool(host_port.sweep_ready(k, ni, cycle)),
        )  # fmt: skip

    def _merge(self) -> Merge | None:
        if not transmitter.asks_merge(self.k, self.ni, self.cycle):
            return None
        life, tries = layouts.unpack_token(self.ni.granted)
        slot, generation = layouts.unpack_life(life)
        return Merge(int(slot), int(generation), int(tries))

    def _arrival(self) -> Arrival | None:
        if self.k.acceptance == 0 or not receiver.arrived(self.k, self.ni, self.cycle):
            return None
        word = _word(self.k, self._data, self.cycle)
        return Arrival(*map(int, (*receiver.arrival(self.k, self.ni, self.cycle), word)))

    def _delivered(self, refusal: int) -> bool:
        if self.k.acceptance == 0:
            return False
        return bool(_delivers(self.k, self.ni, self._data, self.cycle, refusal))

    def _record(self, fifo: int) -> Record | None:
        if not host_port.deliver_valid(self.k, self.ni, self.cycle, fifo):
            return None
        return Record(*map(int, host_port.deliver_record(self.k, self.ni, fifo)))

    def _beat(self, fifo: int) -> tuple[int, int] | None:
        if not host_port.deliver_data_valid(self.k, self.ni, self.cycle, fifo):
            return None
        low, high, last = self._beat_words(self.k, self.ni, self._data, fifo)
        return int(low) | int(high) << 64, int(last)

    def dumped(self, slot: int, number: int) -> Dumped:
        """A slot and set ``number`` of the receive table, as at the start of the cycle that the next `step` will be."""
        datagram, ways = SlotState(self.ni, int(self.k.at_slots), slot), int(self.k.ways)
        entries = [int(_entry(self.k, self.ni, way)) for way in range(number * ways, (number + 1) * ways)]
        return Dumped(
            bool(_known(datagram, self.cycle)), int(datagram.generation), int(datagram.destination),
            [None if entry == NONE else entry for entry in entries],
        )  # fmt: skip


class SystemNi(NiView):
    """The NI of a node of a system without services, whose port is that of the host."""

    def __init__(self, golden: Golden, node: int):
        self._golden = golden
        k, ni, data = golden.memory(node)
        super().__init__(k, ni, data)

    @property
    def cycle(self) -> int:
        return self._golden.cycle
