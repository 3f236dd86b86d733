"""[timers]: time-outs and back-off, and how long things last that follow from them."""

import typing
from dataclasses import dataclass

from lethe.spec import stages

from .key import Fail, Within, key

if typing.TYPE_CHECKING:
    from lethe.spec.config import System


#: With ``silent_after`` an NI has two flip-flops for each node, with ``path_after`` one for each path to each node.
MOST_NODES_HEARD = 4096


@dataclass(frozen=True, kw_only=True)
class TimersSection:
    about = "Time-outs, and how long a datagram is remembered."

    slack: int = key(
        -1, "cycles of the first time-out beyond the shortest round trip; -1: 8 and two longest worms, -2: 8 and four"
    )
    ceiling: int = key(
        -1,
        "longest time-out, from measured round trips; 0: fixed; -1: 64 of the first if worms wait, else 0",
    )
    backoff_steps: int = key(6, "how often the time-out doubles, for example 6 times from 55 to 3,520 cycles; 0: never")
    jitter_bits: int = key(
        6, "a repeat waits up to 2^jitter_bits - 1 cycles more, drawn at random: 6 are up to 63; 0: none"
    )
    timer_depth: int = key(
        0, "time-outs in each rung of a time-out ladder; 0: twice the larger of slots and entries, at least 16"
    )
    wrap_guard: int = key(
        16, "a generation comes again after at least so many of the longest Ack intervals; 0: not checked"
    )
    ack_limit: int = key(0, "repeats of an Ack before its entry is reclaimed as an orphan; 0: never")
    quarantine: int = key(0, "cycles a slot rests after a datagram that ended UNKNOWN; 0: none")
    silent_after: int = key(0, "a node is silent after so many repeats to it in a row without an Ack; 0: never")
    path_after: int = key(0, "a path to a node is left out after so many repeats on it in a row; 0: never")
    path_probe: int = key(16384, "paths that are left out are tried again once in so many cycles")
    silent_probe: int = key(4096, "silent node: one new datagram to it is tried in so many cycles")


def check(system: "System", fail: Fail, within: Within) -> None:
    """The timers' own keys."""
    within("timers.slack", -1024, 65536)
    within("timers.ceiling", -1, 1 << 22)
    first = system.delays[system.graph.distance_classes - 1]
    if 0 < system.timers.ceiling < first:
        fail("timers.ceiling", f"is below the first time-out of {first} cycles", "raise it, or lower timers.slack")
    within("timers.backoff_steps", 0, 16)
    within("timers.jitter_bits", 0, 12)
    within("timers.wrap_guard", 0, 65536)
    within("timers.ack_limit", 0, 255)
    within("timers.quarantine", 0, 1 << 24)
    within("timers.silent_after", 0, 255)
    within("timers.silent_probe", 1, 1 << 24)
    within("timers.path_after", 0, 15)
    within("timers.path_probe", 1, 1 << 24)
    _paths(system, fail)
    if system.timers.silent_after and system.nodes > MOST_NODES_HEARD:
        fail(
            "timers.silent_after", f"watches at most {MOST_NODES_HEARD:,} nodes, not {system.nodes:,}", "leave it at 0"
        )
    depth = system.timers.timer_depth
    least, most = stages.SPARE_DELIVER + 1, 1 << 17
    if depth and not least <= depth <= most:
        fail("timers.timer_depth", f"must be {least} to {most}, not {depth}", "choose one of these, or leave it at 0")


def _paths(system: "System", fail: Fail) -> None:
    """An NI that leaves paths out has some, and a flip-flop for each."""
    if system.timers.path_after and not system.wire.path_bits:
        fail("timers.path_after", "there are no paths", "set wire.path_bits, or leave it at 0")
    if system.timers.path_after and system.nodes << system.wire.path_bits > MOST_NODES_HEARD:
        fail(
            "timers.path_after",
            f"watches at most {MOST_NODES_HEARD:,} paths, not {system.nodes << system.wire.path_bits:,}",
            "lower wire.path_bits, or leave it at 0",
        )


def promises(system: "System", fail: Fail) -> None:
    """T12: an orphan is reclaimed only after its sender has stopped."""
    limit = system.workload.retry_limit
    if system.timers.ack_limit:
        if not limit:
            fail(
                "timers.ack_limit",
                "an entry would be reclaimed while its sender still repeats for ever (delivered twice)",
                "set workload.retry_limit, or ack_limit = 0",
            )
        needed = system.retry_time(limit) + system.packet_life
        if system.orphan_time <= needed:
            fail(
                "timers.ack_limit",
                f"entries are reclaimed after {system.orphan_time} cycles, but a sender may repeat for {needed}",
                "raise ack_limit or lower workload.retry_limit",
            )
        if 0 < system.timers.quarantine < system.orphan_time:
            fail(
                "timers.quarantine",
                f"is shorter than the orphan time of {system.orphan_time} cycles",
                "raise it to that, or leave it at 0",
            )


