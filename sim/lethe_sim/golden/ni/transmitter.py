"""Transmitter (section 4.3): the arbiter, and what it shows on `link_o` and lane tx six cycles later.

A granted Send is judged as soon as nothing can change any more what the judgement will see: that is before its cycle.

What the NI shows in cycle c is in a ring at c mod ``k.tx_ring``: flags and data of the flit, and the event.
"""

import numpy as np

from lethe.spec.events import LANE_TX, Cause, Event, Kind, Status
from lethe.spec.stages import ACCEPT_JUDGED, JUDGED, PUSHED, SHOWN
from lethe_sim.golden.compile import apart, jit
from lethe_sim.golden.events import emit, event_word
from lethe_sim.golden.fabric.topology import distance_class
from lethe_sim.golden.lib import queue
from lethe_sim.golden.lib.bits import ALL, U0, flit_high, flit_low, mask, put
from lethe_sim.golden.lib.random import advance
from lethe_sim.golden.link.crc import ONES32, crc16_body, crc32_flit
from lethe_sim.golden.state import (
    AHEAD,
    FIRST,
    LAST,
    MERGE,
    NEVER,
    NONE,
    SEND_LADDER,
    TAG_FLITS,
    VALID,
    Field,
    Queues,
    Showing,
)

from . import ladder, layouts, paths, round_trip, send_table, silence
from .accept import payload_flits

# From a grant to the cycle in which the merge port is read.
_MERGED = PUSHED + 1
_EVENT_OF_KIND = np.array([0, Event.SEND, Event.ACK, Event.FORGET, Event.BE, 0, Event.REJECT], np.int64)


@jit
def header_field(k, data, field, value):
    """Write one field of the header under construction."""
    put(data, k.at_header, k.fields[field].offset, k.fields[field].width, value)


@jit
def shown_in(k, ni, cycle):
    """What is shown in ``cycle``."""
    return Showing(ni, k.at_tx, cycle & (k.tx_ring - 1))


@jit
def words_in(k, data, cycle):
    """(low, high) of the flit that is or was shown in ``cycle``."""
    at = k.at_tx_data + (cycle & (k.tx_ring - 1)) * k.words
    return data[at], data[at + 1] if k.words == 2 else U0


@jit
def show_flit(k, ni, data, cycle, flags, low, high):
    """Show a flit in ``cycle``."""
    showing, at, words = shown_in(k, ni, cycle), k.at_tx_data + (cycle & (k.tx_ring - 1)) * k.words, k.words
    showing.cycle, showing.flags = cycle, VALID | flags
    data[at] = low
    if words == 2:
        data[at + 1] = high


@jit
def show_event(k, ni, cycle, word, uid):
    """Show an event on lane tx in ``cycle``."""
    showing = shown_in(k, ni, cycle)
    showing.word = word
    showing.uid = uid


@jit
def flags_in(k, ni, cycle):
    """Flags of the flit that is shown in ``cycle``, 0 without one."""
    showing = shown_in(k, ni, cycle)
    return showing.flags if showing.cycle == cycle else 0


@jit
def shown(k, ni, ev, cycle):
    """Flags of the flit visible in ``cycle``; its event is emitted."""
    showing = shown_in(k, ni, cycle)
    if showing.word != 0:
        emit(ev, cycle, ni.number, LANE_TX, showing.word, showing.uid)
        showing.word = 0
    return flags_in(k, ni, cycle)


@apart
def show_worm(k, ni, data, cycle, payload_at, payload_count):
    """Show the header under construction and a payload as a worm from ``cycle`` on; returns its flits."""
    flit_bits = k.flit_bits
    state = ONES32
    n = 0
    total = k.header_flits + payload_count + k.crc_flits
    header = k.header_flits
    if payload_at == NONE:
        total = k.control_flits
        header = total - k.crc_flits
        if k.one_flit:
            low = flit_low(data, k.at_header, flit_bits, 0)
            high = flit_high(data, k.at_header, flit_bits, 0)
            crc = np.uint64(crc16_body(low, high, flit_bits))
            if flit_bits == 128:
                high |= crc << np.uint64(48)
            else:
                low |= crc << np.uint64(flit_bits - 16)
            show_flit(k, ni, data, cycle, FIRST | LAST | 1 << TAG_FLITS, low, high)
            return 1
    for j in range(header + payload_count):
        if j < header:
            low = flit_low(data, k.at_header, flit_bits, j)
            high = flit_high(data, k.at_header, flit_bits, j)
        else:
            low = flit_low(data, payload_at, flit_bits, j - header)
            high = flit_high(data, payload_at, flit_bits, j - header)
        state = crc32_flit(state, low, high, flit_bits)
        show_flit(k, ni, data, cycle + n, FIRST | total << TAG_FLITS if n == 0 else 0, low, high)
        n += 1
    for j in range(k.crc_flits):
        n += 1
        show_flit(k, ni, data, cycle + n - 1, LAST if n == total else 0, crc32_word(state, j, flit_bits), U0)
    return n


