"""Receive table (section 4.7): sets of ways, an entry is the packed UID of what was delivered, or −1."""

from lethe.spec.stages import CHOSEN
from lethe_sim.golden.compile import at, jit
from lethe_sim.golden.record import raw
from lethe_sim.golden.state import AHEAD, NONE, Change

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
def store(k, ni, cycle, way, uid):
    """Remember a UID in an entry, free or not."""
    note(k, ni, cycle, way)
    table = entries(k, ni)
    ni.entries += table[way] == NONE
    table[way] = uid


@jit
def erase(k, ni, cycle, way):
    """Forget an entry."""
    note(k, ni, cycle, way)
    entries(k, ni)[way] = NONE
    ni.entries -= 1


@jit
def clear(k, ni):
    """All entries as after reset."""
    for way in range(k.ways << k.sets_log):
        entries(k, ni)[way] = NONE
    if k.sweep:
        for place in range(AHEAD):
            Change(ni, k.at_changes, place).cycle = NONE


@jit
def note(k, ni, cycle, way):
    """An entry's set changes in ``cycle``."""
    if k.sweep:
        change = Change(ni, k.at_changes, cycle & AHEAD - 1)
        change.cycle, change.set = cycle, way // k.ways


@jit
def has_changed(k, ni, cycle, number):
    """Whether set ``number`` changed after a step of a sweep was chosen that acts in ``cycle``, or in that cycle."""
    for before in range(cycle - CHOSEN, cycle):
        change = Change(ni, k.at_changes, before & AHEAD - 1)
        if change.cycle == before and change.set == number:
            return True
    return False


@jit
def entry_of(k, ni, number, source):
    """The lowest entry of a source in set ``number``, or −1."""
    table, first = entries(k, ni), number * k.ways
    for way in range(first, first + k.ways):
        if table[way] != NONE and layouts.unpack_uid(table[way])[0] == source:
            return way
    return -1
