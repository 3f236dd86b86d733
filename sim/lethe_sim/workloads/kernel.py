"""Parallel programs as workloads: their data cross the network, and their answers are held against NumPy's.

A program is bulk-synchronous: in a phase every node computes from what it has received, and sends; a barrier ends it.
Nothing but the datagrams goes from node to node.  A program neither sorts out doubled datagrams nor asks for missing
ones, and what it receives it *adds* to what it has, so a datagram that is lost, doubled or altered makes an array of
its answer wrong.
"""

import importlib
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from lethe.spec.config import System
from lethe_sim.golden.script import Item, Letters, Script

from .workload import Verdict, Workload


class Broken(Exception):
    """A program has received something that it cannot use; the message says at which node and what."""


@dataclass(frozen=True, kw_only=True)
class Sent:
    """One datagram of a program."""

    source: int
    destination: int
    payload: bytes


#: Yields what is sent in a phase and is sent what each node received in it; returns the answer: arrays by name.
Program = Generator[list[Sent], list[list[bytes]], dict[str, np.ndarray]]


class Kernel(ABC):
    """A program on the nodes of a system, its input drawn from the seed.

    Attributes
    ----------
    room : bytes of a datagram
    about : what it computes, for the verdict
    """

    about: str

    def __init__(self, system: System):
        self.nodes, self.room = system.nodes, system.host_mtu
        self.size, self.steps = system.workload.size, system.workload.steps
        # The old generator, because its numbers are the same in every version of NumPy.
        self.chance = np.random.RandomState(system.run.seed)

    @abstractmethod
    def program(self) -> Program:
        """One run of it."""

    @abstractmethod
    def answer(self) -> dict[str, np.ndarray]:
        """What NumPy says: the same arrays, without the network."""


class KernelWorkload(Workload):
    """The program that ``workload.kernel`` names."""

    phased = True

    def __init__(self, system: System):
        super().__init__(system)
        module = importlib.import_module(f".kernels.{system.workload.kernel}", __package__)
        self.kernel: Kernel = module.KERNEL(system)

    def phases(self) -> Generator[Script, Letters, Verdict]:
        program, name = self.kernel.program(), f"kernel {self.system.workload.kernel}"
        sent, phases, total = next(program), 0, 0
        while True:
            phases += 1
            total += len(sent)
            letters = yield self._script(sent)
            try:
                sent = program.send(_by_node(self.system.nodes, letters))
            except StopIteration as done:
                return self._judged(
                    name, done.value, f"{total:,} datagrams in {phases} phase{'s' if phases > 1 else ''}"
                )
            except Broken as broken:
                return Verdict(good=False, text=f"{name}: no answer: phase {phases}: {broken}")

    def _script(self, sent: list[Sent]) -> Script:
        load, tags = self.system.workload, 1 << self.system.wire.tag_bits
        return Script.from_items(
            self.system,
            (
                Item(
                    node=each.source, destination=each.destination, payload=each.payload,
                    deadline=load.deadline, retry_limit=load.retry_limit, tag=number % tags,
                )
                for number, each in enumerate(sent)
            ),
        )  # fmt: skip

    def _judged(self, name: str, found: dict[str, np.ndarray], work: str) -> Verdict:
        for part, right in self.kernel.answer().items():
            array = found[part]
            if array.shape != right.shape:
                what = f"{part} has shape {array.shape}, NumPy's {right.shape}"
            elif (array != right).any():  # true for a nan too
                what = f"{part}: {int((array != right).sum()):,} of {right.size:,} numbers are not NumPy's"
            else:
                continue
            return Verdict(good=False, text=f"{name}: wrong answer: {what}")
        return Verdict(good=True, text=f"{name}: {self.kernel.about}, as NumPy's; {work}")


def _by_node(nodes: int, letters: Letters) -> list[list[bytes]]:
    received: list[list[bytes]] = [[] for _ in range(nodes)]
    for i, node in enumerate(letters.node.tolist()):
        received[node].append(letters.payload(i))
    return received


# What the programs share.


def placed(source: int, destination: int, values: np.ndarray, room: int, *place: int) -> Iterator[Sent]:
    """Datagrams of ``values``: a place (words of 32 bits, the last one that of the first value), then values."""
    size = (room - 4 * len(place)) // values.itemsize
    values = np.ascontiguousarray(values)
    for first in range(0, len(values), size):
        head = np.array([*place[:-1], place[-1] + first], "<u4").tobytes()
        yield Sent(source=source, destination=destination, payload=head + values[first : first + size].tobytes())


def add_placed(target: np.ndarray, payload: bytes, node: int, places: int) -> None:
    """Add the values of one such datagram to ``target``, which has ``places`` dimensions."""
    head, size = 4 * places, target.itemsize
    if len(payload) <= head or (len(payload) - head) % size:
        raise Broken(f"node {node} got {len(payload)} bytes, which is no place and values")
    *row, first = np.frombuffer(payload[:head], "<u4").tolist()
    values = np.frombuffer(payload[head:], target.dtype)
    if any(i >= n for i, n in zip(row, target.shape, strict=False)) or first + len(values) > target.shape[-1]:
        raise Broken(f"node {node} got values for the place {(*row, first)}, and has {target.shape}")
    target[(*row, slice(first, first + len(values)))] += values


def blocks(size: int, parts: int) -> list[tuple[int, int]]:
    """``size`` things in ``parts`` runs as equal as can be: first and one past the last of each."""
    cuts = [size * part // parts for part in range(parts + 1)]
    return list(pairwise(cuts))
