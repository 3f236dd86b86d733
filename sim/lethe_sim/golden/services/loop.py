"""The loop (section 10.1): what a node sends to itself goes from its host to its host."""

from enum import IntEnum
from typing import Any

import numpy as np

from lethe.spec.config import System
from lethe.spec.events import LOOP_ACCEPT, LOOP_DONE, LOOP_TAKEN, Cause, Event, Mode, Status
from lethe.spec.ports import HostPort
from lethe.spec.services import LOOP
from lethe_sim.golden.compile import at, jit
from lethe_sim.golden.events import ending, event_word, extra
from lethe_sim.golden.lib import queue
from lethe_sim.golden.lib.bits import U0, cut
from lethe_sim.golden.ni.accept import payload_flits
from lethe_sim.golden.ni.choose import all_ones
from lethe_sim.golden.ni.host_port import Flow
from lethe_sim.golden.ni.layouts import pack_uid
from lethe_sim.golden.record import Record, records
from lethe_sim.golden.state import NEVER, Queue

from . import site
from .site import tell

_FLAGS, _LAST_MODE = LOOP.flags, int(max(Mode))
(
    _SEND_READY, _DATA_READY, _COMPLETION, _DELIVER, _DELIVER_DATA, _DELIVER_LAST, _CANCEL_READY, _IDLE,
) = (1 << bit for bit in range(len(LOOP.flag_bits)))  # fmt: skip


class State(IntEnum):
    """States."""

    IDLE = 0
    BELOW = 1
    BEATS = 2
    DONE = 3


class Loop(Record):
    """A loop: its sizes, then its state.  Behind it lie the rings of its queues."""

    slots: int
    flits: int
    first: int  # the first of its slots
    stream: int  # the number of its deliver stream
    next_slot: int
    next_generation: int
    held: int  # the own completion was shown in the cycle before, and not taken
    slot: int  # of the record that was taken last
    generation: int
    cls: int
    length: int
    tag: int
    cause: int  # why it is refused, or 0
    uncommitted: int  # beats of it
    # These are looked at in every cycle, and lie together.
    state: int
    due: int  # beats
    live: int
    beats: Any = records(Queue, 1)
    deliveries: Any = records(Queue, 1)
    completions: Any = records(Queue, 1)


class Beat(Record):
    """A beat that waits, beside its two words."""

    last: int


class Delivered(Record):
    """A record that waits for the host."""

    incarnation: int
    cls: int
    length: int


class Completed(Record):
    """A completion that waits for the host; ``cause`` is 0 if the datagram was accepted."""

    slot: int
    generation: int
    tag: int
    cause: int
    incarnation: int


_BEATS, _BEAT, _DELIVERED = Loop.size, Beat.size, Delivered.size


def numbers(system: System, below: HostPort) -> np.ndarray:
    """What a loop begins with."""
    slots, flits = system.loop.slots, system.loop_flits
    found = np.zeros(Loop.size + (flits + 1) * Beat.size + (slots + 1) * (Delivered.size + Completed.size), np.int64)
    loop = Loop(found)
    loop.slots, loop.flits, loop.first, loop.stream = slots, flits, below.slots, len(below.delivers)
    start(loop)
    return found


def words(system: System, below: HostPort) -> int:
    """Words of its beats."""
    return 2 * (system.loop_flits + 1)


@jit
def start(loop):
    """All state as after system reset."""
    loop.state, loop.due, loop.live, loop.held, loop.uncommitted = State.IDLE, 0, 0, 0, 0
    loop.next_slot, loop.next_generation = loop.first, 0
    for queued in (loop.beats[0], loop.deliveries[0], loop.completions[0]):
        queued.head, queued.level, queued.visible = 0, 0, 0


@jit
def beat_at(loop, behind):
    """A beat, counted from the one at the output."""
    return Beat(loop, _BEATS, queue.place_in(loop.beats[0], loop.flits + 1, behind))


@jit
def delivered_at(loop, behind):
    """A record that waits for the host."""
    place = queue.place_in(loop.deliveries[0], loop.slots + 1, behind)
    return Delivered(loop, _BEATS + (loop.flits + 1) * _BEAT, place)


