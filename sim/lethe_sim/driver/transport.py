"""What a driver needs of whatever carries its transfers: registers, datagrams, completions, and time."""

import abc
from dataclasses import dataclass

from lethe.spec.config import System
from lethe.spec.events import Cause, Mode, Status
from lethe.spec.registers import RegisterMap

__all__ = ["Completion", "Datagram", "Delivery", "DriverError", "Transport"]


class DriverError(RuntimeError):
    """Something that the driver was asked for and that cannot be done, or was not in time.  What is wrong; cure."""


@dataclass(frozen=True, kw_only=True)
class Datagram:
    """What is to be sent: the fields of the host port's record ``send``, and the payload."""

    destination: int
    payload: bytes = b""
    tag: int = 0
    cls: int = 0
    mode: int = Mode.EXACTLY_ONCE
    deadline: int = 0
    retry_limit: int = 0
    expect: int = 0
    path: int = 0


@dataclass(frozen=True, kw_only=True)
class Delivery:
    """A datagram that was delivered; ``incarnation`` is that of its source, 0 without ``ni.source_incarnation``."""

    source: int
    payload: bytes
    cls: int = 0
    incarnation: int = 0


@dataclass(frozen=True, kw_only=True)
class Completion:
    """How a datagram ended; ``incarnation`` is the NI's when it told."""

    tag: int
    status: Status
    cause: Cause
    destination: int
    slot: int
    generation: int
    peer_incarnation: int
    incarnation: int


class Transport(abc.ABC):
    """One NI, as `Driver` drives it.  All that takes time is a coroutine; in it the rest of the world goes on.

    Attributes
    ----------
    system : the configuration
    map : the registers
    """

    system: System
    map: RegisterMap

    def controls(self, cls: int) -> bool:
        """Whether datagrams of this class go by control slots."""
        first = (1 << self.system.format.class_bits) - self.system.ni.control_classes
        return self.system.top_port.control and cls >= first

    @abc.abstractmethod
    async def read(self, address: int) -> tuple[int, bool]:
        """(word, whether the answer was OKAY) of a register."""

    @abc.abstractmethod
    async def write(self, address: int, word: int) -> bool:
        """Whether the answer was OKAY."""

    @abc.abstractmethod
    def put(self, datagram: Datagram) -> None:
        """Queue a datagram for the NI, behind those that wait; control slots have a queue of their own."""

    @abc.abstractmethod
    def delivery(self) -> Delivery | None:
        """The oldest delivery that was not given yet; None if there is none."""

    @abc.abstractmethod
    def completion(self) -> Completion | None:
        """The oldest completion that was not given yet; None if there is none."""

    @abc.abstractmethod
    async def wait(self, cycles: int) -> None:
        """Let so many cycles of the NI's clock pass."""
