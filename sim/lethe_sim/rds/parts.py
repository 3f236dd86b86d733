"""Long messages: cut into datagrams by the sender's driver, joined by the receiver's (RDS-47, RDS-48)."""

from dataclasses import dataclass, field

from .constants import LONGEST
from .transport import AGAIN, FIRST, LAST, Arrived

__all__ = ["Counting", "Joiner", "Whole", "cut"]


def cut(length: int, mtu: int, start: int) -> tuple[int, int]:
    """The datagram of a message of ``length`` bytes that begins at byte ``start``: its end, and its flags."""
    end = min(start + mtu, length)
    return end, (FIRST if start == 0 else 0) | (LAST if end == length else 0)


class Counting:
    """64-bit numbers of a stream from the 8 bits on the wire (RDS-24, RDS-25).

    A number is at most 255 beyond the one before it; a stream of which more numbers in a row are given up is 256 short
    for each.
    """

    def __init__(self):
        self.next = 0

    def extended(self, seq: int) -> int:
        """The number whose low 8 bits are ``seq``: the first that is not below `next`."""
        number = self.next + ((seq - self.next) & 0xFF)
        self.next = number + 1
        return number


@dataclass(frozen=True)
class Whole:
    """A message of the user, joined."""

    source: int
    sport: int
    number: int
    again: bool
    payload: bytes = field(repr=False)


class Joiner:
    """Joins the parts that one source sends to one port.

    Its stream carries one long message at a time, so a gap or a first part inside a message says that its rest will
    not come: what is there is thrown away.

    Parameters
    ----------
    own : the source is the node itself: such datagrams bear no numbers, and are counted

    Attributes
    ----------
    discarded : messages of which a part did not come
    numbers : of the stream
    """

    def __init__(self, *, own: bool = False):
        self._own = own
        self.discarded = 0
        self.numbers = Counting()
        self._parts: list[bytes] = []
        self._sport = self._length = 0
        self._again = False
        self._open = False

    @property
    def open(self) -> bool:
        """Whether a message has begun and not ended."""
        return self._open

    def drop(self) -> None:
        """The rest of the open message will not come."""
        self.discarded += self._open
        self._open, self._parts, self._length = False, [], 0

    def take(self, part: Arrived) -> Whole | None:
        """Take the next datagram of the stream; the message, if it is the last of one."""
        number = self.numbers.extended(self.numbers.next if self._own else part.seq)
        first = bool(part.flags & FIRST)
        if first or part.gap:
            self.drop()
        if first:
            self._open, self._sport, self._again = True, part.sport, bool(part.flags & AGAIN)
        elif not self._open:
            return None
        elif part.sport != self._sport or self._length + len(part.payload) > LONGEST:
            self.drop()
            return None
        self._parts.append(part.payload)
        self._length += len(part.payload)
        if not part.flags & LAST:
            return None
        whole = Whole(part.source, part.sport, number, self._again, b"".join(self._parts))
        self._open, self._parts, self._length = False, [], 0
        return whole
