"""A network that loses nothing, without a model: what is sent is what is received, unless a test meddles with it."""

from collections.abc import Callable

from lethe_sim.golden.script import Letters, Script
from lethe_sim.workloads import Verdict, Workload

Rows = list[tuple[int, int, int, bytes]]


def carried(script: Script) -> Rows:
    """(node, source, cycle, payload) of every datagram of a script."""
    sent = Letters(
        script.destination, script.source, script.length, script.length, script.length, script.at, script.data
    )
    columns = zip(sent.node.tolist(), sent.source.tolist(), strict=True)
    return [(node, source, i, sent.payload(i)) for i, (node, source) in enumerate(columns)]


def played(workload: Workload, meddle: Callable[[int, Rows], None] = lambda phase, rows: None) -> Verdict:
    """Run a workload over the perfect network; ``meddle`` may change what is received in a phase."""
    phases, number = workload.phases(), 0
    script = next(phases)
    while True:
        rows = carried(script)
        meddle(number, rows)
        try:
            script = phases.send(Letters.from_bytes(rows))
        except StopIteration as done:
            return done.value
        number += 1
