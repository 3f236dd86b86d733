"""Messages that outlive the nodes they pass, as a machine that can be searched: what each node does, rule by rule.

`Rules` is what origin, Post and the nodes between them do, and what a notice of a death changes.  Each function changes
a `Work`: the state of the whole while a step is made.  What may happen when is in `relay_network`.  The comments name
the rules of `docs/design/relay-model.md`; each can be taken away (`Setting.without`).
"""

from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

from lethe.spec.overlay import NOWHERE, Overlay

# What a relay remembers of a message: nothing; that it has passed (SENT, its data gone); SENT and its data;
# REQUESTED; REQUESTED, but not yet asked for, for want of a buffer; ACKED; LINKED: its data are not here, and the next
# hop has been told that it goes that way.
NOTHING, SENT, HELD, REQUESTED, OWED, ACKED, LINKED = range(7)
STATES = 7
# Kinds of messages of a hop.
DATA, LINK, ASK, DONE, RELEASE, PULL = "DATA", "LINK", "REQUESTED", "ACKED", "ACKACKED", "PULL"

#: The uid before the first one.
NONE = -1


class Hop(NamedTuple):
    """A message from a node to the next: one datagram of the NI.

    Attributes
    ----------
    kind : DATA, LINK, REQUESTED, ACKED, ACKACKED or PULL
    sender, receiver : nodes
    stream, index : the message that is meant; ACKED of nothing: -1, in the second incarnation -2
    flag : LINK: thru; ACKED: more
    depth : LINK: of the sender
    """

    kind: str
    sender: int
    receiver: int
    stream: int = 0
    index: int = 0
    flag: bool = False
    depth: int = 0


