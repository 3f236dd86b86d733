"""Synthetic patterns: who sends to whom, when, and how much; an open loop, fixed by the configuration and its seed."""

import math
from collections.abc import Generator
from functools import cached_property

import numpy as np

from lethe.spec.config import System
from lethe_sim.golden.script import Letters, Script

from .traffic import draw, payloads, sent_and_compared, slot_words
from .workload import Verdict, Workload

_DESTINATION, _SHARE, _LENGTH, _GAP, _END = range(5)


class PatternWorkload(Workload):
    """The patterns of ``workload.pattern``.

    Datagram q of a node is the same whatever the number of datagrams.  Where a pattern sends a node to itself
    (transpose, bit-reverse, incast) that node sends nothing without a loop.
    """

    def phases(self) -> Generator[Script, Letters, Verdict]:
        return sent_and_compared("pattern", self.script(), self.system)

    @property
    def expected(self) -> int:
        return len(self.columns[0])

    @cached_property
    def columns(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """(source, number, destination, cycle of arrival) of every datagram, by source and number."""
        nodes = np.arange(self.system.nodes)
        senders = nodes if self.to_itself else nodes[self._fixed() != nodes]
        arrival = arrivals(self.system, senders)
        due = np.ones(arrival.shape, bool)
        if self.system.workload.stop:
            due = arrival < self.system.workload.stop
        row, number = np.nonzero(due)
        source = senders[row]
        return source, number, self._destination(source, number), arrival[due]

    def script(self) -> Script:
        """What the hosts send."""
        system, load = self.system, self.system.workload
        source, number, destination, cycle = self.columns
        spread = load.max_length - load.min_length + 1
        length = load.min_length + (draw(system.run.seed, _LENGTH, source, number) * spread).astype(np.int64)
        data, at = payloads(source, number, length, slot_words(system))
        return Script.from_columns(
            system, node=source, destination=destination, length=length, data=data, at=at, not_before=cycle,
            deadline=load.deadline, retry_limit=load.retry_limit, tag=number % (1 << system.wire.tag_bits),
        )  # fmt: skip

    def _fixed(self) -> np.ndarray:
        """int64[nodes]: the destination of each node, −1 if it varies."""
        n, load = self.system.nodes, self.system.workload
        nodes = np.arange(n)
        match load.pattern:
            case "transpose":
                side = math.isqrt(n)
                return nodes % side * side + nodes // side
            case "bit-reverse":
                bits = (n - 1).bit_length()
                return sum((nodes >> i & 1) << (bits - 1 - i) for i in range(bits)) + 0 * nodes
            case "neighbour":
                return (nodes + 1) % n
            case "incast":
                return np.full(n, load.node)
            case _:
                return np.full(n, -1)

    def _destination(self, source: np.ndarray, number: np.ndarray) -> np.ndarray:
        n, load, seed = self.system.nodes, self.system.workload, self.system.run.seed
        fixed = self._fixed()
        if (fixed >= 0).all():
            return fixed[source]
        if load.pattern == "all-to-all":
            return (source + 1 + number % (n - 1)) % n
        others = (draw(seed, _DESTINATION, source, number) * (n - 1)).astype(np.int64)
        others += others >= source
        if load.pattern == "hotspot":
            hot = (draw(seed, _SHARE, source, number) < load.fraction) & (source != load.node)
            return np.where(hot, load.node, others)
        return others


def arrivals(system: System, senders: np.ndarray) -> np.ndarray:
    """int64[senders, datagrams]: the cycles from which the datagrams are offered.

    Bernoulli: in each cycle one arrives with the same probability.  Bursty: datagrams follow each other at load 1, a
    burst ends behind each with probability 1 / ``burst``, and the pauses (exponential) bring the load down.  With a
    load of 1 or more all are there from the start.
    """
    load = system.workload
    lengths = range(load.min_length, load.max_length + 1)
    flits = sum(map(system.format.payload_flits, lengths)) / len(lengths)
    many = load.count or max(16, round(load.stop * load.load / flits * 1.5))
    while True:
        cycles = _arrivals(system, senders, many, flits)
        if load.count or (cycles[:, -1] >= load.stop).all():
            return cycles
        many *= 2


def _arrivals(system: System, senders: np.ndarray, many: int, flits: float) -> np.ndarray:
    load, seed = system.workload, system.run.seed
    if load.load >= 1:
        return np.zeros((len(senders), many), np.int64)
    number = np.arange(many)[None, :]
    # Bursts of an incast come from all nodes at once: they share their draws.
    together = load.pattern == "incast" and load.arrivals == "bursty"
    who = (np.zeros_like(senders) if together else senders)[:, None]
    chance = np.log1p(-draw(seed, _GAP, who, number))
    if load.arrivals == "bernoulli":
        # flits / load cycles on average, at least one.
        share = min(load.load / flits, 1 - 1e-12)
        return np.cumsum(1 + np.floor(chance / math.log1p(-share)).astype(np.int64), axis=1) - 1
    pause = -chance * load.burst * flits * (1 / load.load - 1)
    first = draw(seed, _END, who, number) < 1 / load.burst
    first[:, 0] = True
    return np.cumsum(np.where(first, pause, 0.0) + flits, axis=1).astype(np.int64) - math.ceil(flits)
