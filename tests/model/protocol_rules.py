"""The protocol as a machine that can be searched: what a network interface may do, rule by rule.

A node is a value, and everything it can do is a function from a node (and a message, if one arrives) to the node
afterwards.  What joins the nodes, and what the environment owes them, is in `protocol_network`.  The comments name
the rules of `docs/design/protocol.md`; each can be taken away (`Setting.without`).
"""

from dataclasses import dataclass, field
from typing import NamedTuple

# Places of a slot.
FREE, LIVE, ENDED, RESTING = "free", "live", "ended", "resting"
# Modes of a datagram.
ONCE, BEST_EFFORT, REFUSED = "once", "best effort", "refused"
# Where a live datagram is on its way from one Send to the next.
NEW, TIMER, QUEUED, FINISH = "new", "timer", "queued", "finish"
# … or, its node being silent, to its end: of a new datagram, of a repeat.
UNSENT, UNHEARD = "unsent", "unheard"

ANY = 0  # an expected incarnation that is no incarnation


class Uid(NamedTuple):
    source: int
    incarnation: int
    slot: int
    generation: int


class Datagram(NamedTuple):
    """What no bit on the wire tells: which datagram this really is.  ``use`` tells apart two that share a UID."""

    uid: Uid
    destination: int
    use: int


class Message(NamedTuple):
    kind: str  # Send, Ack, Forget, BE, Reject
    sender: int
    receiver: int
    uid: Uid
    peer: int  # Send, BE: the incarnation that is expected; else that of the node that acknowledged, or rejects
    content: Datagram | None


class Slot(NamedTuple):
    place: str = FREE
    generation: int = 0
    datagram: Datagram | None = None
    expect: int = ANY
    mode: str = ONCE
    waits: str = ""  # NEW, TIMER, QUEUED, FINISH, UNSENT or UNHEARD while live
    launched: int = 0  # the generation last granted from the new queue
    status: str = ""  # how it ended, until the host has been told
    again: bool = False  # where slots linger: its datagram has been repeated
    doubt: bool = False  # … or has left it in doubt


class Node(NamedTuple):
    number: int
    incarnation: int
    slots: tuple[Slot, ...]
    new: tuple[tuple[int, int], ...] = ()  # (slot, generation), oldest first
    repeats: tuple[tuple[int, int], ...] = ()
    replies: tuple[Message, ...] = ()
    table: tuple[Uid, ...] = ()  # one entry for each UID it remembers, sorted
    leaving: Message | None = None  # a Send of which the last flit has not left


