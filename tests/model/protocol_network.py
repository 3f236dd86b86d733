"""Nodes joined by a lossy network: the states of a whole system, what may happen in each, and what must hold.

A state is a tuple of numbers and short tuples, so that sets of a million are quick: each distinct node and message
has a number, and what a node can do is worked out once for each distinct node.
"""

from collections.abc import Iterator
from typing import NamedTuple

from tests.model.graph import Violation
from tests.model.protocol_rules import (
    ANY,
    BEST_EFFORT,
    FREE,
    LIVE,
    ONCE,
    Datagram,
    Message,
    Node,
    Protocol,
    Setting,
    Step,
    Uid,
)


class Move(NamedTuple):
    """One step of the system.

    Attributes
    ----------
    node : where it happens
    step : what happens there
    fate : of the message that it sends: "", "sent" or "lost"
    heard : the message that arrived, if one did
    """

    node: int
    step: Step
    fate: str = ""
    heard: Message | None = None


#: What the environment may do, and need not: nothing waits for it.
FREE_WILL = ("ACCEPT", "RESET", "ORPHAN", "CANCELLED", "PASS_OVER")


class Network:
    """A system of nodes under a setting."""

    def __init__(self, setting: Setting):
        self.setting = setting
        self.protocol = Protocol(setting)
        self.keeps = self.protocol.keeps
        self._nodes: list[Node] = []
        self._node_number: dict[Node, int] = {}
        self._messages: list[Message] = []
        self._message_number: dict[Message, int] = {}
        self._channel: dict[tuple, int] = {}
        self._room: list[int] = []
        self._open_channels()
        self._moves: dict[int, list] = {}
        self._receptions: dict[tuple[int, int], list] = {}
        self._mentions: dict[int, frozenset] = {}
        self._live: dict[int, frozenset] = {}
        self._acceptances: dict[int, list] = {}

    # Numbers for nodes and messages.

    def _open_channels(self) -> None:
        """One FIFO for each direction of a pair, or of a pair and slot: what N3 keeps the order of."""
        ends = sorted({end for pair in self.setting.paths for end in (pair, pair[::-1])})
        slots = range(self.setting.slots) if self.setting.order == "slot" else (0,)
        for sender, receiver in ends:
            for slot in slots:
                self._channel[sender, receiver, slot] = len(self._channel)
                self._room.append(
                    self.setting.channel if (sender, receiver) in self.setting.paths else self.setting.acks
                )

    def node_number(self, node: Node) -> int:
        if node not in self._node_number:
            self._node_number[node] = len(self._nodes)
            self._nodes.append(node)
        return self._node_number[node]

    def message_number(self, message: Message) -> int:
        if message not in self._message_number:
            self._message_number[message] = len(self._messages)
            self._messages.append(message)
        return self._message_number[message]

    def channel_of(self, message: Message) -> int:
        """Number of the FIFO a message travels in."""
        slot = message.uid.slot if self.setting.order == "slot" else 0
        return self._channel[message.sender, message.receiver, slot]

    def message(self, number: int) -> Message:
        return self._messages[number]

    def channel_between(self, sender: int, receiver: int) -> int:
        """Number of the FIFO of a pair."""
        return self._channel[sender, receiver, 0]

    # States: node numbers, then channels (tuples of message numbers), then what the properties remember.

    def start(self) -> tuple:
        nodes = tuple(self.node_number(self.protocol.fresh(n, 1)) for n in range(self.setting.nodes))
        return (*nodes, *((),) * len(self._channel), ())

    def node(self, state: tuple, number: int) -> Node:
        return self._nodes[state[number]]

    def channels(self, state: tuple) -> list[list[Message]]:
        return [[self._messages[m] for m in channel] for channel in state[self.setting.nodes : -1]]

    def drained(self, state: tuple) -> bool:
        """Whether nothing of any datagram is left anywhere."""
        if any(state[self.setting.nodes : -1]):
            return False
        return all(
            all(slot.place == FREE for slot in node.slots)
            and not (node.table or node.replies or node.new or node.repeats or node.leaving)
            for node in (self.node(state, n) for n in range(self.setting.nodes))
        )

    # What may happen.

    def successors(self, state: tuple) -> list[tuple[Move, tuple | Violation]]:
        """Every move that is possible, and the state after it or what it breaks."""
        found: list[tuple[Move, tuple | Violation]] = []
        nodes = self.setting.nodes
        for number in range(nodes):
            for move in self._moves_of(state[number]):
                # R28: a slot lingers until no Send of its datagram can arrive.
                if self.setting.linger and move[0].event == "RESTED" and self.under_way(state, move[0].about):
                    continue
                self.apply(state, number, move, None, found)
            self._accept(state, number, found)
            self._orphan(state, number, found)
        for number in self.setting.resets:
            self._reset(state, number, found)
        for channel in range(len(self._channel)):
            waiting = state[nodes + channel]
            # N3: only the oldest message of a channel can arrive.
            for place in range(len(waiting) if self._reorders(waiting) else min(1, len(waiting))):
                self._arrive(state, channel, place, found)
        return found

    def _reorders(self, waiting: tuple) -> bool:
        if not waiting:
            return False
        acks = self._messages[waiting[0]].kind in ("Ack", "Reject")
        return not self.setting.order or not self.keeps("N3") or (acks and not self.keeps("N3 Acks"))

    def _moves_of(self, number: int) -> list[Step]:
        if number not in self._moves:
            self._moves[number] = [self.prepared(step) for step in self.protocol.moves(self._nodes[number])]
        return self._moves[number]

    def prepared(self, step: Step) -> tuple:
        """A step with the numbers of the node after it, of its message, and of the message's channel."""
        node = self.node_number(step.node)
        if step.sent is None:
            return step, node, -1, -1
        return step, node, self.message_number(step.sent), self.channel_of(step.sent)

    def apply(self, state: tuple, number: int, prepared: tuple, heard: tuple | None, found: list) -> None:
        """Add the states after a step of a node: its message is sent or lost (N4 speaks of those that are sent)."""
        step, after, message, to = prepared
        nodes = self.setting.nodes
        new = list(state)
        new[number] = after
        arrived = None
        if heard is not None:
            channel, rest, arrived = heard
            new[nodes + channel] = rest
        if step.seen is not None:
            there = self._nodes[state[step.seen[1].destination]].incarnation
            remembered = observe(new[-1], step.seen, self.setting, there)
            if isinstance(remembered, Violation):
                found.append((Move(number, step, "", arrived), remembered))
                return
            new[-1] = remembered
        if message < 0:
            self._forget_ended(new)
            found.append((Move(number, step, "", arrived), tuple(new)))
            return
        if len(new[nodes + to]) < self._room[to]:
            kept = list(new)
            kept[nodes + to] = (*kept[nodes + to], message)
            self._forget_ended(kept)
            found.append((Move(number, step, "sent", arrived), tuple(kept)))
        self._forget_ended(new)
        found.append((Move(number, step, "lost", arrived), tuple(new)))

    def _arrive(self, state: tuple, channel: int, place: int, found: list) -> None:
        nodes = self.setting.nodes
        waiting = state[nodes + channel]
        number = waiting[place]
        message = self._messages[number]
        rest = waiting[:place] + waiting[place + 1 :]
        node = state[message.receiver]
        if self.resetting(state, self._nodes[node]):
            step = Step("DROP", message.uid, "RESETTING", self._nodes[node])
            self.apply(state, message.receiver, self.prepared(step), (channel, rest, message), found)
            return
        key = node, number
        if key not in self._receptions:
            self._receptions[key] = [self.prepared(step) for step in self._heard(self._nodes[node], message)]
        for prepared in self._receptions[key]:
            self.apply(state, message.receiver, prepared, (channel, rest, message), found)
            if not self.keeps("N2"):  # a copy comes later
                self.apply(state, message.receiver, prepared, (channel, (*rest, number), message), found)
            if not self.keeps("N2 at once"):  # a copy comes next
                self.apply(state, message.receiver, prepared, (channel, waiting, message), found)

    def _heard(self, node: Node, message: Message) -> list[Step]:
        """What a message that arrives may do."""
        if (
            not self.keeps("R24")
            and message.kind not in ("Forget", "Reject")
            and len(node.replies) >= self.setting.reply_depth > 0
        ):
            return []  # it waits for the reply queue
        steps = [self.protocol.receive(node, message)]
        if not self.keeps("N1"):  # a flip that the CRC lets pass: another generation
            other = (message.uid.generation + 1) % self.setting.generations
            steps.append(self.protocol.receive(node, message._replace(uid=message.uid._replace(generation=other))))
        return steps

    # What the environment does, and what it owes.

    def _accept(self, state: tuple, number: int, found: list) -> None:
        node = self._nodes[state[number]]
        if self.resetting(state, node):
            return
        for slot, now in enumerate(node.slots):
            if now.place != FREE:
                continue
            uid = Uid(number, node.incarnation, slot, now.generation)
            if self.keeps("E1") and self.recurs(state, uid):
                continue
            for sender, receiver in self.setting.paths:
                if sender == number:
                    self._accept_for(state, node, slot, receiver, self.use_of(state, uid), found)

    def _accept_for(self, state: tuple, node: Node, slot: int, receiver: int, use: int, found: list) -> None:
        there = self._nodes[state[receiver]].incarnation
        kinds = [(ANY, ONCE)]
        kinds += [(there, ONCE)] * self.setting.expects + [(ANY, BEST_EFFORT)] * self.setting.best_effort
        for expect, mode in kinds:
            step = self.protocol.accept(node, slot, receiver, expect, mode, use)
            if step is not None:
                self.apply(state, node.number, self.prepared(step), None, found)

    def recurs(self, state: tuple, uid: Uid) -> bool:
        """Whether something of an earlier use of a UID is left anywhere (E1)."""
        nodes = self.setting.nodes
        if any(uid in self._mentioned(n) for n in state[:nodes]):
            return True
        return any(self._messages[m].uid == uid for channel in state[nodes:-1] for m in channel)

    def _mentioned(self, number: int) -> frozenset:
        """UIDs in a node's table and queues, and (node, incarnation) pairs that it knows of others."""
        if number not in self._mentions:
            node = self._nodes[number]
            uids = {*node.table, *(message.uid for message in node.replies)}
            uids |= {Uid(node.number, node.incarnation, *entry) for entry in (*node.new, *node.repeats)}
            if node.leaving:
                uids.add(node.leaving.uid)
            known = {(uid.source, uid.incarnation) for uid in uids}
            known |= {(m.receiver, m.peer) for m in node.replies if m.kind == "Forget"}
            known |= {(slot.datagram.destination, slot.expect) for slot in node.slots if slot.place == LIVE}
            known |= {(m.receiver, m.peer) for m in (node.leaving,) if m}
            self._mentions[number] = frozenset(uids | known)
        return self._mentions[number]

    def use_of(self, state: tuple, uid: Uid) -> int:
        """The least number that tells a datagram apart from those of its UID of which something is left."""
        taken = {datagram.use for datagram in self._held(state) if datagram.uid == uid}
        return min(set(range(len(taken) + 1)) - taken)

    def _held(self, state: tuple) -> set[Datagram]:
        """Datagrams that may still be delivered or end, or of which the properties know something."""
        nodes = self.setting.nodes
        held = {datagram for datagram, _ in state[-1]}
        for number in state[:nodes]:
            held |= self._live_of(number)
        return held | {
            content for channel in state[nodes:-1] for m in channel if (content := self._messages[m].content)
        }

    def _live_of(self, number: int) -> frozenset:
        """Datagrams that a node may still send, or end."""
        if number not in self._live:
            node = self._nodes[number]
            kept = {slot.datagram for slot in node.slots if slot.place == LIVE or not self.keeps("R22")}
            if node.leaving:
                kept.add(node.leaving.content)
            self._live[number] = frozenset(kept - {None})
        return self._live[number]

    def _forget_ended(self, new: list) -> None:
        """Drop from the properties' memory what can neither be delivered nor end any more."""
        if not new[-1]:
            return
        nodes = self.setting.nodes
        kept = []
        for known in new[-1]:
            datagram = known[0]
            if any(datagram in self._live_of(n) for n in new[:nodes]) or any(
                self._messages[m].content == datagram for channel in new[nodes:-1] for m in channel
            ):
                kept.append(known)
        new[-1] = tuple(kept)

    def _reset(self, state: tuple, number: int, found: list) -> None:
        """A node is reset.  E2: not while something of an earlier life with its next incarnation is left."""
        if self.keeps("E2") and self.keeps("R2") and self.remembered(state, number, self._next_life(state, number)):
            return
        after = self.after_reset(state, number)
        node = self.node(after, number)
        found.append((Move(number, Step("RESET", number, f"incarnation {node.incarnation}", node)), after))

    def _next_life(self, state: tuple, number: int) -> int:
        """R2: each reset counts; 0 is left out."""
        incarnation = self.node(state, number).incarnation
        return incarnation % self.setting.incarnations + 1 if self.keeps("R2") else incarnation

    def after_reset(self, state: tuple, number: int) -> tuple:
        """R23: everything in the node is forgotten; what is on its way is not."""
        incarnation = self._next_life(state, number)
        after = self.protocol.fresh(number, incarnation)
        if not self.keeps("R23"):
            after = after._replace(table=self.node(state, number).table)
        new = list(state)
        new[number] = self.node_number(after)
        new[-1] = another_life(new[-1], number, incarnation)
        self._forget_ended(new)
        return tuple(new)

    def remembered(self, state: tuple, number: int, incarnation: int) -> bool:
        """Whether anything outside a node still names an earlier life of it by this number (E2)."""
        nodes = self.setting.nodes
        life = number, incarnation
        for other in range(nodes):
            if other != number and life in self._mentioned(state[other]):
                return True
        for message in (self._messages[m] for channel in state[nodes:-1] for m in channel):
            receiver = message.sender if message.kind in ("Ack", "Reject") else message.receiver
            if life in ((message.uid.source, message.uid.incarnation), (receiver, message.peer)):
                return True
        return False

    def _orphan(self, state: tuple, number: int, found: list) -> None:
        """An entry is reclaimed.  R25: only when its sender cannot repeat any more."""
        if not self.setting.orphans:
            return
        node = self._nodes[state[number]]
        for entry in node.table:
            if not (self.keeps("R25") and self.repeats(state, entry)):
                self.apply(state, number, self.prepared(self.protocol.orphan(node, entry)), None, found)

    def repeats(self, state: tuple, entry: Uid) -> bool:
        """Whether a Send with this UID can still arrive."""
        return any(d.uid == entry for d in self._live_of(state[entry.source])) or self.under_way(state, entry)

    def _sends(self, state: tuple) -> Iterator[Message]:
        """The Sends in the network."""
        messages = (self._messages[m] for channel in state[self.setting.nodes : -1] for m in channel)
        return (message for message in messages if message.content)

    def under_way(self, state: tuple, uid: Uid) -> bool:
        """Whether a Send with this UID is in the network."""
        return any(message.uid == uid for message in self._sends(state))

    def resetting(self, state: tuple, node: Node) -> bool:
        """R30: after a reset a node where slots linger takes no part until no Send of an earlier life can arrive."""
        if not self.setting.linger or not self.keeps("R30"):
            return False
        lives = ((message.uid.source, message.uid.incarnation) for message in self._sends(state))
        return any(source == node.number and life != node.incarnation for source, life in lives)


