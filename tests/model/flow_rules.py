"""One stream of flow as a machine that can be searched: what sender and receiver do, rule by rule.

Each end is a value, and everything that it does is a function from the value (and what arrives) to the value
afterwards.  What joins the ends, and what the environment may do, is in `flow_network`.  The comments name the rules of
`docs/design/flow-model.md`; each can be taken away (`Setting.without`).
"""

from dataclasses import dataclass, field
from typing import NamedTuple

# Phases of the sender, towards its peer.
SILENT, CONNECTING, UP, LEAVING = "silent", "connecting", "up", "leaving"
# A number at the sender: its datagram has not ended; it is to be voided; it is in a VOID; it is finished.
OPEN, DIRTY, VOIDING, FINISHED = "d", "v", "w", "f"
# A number at the receiver, above the expected one; KNOWN: parked, and its sender knows (in some trials only).
ABSENT, PARKED, VOID, KNOWN = ".", "d", "v", "a"
BEGUN = "b"  # a FIRST, which is never parked
# What a datagram is: a whole message, or a part of one in two datagrams.
WHOLE, FIRST, LAST = 0, 1, 2
PARTS = 2
# Verdicts on a datagram.
PLACE, DROP, REFUSE, OUTSIDE = "place", "drop", "refuse", "outside"

NOBODY = -1


class Sender(NamedTuple):
    """A: the sending end.

    Attributes
    ----------
    phase : SILENT, CONNECTING, UP or LEAVING
    boot, round : of its present opening
    peer : the boot of B that a PONG of this opening told, or NOBODY
    oldest : the oldest number that is not finished
    numbers : for each number from the oldest: OPEN, DIRTY, VOIDING or FINISHED
    limit : the first number that the believed credit does not cover
    congested : the bit that the last MAP told
    within : whether a message has begun, and its LAST has not been given
    """

    phase: str
    boot: int
    round: int
    peer: int
    oldest: int
    numbers: tuple[str, ...]
    limit: int
    congested: bool
    within: bool = False

    @property
    def next(self) -> int:
        """The number that the next datagram takes."""
        return self.oldest + len(self.numbers)

    @property
    def opening(self) -> tuple[int, int, int]:
        """What names an opening: boot and round of A, boot of B."""
        return self.boot, self.round, self.peer


