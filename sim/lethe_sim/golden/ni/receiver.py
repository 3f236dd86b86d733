"""Receiver (section 4.4): the assembler and the checks.

The assembler sees a flit in cycle t; what follows from it happens in t+6, and waits in the masks ``ni.ends`` and
``ni.fragments``, with the message's header beside them in the message ring.
"""

import numpy as np

from lethe.spec.events import LANE_FRAGMENT, Drop, Event, Kind
from lethe.spec.stages import ACTS
from lethe_sim.golden.compile import apart, jit
from lethe_sim.golden.events import emit
from lethe_sim.golden.lib.bits import U0, get, mask, put_flit
from lethe_sim.golden.link.crc import ONES32, crc16_body, crc32_flit
from lethe_sim.golden.record import raw
from lethe_sim.golden.state import AHEAD, FIRST, LAST, VALID, Field, Message

from . import deliver
from .accept import payload_flits

_FIELDS = len(Field)


@jit
def acts(ni, cycle):
    """Whether a message acts in ``cycle``, which is one of the next."""
    return ni.ends >> (cycle & AHEAD - 1) & 1 != 0


@jit
def from_cycle(mask, cycle):
    """A mask of the next cycles whose lowest bit is that of ``cycle``."""
    number = cycle & AHEAD - 1
    return (mask >> number | mask << AHEAD - number) & (1 << AHEAD) - 1


@jit
def plan_fragment(ni, cycle):
    """The message under way is none; it is shown in ``cycle``."""
    ni.fragments |= 1 << (cycle & AHEAD - 1)
    ni.under_way = 0


@jit
def message_of(k, ni, cycle):
    """The message that acts in ``cycle``."""
    return Message(ni, k.at_messages, cycle & AHEAD - 1)


@jit
def was_under_way(ni, cycle):
    """Whether a message was under way at the start of ``cycle``, whatever has arrived in it."""
    if ni.fragments >> (cycle + ACTS & AHEAD - 1) & 1:
        return True
    if ni.under_way:
        return ni.under_way <= cycle
    return acts(ni, cycle + ACTS) and ni.rx_count > 1


@jit
def header_value(k, data, field):
    """A field of the message in the receive buffer."""
    return get(data, k.at_rx, k.fields[field].offset, k.fields[field].width)


@jit
def arrive(k, ni, data, cycle, flags, low, high):
    """The assembler takes the flit (or, with flags 0, the gap) that is on `link_i` in ``cycle``."""
    later = cycle + ACTS
    if flags & VALID == 0 or flags & FIRST:
        if ni.under_way:
            plan_fragment(ni, later)
        if flags & VALID == 0:
            return
        ni.under_way = cycle + 1
        ni.rx_count = 0
        ni.rx_state = ONES32
        ni.rx_payload = 0
    elif not ni.under_way:
        return
    n = ni.rx_count
    if n == k.max_flits:
        plan_fragment(ni, later)
        return
    ni.rx_count = n + 1
    payload_flit = n - k.header_flits
    if payload_flit < 0:
        put_flit(data, k.at_rx, k.flit_bits, n, low, high)
    if payload_flit == -1:
        kind = header_value(k, data, Field.KIND)
        if kind in (Kind.SEND, Kind.BE):
            ni.rx_payload = payload_flits(k, header_value(k, data, Field.LENGTH))
            ni.rx_fifo = deliver.fifo_of(k, header_value(k, data, Field.CLASS))
    elif 0 <= payload_flit < ni.rx_payload:
        deliver.will_offer(k, ni, data, later, ni.rx_fifo, payload_flit == ni.rx_payload - 1, low, high)
    if flags & LAST:
        ni.under_way = 0
        ni.ends |= 1 << (later & AHEAD - 1)
        read_message(k, ni, data, later, low, high)
        return
    if k.acceptance:
        add_word(k, data, payload_flit, low)
    before = ni.rx_state
    ni.rx_state_before = before
    ni.rx_flit = np.int64(low & np.uint64(0xFFFF_FFFF))
    ni.rx_state = crc32_flit(before, low, high, k.flit_bits)


