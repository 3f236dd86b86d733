"""Two ends of a stream on an NI: the states of the whole, what may happen in each, and what must hold.

The NI below is taken for granted (`docs/design/protocol.md`): each datagram is delivered at most once in a life of its
receiver, in any order, and ends as ACCEPTED, UNKNOWN or NEVER_SENT.  A datagram that has ended may still be under way.
"""

from collections.abc import Hashable, Iterable
from typing import NamedTuple

from tests.model.flow_rules import (
    ABSENT,
    CONNECTING,
    DIRTY,
    DROP,
    FINISHED,
    FIRST,
    KNOWN,
    LAST,
    LEAVING,
    NOBODY,
    OPEN,
    OUTSIDE,
    PARKED,
    PARTS,
    PLACE,
    REFUSE,
    SILENT,
    UP,
    VOIDING,
    WHOLE,
    Receiver,
    Sender,
    Setting,
    Stream,
)
from tests.model.graph import FREELY, PERHAPS, Goal, Violation

# Where a datagram is: waiting for its launch; launched; accepted by its receiver; acknowledged and dropped there;
# accepted in a life of its receiver that is over.
QUEUED, SENT, TAKEN, DROPPED, OUTLIVED = "queued", "sent", "taken", "dropped", "outlived"
# … or it has ended, and messages of it are under way: not accepted by its receiver; accepted.
LATE, SPENT = "late", "spent"
LIVE = frozenset((QUEUED, SENT, TAKEN, DROPPED, OUTLIVED))
FROM_A = frozenset(("DATA", "VOID", "PING"))
# How a PING or VOID ended: B has accepted something since it was asked.
HEARD = "heard meanwhile"


class Datagram(NamedTuple):
    """One datagram of the NI.

    Attributes
    ----------
    kind : DATA, VOID, PING from A; PONG, WINDOW, MAP from B
    opening : DATA, VOID: boot and round of A, boot of B; else boot and round of A
    body : DATA: number, use of it, part; VOID: numbers; PONG: boot of B; WINDOW: limit; MAP: bit; PING: 0
    place : where it is
    """

    kind: str
    opening: tuple[int, ...]
    body: tuple[int, ...]
    place: str


class Move(NamedTuple):
    """One step of the whole.

    Attributes
    ----------
    node : A or B
    event : what happens
    what : kind of the datagram, "" if none
    body : of the datagram
    detail : how, or the answer
    free : FREELY or PERHAPS if it need not happen, else 0
    """

    node: str
    event: str
    what: str = ""
    body: tuple[int, ...] = ()
    detail: str = ""
    free: int = 0


State = tuple[Sender, Receiver, tuple[Datagram, ...]]


