"""Beats in the memories of slots, cells and buffers, with a CRC beside each (section 10): a wrong one halts relay."""

from lethe.spec.events import RELAY_RELAYS, Event
from lethe_sim.golden.compile import apart, at, jit
from lethe_sim.golden.events import event_word
from lethe_sim.golden.lib.bits import U0, cut
from lethe_sim.golden.link.crc import crc8_flit
from lethe_sim.golden.services import site

from .state import RelayJob, number_at

#: Where a wrong beat was, in the detail of RELAY_HALT.
OF_SLOT, OF_BUFFER, OF_CELL = 1, 2, 4


@jit
def write(s, relay, place, low, high, left):
    """A beat, of which ``left`` bits count, is written, with its CRC."""
    word = at(s.words, place)
    word[0], word[1] = cut(s.k.flit_bits, low, high, left)
    if relay.checks:
        number_at(relay, check_of(relay, place))[0] = crc8_flit(word[0], word[1], s.k.flit_bits)


@jit
def check_of(relay, place):
    """Where the CRC of a beat is."""
    return relay.at_checks + (place - relay.at_slot_words >> 1)


@jit
def is_wrong(s, relay, place):
    """Whether a beat is not what was written: 1 or 0."""
    if not relay.checks:
        return 0
    word = at(s.words, place)
    return 1 if number_at(relay, check_of(relay, place))[0] != crc8_flit(word[0], word[1], s.k.flit_bits) else 0


@jit
def comes(relay, way, wrong, where, halting):
    """What of the beats on their way comes to an output (`ahead`); a wrong one halts relay.

    ``wrong`` are those that are, with bits as those of ``way``.  ``halting``: whether it was halted before this cycle.
    """
    if halting:
        return 0
    if way & wrong & 2:
        relay.halted |= where
        return 0
    return way


@jit
def step(s, relay):
    """One cycle of a halted relay: it is told once no job is under way."""
    if not relay.halt_told and relay.job == RelayJob.NONE:
        relay.halt_told = 1
        tell_halt(s, relay)


@apart
def tell_halt(s, relay):
    """The event of it."""
    site.tell(s, RELAY_RELAYS, event_word(Event.RELAY_HALT, relay.halted, 0, 0), U0, 0)
