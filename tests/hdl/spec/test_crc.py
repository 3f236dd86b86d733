"""The Hamming distances that `spec.wire` and docs/design/protocol.md state, found by search.

A flip pattern goes unseen iff its polynomial is a multiple of the CRC's; shifting a pattern changes nothing, so
the lowest flipped bit may be fixed, and what is searched is every pattern of that weight.
"""

import itertools
import random
import zlib

import numpy as np
import pytest

from lethe.spec.config import System
from lethe.spec.wire import CRC16, CRC16_HD6_BITS, CRC32, CRC32_HD6_BITS, Crc


def syndromes(crc: Crc, bits: int) -> np.ndarray:
    """What a flip of each bit of a codeword adds to the register; the codeword ends with the CRC."""
    ones, state = [], 1
    for _ in range(bits):
        ones.append(state)
        state = crc.update(state, 0, 1)
    return np.array(ones, dtype=np.uint64)


def unseen(crc: Crc, bits: int, weight: int) -> bool:
    """Whether any pattern of ``weight`` flips in a codeword of ``bits`` bits goes unseen."""
    s = syndromes(crc, bits)
    first, rest = s[0], s[1:]
    match weight:
        case 1:
            return not bool(np.all(s))
        case 2:
            return bool(np.any(rest == first))
        case 3:
            return bool(np.isin(rest ^ first, rest).any())
        case 4:
            ordered = np.sort(rest)

            def completes(i: int) -> bool:
                wanted = rest[i + 1 :] ^ rest[i] ^ first
                return bool((ordered[np.searchsorted(ordered, wanted) % len(ordered)] == wanted).any())

            return any(completes(i) for i in range(len(rest)))
        case 5:
            upper = np.triu_indices(len(rest), 1)
            pairs = rest[upper[0]] ^ rest[upper[1]]
            return bool(np.isin(pairs ^ first, pairs).any())
        case _:
            raise ValueError(weight)


def odd_weights_seen(crc: Crc, bits: int) -> bool:
    """The CRC's polynomial has the factor x + 1: every syndrome is odd, so an odd number never adds up to 0."""
    return all(int(s).bit_count() % 2 for s in syndromes(crc, bits))


def test_crcs_are_the_well_known_ones():
    check = int.from_bytes(b"123456789", "little")
    assert CRC32.of(check, 72) == 0xE3069283  # CRC-32C
    assert CRC16.polynomial == int(f"{0x3D65:016b}"[::-1], 2)
    ieee = Crc(width=32, polynomial=0xEDB8_8320)
    assert ieee.of(check, 72) == zlib.crc32(b"123456789")


@pytest.mark.parametrize("weight", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("flit_bits", [64, 128])
def test_crc16_sees_up_to_five_flips_in_a_one_flit_message(flit_bits, weight):
    assert not unseen(CRC16, flit_bits, weight)


def test_crc16_distance_is_six_and_ends_where_stated():
    words = syndromes(CRC16, 64)
    triples = {int(a ^ b ^ c) for a, b, c in itertools.combinations(words.tolist(), 3)}
    others = {int(words[0] ^ b ^ c) for b, c in itertools.combinations(words[1:].tolist(), 2)}
    assert triples & others, "some pattern of six flips goes unseen"
    assert not any(unseen(CRC16, CRC16_HD6_BITS + 16, weight) for weight in range(1, 6))
    assert any(unseen(CRC16, CRC16_HD6_BITS + 17, weight) for weight in range(1, 6))


def test_crc16_literally_on_messages():
    """The same on real one-flit messages: every pattern of up to three flips, and samples of four and five."""
    form = System.make().format
    chance = random.Random(1)
    fields = {"kind": 2, "destination": 5, "source": 9, "slot": 3, "generation": 77, "incarnation": 1}
    (flit,) = form.flits(fields)

    def good(value: int) -> bool:
        return CRC16.of(value & (1 << 48) - 1, 48) == value >> 48

    assert good(flit)
    patterns = [p for weight in (1, 2, 3) for p in itertools.combinations(range(64), weight)]
    patterns = chance.sample(patterns, 5000) + [chance.sample(range(64), w) for w in (4, 5) for _ in range(2000)]
    assert not any(good(flit ^ sum(1 << bit for bit in pattern)) for pattern in patterns)


@pytest.mark.parametrize("weight", [1, 2, 4])
def test_crc32_sees_up_to_five_flips_to_the_length_stated(weight):
    """Odd weights are the next test's."""
    assert not unseen(CRC32, CRC32_HD6_BITS + 32, weight)


def test_crc32_sees_odd_numbers_of_flips_and_its_distance_ends_where_stated():
    assert odd_weights_seen(CRC32, CRC32_HD6_BITS + 32)
    assert unseen(CRC32, CRC32_HD6_BITS + 33, 4)


def test_crc32_sees_three_flips_in_the_longest_message_of_any_configuration():
    """HD 4 beyond: the largest MTU, the widest header, every flit width."""
    longest = 0
    for flit_bits in (32, 64, 128):
        system = System.make(
            topology={"kind": "mesh", "columns": 256, "rows": 256},
            wire={
                "flit_bits": flit_bits, "mtu": 4096, "slot_bits": 16, "generation_bits": 20, "incarnation_bits": 8,
                "try_bits": 8, "class_bits": 8, "mode_bits": 4, "ext_bits": 16,
            },
            timers={"wrap_guard": 0},
        )  # fmt: skip
        longest = max(longest, system.format.max_flits * flit_bits)
        assert system.format.distance(system.format.max_flits) == 4
    assert longest < 33_200
    assert not unseen(CRC32, longest, 2)
    assert odd_weights_seen(CRC32, longest)


@pytest.mark.parametrize("crc", [CRC16, CRC32])
def test_random_garbage_passes_as_often_as_stated(crc):
    """2^-16 and 2^-32, never 0: of all values of the CRC field exactly one passes."""
    body = random.Random(2).getrandbits(48)
    right = crc.of(body, 48)
    assert 0 <= right < 1 << crc.width
    if crc.width == 16:
        assert sum(crc.of(body, 48) == value for value in range(1 << 16)) == 1


@pytest.mark.parametrize(("mtu", "distance"), [(32, 6), (600, 6), (700, 4), (4096, 4)])
def test_distance_of_a_send(mtu, distance):
    system = System.make(wire={"mtu": mtu}, timers={"wrap_guard": 0})
    assert system.format.distance(system.format.send_flits(mtu)) == distance
