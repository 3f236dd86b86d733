"""Section 9 of the cycle contract: what follows from a configuration before the first cycle.

Written from `docs/` alone, as all of this directory is; nothing of the project is imported.
"""

import math
import tomllib
from dataclasses import dataclass

MASK32 = (1 << 32) - 1
MASK64 = (1 << 64) - 1

#: docs/reference/configuration.md: the keys that an NI, its generator and its links depend on, with their defaults.
DEFAULTS = {
    "run": {"seed": 1},
    "topology": {"kind": "tree", "nodes": 0, "arity": 4, "levels": 2, "columns": 4, "rows": 4},
    "wire": {
        "flit_bits": 64, "node_bits": 0, "slot_bits": 0, "generation_bits": 12, "incarnation_bits": 4, "try_bits": 1,
        "class_bits": 3, "mode_bits": 2, "ext_bits": 2, "mtu": 32, "tag_bits": 16,
    },
    "router": {
        "latency": 1, "queue": 0, "pool": 0, "pool_path": "pinned", "control_first": 0, "flow": "discard",
        "max_wait": 64,
    },
    "ni": {
        "slots": 16, "sets": 16, "ways": 4, "reply_depth": 16, "deliver_flits": 0, "deliver_records": 16,
        "control_classes": 0, "control_flits": 0, "control_records": 0, "control_slots": 0, "reserved_slots": 0,
        "reserved_classes": 0, "reject": False, "source_incarnation": False, "merge_bits": 0, "acceptance": False,
        "sweep": False, "deadline_bits": 20,
    },
    "timers": {
        "slack": -1, "ceiling": -1, "backoff_steps": 6, "jitter_bits": 6, "timer_depth": 0, "ack_limit": 0,
        "quarantine": 0, "silent_after": 0, "silent_probe": 4096,
    },
    "faults": {"loss": 0.0, "flip": 0.0},
    "workload": {
        "load": 0.05, "min_length": 32, "max_length": 32, "count": 100, "stop": 0, "deadline": 0, "retry_limit": 0,
    },
}  # fmt: skip


def bits(x: int) -> int:
    """The length of x in binary."""
    return x.bit_length()


# 9.1 Generators and seeds


def draw(x: int) -> int:
    """The state after ``x``, which is the draw."""
    x ^= x << 13 & MASK32
    x ^= x >> 17
    return x ^ x << 5 & MASK32


def scale(x: int, width: int, n: int) -> int:
    """A draw of ``width`` bits as one of 0 … n−1 (section 1)."""
    return x * n >> width


def seed_for(seed: int, kind: int, index: int) -> int:
    """The first state of a generator; kinds: 1 NI, 2 router, 3 losses, 4 flips, 5 traffic, 7 salt."""
    x = seed * 0x9E3779B1 + kind * 0x85EBCA77 + index * 0xC2B2AE3D + 0x27D4EB2F & MASK32
    x ^= x >> 16
    x = x * 0x85EBCA6B & MASK32
    x ^= x >> 16
    x = x * 0xC2B2AE35 & MASK32
    x ^= x >> 16
    return x or 1


# 9.2 Formats


class Crc:
    """A CRC by its reversed polynomial: starts as all ones, bit 0 first, complemented."""

    def __init__(self, width: int, polynomial: int):
        self.ones, self.polynomial = (1 << width) - 1, polynomial
        self.table = []
        for byte in range(256):
            for _ in range(8):
                byte = byte >> 1 ^ (polynomial if byte & 1 else 0)
            self.table.append(byte)

    def of_bits(self, data: int, width: int, register: int) -> int:
        """The register after ``width`` bits, from bit 0 up, with nothing complemented."""
        for i in range(width):
            register = register >> 1 ^ (self.polynomial if (register ^ data >> i) & 1 else 0)
        return register

    def of(self, data: bytes) -> int:
        register = self.ones
        for byte in data:
            register = register >> 8 ^ self.table[(register ^ byte) & 0xFF]
        return register ^ self.ones


CRC16 = Crc(16, 0xA6BC)
CRC32C = Crc(32, 0x82F63B78)


