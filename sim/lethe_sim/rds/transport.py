"""What the driver needs of a network of nodes with flow: a few calls down, events up.

A transport knows nothing of sockets.  It shows the port above flow (docs/reference/flow.md, section 3) of every node,
record by record.  Time passes only in `FlowTransport.advance`.
"""

import enum
from dataclasses import dataclass, field
from typing import Protocol

from lethe.spec.events import Cause, Status
from lethe.spec.services.flow import Flag

__all__ = [
    "AGAIN",
    "FIRST",
    "LAST",
    "NOWAIT",
    "REPEATED",
    "Accepted",
    "Answered",
    "Arrived",
    "Congested",
    "DatagramEnd",
    "Died",
    "FlowRecord",
    "FlowTransport",
    "Happening",
    "Noticed",
    "Restarted",
    "SettingCode",
]  # fmt: skip

#: Flags of a datagram, as masks.  NOWAIT goes down only; REPEATED, the same bit, comes up only.
FIRST, LAST, NOWAIT = 1 << Flag.FIRST, 1 << Flag.LAST, 1 << Flag.NOWAIT
REPEATED = NOWAIT
#: The driver's own flag among those that flow leaves to the host: the message may have arrived before.
AGAIN = 1 << 4


class SettingCode(enum.IntEnum):
    """Codes of `FlowTransport.set`."""

    UNBIND = 0
    BIND = 1
    RECEIVE_LIMIT = 2
    SEND_LIMIT = 3


@dataclass(frozen=True)
class FlowRecord:
    """A record for `send`, with its payload: a whole message of the user, or a part of it."""

    destination: int
    sport: int
    dport: int
    flags: int
    tag: int
    payload: bytes
    deadline: int = 0


@dataclass(frozen=True)
class Accepted:
    """A datagram has its number and is stored; {slot, generation} names it for `cancel`."""

    node: int
    cycle: int
    slot: int
    generation: int
    tag: int


@dataclass(frozen=True)
class DatagramEnd:
    """A completion: a datagram ended, or was refused (REJECTED) before it had a number."""

    node: int
    cycle: int
    slot: int
    generation: int
    destination: int
    tag: int
    status: Status
    cause: Cause
    incarnation: int = 0


@dataclass(frozen=True)
class Arrived:
    """A record from `deliver`, with its payload.

    ``seq`` is the number's low 8 bits; ``gap`` is 1 if numbers just before this one will not come.
    """

    node: int
    cycle: int
    source: int
    cls: int
    sport: int
    dport: int
    flags: int
    seq: int
    gap: int
    payload: bytes = field(repr=False)


@dataclass(frozen=True)
class Noticed:
    """A peer came up or is no more, or its congested ports (a bit for each index) are others."""

    node: int
    cycle: int
    peer: int
    up: bool
    map: int


@dataclass(frozen=True)
class Answered:
    """The oldest `set` of the node that had no answer: 0, or why it was refused (flow.md, 9.4)."""

    node: int
    cycle: int
    error: int


@dataclass(frozen=True)
class Congested:
    """The node's own congested ports, a bit for each index."""

    node: int
    cycle: int
    map: int


@dataclass(frozen=True)
class Restarted:
    """The node was reset: what it had under way is gone, without completions; ports and limits are as after a reset."""

    node: int
    cycle: int


@dataclass(frozen=True)
class Died:
    """The node is dead from this cycle on: nothing more is told of it, and nothing that is asked of it is done."""

    node: int
    cycle: int


#: What `FlowTransport.advance` tells.
Happening = Accepted | DatagramEnd | Arrived | Noticed | Answered | Congested | Restarted | Died


class FlowTransport(Protocol):
    """A network of nodes with flow.

    Attributes
    ----------
    nodes : number of nodes
    ports : indices of ports in each node; the index of a port is its number modulo this
    mtu : bytes of the longest datagram
    tags : number of tags; a tag is 0 … tags - 1
    receive_limit : bytes from which on a port is congested, as after a reset
    cycle : cycles so far
    idle : nothing is under way; as long as nobody calls anything but `advance`, nothing will happen
    """

    nodes: int
    ports: int
    mtu: int
    tags: int
    receive_limit: int

    @property
    def cycle(self) -> int: ...

    @property
    def idle(self) -> bool: ...

    def send(self, node: int, datagram: FlowRecord) -> None:
        """Offer a datagram; those of a node are tried in this order.  Each has a `DatagramEnd`."""
        ...

    def set(self, node: int, code: SettingCode, index: int, value: int) -> None:
        """Bind, unbind, or set a limit (bytes, a multiple of 16); answered in order by `Answered`."""
        ...

    def cancel(self, node: int, slot: int, generation: int) -> None:
        """Give up a datagram that is under way; any other is left alone."""
        ...

    def receive(self, node: int, mask: int) -> None:
        """Take messages only from these ports, a bit for each index; all after a reset."""
        ...

    def advance(self, cycles: int) -> list[Happening]:
        """Let time pass: ``cycles``, at least 1, or fewer, until something has happened; all of that cycle is told."""
        ...

    def close(self) -> None:
        """Give up what the transport holds outside this process."""
        ...
