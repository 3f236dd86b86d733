"""Script hosts and external stimulus."""

import random

import numpy as np
import pytest

from lethe.spec.events import Cause, Counter, Event, Status
from lethe.spec.trace import take_lane
from lethe_sim.golden.model import Golden, GoldenError, Item, Script
from lethe_sim.trace import events_from_words
from tests.helpers.golden_systems import make

SEED = 11


def items(system, count=60, longest=None):
    """Datagrams between random pairs."""
    rng = random.Random(SEED)
    for number in range(count):
        node, destination = rng.sample(range(system.nodes), 2)
        payload = rng.randbytes(rng.randint(0, longest or system.wire.mtu))
        yield Item(node=node, destination=destination, payload=payload, not_before=rng.randrange(400), tag=number)


@pytest.mark.parametrize("flit_bits", [16, 32, 64, 128])
def test_payloads_arrive(flit_bits):
    system = make("tree", wire={"flit_bits": flit_bits, "mtu": 61}, faults={"loss": 0.1})
    golden = Golden(system, Script.from_items(system, items(system)))
    golden.run(1_000_000, until_drained=True)
    assert golden.drained
    sent = sorted((item.destination, item.node, item.payload) for item in items(system))
    assert sorted((d.node, d.source, d.payload) for d in golden.taken) == sent


def test_control_classes_have_their_own_fifo():
    system = make("crossbar", ni={"control_classes": 2, "reserved_slots": 2, "slots": 4})
    lot = [Item(node=0, destination=1, payload=bytes([n] * 9), cls=n % 8) for n in range(40)]
    golden = Golden(system, Script.from_items(system, lot))
    golden.run(1_000_000, until_drained=True)
    assert golden.drained
    assert sorted(d.cls for d in golden.taken) == sorted(item.cls for item in lot)


def test_external_stimulus_repeats_a_script():
    """The stimulus of a script run, given from outside, makes the same words in every cycle."""
    system = make("fly", faults={"loss": 0.1, "resets": [{"node": 2, "start": 150, "cycles": 9}]})
    cycles = 1500
    words = [np.zeros((cycles, system.layout.words), np.uint64) for _ in range(2)]
    stimulus = np.zeros((cycles, 6 * system.nodes), np.uint64)
    scripted = Golden(system, Script.from_items(system, items(system)))
    scripted.run(cycles, words=words[0], stimulus=stimulus)
    outside = Golden(system, external=True)
    outside.run(cycles, words=words[1], stimulus=stimulus)
    assert np.array_equal(*words)
    assert scripted.digest == outside.digest
    assert np.array_equal(scripted.counters, outside.counters)


def test_words_do_not_disturb():
    system = make("tree", faults={"loss": 0.1})
    seen, unseen = Golden(system), Golden(system)
    words = np.zeros((700, system.layout.words), np.uint64)
    seen.run(700, words=words)
    unseen.run(700)
    assert seen.digest == unseen.digest
    assert words[50:].any(axis=1).all()


def completions(golden):
    """(status, cause) of every completion, by tag."""
    events = golden.take_events()
    done = events[(events["lane"] == 3) & ((events["word"] & np.uint64(0xFF)) == Event.COMPLETE)]
    return {int(w) >> 48: (Status(int(w) >> 12 & 0xF), Cause(int(w) >> 8 & 0xF)) for w in done["word"]}


def test_every_end_of_a_datagram():
    system = make("crossbar", faults={"links": [{"link": 4, "start": 0, "end": 4000}]}, run={"cycles": 5000})
    script = Script.from_items(
        system,
        [
            Item(node=0, destination=1, payload=b"fine", tag=1),
            Item(node=0, destination=0, payload=b"to myself", tag=2),
            Item(node=0, destination=5, payload=b"to nobody", tag=3),
            Item(node=0, destination=1, payload=b"odd mode", mode=3, tag=4),
            Item(node=0, destination=1, payload=bytes(33), tag=5),
            Item(node=0, destination=1, payload=b"best effort", mode=1, tag=6),
            Item(node=4, destination=1, payload=b"limited", retry_limit=2, tag=7),
            Item(node=4, destination=1, payload=b"in time or not", deadline=100, tag=8),
            Item(node=0, destination=1, payload=b"for another incarnation", expect=3, retry_limit=1, tag=9),
        ],
    )
    golden = Golden(system, script, record=True)
    golden.run(20_000, until_drained=True)
    assert golden.drained
    assert completions(golden) == {
        1: (Status.ACCEPTED, Cause.NONE),
        2: (Status.REJECTED, Cause.DESTINATION),
        3: (Status.REJECTED, Cause.DESTINATION),
        4: (Status.REJECTED, Cause.MODE),
        5: (Status.REJECTED, Cause.LENGTH),
        6: (Status.UNKNOWN, Cause.BEST_EFFORT),
        7: (Status.UNKNOWN, Cause.RETRY_LIMIT),
        8: (Status.UNKNOWN, Cause.DEADLINE),
        9: (Status.UNKNOWN, Cause.RETRY_LIMIT),
    }
    assert golden.counters[1, Counter.DROP_INCARNATION] == 2
    assert golden.counters[1, Counter.DELIVERED_BE] == 1


def test_misuse_is_refused():
    system = make("wire")
    with pytest.raises(GoldenError, match="tag must be 0 to 65535, not 65536"):
        Script.from_items(system, [Item(node=0, destination=1, tag=65536)])
    with pytest.raises(GoldenError, match="node must be"):
        Script.from_items(system, [Item(node=2, destination=1)])
    with pytest.raises(GoldenError, match="exclude each other"):
        Golden(system, Script.from_items(system, []), external=True)
    with pytest.raises(GoldenError, match="need stimulus words"):
        Golden(system, external=True).run(5)
    with pytest.raises(GoldenError, match=r"words must be uint64\[5, "):
        Golden(system).run(5, words=np.zeros((5, 3), np.uint64))
    with pytest.raises(GoldenError, match="record=True"):
        Golden(system).take_events()
    with pytest.raises(GoldenError, match="needs a script"):
        Golden(make("wire", workload={"kind": "file", "path": "x"}))


def test_every_fifo_has_its_take_lane():
    """Records of several deliver FIFOs that are taken in one cycle are all shown, each on its own lane."""
    system = make("wire", ni={"control_classes": 2}, faults={"stalls": [{"node": 1, "start": 0, "end": 2000}]})
    top = (1 << system.wire.class_bits) - 1
    items = [Item(node=0, destination=1, payload=bytes(4), cls=cls, tag=cls) for cls in (0, top, top - 1)]
    golden = Golden(system, Script.from_items(system, items), record=True)
    words = np.zeros((3000, system.layout.words), np.uint64)
    golden.run(3000, words=words)
    taken = golden.take_events()
    taken = taken[(taken["word"] & np.uint64(0xFF)) == Event.TAKE]
    assert taken["cycle"].tolist() == [2000] * 3 and taken["lane"].tolist() == [take_lane(fifo) for fifo in range(3)]
    assert [system.layout.lanes[lane] for lane in taken["lane"]] == ["take", "take 1", "take 2"]
    row = events_from_words(words, system.layout)
    assert (row["lane"][(row["word"] & np.uint64(0xFF)) == Event.TAKE]).tolist() == taken["lane"].tolist()
