"""Nodes that pass messages on, while some of them die: the states of the whole, what may happen, what must hold.

The NI below is taken for granted (`docs/design/protocol.md`): what a node sends to another arrives at most once, in any
order; and it arrives, unless one of the two dies or the sender takes the receiver for dead.
"""

from collections.abc import Hashable, Iterable
from typing import Any, NamedTuple

from tests.model.graph import ASKED, FREELY, PERHAPS, TIMED, Goal, Violation
from tests.model.relay_rules import (
    ASK,
    DATA,
    DONE,
    HELD,
    LINK,
    NOTHING,
    OWED,
    PULL,
    RELEASE,
    SENT,
    STATES,
    Broken,
    Hop,
    Rules,
    Setting,
    Stream,
    Work,
)


class Move(NamedTuple):
    """One step of the whole.

    Attributes
    ----------
    node : where
    event : what happens
    hop : the message that arrives, if one does
    stream, index : of the message that is meant, else -1
    level : FREELY, PERHAPS or TIMED if it need not happen, else 0
    """

    node: int
    event: str
    hop: Hop | None = None
    stream: int = -1
    index: int = -1
    level: int = 0


class State(NamedTuple):
    """The whole; the fields are those of `Work`, then what may still happen: deaths, suspicions, drops."""

    dead: int
    suspected: int
    views: tuple[int, ...]
    walks: tuple[int, ...]
    streams: tuple[Stream, ...]
    records: bytes
    net: tuple[int, ...]
    left: tuple[int, int, int]


