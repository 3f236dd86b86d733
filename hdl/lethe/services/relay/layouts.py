"""Layouts of what relay keeps and passes on, of one configuration (contract of relay, sections 1, 2 and 4)."""

from functools import cached_property

from amaranth.hdl import Cat, Const, Mux, Value
from amaranth.lib import data, enum
from amaranth.utils import ceil_log2, exact_log2

from lethe.link.crc import crc_of
from lethe.ni.watch import event_word, padded, uid_word
from lethe.spec.config import System
from lethe.spec.ports import HostPort, cause_bits
from lethe.spec.sections.relay import HEADER_BYTES, STAMP_CYCLES
from lethe.spec.services.relay import HEADER, RecordState, Type
from lethe.spec.trace import fields
from lethe.spec.wire import CRC8

__all__ = ["HEADER_BITS", "STAMP_BITS", "STAMP_SHIFT", "TIDE_BITS", "WAYS", "Of", "RelayLayouts"]

HEADER_BITS = 8 * HEADER_BYTES
#: A stamp has so many bits, of a count of cycles from this one on.
STAMP_BITS, STAMP_SHIFT = 16, exact_log2(STAMP_CYCLES)
#: Ways of a set of records.
WAYS = 4
#: Bits of the count of notices and of PULLs that were heard.
TIDE_BITS = 4
#: Bits of a slot in a header, of a depth, of a way.
_SLOT, _DEPTH, _WAY = 8, 6, 4


class Of(enum.Enum, shape=2):
    """Where the beats of a message that goes to the next hop come from."""

    THROUGH = 0
    SLOT = 1
    BUFFER = 2


def _bits(count: int) -> int:
    """Bits of a number below ``count``, at least 1."""
    return ceil_log2(max(2, count))


