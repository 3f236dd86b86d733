"""What is on the wire: header fields, their widths and places, flit counts, CRCs.

Fields are packed from bit 0 of the first flit upwards, in the order of the tables below; what does
not fit continues at bit 0 of the next flit.  `docs/design/protocol.md` shows the same as tables.
"""

from dataclasses import dataclass
from functools import cached_property

from .events import Kind

FLIT_WIDTHS = (16, 32, 64, 128)
KIND_BITS = 3

# A packed UID (trace column `uid`) has fixed places, whatever the widths on the wire.
UID_SOURCE_SHIFT, UID_INCARNATION_SHIFT, UID_SLOT_SHIFT, UID_GENERATION_SHIFT = 44, 36, 20, 0
UID_BITS = 60


def pack_uid(source: int, incarnation: int, slot: int, generation: int) -> int:
    """UID as one integer: source 16 ‖ incarnation 8 ‖ slot 16 ‖ generation 20 (IMP-17)."""
    life = slot << UID_SLOT_SHIFT | generation << UID_GENERATION_SHIFT
    return source << UID_SOURCE_SHIFT | incarnation << UID_INCARNATION_SHIFT | life


def unpack_uid(uid: int) -> tuple[int, int, int, int]:
    """(source, incarnation, slot, generation) of a packed UID."""
    return (
        uid >> UID_SOURCE_SHIFT & 0xFFFF,
        uid >> UID_INCARNATION_SHIFT & 0xFF,
        uid >> UID_SLOT_SHIFT & 0xFFFF,
        uid >> UID_GENERATION_SHIFT & 0xF_FFFF,
    )


@dataclass(frozen=True, kw_only=True)
class Crc:
    """A reflected CRC: ``polynomial`` in its reversed form, initial value and final XOR all ones."""

    width: int
    polynomial: int

    @property
    def ones(self) -> int:
        return (1 << self.width) - 1

    def update(self, state: int, data: int, bits: int) -> int:
        """The register after ``bits`` more bits of ``data``, bit 0 first (no initial/final XOR)."""
        for i in range(bits):
            feedback = (state ^ data >> i) & 1
            state = state >> 1 ^ (self.polynomial if feedback else 0)
        return state

    def of(self, data: int, bits: int) -> int:
        """The CRC of the lowest ``bits`` bits of ``data``."""
        return self.update(self.ones, data, bits) ^ self.ones


# HD 6 up to 135 bits of data: every pattern of up to five flipped bits in a one-flit message is seen.
CRC16 = Crc(width=16, polynomial=0xA6BC)
# CRC-32C: HD 6 up to 5,243 bits, HD 4 beyond, for the MTUs allowed.
CRC32 = Crc(width=32, polynomial=0x82F6_3B78)
# HD 4 up to 119 bits of data: three flipped bits in a beat of a memory are seen, and all bursts of up to eight.
CRC8 = Crc(width=8, polynomial=0xE0)
#: The most data bits (CRC not counted) over which each CRC keeps a Hamming distance of 6.
CRC16_HD6_BITS, CRC32_HD6_BITS = 135, 5243


@dataclass(frozen=True, kw_only=True)
class Field:
    """One header field: its name, first bit within the header, and width in bits."""

    name: str
    offset: int
    width: int


