"""What acts on the receive table: Sends and Forgets (section 4.4), best effort, and Ack timers (section 4.5)."""

import numpy as np

from lethe.spec.events import ACCEPTANCE, LANE_RX, Drop, Event, Kind
from lethe.spec.stages import CHOSEN
from lethe_sim.golden.compile import jit
from lethe_sim.golden.events import emit, event_word
from lethe_sim.golden.fabric.topology import distance_class
from lethe_sim.golden.lib import queue
from lethe_sim.golden.state import ACK_LADDER, Queues

from . import deliver, ladder, layouts, paths, receive_table, transmitter
from .receiver import from_cycle

_REASONS = np.array(ACCEPTANCE, np.int64)


@jit
def judge_send(k, ni, cycle, message, uid, ack_room, refusal):
    """What becomes of a sound Send, a service saying ``refusal``: (event, detail, entry)."""
    way = receive_table.find(k, ni, message.source, message.slot)
    if receive_table.holds(k, ni, way, uid):
        return Event.DUPLICATE, 0, way
    if way < 0:
        way = receive_table.vacant(k, ni, message.source, message.slot)
        if way < 0:
            return Event.DROP, Drop.TABLE_FULL, way
    if deliver_full(k, ni, cycle, message):
        return Event.DROP, Drop.DELIVER_FULL, way
    if not ack_room:
        return Event.DROP, Drop.TIMER_FULL, way
    reason = refused(k, message, refusal)
    return (Event.DROP, reason, way) if reason else (Event.DELIVER, 0, way)


@jit
def refused(k, message, refusal):
    """Why a message is dropped that nothing else stops, or 0: services refuse data only (section 4.16)."""
    if k.acceptance and refusal and deliver.fifo_of(k, message.cls) == 0:
        return _REASONS[refusal]
    return 0


@jit
def act_send(k, ni, cycle, message, uid, ack_room, refusal):
    """A Send: allocate, deliver, then acknowledge, in one step (T8, T9); returns (event, detail)."""
    source, attempt, path = message.source, message.attempt, message.path
    event, detail, way = judge_send(k, ni, cycle, message, uid, ack_room, refusal)
    if event == Event.DROP:
        if k.reject and detail == Drop.NOT_OPEN:
            reject(k, ni, cycle, message, uid)
        return event, detail
    if event == Event.DUPLICATE:
        transmitter.reply(k, ni, cycle, Kind.ACK, source, uid, ni.incarnation_now, attempt, path)
        return event, detail
    receive_table.store(k, ni, cycle, way, uid)
    commit(k, ni, cycle, message)
    transmitter.reply(k, ni, cycle, Kind.ACK, source, uid, ni.incarnation_now, attempt, path)
    distance = distance_class(k, ni.number, source)
    due = cycle - ni.time_zero + ladder.delay_of(k, ni, cycle, distance, 0)
    rung = ladder.rung_of(k, distance, 0)
    ladder.push(k, ni, ACK_LADDER, cycle, rung, due, uid, layouts.pack_ack_token(way, path, attempt, 0))
    return Event.DELIVER, 0


@jit
def reject(k, ni, cycle, message, uid):
    """A Send expects an incarnation that is gone, or a service does not know it: its sender is told (section 4.13)."""
    attempt, path = message.attempt, message.path
    transmitter.reply(k, ni, cycle, Kind.REJECT, message.source, uid, ni.incarnation_now, attempt, path)


@jit
def judge_best_effort(k, ni, cycle, message, refusal):
    """Why a sound datagram of best effort is dropped, or 0."""
    return Drop.DELIVER_FULL if deliver_full(k, ni, cycle, message) else refused(k, message, refusal)


@jit
def act_best_effort(k, ni, cycle, message, refusal):
    """A datagram of best effort: deliver it; returns (event, detail)."""
    reason = judge_best_effort(k, ni, cycle, message, refusal)
    if reason:
        return Event.DROP, reason
    commit(k, ni, cycle, message)
    return Event.DELIVER_BE, 0


@jit
def deliver_full(k, ni, cycle, message):
    """Whether the payload or its record finds no room."""
    fifo = deliver.fifo_of(k, message.cls)
    return ni.overflow != 0 or queue.level(k, ni, Queues.DELIVER + fifo, cycle) >= deliver.records_limit(k, fifo)


@jit
def commit(k, ni, cycle, message):
    """Commit the message's payload and record."""
    fifo = deliver.fifo_of(k, message.cls)
    record = layouts.pack_record(message.source, message.incarnation, message.cls, message.length)
    deliver.commit(k, ni, cycle, fifo, record)


@jit
def act_forget(k, ni, cycle, message, uid):
    """A Forget: it erases the entry that it names; returns the event."""
    way = receive_table.find(k, ni, message.source, message.slot)
    if receive_table.holds(k, ni, way, uid) and message.peer_incarnation == ni.incarnation_now:
        receive_table.erase(k, ni, cycle, way)
        return Event.FORGOTTEN
    return Event.FORGET_IGNORED


@jit
def is_waited_for(k, ni, cycle, uid, token):
    """Whether a token that is chosen in ``cycle``, the next one, may find its entry when it acts: it is there, or a
    message may write it until then.
    """
    way, _, _, _ = layouts.unpack_ack_token(token)
    return receive_table.holds(k, ni, way, uid) or from_cycle(ni.ends, cycle) & (1 << CHOSEN) - 1 != 0


@jit
def act_ack_timer(k, ni, ev, cycle, uid, token):
    """The Ack timer of an entry expired: acknowledge again, or reclaim an orphan (T12)."""
    way, path, attempt, tries = layouts.unpack_ack_token(token)
    if not receive_table.holds(k, ni, way, uid):
        return
    source, _, _, _ = layouts.unpack_uid(uid)
    if k.ack_limit != 0 and tries >= k.ack_limit:
        receive_table.erase(k, ni, cycle, way)
        emit(ev, cycle, ni.number, LANE_RX, event_word(Event.ORPHAN, 0, source, 0), uid)
        return
    tries = paths.next_tries(k, tries)
    now = paths.path_of(k, path, tries)
    transmitter.reply(k, ni, cycle, Kind.ACK, source, uid, ni.incarnation_now, attempt, now)
    distance = distance_class(k, ni.number, source)
    due = cycle - ni.time_zero + ladder.delay_of(k, ni, cycle, distance, tries)
    rung = ladder.rung_of(k, distance, tries)
    ladder.push(k, ni, ACK_LADDER, cycle, rung, due, uid, layouts.pack_ack_token(way, path, attempt, tries))
    emit(ev, cycle, ni.number, LANE_RX, event_word(Event.ACK_REPEAT, tries, source, 0), uid)


@jit
def finds_nothing(k, ni, cycle, source):
    """Whether the step of a sweep that acts in ``cycle`` goes on to the next set (section 4.17)."""
    number = ni.sweep_index
    return not receive_table.has_changed(k, ni, cycle, number) and receive_table.entry_of(k, ni, number, source) < 0


@jit
def act_sweep(k, ni, ev, cycle, source):
    """A step of a sweep: it erases an entry of the source, or goes on to the next set."""
    number = ni.sweep_index
    if finds_nothing(k, ni, cycle, source):
        ni.sweep_index = number + 1 & (1 << k.sets_log) - 1
    elif not receive_table.has_changed(k, ni, cycle, number):
        way = receive_table.entry_of(k, ni, number, source)
        uid = receive_table.entries(k, ni)[way]
        receive_table.erase(k, ni, cycle, way)
        emit(ev, cycle, ni.number, LANE_RX, event_word(Event.SWEPT, 0, source, 0), uid)
