"""At most one acts in a cycle: the message that ended six cycles before (section 4.4), else the internal request."""

from lethe.spec.events import LANE_RX, Drop, Event, Kind
from lethe_sim.golden.compile import jit
from lethe_sim.golden.events import emit, event_word
from lethe_sim.golden.state import AHEAD, Request

from . import deliver, layouts, receive_side, send_side
from .receiver import message_of, verdict


@jit
def act_message(k, ni, ev, cycle, ack_room, refusal):
    """What the message that ended in time to act in ``cycle`` does, a service saying ``refusal``."""
    message = message_of(k, ni, cycle)
    kind, source = message.kind, message.source
    owner = message.destination if kind in (Kind.ACK, Kind.REJECT) else source
    uid = layouts.pack_uid(owner, message.incarnation, message.slot, message.generation)
    length = message.length if kind in (Kind.SEND, Kind.BE) else 0
    detail = verdict(k, ni, cycle, message)
    if detail != 0:
        event = Event.DROP
        if detail == Drop.RESETTING or detail <= Drop.LENGTH:
            source, uid, length = 0, 0, 0
        elif k.reject and kind == Kind.SEND and detail == Drop.INCARNATION:
            receive_side.reject(k, ni, cycle, message, uid)
    elif kind == Kind.SEND:
        event, detail = receive_side.act_send(k, ni, cycle, message, uid, ack_room, refusal)
    elif kind == Kind.BE:
        event, detail = receive_side.act_best_effort(k, ni, cycle, message, refusal)
    elif kind == Kind.FORGET:
        event = receive_side.act_forget(k, ni, cycle, message, uid)
    elif kind == Kind.ACK:
        event = send_side.act_ack(k, ni, cycle, message, uid)
    else:
        event, detail = send_side.act_reject(k, ni, cycle, message)
    deliver.drop(ni)
    emit(ev, cycle, ni.number, LANE_RX, event_word(event, detail, source, length), uid)


@jit
def act_request(k, ni, ev, cycle):
    """The request that was chosen in time to act in ``cycle`` acts."""
    pending = ni.requests[cycle & AHEAD - 1]
    kind, a, b = pending.kind, pending.a, pending.b
    if kind == Request.ACK:
        receive_side.act_ack_timer(k, ni, ev, cycle, a, b)
    elif kind == Request.SWEEP:
        receive_side.act_sweep(k, ni, ev, cycle, a)
    else:
        send_side.act_request(k, ni, ev, cycle, kind, a, b)