@jit
def completed_at(loop, behind):
    """An own completion."""
    place = queue.place_in(loop.completions[0], loop.slots + 1, behind)
    return Completed(loop, _BEATS + (loop.flits + 1) * _BEAT + (loop.slots + 1) * _DELIVERED, place)


@jit
def is_own(s):
    """Whether an own record is offered."""
    return s.above.drives.send_valid and s.above.drives.destination == s.node


@jit
def refusal(s):
    """Why the own record that is offered is refused, or 0."""
    offered, expected = s.above.drives, s.above.drives.expect & s.k.incarnation_mask
    if offered.mode > _LAST_MODE:
        return Cause.MODE
    if offered.length > s.k.mtu:
        return Cause.LENGTH
    if expected not in (0, s.incarnation):
        return Cause.RESTARTED
    return 0


@jit
def has_room(s, loop):
    """Whether the own record that is offered would be taken."""
    if not s.below.shows.ready or s.above.drives.quiesce or loop.live >= loop.slots:
        return False
    if queue.memory_level(loop.deliveries[0], s.cycle) >= loop.slots:
        return False
    room = loop.flits - queue.memory_level(loop.beats[0], s.cycle)
    return refusal(s) != 0 or room >= payload_flits(s.k, s.above.drives.length)


@jit
def names_own(s, loop):
    """Whether what is offered on `cancel` names one of the loop's slots."""
    return s.above.drives.cancel_slot & all_ones(loop.first + loop.slots - 1) >= loop.first


@jit
def shows_completion(s, loop):
    """Whether the completion that is shown above is an own one."""
    own = queue.shows(loop.completions[0], s.cycle)
    return own and (loop.held or not s.below.shows.completion_valid)


@jit
def accepts(s, loop):
    """Whether this is the last cycle of DONE."""
    return loop.state == State.DONE and not s.below.shows.accepted_valid


@jit
def rests(s):
    """No own datagram is anywhere, none is offered, and none is to be cancelled."""
    loop = Loop(s.numbers)
    if loop.live | loop.deliveries[0].level | loop.beats[0].level:
        return False
    return not is_own(s) and not (s.above.drives.cancel_valid and names_own(s, loop))


@jit
def passed(s, done):
    """Beats are due of a record that went to the NI."""
    if done & Flow.CONTROL:
        return
    if done & Flow.SEND:
        pass_record(s, Loop(s.numbers))
    elif done & Flow.DATA:
        pass_beat(Loop(s.numbers))


@jit
def offer(s):
    """Below go records for others, and the beats behind them."""
    loop, below = Loop(s.numbers), s.below.drives
    site.pass_offers(s)
    if loop.state != State.IDLE or is_own(s):
        site.withdraw_record(s.below)
    if loop.state != State.BELOW:
        site.withdraw_beat(s.below)
    if names_own(s, loop):
        below.cancel_valid, below.cancel_slot, below.cancel_generation = 0, 0, 0


@jit
def show(s):
    """Above are, in addition, the own datagrams' acceptances and completions, and the stream of deliveries."""
    loop, shown = Loop(s.numbers), s.above.shows
    site.pass_shown(s)
    if loop.state != State.IDLE:
        shown.send_ready = 0
    elif is_own(s):
        shown.send_ready = has_room(s, loop)
    if loop.state != State.BELOW:
        shown.data_ready = loop.state == State.BEATS
    if names_own(s, loop):
        shown.cancel_ready = 1
    if accepts(s, loop):
        shown.accepted_valid, shown.accepted_control = 1, 0
        shown.accepted_slot, shown.accepted_generation, shown.accepted_tag = loop.slot, loop.generation, loop.tag
    if shows_completion(s, loop):
        ended = completed_at(loop, 0)
        shown.completion_valid, shown.slot, shown.generation = 1, ended.slot, ended.generation
        shown.destination, shown.tag, shown.cause = s.node, ended.tag, ended.cause
        shown.status = Status.REJECTED if ended.cause else Status.ACCEPTED
        shown.peer_incarnation = ended.incarnation
    delivery, record = s.above.delivers[loop.stream], delivered_at(loop, 0)
    delivery.valid = queue.shows(loop.deliveries[0], s.cycle)
    delivery.source, delivery.incarnation = s.node, record.incarnation
    delivery.cls, delivery.length = record.cls, record.length
    delivery.data_valid = queue.shows(loop.beats[0], s.cycle)
    if delivery.data_valid:
        words_of_it = at(s.words, 2 * queue.place_in(loop.beats[0], loop.flits + 1, 0))
        s.above.beats[2 * loop.stream], s.above.beats[2 * loop.stream + 1] = words_of_it[0], words_of_it[1]
        delivery.last = beat_at(loop, 0).last