@jit
def crc_good(k, ni, low, high):
    """Whether the message that ends with this flit has the right CRC."""
    n = ni.rx_count
    flit_bits = k.flit_bits
    if n == 1:
        if not k.one_flit:
            return False
        crc = high >> np.uint64(48) if flit_bits == 128 else low >> np.uint64(flit_bits - 16)
        return np.int64(crc) == crc16_body(low, high, flit_bits)
    if n <= k.crc_flits:
        return False
    if k.crc_flits == 1:
        return high == U0 and low == np.uint64(ni.rx_state ^ ONES32)
    crc = ni.rx_state_before ^ ONES32
    return crc & 0xFFFF == ni.rx_flit and np.uint64(crc >> 16) == low


@apart
def read_message(k, ni, data, cycle, low, high):
    """Put the message that has just ended where it waits to act in ``cycle``."""
    message = message_of(k, ni, cycle)
    header = raw(message)
    for field in range(_FIELDS):
        header[field] = header_value(k, data, field)
    message.flits = ni.rx_count
    message.good = crc_good(k, ni, low, high)
    if k.acceptance:
        data[k.at_arrivals + (cycle & AHEAD - 1)] = data[k.at_arrivals + AHEAD] & mask(8 * message.length)


@apart
def add_word(k, data, payload_flit, low):
    """A flit of the message under way, before its last: the first 64 bits of a payload are kept."""
    if payload_flit < 0:
        data[k.at_arrivals + AHEAD] = U0
    elif payload_flit * k.flit_bits < 64:
        data[k.at_arrivals + AHEAD] |= low << np.uint64(payload_flit * k.flit_bits)


@jit
def data_acts(k, ni, cycle):
    """Whether a data message acts in ``cycle``, sound or not (section 4.16)."""
    if not acts(ni, cycle):
        return False
    message = message_of(k, ni, cycle)
    datagram = message.kind in (Kind.SEND, Kind.BE) and message.flits > k.header_flits
    return datagram and deliver.fifo_of(k, message.cls) == 0


@jit
def arrived(k, ni, cycle):
    """Whether a data message ended in the cycle before ``cycle``."""
    return data_acts(k, ni, cycle + ACTS - 1)


@jit
def arrival(k, ni, cycle):
    """(source, incarnation, class, length, try, best effort) of that message."""
    message = message_of(k, ni, cycle + ACTS - 1)
    best_effort = 1 if message.kind == Kind.BE else 0
    return message.source, message.incarnation, message.cls, message.length, message.attempt, best_effort


@jit
def word_of(k, data, cycle):
    """The first 64 bits of the payload of the message that ended in the cycle before ``cycle``."""
    return data[k.at_arrivals + (cycle + ACTS - 1 & AHEAD - 1)]


@jit
def verdict(k, ni, cycle, message):
    """Why a message is dropped, 0 if it may act."""
    if cycle < ni.ready_from:
        return Drop.RESETTING
    if not message.good:
        return Drop.CRC
    kind, flits, length = message.kind, message.flits, message.length
    datagram = kind in (Kind.SEND, Kind.BE)
    known = Kind.SEND <= kind <= Kind.BE or (k.reject and kind == Kind.REJECT)
    if not known or (datagram and flits == 1):
        return Drop.KIND
    if datagram:
        if length > k.mtu or flits != k.header_flits + payload_flits(k, length) + k.crc_flits:
            return Drop.LENGTH
    elif flits != k.control_flits:
        return Drop.LENGTH
    if message.destination != ni.number:
        return Drop.MISROUTED
    if message.source >= k.nodes or message.source == ni.number:
        return Drop.SOURCE
    if kind in (Kind.ACK, Kind.REJECT) and message.slot >= k.slots:
        return Drop.SLOT
    if datagram:
        if message.mode != (kind == Kind.BE) or message.extension != 0:
            return Drop.EXTENSION
        expected = message.peer_incarnation
        if expected != 0 and expected != ni.incarnation_now:
            return Drop.INCARNATION
    return 0


@jit
def fragment(ni, ev, cycle):
    """A fragment is shown, and its payload forgotten."""
    deliver.drop(ni)
    emit(ev, cycle, ni.number, LANE_FRAGMENT, Event.FRAGMENT, 0)