@dataclass(frozen=True)
class Numbers:
    """A configuration and what follows from it; names are those of docs/reference/configuration.md and section 9."""

    section: dict[str, dict]
    nodes: int
    classes: int
    flit_bits: int
    common: tuple[tuple[str, int], ...]
    header: tuple[tuple[str, int], ...]
    one_flit_control: bool
    header_flits: int
    crc_flits: int
    control_flits: int
    max_flits: int
    timer_depth: int
    deliver_flits: int
    slack: int
    delays: tuple[int, ...]
    ceiling: int
    time_bits: int

    def payload_flits(self, length: int) -> int:
        return -(-length * 8 // self.flit_bits)

    def send_flits(self, length: int) -> int:
        return self.header_flits + self.payload_flits(length) + self.crc_flits

    def bytes_of(self, flits: list[int]) -> bytes:
        return b"".join(flit.to_bytes(self.flit_bits // 8, "little") for flit in flits)

    def crc32_flits(self, flits: list[int]) -> list[int]:
        """The CRC-32 of flits, as the flits that end a message."""
        crc = CRC32C.of(self.bytes_of(flits))
        return [crc & 0xFFFF, crc >> 16] if self.flit_bits == 16 else [crc]

    def crc_is_good(self, flits: list[int]) -> bool:
        """Check 2 of section 4.4."""
        if len(flits) == 1:
            data = flits[0].to_bytes(self.flit_bits // 8, "little")
            return self.one_flit_control and CRC16.of(data[:-2]) == int.from_bytes(data[-2:], "little")
        c = self.crc_flits
        return len(flits) > c and flits[-c:] == self.crc32_flits(flits[:-c])

    def message(self, fields: dict[str, int], payload: list[int] | None = None) -> list[int]:
        """The flits of a message; ``payload`` (flits) if it is a Send or BE.  Fields not named are 0."""
        table = self.common if payload is None else self.header
        packed, at = 0, 0
        for name, width in table:
            packed |= (fields.get(name, 0) & (1 << width) - 1) << at
            at += width
        if payload is None and self.one_flit_control:
            data = packed.to_bytes(self.flit_bits // 8 - 2, "little")
            return [packed | CRC16.of(data) << self.flit_bits - 16]
        flits = [packed >> i & (1 << self.flit_bits) - 1 for i in range(0, at, self.flit_bits)] + (payload or [])
        return flits + self.crc32_flits(flits)

    def fields(self, flits: list[int]) -> dict[str, int]:
        """What the first flits say as a header; nothing of it holds before the checks of section 4.4."""
        packed = 0
        for i, flit in enumerate(flits[: self.header_flits]):
            packed |= flit << i * self.flit_bits
        found = {}
        for name, width in self.header:
            found[name] = packed & (1 << width) - 1
            packed >>= width
        return found

    def is_control(self, cls: int) -> bool:
        """Whether a class is one for control: one of the highest (4.8)."""
        return cls >= (1 << self.section["wire"]["class_bits"]) - self.section["ni"]["control_classes"]

    def uid(self, source: int, incarnation: int, slot: int, generation: int) -> int:
        return source << 44 | incarnation << 36 | slot << 20 | generation

    # 9.3 Distance classes and delays

    def distance(self, a: int, b: int) -> int:
        """The distance class of a pair."""
        topology = self.section["topology"]
        if topology["kind"] == "tree":
            k, level = topology["arity"], 0
            while a // k ** (level + 1) != b // k ** (level + 1):
                level += 1
            return level
        if topology["kind"] == "mesh":
            columns, rows = topology["columns"], topology["rows"]
            apart = abs(a % columns - b % columns) + abs(a // columns - b // columns)
            return int(2 * apart > columns + rows - 2)
        return 0

    # 9.4 Gaps of the generator

    def gaps(self) -> list[int]:
        workload = self.section["workload"]
        lengths = range(workload["min_length"], workload["max_length"] + 1)
        m = sum(self.payload_flits(length) for length in lengths) / len(lengths)
        mean = m / workload["load"] - m - 2
        return [0 if mean <= 0 else round(-math.log(1 - (i + 0.5) / 256) * mean) for i in range(256)]


def read(text: str) -> Numbers:
    """The numbers of a configuration in TOML."""
    given = tomllib.loads(text)
    section = {name: keys | given.get(name, {}) for name, keys in DEFAULTS.items()}
    topology, wire, ni, timers, router = (section[n] for n in ("topology", "wire", "ni", "timers", "router"))
    kind, levels, across = topology["kind"], topology["levels"], topology["columns"] + topology["rows"] - 2
    nodes = {
        "wire": 2,
        "crossbar": topology["nodes"],
        "fly": topology["arity"] ** levels,
        "tree": topology["arity"] ** levels,
        "mesh": topology["columns"] * topology["rows"],
    }[kind]

    f = wire["flit_bits"]
    common = (
        ("kind", 3),
        ("destination", wire["node_bits"] or max(1, bits(nodes - 1))),
        ("source", wire["node_bits"] or max(1, bits(nodes - 1))),
        ("slot", wire["slot_bits"] or max(1, bits(ni["slots"] - 1))),
        ("generation", wire["generation_bits"]),
        ("incarnation", wire["incarnation_bits"]),
        ("peer_incarnation", wire["incarnation_bits"]),
        ("try", wire["try_bits"]),
    )
    header = (
        *common,
        ("length", max(1, bits(wire["mtu"]))),
        ("class", wire["class_bits"]),
        ("mode", wire["mode_bits"]),
        ("extension", wire["ext_bits"]),
    )
    h1, h2 = sum(width for _, width in common), sum(width for _, width in header)
    one_flit_control = h1 + 16 <= f
    crc_flits = -(-32 // f)
    control_flits = 1 if one_flit_control else -(-h1 // f) + crc_flits
    payload = -(-wire["mtu"] * 8 // f)
    max_flits = max(-(-h2 // f) + payload + crc_flits, control_flits)

    routers = {
        "wire": [0],
        "crossbar": [1],
        "fly": [levels],
        "tree": [2 * q + 1 for q in range(levels)],
        "mesh": [across // 2 + 1, across + 1],
    }[kind]
    slack = timers["slack"] if timers["slack"] >= 0 else 8 - 2 * timers["slack"] * max_flits
    delays = [2 * router["latency"] * most + max_flits + control_flits + 22 + slack for most in routers]
    last = delays[-1]
    delays += [last << r for r in range(1, timers["backoff_steps"] + 1)]
    waits = router["queue"] > 0 or router["pool"] > 0 or router["flow"] == "credits"
    ceiling = timers["ceiling"] if timers["ceiling"] >= 0 else 64 * last if waits else 0
    longest = ceiling or delays[-1]
    jitter, quarantine = timers["jitter_bits"], timers["quarantine"]
    return Numbers(
        section=section,
        nodes=nodes,
        classes=len(routers),
        flit_bits=f,
        common=common,
        header=header,
        one_flit_control=one_flit_control,
        header_flits=-(-h2 // f),
        crc_flits=crc_flits,
        control_flits=control_flits,
        max_flits=max_flits,
        timer_depth=timers["timer_depth"] or max(16, 2 * ni["slots"], 2 * ni["sets"] * ni["ways"]),
        deliver_flits=ni["deliver_flits"] or 4 * payload,
        slack=slack,
        delays=tuple(delays),
        ceiling=ceiling,
        time_bits=max(bits(longest + (1 << jitter) + quarantine) + 2, ni["deadline_bits"] + 2, 16),
    )


# 9.5 Digest


def mix(x: int) -> int:
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & MASK64
    x = (x ^ x >> 27) * 0x94D049BB133111EB & MASK64
    return x ^ x >> 31


def event_hash(cycle: int, unit: int, lane: int, word: int, uid: int) -> int:
    h = mix(cycle * 0x9E3779B97F4A7C15 + (unit << 8 | lane) & MASK64)
    return mix((h ^ word) + uid * 0xD6E8FEB86659FD93 & MASK64)
