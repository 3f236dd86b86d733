"""Scripts: from columns as from items, and further datagrams while a model runs."""

import numpy as np
import pytest

from lethe.spec.config import System
from lethe_sim.golden.model import Golden, GoldenError, Item, Script
from lethe_sim.golden.state import Planned


def system(flit_bits: int = 64) -> System:
    return System.make(
        topology={"kind": "crossbar", "nodes": 3}, wire={"flit_bits": flit_bits}, workload={"kind": "file", "path": "x"}
    )


def items(count: int, start: int = 0) -> list[Item]:
    return [
        Item(node=i % 3, destination=(i + 1) % 3, payload=bytes([i]) * (i % 33), not_before=i, tag=i)
        for i in range(start, start + count)
    ]


def received(golden: Golden) -> list[tuple[int, int, bytes]]:
    return sorted((d.node, d.source, d.payload) for d in golden.taken)


def wanted(sent: list[Item]) -> list[tuple[int, int, bytes]]:
    return sorted((item.destination, item.node, item.payload) for item in sent)


def test_columns_are_as_good_as_items():
    sent = items(40)
    one = Script.from_items(system(), sent)
    # Payloads in a table of four words each.
    data = np.frombuffer(b"".join(item.payload.ljust(40, b"\0") for item in sent), np.uint64)
    two = Script.from_columns(
        system(), node=np.array([i.node for i in sent]), destination=np.array([i.destination for i in sent]),
        length=np.array([len(i.payload) for i in sent]), data=data, at=5 * np.arange(40),
        not_before=np.arange(40), tag=np.arange(40),
    )  # fmt: skip
    assert (one.first == two.first).all() and (
        one.rows[:-1, : Planned.payload] == two.rows[:-1, : Planned.payload]
    ).all()
    assert (two.source == one.source).all() and (two.destination == one.destination).all()
    runs = []
    for script in (one, two):
        golden = Golden(system(), script)
        golden.run(10_000, until_drained=True)
        runs.append((golden.digest, received(golden)))
    assert runs[0] == runs[1] and runs[0][1] == wanted(sent)


def test_no_items():
    golden = Golden(system(), Script.from_items(system(), []))
    golden.run(1000, until_drained=True)
    assert golden.drained and len(golden.letters()) == 0


@pytest.mark.parametrize("flit_bits", [16, 128])
@pytest.mark.parametrize("pause", [1, 2, 3, 50, 51, 52, 53, 500])
def test_a_running_model_takes_more(flit_bits, pause):
    """While the hosts still have some, in the middle of a datagram, and when all has drained."""
    golden = Golden(system(flit_bits), Script.from_items(system(flit_bits), items(30)))
    sent = items(30)
    for start in (30, 60, 90):
        golden.run(pause)
        more = items(30, start)
        golden.extend(Script.from_items(system(flit_bits), more))
        sent += more
    golden.run(20_000, until_drained=True)
    assert golden.drained and received(golden) == wanted(sent)


def test_more_while_some_remain_is_the_same_as_all_at_once():
    golden = Golden(system(), Script.from_items(system(), items(60)))
    golden.run(20_000, until_drained=True)
    other = Golden(system(), Script.from_items(system(), items(30)))
    other.run(5)
    other.extend(Script.from_items(system(), items(30, 30)))
    other.run(20_000, until_drained=True)
    assert (other.digest, other.cycle) == (golden.digest, golden.cycle)


def test_only_scripts_grow():
    generated = System.make(topology={"kind": "crossbar", "nodes": 3})
    with pytest.raises(GoldenError, match="only script hosts take further datagrams"):
        Golden(generated).extend(Script.from_items(generated, []))


def test_columns_that_cannot_be_offered():
    good = {
        "node": np.zeros(3, int), "destination": np.ones(3, int), "length": np.ones(3, int),
        "data": np.zeros(3, np.uint64), "at": np.arange(3),
    }  # fmt: skip
    with pytest.raises(GoldenError, match="item 2: tag must be 0 to 65535, not 65536"):
        Script.from_columns(system(), **good, tag=np.array([0, 1, 65536]))
    with pytest.raises(GoldenError, match=r"item 0: not_before must be 0 to .*, not -1"):
        Script.from_columns(system(), **good, not_before=-1)
    with pytest.raises(GoldenError, match="an item has no colour; known are node, "):
        Script.from_columns(system(), **good, colour=1)