@jit
def take(s):
    """While an own completion is shown, none is taken below."""
    loop = Loop(s.numbers)
    site.pass_readies(s)
    if shows_completion(s, loop):
        s.below.drives.completion_ready = 0


@jit
def step(s):
    """What is taken goes first, then what is offered is taken."""
    loop = Loop(s.numbers)
    step_deliveries(s, loop)
    step_completions(s, loop)
    if loop.state == State.IDLE:
        if site.takes_record(s.above):
            take_record(s, loop)
    elif loop.state == State.DONE:
        if not s.below.shows.accepted_valid:
            end(s, loop)
            loop.state = State.IDLE
    elif site.takes_beat(s.above):
        take_beat(s, loop)


@jit
def step_deliveries(s, loop):
    """The host takes from the deliver stream."""
    if site.takes_delivery(s.above, loop.stream):
        record = delivered_at(loop, 0)
        detail = record.incarnation if s.k.source_incarnation else 0
        tell(s, LOOP_TAKEN, event_word(Event.LOOP_TAKE, detail, s.node, record.length), U0, 0)
        queue.removed(loop.deliveries[0], loop.slots + 1, s.cycle)
    if site.takes_delivered_beat(s.above, loop.stream):
        queue.removed(loop.beats[0], loop.flits + 1, s.cycle)


@jit
def step_completions(s, loop):
    """An own completion is shown, and taken or held."""
    loop_shows = shows_completion(s, loop)
    loop.held = loop_shows and not s.above.drives.completion_ready
    if not loop_shows or loop.held:
        return
    ended = completed_at(loop, 0)
    status = Status.REJECTED if ended.cause else Status.ACCEPTED
    incarnation = s.incarnation if ended.cause else ended.incarnation
    word = event_word(Event.LOOP_COMPLETE, ending(status, ended.cause), s.node, 0)
    tell(s, LOOP_DONE, word, extra(ended.tag), pack_uid(s.node, incarnation, ended.slot, ended.generation))
    queue.removed(loop.completions[0], loop.slots + 1, s.cycle)
    loop.live -= 1


@jit
def pass_record(s, loop):
    """The NI takes a record."""
    loop.due = payload_flits(s.k, s.above.drives.length)
    loop.state = State.BELOW if loop.due > 0 else State.IDLE


@jit
def pass_beat(loop):
    """The NI takes a beat of it."""
    loop.due -= 1
    if loop.due == 0:
        loop.state = State.IDLE


@jit
def take_record(s, loop):
    """The handshake of a record, own or not."""
    if not is_own(s):
        pass_record(s, loop)
        return
    offered = s.above.drives
    loop.due = payload_flits(s.k, offered.length)
    loop.state = State.BEATS if loop.due > 0 else State.DONE
    loop.cause, loop.length, loop.uncommitted = refusal(s), offered.length, 0
    loop.cls, loop.tag = offered.cls & s.k.class_mask, offered.tag & s.k.tag_mask
    loop.slot, loop.generation = loop.next_slot, loop.next_generation
    loop.live += 1
    loop.next_slot += 1
    if loop.next_slot == loop.first + loop.slots:
        loop.next_slot, loop.next_generation = loop.first, loop.generation + 1 & s.k.generation_mask