class RelayLayouts:
    """Sizes and records.

    Parameters
    ----------
    system : the configuration
    below : the port below
    """

    def __init__(self, system: System, below: HostPort):
        self.system, self.below = system, below
        relay, form = system.relay, system.format
        self.nodes, self.ni_slots = system.nodes, below.slots
        self.slots, self.cells, self.records, self.buffers = relay.slots, relay.cells, relay.records, relay.buffers
        self.node_bits, self.length_bits, self.class_bits = form.node_bits, form.length_bits, form.class_bits
        self.slot_bits, self.cell_bits, self.record_bits = _bits(relay.slots), _bits(relay.cells), _bits(relay.records)
        self.buffer_bits, self.row_bits = _bits(relay.buffers), _bits(below.slots)
        self.uid_bits = relay.uid_bits
        self.none = (1 << relay.uid_bits) - 1
        self.mtu, self.header_beats = system.relay_mtu, system.relay_header_beats
        self.byte_bits = exact_log2(form.flit_bytes)
        self.beats = max(1, -(-self.mtu // form.flit_bytes))
        self.beat_bits = _bits(self.beats)
        self.control_class, self.data_class = (1 << form.class_bits) - 1, (1 << form.class_bits) - 2
        #: A beat in a memory has so many bits, with its CRC.
        self.flit_bits, self.checks = form.flit_bits, relay.crc
        self.stored_bits = form.flit_bits + (CRC8.width if relay.crc else 0)
        self.initial = max(relay.slots, system.nodes, relay.cells, relay.records, relay.buffers, below.slots)

    @cached_property
    def header(self) -> data.StructLayout:
        """A header, with what of it is kept."""
        return data.StructLayout(
            {
                "type": 3, "replay": 1, "more": 1, "thru": 1, "cls": 3, "depth": _DEPTH,
                "source": self.node_bits, "target": self.node_bits,
                "incarnation": self.system.format.incarnation_bits, "slot": _SLOT,
                "prev": self.uid_bits, "uid": self.uid_bits,
            }
        )  # fmt: skip

    @cached_property
    def named(self) -> data.StructLayout:
        """What of a header names rows of tables."""
        return data.StructLayout({name: self.header[name].shape for name in ("source", "target", "slot", "uid")})

    @cached_property
    def told(self) -> data.StructLayout:
        """An entry of the queue of control."""
        return data.StructLayout({"hop": self.node_bits, "header": self.header})

    @cached_property
    def to(self) -> data.StructLayout:
        """What is known of a destination; ``some``, ``full``: messages to it are live, no more can be."""
        return data.StructLayout(
            {
                "last": self.uid_bits, "head": self.slot_bits, "tail": self.slot_bits,
                "live": self.slots.bit_length(), "some": 1, "full": 1, "again": 1,
            }
        )  # fmt: skip

    @cached_property
    def from_(self) -> data.StructLayout:
        """What is known of a source, but for whether it is hungry; ``marked``: the mark is not NONE."""
        return data.StructLayout(
            {
                "known": 1, "incarnation": self.system.format.incarnation_bits, "mark": self.uid_bits, "slot": _SLOT,
                "marked": 1,
            }
        )  # fmt: skip

    @cached_property
    def slot(self) -> data.StructLayout:
        """A message of this node, but for its stamp."""
        return data.StructLayout(
            {
                "target": self.node_bits, "cls": 3, "length": self.length_bits, "uid": self.uid_bits,
                "prev": self.uid_bits,
            }
        )  # fmt: skip

    @cached_property
    def ending(self) -> data.StructLayout:
        """What of a message is needed as it ends."""
        return data.StructLayout({"tag": self.system.wire.tag_bits, "uid": self.uid_bits})

    @cached_property
    def cell(self) -> data.StructLayout:
        """A message of the Post."""
        return data.StructLayout(
            {
                "source": self.node_bits, "incarnation": self.system.format.incarnation_bits, "cls": 3,
                "length": self.length_bits, "uid": self.uid_bits, "prev": self.uid_bits, "slot": _SLOT,
            }
        )  # fmt: skip

    @cached_property
    def parked(self) -> data.StructLayout:
        """What of a parked message is needed as it is posted."""
        names = ("incarnation", "length", "uid", "slot")
        return data.StructLayout({name: self.cell[name].shape for name in names})

    @cached_property
    def record(self) -> data.StructLayout:
        """A message that passes, but for its status and its stamp."""
        return data.StructLayout(
            {
                "source": self.node_bits, "incarnation": self.system.format.incarnation_bits, "uid": self.uid_bits,
                "prev": self.uid_bits, "target": self.node_bits, "slot": _SLOT, "cls": 3, "length": self.length_bits,
            }
        )  # fmt: skip

    @cached_property
    def status(self) -> data.StructLayout:
        """What changes of a record, but for whether it has data; these are in the buffer.  The
        state is a bit for each."""
        return data.StructLayout({"valid": 1, "state": len(RecordState), "tide": TIDE_BITS, "buffer": self.buffer_bits})

    @cached_property
    def owner(self) -> data.StructLayout:
        """The record of a buffer."""
        return data.StructLayout({"valid": 1, "record": self.record_bits})

    @cached_property
    def life(self) -> data.StructLayout:
        """Where a datagram of relay at the NI goes, and its name there."""
        return data.StructLayout({"destination": self.node_bits, "generation": self.system.format.generation_bits})

    @cached_property
    def down(self) -> data.StructLayout:
        """A route."""
        return data.StructLayout({"hop": self.node_bits, "way": _WAY})

    @cached_property
    def facts(self) -> data.StructLayout:
        """What of the tables decides a step: a bit each, and what the sender is to this node."""
        bits = (
            "kin", "there", "watched", "due", "meant", "first", "last", "some", "again", "repeats", "resumes",
            "stale", "follows", "posted", "begins", "is_new", "known",
            "hungry", "quiet", "searches", "last_drained", "none_drained", "parked", "parked_one",
            "up_nobody", "up_back", "down_nobody", "down_back", "astray", "acked", "requested", "sent", "linked",
            "owed", "place",
        )  # fmt: skip
        return data.StructLayout(dict.fromkeys(bits, 1) | {"relation": _WAY})

    @cached_property
    def kinds(self) -> data.StructLayout:
        """What a datagram that came is: control, at its origin, at its destination, elsewhere; data."""
        bits = (
            "sound", "acked_own", "acked_else", "drained_else", "requested_own", "requested_else", "link", "link_here",
            "link_else", "pull", "data", "data_here", "data_else",
        )  # fmt: skip
        return data.StructLayout(dict.fromkeys(bits, 1))

    @cached_property
    def sending(self) -> data.StructLayout:
        """An entry of the queue to send."""
        return data.StructLayout({"buffered": 1, "number": max(self.slot_bits, self.buffer_bits)})

    @cached_property
    def hop(self) -> data.StructLayout:
        """A message that is to go to the next hop."""
        return data.StructLayout(
            {
                "hop": self.node_bits, "header": self.header, "of": Of, "length": self.length_bits,
                "number": max(self.slot_bits, self.buffer_bits), "stored": 1,
            }
        )  # fmt: skip

    @cached_property
    def completion(self) -> data.StructLayout:
        """An own completion."""
        return data.StructLayout(
            {
                "slot": _bits(self.ni_slots + self.slots + 1), "generation": self.system.format.generation_bits,
                "destination": 16, "tag": self.system.wire.tag_bits, "status": 2, "cause": cause_bits(self.system),
            }
        )  # fmt: skip

    def stored(self, data: Value) -> Value:
        """A beat as a memory has it: with its CRC, if there is one."""
        return Cat(data, crc_of(CRC8, data)) if self.checks else data

    def beat_of(self, stored: Value) -> Value:
        """The beat without its CRC."""
        return stored[: self.flit_bits] if self.checks else stored

    def is_wrong(self, stored: Value) -> Value:
        """Whether a beat is not what was written."""
        return crc_of(CRC8, stored[: self.flit_bits]) != stored[self.flit_bits :]

    def payload_flits(self, length) -> Value:
        """Beats of a length in bytes."""
        return (Value.cast(length) + ((1 << self.byte_bits) - 1)) >> self.byte_bits

    def wire_bits(self, header) -> Value:
        """A header as it goes out."""
        named = self.header.members
        return Cat(padded(header[name] if name in named else 0, bits) for name, bits in HEADER)

    def wire_fields(self, bits) -> dict[str, Value]:
        """The fields of a header that came, as wide as they are there."""
        return {name: bits[field.shift :][: field.bits] for name, field in fields(HEADER).items()}

    def name(self, header) -> Value:
        """The second word of the lane of an event about a message."""
        word = uid_word(header.source, header.incarnation, header.slot, 0)
        return Mux(header.type == Type.PULL, 0, word) if "type" in header.shape().members else word

    def message_event(self, event, record, peer, length) -> tuple[Value, Value]:
        """The words of an event about a message."""
        return event_word(event, peer=peer, length=length, extra=record.uid[:16]), self.name(record)

    def detail(self, header) -> Value:
        """The detail of an event about control."""
        return Cat(header.replay, header.more, header.thru, header.type)

    def shown_uid(self, header) -> Value:
        """The extra of an event about control."""
        return Mux(header.type == Type.PULL, 0, header.uid[:16])

    def set_of(self, source, uid) -> Value:
        """The set of a message among the records."""
        bits = self.record_bits - exact_log2(WAYS)
        if not bits:
            return Const(0, 1)

        # Small sources and uids that keep step do not meet in the same low bits.
        return Cat(Cat(uid[bit::bits], source[bits - 1 - bit :: bits]).xor() for bit in range(bits))
