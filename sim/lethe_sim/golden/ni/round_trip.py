"""Round trips that are measured, and the time-outs that follow them (section 4.6.1, T15)."""

from lethe.spec.stages import MEASURED
from lethe_sim.golden.compile import jit
from lethe_sim.golden.state import LATER, LaterRing, Trip

from . import send_table


@jit
def trip_of(k, ni, distance):
    """What is known of the round trips to a distance class."""
    return Trip(ni, k.at_trips, distance)


@jit
def later_ring(k, ni):
    """The time-outs that are not yet used; they lie behind the trips of all classes."""
    return LaterRing(trip_of(k, ni, k.classes))


@jit
def clear(k, ni):
    """As after reset: the configuration's round trips and time-outs."""
    if k.ceiling == 0:
        return
    for distance in range(k.classes):
        trip = trip_of(k, ni, distance)
        trip.means = 8 * (k.delay[distance] - k.slack)
        trip.deviations = k.slack
        trip.time_out = k.delay[distance]
    later_ring(k, ni).count = 0
    for slot in range(k.slots):
        datagram = send_table.slot_of(k, ni, slot)
        datagram.stamp = 0
        datagram.stamp_try = 0


@jit
def stamp(k, ni, cycle, slot, tries):
    """The token of a Send of ``slot`` is pushed in ``cycle``."""
    if k.ceiling > 0:
        datagram = send_table.slot_of(k, ni, slot)
        datagram.stamp = cycle - ni.time_zero
        datagram.stamp_try = tries & k.try_mask


@jit
def sample(k, ni, cycle, slot, distance, echo):
    """An Ack that echoes the try ``echo`` has released ``slot``."""
    datagram = send_table.slot_of(k, ni, slot)
    if k.ceiling == 0 or datagram.stamp_try != echo:
        return
    trip = trip_of(k, ni, distance)
    error = min(cycle - ni.time_zero - datagram.stamp & k.time_mask, k.ceiling) - (trip.means >> 3)
    trip.means += error
    trip.deviations += abs(error) - (trip.deviations >> 2)
    time_out = max((trip.means >> 3) + trip.deviations, k.delay[distance])
    settle(k, ni, cycle)
    ring = later_ring(k, ni)
    later = ring.ring[(ring.oldest + ring.count) % LATER]
    ring.count += 1
    later.use_from = cycle + MEASURED
    later.distance = distance
    later.time_out = min(time_out, k.ceiling)


@jit
def settle(k, ni, cycle):
    """Use the time-outs whose cycle has come, in their order."""
    ring = later_ring(k, ni)
    while ring.count > 0:
        later = ring.ring[ring.oldest]
        if later.use_from > cycle:
            return
        trip_of(k, ni, later.distance).time_out = later.time_out
        ring.oldest = (ring.oldest + 1) % LATER
        ring.count -= 1


@jit
def time_out(k, ni, cycle, distance, tries):
    """How long try number ``tries`` to a distance class waits that begins in ``cycle``."""
    settle(k, ni, cycle)
    wait = trip_of(k, ni, distance).time_out
    for _ in range(min(tries, k.steps)):
        if 2 * wait <= k.ceiling:
            wait *= 2
    return wait
