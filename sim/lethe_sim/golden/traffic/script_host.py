"""Script host (section 8): it offers a list of datagrams in their order, and keeps what is delivered as letters."""

from enum import IntEnum

import numpy as np

from lethe_sim.golden.compile import apart, at, jit
from lethe_sim.golden.lib.bits import flit_high, flit_low, put_flit
from lethe_sim.golden.ni import host_port
from lethe_sim.golden.ni.accept import payload_flits
from lethe_sim.golden.ni.host_port import Flow
from lethe_sim.golden.state import NEVER, Letter, Planned


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
    if k.control_slots > 0:
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


@jit
def is_control(k, item):
    """1 for a datagram that is offered on `send_control`: of a control class, where there are control slots."""
    return 1 if k.control_slots > 0 and host_port.class_of(item.record) & k.class_mask >= k.first_control else 0


@jit
def follow(k, host, port, items, done):
    """The next state, after a cycle in which the NI did ``done`` (`Flow`)."""
    if done & (Flow.SEND | Flow.DATA) == 0:
        return
    if done & Flow.SEND:
        offered = host_port.context(port, is_control(k, Planned(items, 0, host.number)))
        host.length, host.beat = offered.length, 0
    else:
        host.beat += 1
    host.state = ScriptHost.DATA
    if host.beat == payload_flits(k, host.length):
        host.state = ScriptHost.RECORD
        host.number += 1


@jit
def take(k, ni, port, letters, cycle):
    """Take what is offered, and note when a record is taken."""
    for fifo in range(k.fifos):
        if host_port.deliver_data_valid(k, ni, cycle, fifo):
            port.deliver_data_ready |= 1 << fifo
        if host_port.deliver_valid(k, ni, cycle, fifo):
            port.deliver_ready |= 1 << fifo
            Letter(letters, 0, host_port.deliver_note(k, ni, fifo)).cycle = cycle


@apart
def keep(k, ni, data, letters, letter_data, cycle):
    """Copy the datagram that was committed in this cycle; its row was the record's note.

    Row 0 of ``letters`` counts the rows and the words of ``letter_data`` in use.
    """
    source, cls, length = host_port.committed(k, ni, cycle)
    letter, at = Letter(letters, 0, letters[0] + 1), letters[1]
    letter.node = ni.number
    letter.source = source
    letter.cls = cls
    letter.length = length
    letter.cycle = -1
    letter.payload = at
    flits = payload_flits(k, length)
    for j in range(flits):
        low, high = host_port.committed_beat(k, ni, data, cls, flits - j)
        put_flit(letter_data, at, k.flit_bits, j, low, high)
    letters[0] += 1
    letters[1] = at + (flits * k.flit_bits + 63) // 64


@jit
def reset(host):
    """A cycle in which the NI is in reset: what was offered is offered again."""
    host.state = ScriptHost.RECORD


@jit
def next_offer(k, ni, host, items, cycle):
    """The next cycle in which the script host offers something."""
    if finished(host):
        return NEVER
    if host.state == ScriptHost.DATA:
        return cycle + 1
    item = Planned(items, 0, host.number)
    return max(host_port.next_send(k, ni, cycle, is_control(k, item)), item.not_before)
