"""Generator and checker of the golden model alone, a cycle a call (section 5), as `blocks` does it for the others."""

from typing import NamedTuple

import numpy as np

from lethe.spec.config import System
from lethe.spec.random import UNIT_GENERATOR, seed_for

from .ni.accept import payload_flits
from .ni.host_port import Flow
from .state import GENERATOR, NEVER, Host, HostPort, parameters
from .traffic import checker, generator
from .traffic.generator import Generator as State

MASK64 = (1 << 64) - 1


class Offer(NamedTuple):
    """What a generator offers in one cycle: (destination, length, tag) of a record, or a beat, or nothing."""

    record: tuple[int, int, int] | None
    beat: int | None


class Generator:
    """The generator of node ``node``."""

    def __init__(self, system: System, node: int):
        self.k, self.cycle = parameters(system, GENERATOR), 0
        self.host, self.port = Host(np.zeros(Host.size, np.int64)), HostPort(np.zeros(HostPort.size, np.int64))
        self.host.node, self.host.random = node, seed_for(system.run.seed, UNIT_GENERATOR, node)
        self._beat = np.zeros(2, np.uint64)

    @property
    def done(self) -> bool:
        """Nothing more will be offered."""
        return bool(self.host.state == State.DONE)

    @property
    def sums(self) -> tuple[int, int]:
        """``sent`` and ``sent_sum`` so far."""
        return int(self.host.sent), int(self.host.sent_sum)

    @property
    def beat(self) -> int:
        """Number of the beat that is offered."""
        return int(self.host.beat)

    def offer(self) -> Offer:
        """What it offers in the cycle that the next `step` will be."""
        port = self.port
        generator.present(self.k, self.host, port, self._beat)
        return Offer(
            (int(port.destination), int(port.length), int(port.tag)) if port.send_valid else None,
            int(self._beat[0]) | int(self._beat[1]) << 64 if port.data_valid else None,
        )

    def step(self, *, ready: bool, reset: bool, record_ready: bool, beat_ready: bool) -> None:
        """One cycle; in one of reset nothing is taken, whatever is ready."""
        k, host, offered, done = self.k, self.host, self.offer(), 0
        if reset:
            generator.reset(k, host, self.cycle)
        else:
            if offered.record and record_ready:
                done = Flow.SEND
            elif offered.beat is not None and beat_ready:
                last = host.beat + 1 == payload_flits(k, host.length)
                done = Flow.DATA | (Flow.ACCEPTED if last else 0)
            with np.errstate(over="ignore"):
                generator.follow(k, host, self.cycle, self.cycle if ready else NEVER, int(done))
        self.cycle += 1


class Checker:
    """A checker, fed by hand."""

    def __init__(self, system: System):
        self.k, self.host = parameters(system, GENERATOR), Host(np.zeros(Host.size, np.int64))

    @property
    def takes_records(self) -> bool:
        """In HEAD; else it takes beats."""
        return bool(self.host.check_state == checker.Checker.HEAD)

    @property
    def sums(self) -> tuple[int, int, int]:
        """``received``, ``received_sum`` and ``wrong`` so far."""
        return int(self.host.received), int(self.host.received_sum), int(self.host.wrong)

    def step(
        self, record: int | None = None, beat: tuple[int, int] | None = None, *, stalled: bool = False,
        reset: bool = False,
    ) -> tuple[bool, bool]:  # fmt: skip
        """One cycle with a record's length and a beat (data, last) on offer; returns whether each was taken."""
        takes_record = self.takes_records and record is not None and not stalled and not reset
        takes_beat = not self.takes_records and beat is not None and not stalled and not reset
        if reset:
            checker.reset(self.host)
        elif takes_record:
            checker.take_record(self.host, record)
        elif takes_beat and beat is not None:
            low, high = (np.uint64(beat[0] >> 64 * word & MASK64) for word in range(2))
            with np.errstate(over="ignore"):
                checker.take_beat(self.k, self.host, low, high, beat[1])
        return takes_record, takes_beat
