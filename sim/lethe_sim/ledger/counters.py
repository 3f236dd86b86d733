"""A run's own counters and sums, held against its events."""

from collections import Counter as Multiset
from collections.abc import Iterator

from lethe.spec.config import System
from lethe.spec.events import COUNTED, EVENTS, LINK_COUNTED, ROUTER_COUNTED, Counter, RouterCounter
from lethe_sim.trace import Meta

#: Totals that agree, if every datagram came once (`docs/reference/cycle-contract.md`, section 5), and their moduli.
_SUMS = (("sent", "received", 1 << 64), ("sent_sum", "received_sum", 1 << 32))


def miscounted(meta: Meta, system: System, counted: Multiset) -> Iterator[tuple[str, str]]:
    """(finding, note) for whatever the counters and sums of a run say that its events do not.

    ``counted`` holds how often each event, and each (event, detail), happened.  A reset clears counters; a datagram
    given up may be missing from one of the sums.
    """
    sums, workload = meta.counters.get("sums", {}), system.workload
    if sums.get("wrong"):
        yield "altered", f"the checkers saw {sums['wrong']:,} wrong bits of payload"
    if system.node_resets:
        return
    for name, told, seen in _counters(meta, system, counted):
        if told != seen:
            yield "miscounted", f"counter {name} says {told:,}, the trace has {seen:,}"
    limits = workload.retry_limit, workload.deadline, system.timers.silent_after
    if meta.drained and not any(limits):
        for sent, received, modulus in _SUMS:
            if (sums.get(sent, 0) - sums.get(received, 0)) % modulus:
                yield "miscounted", f"{sent} is {sums.get(sent)}, {received} is {sums.get(received)}"


def _counters(meta: Meta, system: System, counted: Multiset) -> Iterator[tuple[str, int, int]]:
    """(counter, its value, events)"""
    ni, routers, links = (meta.counters.get(group, {}) for group in ("ni", "routers", "links"))
    for counter, (event, drop) in COUNTED.items():
        # A fragment is seen at NIs and at routers, and the events are not kept apart by unit.
        if counter.name in ni and counter is not Counter.FRAGMENTS:
            yield counter.name, ni[counter.name], counted[(int(event), int(drop)) if drop else int(event)]
    # A router counts a fragment that a head cuts short, but shows the head's fate: FRAGMENT is left out.
    for counter in RouterCounter:
        if counter.name in routers and counter is not RouterCounter.FRAGMENT:
            yield counter.name, routers[counter.name], counted[int(ROUTER_COUNTED[counter])]
    for counter, event in LINK_COUNTED.items():
        if counter.name in links:
            yield counter.name, links[counter.name], counted[int(event)]
    for service in system.services:
        told = meta.counters.get(service.name, {})
        for event, facts in EVENTS.items():
            for counter in facts.counters:
                if isinstance(counter, service.counters) and counter.name in told:
                    yield f"{service.name} {counter.name}", told[counter.name], counted[int(event)]
