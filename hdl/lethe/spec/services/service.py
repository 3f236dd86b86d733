"""What is known of a service: how to tell whether it is there, what it adds to the port, and what it shows."""

import enum
import typing
from collections.abc import Callable
from dataclasses import dataclass

from lethe.spec.events import Unit
from lethe.spec.ports import HostPort

if typing.TYPE_CHECKING:
    from lethe.spec.config import System

__all__ = ["Service"]


@dataclass(frozen=True, kw_only=True)
class Service:
    """A service.

    Attributes
    ----------
    name : its noun, which its files and modules have too
    unit : the sort of its units in a trace
    lanes : the names of its lanes, by number; each has two trace words
    counters : what it counts
    flag_bits : the bits of its word of flags, from the lowest
    named : ``named(system)``: whether a configuration names it
    above : ``above(system, below)``: the port above it
    size : ``size(system)``: what `lethe check` says of it
    reset_with_ni : resets of scope "ni" are resets of it, too
    counts : ``counts(system)``: those of `counters` that a configuration has; by default all
    header : ``header(system)``: what it puts before a payload, (name, bits) from the lowest; whole bytes, or nothing
    """

    name: str
    unit: Unit
    lanes: tuple[str, ...]
    counters: type[enum.IntEnum]
    flag_bits: tuple[str, ...]
    named: Callable[["System"], bool]
    above: Callable[["System", HostPort], HostPort]
    size: Callable[["System"], str]
    reset_with_ni: bool = False
    counts: Callable[["System"], tuple[enum.IntEnum, ...]] | None = None
    header: Callable[["System"], tuple[tuple[str, int], ...]] = lambda system: ()

    def counted(self, system: "System") -> tuple[enum.IntEnum, ...]:
        """What it counts in a configuration."""
        return tuple(self.counters) if self.counts is None else self.counts(system)

    @property
    def flags(self) -> int:
        """Its trace word of flags; two words with a beat follow."""
        return 2 * len(self.lanes)

    @property
    def words(self) -> int:
        """Its trace words."""
        return self.flags + 3
