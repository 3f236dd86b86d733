"""Traffic generator (section 5)."""

from enum import IntEnum

from lethe_sim.golden.compile import jit
from lethe_sim.golden.lib.random import advance, scale
from lethe_sim.golden.ni import host_port
from lethe_sim.golden.ni.accept import payload_flits
from lethe_sim.golden.ni.host_port import Flow
from lethe_sim.golden.state import NEVER

from .payload import MASK32, beat_high, beat_low, key_of


class Generator(IntEnum):
    """States."""

    START = 0
    GAP = 1
    RECORD = 2
    DATA = 3
    DONE = 4


@jit
def present(k, host, port, beat):
    """What the generator offers."""
    if host.state == Generator.DATA:
        host_port.withdraw_record(port)
        port.data_valid = 1
        key = key_of(host.number, host.node)
        beat[0] = beat_low(k, key, host.beat, host.length)
        beat[1] = beat_high(k, key, host.beat, host.length)
        return
    host_port.withdraw_beat(port, beat)
    if host.state != Generator.RECORD:
        host_port.withdraw_record(port)
    elif not port.send_valid:  # it holds until it is taken
        port.send_valid = 1
        port.destination, port.length, port.tag = host.destination, host.length, host.number & k.tag_mask
        port.mode, port.deadline, port.retry_limit = k.mode_given, k.deadline_given, k.retry_given
        port.path = host.number & (1 << k.path_bits) - 1
        host_port.name_ports(k, port)


@jit
def follow(k, host, cycle, ready_from, done):
    """The next state, after a cycle in which the NI did ``done`` (`Flow`) and is ready from a cycle on."""
    if host.state == Generator.START:
        start(k, host, cycle, ready_from)
    elif host.state == Generator.GAP:
        if cycle >= host.until:
            host.state = Generator.RECORD
    elif done & Flow.SEND:
        host.state = Generator.DATA
        host.beat = 0
    elif done & Flow.DATA:
        host.beat += 1
        if host.beat == payload_flits(k, host.length):
            host.sent += 1
            host.sent_sum = host.sent_sum + key_of(host.number, host.node) & MASK32
            host.number += 1
            host.state = Generator.START


@jit
def over(k, host, cycle):
    """Whether START ends in DONE."""
    return 0 < k.stop <= cycle or 0 < k.count == host.number


@jit
def start(k, host, cycle, ready_from):
    """START: draw the next datagram, or be done."""
    if over(k, host, cycle):
        host.state = Generator.DONE
        return
    if cycle < ready_from:
        return
    draw = advance(host.random)
    host.random = draw
    destination = scale(draw & 0xFFFF, 16, k.nodes - 1)
    host.destination = destination + 1 if destination >= host.node else destination
    host.length = k.min_length + scale(draw >> 24, 8, k.lengths)
    gap = k.gap[draw >> 16 & 0xFF]
    host.until = cycle + gap
    host.state = Generator.GAP if gap > 0 else Generator.RECORD


@jit
def reset(k, host, cycle):
    """A cycle in which the NI is in reset: a gap goes on, what was offered is offered again."""
    if host.state == Generator.START and over(k, host, cycle):
        host.state = Generator.DONE
    elif host.state == Generator.DATA or (host.state == Generator.GAP and cycle >= host.until):
        host.state = Generator.RECORD


@jit
def next_offer(stack, k, ni, host, cycle):
    """The next cycle in which the generator itself changes or offers something."""
    if host.state == Generator.DONE:
        return NEVER
    if host.state == Generator.GAP:
        return max(cycle + 1, host.until)
    if host.state == Generator.START:
        if over(k, host, cycle):
            return cycle + 1
        ready_from = stack.ready_from(k, ni, cycle)
        return max(cycle + 1, ready_from if k.stop == 0 else min(ready_from, k.stop))
    return stack.next_send(k, ni, cycle, 0) if host.state == Generator.RECORD else stack.next_beat(k, ni, cycle)
