"""A run's own counters and sums, held against its events."""

from collections import Counter as Multiset
from collections.abc import Iterator

from lethe.spec.config import System
from lethe.spec.events import ROUTER_COUNTED, Counter, Drop, Event, RouterCounter
from lethe_sim.trace import Meta

_NI_COUNTERS = {
    Counter.SENDS: Event.SEND,
    Counter.ACKS: Event.ACK,
    Counter.FORGETS: Event.FORGET,
    Counter.BEST_EFFORTS: Event.BE,
    Counter.KILLED: Event.KILLED,
    Counter.DELIVERED: Event.DELIVER,
    Counter.DELIVERED_BE: Event.DELIVER_BE,
    Counter.DUPLICATES: Event.DUPLICATE,
    Counter.RELEASED: Event.RELEASE,
    Counter.ACKS_IGNORED: Event.ACK_IGNORED,
    Counter.FORGOTTEN: Event.FORGOTTEN,
    Counter.FORGETS_IGNORED: Event.FORGET_IGNORED,
    Counter.REPEATS: Event.REPEAT,
    Counter.ACK_REPEATS: Event.ACK_REPEAT,
    Counter.GIVEN_UP: Event.GIVE_UP,
    Counter.ORPHANS: Event.ORPHAN,
    Counter.ACCEPTED: Event.ACCEPT,
    Counter.COMPLETED: Event.COMPLETE,
}


#: Totals that agree, if every datagram came once (`docs/cycle-contract.md`, section 5), and their moduli.
_SUMS = (("sent", "received", 1 << 64), ("sent_sum", "received_sum", 1 << 32))


def miscounted(meta: Meta, system: System, counted: Multiset) -> Iterator[tuple[str, str]]:
    """(finding, note) for whatever the counters and sums of a run say that its events do not.

    ``counted`` holds how often each event, and each (event, detail), happened.  A reset clears counters; a datagram
    given up may be missing from one of the sums.
    """
    sums, workload = meta.counters.get("sums", {}), system.workload
    if sums.get("wrong"):
        yield "altered", f"the checkers saw {sums['wrong']:,} wrong bits of payload"
    if system.faults.resets:
        return
    for name, told, seen in _counters(meta, counted):
        if told != seen:
            yield "miscounted", f"counter {name} says {told:,}, the trace has {seen:,}"
    if meta.drained and not workload.retry_limit and not workload.deadline:
        for sent, received, modulus in _SUMS:
            if (sums.get(sent, 0) - sums.get(received, 0)) % modulus:
                yield "miscounted", f"{sent} is {sums.get(sent)}, {received} is {sums.get(received)}"


def _counters(meta: Meta, counted: Multiset) -> Iterator[tuple[str, int, int]]:
    """(counter, its value, events)"""
    ni, routers, links = (meta.counters.get(group, {}) for group in ("ni", "routers", "links"))
    events = {counter.name: counted[event] for counter, event in _NI_COUNTERS.items()}
    events |= {f"DROP_{drop.name}": counted[int(Event.DROP), int(drop)] for drop in Drop if drop is not Drop.NONE}
    for name, seen in events.items():
        if name in ni:
            yield name, ni[name], seen
    # A router counts a fragment that a head cuts short, but shows the head's fate: FRAGMENT is left out.
    for counter in RouterCounter:
        if counter.name in routers and counter is not RouterCounter.FRAGMENT:
            yield counter.name, routers[counter.name], counted[int(ROUTER_COUNTED[counter])]
    for name, event in (("LOST", Event.LOST), ("DEAD", Event.DEAD), ("FLIPS", Event.FLIP)):
        if name in links:
            yield name, links[name], counted[event]
