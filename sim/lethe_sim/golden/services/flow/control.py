"""Control words on their way down (section 9.2): the notices that wait, and the transfer of the word that is sent."""

from lethe.spec.events import FLOW_CONTROL, Event
from lethe.spec.sections.flow import WINDOW
from lethe.spec.services.flow import CODE_BITS, CONTROL_WORDS, Code, In, Out
from lethe.spec.trace import fields
from lethe_sim.golden.compile import apart, jit
from lethe_sim.golden.events import event_word, extra
from lethe_sim.golden.lib import queue
from lethe_sim.golden.lib.bits import U0, flit_high, flit_low, get, put
from lethe_sim.golden.ni.accept import payload_flits
from lethe_sim.golden.services import site

from .state import (
    WORD_OUT,
    Notice,
    Transfer,
    ahead,
    count_live,
    in_at,
    number_at,
    offer_in,
    out_at,
    peer_at,
    row_at,
)

#: Bytes of a control word, and the bits behind the code that an event shows.
WORD_BYTES, SHOWN_BITS = 8, 16
PLACES = {code: fields((("code", CODE_BITS), *table)) for code, table in CONTROL_WORDS.items()}
_CODE, ROUND, BOOT, PATHS, OWN = PLACES[Code.PONG].values()
_, MAP = PLACES[Code.MAP].values()
_, INDEX, CREDIT, ACK = PLACES[Code.WINDOW].values()
_, _, BASE, VOIDED = PLACES[Code.VOID].values()
LIFE = (1 << OWN.bits) - 1


@jit
def notice_of(flow, code, node, index):
    """The number of a notice of control; PONG and GONE are one."""
    first = node * flow.notices
    if code == Code.WINDOW:
        return first + index
    if code == Code.VOID:
        return first + flow.ports + index
    if code == Code.MAP:
        return first + 2 * flow.ports
    return first + 2 * flow.ports + (2 if code == Code.PING else 1)


@jit
def states(flow):
    """The state of every notice."""
    return number_at(flow, flow.at_notices)


@jit
def enqueue(flow, cycle, number):
    """A notice waits to be sent."""
    states(flow)[number] = Notice.QUEUED
    waiting = flow.control_queue[0]
    number_at(flow, flow.at_control)[queue.place_in(waiting, flow.nodes * flow.notices + 1, waiting.level)] = number
    queue.added(waiting, 1, cycle)


@apart
def mark(flow, cycle, code, node, index):
    """There is something to tell."""
    number = notice_of(flow, code, node, index)
    state = states(flow)[number]
    if state in (Notice.CLEAN, Notice.WAITING):
        enqueue(flow, cycle, number)
    elif state == Notice.FLYING:
        states(flow)[number] = Notice.AGAIN


@jit
def ended(flow, cycle, code, node, index, accepted):
    """What told a notice has ended."""
    number = notice_of(flow, code, node, index)
    again = states(flow)[number] == Notice.AGAIN
    repeats = code in (Code.MAP, Code.WINDOW) or (code == Code.VOID and peer_at(flow, node).heard)
    if again or (not accepted and repeats):
        enqueue(flow, cycle, number)
    else:
        states(flow)[number] = Notice.CLEAN


@jit
def silent(flow, cycle):
    """Whether nothing may be sent yet after a reset."""
    return cycle < flow.ready_from + flow.silence


@jit
def may_send(s, flow):
    """Whether a control word could be sent."""
    return not silent(flow, s.cycle) and flow.control == Transfer.IDLE and s.below.shows.control_ready


@jit
def waits(flow, cycle):
    """Whether a notice is at the output of the control queue."""
    return queue.shows(flow.control_queue[0], cycle)


@jit
def pop(flow, cycle):
    """The oldest notice that waits."""
    waiting = flow.control_queue[0]
    number = number_at(flow, flow.at_control)[waiting.head]
    queue.removed(waiting, flow.nodes * flow.notices + 1, cycle)
    return number


@apart
def tell_notice(s, flow, number):
    """The job: a notice is told, if that is still of use; its state follows."""
    node, place = number // flow.notices, number % flow.notices
    peer, ports = peer_at(flow, node), flow.ports
    state = Notice.FLYING
    if place < ports:
        stream = in_at(flow, node, place)
        if peer.source == In.OPEN and ahead(offer_in(flow, stream, place, s.cycle), stream.told):
            send_window(s, flow, node, place)
        else:
            state = Notice.WAITING if peer.source == In.MUTE else Notice.CLEAN
    elif place < 2 * ports:
        if peer.out == Out.UP and out_at(flow, node, place - ports).void:
            send_void(s, flow, node, place - ports)
        else:
            state = Notice.CLEAN
    elif place == 2 * ports:
        if peer.source == In.OPEN:
            send_map(s, flow, node)
        else:
            state = Notice.WAITING if peer.source == In.MUTE else Notice.CLEAN
    elif place == 2 * ports + 1:
        if peer.source_known:
            send_pong(s, flow, node)
        else:
            state = Notice.CLEAN
    elif peer.out == Out.UP:
        send_ping(s, flow, node)
        peer.asked = 1
    else:
        state = Notice.CLEAN
    states(flow)[number] = state


