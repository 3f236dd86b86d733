"""Layouts of what flow keeps and passes on, of one configuration (contract of flow, sections 2 and 4)."""

from enum import IntEnum
from functools import cached_property, reduce
from operator import or_

from amaranth.hdl import Cat, Const, Mux, Value
from amaranth.lib import data, enum
from amaranth.utils import ceil_log2, exact_log2

from lethe.ni.watch import padded
from lethe.spec.config import System
from lethe.spec.ports import HostPort, cause_bits
from lethe.spec.sections.flow import WINDOW
from lethe.spec.services.flow import CODE_BITS, CONTROL_WORDS, HEADER, Code
from lethe.spec.trace import WORD_BITS

__all__ = [
    "COUNT_BITS", "LEAST_CREDIT", "LIMIT_BITS", "NUMBER_BITS", "PLACE_BITS", "STATE_BITS", "EntryKind", "Layouts",
    "Operation", "PeerState", "ahead", "at_most", "control_fields", "either",
]  # fmt: skip

#: Bits of a message's number, and of how many numbers a run has (1 … 17).
NUMBER_BITS, COUNT_BITS = 8, 5
#: Low bits of a limit that tell whether another that is not 32 away is above it.
LIMIT_BITS = 6
#: How far every stream may be ahead of what its receiver expects.
LEAST_CREDIT = 2
#: Bits of what a peer is to its sender (`PeerState`).
STATE_BITS = 4
#: Bits of a number's place in a window: numbers that are kept as bits, `Layouts.ends`, `Layouts.receiving` and the mask
#: of a run, stand at their number mod 16, so that nothing moves while the window does.
PLACE_BITS = exact_log2(WINDOW)


class EntryKind(enum.Enum, shape=3):
    """What an entry of the journal is: few bits tell the kinds apart."""

    PLACE = 0
    SKIP = 1  # a message that goes to no cell
    OWN = 2
    RUN = 4
    FLUSH = 5

    def of(self, kind) -> Value:
        """Whether ``kind`` has all bits of this one: a FLUSH is a RUN, too, and nobody asks for a SKIP."""
        kind = Value.cast(kind)
        return ~kind.any() if self == EntryKind.PLACE else Cat(kind[i] for i in range(3) if self.value >> i & 1).all()


class PeerState(IntEnum):
    """What a peer is to its sender: a bit for each, but for DOWN."""

    DOWN = 0
    CONNECTING = 1
    UP = 2
    LEAVING = 4
    ERROR = 8

    def of(self, state) -> Value:
        """Whether this is ``state``, which has so many bits."""
        return ~state.any() if self == PeerState.DOWN else state[exact_log2(self)]


class Operation(enum.Enum, shape=3):
    """What is done to a notice of control."""

    NOTHING = 0
    MARK = 1
    REVIVE = 2  # mark what waits
    FLY = 3  # it is sent
    CLEAN = 4  # there is nothing to send
    WAIT = 5
    ARRIVED = 6  # what was sent has ended
    REPEAT = 7  # and it is to be sent again


def ahead(a, b) -> Value:
    """Whether number a is ahead of b: a − b is 1 … 127."""
    difference = (Value.cast(a) - Value.cast(b))[:NUMBER_BITS]
    return difference.any() & ~difference[NUMBER_BITS - 1]


def either(*cases) -> Value:
    """Of pairs (condition, value) the value whose condition holds, or 0; at most one condition may hold."""
    return reduce(or_, (Mux(condition, value, 0) for condition, value in cases))


def at_most(value: Value, most: int) -> Value:
    """Whether ``value`` is at most ``most``, in gates: for few bits they are faster than a carry."""
    found: Value = Const(1, 1)
    for i in range(len(value)):
        found = (~value[i] | found) if most >> i & 1 else (~value[i] & found)
    return found if most < 1 << len(value) else Const(1, 1)


