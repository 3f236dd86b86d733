"""What acts on the send table: Acks (section 4.4), and the requests that end or repeat a datagram (section 4.5)."""

from lethe.spec.events import Cause, Event, Kind, Status
from lethe.spec.stages import ACCEPT_ACTS, ACCEPT_JUDGED
from lethe_sim.golden.compile import jit
from lethe_sim.golden.fabric.topology import distance_class
from lethe_sim.golden.lib import queue
from lethe_sim.golden.state import NEVER, Queues, Request

from . import layouts, linger, paths, round_trip, send_table, silence, transmitter


@jit
def act_ack(k, ni, cycle, message, uid):
    """An Ack: it ends its datagram if that is live here; a Forget goes back (IMP-22), unless the slot is in doubt."""
    source, responder = message.source, message.peer_incarnation
    event, doubted = Event.ACK_IGNORED, linger.is_doubted(k, ni, cycle, message)
    silence.heard(k, ni, cycle, source)
    if answers(k, ni, cycle, message):
        event = Event.RELEASE
        distance = distance_class(k, ni.number, source)
        paths.came_through(k, ni, cycle, source, message.path)
        round_trip.sample(k, ni, cycle, message.slot, distance, message.attempt)
        send_table.complete(k, ni, cycle, message.slot, Status.ACCEPTED, Cause.NONE, responder)
        doubted = linger.is_doubted(k, ni, cycle, message)
    if not doubted:
        transmitter.reply(k, ni, cycle, Kind.FORGET, source, uid, responder, message.attempt, message.path)
    return event


@jit
def answers(k, ni, cycle, message):
    """Whether an Ack or a REJECT is for a datagram that is live here."""
    datagram = send_table.slot_of(k, ni, message.slot)
    return (
        send_table.is_live(datagram, message.generation, cycle - ACCEPT_ACTS)
        and datagram.destination == message.source
        and message.incarnation == ni.incarnation_now
        and datagram.mode == 0
        and datagram.cause == 0
    )


@jit
def act_reject(k, ni, cycle, message):
    """A REJECT: it ends the datagram that it is for (section 4.13); returns (event, detail)."""
    silence.heard(k, ni, cycle, message.source)
    if not answers(k, ni, cycle, message):
        return Event.REJECT_IGNORED, 0
    send_table.complete(k, ni, cycle, message.slot, Status.UNKNOWN, Cause.RESTARTED, message.peer_incarnation)
    return Event.GIVE_UP, Cause.RESTARTED


@jit
def is_waited_for(k, ni, token):
    """Whether the datagram of a token is live now."""
    life, _ = layouts.unpack_token(token)
    slot, generation = layouts.unpack_life(life)
    return send_table.is_live(send_table.slot_of(k, ni, slot), generation, NEVER - 1)


@jit
def act_request(k, ni, ev, cycle, request, a, b):
    """A request that names a life acts, if that is live: FINISH, SEND or CANCEL."""
    life = a if request == Request.CANCEL else a >> 8
    slot, generation = layouts.unpack_life(life)
    if slot >= k.slots:
        return
    datagram = send_table.slot_of(k, ni, slot)
    if not send_table.is_live(datagram, generation, cycle - ACCEPT_ACTS):
        return
    if request == Request.FINISH:
        _, status, cause = layouts.unpack_finish(a)
        send_table.give_up(k, ni, ev, cycle, slot, status, cause)
    elif request == Request.SEND:
        act_send_timer(k, ni, ev, cycle, slot, a, b)
    elif datagram.cause == 0:  # a refused record completes as REJECTED
        launched = datagram.launched >= datagram.since + ACCEPT_JUDGED
        status = Status.UNKNOWN if launched else Status.NEVER_SENT
        send_table.give_up(k, ni, ev, cycle, slot, status, Cause.CANCELLED)


@jit
def act_send_timer(k, ni, ev, cycle, slot, token, path):
    """The Send timer of a live datagram expired, whose last Send took ``path``: send it again, or give up."""
    datagram = send_table.slot_of(k, ni, slot)
    life, tries = layouts.unpack_token(token)
    if datagram.retry_limit != 0 and tries >= datagram.retry_limit:
        send_table.give_up(k, ni, ev, cycle, slot, Status.UNKNOWN, Cause.RETRY_LIMIT)
    elif 0 <= datagram.deadline <= cycle - ni.time_zero:
        send_table.give_up(k, ni, ev, cycle, slot, Status.UNKNOWN, Cause.DEADLINE)
    else:
        tries = paths.next_tries(k, tries)
        datagram.again = k.linger > 0
        # The queue is full only if generations recur too soon.  Then this repeat is lost.
        if queue.level(k, ni, Queues.REPEATS, cycle) < k.slots:
            queue.push(k, ni, Queues.REPEATS, layouts.pack_token(life, tries), 0, cycle)
        send_table.slot_event(k, ni, ev, cycle, slot, Event.REPEAT, tries)
        silence.repeated(k, ni, cycle, datagram.destination)
        paths.repeated(k, ni, cycle, datagram.destination, path)
