"""Which up-port of a fat tree's router a message takes, if it is not any: pinned, or chosen by its path.

Cycle contract, sections 3.1 and 3.3.
"""

from .events import Kind
from .random import UNIT_SALT, scale, seed_for
from .wire import CRC16, Wire


def salt_for(seed: int) -> int:
    """The salt of a run, 16 bits."""
    return seed_for(seed, UNIT_SALT, 0) & 0xFFFF


def key_hash(wire: Wire, salt: int, *, kind: int, source: int, destination: int, slot: int) -> int:
    """16 bits that are the same for the Sends, Acks and Forgets of all datagrams of a pair and slot."""
    if kind == Kind.ACK:
        source, destination = destination, source
    key = source | destination << wire.node_bits | slot << 2 * wire.node_bits
    return CRC16.update(salt, key, 2 * wire.node_bits + wire.slot_bits)


def pinned(hashed: int, level: int, up_ports: int) -> int:
    """Which of ``up_ports`` a message with this `key_hash` takes at a level of the tree."""
    turn = 5 * level % 16
    rotated = (hashed >> turn | hashed << 16 - turn) & 0xFFFF
    return scale(rotated & 0xFF, 8, up_ports)


def turned(path_bits: int, level: int, up_ports: int) -> tuple[int, int]:
    """(places by which a path is rotated right at a level of the tree, low bits of it that count there)."""
    bits = max(1, (up_ports - 1).bit_length())
    return bits * level % path_bits, min(bits, path_bits)


def by_path(path: int, path_bits: int, level: int, up_ports: int) -> int:
    """Which of ``up_ports`` a message with this path takes at a level of the tree."""
    turn, bits = turned(path_bits, level, up_ports)
    rotated = path >> turn | path << path_bits - turn
    return (rotated & (1 << bits) - 1) % up_ports
