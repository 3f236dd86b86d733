"""A workload: what the hosts send, phase by phase, and whether what came out of the network is right."""

import abc
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lethe.spec.config import System

if TYPE_CHECKING:
    from lethe_sim.golden.model import Golden
    from lethe_sim.golden.script import Letters, Script

#: A phase ends at the first cycle that this divides and by which all that was sent has been taken.
BARRIER = 16


class WorkloadError(ValueError):
    """A workload that cannot be sent with this configuration.  The message is ``file: key: what; cure``."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Whether a workload came out right.

    Attributes
    ----------
    good : it did
    text : the verdict in words; each further line begins with two spaces
    data : what was received, of a workload whose outcome is a file
    """

    good: bool
    text: str
    data: bytes | None = None


class Workload(abc.ABC):
    """One kind of workload under one configuration.

    The same object serves the golden model and the RTL; it holds nothing of a run.  Whatever can be wrong with its
    input is a `WorkloadError` from the constructor.

    Attributes
    ----------
    phased : there is more than one phase, and each is computed from what was received in the one before
    """

    phased = False

    def __init__(self, system: System):
        self.system = system

    @abc.abstractmethod
    def phases(self) -> "Generator[Script, Letters, Verdict]":
        """One run of it: yields what is to be sent, is sent what was received, returns the verdict."""

    @property
    def expected(self) -> int:
        """Datagrams that will be sent; 0 if that is not known beforehand."""
        return 0

    @property
    def to_itself(self) -> bool:
        """Whether a node can send to itself."""
        return self.system.loop.slots > 0 or self.system.flow.ports > 0

    def path(self) -> Path:
        """Where its file is: ``workload.path``, relative to the configuration."""
        return Path(self.system.source).parent / self.system.workload.path

    def fail(self, key: str, what: str, cure: str) -> WorkloadError:
        """The error of a key of this configuration."""
        return WorkloadError(f"{self.system.source}: {key}: {what}; {cure}")

    def broken(self, what: str, cure: str) -> WorkloadError:
        """The error of the file that ``workload.path`` names."""
        return WorkloadError(f"{self.path()}: {what}; {cure}")

    def read(self) -> bytes:
        """The bytes of that file."""
        path, key = self.path(), "workload.path"
        try:
            if path.exists() and not (path.is_file() or path.is_dir()):
                raise self.fail(key, f"{path} is a device or a pipe", "name a file")
            return path.read_bytes()
        except FileNotFoundError:
            raise self.fail(key, f"no such file {path}", "the path is relative to the configuration") from None
        except IsADirectoryError:
            raise self.fail(key, f"{path} is a directory", "name a file in it") from None
        except OSError as error:
            raise self.fail(key, f"{path} cannot be read: {error.strerror}", "check its permissions") from None


class Play:
    """A workload under way on a golden model, alone or in lockstep; None is the hardware generators'.

    Make the model with ``script``, and run it as `strides` says.

    Attributes
    ----------
    over : all is sent, and the network has drained
    """

    def __init__(self, workload: Workload | None):
        self.workload, self.over = workload, False
        self.script: Script | None = None
        self._verdict: Verdict | None = None
        if workload is not None:
            self._phases = workload.phases()
            self.script = next(self._phases)
            self._sent = len(self.script)
            self._number = 0
            self._given = 0

    @property
    def last(self) -> bool:
        """Nothing further will be sent."""
        return self.workload is None or not self.workload.phased or self._verdict is not None

    def strides(self, golden: "Golden", cycles: int, *, until_drained: bool = True) -> Iterator[tuple[int, bool]]:
        """The run loop: yields how many cycles to run next, and whether to stop before if the network has drained.

        It ends after ``cycles``, or when all is over, if ``until_drained``.  Run the model so far before the next is
        asked for: the next phase begins if one is over.
        """
        end = golden.cycle + cycles
        while not self.over and golden.cycle < end:
            left = end - golden.cycle
            yield left if self.last else min(left, BARRIER - golden.cycle % BARRIER), until_drained and self.last
            self.over = not self._go_on(golden) and until_drained

    def _go_on(self, golden: "Golden") -> bool:
        """Begin the next phase if this one is over; False when all is over and drained."""
        if self.last:
            return not golden.drained
        if golden.cycle % BARRIER:
            return True
        new = golden.letters(self._given)
        taken = self._given + len(new) >= self._sent and not golden.taking
        if taken or golden.drained:
            self._advance(golden, new)
        return True

    def _advance(self, golden: "Golden", new: "Letters") -> None:
        self._given += len(new)
        try:
            script = self._phases.send(new)
        except StopIteration as done:
            self._verdict = done.value
            return
        self._number += 1
        self._sent += len(script)
        golden.extend(script)

    def verdict(self, golden: "Golden") -> Verdict | None:
        """The verdict, at the end of the run; None for the generators, whose checkers say it."""
        if self.workload is None:
            return None
        new = golden.letters(self._given)
        if self._verdict is not None:
            return _with_extra(self._verdict, len(new))
        if self.workload.phased:
            return _unfinished(self.workload, self._number, len(new), len(golden.letters()))
        return _end(self._phases, new)


def judge(workload: Workload, letters: "Letters") -> Verdict:
    """The verdict over all datagrams of a run, in the order in which each node received them.

    The phases are computed anew, each from what was received of the one before it.
    """
    import numpy as np

    phases = workload.phases()
    script = next(phases)
    if not workload.phased:
        return _end(phases, letters)
    order = np.argsort(letters.node, kind="stable")
    firsts = np.searchsorted(letters.node[order], np.arange(workload.system.nodes + 1))
    at, ends = firsts[:-1].copy(), firsts[1:]
    number = 0
    while True:
        wanted = np.bincount(script.destination, minlength=workload.system.nodes)[: workload.system.nodes]
        until = np.minimum(at + wanted, ends)
        if (until - at < wanted).any():
            return _unfinished(workload, number, int((until - at).sum()), len(letters))
        rows = np.concatenate([order[a:b] for a, b in zip(at.tolist(), until.tolist(), strict=True)])
        at = until
        try:
            script = phases.send(letters.select(rows))
        except StopIteration as done:
            return _with_extra(done.value, int((ends - at).sum()))
        number += 1


def _end(phases: "Generator[Script, Letters, Verdict]", letters: "Letters") -> Verdict:
    try:
        phases.send(letters)
    except StopIteration as done:
        return done.value
    raise AssertionError("a workload of one phase wants a second")


def _with_extra(verdict: Verdict, extra: int) -> Verdict:
    if not extra:
        return verdict
    return Verdict(good=False, text=f"{verdict.text}\n  {extra:,} datagrams more than were sent")


def _unfinished(workload: Workload, number: int, here: int, received: int) -> Verdict:
    kind = workload.system.workload.kind
    return Verdict(
        good=False,
        text=f"{kind}: unfinished: phase {number + 1} was not over, {here:,} datagrams of it ({received:,} in all) "
        "were received",
    )
