"""Trace and stimulus words: what lockstep compares and drives, 64 bits at a time.

The RTL's `watch` ports, the golden model's word rows and the decoder of event rows share this layout
(`docs/reference/cycle-contract.md`, section 7).  Word 0 is the lowest.
"""

import typing
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from .events import LANE_FRAGMENT, LANE_NAMES
from .topology import Topology

if typing.TYPE_CHECKING:
    from .ports import HostPort
    from .services.service import Service

WORD_BITS = 64
MASK64 = 0xFFFF_FFFF_FFFF_FFFF

# Words of one NI: pairs (event word, uid word) of the lanes that every NI has, then flags, link flit, delivered beat,
# then the take lanes of its control FIFOs.
LANES = len(LANE_NAMES)
NI_FLAGS = 2 * LANES
NI_FLIT = NI_FLAGS + 1
NI_BEAT = NI_FLIT + 2
NI_TAKES = NI_BEAT + 2

#: Bits of the flags word.
NI_FLAG_BITS = (
    "link.valid", "link.first", "link.last", "idle", "send.ready", "send_data.ready",
    "deliver.valid", "deliver_data.valid", "deliver_data.last", "completion.valid",
    "send_control.ready", "send_control_data.ready",
)  # fmt: skip


class Bits(NamedTuple):
    """Some bits of a word."""

    shift: int
    bits: int

    def of(self, word):
        """What the field holds, of a whole number or of each in an array of them."""
        return word >> self.shift & (1 << self.bits) - 1


#: Fields of an event word.
EVENT, DETAIL, PEER, LENGTH, EXTRA = Bits(0, 8), Bits(8, 8), Bits(16, 16), Bits(32, 16), Bits(48, 16)
#: In a router's event word the head's low data bits take the place of the last three.
HEAD = Bits(PEER.shift, WORD_BITS - PEER.shift)

#: Links that share a trace word: the event of a link takes one byte.
LINKS_PER_WORD = WORD_BITS // EVENT.bits

#: Words of one node's stimulus; the data beat has two, its low half first.
STIMULUS_FLAGS, STIMULUS_RECORD_WORD, STIMULUS_LIMITS_WORD, STIMULUS_BEAT, _, STIMULUS_CANCEL_WORD = range(6)
#: Words that follow with control slots: record, limits and beat of send_control.
CONTROL_RECORD_WORD, CONTROL_LIMITS_WORD, CONTROL_BEAT, CONTROL_BEAT_HIGH = range(6, 10)
#: Bits of the flags word, from the lowest.
STIMULUS_BITS = (
    "send.valid", "send_data.valid", "cancel.valid", "quiesce", "link_disable", "deliver_stall",
    "completion_stall", "send_control.valid", "send_control_data.valid",
)  # fmt: skip
#: The field of the flags word that stalls deliver streams one by one, two bits for each FIFO: record, data.
STREAMS_STALL = Bits(16, WORD_BITS - 16)
#: Fields of the words of record, limits and cancel, (name, bits) from the lowest (`fields`).
STIMULUS_RECORD = (("destination", 16), ("class", 8), ("mode", 8), ("length", 16), ("tag", 16))
STIMULUS_LIMITS = (("deadline", 32), ("retry_limit", 8), ("expect", 8), ("path", 6))
STIMULUS_CANCEL = (("slot", 16), ("generation", 20))
#: Fields of the words behind all others, with an acceptance port and with a sweep.
STIMULUS_REFUSAL = (("refusal", 2),)
STIMULUS_SWEEP = (("valid", 1), ("source", 16))
#: Fields of the two words behind those, with ports of flow.
STIMULUS_PORTS = (("sport", 16), ("dport", 16), ("flags", 8), ("receive_mask", 16))
STIMULUS_SET = (("valid", 1), ("code", 2), ("index", 4), ("value", 16), ("notice_stall", 1))

#: Fields of the word behind those, with relay.
STIMULUS_TREE = (
    ("valid", 1), ("code", 1), ("target", 16), ("hop", 16), ("way", 4), ("depth", 6), ("promoted", 1),
)  # fmt: skip


def fields(table: tuple[tuple[str, int], ...]) -> dict[str, Bits]:
    """The fields of a word by name, from (name, bits), the first lowest."""
    found, at = {}, 0
    for name, bits in table:
        found[name], at = Bits(at, bits), at + bits
    return found


#: Words of one trace port: a wire of RTLIL has less than 65,536 bits.
PORT_WORDS = 1000


def lane_word(lane: int) -> int:
    """Index, within the words of an NI, of the event word of a lane; its uid word follows."""
    return 2 * lane if lane < LANES else NI_TAKES + 2 * (lane - LANES)


def at_lane(words, lane: int):
    """(event word, UID word) of a lane, of the words of one NI."""
    at = lane_word(lane)
    return words[at], words[at + 1]


def take_lane(fifo: int) -> int:
    """The lane of an NI on which the records taken from a deliver FIFO are shown."""
    return LANE_NAMES.index("take") if fifo == 0 else LANE_FRAGMENT + fifo


