"""Flow: messages to ports, in order, with credits and congestion (its cycle contract is a page of its own)."""

import enum
import typing
from dataclasses import replace

from lethe.spec.events import FLOW_LANES, FlowCounter, Unit
from lethe.spec.ports import HostPort
from lethe.spec.sections.flow import WINDOW

from .service import Header, Service

if typing.TYPE_CHECKING:
    from lethe.spec.config import System

__all__ = ["CONTROL_WORDS", "FLOW", "HEADER", "WHOLE", "WINDOW", "Code", "Flag", "In", "Out"]

#: The header before a message: (name, bits), the lowest first.
HEADER = (
    ("credit", 8), ("ack", 7), ("retx", 1), ("seq", 8), ("flags", 8), ("sport", 16), ("dport", 16),
)  # fmt: skip
#: The bits of it that the merge port writes.
MERGED = 16


class Flag(enum.IntEnum):
    """Bits of a message's flags."""

    FIRST = 0  # the first part of a message of the user
    LAST = 1  # its last part
    EXT = 2  # its first 128 bits are an extension of the header
    ASK = 3  # on the wire only: the receiver is asked for a WINDOW
    NOWAIT = 7  # in a record on `send`: refused if it would have to wait; on `deliver`: the datagram was repeated


#: The flags of what is no part of anything longer.
WHOLE = 1 << Flag.FIRST | 1 << Flag.LAST


class Code(enum.IntEnum):
    """What a control word says."""

    PING = 1
    PONG = 2
    MAP = 3
    WINDOW = 4
    VOID = 5
    GONE = 6


#: Bits of a control word for its code, the lowest ones.
CODE_BITS = 5
#: The fields behind the code, (name, bits), the lowest first.
CONTROL_WORDS: dict[Code, tuple[tuple[str, int], ...]] = {
    Code.PING: (("round", 8), ("boot", 32), ("paths", 4)),
    Code.PONG: (("round", 8), ("boot", 32), ("paths", 4), ("own", 15)),
    Code.MAP: (("map", 16),),
    Code.WINDOW: (("index", 4), ("credit", 8), ("ack", 8)),
    Code.VOID: (("index", 4), ("base", 8), ("map", 16)),
    Code.GONE: (("round", 8), ("boot", 32)),
}


class Out(enum.IntEnum):
    """What a peer is to its sender."""

    DOWN = 0
    CONNECTING = 1
    UP = 2
    LEAVING = 3
    ERROR = 4


class In(enum.IntEnum):
    """What a source is to its receiver."""

    CLOSED = 0
    OPEN = 1
    MUTE = 2


def _named(system: "System") -> bool:
    return system.flow.ports > 0


def _above(system: "System", below: HostPort) -> HostPort:
    delivers = tuple(name for name in below.delivers if name != "deliver_control1")
    return replace(
        below, slots=below.slots + 1, delivers=delivers, control=False, merge_bits=0, acceptance=False, sweep=False,
        ports=system.flow.ports,
    )  # fmt: skip


def _size(system: "System") -> str:
    flow = system.flow
    streams, cells = system.nodes * flow.ports, flow.ports * flow.cells
    return (
        f"{flow.ports:,} ports of {flow.cells:,} cells, {cells * system.flow_mtu:,} bytes; {streams:,} streams each way"
    )


def _headers(system: "System") -> tuple[Header, ...]:
    highest = (1 << system.format.class_bits) - 1
    message = Header(
        fields=HEADER, classes=(0, highest - system.ni.control_classes), size=system.flow_header_bytes,
        told="port {sport} to {dport}, number {seq}",
    )  # fmt: skip
    control = Header(
        part="control", fields=(("code", CODE_BITS),), classes=(highest, highest), size=8,
        words={int(code): fields for code, fields in CONTROL_WORDS.items()}, names={"code": Code}, told="{code}",
    )  # fmt: skip
    return message, control


FLOW = Service(
    name="flow",
    unit=Unit.FLOW,
    lanes=FLOW_LANES,
    counters=FlowCounter,
    flag_bits=(
        "send.ready", "send_data.ready", "completion.valid", "deliver.valid", "deliver_data.valid",
        "deliver_data.last", "cancel.ready", "set.ready", "notice.valid", "idle",
    ),
    named=_named,
    above=_above,
    size=_size,
    reset_with_ni=True,
    headers=_headers,
)  # fmt: skip