@jit
def crc32_word(state, j, flit_bits):
    """The ``j``-th of the flits that end a message, from the CRC of those before."""
    return np.uint64(state ^ ONES32) >> np.uint64(j * flit_bits) & (mask(flit_bits) if flit_bits < 64 else ALL)


@apart
def merge(k, ni, data, cycle):
    """What the merge port says in ``cycle`` goes into the worm that waits to be shown (section 4.15)."""
    slot, _ = layouts.unpack_life(ni.merge_life)
    ni.merge_at = NEVER
    length, flit_bits, words = send_table.slot_of(k, ni, slot).length, k.flit_bits, k.words
    word, chosen = data[k.at_beat + MERGE], data[k.at_beat + MERGE + 1] & mask(min(k.merge_bits, 8 * length))
    shown = cycle - _MERGED + SHOWN
    at = k.at_tx_data + (shown + k.header_flits & (k.tx_ring - 1)) * words
    data[at] = data[at] & ~chosen | word & chosen
    covered = k.header_flits + payload_flits(k, length)
    state = ONES32
    for j in range(covered):
        low, high = words_in(k, data, shown + j)
        state = crc32_flit(state, low, high, flit_bits)
    for j in range(k.crc_flits):
        data[k.at_tx_data + (shown + covered + j & (k.tx_ring - 1)) * words] = crc32_word(state, j, flit_bits)


@jit
def start_header(k, ni, data, kind, destination, slot, generation, incarnation, peer_incarnation, attempt, path):
    """Begin a header with the fields that every message has."""
    for word in range(4):
        data[k.at_header + word] = U0
    header_field(k, data, Field.KIND, kind)
    header_field(k, data, Field.DESTINATION, destination)
    header_field(k, data, Field.SOURCE, ni.number)
    header_field(k, data, Field.SLOT, slot)
    header_field(k, data, Field.GENERATION, generation)
    header_field(k, data, Field.INCARNATION, incarnation)
    header_field(k, data, Field.PEER_INCARNATION, peer_incarnation)
    header_field(k, data, Field.TRY, attempt)
    if k.path_bits > 0:
        header_field(k, data, Field.PATH, path)


@jit
def grant(k, ni, data, cycle, sends_allowed):
    """One decision of the arbiter, if one is possible in ``cycle``; returns whether it is known what will be shown."""
    if cycle < ni.next_grant or cycle < ni.ready_from:
        return False
    replies = queue.present(k, ni, Queues.REPLY, cycle)
    if replies and not (k.replies_last and sends_allowed and next_send(k, ni, cycle) != NONE):
        grant_reply(k, ni, data, cycle)
        return True
    number = next_send(k, ni, cycle) if sends_allowed else NONE
    if number == NONE:
        return False
    entry = queue.oldest(k, ni, number).a
    queue.pop(k, ni, number, cycle)
    ni.granted = entry if number == Queues.REPEATS else layouts.pack_token(entry, 0)
    ni.judge_at = cycle + JUDGED
    ni.next_grant = cycle + PUSHED
    return False


@jit
def asks_merge(k, ni, cycle):
    """Whether the merge port asks in ``cycle`` what is to be written: a Send was granted in the cycle before."""
    return k.merge_bits > 0 and ni.granted != NONE and ni.judge_at == cycle + 1


@jit
def next_send(k, ni, cycle):
    """The queue from which a Send is granted if Sends are allowed, or `NONE`."""
    may_finish = cycle >= ni.finish_free  # as a new datagram may, and a repeat to a silent node
    if k.control_slots > 0 and may_finish and queue.present(k, ni, Queues.CONTROL, cycle):
        return Queues.CONTROL
    if (may_finish or k.silent_after == 0) and queue.present(k, ni, Queues.REPEATS, cycle):
        return Queues.REPEATS
    return Queues.NEW if may_finish and queue.present(k, ni, Queues.NEW, cycle) else NONE


@jit
def sends_worm(ni, cycle, flits):
    """A worm of so many flits is granted in ``cycle``."""
    ni.next_grant = max(ni.next_grant, cycle + flits)
    ni.tx_clear = cycle + flits + SHOWN
    ni.tx_first, ni.tx_last = cycle + SHOWN, cycle + SHOWN + flits - 1


@jit
def reply(k, ni, cycle, kind, peer, uid, peer_incarnation, attempt, path):
    """Queue an Ack, a Forget or a REJECT; with the queue full it is dropped and counted, and nothing else suffers."""
    if queue.level(k, ni, Queues.REPLY, cycle) >= k.reply_depth:
        ni.replies_dropped += 1
        return
    queue.push(k, ni, Queues.REPLY, uid, layouts.pack_reply(kind, peer, peer_incarnation, attempt, path), cycle)