@jit
def take_beat(s, loop):
    """The handshake of a beat: the NI has it, or it is stored uncommitted."""
    if loop.state == State.BELOW:
        pass_beat(loop)
        return
    loop.due -= 1
    if not loop.cause:
        behind = loop.beats[0].level + loop.uncommitted
        left = 8 * loop.length - loop.uncommitted * s.k.flit_bits
        words_of_it = at(s.words, 2 * queue.place_in(loop.beats[0], loop.flits + 1, behind))
        words_of_it[0], words_of_it[1] = cut(s.k.flit_bits, s.above.beat[0], s.above.beat[1], left)
        beat_at(loop, behind).last = loop.due == 0
        loop.uncommitted += 1
    if loop.due == 0:
        loop.state = State.DONE


@jit
def end(s, loop):
    """A datagram is accepted; unless it is refused, it is delivered."""
    incarnation = 0 if loop.cause else s.incarnation
    if not loop.cause:
        uid = pack_uid(s.node, incarnation, loop.slot, loop.generation)
        tell(s, LOOP_ACCEPT, event_word(Event.LOOPED, 0, s.node, loop.length), extra(loop.tag), uid)
        if loop.uncommitted > 0:
            queue.added(loop.beats[0], loop.uncommitted, s.cycle)
        record = delivered_at(loop, loop.deliveries[0].level)
        record.incarnation, record.cls, record.length = incarnation, loop.cls, loop.length
        queue.added(loop.deliveries[0], 1, s.cycle)
    loop.uncommitted = 0
    ended = completed_at(loop, loop.completions[0].level)
    ended.slot, ended.generation, ended.tag = loop.slot, loop.generation, loop.tag
    ended.cause, ended.incarnation = loop.cause, incarnation
    queue.added(loop.completions[0], 1, s.cycle)


@jit
def reset(s):
    """With the services: all is lost.  With the NI alone: only what is under way."""
    loop = Loop(s.numbers)
    if s.service_reset:
        if s.reset_begins:
            tell(s, LOOP_ACCEPT, event_word(Event.LOOP_RESET, 0, 0, loop.deliveries[0].level), U0, 0)
        start(loop)
        return
    if loop.state in (State.BEATS, State.DONE):
        loop.next_slot, loop.next_generation = loop.slot, loop.generation
        loop.live -= 1
    loop.state, loop.due, loop.held, loop.uncommitted = State.IDLE, 0, 0, 0


@jit
def idle(s):
    """Nothing is under way, and nothing waits for the host."""
    loop = Loop(s.numbers)
    empty = loop.deliveries[0].level == 0 and loop.beats[0].level == 0
    return loop.state == State.IDLE and loop.live == 0 and empty


@jit
def next_look(s):
    """Until something is at an output; in DONE at once."""
    loop = Loop(s.numbers)
    nearest = min(queue.shows_from(loop.deliveries[0]), queue.shows_from(loop.beats[0]))
    nearest = min(nearest, queue.shows_from(loop.completions[0]))
    if loop.state == State.DONE:
        nearest = s.cycle + 1
    return nearest if nearest == NEVER else max(nearest, s.cycle + 1)


@jit
def outputs(s, row, place):
    """Flags and beat of the port above."""
    loop, shown, flags = Loop(s.numbers), s.above.shows, 0
    delivery = s.above.delivers[loop.stream]
    if shown.send_ready:
        flags |= _SEND_READY
    if shown.data_ready:
        flags |= _DATA_READY
    if shown.completion_valid:
        flags |= _COMPLETION
    if delivery.valid:
        flags |= _DELIVER
    if delivery.data_valid:
        flags |= _DELIVER_DATA | (_DELIVER_LAST if delivery.last else 0)
        row[place + _FLAGS + 1] = s.above.beats[2 * loop.stream]
        row[place + _FLAGS + 2] = s.above.beats[2 * loop.stream + 1]
    if shown.cancel_ready:
        flags |= _CANCEL_READY
    if shown.idle:
        flags |= _IDLE
    row[place + _FLAGS] = np.uint64(flags)
