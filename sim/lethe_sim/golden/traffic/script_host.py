"""Script host (section 8): it offers a list of datagrams in their order, and keeps what is delivered as letters."""

from enum import IntEnum

import numpy as np

from lethe_sim.golden.compile import apart, at, jit
from lethe_sim.golden.lib.bits import U0, flit_high, flit_low, put_flit
from lethe_sim.golden.ni import host_port
from lethe_sim.golden.ni.accept import payload_flits
from lethe_sim.golden.ni.host_port import Flow
from lethe_sim.golden.state import NEVER, Letter, Planned, Stream


class ScriptHost(IntEnum):
    """States."""

    RECORD = 0
    DATA = 1


@jit
def finished(host):
    """Whether there is nothing more to send."""
    return host.number == host.items_end


@jit
def present(k, host, port, beat, items, item_data, cycle):
    """What the script host offers."""
    host_port.withdraw_record(port)
    host_port.withdraw_beat(port, beat)
    if k.takes_control:
        host_port.withdraw_record(host_port.context(port, 1))
        host_port.withdraw_beat(host_port.context(port, 1), at(beat, 2))
    if finished(host):
        return
    item = Planned(items, 0, host.number)
    control = is_control(k, item)
    offered = host_port.context(port, control)
    if host.state == ScriptHost.DATA:
        offered.data_valid = 1
        beat[2 * control] = flit_low(item_data, item.payload, k.flit_bits, host.beat)
        beat[2 * control + 1] = flit_high(item_data, item.payload, k.flit_bits, host.beat)
    elif item.not_before <= cycle:
        offered.send_valid = 1
        host_port.read_record(offered, np.uint64(item.record), np.uint64(item.limits))
        host_port.name_ports(k, offered)


@jit
def is_control(k, item):
    """1 for a datagram that is offered on `send_control`: of a control class, where there are control slots."""
    return 1 if k.takes_control and host_port.class_of(item.record) & k.class_mask >= k.first_control else 0


@jit
def follow(k, host, port, items, done):
    """The next state, after a cycle in which the NI did ``done`` (`Flow`)."""
    if done & (Flow.SEND | Flow.DATA) == 0:
        return
    if done & Flow.SEND:
        offered = host_port.context(port, is_control(k, Planned(items, 0, host.number)))
        host.length, host.beat = offered.length, 0
        host_port.withdraw_record(offered)  # on the port is what waits
    else:
        host.beat += 1
    host.state = ScriptHost.DATA
    if host.beat == payload_flits(k, host.length):
        host.state = ScriptHost.RECORD
        host.number += 1


@jit
def take(stack, k, ni, data, port, letters, letter_data, cycle):
    """Take the records and beats that are offered, and keep them as letters."""
    for number in range(k.streams):
        stream = Stream(ni, k.at_streams, number)
        if stack.deliver_valid(k, ni, cycle, number):
            port.deliver_ready |= 1 << number
            source, _, cls, length = stack.deliver_record(k, ni, number)
            take_record(k, stream, ni.number, source, cls, length, letters, letter_data, cycle)
        if stack.deliver_data_valid(k, ni, cycle, number):
            port.deliver_data_ready |= 1 << number
            low, high, last = stack.deliver_beat(k, ni, data, number)
            take_beat(k, stream, low, high, last, letters, letter_data)


@apart
def take_record(k, stream, node, source, cls, length, letters, letter_data, cycle):
    """A record is taken: a letter begins.  Row 0 of ``letters`` counts them, and the words of ``letter_data`` in use.

    Records and beats of a stream keep their order, but each comes as soon as it can: records before the beats of
    earlier datagrams, or, after datagrams without payload, beats before their record.
    """
    letters[0] += 1
    letter = Letter(letters, 0, letters[0])
    letter.node, letter.source, letter.cls, letter.length, letter.cycle = node, source, cls, length, cycle
    if length > 0:
        words = (payload_flits(k, length) * k.flit_bits + 63) // 64
        stream.record_place = next_place(stream.record_place, words, letters, letter_data)
        stream.ahead += 1
        letter.payload = stream.record_place + 1


@apart
def take_beat(k, stream, low, high, last, letters, letter_data):
    """A beat is taken."""
    if stream.beat == 0:
        stream.beat_place = next_place(stream.beat_place, k.slot_words, letters, letter_data)
        stream.ahead -= 1
    put_flit(letter_data, stream.beat_place + 1, k.flit_bits, stream.beat, low, high)
    stream.beat = 0 if last else stream.beat + 1


@jit
def next_place(place, words, letters, letter_data):
    """The place of a stream's payload behind the one at ``place``, whose first word names it; if none is, ``words``
    for it are set aside.
    """
    if letter_data[place] == U0:
        letter_data[place] = np.uint64(letters[1])
        letters[1] += 1 + words
    return np.int64(letter_data[place])


@jit
def reset(k, ni, host):
    """A cycle in which the NI is in reset: what was offered is offered again, and what was to be taken is lost,
    but for what services have that are not reset.
    """
    host.state = ScriptHost.RECORD
    for number in range(k.streams if ni.services_in_reset else min(k.fifos, k.streams)):
        stream = Stream(ni, k.at_streams, number)
        if stream.ahead > 0:
            stream.beat_place = stream.record_place
        else:
            stream.record_place = stream.beat_place
        stream.ahead = stream.beat = 0


@jit
def next_offer(stack, k, ni, host, items, cycle):
    """The next cycle in which the script host offers something."""
    if finished(host):
        return NEVER
    item = Planned(items, 0, host.number)
    if host.state == ScriptHost.DATA:
        return cycle + 1 if is_control(k, item) else stack.next_beat(k, ni, cycle)
    return max(stack.next_send(k, ni, cycle, is_control(k, item)), item.not_before)