class Stream(NamedTuple):
    """All messages from an origin to a destination; they have indices 0, 1, … in the order of sending.

    Attributes
    ----------
    given : the next index
    freed : the oldest index whose slot is not free
    restart : the first index of the origin's second incarnation, -1 if it has not restarted
    expected : the index after the last one posted
    incarnation : 0 or 1: of the last one posted
    parked : bits of the indices that are parked
    waiting : messages in the Post that its host has not taken
    hungry : whether the origin is to be told of room
    again : whether the origin sends its head again with each ACKED
    records : without M9, bits of the indices that the destination remembers as posted
    alone : without M1, bits of the indices that were given while no other was live
    """

    given: int = 0
    freed: int = 0
    restart: int = -1
    expected: int = 0
    incarnation: int = 0
    parked: int = 0
    waiting: int = 0
    hungry: bool = False
    again: bool = False
    records: int = 0
    alone: int = 0


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A small system, and what may happen in it.

    Attributes
    ----------
    nodes, radix : of the overlay
    streams : (origin, destination) of each stream
    messages : of each stream
    window : messages of a stream that may be unacknowledged; the slots of the origin
    modulus, stride : of uids: of each stream they are 0, stride, 2 stride, … mod modulus (the uids between them went
        to other destinations)
    cells : of a Post, messages that wait and parked ones together; 0: any number, and its host takes at once
    reader : whether hosts take; else never
    mortal, deaths : nodes that may die, and how many may
    suspects, suspicions : nodes that live and may be taken for dead, and how many may
    restarts : origins that may lose everything once and begin with the next incarnation
    drops : messages of hops that may be lost between two that live (a full queue; a hop that ends by its deadline)
    evict : relays may forget data at any time
    expire : relays may forget records at any time
    buffers : whether relays always have a buffer
    watch : the origin asks for what is old
    eager : … at any time; else only when nothing is under way that concerns the message, and that must arrive
    fifo : messages of a hop do not overtake each other
    walk : a notice changes the routes in one step, and the walk over records follows in another
    without : rules taken away
    """

    nodes: int = 3
    radix: int = 2
    streams: tuple[tuple[int, int], ...] = ((1, 2),)
    messages: int = 1
    window: int = 2
    modulus: int = 64
    stride: int = 1
    cells: int = 0
    reader: bool = True
    mortal: tuple[int, ...] = ()
    deaths: int = 0
    suspects: tuple[int, ...] = ()
    suspicions: int = 0
    restarts: tuple[int, ...] = ()
    drops: int = 0
    evict: bool = False
    expire: bool = False
    buffers: bool = True
    watch: bool = True
    eager: bool = False
    fifo: bool = False
    walk: bool = False
    without: frozenset[str] = field(default_factory=frozenset)


class Broken(Exception):
    """A property is violated: its number, and a sentence."""


class Work:
    """The state of the whole, while a step changes it.

    Attributes
    ----------
    dead, suspected : bits of nodes
    views : of each node the bits of the nodes that it holds for dead
    streams : list of `Stream`
    records : of each (node, stream, index) one of NOTHING … ACKED
    walks : of each node the bits that it held for dead before the notice whose walk is not over, and above them a bit
        for each message of which it has told by LINK since; -1 if there is none
    net : numbers of the messages under way, in the order of sending
    """

    __slots__ = ("dead", "net", "records", "streams", "suspected", "views", "walks")

    def __init__(self, dead, suspected, views, walks, streams, records, net):
        self.dead: int = dead
        self.suspected: int = suspected
        self.views: list[int] = list(views)
        self.walks: list[int] = list(walks)
        self.streams: list[Stream] = list(streams)
        self.records = bytearray(records)
        self.net: list[int] = list(net)


def _bits(mask: int) -> list[int]:
    return [node for node in range(mask.bit_length()) if mask >> node & 1]


class Trees:
    """The overlay as each node sees it."""

    def __init__(self, setting: Setting):
        self.setting = setting

    @cache  # noqa: B019 (lives as long as a search)
    def tree(self, view: int) -> Overlay:
        return Overlay(nodes=self.setting.nodes, radix=self.setting.radix, dead=frozenset(_bits(view)))

    @cache  # noqa: B019
    def route(self, view: int, node: int, target: int) -> int:
        return self.tree(view).route(node, target)

    @cache  # noqa: B019
    def fits(self, view: int, node: int, sender: int, depth: int) -> bool:
        """M24: a LINK comes from a neighbour, and its depth is that of a parent or of a child."""
        tree = self.tree(view)
        if not tree.radix:
            return True
        if sender == tree.parent(node):
            return depth == tree.depth(node) - 1
        return sender in tree.children(node) and depth == tree.depth(node) + 1


class Rules:
    """What origin, Post and relays do under a setting."""

    def __init__(self, setting: Setting):
        self.setting = setting
        self.trees = Trees(setting)
        self.kept: dict[str, bool] = {}
        self.nodes = setting.nodes
        self.count = setting.messages
        #: Names that records can have: as many as messages, or as uids if these come round.
        self.names = min(self.count, setting.modulus) if setting.stride == 1 and not setting.restarts else self.count
        self.hops: list[Hop] = []
        self.number: dict[Hop, int] = {}

    def keeps(self, rule: str) -> bool:
        kept = self.kept.get(rule)
        if kept is None:
            kept = self.kept[rule] = rule not in self.setting.without
        return kept

    # Names.

    def at(self, node: int, stream: int, index: int) -> int:
        """Where the record of a message is: it has the message's uid for a name."""
        return (node * len(self.setting.streams) + stream) * self.names + index % self.names

    def record(self, work: Work, node: int, stream: int, index: int) -> int:
        """What a relay remembers under the name of a message."""
        return work.records[self.at(node, stream, index)] % STATES

    def remember(self, work: Work, node: int, stream: int, index: int, now: int) -> None:
        work.records[self.at(node, stream, index)] = now + STATES * index if now else 0

    @staticmethod
    def incarnation(now: Stream, index: int) -> int:
        """M15: of a message; of an ACKED of nothing, whose index is -1 or, in the second incarnation, -2."""
        return -1 - index if index < 0 else int(0 <= now.restart <= index)

    def uid(self, now: Stream, index: int) -> int:
        """M1: the uid of a message of its incarnation."""
        begin = now.restart if self.incarnation(now, index) else 0
        return (index - begin) * self.setting.stride % self.setting.modulus

    def before(self, now: Stream, index: int) -> int:
        """M1: the uid of the message before; NONE of the first."""
        first = index in (0, now.restart) or now.alone >> index & 1
        return NONE if first else self.uid(now, index - 1)

    def posted(self, now: Stream) -> int:
        """The mark of the Post: the uid of what was posted last, NONE if nothing was."""
        first = now.restart if now.incarnation else 0
        return NONE if now.expected == first else self.uid(now, now.expected - 1)

    def below(self, now: Stream, index: int) -> bool:
        """M10: at or below the mark, as far as the bits of a uid tell."""
        mark = self.posted(now)
        modulus = self.setting.modulus
        return mark != NONE and (mark - self.uid(now, index)) % modulus < modulus // 2

    # Sending.

    def send(self, work: Work, hop: Hop) -> None:
        """One like it that is under way is enough; what goes to the dead is lost."""
        if work.dead >> hop.receiver & 1:
            return
        number = self.number.get(hop)
        if number is None:
            number = self.number[hop] = len(self.hops)
            self.hops.append(hop)
        if self.setting.fifo:
            same = [one for one in work.net if self.hops[one][1:3] == hop[1:3]]
            if same and same[-1] == number:
                return
        elif number in work.net:
            return
        work.net.append(number)

    def down(self, work: Work, node: int, kind: str, stream: int, index: int, came: int = NOWHERE, flag=False) -> None:
        """To the next hop towards the destination.  M18: not back to where it came from."""
        view = work.views[node]
        target = self.setting.streams[stream][1]
        to = self.trees.route(view, node, target)
        if to not in (NOWHERE, node) and (to != came or not self.keeps("M18")):
            depth = self.trees.tree(view).depth(node) if kind == LINK else 0
            self.send(work, Hop(kind, node, to, stream, index, flag, depth))

    def up(self, work: Work, node: int, kind: str, stream: int, index: int, came: int = NOWHERE, flag=False) -> None:
        """To the next hop towards the origin."""
        to = self.trees.route(work.views[node], node, self.setting.streams[stream][0])
        if to not in (NOWHERE, node) and (to != came or not self.keeps("M18")):
            self.send(work, Hop(kind, node, to, stream, index, flag))

    # The origin.

    def may_give(self, work: Work, stream: int) -> bool:
        """Within the window.  M8: nothing bears the uid any more."""
        now = work.streams[stream]
        origin, target = self.setting.streams[stream]
        if now.given >= self.count or now.given - now.freed >= self.setting.window:
            return False
        if work.views[origin] >> target & 1:  # M29: REJECTED
            return False
        return not self.keeps("M8") or not self._borne(work, stream)

    def _borne(self, work: Work, stream: int) -> bool:
        """M8: whether a record, a parked message or a message under way has a uid half a turn before the next one."""
        now = work.streams[stream]
        half = self.setting.modulus // 2
        under_way = (self.hops[number] for number in work.net)
        old = {hop.index for hop in under_way if hop.kind != PULL and hop.stream == stream}
        for node in range(self.nodes):
            begin = self.at(node, stream, 0)
            old.update(one // STATES for one in work.records[begin : begin + self.names] if one)
        old.update(_bits(now.parked))
        return any((now.given - index) * self.setting.stride >= half for index in old)

    def give(self, work: Work, stream: int) -> None:
        now = work.streams[stream]
        alone = now.alone
        if not self.keeps("M1") and now.freed == now.given:
            alone |= 1 << now.given
        work.streams[stream] = now._replace(given=now.given + 1, alone=alone)
        self.down(work, self.setting.streams[stream][0], DATA, stream, now.given)

    def launched(self, work: Work, stream: int, index: int) -> None:
        """Without M2: the next hop has the data, and the slot is freed."""
        now = work.streams[stream]
        if index in self.live(now):
            if index >= now.expected:
                raise Broken("S2", "a slot is freed whose message is not posted")
            work.streams[stream] = now._replace(freed=index + 1)

    def live(self, now: Stream) -> range:
        """M2: the messages of which the origin has a copy."""
        return range(now.freed, now.given)

    def acked(self, work: Work, origin: int, hop: Hop) -> None:
        """An ACKED has come to the origin."""
        now = work.streams[hop.stream]
        if self.keeps("M15 ACKED") and self.incarnation(now, hop.index) != self._incarnation(now):
            return
        known = [index for index in self.live(now) if self._names(now, index, hop)]
        if known:
            if known[0] >= now.expected:
                raise Broken("S2", "a slot is freed whose message is not posted")
            now = work.streams[hop.stream] = now._replace(freed=known[0] + 1)
        drained = known and now.freed == now.given
        if hop.index >= 0 and (drained or (not known and self.keeps("M4 unknown"))):  # M4
            self.down(work, origin, RELEASE, hop.stream, hop.index)
        again = (now.again or hop.flag) and now.freed < now.given and self.keeps("M5")
        if again and (hop.flag or known):
            self.down(work, origin, DATA, hop.stream, now.freed)  # M5: the head once more
        work.streams[hop.stream] = now._replace(again=again and self.keeps("M5 until drained"))

    def _incarnation(self, now: Stream) -> int:
        """The present one of the origin."""
        return int(now.restart >= 0)

    def _names(self, now: Stream, index: int, hop: Hop) -> bool:
        """M3: the uid of an ACKED names this message; its slot is only a hint."""
        if hop.index < 0:
            return False
        if not self.keeps("M3"):
            return index % self.setting.window == hop.index % self.setting.window
        return self.uid(now, index) == self.uid(now, hop.index)

    def requested(self, work: Work, origin: int, hop: Hop) -> None:
        """M6: the origin holds what is live."""
        now = work.streams[hop.stream]
        if hop.index in self.live(now) and self.keeps("M6"):
            self.down(work, origin, DATA, hop.stream, hop.index)

    def watched(self, now: Stream) -> range:
        """M7: the oldest live message."""
        return self.live(now)[: 1 if self.keeps("M7 head") else None]

    def watch(self, work: Work, stream: int, index: int) -> None:
        """M7: LINK with thru for what is live."""
        self.down(work, self.setting.streams[stream][0], LINK, stream, index, flag=self.keeps("M7 thru"))

    # The Post.

    def room(self, work: Work, target: int, beside: int) -> bool:
        """Whether a cell is free beside so many others."""
        cells = self.setting.cells
        if not cells:
            return True
        used = sum(
            now.waiting + now.parked.bit_count()
            for now, (_, to) in zip(work.streams, self.setting.streams, strict=True)
            if to == target
        )
        return used + beside < cells

    def arrived(self, work: Work, target: int, hop: Hop) -> None:
        """DATA has come to its destination."""
        stream, index = hop.stream, hop.index
        origin = self.setting.streams[stream][0]
        if work.views[target] >> origin & 1 and self.keeps("M16"):
            return
        if not self.keeps("M17 any") and hop.sender != self._ways(work, target, stream)[0]:
            return
        now = work.streams[stream]
        if not self.keeps("M9"):
            self._recorded(work, target, hop)
            return
        incarnation = self.incarnation(now, index)
        if incarnation < now.incarnation and self.keeps("M15"):
            return  # STALE
        if incarnation > now.incarnation:  # M15: a new one begins at NONE
            now = now._replace(incarnation=1, expected=now.restart, parked=0, hungry=False)
            work.streams[stream] = now
        if self.follows(now, index):
            if not self.room(work, target, 0):
                if self.keeps("M13"):
                    work.streams[stream] = now._replace(hungry=True)
                    return
                self.up(work, target, DONE, stream, index)
                return
            self._post(work, stream, index)
        elif self.below(now, index):
            pass
        elif self.keeps("M11"):
            if now.parked >> index & 1:
                return
            if not self.room(work, target, int(self.keeps("M12"))):
                work.streams[stream] = now._replace(hungry=self.keeps("M13"))
                return
            work.streams[stream] = now._replace(parked=now.parked | 1 << index)
            return
        else:
            return
        if self.keeps("M10") or self.follows(now, index):
            self.tell(work, stream)

    def follows(self, now: Stream, index: int) -> bool:
        """M9: its predecessor is the last one posted."""
        if not self.keeps("M9 mark"):
            return not self.below(now, index)
        return self._next(now, index)

    def _next(self, now: Stream, index: int) -> bool:
        return self.before(now, index) == self.posted(now)

    def _post(self, work: Work, stream: int, index: int) -> None:
        """M11: with it go those that are parked behind it."""
        waits = int(self.setting.cells > 0)
        while True:
            now = work.streams[stream]
            if index != now.expected:
                when = "twice" if index < now.expected else "before its predecessor"
                raise Broken("S1", f"message {index} is posted {when}")
            now = now._replace(
                expected=index + 1,
                parked=now.parked & ~(1 << index),
                waiting=now.waiting + waits,
                records=0 if self.keeps("M9") else now.records | 1 << index,
            )
            work.streams[stream] = now
            behind = [other for other in _bits(now.parked) if self._next(now, other)]
            if not behind:
                return
            index = behind[0]

    def _recorded(self, work: Work, target: int, hop: Hop) -> None:
        """Instead of M9, as the source document has it: the destination remembers by a record until the ACKACKED."""
        now, index = work.streams[hop.stream], hop.index
        if now.records >> index & 1:
            self.up(work, target, DONE, hop.stream, index)
        elif index == 0 or now.records >> index - 1 & 1:
            self._post(work, hop.stream, index)
            self.tell(work, hop.stream)
        else:
            work.streams[hop.stream] = now._replace(parked=now.parked | 1 << index)

    def tell(self, work: Work, stream: int, *, more: bool = False) -> None:
        """ACKED bears the mark."""
        now = work.streams[stream]
        index = -1 - now.incarnation if self.posted(now) == NONE else now.expected - 1
        self.up(work, self.setting.streams[stream][1], DONE, stream, index, flag=more)

    def link_at_post(self, work: Work, target: int, hop: Hop) -> None:
        """M14: what is missing is asked for; what is posted is said to be."""
        now = work.streams[hop.stream]
        origin = self.setting.streams[hop.stream][0]
        if work.views[target] >> origin & 1 and self.keeps("M16"):
            return
        incarnation = self.incarnation(now, hop.index)
        if incarnation < now.incarnation and self.keeps("M15"):
            return
        newer = incarnation > now.incarnation
        if not self.keeps("M9"):
            if now.records >> hop.index & 1:
                self.up(work, target, DONE, hop.stream, hop.index)
                return
        elif not newer and self.told(now, hop.index):
            if self.keeps("M14") and not (now.hungry and not self.keeps("M14 hungry")):
                self.tell(work, hop.stream)
            return
        if now.parked >> hop.index & 1 and not newer:
            return
        if now.hungry and not newer and self.keeps("M13 quiet"):
            return
        self.up(work, target, ASK, hop.stream, hop.index)

    def told(self, now: Stream, index: int) -> bool:
        """Whether a message is posted: its uid is below the mark, and it is not the one that follows."""
        return self.below(now, index) and not (self.keeps("M14 head") and self.follows(now, index))

    def take(self, work: Work, stream: int) -> None:
        """The host of a Post takes a message."""
        now = work.streams[stream]
        work.streams[stream] = now._replace(waiting=now.waiting - 1)

    def feed(self, work: Work, stream: int) -> None:
        """M13: there is room again."""
        work.streams[stream] = work.streams[stream]._replace(hungry=False)
        if self.keeps("M13 more"):
            self.tell(work, stream, more=True)

    # Relays.

    def data(self, work: Work, node: int, hop: Hop, buffer: bool) -> None:
        """M17: taken only from the next hop towards the origin; held, and passed on."""
        stream, index = hop.stream, hop.index
        up, down = self._ways(work, node, stream)
        if (
            NOWHERE in (up, down)
            or (hop.sender != up and self.keeps("M17"))
            or (down == hop.sender and self.keeps("M18"))
        ):
            return
        if self.record(work, node, stream, index) == ACKED and self.keeps("M19 answer"):
            self.up(work, node, DONE, stream, index)
            return
        self.remember(work, node, stream, index, HELD if buffer else OWED)
        if buffer:  # M22: else dropped, and owed
            self.down(work, node, DATA, stream, index)

    def ask(self, work: Work, node: int, stream: int, index: int) -> None:
        """M22: there is a buffer again."""
        self.remember(work, node, stream, index, REQUESTED)
        if self.keeps("M22"):
            self.up(work, node, ASK, stream, index)

    def done(self, work: Work, node: int, hop: Hop) -> None:
        """M19: an ACKED climbs, but only once; the message and those before it are ACKED here."""
        stream, index = hop.stream, hop.index
        if self.record(work, node, stream, index) == ACKED and not hop.flag and self.keeps("M19 once"):
            return
        if not self.keeps("M4 relay") and not self.record(work, node, stream, index):
            # As the source document has it: it must have been released already.
            self.down(work, node, RELEASE, stream, index)
            return
        while index >= 0 and self.record(work, node, stream, index):
            self.remember(work, node, stream, index, ACKED)
            index -= 1
            if self.record(work, node, stream, index) == ACKED:
                break
        self.up(work, node, DONE, stream, hop.index, came=hop.sender, flag=hop.flag)

    def release(self, work: Work, node: int, hop: Hop) -> None:
        """M20: an ACKACKED ends the records of the message and of those before it."""
        index = hop.index if self.keeps("M20") else -1
        while index >= 0 and self.record(work, node, hop.stream, index):
            self.remember(work, node, hop.stream, index, NOTHING)
            index -= 1
        self.down(work, node, RELEASE, hop.stream, hop.index, came=hop.sender)

    def climb(self, work: Work, node: int, hop: Hop) -> None:
        """M21: a REQUESTED is answered by who holds the data; else it goes on, but only once."""
        now = self.record(work, node, hop.stream, hop.index)
        if now == HELD:
            held = work.records[self.at(node, hop.stream, hop.index)] // STATES
            self.down(work, node, DATA, hop.stream, held)
        elif now == REQUESTED and self.keeps("M21 once"):
            return
        elif now != ACKED and self.keeps("M21"):
            self.remember(work, node, hop.stream, hop.index, REQUESTED)
            self.up(work, node, ASK, hop.stream, hop.index, came=hop.sender)

    def link(self, work: Work, node: int, hop: Hop) -> None:
        """M23: a LINK stops at who holds the data, and at who has told it already; with thru not even there.

        Where the data were asked for already they are asked for again.
        """
        now = self.record(work, node, hop.stream, hop.index)
        if self.leads_nowhere(work, node, hop.stream):
            return
        if now == ACKED and self.keeps("M19 answer"):
            self.up(work, node, DONE, hop.stream, hop.index)
            return
        if now == HELD and not hop.flag:
            return
        if now == REQUESTED and self.keeps("M23 asks"):
            self.up(work, node, ASK, hop.stream, hop.index)
            return
        if now != NOTHING and not self.keeps("M23"):
            return
        if now == LINKED and not hop.flag and self.keeps("M23 once"):
            return
        if now in (NOTHING, SENT):
            self.remember(work, node, hop.stream, hop.index, LINKED)
        self.down(work, node, LINK, hop.stream, hop.index, came=hop.sender, flag=hop.flag)
        if work.walks[node] >= 0 and self.record(work, node, hop.stream, hop.index) != NOTHING:
            work.walks[node] |= 1 << self._told(hop.stream, hop.index)

    def leads_nowhere(self, work: Work, node: int, stream: int) -> bool:
        """Whether a relay holds one of the ends for dead."""
        return NOWHERE in self._ways(work, node, stream)

    def pulled(self, work: Work, node: int, puller: int) -> None:
        """M27: LINK for all that goes that way."""
        for stream in range(len(self.setting.streams)):
            self._links(work, node, stream, lambda down: down == puller)

    def _told(self, stream: int, index: int) -> int:
        """The bit of a message in `Work.walks`."""
        return self.setting.nodes + stream * self.names + index % self.names

    def _links(self, work: Work, node: int, stream: int, meant, told: int = 0) -> None:
        """LINK for all that is not ACKED, has a next hop that is ``meant``, and was not ``told`` of."""
        origin, target = self.setting.streams[stream]
        up, down = self._ways(work, node, stream)
        if down == NOWHERE or node == target or not meant(down):
            return
        if node == origin:
            for index in self.live(work.streams[stream]):
                self.down(work, node, LINK, stream, index)
        elif up not in (NOWHERE, down):
            begin = self.at(node, stream, 0)
            for one in work.records[begin : begin + self.names]:
                if one % STATES not in (NOTHING, ACKED) and not told >> self._told(stream, one // STATES) & 1:
                    self.down(work, node, LINK, stream, one // STATES)

    def _ways(self, work: Work, node: int, stream: int) -> tuple[int, int]:
        """The next hops towards origin and destination."""
        view = work.views[node]
        origin, target = self.setting.streams[stream]
        return self.trees.route(view, node, origin), self.trees.route(view, node, target)

    # Deaths.

    def commit(self, work: Work, node: int, died: int) -> None:
        """A notice: the routes change at once; the walk follows."""
        before = work.views[node]
        work.views[node] = before | 1 << died
        if self.setting.walk:
            work.walks[node] = before
        else:
            self.walk(work, node, before)

    def walk(self, work: Work, node: int, kept: int) -> None:
        """What follows from other routes; M30: what was told of since is not told again (`Work.walks`)."""
        before, told = kept & (1 << self.setting.nodes) - 1, kept if self.keeps("M30") else 0
        died = (work.views[node] ^ before).bit_length() - 1
        change = self.trees.tree(before).change([died])
        promoted = node in change.promoted and self.keeps("M26 all")
        for stream, (origin, target) in enumerate(self.setting.streams):
            now = work.streams[stream]
            if node == origin and died == target:  # M29: what is live ends as UNKNOWN
                if self.keeps("M29"):
                    work.streams[stream] = now._replace(freed=now.given, again=False)
                continue
            if node == target and died == origin:
                if self.keeps("M16 park"):
                    work.streams[stream] = now._replace(parked=0, hungry=False)
                continue
            if node not in (origin, target):
                up, down = self._ways(work, node, stream)
                if self.keeps("M28") and (NOWHERE in (up, down) or up == down):
                    for index in range(self.names):  # M28: dead ends, and what is off its path
                        self.remember(work, node, stream, index, NOTHING)
            was = self.trees.route(before, node, target)
            if self.keeps("M26"):
                self._links(work, node, stream, lambda down, was=was: promoted or down != was, told)
        if self.keeps("M27"):
            known = () if self.keeps("M27 all") else change.before.neighbours(node)
            for other in change.new_neighbours(node):
                if other not in known:
                    self.send(work, Hop(PULL, node, other))
