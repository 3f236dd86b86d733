"""Generator and checker of the golden model alone, a cycle a call (section 5), as `blocks` does it for the others."""

from typing import NamedTuple

import numpy as np

from lethe.spec.config import System
from lethe.spec.trace import STIMULUS_WORDS

from . import traffic
from .compile import jit, pointer
from .events import COLUMNS
from .model import state
from .ni.accept import payload_flits
from .ni.ni import ACCEPTED, BEAT_TAKEN, RECORD_TAKEN
from .state import (
    AT_DATA,
    AT_FIFOS,
    AT_LAST,
    AT_QUEUES,
    CHECK_STATE,
    DELIVER,
    GENERATOR,
    HEAD,
    HOST_BEAT,
    HOST_LENGTH,
    HOST_STATE,
    LEVEL,
    NEVER,
    QUEUE,
    READY_FROM,
    RECEIVED,
    RECEIVED_SUM,
    SENT,
    SENT_SUM,
    VISIBLE,
    WORDS,
    WRONG,
    parameters,
)  # fmt: skip  # isort: skip

MASK64 = (1 << 64) - 1


class Offer(NamedTuple):
    """What a generator offers in one cycle: (destination, length, tag) of a record, or a beat, or nothing."""

    record: tuple[int, int, int] | None
    beat: int | None


class Generator:
    """The generator of node ``node``."""

    def __init__(self, system: System, node: int):
        self.k, self.cycle = parameters(system, GENERATOR), 0
        self.row = state(system, self.k, only=node)[0][0]
        self.stimulus = np.zeros(STIMULUS_WORDS, np.uint64)
        traffic.start_host(self.k, self.row)

    @property
    def done(self) -> bool:
        """Nothing more will be offered."""
        return bool(self.row[HOST_STATE] == traffic.DONE)

    @property
    def sums(self) -> tuple[int, int]:
        """``sent`` and ``sent_sum`` so far."""
        return int(self.row[SENT]), int(self.row[SENT_SUM])

    @property
    def beat(self) -> int:
        """Number of the beat that is offered."""
        return int(self.row[HOST_BEAT])

    def offer(self) -> Offer:
        """What it offers in the cycle that the next `step` will be."""
        words = self.stimulus
        traffic.present(self.k, self.row, words, words, words, self.cycle)
        flags, record = int(words[0]), int(words[1])
        return Offer(
            (record & 0xFFFF, record >> 32 & 0xFFFF, record >> 48) if flags & 1 else None,
            int(words[3]) | int(words[4]) << 64 if flags & 2 else None,
        )

    def step(self, *, ready: bool, reset: bool, record_ready: bool, beat_ready: bool) -> None:
        """One cycle; in one of reset nothing is taken, whatever is ready."""
        k, row, offered = self.k, self.row, self.offer()
        if reset:
            traffic.reset_host(row, self.cycle)
        else:
            row[READY_FROM] = self.cycle if ready else NEVER
            done = 0
            if offered.record and record_ready:
                done = RECORD_TAKEN
            elif offered.beat is not None and beat_ready:
                last = row[HOST_BEAT] + 1 == payload_flits(k, row[HOST_LENGTH])
                done = BEAT_TAKEN | (ACCEPTED if last else 0)
            with np.errstate(over="ignore"):
                traffic.follow(k, row, self.stimulus, self.cycle, done)
        self.cycle += 1


@jit
def _check(k, row, data, events, cycle):
    traffic.check(k, pointer(row), pointer(data), pointer(events), cycle)


class Checker:
    """A checker, fed by hand."""

    def __init__(self, system: System):
        self.k, self.cycle = parameters(system, GENERATOR), 0
        rows, words = state(system, self.k, only=0)
        self.row, self.data = rows[0], words[0]
        self.events = np.zeros(4 * COLUMNS, np.uint64)

    @property
    def takes_records(self) -> bool:
        """In HEAD; else it takes beats."""
        return bool(self.row[CHECK_STATE] == traffic.HEAD_STATE)

    @property
    def sums(self) -> tuple[int, int, int]:
        """``received``, ``received_sum`` and ``wrong`` so far."""
        return int(self.row[RECEIVED]), int(self.row[RECEIVED_SUM]), int(self.row[WRONG])

    def step(
        self, record: int | None = None, beat: tuple[int, int] | None = None, *, stalled: bool = False,
        reset: bool = False,
    ) -> tuple[bool, bool]:  # fmt: skip
        """One cycle with a record's length and a beat (data, last) on offer; returns whether each was taken."""
        k, row, data = self.k, self.row, self.data
        records, beats = k[AT_QUEUES] + 3 * DELIVER, k[AT_FIFOS]
        for at, offered in ((records, record), (beats, beat)):
            row[at + HEAD], row[at + LEVEL], row[at + VISIBLE] = 0, offered is not None, 0
        if record is not None:
            row[k[QUEUE + 2 * DELIVER]] = record
        if beat is not None:
            words = int(k[WORDS])
            data[k[AT_DATA] : k[AT_DATA] + words] = [beat[0] >> 64 * word & MASK64 for word in range(words)]
            row[k[AT_LAST]] = beat[1]
        self.events[0] = 0
        if reset:
            traffic.reset_host(row, self.cycle)
        elif not stalled:
            with np.errstate(over="ignore"):
                _check(k, row, data, self.events, self.cycle)
        self.cycle += 1
        return (
            record is not None and not row[records + LEVEL],
            beat is not None and not row[beats + LEVEL],
        )
