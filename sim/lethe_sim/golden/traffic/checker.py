"""Checker (section 5): takes a record, then its beats up to ``last``, and holds each against the key in the first."""

from enum import IntEnum

import numpy as np

from lethe_sim.golden.compile import jit
from lethe_sim.golden.ni.accept import payload_flits

from .payload import MASK32, beat_high, beat_low


class Checker(IntEnum):
    """States."""

    HEAD = 0
    BEATS = 1


@jit
def take(stack, k, ni, data, host, port, cycle):
    """Take the record or the beat that is offered; without one, ready stays 0, and nothing else is done."""
    stream = k.check_stream
    if host.check_state == Checker.HEAD:
        if stack.deliver_valid(k, ni, cycle, stream):
            port.deliver_ready = 1 << stream
            _, _, _, length = stack.deliver_record(k, ni, stream)
            take_record(host, length)
    elif stack.deliver_data_valid(k, ni, cycle, stream):
        port.deliver_data_ready = 1 << stream
        low, high, last = stack.deliver_beat(k, ni, data, stream)
        take_beat(k, host, low, high, last)


@jit
def take_record(host, length):
    """A record is taken."""
    host.check_length = length
    host.check_beat = 0
    host.check_wrong = 0
    host.check_state = Checker.BEATS if length > 0 else Checker.HEAD


@jit
def take_beat(k, host, low, high, last):
    """A beat is taken."""
    beat, length = host.check_beat, host.check_length
    host.check_beat = beat + 1
    beats = payload_flits(k, length)
    if beat == 0:
        host.check_key = np.int64(low & np.uint64(MASK32))
    elif beat == 1 and beat < beats and k.flit_bits == 16:
        host.check_key |= np.int64(low) << 16
    key = host.check_key
    if beat >= beats or low != beat_low(k, key, beat, length) or high != beat_high(k, key, beat, length):
        host.check_wrong = 1
    if last:
        host.check_state = Checker.HEAD
        host.received += 1
        host.received_sum = host.received_sum + key & MASK32
        host.wrong += 1 if beat + 1 != beats else host.check_wrong


@jit
def reset(host):
    """A cycle in which the NI is in reset."""
    host.check_state = Checker.HEAD
