"""Pinned up-ports: with input queues, which up-port of a fat tree's router a message takes (cycle contract, 3.1)."""

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