@dataclass(frozen=True)
class Layout:
    """Where the trace words of a system lie: NIs by node, routers by number, links, services by node; and its units.

    Attributes
    ----------
    graph : the fabric
    control_fifos : deliver FIFOs of control classes that every NI has
    port : the port of a host: the highest of its node's stack
    services : the stack of every node, from the NI upwards
    lag : cycles by which the RTL shows the words late
    """

    graph: Topology
    control_fifos: int = 0
    port: "HostPort | None" = None
    services: "tuple[Service, ...]" = ()
    lag: int = 0

    @property
    def first_service(self) -> int:
        """The unit number, in a trace, of the lowest service of node 0."""
        return self.graph.first_link + self.graph.link_count

    @property
    def units(self) -> int:
        """How many units a trace numbers."""
        return self.first_service + self.graph.nodes * len(self.services)

    def service_unit(self, node: int, level: int) -> int:
        """The unit number of a node's ``level``-th service, counted from the NI upwards."""
        return self.first_service + node * len(self.services) + level

    def service_at(self, unit: int) -> "tuple[int, int]":
        """(node, level) of the service with this unit number."""
        return divmod(unit - self.first_service, len(self.services))

    def node_of(self, unit: int) -> int:
        """The node of an NI or a service."""
        return unit if unit < self.graph.first_router else self.service_at(unit)[0]

    def unit_name(self, unit: int) -> str:
        """`ni3`, `router1`, `link12` or `loop3` for a unit number of a trace; a service is numbered as its node."""
        graph = self.graph
        if unit >= self.first_service:
            node, level = self.service_at(unit)
            return f"{self.services[level].name}{node}"
        if unit < graph.first_router:
            return f"ni{unit}"
        if unit < graph.first_link:
            return f"router{unit - graph.first_router}"
        return f"link{unit - graph.first_link}"

    @property
    def lanes(self) -> tuple[str, ...]:
        """The names of an NI's lanes, by number."""
        return (*LANE_NAMES, *(f"take {fifo}" for fifo in range(1, self.control_fifos + 1)))

    @property
    def ni_words(self) -> int:
        """Trace words of one NI."""
        return lane_word(len(self.lanes))

    @property
    def stimulus_merge(self) -> int:
        """The merge word, within a node's stimulus words; the mask follows."""
        return CONTROL_BEAT_HIGH + 1 if self.port and self.port.control else STIMULUS_CANCEL_WORD + 1

    @property
    def stimulus_refusal(self) -> int:
        """The word of `refusal`, behind those of the merge port."""
        return self.stimulus_merge + (2 if self.port and self.port.merge_bits else 0)

    @property
    def stimulus_sweep(self) -> int:
        """The word of `sweep`, behind that."""
        return self.stimulus_refusal + (1 if self.port and self.port.acceptance else 0)

    @property
    def stimulus_ports(self) -> int:
        """The word of a record's ports and of `receive_mask`; that of `set` follows."""
        return self.stimulus_sweep + (1 if self.port and self.port.sweep else 0)

    @property
    def stimulus_tree(self) -> int:
        """The word of `tree`, behind those."""
        return self.stimulus_ports + (2 if self.port and self.port.ports else 0)

    @property
    def stimulus_words(self) -> int:
        """Stimulus words of one node."""
        return self.stimulus_tree + (1 if self.port and self.port.tree else 0)

    @property
    def fabric_base(self) -> int:
        """Index of the first word behind those of the NIs: the first router's."""
        return self.graph.nodes * self.ni_words

    def router_base(self, router: int) -> int:
        """Index of a router's first trace word (one word per lane)."""
        return self.fabric_base + sum(self.graph.lanes(r) for r in range(router))

    @cached_property
    def link_base(self) -> int:
        """Index of the first link word."""
        return self.router_base(self.graph.routers)

    @cached_property
    def service_base(self) -> int:
        """Index of the first word behind those of the links: the lowest service's of node 0."""
        return self.link_base + -(-self.graph.link_count // LINKS_PER_WORD)

    @cached_property
    def service_words(self) -> int:
        """Trace words of the services of one node."""
        return sum(service.words for service in self.services)

    def service_place(self, node: int, level: int) -> int:
        """Index of the first trace word of a node's ``level``-th service."""
        below = sum(service.words for service in self.services[:level])
        return self.service_base + node * self.service_words + below

    @cached_property
    def words(self) -> int:
        """Trace words of the whole system in one cycle."""
        return self.service_base + self.graph.nodes * self.service_words

    @property
    def watch_ports(self) -> list[str]:
        """Names of the ports that carry the words: ``watch``, and ``watch1`` … for what it has no room for."""
        return ["watch", *(f"watch{part}" for part in range(1, -(-self.words // PORT_WORDS)))]


def mix64(x: int) -> int:
    """The finaliser of splitmix64; the digest of a run is the sum of `event_hash` over its events."""
    x = (x ^ x >> 30) * 0xBF58_476D_1CE4_E5B9 & MASK64
    x = (x ^ x >> 27) * 0x94D0_49BB_1331_11EB & MASK64
    return x ^ x >> 31


def event_hash(cycle: int, unit: int, lane: int, word: int, uid: int) -> int:
    """Contribution of one event to a run's digest (a sum mod 2^64, so order does not matter).

    ``unit`` is the trace unit number, ``lane`` the NI lane, router lane or 0 for a link, ``word`` the
    event word as traced (a link's: its event byte), ``uid`` the second word of an NI lane, else 0.
    """
    h = mix64(cycle * 0x9E37_79B9_7F4A_7C15 + (unit << 8 | lane) & MASK64)
    return mix64((h ^ word) + uid * 0xD6E8_FEB8_6659_FD93 & MASK64)