def control_fields(code: Code, word) -> dict[str, Value]:
    """The fields of a control word."""
    found, at = {}, CODE_BITS
    for name, bits in CONTROL_WORDS[code]:
        found[name], at = word[at : at + bits], at + bits
    return found


class Layouts:
    """Widths and layouts of flow.

    Parameters
    ----------
    system : the configuration
    below : the port below
    """

    def __init__(self, system: System, below: HostPort):
        self.system, self.below = system, below
        form, flow = system.format, system.flow
        self.nodes, self.ports, self.cells = system.nodes, flow.ports, flow.cells
        self.node_bits, self.port_bits = ceil_log2(max(2, self.nodes)), exact_log2(flow.ports)
        self.cell_bits = ceil_log2(flow.cells)
        self.slots, self.data_slots = system.ni.slots, system.ni.slots - system.ni.control_slots
        self.slot_bits = ceil_log2(max(2, self.slots))
        self.byte_bits = exact_log2(form.flit_bytes)
        self.header_beats, self.header_bytes = system.flow_header_beats, system.flow_header_bytes
        self.mtu = system.flow_mtu
        self.beats = form.payload_flits(self.mtu)
        self.beat_bits = ceil_log2(self.beats)
        self.length_bits = form.length_bits
        #: Bits of the path of a stream, and of the mask that says how many a peer has; and whether the NI is told.
        self.paths_bits, self.has_paths = exact_log2(flow.paths), form.path_bits > 0
        self.initial = max(self.nodes * self.ports, self.cells * self.ports, self.slots)

    @property
    def streams(self) -> int:
        """Words of a table that has one for each stream."""
        return self.nodes << self.port_bits

    @property
    def stream_bits(self) -> int:
        return self.node_bits + self.port_bits

    def stream(self, node, index) -> Value:
        """The number of a stream in a table."""
        return Cat(padded(index, self.port_bits), padded(node, self.node_bits))

    @cached_property
    def header(self) -> data.StructLayout:
        return data.StructLayout(dict(HEADER))

    @cached_property
    def numbers(self) -> data.StructLayout:
        """Of an out stream: the limit is ``left`` beyond the next number, the base ``open`` before it, 16 at most.

        ``limit``: its low bits.  ``stuck``: nothing is left, or the window is full.  ``above``: the base's high bits.
        """
        return data.StructLayout(
            {
                "next": NUMBER_BITS, "left": COUNT_BITS, "open": COUNT_BITS, "limit": LIMIT_BITS, "asked": 1,
                "stuck": 1, "above": NUMBER_BITS - PLACE_BITS,
            }
        )  # fmt: skip

    @cached_property
    def ends(self) -> data.StructLayout:
        """Of an out stream, what only jobs change; ``place``: of the base, its low bits."""
        return data.StructLayout({"done": WINDOW, "void": WINDOW, "place": PLACE_BITS})

    @cached_property
    def receiving(self) -> data.StructLayout:
        """Of an in stream."""
        return data.StructLayout({"expected": NUMBER_BITS, "present": 16, "filled": 16, "told": NUMBER_BITS})

    @property
    def new_numbers(self):
        """Of an out stream after a reset."""
        return self.numbers.const({"left": 2, "limit": 2})

    @property
    def new_receiving(self):
        """Of an in stream after a reset."""
        return self.receiving.const({"told": 2})

    @cached_property
    def journal(self) -> data.StructLayout:
        """``seq``: of a run its first number; ``q``: of a message, with its source the stream whose credit it has.

        ``count``: of a message or a run the place of the number behind those that pass, below a bit that says whether
        any do; of a flush how many numbers pass; of a message to the own node whether it has a cell.
        """
        return data.StructLayout(
            {
                "kind": EntryKind, "source": self.node_bits, "index": self.port_bits, "seq": NUMBER_BITS,
                "count": COUNT_BITS, "mask": 16, "q": self.port_bits,
            }
        )  # fmt: skip

    @cached_property
    def cell(self) -> data.StructLayout:
        """What stands before a message in its cell."""
        return data.StructLayout(
            {
                "source": self.node_bits, "cls": self.system.format.class_bits, "length": self.length_bits,
                "sport": 16, "dport": 16, "flags": 8, "seq": NUMBER_BITS,
            }
        )  # fmt: skip

    @cached_property
    def placed(self) -> data.StructLayout:
        """An entry of a list."""
        return data.StructLayout({"cell": self.cell_bits, "gap": 1})

    @cached_property
    def row(self) -> data.StructLayout:
        """What is known of a data slot."""
        return data.StructLayout(
            {
                "node": self.node_bits, "index": self.port_bits, "q": self.port_bits, "seq": NUMBER_BITS,
                "length": self.length_bits,
            }
        )  # fmt: skip

    @cached_property
    def control_row(self) -> data.StructLayout:
        """What is known of a control slot."""
        return data.StructLayout(
            {
                "code": 3, "node": self.node_bits, "index": self.port_bits, "base": NUMBER_BITS, "map": 16,
                "credit": NUMBER_BITS, "probe": 1,
            }
        )  # fmt: skip

    @cached_property
    def kept(self) -> data.StructLayout:
        """What a peer is to its sender, and only jobs change."""
        return data.StructLayout({"round": 8, "pong": 1, "age": 1, "heard": 1, "asked": 1})

    @cached_property
    def sought(self) -> data.StructLayout:
        """What an attempt asks of a peer."""
        return data.StructLayout({"state": STATE_BITS, "map": self.ports} | self.learnt)

    @cached_property
    def learnt(self) -> dict[str, int]:
        """What the sender keeps of an answer: the incarnation; a mask of the paths that both have."""
        paths = {"paths": self.paths_bits} if self.paths_bits else {}
        return {"incarnation": self.system.format.incarnation_bits} | paths

    def path(self, node, index, paths) -> Value:
        """The path of a stream, of those in the mask ``paths``."""
        return (padded(node, self.paths_bits) ^ padded(index, self.paths_bits)) & paths

    def agreed(self, told: Value) -> Value:
        """The mask of the paths that both have, of those that a peer told of."""
        return Cat(told >= 2 << bit for bit in range(self.paths_bits))

    @cached_property
    def out(self) -> data.StructLayout:
        """What a peer is to its sender, but for live."""
        return data.StructLayout(dict(self.kept.members) | dict(self.sought.members) | {"wanted": 3, "blocked": 1})

    @cached_property
    def source(self) -> data.StructLayout:
        return data.StructLayout({"state": 2, "age": 3})

    @cached_property
    def known(self) -> data.StructLayout:
        """What a source last told of itself."""
        return data.StructLayout(
            {"known": 1, "boot": 32, "round": 8, "incarnation": self.system.format.incarnation_bits}
        )

    @cached_property
    def in_(self) -> data.StructLayout:
        """What a source is to its receiver."""
        return data.StructLayout(dict(self.source.members) | dict(self.known.members))

    @cached_property
    def life(self) -> data.StructLayout:
        return data.StructLayout({"known": 1, "boot": 15})

    @cached_property
    def notice(self) -> data.StructLayout:
        """An entry of the control queue."""
        return data.StructLayout({"code": 3, "node": self.node_bits, "index": self.port_bits})

    @cached_property
    def socket(self) -> data.StructLayout:
        """What a socket has under way."""
        longest = self.slots * self.mtu
        return data.StructLayout({"bytes": longest.bit_length(), "slots": (self.slots + 1).bit_length()})

    @cached_property
    def cause_bits(self) -> int:
        return cause_bits(self.system)

    def payload_flits(self, length) -> Value:
        """Beats of a length in bytes."""
        return (Value.cast(length) + ((1 << self.byte_bits) - 1)) >> self.byte_bits

    @property
    def word_beats(self) -> int:
        """Beats of a control word."""
        return -(-WORD_BITS // self.system.format.flit_bits)
