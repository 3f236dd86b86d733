"""Records that travel as one whole number between the units of an NI, by the names of `hdl/lethe/ni/layouts.py`."""

from lethe.spec.events import CAUSE_BITS, MOST_CAUSE
from lethe.spec.wire import UID_INCARNATION_SHIFT, UID_SLOT_SHIFT, UID_SOURCE_SHIFT
from lethe_sim.golden.compile import jit


@jit
def pack_life(slot, generation):
    """A slot in one of its lives: an entry of the free queue and the new queue, and a datagram's name at its host."""
    return slot << 20 | generation


@jit
def unpack_life(life):
    """(slot, generation)."""
    return life >> 20, life & 0xFFFFF


@jit
def pack_token(life, tries):
    """A token of the Send ladder, or an entry of the repeat queue."""
    return life << 8 | tries


@jit
def unpack_token(token):
    """(life, tries)."""
    return token >> 8, token & 0xFF


@jit
def pack_finish(life, status, cause):
    """A datagram that ends by itself."""
    return life << 8 | status << CAUSE_BITS | cause


@jit
def unpack_finish(finish):
    """(life, status, cause)."""
    return finish >> 8, finish >> CAUSE_BITS & 0xF, finish & MOST_CAUSE


@jit
def pack_result(peer_incarnation, status, cause):
    """How a datagram ended; the life that ended stands beside it in the completion queue."""
    return peer_incarnation << 8 | status << CAUSE_BITS | cause


@jit
def unpack_result(result):
    """(peer_incarnation, status, cause)."""
    return result >> 8, result >> CAUSE_BITS & 0xF, result & MOST_CAUSE


@jit
def pack_ack_token(way, path, attempt, tries):
    """A token of the Ack ladder: an entry of the receive table, path and try that it echoes, Acks so far; beside its
    UID.
    """
    return way << 22 | path << 16 | attempt << 8 | tries


@jit
def unpack_ack_token(token):
    """(way, path, attempt, tries)."""
    return token >> 22, token >> 16 & 0x3F, token >> 8 & 0xFF, token & 0xFF


@jit
def pack_reply(kind, peer, peer_incarnation, attempt, path):
    """An Ack, Forget or REJECT that waits for the link; beside its UID."""
    return kind | peer_incarnation << 3 | attempt << 11 | peer << 19 | path << 35


@jit
def unpack_reply(reply):
    """(kind, peer, peer_incarnation, attempt, path)."""
    return reply & 7, reply >> 19 & 0xFFFF, reply >> 3 & 0xFF, reply >> 11 & 0xFF, reply >> 35


@jit
def pack_record(source, incarnation, cls, length):
    """What goes before a delivered payload."""
    return incarnation << 40 | source << 24 | cls << 16 | length


@jit
def unpack_record(record):
    """(source, incarnation, cls, length)."""
    return record >> 24 & 0xFFFF, record >> 40, record >> 16 & 0xFF, record & 0xFFFF


@jit
def pack_uid(source, incarnation, slot, generation):
    """UID as one whole number (`lethe.spec.wire.pack_uid`)."""
    return source << UID_SOURCE_SHIFT | incarnation << UID_INCARNATION_SHIFT | slot << UID_SLOT_SHIFT | generation


@jit
def unpack_uid(uid):
    """(source, incarnation, slot, generation)."""
    slot, generation = uid >> UID_SLOT_SHIFT & 0xFFFF, uid & 0xF_FFFF
    return uid >> UID_SOURCE_SHIFT, uid >> UID_INCARNATION_SHIFT & 0xFF, slot, generation
