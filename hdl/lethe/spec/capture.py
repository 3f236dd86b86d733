"""Captures of links: what stands before each message in a capture file, and how one knows a file's wire format.

A packet of such a capture is `HEADER`, each field with its lowest byte first, and then one message as it reaches the
end of a link.  A message that vanishes on the link is there as it entered the link.
"""

import enum
import struct
from typing import TYPE_CHECKING

from .services.service import Header
from .wire import CRC32, Wire

if TYPE_CHECKING:
    from .config import System

#: Link type of the packets: `LINKTYPE_USER0` of libpcap, for everybody's own use.
LINK_TYPE = 147
#: Version of `HEADER`.
VERSION = 1


class Passage(enum.IntEnum):
    """What became of a message on its link; of a flit, likewise."""

    PASSED = 0  # it reached the end of the link
    LOST = 1  # it was lost at random
    DEAD = 2  # it, or the rest of it, vanished because the link is dead


class Mark(enum.IntFlag):
    """What is special about a message."""

    HEADLESS = 1  # it has no first flit: the rest of a fragment
    FRAGMENT = 2  # it has no last flit
    FLIPPED = 4  # a bit of it was flipped on the link


#: What stands before each message: name, code of `struct`, meaning.
HEADER = (
    ("version", "B", "version of this header"),
    ("passage", "B", "what became of the message on the link"),
    ("marks", "B", "what is special about it"),
    ("fate", "B", "what the unit at the end of the link did with it, an event; 0: nothing that can be seen"),
    ("detail", "B", "detail of that event"),
    ("flit_bytes", "B", "bytes of a flit"),
    ("flits", "H", "flits of the message"),
    ("reached", "H", "flits that reached the end of the link"),
    ("flips", "H", "flits in which a bit was flipped"),
    ("link", "I", "number of the link"),
    ("format", "I", "number of the wire format"),
    ("cycle", "Q", "cycle of the first flit on the link"),
)
PACKING = struct.Struct("<" + "".join(code for _, code, _ in HEADER))


def format_number(wire: Wire) -> int:
    """A number for a wire format: that of another format is most likely another."""
    told = "".join(f"{field.name}:{field.width};" for field in wire.send) + f"{wire.flit_bits}:{wire.mtu}"
    data = told.encode()
    return CRC32.of(int.from_bytes(data, "little"), 8 * len(data))


def payload_headers(system: "System") -> tuple[tuple[str, Header], ...]:
    """(name, header) of the headers that services put before a payload; the name begins with the service's.

    The service at the top of the stack has added its own first, so it is the last.
    """
    return tuple(
        (f"{service.name}.{header.part}".rstrip("."), header)
        for service in system.services
        for header in service.headers(system)
    )
