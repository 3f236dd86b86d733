"""Control words on their way up (section 9.3): the word register, and the job that heeds it."""

from lethe.spec.events import FLOW_CONTROL, Event
from lethe.spec.services.flow import CODE_BITS, WINDOW, Code, In, Out
from lethe_sim.golden.compile import apart, jit
from lethe_sim.golden.events import event_word, extra
from lethe_sim.golden.lib.bits import U0, get, put_flit
from lethe_sim.golden.services import site

from . import control, peers, probe, tasks
from .state import (
    WORD_IN,
    Fate,
    PeerTask,
    ahead,
    in_at,
    out_at,
    peer_at,
    push_entry,
    raise_limit,
    shift,
    wants_window,
)

# States of the word register.
EMPTY, FILLING, FULL = range(3)
_CODES = len(Code)


@jit
def takes_record(flow):
    """Whether a record of a control word is taken."""
    return flow.word_state == EMPTY


@jit
def takes_beat(flow):
    """Whether a beat of it is."""
    return flow.word_state == FILLING


@jit
def step(s, flow):
    """The word register fills."""
    if takes_record(flow):
        if site.takes_delivery(s.below, 1):
            take_record(s, flow, s.below.delivers[1])
    elif takes_beat(flow) and site.takes_delivered_beat(s.below, 1):
        take_beat(s, flow)


@jit
def take_record(s, flow, record):
    """A record is taken."""
    s.words[WORD_IN], s.words[WORD_IN + 1] = U0, U0
    flow.word_source, flow.word_incarnation, flow.word_length = record.source, record.incarnation, record.length
    flow.word_beat, flow.word_code = 0, 0
    flow.word_state = FILLING if record.length > 0 else FULL


@jit
def take_beat(s, flow):
    """A beat is taken; of a word too long only the first 64 bits are kept."""
    if flow.word_beat * s.k.flit_bits < 64:
        put_flit(s.words, WORD_IN, s.k.flit_bits, flow.word_beat, s.below.beats[2], s.below.beats[3])
    flow.word_beat += 1
    if s.below.delivers[1].last:
        flow.word_state, flow.word_code = FULL, code_of(s, flow)


@jit
def code_of(s, flow):
    """The code of the word, or 0 if it is none."""
    code = get(s.words, WORD_IN, 0, CODE_BITS)
    return code if flow.word_length == control.WORD_BYTES and 0 < code <= _CODES else 0


@jit
def field(s, place):
    """A field of the word."""
    return get(s.words, WORD_IN, place.shift, place.bits)


@apart
def act(s, flow):
    """The job: the word is heeded."""
    code, source = flow.word_code, flow.word_source
    shown = get(s.words, WORD_IN, CODE_BITS, control.SHOWN_BITS) if code != 0 else 0
    site.tell(s, FLOW_CONTROL, event_word(Event.FLOW_HEARD, code, source, 0), extra(shown), 0)
    if code == Code.PING:
        hear_ping(s, flow, source)
    elif code == Code.PONG:
        hear_pong(s, flow, source)
    elif code == Code.MAP:
        hear_map(s, flow, source)
    elif code == Code.WINDOW:
        hear_window(s, flow, source)
    elif code == Code.VOID:
        hear_void(s, flow, source)
    elif code == Code.GONE:
        hear_gone(s, flow, source)
    else:
        flow.ignored += 1


@jit
def forget(flow):
    """The word is done with."""
    flow.word_state = EMPTY


@jit
def hear_ping(s, flow, source):
    """PING: a source opens, or asks again."""
    peer, boot, round_of = peer_at(flow, source), field(s, control.BOOT), field(s, control.ROUND)
    same = peer.source_known and boot == peer.source_boot
    if not peer.source_known or boot > peer.source_boot or (same and ahead(round_of, peer.source_round)):
        if flow.task == PeerTask.NONE:
            tasks.begin_open(flow, source, boot, round_of, flow.word_incarnation)
    elif same and round_of == peer.source_round:
        control.mark(flow, s.cycle, Code.PONG, source, 0)
        if peer.source == In.MUTE:
            revive(flow, source)
            flow.job_map = 1


@jit
def revive(flow, source):
    """A mute source speaks again: in further steps, what waits for it is told."""
    peers.become_source(flow, source, In.OPEN)
    flow.job_node, flow.job_windows = source, 0


@jit
def hear_pong(s, flow, source):
    """PONG: a peer has opened for this node."""
    peer, own = peer_at(flow, source), field(s, control.OWN)
    if field(s, control.BOOT) != flow.boot or field(s, control.ROUND) != peer.round:
        return
    if peer.out == Out.UP:
        peer.heard = 1
        if own != peer.life:
            peers.leave(s, flow, source)
    elif peer.out == Out.CONNECTING and not peer.pong:
        if peer.life_known and peer.life != own:
            if flow.task == PeerTask.NONE:
                tasks.begin_up(flow, source, own, flow.word_incarnation, agreed(s, flow))
        else:
            answer(s, flow, source, own, flow.word_incarnation, agreed(s, flow))


@jit
def agreed(s, flow):
    """A mask of the paths that a peer and this node have."""
    told, mask = field(s, control.PATHS), 0
    while mask < flow.paths - 1 and told >= 2 * (mask + 1):
        mask = 2 * mask + 1
    return mask


@jit
def answer(s, flow, node, own, incarnation, paths):
    """A peer that this node connects to has answered."""
    peer = peer_at(flow, node)
    peer.incarnation, peer.paths, peer.life, peer.life_known = incarnation, paths, own, 1
    if peer.out == Out.CONNECTING:
        peer.pong = 1
        peers.weigh(flow, node)
        if not probe.under_way(flow, node):
            peers.come_up(s, flow, node)


@jit
def hear_gone(s, flow, source):
    """GONE: a peer is closed to this round."""
    peer = peer_at(flow, source)
    if field(s, control.BOOT) == flow.boot and field(s, control.ROUND) == peer.round and connected(peer):
        peers.leave(s, flow, source)


@jit
def connected(peer):
    """Whether what a peer says of streams counts."""
    return peer.out in (Out.CONNECTING, Out.UP)


@jit
def hear_map(s, flow, source):
    """MAP: its congested ports; bits of ports that it cannot have do not matter."""
    peer, bits = peer_at(flow, source), field(s, control.MAP) & (1 << flow.ports) - 1
    if connected(peer) and bits != peer.map:
        peer.map = bits
        peers.notice(s, flow, source)


@jit
def hear_window(s, flow, source):
    """WINDOW: a limit."""
    index = field(s, control.INDEX)
    if index < flow.ports:
        raise_limit(peer_at(flow, source), out_at(flow, source, index), field(s, control.CREDIT))


@jit
def hear_void(s, flow, source):
    """VOID: numbers that will not come count as if they were there."""
    index = field(s, control.INDEX)
    if peer_at(flow, source).source == In.CLOSED or index >= flow.ports:
        return
    stream, void, base = in_at(flow, source, index), field(s, control.VOIDED), field(s, control.BASE)
    for place in range(WINDOW):
        number = base + place
        distance = number - stream.expected & 255
        if void >> (number & WINDOW - 1) & 1 and distance < WINDOW:
            stream.present |= 1 << distance
    if stream.present & 1:
        first = stream.expected
        count, filled = shift(stream)
        push_entry(flow, s.cycle, Fate.RUN, source, index, first, count, filled)
    if wants_window(stream):
        control.mark(flow, s.cycle, Code.WINDOW, source, index)
