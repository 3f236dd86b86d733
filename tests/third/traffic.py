"""Sections 5 and 8 of the cycle contract: the traffic generator, the checker and the script host of a node.

Written from `docs/` alone, as `ni.py`.
"""

from typing import NamedTuple

from tests.third import derived
from tests.third.derived import MASK32, Numbers, scale
from tests.third.ni import Delivered, Record, stimulus_words


def payload(numbers: Numbers, key: int, length: int) -> list[int]:
    """The beats of a datagram."""
    words = [key ^ (i & 0xFF) * 0x01010101 ^ (MASK32 if i & 1 else 0) for i in range(-(-length // 4))]
    stream = b"".join(word.to_bytes(4, "little") for word in words)[:length]
    size = numbers.flit_bits // 8
    return [int.from_bytes(stream[at : at + size], "little") for at in range(0, length, size)]


class Generator:
    """States START, GAP, RECORD, DATA and DONE."""

    def __init__(self, numbers: Numbers, node: int):
        self.n, self.node = numbers, node
        self.workload, self.gaps = numbers.section["workload"], numbers.gaps()
        self.chance = derived.seed_for(numbers.section["run"]["seed"], 5, node)
        self.state, self.number, self.left = "START", 0, 0
        self.record, self.beats, self.at = Record(), [], 0
        self.sent = self.sent_sum = 0

    @property
    def key(self) -> int:
        return (self.number & 0xFFFFF) << 12 | self.node & 0xFFF

    @property
    def offered(self) -> tuple[Record | None, int | None]:
        """The record, or the beat, offered in this cycle."""
        return self.record if self.state == "RECORD" else None, self.beats[self.at] if self.state == "DATA" else None

    def step(self, cycle: int, *, ready: bool, record_taken: bool, beat_taken: bool, reset: bool) -> None:
        """The end of a cycle; ``ready``: the NI is Ready."""
        if reset and self.state in ("RECORD", "DATA"):
            self.state = "RECORD"
        elif self.state == "START":
            self._start(cycle, ready)
        elif self.state == "GAP":
            self.left -= 1
            self.state = "GAP" if self.left else "RECORD"
        elif record_taken:
            self.state, self.at = "DATA", 0
        elif beat_taken:
            self.at += 1
            if self.at == len(self.beats):
                self.sent, self.sent_sum = self.sent + 1, self.sent_sum + self.key & MASK32
                self.state, self.number = "START", self.number + 1

    def _start(self, cycle: int, ready: bool) -> None:
        w = self.workload
        if (w["count"] and self.number == w["count"]) or (w["stop"] and cycle >= w["stop"]):
            self.state = "DONE"
        elif ready:
            d = self.chance = derived.draw(self.chance)
            destination = scale(d & 0xFFFF, 16, self.n.nodes - 1)
            length = w["min_length"] + scale(d >> 24, 8, w["max_length"] - w["min_length"] + 1)
            self.record = Record(
                destination=destination + (destination >= self.node),
                length=length,
                tag=self.number & (1 << self.n.section["wire"]["tag_bits"]) - 1,
                deadline=w["deadline"],
                retry_limit=w["retry_limit"],
            )
            self.beats = payload(self.n, self.key, length)
            self.left = self.gaps[d >> 16 & 0xFF]
            self.state = "GAP" if self.left else "RECORD"


class Checker:
    """State HEAD, or a datagram's beats."""

    def __init__(self, numbers: Numbers):
        self.n = numbers
        self.length: int | None = None  # of the datagram whose beats come; None in HEAD
        self.beats: list[int] = []
        self.received = self.received_sum = self.wrong = 0

    @property
    def ready(self) -> tuple[int, int]:
        """deliver.ready and deliver_data.ready, unless stalled."""
        return int(self.length is None), int(self.length is not None)

    def step(self, record: Delivered | None, beat: tuple[int, int] | None, *, reset: bool) -> None:
        """The end of a cycle, with what was taken in it."""
        if reset:
            self.length, self.beats = None, []
        elif record is not None:
            self.length = record.length or None
        elif beat is not None:
            self.beats.append(beat[0])
            if beat[1]:
                assert self.length is not None
                stream = self.n.bytes_of(self.beats[: self.n.payload_flits(self.length)])
                key = int.from_bytes(stream[:4], "little")
                self.wrong += self.beats != payload(self.n, key, self.length)
                self.received, self.received_sum = self.received + 1, self.received_sum + key & MASK32
                self.length, self.beats = None, []


class Datagram(NamedTuple):
    """A datagram of a script: its record, its beats, and the cycle before which it is not offered."""

    record: Record
    beats: list[int]
    not_before: int = 0


class ScriptHost:
    """States RECORD and DATA; plays a list of datagrams in order (section 8)."""

    def __init__(self, datagrams: list[Datagram]):
        self.datagrams = datagrams
        self.number, self.at = 0, 0
        self.in_data = False

    def words(self, cycle: int, numbers: Numbers) -> list[int]:
        """The stimulus words of a cycle; where there are control slots, control has a stream of its own."""
        words = [0] * stimulus_words(numbers)
        if self.number == len(self.datagrams):
            return words
        r, beats, not_before = self.datagrams[self.number]
        control = numbers.is_control(r.cls) and numbers.section["ni"]["control_slots"] > 0
        valid, at = (7, 6) if control else (0, 1)
        if self.in_data:
            beat = beats[self.at]
            words[0] = 2 << valid
            words[at + 2 : at + 4] = beat & derived.MASK64, beat >> 64
        elif cycle >= not_before:
            words[0] = 1 << valid
            words[at] = r.destination | r.cls << 16 | r.mode << 24 | r.length << 32 | r.tag << 48
            words[at + 1] = r.deadline | r.retry_limit << 32 | r.expect << 40
        return words

    def step(self, *, record_taken: bool, beat_taken: bool, reset: bool) -> None:
        """The end of a cycle."""
        if reset:
            self.in_data, self.at = False, 0
            return
        if record_taken:
            self.in_data, self.at = self.datagrams[self.number].record.length > 0, 0
            self.number += not self.in_data
        elif beat_taken:
            self.at += 1
            if self.at == len(self.datagrams[self.number].beats):
                self.in_data = False
                self.number += 1