@jit
def grant_reply(k, ni, data, cycle):
    """Send the oldest of the replies."""
    waiting = queue.oldest(k, ni, Queues.REPLY)
    uid = waiting.a
    kind, peer, peer_incarnation, attempt, path = layouts.unpack_reply(waiting.b)
    queue.pop(k, ni, Queues.REPLY, cycle)
    _, incarnation, slot, generation = layouts.unpack_uid(uid)
    start_header(k, ni, data, kind, peer, slot, generation, incarnation, peer_incarnation, attempt, path)
    flits = show_worm(k, ni, data, cycle + SHOWN, NONE, 0)
    show_event(k, ni, cycle + SHOWN, event_word(_EVENT_OF_KIND[kind], 0, peer, 0), uid)
    sends_worm(ni, cycle, flits)


@jit
def may_judge(k, ni, cycle):
    """Whether at the end of ``cycle`` all is known that the judgement of a granted Send depends on."""
    if ni.granted == NONE or ni.judge_at == cycle + 1:
        return ni.granted != NONE
    # Periods of probes, and what waits for the merge port, know no cycle but their own.
    return (
        k.silent_after == 0
        and k.path_after == 0
        and k.merge_bits == 0
        and (ni.ends | ni.asked) >> (cycle + 1 & AHEAD - 1) & 1 == 0
    )


@apart
def judge(k, ni, data):
    """Send a datagram, or find that there is nothing to send; returns whether anything will be shown."""
    cycle = ni.judge_at - JUDGED
    life, tries = layouts.unpack_token(ni.granted)
    ni.granted = NONE
    slot, generation = layouts.unpack_life(life)
    datagram = send_table.slot_of(k, ni, slot)
    peer, incarnation = datagram.destination, ni.incarnation_now
    uid = layouts.pack_uid(ni.number, incarnation, slot, generation)
    if tries == 0:
        datagram.launched = ni.judge_at
    strange = tries > 0 and (datagram.mode == 1 or datagram.cause != 0)
    if strange or not send_table.is_live(datagram, generation, ni.judge_at - ACCEPT_JUDGED):
        show_event(k, ni, cycle + SHOWN, event_word(Event.KILLED, 0, 0, 0), uid)
        ni.tx_first = ni.tx_last = cycle + SHOWN
        return True
    if datagram.cause != 0:
        load_finish(ni, cycle, life, Status.REJECTED, datagram.cause)
        return False
    if k.silent_after > 0 and silence.stops(k, ni, ni.judge_at, peer, datagram.mode == 1, tries):
        load_finish(ni, cycle, life, Status.NEVER_SENT if tries == 0 else Status.UNKNOWN, Cause.SILENT)
        return False
    length = datagram.length
    kind = Kind.BE if datagram.mode == 1 else Kind.SEND
    path = paths.choose(k, ni, ni.judge_at, peer, paths.path_of(k, datagram.path, tries))
    start_header(k, ni, data, kind, peer, slot, generation, incarnation, datagram.expect, tries & k.try_mask, path)
    header_field(k, data, Field.LENGTH, length)
    header_field(k, data, Field.CLASS, datagram.cls)
    header_field(k, data, Field.MODE, datagram.mode)
    payload_at = k.at_payload + slot * k.slot_words
    flits = show_worm(k, ni, data, cycle + SHOWN, payload_at, payload_flits(k, length))
    show_event(k, ni, cycle + SHOWN, event_word(_EVENT_OF_KIND[kind], tries, peer, length), uid)
    sends_worm(ni, cycle, flits)
    if k.merge_bits > 0 and length > 0:
        ni.merge_at, ni.merge_life = cycle + _MERGED, life
    ni.tx_slot, ni.tx_until = slot, cycle + flits
    if kind == Kind.BE:
        load_finish(ni, cycle, life, Status.UNKNOWN, Cause.BEST_EFFORT)
    else:
        ni.launch, ni.launch_at, ni.launch_path = layouts.pack_token(life, tries), cycle + PUSHED, path
        ni.launch_due = cycle + SHOWN + k.delay[distance_class(k, ni.number, peer)]
    return True


@jit
def load_finish(ni, cycle, life, status, cause):
    """Load the finish register in grant cycle ``cycle``."""
    ni.finish_from, ni.finish_free = cycle + PUSHED, NEVER
    ni.finish = layouts.pack_finish(life, status, cause)


@apart
def launch(k, ni):
    """The token of a Send starts to wait on the Send ladder.

    If nobody looks at the NI in the cycle of the push, it is made later, as if it were that cycle.
    """
    cycle, token, jitter = ni.launch_at, ni.launch, 0
    ni.launch_at = NEVER
    if k.jitter > 0:
        ni.random = advance(ni.random)
        jitter = ni.random & k.jitter
    life, tries = layouts.unpack_token(token)
    slot, _ = layouts.unpack_life(life)
    round_trip.stamp(k, ni, cycle, slot, tries)
    distance = distance_class(k, ni.number, send_table.slot_of(k, ni, slot).destination)
    due = cycle - ni.time_zero + SHOWN - PUSHED + ladder.delay_of(k, ni, cycle, distance, tries) + jitter
    ladder.push(k, ni, SEND_LADDER, cycle, ladder.rung_of(k, distance, tries), due, token, ni.launch_path)