@jit
def put_field(s, field, value):
    """A field of the word that is sent."""
    put(s.words, WORD_OUT, field.shift, field.bits, value)


@jit
def begin(s, flow, code, node, index, expect):
    """A word of this code, with fields to follow, goes to a node."""
    s.words[WORD_OUT], s.words[WORD_OUT + 1] = U0, U0
    put_field(s, _CODE, code)
    flow.control, flow.control_beat = Transfer.RECORD, 0
    flow.control_to, flow.control_expect = node, expect
    row = flow.telling[0]
    row.code, row.destination, row.index = code, node, index
    row.base, row.map, row.credit, row.carried, row.probe = 0, 0, 0, 0, 0


@jit
def show(s, code, node):
    """The event of the word that is sent."""
    word = event_word(Event.FLOW_TOLD, code, node, 0)
    site.tell(s, FLOW_CONTROL, word, extra(get(s.words, WORD_OUT, CODE_BITS, SHOWN_BITS)), 0)


@jit
def send_window(s, flow, node, index):
    """WINDOW: where a stream is, and its limit."""
    stream = in_at(flow, node, index)
    credit = offer_in(flow, stream, index, s.cycle)
    begin(s, flow, Code.WINDOW, node, index, peer_at(flow, node).source_incarnation)
    put_field(s, INDEX, index)
    put_field(s, CREDIT, credit)
    put_field(s, ACK, stream.expected)
    flow.telling[0].credit, flow.telling[0].carried = credit, 1
    show(s, Code.WINDOW, node)


@jit
def send_void(s, flow, node, index):
    """VOID: numbers that will not come."""
    stream = out_at(flow, node, index)
    begin(s, flow, Code.VOID, node, index, peer_at(flow, node).incarnation)
    put_field(s, INDEX, index)
    put_field(s, BASE, stream.base)
    # A number's bit is that of its low bits.
    map_ = stream.void << (stream.base & WINDOW - 1)
    put_field(s, VOIDED, (map_ | map_ >> WINDOW) & (1 << WINDOW) - 1)
    flow.telling[0].base, flow.telling[0].map = stream.base, stream.void
    count_live(flow, node, 1)
    show(s, Code.VOID, node)


@jit
def send_map(s, flow, node):
    """MAP: which own ports are congested."""
    begin(s, flow, Code.MAP, node, 0, peer_at(flow, node).source_incarnation)
    put_field(s, MAP, flow.congested)
    show(s, Code.MAP, node)


@jit
def send_pong(s, flow, node):
    """PONG, or GONE if the source is closed."""
    peer = peer_at(flow, node)
    code = Code.GONE if peer.source == In.CLOSED else Code.PONG
    begin(s, flow, code, node, 0, 0)
    put_field(s, ROUND, peer.source_round)
    put_field(s, BOOT, peer.source_boot)
    if code == Code.PONG:
        put_field(s, PATHS, flow.paths)
        put_field(s, OWN, flow.boot)
    show(s, code, node)


@jit
def send_ping(s, flow, node):
    """PING: is the peer there?"""
    begin(s, flow, Code.PING, node, 0, 0)
    put_field(s, ROUND, peer_at(flow, node).round)
    put_field(s, BOOT, flow.boot)
    put_field(s, PATHS, flow.paths)
    count_live(flow, node, 1)
    show(s, Code.PING, node)


@jit
def offer(s, flow):
    """What the control transfer offers below."""
    control, beat = s.below.control, s.below.beat
    if control.send_valid:
        site.withdraw_record_of(control)
    if control.data_valid:
        control.data_valid, beat[2], beat[3] = 0, U0, U0
    if flow.control == Transfer.RECORD:
        control.send_valid, control.destination, control.cls, control.length = 1, flow.control_to, s.k.top_class, 8
        control.retry_limit, control.expect = flow.tries, flow.control_expect
        control.path = flow.control_to & flow.paths - 1
    elif flow.control == Transfer.BODY:
        control.data_valid = 1
        beat[2] = flit_low(s.words, WORD_OUT, s.k.flit_bits, flow.control_beat)
        beat[3] = flit_high(s.words, WORD_OUT, s.k.flit_bits, flow.control_beat)


@jit
def step(s, flow):
    """The NI takes what the control transfer offers; with the last beat it names the slot."""
    offered, shows = s.below.control, s.below.shows
    if offered.send_valid and shows.control_ready:
        flow.control = Transfer.BODY
    elif offered.data_valid and shows.control_data_ready:
        flow.control_beat += 1
        if flow.control_beat == payload_flits(s.k, WORD_BYTES):
            flow.control = Transfer.IDLE


@jit
def accepted(s, flow):
    """The NI has the word that is sent: its slot is known."""
    row, sent, shows = row_at(flow, s.below.shows.accepted_slot), flow.telling[0], s.below.shows
    row.under_way, row.generation, row.destination = 1, shows.accepted_generation, sent.destination
    row.index, row.code, row.base, row.map = sent.index, sent.code, sent.base, sent.map
    row.credit, row.carried, row.probe = sent.credit, sent.carried, sent.probe
