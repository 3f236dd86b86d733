"""The generators that RTL and golden model share: xorshift32, advanced when a unit draws; a router's, every cycle."""

MASK32 = 0xFFFF_FFFF

# The kinds of unit that draw, as they enter `seed_for`.
UNIT_NI = 1
UNIT_ROUTER = 2
UNIT_LINK_LOSS = 3
UNIT_LINK_FLIP = 4
UNIT_GENERATOR = 5
UNIT_SALT = 7  # not a generator: the salt of pinned up-ports
UNIT_NOTICE = 8  # not a generator: when a node is told of a death

#: How `seed_for` mixes: a factor for each of its numbers and what is added, then Murmur3's finaliser.
SEED_FACTORS, SEED_OFFSET = (0x9E37_79B1, 0x85EB_CA77, 0xC2B2_AE3D), 0x27D4_EB2F
SEED_ROUNDS = (0x85EB_CA6B, 0xC2B2_AE35)


def advance(state: int) -> int:
    """The next state of an xorshift32 generator (shifts 13, 17, 5); never 0 for a non-zero state."""
    state ^= (state << 13) & MASK32
    state ^= state >> 17
    state ^= (state << 5) & MASK32
    return state


def seed_for(seed: int, unit: int, index: int) -> int:
    """The non-zero initial state of the generator of unit number ``index`` of kind ``unit``.

    Murmur3's finaliser over the three numbers, so that neighbouring units share nothing.
    """
    numbers = zip((seed, unit, index), SEED_FACTORS, strict=True)
    x = (sum(number * factor for number, factor in numbers) + SEED_OFFSET) & MASK32
    for factor in SEED_ROUNDS:
        x ^= x >> 16
        x = (x * factor) & MASK32
    x ^= x >> 16
    return x or 1


def scale(draw: int, bits: int, count: int) -> int:
    """Map a draw of ``bits`` bits to 0 … count−1 without a division: ``draw · count >> bits``."""
    return (draw * count) >> bits