@dataclass(frozen=True, kw_only=True)
class Wire:
    """The wire format of one system; every width is a parameter.

    Attributes
    ----------
    flit_bits : payload bits of a flit (16, 32, 64 or 128)
    node_bits, slot_bits, generation_bits, incarnation_bits, try_bits : UID and common header
    path_bits : the way up a tree, behind them; 0: there is no such field
    class_bits, mode_bits, ext_bits : Send and BE only
    mtu : longest payload in bytes
    """

    flit_bits: int
    node_bits: int
    slot_bits: int
    generation_bits: int
    incarnation_bits: int
    try_bits: int
    class_bits: int
    mode_bits: int
    ext_bits: int
    mtu: int
    path_bits: int = 0

    @property
    def flit_bytes(self) -> int:
        return self.flit_bits // 8

    @property
    def length_bits(self) -> int:
        return max(1, self.mtu.bit_length())

    def _fields(self, *named: tuple[str, int]) -> tuple[Field, ...]:
        offset, fields = 0, []
        for name, width in named:
            fields.append(Field(name=name, offset=offset, width=width))
            offset += width
        return tuple(fields)

    @cached_property
    def common(self) -> tuple[Field, ...]:
        """The fields every message starts with; a control message has no others."""
        return self._fields(
            ("kind", KIND_BITS),
            ("destination", self.node_bits),
            ("source", self.node_bits),
            ("slot", self.slot_bits),
            ("generation", self.generation_bits),
            ("incarnation", self.incarnation_bits),
            ("peer_incarnation", self.incarnation_bits),
            ("try", self.try_bits),
            *((("path", self.path_bits),) if self.path_bits else ()),
        )

    @cached_property
    def send(self) -> tuple[Field, ...]:
        """The fields of a Send or BE header."""
        return self._fields(
            *((f.name, f.width) for f in self.common),
            ("length", self.length_bits),
            ("class", self.class_bits),
            ("mode", self.mode_bits),
            ("extension", self.ext_bits),
        )

    @cached_property
    def common_bits(self) -> int:
        return sum(f.width for f in self.common)

    @cached_property
    def send_bits(self) -> int:
        return sum(f.width for f in self.send)

    @property
    def one_flit_control(self) -> bool:
        """Whether an Ack or Forget and its CRC-16 fit one flit; the CRC then is in the top 16 bits."""
        return self.common_bits + 16 <= self.flit_bits

    @property
    def crc_flits(self) -> int:
        """Flits of the CRC-32 that ends a multi-flit message (low half first; unused bits zero)."""
        return -(-32 // self.flit_bits)

    @property
    def control_flits(self) -> int:
        if self.one_flit_control:
            return 1
        return -(-self.common_bits // self.flit_bits) + self.crc_flits

    @property
    def header_flits(self) -> int:
        """Header flits of a Send or BE, before the payload."""
        return -(-self.send_bits // self.flit_bits)

    def payload_flits(self, length: int) -> int:
        return -(-length // self.flit_bytes)

    def send_flits(self, length: int) -> int:
        """All flits of a Send or BE with ``length`` bytes of payload."""
        return self.header_flits + self.payload_flits(length) + self.crc_flits

    @cached_property
    def max_flits(self) -> int:
        """The longest legal worm."""
        return max(self.send_flits(self.mtu), self.control_flits)

    def distance(self, flits: int) -> int:
        """Hamming distance of a legal message of so many flits: one flipped bit fewer is always seen.

        It speaks of flips in the flits' data; flips of ``first`` and ``last`` change what a message is.
        """
        if flits == 1:
            return 6 if self.flit_bits - 16 <= CRC16_HD6_BITS else 4
        return 6 if (flits - self.crc_flits) * self.flit_bits <= CRC32_HD6_BITS else 4

    def flits(self, fields: dict[str, int], payload: bytes = b"") -> list[int]:
        """The flits of one message, CRC included: the reference both implementations are held to."""
        kind = fields["kind"]
        control = kind not in (Kind.SEND, Kind.BE)
        layout = self.common if control else self.send
        header = 0
        for field in layout:
            value = fields.get(field.name, 0)
            if value >> field.width:
                raise ValueError(f"{field.name} must fit {field.width} bits, not {value!r}")
            header |= value << field.offset
        if control and self.one_flit_control:
            body = self.flit_bits - 16
            return [header | CRC16.of(header, body) << body]
        mask = (1 << self.flit_bits) - 1
        bits = sum(f.width for f in layout)
        words = [header >> i & mask for i in range(0, bits, self.flit_bits)]
        if not control:
            step = self.flit_bytes
            words += [int.from_bytes(payload[i : i + step], "little") for i in range(0, len(payload), step)]
        state = CRC32.ones
        for word in words:
            state = CRC32.update(state, word, self.flit_bits)
        crc = state ^ CRC32.ones
        return words + [crc >> i & mask for i in range(0, 32, self.flit_bits)]