# What must hold.  The memory is a sorted tuple of (datagram, what is known of it).


def observe(memory: tuple, seen: tuple, setting: Setting, there: int) -> tuple | Violation:
    """The properties see a delivery, or the end of a datagram; ``there``: its receiver's incarnation now."""
    what, datagram, *rest = seen
    known = dict(memory)
    facts = known.get(datagram, frozenset())
    if what == "delivered":
        incarnation, uid, expected = rest
        if datagram.uid != uid:
            return Violation("S6", "delivered under the UID of another datagram")
        if incarnation in facts:
            return Violation("S1", "delivered twice")
        if "never" in facts:
            return Violation("S3", "delivered after it ended as NEVER_SENT")
        if expected and (expected != incarnation or "expected" in facts):
            return Violation("S5", "delivered in an incarnation that it does not expect, or in two")
        facts |= {incarnation, "expected"} if expected else {incarnation}
    elif what == "ACCEPTED":
        if rest[0] not in facts:
            return Violation("S2", "ended as ACCEPTED, and not delivered")
    elif what == "NEVER_SENT":
        if facts:
            return Violation("S3", "ended as NEVER_SENT after it was delivered")
        facts |= {"never"}
    elif what == "RESTARTED":
        named, expected = rest
        if expected in (ANY, named, there):
            return Violation("S7", "ended as RESTARTED, and its receiver is the incarnation that it expects")
    elif what == "ended twice":
        return Violation("S4", "ended twice")
    if facts:
        known[datagram] = facts
    return tuple(sorted(known.items(), key=lambda item: item[0]))


def another_life(memory: tuple, number: int, incarnation: int) -> tuple:
    """A node has been reset: what it delivered in the life that had this number before, it did not in this one."""
    changed = (
        (datagram, facts - {incarnation} if datagram.destination == number else facts) for datagram, facts in memory
    )
    return tuple((datagram, facts) for datagram, facts in changed if facts)
