"""One NI of the golden model stepped by hand, and what a whole run must have done."""

from lethe.spec.events import Counter
from lethe_sim.golden.blocks import Flit, Ni

#: Cycles after which a run that has not drained never will.
LIMIT = 30_000_000
RECORD, BEAT = 1, 2


def offer(destination, length, *, cls=0, mode=0, tag=0, deadline=0, retry_limit=0, expect=0, extra=0):
    """Stimulus words of a record."""
    record = destination | cls << 16 | mode << 24 | length << 32 | tag << 48
    return [RECORD | extra, record, deadline | retry_limit << 32 | expect << 40, 0, 0, 0]


def run(ni, cycles, stimulus=None, arrivals=(), **inputs):
    """Step an NI; returns the words of every cycle.  ``arrivals`` are flits on consecutive cycles."""
    flits = list(arrivals)
    return [ni.step(flits[i] if i < len(flits) else None, stimulus, **inputs) for i in range(cycles)]


def worm(flits):
    """A message's flits as they arrive."""
    return [Flit(1, int(i == 0), int(i == len(flits) - 1), data) for i, data in enumerate(flits)]


def sent(rows):
    """Worms on `link_o`, each a list of data."""
    worms = []
    for words in rows:
        flit = Ni.link_o(words)
        if flit.valid:
            if flit.first:
                worms.append([])
            worms[-1].append(flit.data)
    return worms


def send(ni, flit_bits, payload, destination, **record):
    """Offer a datagram and run on; returns the words of all cycles."""
    rows = run(ni, 40)
    rows.append(ni.step(None, offer(destination, len(payload), **record)))
    step = flit_bits // 8
    for at in range(0, len(payload), step):
        data = int.from_bytes(payload[at : at + step], "little")
        rows.append(ni.step(None, [BEAT, 0, 0, data & (1 << 64) - 1, data >> 64, 0]))
    return rows + run(ni, 60)


def assert_once(golden):
    """Every datagram was accepted, delivered and completed exactly once, and every table is empty."""
    system = golden.system
    total = system.workload.count * system.nodes
    sums, counters = golden.sums, golden.counters.sum(axis=0)
    assert golden.drained
    assert sums["sent"].sum() == sums["received"].sum() == total
    assert (sums["sent_sum"].sum() - sums["received_sum"].sum()) % (1 << 32) == 0
    assert sums["wrong"].sum() == 0
    for counter in (Counter.ACCEPTED, Counter.COMPLETED, Counter.DELIVERED, Counter.RELEASED):
        assert counters[counter] == total, counter.name
    assert counters[Counter.FORGOTTEN] <= total  # an entry may also be replaced by the slot's next datagram
    assert not golden.entries.any() and not golden.busy.any()
