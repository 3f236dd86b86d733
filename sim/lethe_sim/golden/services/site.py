"""Where a service stands: its memory, the port below it, the port above it, and what passes from one to the other."""

from typing import Any, NamedTuple

from lethe_sim.golden.compile import at, jit
from lethe_sim.golden.events import emit, extend
from lethe_sim.golden.lib.bits import U0
from lethe_sim.golden.ni import host_port
from lethe_sim.golden.record import raw, table
from lethe_sim.golden.state import LEFT_COMPLETIONS, MERGE, Delivery, HostPort, ShownPort


class Port(NamedTuple):
    """A host port in one cycle.

    Attributes
    ----------
    drives : `HostPort`: what is offered and taken from above
    control : `HostPort` likewise, for `send_control`
    beat : two words each: the beat of `send_data`, that of `send_control_data`, the merge word and its mask
    shows : `ShownPort`: what is shown from below
    delivers : of each deliver stream, `Delivery`
    beats : of each deliver stream, the two words of its beat; behind them, the word of `arrival`
    """

    drives: Any
    control: Any
    beat: Any
    shows: Any
    delivers: Any
    beats: Any


class Site(NamedTuple):
    """A service of one node in one cycle.

    Attributes
    ----------
    k : the parameters of the system
    ni : what the NI knows
    node, incarnation, cycle : the node, its NI's incarnation, and the cycle
    unit : its number in a trace
    below, above : its ports
    numbers, words : its own memory
    ev : the events
    service_reset, reset_begins : in `reset` only: services are reset with the NI; this is the first cycle of that
    """

    k: Any
    ni: Any
    node: Any
    incarnation: Any
    cycle: Any
    unit: Any
    below: Port
    above: Port
    numbers: Any
    words: Any
    ev: Any
    service_reset: Any
    reset_begins: Any


_deliveries = table(Delivery)
_DRIVEN, _SHOWN, _DELIVERY = HostPort.size, ShownPort.size, Delivery.size


@jit
def shown_at(k, ni, level):
    """What is shown at the port below the ``level``-th service, counted from the NI upwards; the highest is the host's.

    The deliver streams follow it.
    """
    return ShownPort(ni, k.at_port + (level + 1) * k.port_width - _DELIVERY * k.port_streams - _SHOWN)


@jit
def delivery_at(k, ni, level, stream):
    """What a deliver stream shows there."""
    return deliveries_at(k, ni, level)[stream]


@jit
def deliveries_at(k, ni, level):
    """What all of them show."""
    return _deliveries(at(raw(shown_at(k, ni, level)), _SHOWN))


@jit
def port_at(k, ni, data, level):
    """That port as a whole."""
    drives, words = HostPort(ni, k.at_port + level * k.port_width), at(data, k.at_beat + level * k.port_data_width)
    return Port(
        drives, host_port.context(drives, 1), words, shown_at(k, ni, level), deliveries_at(k, ni, level),
        at(words, MERGE + 2),
    )  # fmt: skip


@jit
def site_of(k, ni, data, ev, cycle, level):
    """The site of the ``level``-th service."""
    return _site(k, ni, data, ev, cycle, level, level, level + 1)


@jit
def resting_site_of(k, ni, data, ev, cycle, level):
    """The same while all services rest: its ports are the host's, of which only what is offered is worked out."""
    return _site(k, ni, data, ev, cycle, level, k.services, k.services)


@jit
def _site(k, ni, data, ev, cycle, level, below, above):
    place = k.rooms[level]
    return Site(
        k, ni, ni.number, ni.incarnation_now, cycle, k.first_service + ni.number * k.services + level,
        port_at(k, ni, data, below), port_at(k, ni, data, above), at(raw(ni), place.at), at(data, place.at_data),
        ev, ni.services_in_reset > 0, ni.services_reset_from == cycle,
    )  # fmt: skip


@jit
def copy(count, into, of):
    """Copy numbers or words."""
    for i in range(count):
        into[i] = of[i]


