"""Receive table (section 4.7): sets of ways, an entry is the packed UID of what was delivered, or −1."""

from lethe_sim.golden.compile import jit
from lethe_sim.golden.state import AT_TABLE, ENTRIES, NONE, SETS_LOG, SLOT_BITS, WAYS

# Source and slot of a packed UID.
_SAME = 0xFFFF << 44 | 0xFFFF << 20


@jit
def first_way(k, source, slot):
    """Column of way 0 of the set of (source, slot)."""
    key = source << k[SLOT_BITS] | slot
    mixed = key ^ key >> 3 ^ key >> 7
    bits = k[SETS_LOG]
    number = 0
    if bits > 0:
        while mixed > 0:
            number ^= mixed & ((1 << bits) - 1)
            mixed >>= bits
    return k[AT_TABLE] + number * k[WAYS]


@jit
def find(k, ni, source, slot):
    """Column of the entry of (source, slot), or −1."""
    first = first_way(k, source, slot)
    key = source << 44 | slot << 20
    for way in range(first, first + k[WAYS]):
        if ni[way] & _SAME == key and ni[way] != NONE:
            return way
    return -1


@jit
def vacant(k, ni, source, slot):
    """Column of the lowest free way of the set of (source, slot), or −1."""
    first = first_way(k, source, slot)
    for way in range(first, first + k[WAYS]):
        if ni[way] == NONE:
            return way
    return -1


@jit
def erase(ni, way):
    """Forget an entry."""
    ni[way] = NONE
    ni[ENTRIES] -= 1
