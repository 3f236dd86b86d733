"""Relay: messages that outlive the nodes they pass (its cycle contract is a page of its own)."""

import enum
import typing
from dataclasses import replace

from lethe.spec.events import RELAY_LANES, RelayCounter, Unit
from lethe.spec.ports import HostPort

from .service import Header, Service

if typing.TYPE_CHECKING:
    from lethe.spec.config import System

__all__ = ["HEADER", "MODE", "RELAY", "RecordState", "RelayJob", "Type", "detail"]

#: The mode of a record on `send` that is a message for relay.
MODE = 2
#: The header before a message, alone in control: (name, bits), the lowest first.
HEADER = (
    ("type", 3), ("replay", 1), ("more", 1), ("thru", 1), ("cls", 3), ("depth", 6), ("reserved", 1),
    ("source", 16), ("target", 16), ("incarnation", 8), ("slot", 8), ("prev", 32), ("uid", 32),
)  # fmt: skip


class Type(enum.IntEnum):
    """What a datagram of relay says."""

    DATA = 1  # here is the message
    ACKED = 2  # it has been posted, and all before it
    REQUESTED = 3  # its data are wanted
    LINK = 4  # it goes your way
    ACKACKED = 5  # its origin knows that it has been posted
    PULL = 6  # what goes my way?


class RecordState(enum.IntEnum):
    """What a relay knows of a message."""

    SENT = 2  # its data go on, or went
    REQUESTED = 3  # its data were asked for
    OWED = 4  # its data have to be asked for, when there is a buffer
    ACKED = 5  # it has been posted
    LINKED = 6  # it is heard of, and the next hop was told


class RelayJob(enum.IntEnum):
    """The jobs of a relay, in the order in which they are asked; each is 7.x of the contract, and 7.3 is none."""

    NONE = 0
    CONTROL = 1
    DATA = 2
    LAUNCH = 4
    TELL = 5
    HOST = 6
    GIVEN = 7
    FEED = 8
    CANCEL = 9
    OWED = 10
    LOOK = 11
    WALK = 12
    TREE = 13


#: Bits of flags in the detail of control, below its type.
FLAG_BITS = 3


def detail(kind: int, *, replay: int = 0, more: int = 0, thru: int = 0) -> int:
    """The detail of RELAY_TOLD and RELAY_HEARD."""
    return kind << FLAG_BITS | thru << 2 | more << 1 | replay


def type_of(detail):
    """The type of such a detail, a whole number or an array of them."""
    return detail >> FLAG_BITS


def _named(system: "System") -> bool:
    return system.relay.slots > 0


def _counts(system: "System") -> tuple[RelayCounter, ...]:
    return tuple(counter for counter in RelayCounter if system.relay.crc or counter != RelayCounter.HALTED)


def _above(system: "System", below: HostPort) -> HostPort:
    delivers = tuple(name for name in below.delivers if not name.startswith("deliver_control"))
    return replace(
        below,
        slots=below.slots + system.relay.slots + 1,
        delivers=(*delivers, "deliver_relay"),
        control=False,
        tree=True,
    )


def _size(system: "System") -> str:
    relay, mtu = system.relay, system.relay_mtu
    return (
        f"{relay.slots:,} slots, {relay.cells:,} cells and {relay.buffers:,} buffers of {mtu:,} bytes; "
        f"{relay.records:,} records"
    )


def _headers(system: "System") -> tuple[Header, ...]:
    highest = (1 << system.format.class_bits) - 1
    told = "{type} of {source} to {target}, uid {uid}"
    return (Header(fields=HEADER, classes=(highest - 1, highest), names={"type": Type}, told=told),)


RELAY = Service(
    name="relay",
    unit=Unit.RELAY,
    lanes=RELAY_LANES,
    counters=RelayCounter,
    flag_bits=(
        "send.ready", "send_data.ready", "completion.valid", "deliver_relay.valid", "deliver_relay_data.valid",
        "deliver_relay_data.last", "cancel.ready", "tree.ready", "idle",
    ),
    named=_named,
    above=_above,
    size=_size,
    reset_with_ni=True,
    counts=_counts,
    headers=_headers,
)  # fmt: skip