class Flow:
    """Both ends, and the datagrams between them."""

    def __init__(self, setting: Setting):
        self.setting = setting
        self.stream = Stream(setting)
        self.keeps = self.stream.keeps
        self.expects = self.keeps("F23")
        #: Kinds of which a spent message may be delivered once more, to a later life of the receiver.
        again = ("PING",) if self.expects else ("PING", "DATA", "VOID")
        self.again = frozenset(again if "B" in setting.resets else ())
        self.found: list[tuple[Move, State | Violation]] = []

    def start(self) -> State:
        """A connects to B for the first time; with nothing but a stream to look at, both are open."""
        setting, stream = self.setting, self.stream
        a = Sender(CONNECTING, 0, 0, NOBODY, 0, (), 0, False)
        b = stream.start(0, silent=False)
        if not self.opens:
            a = stream.opened(a._replace(peer=0))
            b = b._replace(opening=(0, 0), open=True, told=setting.least * setting.credits)
        return a, b, ()

    @property
    def opens(self) -> bool:
        """Whether the setting has anything to do with openings."""
        setting = self.setting
        return bool(setting.resets or setting.leave or setting.close or setting.death)

    @property
    def reopens(self) -> bool:
        """Whether A opens more than once: a WINDOW of an earlier opening may then come late."""
        return self.opens or (self.setting.cancel and self.setting.retries)

    # Changes of a state.

    def _add(self, move: Move, a: Sender, b: Receiver, datagrams: Iterable[Datagram]) -> None:
        datagrams = tuple(datagrams)
        if a.phase == CONNECTING and a.peer != NOBODY and not (self.keeps("F25") and _live(datagrams, "PING")):
            a = self.stream.opened(a)
        self.found.append((move, self._normal(a, b, datagrams)))

    def _breaks(self, move: Move, broken: str, text: str) -> None:
        self.found.append((move, Violation(broken, text)))

    def _ended(self, datagrams: tuple, datagram: Datagram) -> tuple:
        """A datagram has ended otherwise than ACCEPTED: of what was launched a message may still be under way."""
        rest = _without(datagrams, datagram)
        place = datagram.place
        if place == QUEUED:
            return rest
        if place in (TAKEN, DROPPED):
            return self._spent(rest, datagram)
        if place == OUTLIVED and datagram.kind not in self.again:
            return rest
        return self._late(rest, datagram)

    def _spent(self, rest: tuple, datagram: Datagram) -> tuple:
        """What B has accepted matters after its end only if B forgets, and then accepts it once more."""
        spent = datagram._replace(place=SPENT)
        return (*rest, spent) if datagram.kind in self.again and spent not in rest else rest

    def _late(self, rest: tuple, datagram: Datagram) -> tuple:
        late = datagram._replace(place=LATE)
        if late in rest or sum(d.place == LATE and d.kind == late.kind for d in rest) >= self.setting.late:
            return rest
        return (*rest, late)

    # Numbers that mean the same everywhere: states that differ in nothing else are one.

    def _normal(self, a: Sender, b: Receiver, datagrams: tuple[Datagram, ...]) -> State:
        if a.boot or a.round or b.boot:
            a, b, datagrams = self._renumbered(a, b, datagrams)
        modulus = self.stream.modulus
        if a.oldest >= modulus or b.expected >= modulus:
            if b.opening == (a.boot, a.round):
                shift = (a.oldest if a.phase == UP else b.expected) // modulus * modulus
                if shift:
                    a, b, datagrams = self._shifted(a, b, datagrams, (a.boot, a.round), shift)
            else:
                if a.oldest >= modulus:
                    a, b, datagrams = self._shifted(a, b, datagrams, (a.boot, a.round), modulus)
                if b.expected >= modulus and b.opening:
                    a, b, datagrams = self._shifted(a, b, datagrams, b.opening, modulus)
        return a, b, tuple(sorted(datagrams))

    def _shifted(self, a: Sender, b: Receiver, datagrams: tuple, opening: tuple, by: int) -> State:
        """Numbers of an opening, all lower by a multiple of M."""
        if (a.boot, a.round) == opening and a.phase == UP:
            a = a._replace(oldest=a.oldest - by, limit=a.limit - by if self.setting.credits else 0)
        if b.opening == opening:
            b = b._replace(expected=b.expected - by, told=b.told - by if self.setting.credits else 0)
        moved = []
        for datagram in datagrams:
            kind, body = datagram.kind, datagram.body
            if datagram.opening[:2] == opening and kind in ("DATA", "VOID", "WINDOW"):
                if kind == "DATA":
                    body = body[0] - by, *body[1:]
                elif kind == "VOID" or self.keeps("F30"):
                    body = tuple(number - by for number in body)
                datagram = datagram._replace(body=body)
            moved.append(datagram)
        return a, b, tuple(moved)

    def _renumbered(self, a: Sender, b: Receiver, datagrams: tuple[Datagram, ...]) -> State:
        """Boots and rounds are only compared, so the oldest that is left anywhere becomes 0, the next 1, and so on."""
        if not (self.keeps("F18") and self.keeps("F26")):
            return a, b, datagrams
        openings = {(a.boot, a.round), *(d.opening[:2] for d in datagrams)}
        if b.opening is not None:
            openings.add(b.opening)
        boots = {boot: i for i, boot in enumerate(sorted({boot for boot, _ in openings}))}
        rounds: dict[int, int] = dict.fromkeys(boots, 0)
        new = {}
        for boot, round_ in sorted(openings):
            new[boot, round_] = boots[boot], rounds[boot]
            rounds[boot] += 1
        peers = {b.boot, a.peer}
        for d in datagrams:
            if d.kind == "PONG":
                peers.add(d.body[0])
            elif len(d.opening) == 3:
                peers.add(d.opening[2])
        peers.discard(NOBODY)
        lives = {life: i for i, life in enumerate(sorted(peers))}
        lives[NOBODY] = NOBODY
        moved = []
        for d in datagrams:
            opening = new[d.opening[:2]] + tuple(lives[life] for life in d.opening[2:])
            moved.append(Datagram(d.kind, opening, (lives[d.body[0]],) if d.kind == "PONG" else d.body, d.place))
        boot, round_ = new[a.boot, a.round]
        a = a._replace(boot=boot, round=round_, peer=lives[a.peer])
        b = b._replace(boot=lives[b.boot], opening=None if b.opening is None else new[b.opening])
        return a, b, tuple(moved)

    # What may happen.

    def successors(self, state: State) -> list[tuple[Move, State | Violation]]:
        self.found = []
        a, b, datagrams = state
        self._sender(a, b, datagrams)
        if not b.dead:
            self._receiver(a, b, datagrams)
        self._environment(a, b, datagrams)
        for datagram in datagrams:
            if datagram.place in LIVE:
                self._not_ended(a, b, datagrams, datagram)
            else:
                self._left_over(a, b, datagrams, datagram)
        return [(move, after) for move, after in self.found if after != state]

    def _sender(self, a: Sender, b: Receiver, datagrams: tuple[Datagram, ...]) -> None:
        stream = self.stream
        ours = [d for d in datagrams if d.kind in FROM_A]
        if a.phase == SILENT:
            if not self.keeps("F17") or not ours:  # F17: silence after a reset
                self._add(Move("A", "SPEAK"), a._replace(phase=CONNECTING), b, datagrams)
        elif a.phase == LEAVING:
            # F15: all have ended …
            live = self.keeps("F15") and any(d.place in LIVE and self.keeps(f"F15 {d.kind}") for d in ours)
            late = self.keeps("F16") and any(d.place not in LIVE and self.keeps(f"F16 {d.kind}") for d in ours)
            # F16: … and one packet life is over.
            if not live and not late:
                self._add(Move("A", "AGAIN"), a._replace(phase=CONNECTING, round=a.round + 1), b, datagrams)
        elif a.phase == CONNECTING:
            if a.peer == NOBODY and not _live(datagrams, "PING"):
                ping = Datagram("PING", (a.boot, a.round), (), SENT)
                self._add(Move("A", "SEND", "PING"), a, b, (*datagrams, ping))
        else:
            if stream.may_give(a) and self._unread(a, datagrams):
                self._give(a, b, datagrams)
            numbers = stream.to_void(a)
            if numbers and not (self.keeps("F5 one") and _live(datagrams, "VOID")):
                becomes = VOIDING if self.keeps("F3") else FINISHED
                marked = tuple(becomes if a.oldest + i in numbers else now for i, now in enumerate(a.numbers))
                void = Datagram("VOID", a.opening, numbers, SENT)
                after = stream.slid(a._replace(numbers=marked))
                self._add(Move("A", "SEND", "VOID", numbers), after, b, (*datagrams, void))
            if self.setting.watch and self._waits(a, datagrams) and not _live(datagrams, "PING"):
                ping = Datagram("PING", (a.boot, a.round), (), SENT)
                self._add(Move("A", "SEND", "PING"), a, b, (*datagrams, ping))

    def _waits(self, a: Sender, datagrams: tuple[Datagram, ...]) -> bool:
        """F29: a datagram is under way, or A may not send."""
        blocked = a.congested or (self.setting.credits and a.limit <= a.next)
        if _live(datagrams, "DATA"):
            return self.keeps("F29")
        return blocked and self.keeps("F29 blocked")

    def _unread(self, a: Sender, datagrams: tuple[Datagram, ...]) -> bool:
        """F6: nothing is under way whose number or limit would be read as one of the present window."""
        if not self.keeps("F6"):
            return True
        oldest = a.next - (self.stream.modulus - self.stream.window)
        for d in datagrams:
            if d.place in LIVE:
                continue
            if d.opening == a.opening and d.kind in ("DATA", "VOID") and d.body[0] <= oldest:
                return False
            if d.kind == "WINDOW" and d.opening == a.opening[:2] and d.body[0] <= oldest + self.stream.window + 1:
                return False
        return True

    def _give(self, a: Sender, b: Receiver, datagrams: tuple[Datagram, ...]) -> None:
        """F1: the next number; without it the number of a datagram that has ended is given once more."""
        number, use = a.next, 0
        numbers = (*a.numbers, OPEN)
        if not self.keeps("F1") and a.numbers and a.numbers[-1] == DIRTY:
            number, use, numbers = number - 1, 1, (*a.numbers[:-1], OPEN)
        place = QUEUED if self.setting.cancel else SENT
        parts = (WHOLE,) if not self.setting.parts else (FIRST, LAST) if a.within else (FIRST,)
        for part in parts:
            data = Datagram("DATA", a.opening, (number, use, part), place)
            after = a._replace(numbers=numbers, within=part == FIRST)
            self._add(Move("A", "GIVE", "DATA", data.body, free=FREELY), after, b, (*datagrams, data))

    def _receiver(self, a: Sender, b: Receiver, datagrams: tuple[Datagram, ...]) -> None:
        stream = self.stream
        if b.queue and self.setting.reader:
            taken = PARTS if self.setting.parts else 1
            self._add(Move("B", "TAKE"), a, b._replace(queue=b.queue - taken), datagrams)
        if self.setting.other and not b.other and stream.used(b) + stream.reserved <= self.setting.cells:
            self._add(Move("B", "OTHER", detail="FIRST", free=FREELY), a, b._replace(other=True), datagrams)
        if b.other and (self.keeps("F34") or stream.used(b) < self.setting.cells):
            self._add(Move("B", "OTHER", detail="LAST"), a, b._replace(other=False, queue=b.queue + PARTS), datagrams)
        if b.silent:
            if not self.keeps("F17") or not any(d.kind not in FROM_A for d in datagrams):
                self._add(Move("B", "SPEAK"), a, b._replace(silent=False), datagrams)
            return
        assert b.opening is not None or not b.open
        if b.pong and not _live(datagrams, "PONG"):
            pong = Datagram("PONG", b.opening or (0, 0), (b.boot,), SENT)
            self._add(Move("B", "SEND", "PONG", pong.body), a, b._replace(pong=False), (*datagrams, pong))
        if stream.must_tell(b) and not _live(datagrams, "WINDOW"):
            limit = stream.limit(b)
            told = limit if self.keeps("F30") else limit - b.told
            window = Datagram("WINDOW", b.opening or (0, 0), (told,), SENT)
            self._add(Move("B", "SEND", "WINDOW", window.body), a, b._replace(told=limit), (*datagrams, window))
        if self.setting.congestion and b.open and b.map:
            late = self.keeps("F32") and any(d.kind == "MAP" for d in datagrams)  # F32: of an earlier MAP
            if not late and not _live(datagrams, "MAP"):
                bits = Datagram("MAP", b.opening or (0, 0), (int(b.congested),), SENT)
                self._add(Move("B", "SEND", "MAP", bits.body), a, b._replace(map=False), (*datagrams, bits))

    def _environment(self, a: Sender, b: Receiver, datagrams: tuple[Datagram, ...]) -> None:
        setting = self.setting
        if setting.leave and a.phase == UP:
            self._add(Move("A", "LEAVE", free=FREELY), self.stream.left(a), b, datagrams)
        if setting.close and b.open:
            self._close(Move("B", "CLOSE", free=FREELY), a, b, datagrams)
        if setting.congestion:
            changed = b._replace(congested=not b.congested, map=True)
            self._add(Move("B", "CONGESTED", detail=str(not b.congested), free=FREELY), a, changed, datagrams)
        if "A" in setting.resets:
            self._reset_a(a, b, datagrams)
        if "B" in setting.resets:
            self._reset_b(a, b, datagrams)
        if setting.death and not b.dead:
            self._add(Move("B", "DIE", free=FREELY), a, b._replace(dead=True), datagrams)

    def _close(self, move: Move, a: Sender, b: Receiver, datagrams: tuple[Datagram, ...]) -> None:
        if not self.keeps("F19 hand over") and KNOWN in b.window:
            self._breaks(move, "S6", "ended as ACCEPTED, and thrown away without a reset")
        else:
            self._add(move, a, self.stream.closed(b), datagrams)

    def _reset_a(self, a: Sender, b: Receiver, datagrams: tuple[Datagram, ...]) -> None:
        """All its datagrams end, and their messages may be under way (F26: the boot counts)."""
        rest = tuple(datagrams)
        for datagram in datagrams:
            if datagram.kind in FROM_A and datagram.place in LIVE:
                rest = self._ended(rest, datagram)
        fresh = Sender(SILENT, a.boot + 1, 0, NOBODY, 0, (), 0, False)
        stale = b.stale or (self.setting.wraps and b.opening is not None)
        self._add(Move("A", "RESET", free=FREELY), fresh, b._replace(stale=stale), rest)

    def _reset_b(self, a: Sender, b: Receiver, datagrams: tuple[Datagram, ...]) -> None:
        """B forgets everything: what it has accepted may be delivered once more, if it expects no incarnation (F23)."""
        rest: tuple[Datagram, ...] = ()
        for d in datagrams:
            if d.kind not in FROM_A:
                if d.place == SENT:
                    rest = self._late(rest, d)
                elif d.place == LATE:
                    rest = (*rest, d)
            elif d.place == TAKEN:
                rest = (*rest, d._replace(place=OUTLIVED))
            elif d.place == SPENT:
                rest = self._late(rest, d)
            elif d.place != LATE or d.kind in self.again:
                rest = (*rest, d)
        fresh = self.stream.start(b.boot + 1, silent=True)._replace(congested=b.congested)
        self._add(Move("B", "RESET", free=FREELY), a, fresh, rest)

    # A datagram that has not ended.

    def _not_ended(self, a: Sender, b: Receiver, datagrams: tuple[Datagram, ...], datagram: Datagram) -> None:
        kind, place = datagram.kind, datagram.place
        from_a = kind in FROM_A
        node = "A" if from_a else "B"
        if place == QUEUED:
            if a.phase == UP:
                launched = datagram._replace(place=SENT)
                after = (*_without(datagrams, datagram), launched)
                self._add(Move("A", "LAUNCH", kind, datagram.body), a, b, after)
        elif place in (SENT, OUTLIVED) and not (from_a and b.dead):
            self._arrive(a, b, datagrams, datagram)
        if place in (TAKEN, DROPPED, OUTLIVED) and not b.dead:
            self._accepted(a, b, datagrams, datagram)
        old = a.phase == LEAVING or (kind == "DATA" and datagram.opening != a.opening)
        if from_a and (old or (kind == "DATA" and self.setting.cancel)):
            status = "NEVER_SENT" if place == QUEUED else "UNKNOWN"
            move = Move("A", "END", kind, datagram.body, f"{status} CANCELLED", 0 if old else FREELY)
            self._otherwise(move, a, b, datagrams, datagram)
        elif kind != "DATA" and (self.setting.retries or b.dead):
            move = Move(node, "END", kind, datagram.body, "UNKNOWN RETRY_LIMIT", 0 if b.dead else FREELY)
            self._otherwise(move, a, b, datagrams, datagram)
            if from_a and a.phase == UP and not b.dead and self.keeps("F27 heard"):
                self._otherwise(move._replace(detail=f"{move.detail}, {HEARD}"), a, b, datagrams, datagram)

    def _accepted(self, a: Sender, b: Receiver, datagrams: tuple[Datagram, ...], datagram: Datagram) -> None:
        kind = datagram.kind
        move = Move("A" if kind in FROM_A else "B", "END", kind, datagram.body, "ACCEPTED")
        rest = _without(datagrams, datagram)
        if kind in self.again:
            rest = self._late(rest, datagram) if datagram.place == OUTLIVED else self._spent(rest, datagram)
        if kind == "DATA":
            if datagram.place == DROPPED:
                self._breaks(move, "S3", "ended as ACCEPTED, and not placed")
                return
            number = datagram.body[0]
            a = self.stream.ended(a, datagram.opening, number, FINISHED)
            ahead = number - b.expected
            if not self.keeps("F19 hand over") and b.open and 0 < ahead < self.stream.window:
                window = list(b.window)
                window[ahead - 1] = KNOWN if window[ahead - 1] == PARKED else window[ahead - 1]
                b = b._replace(window=tuple(window))
        elif kind == "VOID":
            for number in datagram.body:
                a = self.stream.ended(a, datagram.opening, number, FINISHED)
        self._add(move, a, b, rest)

    def _otherwise(
        self, move: Move, a: Sender, b: Receiver, datagrams: tuple[Datagram, ...], datagram: Datagram
    ) -> None:
        """A datagram ends as UNKNOWN or NEVER_SENT."""
        kind, stream = datagram.kind, self.stream
        rest = self._ended(datagrams, datagram)
        if kind == "DATA":
            never = datagram.place == QUEUED
            voided = self.keeps("F4 never sent") if never else self.keeps("F4")
            a = stream.ended(a, datagram.opening, datagram.body[0], DIRTY if voided else FINISHED)
            if "RESTARTED" in move.detail and a.phase == UP and datagram.opening == a.opening:
                a = stream.left(a)
        elif kind == "VOID":
            if a.phase == UP and datagram.opening == a.opening:
                if (self.keeps("F27 VOID") and HEARD not in move.detail) or "RESTARTED" in move.detail:
                    a = stream.left(a)
                else:
                    for number in datagram.body:
                        a = stream.ended(a, datagram.opening, number, DIRTY)
        elif kind == "PING":
            present = datagram.opening == (a.boot, a.round)
            restarted = "RESTARTED" in move.detail
            silent = a.phase == UP and self.keeps("F27 PING") and HEARD not in move.detail
            if present and (silent or (a.phase in (CONNECTING, UP) and restarted)):
                a = stream.left(a)
        elif b.open and datagram.opening == b.opening and self.keeps(f"F28 {kind}"):
            if kind == "PONG":
                b = b._replace(pong=True)
            elif kind == "WINDOW":
                b = b._replace(told=b.expected)
            else:
                b = b._replace(map=True)
        self._add(move, a, b, rest)

    # A message arrives.

    def _arrive(self, a: Sender, b: Receiver, datagrams: tuple[Datagram, ...], datagram: Datagram) -> None:
        kind = datagram.kind
        if kind not in FROM_A:
            self._arrive_at_a(a, b, datagrams, datagram)
            return
        move = Move("B", "ARRIVE", kind, datagram.body, "", 0 if datagram.place in LIVE else PERHAPS)
        if b.stale and datagram.place == SENT and datagram.opening[0] == a.boot:
            lost = self._there(datagrams, datagram, DROPPED if kind == "DATA" else TAKEN)
            self._add(move._replace(detail="taken for one of an earlier boot", free=FREELY), a, b, lost)
        if kind == "PING":
            after, answer = self.stream.asked(b, (datagram.opening[0], datagram.opening[1]))
            move = move._replace(detail=answer)
            if answer == "REJECT":
                self._reject(move, a, b, datagrams, datagram)
                return
            again = b.opening is not None and b.opening != after.opening and b.opening[0] == datagram.opening[0]
            if again and not self.keeps("F19 hand over") and KNOWN in b.window:
                self._breaks(move, "S6", "ended as ACCEPTED, and thrown away without a reset")
                return
            self._add(move, a, after, self._there(datagrams, datagram, TAKEN))
            return
        if self.expects and datagram.opening[2] != b.boot:  # F23
            self._reject(move._replace(detail="REJECT: another boot"), a, b, datagrams, datagram)
            return
        if not b.open:
            if not self.keeps("F13 REJECT"):
                return
            if self.keeps("F13") or kind != "DATA":
                self._reject(move._replace(detail="REJECT: not open"), a, b, datagrams, datagram)
                return
            b = self.stream.handed_over(b)._replace(open=True, opening=datagram.opening[:2])
        if kind == "DATA":
            self._arrive_data(move, a, b, datagrams, datagram)
        else:
            self._arrive_void(move, a, b, datagrams, datagram)

    def _arrive_data(self, move: Move, a: Sender, b: Receiver, datagrams: tuple, datagram: Datagram) -> None:
        stream = self.stream
        number, _, part = datagram.body
        ahead = stream.ahead(number, b.expected)
        verdict = stream.judge(b, number, part)
        move = move._replace(detail=verdict)
        if verdict == REFUSE:
            return
        if verdict == OUTSIDE:
            if not self.keeps("F9"):
                if datagram.opening == (*(b.opening or ()), b.boot) and a.opening == datagram.opening:
                    self._breaks(move._replace(detail="outside, B closes the source"), "S5", "a sound stream is closed")
                return
            if datagram.place in LIVE and a.opening == datagram.opening:
                self._breaks(move, "S5", "a datagram that has not ended is outside")
                return
            self._reject(move, a, b, datagrams, datagram)
            return
        if verdict == DROP:
            self._add(move, a, b, self._there(datagrams, datagram, DROPPED))
            return
        assert verdict == PLACE
        if datagram.opening != (*(b.opening or ()), b.boot) or number != b.expected + ahead:
            self._breaks(move, "S1", "placed in an opening, or at a number, that is not its own")
            return
        if ahead and b.window[ahead - 1] != ABSENT:
            self._breaks(move, "S2", "placed although its number is placed or void already")
            return
        after = stream.placed(b, number, part)
        passed = range(1, after.expected - b.expected)
        if passed and (ahead or any(b.window[i - 1] == ABSENT for i in passed)):
            self._breaks(move, "S2", "queued although an earlier number is neither placed nor void")
            return
        if after.joined:
            self._breaks(move, "S8", "parts of two messages are queued as one, or a part alone")
            return
        if stream.used(after) > self.setting.cells:
            self._breaks(move, "S9", "more cells are taken than the port has")
            return
        self._add(move, a, after, self._there(datagrams, datagram, TAKEN))

    def _arrive_void(self, move: Move, a: Sender, b: Receiver, datagrams: tuple, datagram: Datagram) -> None:
        after, taken = self.stream.voided(b, datagram.body)
        meant = {number - b.expected for number in datagram.body}
        if taken and (datagram.opening != (*(b.opening or ()), b.boot) or not meant.issuperset(taken)):
            self._breaks(move, "S4", "a number is void that the VOID does not mean")
            return
        if any(ahead and b.window[ahead - 1] in (PARKED, KNOWN) for ahead in taken):
            self._breaks(move, "S4", "a number is void that was placed")
            return
        if after.joined:
            self._breaks(move, "S8", "parts of two messages are queued as one, or a part alone")
            return
        self._add(move, a, after, self._there(datagrams, datagram, TAKEN))

    def _reject(self, move: Move, a: Sender, b: Receiver, datagrams: tuple, datagram: Datagram) -> None:
        """A REJECT ends the datagram, if it is live; it means that this opening is over (F13)."""
        if datagram.place in LIVE:
            self._otherwise(
                move._replace(event="REJECTED", detail=f"{move.detail}, UNKNOWN RESTARTED"), a, b, datagrams, datagram
            )

    def _there(self, datagrams: tuple, datagram: Datagram, place: str) -> tuple:
        """The datagrams after one has arrived: if it has ended, its message is used up."""
        rest = _without(datagrams, datagram)
        if datagram.place in LIVE:
            return (*rest, datagram._replace(place=place))
        return self._spent(rest, datagram)

    def _arrive_at_a(self, a: Sender, b: Receiver, datagrams: tuple, datagram: Datagram) -> None:
        kind, stream = datagram.kind, self.stream
        live = datagram.place in LIVE
        move = Move("A", "ARRIVE", kind, datagram.body, "", 0 if live else PERHAPS)
        if kind != "PONG" and datagram.opening[0] != a.boot and self.expects:
            if live and b.open and datagram.opening == b.opening:  # the source is another now: B closes it
                move = move._replace(event="REJECTED", detail="another boot, B closes")
                self._close(move, a, b, self._ended(datagrams, datagram))
            elif live:
                self._add(move._replace(event="REJECTED", detail="another boot"), a, b, _without(datagrams, datagram))
            return
        there = self._there(datagrams, datagram, TAKEN)
        if kind == "PONG":
            self._add(move, self._pong(a, datagram), b, there)
        elif kind == "WINDOW":
            after = stream.believed(a, datagram.body[0]) if a.phase == UP else a
            if not self.reopens and after.limit > b.expected + stream.window:
                self._breaks(move, "S7", "the credit leads further than W beyond the expected number")
                return
            self._add(move, after, b, there)
        elif a.phase == UP or self.keeps("F33"):  # F33: also one that overtakes the PONG
            self._add(move, a._replace(congested=bool(datagram.body[0])), b, there)
        else:
            self._add(move, a, b, there)

    def _pong(self, a: Sender, datagram: Datagram) -> Sender:
        """F14, F24: a PONG of the present boot and round opens; one with another boot of B ends the opening."""
        spoken = self.stream.spoken
        if a.phase not in (CONNECTING, UP):
            return a
        if self.keeps("F14") and spoken(datagram.opening) != spoken((a.boot, a.round)):
            return a
        boot = datagram.body[0]
        if a.peer == NOBODY:
            return a._replace(peer=boot)
        return self.stream.left(a) if a.peer != boot and self.keeps("F24") else a

    # A message of a datagram that has ended.

    def _left_over(self, a: Sender, b: Receiver, datagrams: tuple[Datagram, ...], datagram: Datagram) -> None:
        kind = datagram.kind
        rest = _without(datagrams, datagram)
        self._add(Move("A" if kind in FROM_A else "B", "LOST", kind, datagram.body), a, b, rest)
        if datagram.place == LATE and not (kind in FROM_A and b.dead):
            self._arrive(a, b, datagrams, datagram)

    # Fairness.

    def kind(self, move: Move) -> Hashable:
        if move.free:
            return move.free
        number = move.body[0] % self.stream.modulus if move.what == "DATA" else 0
        how = move.detail if move.event == "END" else ""
        return move.node, move.event, move.what, number, how

    def classes(self, kind: Hashable) -> tuple[set, set]:
        return {kind}, {kind}

    def drained(self, state: State) -> bool:
        """Everything that was given has ended, everything is told, and A can give again."""
        a, b, datagrams = state
        setting = self.setting
        if a.phase != UP or a.numbers or b.queue or b.other or (not setting.watch and (datagrams or b.pong)):
            return False
        if any(d.kind not in ("PING", "PONG") for d in datagrams):
            return False
        together = b.open and a.opening == (*(b.opening or ()), b.boot)
        if together and (b.expected != a.oldest or a.congested != b.congested):
            return False
        if a.congested and not together:
            return False
        return not setting.credits or a.limit > a.next

    def goals(self, start: State) -> Iterable[Goal]:
        setting = self.setting
        if setting.reader and not setting.death:
            yield Goal(
                "L2", "does not drain, although nothing new comes", lambda state: not self.drained(state), PERHAPS
            )
        numbers = range(self.stream.modulus)
        if setting.reader:
            for number in numbers:
                yield Goal("L1", "a datagram never ends", lambda s, n=number: self._never_ends(s, n), FREELY)
        for number in numbers:
            yield Goal("L3", "a void is never told", lambda s, n=number: self._never_void(s, n), FREELY)

    def _never_ends(self, state: State, number: int) -> bool:
        return any(d.kind == "DATA" and d.place in LIVE and d.body[0] % self.stream.modulus == number for d in state[2])

    def _never_void(self, state: State, number: int) -> bool:
        a = state[0]
        return any(
            now in (DIRTY, VOIDING) and (a.oldest + i) % self.stream.modulus == number
            for i, now in enumerate(a.numbers)
        )


def _live(datagrams: Iterable[Datagram], kind: str) -> bool:
    return any(d.kind == kind and d.place in LIVE for d in datagrams)


def _without(datagrams: tuple, datagram: Datagram) -> tuple:
    """The datagrams but one."""
    at = datagrams.index(datagram)
    return datagrams[:at] + datagrams[at + 1 :]