class Step(NamedTuple):
    """One thing that a node does.

    Attributes
    ----------
    event : its name, as in `lethe.spec.events`
    about : UID it is about (an Ack's or Forget's datagram too); the node's number for a reset
    detail : cause, status or reason, "" if there is none
    node : the node afterwards
    sent : message that leaves for the network
    reply : "queued" or "dropped", if it has a reply that does not leave at once
    seen : what the properties have to know: (what, datagram, …)
    """

    event: str
    about: Uid | int
    detail: str
    node: Node
    sent: Message | None = None
    reply: str = ""
    seen: tuple | None = None


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A small system, and what may happen in it.

    Attributes
    ----------
    paths : (sender, receiver) of every pair that sends datagrams
    slots, entries : of each sender's send table, of each receive table
    generations, incarnations : how many numbers there are before they come again
    channel, acks : messages that can be under way from one node to another, where datagrams are sent and where only
        Acks are; what is sent beyond them is lost
    reply_depth : replies that can wait for the link; 0: they leave at once
    expects : datagrams may also name the receiver's present incarnation
    reject : a Send for another incarnation is answered
    silent : at each grant of a Send its destination may be silent
    leaving : a Send takes time to leave; else it leaves in one step
    order : what the network keeps the order of: "pair", "slot" (of a pair), or nothing, ""
    linger : slots outlive datagrams of which something may be under way
    resets : nodes that may be reset
    without : rules taken away
    """

    nodes: int = 2
    paths: tuple[tuple[int, int], ...] = ((0, 1),)
    slots: int = 1
    entries: int = 1
    generations: int = 3
    incarnations: int = 1
    channel: int = 2
    acks: int = 2
    reply_depth: int = 1
    cancel: bool = False
    give_up: bool = False
    quarantine: bool = False
    best_effort: bool = False
    expects: bool = False
    reject: bool = False
    silent: bool = False
    leaving: bool = False
    orphans: bool = False
    order: str = "pair"
    linger: bool = False
    resets: tuple[int, ...] = ()
    without: frozenset[str] = field(default_factory=frozenset)


class Protocol:
    """The rules under a setting."""

    def __init__(self, setting: Setting):
        self.setting = setting

    def keeps(self, rule: str) -> bool:
        return rule not in self.setting.without

    def fresh(self, number: int, incarnation: int) -> Node:
        """A node after reset: nothing is remembered (R23)."""
        sends = any(number == sender for sender, _ in self.setting.paths)
        slot = Slot(launched=self.setting.generations - 1)
        return Node(number, incarnation, (slot,) * (self.setting.slots if sends else 0))

    # The host's side.

    def accept(self, node: Node, slot: int, destination: int, expect: int, mode: str, use: int) -> Step | None:
        """A datagram is accepted into a free slot."""
        now = node.slots[slot]
        if now.place != FREE:
            return None
        if self.keeps("R4") and node.leaving and node.leaving.uid.slot == slot:  # R4: a worm of it is still leaving
            return None
        uid = Uid(node.number, node.incarnation, slot, now.generation)
        datagram = Datagram(uid, destination, use)
        live = now._replace(place=LIVE, datagram=datagram, expect=expect, mode=mode, waits=NEW)
        node = _with_slot(node, slot, live)._replace(new=(*node.new, (slot, now.generation)))
        return Step("ACCEPT", uid, mode, node)

    def cancel(self, node: Node, slot: int) -> Step | None:
        """The host gives a datagram up.  R21: NEVER_SENT if nothing of it was launched, else UNKNOWN."""
        now = node.slots[slot]
        if now.place != LIVE or now.mode == REFUSED:
            return None
        launched = now.launched == now.generation and self.keeps("R21")
        return self._end(node, slot, "UNKNOWN" if launched else "NEVER_SENT", "CANCELLED")

    def complete(self, node: Node, slot: int) -> Step | None:
        """The host takes the completion.  R3: only then is the slot free; R5: an unknown end rests first."""
        now = node.slots[slot]
        if now.place != ENDED:
            return None
        status, _, cause = now.status.partition(" ")
        rests = status == "UNKNOWN" and cause != "BEST_EFFORT" and self.setting.quarantine and self.keeps("R5")
        rests = rests or (now.doubt and self.keeps("R28"))
        return Step("COMPLETE", self._uid(node, slot), now.status, self._free(node, slot, RESTING if rests else FREE))

    def rested(self, node: Node, slot: int) -> Step | None:
        """The quarantine of a slot is over."""
        now = node.slots[slot]
        if now.place != RESTING:
            return None
        about = self.past(node, slot) if now.doubt else self._uid(node, slot)
        return Step("RESTED", about, "", _with_slot(node, slot, now._replace(place=FREE, doubt=False)))

    # The transmitter: one worm after the other, from any of its three queues.

    def grant_reply(self, node: Node) -> Step | None:
        if node.leaving or not node.replies:
            return None
        message = node.replies[0]
        node = node._replace(replies=node.replies[1:])
        return Step(message.kind.upper(), message.uid, "", node, sent=message)

    def grant_repeat(self, node: Node) -> Step | None:
        if node.leaving or not node.repeats:
            return None
        return self._grant(node._replace(repeats=node.repeats[1:]), *node.repeats[0], first=False)

    def grant_new(self, node: Node) -> Step | None:
        if node.leaving or not node.new:
            return None
        slot, generation = node.new[0]
        now = node.slots[slot]
        if now.place == LIVE and now.generation == generation and now.mode == REFUSED:
            return None  # `finish` ends it
        return self._grant(node._replace(new=node.new[1:]), slot, generation, first=True)

    def pass_over(self, node: Node, *, first: bool) -> Step | None:
        """R27: what is granted to a silent node does not leave; its datagram waits for its end."""
        queue = node.new if first else node.repeats
        if node.leaving or not queue or not self.setting.silent:
            return None
        slot, generation = queue[0]
        now = node.slots[slot]
        if now.place != LIVE or now.generation != generation or now.mode == REFUSED:
            return None
        now = now._replace(waits=UNSENT if first else UNHEARD, launched=generation if first else now.launched)
        left = node._replace(new=node.new[1:]) if first else node._replace(repeats=node.repeats[1:])
        step = Step("PASS_OVER", self._uid(node, slot), "", _with_slot(left, slot, now))
        if first and not self.keeps("R27 unsent"):
            sent = Message("Send", node.number, now.datagram.destination, step.about, now.expect, now.datagram)
            return step._replace(sent=sent)
        return step

    def _grant(self, node: Node, slot: int, generation: int, *, first: bool) -> Step | None:
        now = node.slots[slot]
        if first:
            now = now._replace(launched=generation)
            node = _with_slot(node, slot, now)
        uid = Uid(node.number, node.incarnation, slot, generation)
        if now.place != LIVE or now.generation != generation:
            if self.keeps("R22"):  # R22: a Send whose datagram has ended is killed when it is granted
                return Step("KILLED", uid, "", node)
            if now.datagram is None:
                return None
            old = now.datagram._replace(uid=now.datagram.uid._replace(generation=generation))
            dead = Message("Send", node.number, now.datagram.destination, uid, now.expect, old)
            return Step("SEND", uid, "dead", node, sent=dead)
        kind = "BE" if now.mode == BEST_EFFORT else "Send"
        message = Message(kind, node.number, now.datagram.destination, uid, now.expect, now.datagram)
        # R20: of best effort nothing waits; R7: a Send waits for its repeat.
        waits = FINISH if kind == "BE" and self.keeps("R20") else TIMER
        node = _with_slot(node, slot, now._replace(waits=waits))
        if self.setting.leaving:
            return Step(kind.upper(), uid, "", node._replace(leaving=message))
        return Step(kind.upper(), uid, "", node, sent=message)

    def left(self, node: Node) -> Step | None:
        """The last flit of a Send has left: its payload was read from the slot until now (R4)."""
        if not node.leaving:
            return None
        message = node.leaving
        content = node.slots[message.uid.slot].datagram or message.content
        return Step("LEFT", message.uid, "", node._replace(leaving=None), sent=message._replace(content=content))

    # The sender's timers.

    def repeat(self, node: Node, slot: int) -> Step | None:
        """R7: a Send without an Ack is queued again when its time-out is over."""
        now = node.slots[slot]
        if now.place != LIVE or now.waits != TIMER or not self.keeps("R7"):
            return None
        node = _with_slot(node, slot, now._replace(waits=QUEUED, again=self.setting.linger))
        return Step("REPEAT", self._uid(node, slot), "", node._replace(repeats=(*node.repeats, (slot, now.generation))))

    def give_up(self, node: Node, slot: int, cause: str = "RETRY_LIMIT") -> Step | None:
        """Limit or deadline are reached when a time-out is over: UNKNOWN (R21)."""
        now = node.slots[slot]
        if now.place != LIVE or now.waits != TIMER:
            return None
        return self._end(node, slot, "UNKNOWN", cause)

    def finish(self, node: Node, slot: int, cause: str = "") -> Step | None:
        """Best effort has been sent, the record is refused, or the node is silent: the datagram has ended."""
        now = node.slots[slot]
        if now.place != LIVE or not (
            now.waits in (FINISH, UNSENT, UNHEARD)
            or (now.mode == REFUSED and node.new[:1] == ((slot, now.generation),))
        ):
            return None
        if now.mode == REFUSED:
            launched = _with_slot(node, slot, now._replace(launched=now.generation))
            return self._end(launched._replace(new=node.new[1:]), slot, "REJECTED", cause)
        if now.waits == FINISH:
            return self._end(node, slot, "UNKNOWN", "BEST_EFFORT")
        # R27: nothing was launched, if it is new.
        unsent = now.waits == UNSENT or not self.keeps("R27 unheard")
        return self._end(node, slot, "NEVER_SENT" if unsent else "UNKNOWN", "SILENT")

    def _end(self, node: Node, slot: int, status: str, cause: str) -> Step:
        now = node.slots[slot]
        doubt = self.setting.linger and status == "UNKNOWN" and cause != "BEST_EFFORT"
        ended = now._replace(
            place=ENDED, status=f"{status} {cause}", waits="", expect=ANY, again=False, doubt=doubt
        )  # fmt: skip
        seen = (status, now.datagram, 0)
        after = _with_slot(node, slot, ended)
        if not self.keeps("R3"):
            after = self._free(after, slot, FREE)
        return Step("GIVE_UP", self._uid(node, slot), cause, after, seen=seen)

    def _free(self, node: Node, slot: int, place: str) -> Node:
        """R1: a slot that is freed has the next generation."""
        now = node.slots[slot]
        generation = (now.generation + 1) % self.setting.generations if self.keeps("R1") else now.generation
        # The payload stays where it was; of interest only if dead Sends are not killed.
        memory = None if self.keeps("R22") else now.datagram
        return _with_slot(node, slot, Slot(place, generation, memory, launched=now.launched, doubt=now.doubt))

    def past(self, node: Node, slot: int) -> Uid:
        """The UID of a datagram whose slot rests."""
        now = node.slots[slot]
        return Uid(node.number, node.incarnation, slot, (now.generation - 1) % self.setting.generations)

    def _uid(self, node: Node, slot: int) -> Uid:
        return Uid(node.number, node.incarnation, slot, node.slots[slot].generation)

    # The receiver.

    def receive(self, node: Node, message: Message) -> Step:
        """A message with a good CRC acts (N1)."""
        if message.kind == "Ack":
            return self._receive_ack(node, message)
        if message.kind == "Forget":
            return self._receive_forget(node, message)
        if message.kind == "Reject":
            return self._receive_reject(node, message)
        # R14: a Send that expects another incarnation is dropped.
        if message.peer not in (ANY, node.incarnation) and self.keeps("R14"):
            step = Step("DROP", message.uid, "INCARNATION", node)
            if message.kind == "BE" or not self.setting.reject or not self.keeps("R26"):
                return step
            return self._reply(
                step, Message("Reject", node.number, message.uid.source, message.uid, node.incarnation, None)
            )
        if message.kind == "BE":  # R20: delivered, and no trace of it
            return Step("DELIVER_BE", message.uid, "", node, seen=_delivery(node, message))
        return self._receive_send(node, message)

    def _receive_send(self, node: Node, message: Message) -> Step:
        uid = message.uid
        if any(self._same(entry, uid) for entry in node.table):  # R11: a duplicate is not delivered
            if not self.keeps("R11"):
                return self._acknowledge(node, uid, Step("DELIVER", uid, "", node, seen=_delivery(node, message)))
            step = Step("DUPLICATE", uid, "", node)
            return self._acknowledge(node, uid, step) if self.keeps("R12") else step  # R12: but acknowledged
        kept = node.table
        if self.keeps("R6"):  # R6: one entry for each (source, slot): an older one is replaced
            kept = tuple(e for e in kept if (e.source, e.slot) != (uid.source, uid.slot))
        if len(kept) >= self.setting.entries:
            # R8: no entry, no delivery; R10: nothing is evicted.
            if not self.keeps("R8"):
                step = Step("DELIVER", uid, "without an entry", node, seen=_delivery(node, message))
                return self._acknowledge(node, uid, step)
            if self.keeps("R10"):
                # R9: what is not committed is not acknowledged.
                step = Step("DROP", uid, "TABLE_FULL", node)
                return step if self.keeps("R9") else self._acknowledge(node, uid, step)
            kept = kept[1:]
        node = node._replace(table=tuple(sorted((*kept, uid))))
        return self._acknowledge(node, uid, Step("DELIVER", uid, "", node, seen=_delivery(node, message)))

    def _same(self, entry: Uid, uid: Uid) -> bool:
        """Whether an entry is that of a UID (R11): source, slot, generation and incarnation."""
        same = (entry.source, entry.slot) == (uid.source, uid.slot)
        same = same and (entry.generation == uid.generation or not self.keeps("R11 generation"))
        return same and (entry.incarnation == uid.incarnation or not self.keeps("R11 incarnation"))

    def _receive_forget(self, node: Node, message: Message) -> Step:
        """A Forget erases an entry if generation (R17), incarnation (R18) and the receiver's (R19) match."""
        uid = message.uid
        for entry in node.table:
            if (
                (entry.source, entry.slot) == (uid.source, uid.slot)
                and (entry.generation == uid.generation or not self.keeps("R17"))
                and (entry.incarnation == uid.incarnation or not self.keeps("R18"))
                and (message.peer == node.incarnation or not self.keeps("R19"))
            ):
                left = tuple(e for e in node.table if e != entry)
                return Step("FORGOTTEN", uid, "", node._replace(table=left))
        return Step("FORGET_IGNORED", uid, "", node)

    def _receive_ack(self, node: Node, message: Message) -> Step:
        """An Ack ends what it is for, and is answered by a Forget in any case (R16)."""
        uid = message.uid
        event, after, seen = "ACK_IGNORED", node, None
        now = node.slots[uid.slot] if uid.slot < len(node.slots) else Slot()
        if self._answers(node, now, message, "R15"):
            event, seen = "RELEASE", ("ACCEPTED", now.datagram, message.peer)
            if now.place == ENDED:
                seen = ("ended twice", now.datagram, 0)
            # R28: what was sent more than once leaves its slot in doubt.
            now = now._replace(place=ENDED, status="ACCEPTED NONE", waits="", expect=ANY, again=False, doubt=now.again)
            after = _with_slot(node, uid.slot, now)
            if not self.keeps("R3"):
                after = self._free(after, uid.slot, FREE)
        step = Step(event, uid, "", after, seen=seen)
        if event == "ACK_IGNORED" and not self.keeps("R16"):
            return step
        if self.keeps("R29") and self._is_doubted(node, now, uid):
            return step
        forget = Message("Forget", node.number, message.sender, uid, message.peer, None)
        return self._reply(step, forget)

    def _is_doubted(self, node: Node, now: Slot, uid: Uid) -> bool:
        """R29: no Ack of a datagram is answered while its slot lingers."""
        own = self.past(node, uid.slot) if now.place == RESTING else self._uid(node, uid.slot)
        return now.doubt and own == uid

    def _answers(self, node: Node, now: Slot, message: Message, rule: str) -> bool:
        """R15, R26: live, with this generation, incarnation and destination, and exactly once."""
        uid = message.uid
        return (
            (now.place == LIVE or (now.place == ENDED and not self.keeps(f"{rule} live")))
            and (now.generation == uid.generation or not self.keeps(f"{rule} generation"))
            and (node.incarnation == uid.incarnation or not self.keeps(f"{rule} incarnation"))
            and (now.datagram.destination == message.sender or not self.keeps(f"{rule} destination"))
            and (now.mode == ONCE or not self.keeps(f"{rule} mode"))
        )

    def _receive_reject(self, node: Node, message: Message) -> Step:
        """R26: a REJECT ends what it is for as UNKNOWN, and nothing answers it."""
        uid = message.uid
        now = node.slots[uid.slot] if uid.slot < len(node.slots) else Slot()
        if not self._answers(node, now, message, "R26"):
            return Step("REJECT_IGNORED", uid, "", node)
        what = "ended twice" if now.place == ENDED else "RESTARTED"
        status = "UNKNOWN" if self.keeps("R26 unknown") else "NEVER_SENT"
        step = self._end(node, uid.slot, status, "RESTARTED")
        if status == "UNKNOWN":
            step = step._replace(seen=(what, now.datagram, message.peer, now.expect))
        return step

    # Replies.

    def ack_repeat(self, node: Node, entry: Uid) -> Step | None:
        """R13: an Ack is repeated by a timer until its entry is gone."""
        if not self.keeps("R13"):
            return None
        return self._acknowledge(node, entry, Step("ACK_REPEAT", entry, "", node))

    def orphan(self, node: Node, entry: Uid) -> Step:
        """The Ack limit is reached: the entry is reclaimed."""
        return Step("ORPHAN", entry, "", node._replace(table=tuple(e for e in node.table if e != entry)))

    def _acknowledge(self, node: Node, uid: Uid, step: Step) -> Step:
        return self._reply(step, Message("Ack", node.number, uid.source, uid, node.incarnation, None))

    def _reply(self, step: Step, message: Message) -> Step:
        """R24: a reply that finds its queue full is dropped, and everything else still happens."""
        if not self.setting.reply_depth:
            return step._replace(sent=message)
        if len(step.node.replies) >= self.setting.reply_depth:
            return step._replace(reply="dropped")
        return step._replace(node=step.node._replace(replies=(*step.node.replies, message)), reply="queued")

    # All that a node may do by itself.

    def moves(self, node: Node) -> list[Step]:
        found = [self.grant_reply(node), self.grant_repeat(node), self.grant_new(node), self.left(node)]
        found += [self.pass_over(node, first=first) for first in (False, True)]
        for slot in range(len(node.slots)):
            found += [self.repeat(node, slot), self.finish(node, slot)]
            found += [self.complete(node, slot), self.rested(node, slot)]
            if self.setting.give_up:
                found.append(self.give_up(node, slot))
            if self.setting.cancel:
                found.append(self.cancel(node, slot))
        found += [self.ack_repeat(node, entry) for entry in node.table]
        return [step for step in found if step is not None]


def _with_slot(node: Node, number: int, slot: Slot) -> Node:
    slots = list(node.slots)
    slots[number] = slot
    return node._replace(slots=tuple(slots))


def _delivery(node: Node, message: Message) -> tuple:
    return ("delivered", message.content, node.incarnation, message.uid, message.peer)
