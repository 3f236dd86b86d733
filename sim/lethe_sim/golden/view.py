"""What the ports of a golden NI show in a cycle, and what its tables hold, for who looks on from outside."""

from typing import NamedTuple

from lethe.spec.stages import ACCEPT_ACTS

from .compile import bound, jit, pointer
from .model import Golden
from .ni import host_port, layouts, receive_table, send_table
from .state import NONE, Parameters, Registers
from .state import Slot as SlotState

__all__ = ["Completion", "Dumped", "Merge", "NiView", "Ports", "Record", "SystemNi"]


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
    merge: Merge | None


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
def _known(datagram, cycle):
    return send_table.is_live(datagram, datagram.generation, cycle - ACCEPT_ACTS)


@jit
def _entry(k, ni, way):
    return receive_table.entries(k, ni)[way]


class NiView:
    """A NI of the golden model, looked at between two cycles.

    Parameters
    ----------
    k : the parameters of its system
    ni, data : its numbers and its words
    """

    def __init__(self, k: Parameters, ni: Registers, data):
        self.k, self.ni, self._data = k, ni, data
        self._beat_words = bound(_beat, k, ni, data, 0)

    @property
    def cycle(self) -> int:
        """The cycle that comes next."""
        raise NotImplementedError

    def ports(self, *, cancel: bool = False, quiesce: bool = False) -> Ports:
        """What the other ports show in the cycle that the next `step` will be, if that is none of reset.

        ``cancel`` and ``quiesce`` are what it will be given; only ``dump_ready`` depends on them.
        It is that of a NI of which no dump was taken in the four cycles before: in those it is False.
        """
        k, ni, cycle, fifos = self.k, self.ni, self.cycle, range(int(self.k.fifos))
        ready = bool(cycle >= host_port.ready_from(ni))
        free = bool(host_port.cancel_ready(ni, cycle))
        dump = quiesce and not cancel and bool(host_port.dump_ready(ni, cycle))
        ended = Completion(*map(int, host_port.completion(k, ni))) if host_port.completion_valid(k, ni, cycle) else None
        return Ports(
            ready, cycle - int(ni.time_zero), free, dump, ended,
            [self._record(fifo) for fifo in fifos], [self._beat(fifo) for fifo in fifos], self._merge(),
        )  # fmt: skip

    def _merge(self) -> Merge | None:
        if self.k.merge_bits == 0 or self.ni.merge_at != self.cycle + 1:
            return None
        slot, generation = layouts.unpack_life(self.ni.merge_life)
        return Merge(int(slot), int(generation), int(self.ni.merge_tries))

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