class Receiver(NamedTuple):
    """B: the receiving end.

    Attributes
    ----------
    silent : for one packet life after a reset
    dead : for ever
    boot : of B
    opening : boot and round of the last PING that opened, or None
    open : whether the source is open
    expected : the lowest number that is neither placed nor void
    window : ABSENT, PARKED or VOID for each of the W − 1 numbers above
    queue : datagrams that the reader can take
    told : the limit that the last WINDOW told
    pong, map : whether a PONG, a MAP is to be sent
    congested : its congestion bit
    stale : whether the NI's table has entries of an earlier boot of A
    partial : of a message of which the FIRST is placed and the LAST is not: how far its FIRST is behind; else 0
    joined : whether parts of two messages were queued as one
    other : whether another stream has a partial message in this port
    """

    silent: bool
    dead: bool
    boot: int
    opening: tuple[int, int] | None
    open: bool
    expected: int
    window: tuple[str, ...]
    queue: int
    told: int
    pong: bool
    map: bool
    congested: bool
    stale: bool
    partial: int = 0
    joined: bool = False
    other: bool = False


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A small system, and what may happen in it.

    Attributes
    ----------
    window, modulus : W and M
    cells : of the port, queue and parked numbers together
    least : what a limit is always above the expected number
    numbers : datagrams given in one opening; 0: no limit
    credits : whether WINDOWs and limits exist
    cancel : the user may cancel any datagram
    reader : whether the reader takes; else never
    retries : control messages may end as UNKNOWN by their retry limit
    late : messages of a kind that can be under way although their datagram has ended; more are lost
    leave : A may leave UP at any time (as for the control of another stream, or because its user disconnects)
    close : B may close the source at any time (as its own PING for an orphan ended as UNKNOWN)
    resets : ends that may be reset, of "AB"
    watch : old datagrams are watched with PINGs
    death : B may die
    congestion : the congestion bit exists
    parts : each message is two datagrams, of which the second may never be given
    other : another stream sends messages in parts to the port
    wraps : incarnations of A come round while B's NI has entries of an earlier boot
    without : rules taken away
    """

    window: int = 2
    modulus: int = 6
    cells: int = 2
    least: int = 1
    numbers: int = 0
    credits: bool = False
    cancel: bool = False
    reader: bool = True
    retries: bool = False
    late: int = 1
    leave: bool = False
    close: bool = False
    resets: str = ""
    watch: bool = False
    death: bool = False
    congestion: bool = False
    parts: bool = False
    other: bool = False
    wraps: bool = False
    without: frozenset[str] = field(default_factory=frozenset)


class Stream:
    """The rules under a setting."""

    def __init__(self, setting: Setting):
        self.setting = setting
        self.window = setting.window
        self.modulus = setting.modulus
        self.fresh = (ABSENT,) * (setting.window - 1)

    def keeps(self, rule: str) -> bool:
        return rule not in self.setting.without

    # What is on the wire: numbers and rounds come round, boots do not (F26).

    def ahead(self, number: int, expected: int) -> int:
        """How far a number is ahead, as far as the bits on the wire tell."""
        return (number - expected) % self.modulus

    def spoken(self, opening: tuple) -> tuple[int, int]:
        """Boot and round as a PING tells them.  F18: each opening has another round; F26: each reset another boot."""
        return opening[0] if self.keeps("F26") else 0, opening[1] if self.keeps("F18") else 0

    # The sender.

    def may_give(self, a: Sender) -> bool:
        """F2: within the window; F31: within the credit."""
        setting = self.setting
        number = a.next
        inside = len(a.numbers) < self.window + (not self.keeps("F2"))
        return (
            inside
            and (not setting.credits or number < a.limit)
            and (not setting.numbers or number < setting.numbers)
            and not a.congested
        )

    def opened(self, a: Sender) -> Sender:
        """F25: the stream begins at 0, with the least credit."""
        return a._replace(phase=UP, oldest=0, numbers=(), limit=self.setting.least * self.setting.credits)

    def left(self, a: Sender) -> Sender:
        """A leaves UP (or CONNECTING): the numbers of the opening mean nothing any more."""
        return a._replace(phase=LEAVING, oldest=0, numbers=(), limit=0, peer=NOBODY, congested=False, within=False)

    def ended(self, a: Sender, opening: tuple, number: int, now: str) -> Sender:
        """The datagram of a number, or its VOID, has ended (F3, F4)."""
        if a.phase != UP or opening != a.opening or number < a.oldest:
            return a
        numbers = list(a.numbers)
        numbers[number - a.oldest] = now
        return self.slid(a._replace(numbers=tuple(numbers)))

    def slid(self, a: Sender) -> Sender:
        """The oldest number that is not finished is where the window begins (F2)."""
        first = 0
        while first < len(a.numbers) and a.numbers[first] == FINISHED:
            first += 1
        return a._replace(oldest=a.oldest + first, numbers=a.numbers[first:]) if first else a

    def to_void(self, a: Sender) -> tuple[int, ...]:
        """What a VOID would name now.  F5: only numbers whose datagrams have ended."""
        wanted = DIRTY if self.keeps("F5") else DIRTY + OPEN
        return tuple(a.oldest + i for i, now in enumerate(a.numbers) if now in wanted)

    def believed(self, a: Sender, limit: int) -> Sender:
        """F30, F31: a limit that a WINDOW tells."""
        if not self.keeps("F30"):
            return a._replace(limit=min(a.limit + limit, a.next + self.window))
        advance = self.ahead(limit, a.limit)
        if not self.keeps("F31"):  # whatever is told is believed
            advance -= self.modulus if advance > self.modulus // 2 else 0
        elif not 1 <= advance <= self.window:
            return a
        if a.limit + advance > a.next + self.window:
            return a
        return a._replace(limit=a.limit + advance)

    # The receiver.

    def start(self, boot: int, *, silent: bool) -> Receiver:
        return Receiver(silent, False, boot, None, False, 0, self.fresh, 0, 0, False, False, False, False)

    def used(self, b: Receiver) -> int:
        """Cells of the port: the queue, what is parked, and what the partial message has reserved (F34)."""
        return self.full(b) + (self.reserved if b.partial else 0)

    def full(self, b: Receiver) -> int:
        """The same without this stream's partial message."""
        other = self.reserved if b.other else 0
        return b.queue + b.window.count(PARKED) + b.window.count(KNOWN) + other

    @property
    def reserved(self) -> int:
        """F34: a partial message has the cells of the whole."""
        return PARTS if self.keeps("F34") and self.keeps("F34 reserved") else 1

    def judge(self, b: Receiver, number: int, part: int = WHOLE) -> str:
        """Whether a datagram of a source that is open is accepted (F7, F8, F9, F11, F12, F34)."""
        ahead = self.ahead(number, b.expected)
        if ahead >= self.window:
            if ahead < self.modulus - self.window:
                return OUTSIDE
            return DROP if self.keeps("F8 below") else REFUSE
        if ahead and b.window[ahead - 1] != ABSENT and self.keeps("F8"):
            return DROP
        room = self._room(b, ahead, part)
        return PLACE if room else REFUSE if self.keeps("F11") else DROP

    def _room(self, b: Receiver, ahead: int, part: int) -> bool:
        """F12: above the expected number only if the longest message still has room; F34: a FIRST only at it."""
        cells = self.setting.cells
        if ahead:
            longest = PARTS if self.setting.parts else 1
            return part != FIRST and self.used(b) + 1 + (longest if self.keeps("F12") else 0) <= cells
        if part == FIRST:  # a partial message goes
            return self.full(b) + self.reserved <= cells
        if part == LAST and (self.keeps("F34") or not b.partial):  # it has its cell, or is dropped
            return True
        return self.used(b) < cells

    def placed(self, b: Receiver, number: int, part: int = WHOLE) -> Receiver:
        """A datagram is accepted: queued, or parked.  F7: the mark moves only over what has no gap."""
        ahead = self.ahead(number, b.expected)
        if self.keeps("F7"):
            return self._take(b, ahead, BEGUN if part == FIRST else PARKED)
        return b._replace(expected=b.expected + ahead + 1, queue=b.queue + 1, window=self.fresh)

    def _take(self, b: Receiver, ahead: int, what: str) -> Receiver:
        """A number is placed or void, and the mark moves over what follows without a gap."""
        if ahead:
            window = list(b.window)
            window[ahead - 1] = what
            return b._replace(window=tuple(window))
        passed = 0
        while passed < len(b.window) and b.window[passed] != ABSENT:
            passed += 1
        after = self._moved(b, (what, *b.window[:passed]))
        return after._replace(window=(b.window[passed:] + self.fresh + (ABSENT,))[1 : self.window])

    def _moved(self, b: Receiver, numbers: tuple[str, ...]) -> Receiver:
        """The mark moves over numbers that are placed or void: whole messages go to the queue (F35)."""
        expected = b.expected + len(numbers)
        if not self.setting.parts:
            return b._replace(expected=expected, queue=b.queue + sum(now != VOID for now in numbers))
        queue, partial, joined = b.queue, b.partial, b.joined
        for now in numbers:
            partial += partial > 0
            if now == VOID:
                partial = 0 if self.keeps("F35 void") else partial
            elif now == BEGUN:
                partial = 1 if self.keeps("F35 FIRST") or not partial else partial
            elif partial or not self.keeps("F35 LAST"):
                queue += PARTS
                joined |= partial != PARTS
                partial = 0
        return b._replace(expected=expected, queue=queue, partial=partial, joined=joined)

    def voided(self, b: Receiver, numbers: tuple[int, ...]) -> tuple[Receiver, list[int]]:
        """F10: what a VOID names and is absent is void; the distances of what became so."""
        base, taken = b.expected, []
        for number in numbers:
            ahead = self.ahead(number, base)
            if ahead >= self.window:
                continue
            now = self.ahead(base + ahead, b.expected)
            if now >= self.window or (now and b.window[now - 1] != ABSENT and self.keeps("F10")):
                continue
            if now and b.window[now - 1] == VOID:
                continue
            b = self._take(b, now, VOID)
            taken.append(ahead)
        return b, taken

    def handed_over(self, b: Receiver) -> Receiver:
        """F19: what is absent is void now, so what is parked goes to the queue, in order."""
        if self.keeps("F19 hand over"):
            b = self._moved(b, (VOID, *(VOID if now == ABSENT else now for now in b.window)))
        return b._replace(window=self.fresh, expected=0, partial=0)

    def asked(self, b: Receiver, opening: tuple[int, int]) -> tuple[Receiver, str]:
        """A PING has come; the answer is PONG, REJECT or nothing."""
        if b.opening is not None:
            stored, asks = self.spoken(b.opening), self.spoken(opening)
            if asks == stored and b.open and self.keeps("F20"):  # F20: it clears nothing
                return b._replace(pong=True), "PONG"
            if asks == stored and not b.open and self.keeps("F20 closed"):  # F21
                return b, "REJECT" if self.keeps("F21") else ""
            if asks < stored and self.keeps("F20 older"):
                return b, ""
        newer_boot = b.opening is None or opening[0] > b.opening[0]
        if self.keeps("F19"):
            b = self.handed_over(b)
        stale = b.stale and not (newer_boot and self.keeps("F22"))
        least = self.setting.least
        return (
            b._replace(
                opening=opening,
                open=True,
                told=(b.expected + least) * self.setting.credits,
                pong=True,
                map=True,
                stale=stale,
            ),
            "PONG",
        )

    def closed(self, b: Receiver) -> Receiver:
        """B closes the source; it forgets nothing of its opening but what was parked."""
        return self.handed_over(b)._replace(open=False, told=0, pong=False, map=False)

    def limit(self, b: Receiver) -> int:
        """The limit that a WINDOW would tell now."""
        least = self.setting.least
        return b.expected + least + min(self.window - least, (self.setting.cells - self.used(b)) // 2)

    def must_tell(self, b: Receiver) -> bool:
        """F30: whether a WINDOW is due."""
        return self.setting.credits and b.open and b.told < b.expected + self.setting.least
