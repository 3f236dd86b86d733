"""Pinned up-ports: one path for all of a slot's messages, and paths that spread evenly."""

from collections import Counter

import pytest

from lethe.spec.config import System
from lethe.spec.events import Kind
from lethe.spec.pin import key_hash, pinned, salt_for

SYSTEM = System.make(topology={"kind": "tree", "arity": 4, "levels": 3})


def hashed(source: int, destination: int, slot: int, kind: Kind = Kind.SEND) -> int:
    return key_hash(SYSTEM.format, salt_for(1), kind=kind, source=source, destination=destination, slot=slot)


def test_a_datagrams_messages_have_one_key():
    assert hashed(3, 40, 5) == hashed(3, 40, 5, Kind.FORGET) == hashed(40, 3, 5, Kind.ACK)
    assert hashed(3, 40, 5) != hashed(40, 3, 5)


@pytest.mark.parametrize("to", [lambda a: 63 - a, lambda a: (a >> 3 | a << 3) & 63, lambda a: a ^ 21])
def test_permutations_spread_over_the_up_ports_of_two_levels(to):
    keys = [hashed(a, to(a), slot) for a in range(64) for slot in range(16)]
    chosen = Counter((pinned(key, 0, 4), pinned(key, 1, 4)) for key in keys)
    assert len(chosen) == 16
    assert max(chosen.values()) <= 2 * len(keys) / 16


def test_the_salt_moves_paths():
    def path(seed: int) -> tuple[int, ...]:
        salt = salt_for(seed)
        keys = [key_hash(SYSTEM.format, salt, kind=Kind.SEND, source=1, destination=60, slot=slot) for slot in range(8)]
        return tuple(pinned(key, 0, 4) for key in keys)

    assert len({path(seed) for seed in range(8)}) > 1
