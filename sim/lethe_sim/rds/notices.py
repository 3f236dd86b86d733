"""What a socket is told by control messages (RDS-17): bytes in `ancdata`, and what they mean."""

import ipaddress
import struct
from dataclasses import dataclass

from lethe.spec.events import Cause, Status

from .constants import RDS_CMSG_CONG_UPDATE, RDS_CMSG_GIVEN_UP, SOL_RDS

__all__ = ["Cmsg", "GivenUp", "congestion_update", "uncongested"]

#: An item of `ancdata`: level, type, data.
Cmsg = tuple[int, int, bytes]

_GIVEN_UP = struct.Struct("=4sHBBQI")
_MASK = struct.Struct("=Q")


@dataclass(frozen=True)
class GivenUp:
    """A message that its socket has given up, because it ended without an answer.

    Attributes
    ----------
    address : where it was sent to, (address, port)
    number : which of the messages that were sent on the socket, from 0
    status, cause : of the datagram that ended so; UNKNOWN: it was delivered once, or not at all
    length : bytes
    """

    address: tuple[str, int]
    number: int
    status: Status
    cause: Cause
    length: int

    def cmsg(self) -> Cmsg:
        """As an item of `ancdata`."""
        host, port = self.address
        packed = ipaddress.IPv4Address(host).packed
        return (
            SOL_RDS, RDS_CMSG_GIVEN_UP,
            _GIVEN_UP.pack(packed, port, self.status, self.cause, self.number, self.length),
        )  # fmt: skip

    @classmethod
    def unpack(cls, data: bytes) -> "GivenUp":
        """From the data of such an item."""
        host, port, status, cause, number, length = _GIVEN_UP.unpack(data)
        return cls((str(ipaddress.IPv4Address(host)), port), number, Status(status), Cause(cause), length)


def congestion_update(mask: int) -> Cmsg:
    """The item that tells which ports are congested no more: bit b is for all ports p with p mod 64 = b."""
    return SOL_RDS, RDS_CMSG_CONG_UPDATE, _MASK.pack(mask)


def uncongested(data: bytes) -> int:
    """The mask in the data of such an item."""
    return _MASK.unpack(data)[0]