def timer_depth(system: "System") -> int:
    return system.timers.timer_depth or max(16, 2 * system.ni.slots, 2 * system.ni.sets * system.ni.ways)


def rungs(system: "System") -> int:
    """Rungs of each ladder: one per distance class, then one per back-off step."""
    return system.graph.distance_classes + system.timers.backoff_steps


def rung(system: "System", distance_class: int, tries: int) -> int:
    """The rung that try number ``tries`` (0 is the first) of a pair in this class waits on."""
    steps = system.timers.backoff_steps
    if tries == 0 or steps == 0:
        return distance_class
    return system.graph.distance_classes - 1 + min(tries, steps)


def rung_after(system: "System", rung: int) -> int:
    """The successor rung, whose room a head needs before it is popped."""
    if system.timers.backoff_steps == 0 or rung == system.rungs - 1:
        return rung
    return max(rung + 1, system.graph.distance_classes)


def delays(system: "System") -> tuple[int, ...]:
    """Delay of each rung in cycles: round trip of the class and slack, then doublings of the last.

    With measured round trips the delays of a class are at least its own and those doublings of it.
    """
    form, hop = system.format, system.router.latency
    first = [
        2 * hop * system.graph.class_hops(c) + form.max_flits + form.control_flits + stages.ROUND_TRIP + system.slack
        for c in range(system.graph.distance_classes)
    ]
    return (*first, *(first[-1] << r for r in range(1, system.timers.backoff_steps + 1)))


def slack(system: "System") -> int:
    """Cycles in a first time-out beyond the shortest round trip."""
    slack = system.timers.slack
    return slack if slack >= 0 else 8 - 2 * slack * system.format.max_flits


def ceiling(system: "System") -> int:
    """The longest time-out in cycles where they follow measured round trips, else 0."""
    if system.timers.ceiling < 0:
        return 64 * system.delays[system.graph.distance_classes - 1] if system.worms_wait else 0
    return system.timers.ceiling


def measured(system: "System") -> bool:
    """Whether time-outs follow measured round trips."""
    return system.ceiling > 0


def longest_delays(system: "System") -> tuple[int, ...]:
    """The most that the delay of each rung can be."""
    return (system.ceiling,) * system.rungs if system.measured else system.delays


def least_delay(system: "System", tries: int) -> int:
    """The least cycles that the time-out after try number ``tries`` (0 is the first) of a pair can be."""
    if not system.measured:
        return system.delays[system.rung(0, tries)]
    first = system.delays[0]
    doubled = first << min(tries, system.timers.backoff_steps)
    return max(first, min(doubled, system.ceiling >> 1))  # doubled as long as the ceiling allows


def rest(system: "System") -> int:
    """Cycles for which a slot rests after a datagram that left it in doubt; 0: it does not."""
    return max(system.timers.quarantine, system.linger)


def time_bits(system: "System") -> int:
    """Width of the NI's time base: every due time and deadline is compared within half its range."""
    longest = system.longest_delays[-1] + (1 << system.timers.jitter_bits) + system.rest
    return max(longest.bit_length() + 2, system.ni.deadline_bits + 2, 16)


def retry_time(system: "System", retry_limit: int) -> int:
    """The longest time in cycles from the first Send to giving up after ``retry_limit`` repeats (`link_wait`)."""
    last = system.graph.distance_classes - 1
    # In its rung two tokens of every slot may be before it.
    in_turn = 2 * max(stages.rounds(system.graph.distance_classes, system.timers.backoff_steps)) * 2 * system.ni.slots
    until_granted = in_turn + stages.CHOSEN + stages.QUEUED + 2
    more = (1 << system.timers.jitter_bits) + system.link_wait + until_granted + stages.SHOWN
    return sum(system.longest_delays[system.rung(last, r)] + more for r in range(retry_limit + 1))


def orphan_time(system: "System") -> int:
    """The shortest time in cycles from commit to reclaim; 0 if entries are never reclaimed."""
    limit = system.timers.ack_limit
    return sum(map(system.least_delay, range(limit + 1))) if limit else 0


def reuse_time(system: "System") -> int:
    """The shortest time in cycles between two acceptances on one slot that an Ack ends.

    An empty payload to the nearest node: through a queue to the first flit, the Send, its action, through a queue to
    the Ack's first flit, the Ack, the release, the completion's queue, the queue of free slots.
    """
    crossing = system.router.latency * system.graph.least_hops
    flits = system.format.send_flits(0) - 1 + system.format.control_flits - 1
    return 4 * stages.QUEUED + 2 * (stages.SHOWN + stages.ACTS) + flits + 2 * crossing


def wrap_time(system: "System") -> int:
    """The shortest time in cycles before the same generation of one slot is used again (T1)."""
    return system.reuse_time << system.wire.generation_bits
