"""Headers, and what is told: control that goes to a hop, and events."""

from lethe.spec.events import RELAY_RELAYS, RELAY_TELLS, Event
from lethe.spec.services.relay import HEADER, Type
from lethe.spec.trace import fields
from lethe_sim.golden.compile import jit
from lethe_sim.golden.events import event_word, extra
from lethe_sim.golden.lib import queue
from lethe_sim.golden.lib.bits import U0, get, put
from lethe_sim.golden.ni.layouts import pack_uid
from lethe_sim.golden.record import raw
from lethe_sim.golden.services import site

from .state import CONTROL_OUT, Moving, RelayHeader, route_at

#: Bytes of a header.
HEADER_BYTES = 16
#: The bits of a uid that events show.
LOW_UID = 0xFFFF
_SIZE = RelayHeader.size
(
    _TYPE, _REPLAY, _MORE, _THRU, _CLS, _DEPTH, _, _SOURCE, _TARGET, _INCARNATION, _SLOT, _PREV, _UID,
) = fields(HEADER).values()  # fmt: skip


@jit
def read(s, base, header, uid_mask):
    """The header among the words."""
    words = s.words
    header.type = get(words, base, _TYPE.shift, _TYPE.bits)
    header.replay = get(words, base, _REPLAY.shift, _REPLAY.bits)
    header.more = get(words, base, _MORE.shift, _MORE.bits)
    header.thru = get(words, base, _THRU.shift, _THRU.bits)
    header.cls = get(words, base, _CLS.shift, _CLS.bits)
    header.depth = get(words, base, _DEPTH.shift, _DEPTH.bits)
    header.source = get(words, base, _SOURCE.shift, _SOURCE.bits)
    header.target = get(words, base, _TARGET.shift, _TARGET.bits)
    header.incarnation = get(words, base, _INCARNATION.shift, _INCARNATION.bits) & s.k.incarnation_mask
    header.slot = get(words, base, _SLOT.shift, _SLOT.bits)
    header.prev = get(words, base, _PREV.shift, _PREV.bits) & uid_mask
    header.uid = get(words, base, _UID.shift, _UID.bits) & uid_mask


@jit
def write(s, base, header):
    """The header as words."""
    words = s.words
    words[base], words[base + 1] = U0, U0
    put(words, base, _TYPE.shift, _TYPE.bits, header.type)
    put(words, base, _REPLAY.shift, _REPLAY.bits, header.replay)
    put(words, base, _MORE.shift, _MORE.bits, header.more)
    put(words, base, _THRU.shift, _THRU.bits, header.thru)
    put(words, base, _CLS.shift, _CLS.bits, header.cls)
    put(words, base, _DEPTH.shift, _DEPTH.bits, header.depth)
    put(words, base, _SOURCE.shift, _SOURCE.bits, header.source)
    put(words, base, _TARGET.shift, _TARGET.bits, header.target)
    put(words, base, _INCARNATION.shift, _INCARNATION.bits, header.incarnation)
    put(words, base, _SLOT.shift, _SLOT.bits, header.slot)
    put(words, base, _PREV.shift, _PREV.bits, header.prev)
    put(words, base, _UID.shift, _UID.bits, header.uid)


@jit
def copied(into, of):
    """Copy a header."""
    site.copy(_SIZE, raw(into), raw(of))


@jit
def blank(relay, kind):
    """The header that is to be told, with nothing but its type."""
    out = relay.out[0]
    for place in range(_SIZE):
        raw(out)[place] = 0
    out.type = kind
    return out


@jit
def of_heard(relay, kind):
    """One of this type about the message that was heard of."""
    out, heard = blank(relay, kind), relay.heard[0]
    out.cls, out.source, out.target = heard.cls, heard.source, heard.target
    out.incarnation, out.slot, out.prev, out.uid = heard.incarnation, heard.slot, heard.prev, heard.uid
    return out


@jit
def of_slot(s, relay, kind, slot):
    """One about an own message."""
    out = blank(relay, kind)
    out.cls, out.source, out.target, out.incarnation = slot.cls, s.node, slot.target, s.incarnation
    out.prev, out.uid = slot.prev, slot.uid
    return out


@jit
def of_entry(relay, kind, entry):
    """One about a record's message."""
    out = blank(relay, kind)
    out.cls, out.source, out.target, out.incarnation = entry.cls, entry.source, entry.target, entry.incarnation
    out.slot, out.prev, out.uid = entry.slot, entry.prev, entry.uid
    return out


@jit
def detail(header):
    """The detail of an event about control."""
    return header.type << 3 | header.thru << 2 | header.more << 1 | header.replay


@jit
def name(header):
    """The UID of the message that a header is about."""
    return 0 if header.type == Type.PULL else pack_uid(header.source, header.incarnation, header.slot, 0)


@jit
def has_room(s, relay):
    """Whether the queue of control has room beside that for answers."""
    return queue.memory_level(relay.telling[0], s.cycle) <= relay.control_depth >> 1


@jit
def told(s, relay, hop):
    """The header goes to a hop; returns whether there was room for it."""
    out, event = relay.out[0], Event.RELAY_TOLD
    out.hop = hop
    waiting = relay.telling[0]
    if relay.control == Moving.IDLE and waiting.level == 0:
        give_control(s, relay, out)
    elif queue.memory_level(waiting, s.cycle) < relay.control_depth:
        place = queue.place_in(waiting, relay.control_depth + 1, waiting.level)
        copied(RelayHeader(relay, relay.at_telling, place), out)
        queue.added(waiting, 1, s.cycle)
    else:
        event = Event.RELAY_DROPPED
    shown = 0 if out.type == Type.PULL else out.uid & LOW_UID
    site.tell(s, RELAY_TELLS, event_word(event, detail(out), hop, 0), extra(shown), name(out))
    return event == Event.RELAY_TOLD


@jit
def give_control(s, relay, header):
    """The transfer of control has a header."""
    copied(relay.told_control[0], header)
    write(s, CONTROL_OUT, header)
    relay.control, relay.control_beat = Moving.RECORD, 0


@jit
def told_to(s, relay, node):
    """To the route to a node; returns whether it went."""
    hop = route_at(relay, node).hop
    return told(s, relay, hop) if hop != s.node else False


@jit
def passed_to(s, relay, node):
    """The same, but not back to where it came from."""
    hop = route_at(relay, node).hop
    return told(s, relay, hop) if hop not in (s.node, relay.heard[0].hop) else False


@jit
def told_up(s, relay):
    """To the route to the source."""
    told_to(s, relay, relay.out[0].source)


@jit
def message_event(s, lane, event, peer, length, message):
    """An event about a message: a header, a record, or a cell."""
    packed = pack_uid(message.source, message.incarnation, message.slot, 0)
    site.tell(s, lane, event_word(event, 0, peer, length), extra(message.uid & LOW_UID), packed)


@jit
def relay_event(s, event, message, length):
    """One of lane relay."""
    message_event(s, RELAY_RELAYS, event, message.target, length, message)
