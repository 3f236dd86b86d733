"""Two NIs back to back: every datagram once, whatever the wire loses."""

import itertools
import random

import pytest

from lethe.spec.config import System
from tests.helpers.ni_bench import Bench
from tests.helpers.tiers import but

#: Datagrams each way.
COUNT = 16


def pair(**sections):
    sections.setdefault("topology", {"kind": "wire"})
    sections.setdefault("workload", {"min_length": 4, "max_length": 4})
    return System.make(**sections)


def offer_many(bench, count, mtu, seed=3):
    draw = random.Random(seed)
    for node, host in enumerate(bench.hosts):
        for tag in range(count):
            payload = draw.randbytes(draw.randint(0, mtu))
            host.offers.append(({"destination": 1 - node, "cls": tag & 3, "tag": tag}, payload))
    return [list(host.offers) for host in bench.hosts]


@pytest.mark.parametrize("flit_bits, loss", but([(16, 0.3)], itertools.product((16, 32, 64, 128), (0.0, 0.3))))
def test_exactly_once(flit_bits, loss):
    system = pair(
        wire={"flit_bits": flit_bits, "mtu": 24},
        ni={"slots": 4, "sets": 2, "ways": 2},
        timers={"backoff_steps": 2, "jitter_bits": 2},
    )
    bench = Bench(system, loss=loss)
    for host in bench.hosts:
        host.pause = 0.2
    offers = offer_many(bench, COUNT, 24)
    finished = bench.run(
        30000, until=lambda b: b.cycle > 10 and all(len(h.completions) == COUNT for h in b.hosts) and b.idle()
    )
    assert finished, [len(h.completions) for h in bench.hosts]
    for node, host in enumerate(bench.hosts):
        assert all(c["status"] == 0 for c in host.completions)
        assert sorted(c["tag"] for c in host.completions) == list(range(COUNT))
        sent = sorted((1 - node, record["cls"], payload) for record, payload in offers[1 - node])
        assert sorted(host.delivered) == sent