class Relay:
    """All nodes, and the messages between them."""

    def __init__(self, setting: Setting):
        self.setting = setting
        self.rules = Rules(setting)
        self.keeps = self.rules.keeps
        self.involved = self._involved()
        self.control = (LINK, ASK, DONE, RELEASE, PULL)

    def start(self) -> State:
        setting = self.setting
        size = setting.nodes * len(setting.streams) * self.rules.names
        streams = (Stream(),) * len(setting.streams)
        left = setting.deaths, setting.suspicions, setting.drops
        return State(0, 0, (0,) * setting.nodes, (-1,) * setting.nodes, streams, bytes(size), (), left)

    def _involved(self) -> tuple[int, ...]:
        """The nodes that a message can reach, whoever is held for dead; the others have nothing to do."""
        setting, trees = self.setting, self.rules.trees
        lost = sorted({*setting.mortal, *setting.suspects})
        views = {sum(1 << node for i, node in enumerate(lost) if mask >> i & 1) for mask in range(1 << len(lost))}
        ends = {node for stream in setting.streams for node in stream}
        found, front = set(ends), list(ends)
        while front:
            node = front.pop()
            for to in {trees.route(view, node, end) for view in views for end in ends} - found - {-1}:
                found.add(to)
                front.append(to)
        return tuple(sorted(found))

    # What may happen.

    def successors(self, state: Any) -> list[tuple[Move, tuple | Violation]]:
        found: list[tuple[Move, tuple | Violation]] = []
        for move in self._moves(state):
            work = Work(*state[:7])
            left = state.left
            try:
                left = self._do(work, move, left)
            except Broken as broken:
                found.append((move, Violation(*broken.args)))
                continue
            after = self._state(work, left)
            if after != state:
                found.append((move, after))
        return found

    def _state(self, work: Work, left: tuple[int, int, int]) -> State:
        net = tuple(work.net) if self.setting.fifo else tuple(sorted(work.net))
        views, walks = tuple(work.views), tuple(work.walks)
        return State(work.dead, work.suspected, views, walks, tuple(work.streams), bytes(work.records), net, left)

    def _moves(self, state: State) -> Iterable[Move]:
        setting = self.setting
        for stream, (origin, target) in enumerate(setting.streams):
            now = state.streams[stream]
            if not state.dead >> origin & 1:
                if self.rules.may_give(Work(*state[:7]), stream):
                    yield Move(origin, "GIVE", None, stream, now.given, FREELY)
                if setting.watch and self.keeps("M7"):
                    for index in self.rules.watched(now):
                        if not setting.eager and self._under_way(state, stream, index):
                            continue
                        yield Move(origin, "WATCH", None, stream, index, ASKED)
                if origin in setting.restarts and now.restart < 0 and 0 < now.given < setting.messages:
                    yield Move(origin, "RESTART", None, stream, now.given, FREELY)
            if not state.dead >> target & 1:
                if now.waiting and setting.reader:
                    yield Move(target, "TAKE", None, stream)
                if now.hungry and self.rules.room(Work(*state[:7]), target, 0):
                    yield Move(target, "FEED", None, stream)
        yield from self._of_nodes(state)
        yield from self._of_relays(state)
        yield from self._arrivals(state)

    def _under_way(self, state: State, stream: int, index: int) -> bool:
        """Whether something is under way that concerns a message, and must arrive."""
        hops = (self.rules.hops[number] for number in state.net)
        return any(
            hop.stream == stream
            and (hop.index == index or (hop.kind == DONE and (hop.index > index or hop.flag)))
            and hop.kind != PULL
            and not self._late(state, hop)
            for hop in hops
        )

    @staticmethod
    def _late(state: State, hop: Hop) -> bool:
        """Whether a message under way may never arrive."""
        return bool(state.dead >> hop.sender & 1 or state.views[hop.sender] >> hop.receiver & 1)

    def _of_nodes(self, state: State) -> Iterable[Move]:
        """Deaths, suspicions and notices."""
        deaths, suspicions, _ = state.left
        if deaths:
            for node in self.setting.mortal:
                if not state.dead >> node & 1:
                    yield Move(node, "DIE", level=FREELY)
        if suspicions:
            for node in self.setting.suspects:
                if not (state.suspected | state.dead) >> node & 1:
                    yield Move(node, "SUSPECT", level=FREELY)
        lost = state.dead | state.suspected
        for node in self.involved:
            news = lost & ~state.views[node] & ~(1 << node)
            if state.walks[node] >= 0:
                yield Move(node, "WALK")
            elif news and not state.dead >> node & 1:
                for died in range(news.bit_length()):
                    if news >> died & 1:
                        yield Move(node, "NOTICE", index=died)

    def _of_relays(self, state: State) -> Iterable[Move]:
        """Times of records, and buffers."""
        setting = self.setting
        if not (setting.evict or setting.expire or not setting.buffers):
            return
        for at, record in enumerate(state.records):
            if record == NOTHING:
                continue
            node, stream = divmod(at // self.rules.names, len(setting.streams))
            record, index = record % STATES, record // STATES
            if record == HELD and setting.evict:
                yield Move(node, "EVICT", None, stream, index, TIMED)
            if record == OWED:
                yield Move(node, "ASK", None, stream, index)
            if setting.expire:
                yield Move(node, "EXPIRE", None, stream, index, TIMED)

    def _arrivals(self, state: State) -> Iterable[Move]:
        seen = set()
        for number in state.net:
            hop = self.rules.hops[number]
            if self.setting.fifo:
                if hop[1:3] in seen:
                    continue
                seen.add(hop[1:3])
            receiver, late = hop.receiver, self._late(state, hop)
            level = PERHAPS if late else 0
            yield Move(receiver, "ARRIVES", hop, hop.stream, hop.index, level)
            if hop.kind == DATA and not self.setting.buffers and receiver not in self.setting.streams[hop.stream]:
                yield Move(receiver, "NO BUFFER", hop, hop.stream, hop.index, FREELY)
            if late and self.setting.fifo:
                yield Move(receiver, "LOST", hop, hop.stream, hop.index, PERHAPS)
            if state.left[2]:
                yield Move(receiver, "DROP", hop, hop.stream, hop.index, FREELY)

    # What each move does.

    def _do(self, work: Work, move: Move, left: tuple[int, int, int]) -> tuple[int, int, int]:
        rules, node, stream, index = self.rules, move.node, move.stream, move.index
        deaths, suspicions, drops = left
        event = move.event
        if move.hop is not None:
            work.net.remove(rules.number[move.hop])
            if event == "DROP":
                return deaths, suspicions, drops - 1
            if event != "LOST":
                self._arrives(work, node, move.hop, buffer=event == "ARRIVES")
        elif event == "GIVE":
            rules.give(work, stream)
        elif event == "WATCH":
            rules.watch(work, stream, index)
        elif event == "RESTART":
            self._restart(work, node, stream)
        elif event == "TAKE":
            rules.take(work, stream)
        elif event == "FEED":
            rules.feed(work, stream)
        elif event == "DIE":
            self._die(work, node)
            return deaths - 1, suspicions, drops
        elif event == "SUSPECT":
            work.suspected |= 1 << node
            return deaths, suspicions - 1, drops
        elif event == "NOTICE":
            rules.commit(work, node, index)
        elif event == "WALK":
            before, work.walks[node] = work.walks[node], -1
            rules.walk(work, node, before)
        elif event == "EVICT":
            rules.remember(work, node, stream, index, SENT)
        elif event == "EXPIRE":
            rules.remember(work, node, stream, index, NOTHING)
        else:
            rules.ask(work, node, stream, index)
        return left

    def _arrives(self, work: Work, node: int, hop: Hop, *, buffer: bool) -> None:
        rules, kind = self.rules, hop.kind
        if kind == PULL:
            rules.pulled(work, node, hop.sender)
            return
        origin, target = self.setting.streams[hop.stream]
        if kind == LINK and self.keeps("M24") and not rules.trees.fits(work.views[node], node, hop.sender, hop.depth):
            return  # M24
        if kind == DATA and hop.sender == origin and not self.keeps("M2"):
            rules.launched(work, hop.stream, hop.index)
        if node == origin:
            if kind == DONE:
                rules.acked(work, node, hop)
            elif kind == ASK:
                rules.requested(work, node, hop)
        elif node == target:
            if kind == DATA:
                rules.arrived(work, node, hop)
            elif kind == LINK:
                rules.link_at_post(work, node, hop)
            elif kind == RELEASE and not self.keeps("M9"):
                now = work.streams[hop.stream]
                work.streams[hop.stream] = now._replace(records=now.records & ~(1 << hop.index))
        elif kind == DATA:
            rules.data(work, node, hop, buffer)
        elif kind == LINK:
            rules.link(work, node, hop)
        elif kind == ASK:
            rules.climb(work, node, hop)
        elif kind == DONE:
            rules.done(work, node, hop)
        else:
            rules.release(work, node, hop)

    def _clear(self, work: Work, node: int) -> None:
        size = len(self.setting.streams) * self.rules.names
        work.records[node * size : (node + 1) * size] = bytes(size)

    def _die(self, work: Work, node: int) -> None:
        """What it knew is gone; what goes to it is lost.  Fields that mean nothing any more are 0."""
        work.dead |= 1 << node
        work.views[node], work.walks[node] = 0, -1
        work.net = [number for number in work.net if self.rules.hops[number].receiver != node]
        self._clear(work, node)
        for stream, (origin, target) in enumerate(self.setting.streams):
            now = work.streams[stream]
            if node == origin:
                work.streams[stream] = now._replace(freed=now.given, again=False)
            if node == target:
                work.streams[stream] = now._replace(parked=0, waiting=0, hungry=False, records=0)

    def _restart(self, work: Work, node: int, stream: int) -> None:
        """M15: the origin forgets everything, and begins with the next incarnation."""
        now = work.streams[stream]
        work.streams[stream] = now._replace(restart=now.given, freed=now.given, again=False)
        self._clear(work, node)

    # What must hold.

    def kind(self, move: Move) -> Hashable:
        return move.level if move.level else "step"

    def classes(self, kind: Hashable) -> tuple[set, set]:
        del kind
        return set(), set()

    def goals(self, start: tuple) -> Iterable[Goal]:
        del start
        text = "a message between two that live is never posted, or its slot is never free"
        yield Goal("L1", text, self._stuck, ASKED, True)
        yield Goal("L2", "a table never empties", self._full, TIMED, True)
        yield Goal("L3", "messages go round for ever", self._busy, 0)

    def _together(self, state: State, stream: int) -> bool:
        """Whether both ends live, and nobody takes one of them for dead."""
        origin, target = self.setting.streams[stream]
        return not (state.dead | state.suspected) & (1 << origin | 1 << target)

    def _stuck(self, state: Any) -> bool:
        """Whether a stream between two that live has anything left to do; without a reader, what is posted is left."""
        takes = self.setting.reader or not self.setting.cells
        for stream, now in enumerate(state.streams):
            left = now.hungry or now.freed < now.given if takes else now.freed < min(now.expected, now.given)
            if left and self._together(state, stream):
                return True
        return False

    def _full(self, state: Any) -> bool:
        if any(state.records) and not self.keeps("M25"):  # M25: records end by time
            return True
        for stream, now in enumerate(state.streams):
            origin, target = self.setting.streams[stream]
            if not state.suspected >> target & 1 and (now.parked or now.records):
                return True
            if now.waiting and self.setting.reader and not state.suspected >> target & 1:
                return True
            if now.freed < now.given and not state.suspected >> origin & 1 and self._ends(state, target):
                return True
        return False

    def _busy(self, state: Any) -> bool:
        """Whether something is under way that must arrive."""
        return any(not self._late(state, self.rules.hops[number]) for number in state.net)

    def _ends(self, state: State, target: int) -> bool:
        return self.setting.reader or bool((state.dead | state.suspected) >> target & 1)
