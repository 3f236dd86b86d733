"""Trace and stimulus words: what lockstep compares and drives, 64 bits at a time.

The RTL's `trace` port, the golden model's word rows and the decoder of event rows share this layout
(`docs/cycle-contract.md`, section 7).  Word 0 is the lowest.
"""

from .topology import Topology

WORD_BITS = 64
MASK64 = 0xFFFF_FFFF_FFFF_FFFF

# Words of one NI: LANES pairs (event word, uid word), then flags, link flit, delivered beat.
LANES = 6
NI_FLAGS = 2 * LANES
NI_FLIT = NI_FLAGS + 1
NI_BEAT = NI_FLIT + 2
NI_WORDS = NI_BEAT + 2

#: Bits of the flags word.
NI_FLAG_BITS = (
    "link.valid", "link.first", "link.last", "idle", "send.ready", "send_data.ready",
    "deliver.valid", "deliver_data.valid", "deliver_data.last", "completion.valid",
)  # fmt: skip

# Fields of an event word: (shift, width).
EVENT, DETAIL, PEER, LENGTH, EXTRA = (0, 8), (8, 8), (16, 16), (32, 16), (48, 16)
#: In a router's event word the head's low data bits stand from here.
HEAD_SHIFT, HEAD_BITS = 16, 48

LINKS_PER_WORD = 8

# Words of one node's stimulus.
STIMULUS_WORDS = 6
#: Bits of stimulus word 0.
STIMULUS_BITS = ("send.valid", "send_data.valid", "cancel.valid", "quiesce", "link_disable", "deliver_stall")
#: Fields of stimulus words 1, 2 and 5; words 3 and 4 are the data beat, low half first.
STIMULUS_RECORD = (("destination", 16), ("class", 8), ("mode", 8), ("length", 16), ("tag", 16))
STIMULUS_LIMITS = (("deadline", 32), ("retry_limit", 8), ("expect", 8))
STIMULUS_CANCEL = (("slot", 16), ("generation", 20))


def router_base(graph: Topology, router: int) -> int:
    """Index of a router's first trace word (one word per lane)."""
    return graph.nodes * NI_WORDS + sum(graph.lanes(r) for r in range(router))


def link_base(graph: Topology) -> int:
    """Index of the first link word."""
    return router_base(graph, graph.routers)


def trace_words(graph: Topology) -> int:
    """Trace words of a whole system in one cycle."""
    return link_base(graph) + -(-len(graph.links) // LINKS_PER_WORD)


#: Words of one trace port: a wire of RTLIL has less than 65,536 bits.
PORT_WORDS = 1000


def watch_ports(graph: Topology) -> list[str]:
    """Names of the ports that carry a system's trace words: ``watch``, and ``watch1`` … for what it has no room for."""
    return ["watch", *(f"watch{part}" for part in range(1, -(-trace_words(graph) // PORT_WORDS)))]


def mix64(x: int) -> int:
    """The finaliser of splitmix64; the digest of a run is the sum of `event_hash` over its events."""
    x = (x ^ x >> 30) * 0xBF58_476D_1CE4_E5B9 & MASK64
    x = (x ^ x >> 27) * 0x94D0_49BB_1331_11EB & MASK64
    return x ^ x >> 31


def event_hash(cycle: int, unit: int, lane: int, word: int, uid: int) -> int:
    """Contribution of one event to a run's digest (a sum mod 2^64, so order does not matter).

    ``unit`` is the trace unit number, ``lane`` the NI lane, router lane or 0 for a link, ``word`` the
    event word as traced (a link's: its event byte), ``uid`` the second word of a NI lane, else 0.
    """
    h = mix64(cycle * 0x9E37_79B9_7F4A_7C15 + (unit << 8 | lane) & MASK64)
    return mix64((h ^ word) + uid * 0xD6E8_FEB8_6659_FD93 & MASK64)
