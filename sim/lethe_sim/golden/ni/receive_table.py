"""Receive table (section 4.7): sets of ways, an entry is the packed UID of what was delivered, or −1."""

from lethe_sim.golden.compile import at, jit
from lethe_sim.golden.record import raw
from lethe_sim.golden.state import NONE

from . import layouts

# Source and slot of a packed UID.
_SAME = 0xFFFF << 44 | 0xFFFF << 20


@jit
def entries(k, ni):
    """All entries; those of a set follow each other."""
    return at(raw(ni), k.at_table)


@jit
def first_way(k, source, slot):
    """Number of the first entry of the set of (source, slot)."""
    key = source << k.slot_bits | slot
    mixed = key ^ key >> 3 ^ key >> 7
    bits = k.sets_log
    number = 0
    if bits > 0:
        while mixed > 0:
            number ^= mixed & ((1 << bits) - 1)
            mixed >>= bits
    return number * k.ways


@jit
def find(k, ni, source, slot):
    """Number of the entry of (source, slot), or −1."""
    first, table = first_way(k, source, slot), entries(k, ni)
    key = layouts.pack_uid(source, 0, slot, 0)
    for way in range(first, first + k.ways):
        if table[way] & _SAME == key and table[way] != NONE:
            return way
    return -1


@jit
def vacant(k, ni, source, slot):
    """Number of the lowest free entry of the set of (source, slot), or −1."""
    first, table = first_way(k, source, slot), entries(k, ni)
    for way in range(first, first + k.ways):
        if table[way] == NONE:
            return way
    return -1


@jit
def holds(k, ni, way, uid):
    """Whether entry ``way`` is of this UID; −1 is no entry."""
    return way >= 0 and entries(k, ni)[way] == uid


@jit
def store(k, ni, way, uid):
    """Remember a UID in an entry, free or not."""
    table = entries(k, ni)
    ni.entries += table[way] == NONE
    table[way] = uid


@jit
def erase(k, ni, way):
    """Forget an entry."""
    entries(k, ni)[way] = NONE
    ni.entries -= 1