@jit
def pass_offers(site):
    """What is offered above is offered below."""
    k, below, above = site.k, site.below, site.above
    copy(_DRIVEN << (k.control_slots > 0), raw(below.drives), raw(above.drives))
    copy(MERGE + 2, below.beat, above.beat)


@jit
def pass_shown(site):
    """What is shown below is shown above."""
    k, below, above = site.k, site.below, site.above
    copy(_SHOWN, raw(above.shows), raw(below.shows))
    for stream in range(k.port_streams):
        copy(_DELIVERY, raw(above.delivers[stream]), raw(below.delivers[stream]))
    copy(2 * k.port_streams + 1, above.beats, below.beats)


@jit
def pass_readies(site):
    """What is taken above is taken below."""
    below, above = site.below.drives, site.above.drives
    below.completion_ready = above.completion_ready
    below.deliver_ready, below.deliver_data_ready = above.deliver_ready, above.deliver_data_ready


@jit
def withdraw_record(port):
    """Offer no record on `send`."""
    withdraw_record_of(port.drives)


@jit
def withdraw_record_of(drives):
    """Offer no record, on `send` or on `send_control`."""
    drives.send_valid = 0
    drives.destination, drives.cls, drives.mode, drives.length, drives.tag = 0, 0, 0, 0, 0
    drives.deadline, drives.retry_limit, drives.expect, drives.path = 0, 0, 0, 0


@jit
def withdraw_beat(port):
    """Offer no beat on `send_data`."""
    port.drives.data_valid = 0
    port.beat[0], port.beat[1] = U0, U0


@jit
def offer_nothing(k, port, host):
    """Offer nothing at all, on the port of an NI; what its host holds back is as the host has it."""
    drives = port.drives
    if drives.send_valid:
        withdraw_record(port)
    if drives.data_valid:
        withdraw_beat(port)
    if k.control_slots > 0 and port.control.send_valid:
        withdraw_record_of(port.control)
    if k.control_slots > 0 and port.control.data_valid:
        port.control.data_valid, port.beat[2], port.beat[3] = 0, U0, U0
    drives.cancel_valid, drives.sweep_valid, drives.refusal = 0, 0, 0
    drives.deliver_ready, drives.deliver_data_ready = 0, 0
    drives.quiesce, drives.link_disable = host.quiesce, host.link_disable


@jit
def takes_record(port):
    """Whether the record on `send` has its handshake."""
    return port.drives.send_valid and port.shows.send_ready


@jit
def takes_beat(port):
    """Whether the beat on `send_data` has its handshake."""
    return port.drives.data_valid and port.shows.data_ready


@jit
def takes_completion(port):
    """Whether the completion has its handshake."""
    return port.shows.completion_valid and port.drives.completion_ready


@jit
def takes_delivery(port, stream):
    """Whether the record of a deliver stream has its handshake."""
    return port.delivers[stream].valid and port.drives.deliver_ready >> stream & 1


@jit
def takes_delivered_beat(port, stream):
    """Whether the beat of a deliver stream has its handshake."""
    return port.delivers[stream].data_valid and port.drives.deliver_data_ready >> stream & 1


@jit
def ni_shows(site, left=0):
    """Whether the NI offers a completion, a record or a beat, but for those of which nothing is taken."""
    k, ni, cycle = site.k, site.ni, site.cycle
    if not left & LEFT_COMPLETIONS and host_port.completion_valid(k, ni, cycle):
        return True
    for fifo in range(k.fifos):
        if left >> fifo & 1:
            continue
        if host_port.deliver_valid(k, ni, cycle, fifo) or host_port.deliver_data_valid(k, ni, cycle, fifo):
            return True
    return False


@jit
def tell(site, lane, word, extra, uid):
    """Show an event on a lane: `lethe_sim.golden.events.event_word`, what stands above it, and a UID."""
    emit(site.ev, site.cycle, site.unit, lane, word, uid)
    extend(site.ev, extra)
