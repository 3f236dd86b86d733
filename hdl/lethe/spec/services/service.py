"""What is known of a service: how to tell whether it is there, what it adds to the port, and what it shows."""

import enum
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from lethe.spec.events import Unit
from lethe.spec.ports import HostPort

if typing.TYPE_CHECKING:
    from lethe.spec.config import System

__all__ = ["Header", "Service"]

#: (name, bits) from the lowest.
Fields = tuple[tuple[str, int], ...]


@dataclass(frozen=True, kw_only=True)
class Header:
    """What a service puts before the payloads of some classes.

    Attributes
    ----------
    fields : in whole bytes, with `words`
    classes : the lowest and the highest class whose payloads have it; None: all have it
    size : its bytes; 0: those of its fields
    part : what it is called beside the service's other headers
    words : {value of the first field: the fields that follow}
    names : {field: the names of its values}
    told : one line of it, with {field} in the place of a value
    """

    fields: Fields
    classes: tuple[int, int] | None = None
    size: int = 0
    part: str = ""
    words: Mapping[int, Fields] = field(default_factory=dict)
    names: Mapping[str, type[enum.IntEnum]] = field(default_factory=dict)
    told: str = ""

    @property
    def bytes(self) -> int:
        """Its bytes."""
        return self.size or -(-sum(bits for _, bits in self.fields) // 8)


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
    headers : ``headers(system)``: what it puts before payloads
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
    headers: Callable[["System"], tuple[Header, ...]] = lambda system: ()

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
