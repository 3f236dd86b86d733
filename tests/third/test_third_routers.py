"""Routers and links of the third implementation beside the golden model's, under worms that no transmitter sends."""

import random
from itertools import islice
from typing import NamedTuple

import pytest

from lethe.spec.config import System
from lethe.spec.toml import dump
from lethe_sim.golden import blocks
from lethe_sim.lockstep import block_groups, hostile
from tests.third import derived, fabric
from tests.third.ni import Flit

LINKS = {
    "all faults, 16": {"wire": {"flit_bits": 16}, "faults": {"loss": 0.3, "flip": 0.1}},
    "all faults, 128": {"wire": {"flit_bits": 128}, "faults": {"loss": 0.1, "flip": 0.4}},
    "losses": {"wire": {"flit_bits": 32}, "faults": {"loss": 0.5}},
    "flips": {"wire": {"flit_bits": 64}, "faults": {"flip": 0.5}},
    "death": {"wire": {"flit_bits": 64}},
}
ROUTERS = [
    (group, name)
    for group in ("routers", "more routers", "queued routers", "large pools")
    for name in block_groups.GROUPS[group]()
]


class Run(NamedTuple):
    """A router's inputs, and what the golden model made of them: flits of the outputs, and words."""

    text: str
    number: int
    what: str
    inputs: list[list[Flit]]
    shown: list[tuple[list[Flit], list[int]]]


def run(group: str, name: str, cycles: int, seed: int) -> Run:
    block = block_groups.GROUPS[group]()[name]
    system, number = block._system, block._number
    chance = random.Random(f"third {seed}")
    model = blocks.Router(system, number)
    ports = fabric.Shape(derived.read(dump(system))).ports(number)
    heard = [list(islice(hostile.worms(chance, system.format, system.nodes), cycles)) for _ in range(ports)]
    inputs = [[Flit(*flit) for flit in flits] for flits in zip(*heard, strict=True)]
    shown = []
    for flits in inputs:
        outputs, words = model.step([blocks.Flit(*flit) for flit in flits])
        shown.append(([Flit(*map(int, flit)) for flit in outputs], [int(word) for word in words]))
    return Run(dump(system), number, f"{name}, seed {seed}", inputs, shown)


def difference(golden: Run) -> str:
    """Where the third router first differs, for a reader; empty if nowhere."""
    numbers = derived.read(golden.text)
    router = fabric.router(numbers, fabric.Shape(numbers), golden.number)
    for cycle, (flits, shown) in enumerate(zip(golden.inputs, golden.shown, strict=True)):
        third = router.outputs, router.step(flits)
        if third != shown:
            return f"{golden.what}, cycle {cycle}\n  model {shown}\n  third {third}\nconfiguration:\n{golden.text}"
    return ""


@pytest.mark.parametrize(("group", "name"), ROUTERS)
def test_routers(group, name):
    told = difference(run(group, name, 1000, 1))
    assert not told, told


@pytest.mark.full
@pytest.mark.parametrize(("group", "name"), ROUTERS)
def test_routers_at_length(group, name):
    for seed in range(10, 15):
        told = difference(run(group, name, 4000, seed))
        assert not told, told


@pytest.mark.parametrize("name", LINKS)
def test_links(name):
    system = System.make(topology={"kind": "wire"}, timers={"wrap_guard": 0}, **LINKS[name])
    chance = random.Random("third")
    ends = sorted(chance.sample(range(2000), 10))
    dead = [{"link": 1, "start": start, "end": end} for start, end in zip(ends[::2], ends[1::2], strict=True)]
    model = blocks.LinkFault(system, 1)
    text = dump(system) + "".join(
        f"\n[[faults.links]]\nlink = 1\nstart = {s['start']}\nend = {s['end']}\n" for s in dead
    )
    link = fabric.Link(derived.read(text), 1)
    events = set()
    for cycle, flit in enumerate(islice(hostile.worms(chance, system.format, 2), 2000)):
        theirs, event = model.step(flit, any(span["start"] <= cycle < span["end"] for span in dead))
        mine = link.step(cycle, Flit(*flit))
        assert mine == (Flit(*map(int, theirs)), int(event) & 0xFF), f"{name}, cycle {cycle}"
        events.add(mine[1])
    faults = LINKS[name].get("faults", {})
    assert events == {0, fabric.DEAD} | {{"loss": fabric.LOST, "flip": fabric.FLIP}[fault] for fault in faults}


def _waiting(router: fabric.PooledRouter, o: int) -> list[fabric.Buffer]:
    return [buffer for buffer in router.buffers if buffer.state == "WAITING" and buffer.output == o]


#: An error → where it is planted, and what takes the place of what is there.
ERRORS = {
    "the first of the contenders wins": (fabric, "cut", lambda x, n: 0),
    "a head waits a cycle too long": (
        fabric.QueuedRouter, "max_wait", property(lambda self: 5, lambda self, to: None),
    ),
    "up-ports are pinned without salt": (fabric.QueuedRouter, "salt", property(lambda self: 0, lambda self, to: None)),
    "no worm is too long": (fabric.Router, "max_flits", property(lambda self: 999, lambda self, to: None)),
    "a head may turn back": (fabric.Shape, "route", lambda self, r, i, destination: 0),
    "a head overtakes one that waits in a pool": (
        fabric.PooledRouter, "taken", property(lambda self: self.held, lambda self, to: None),
    ),
    "a head overtakes one of its input before that is next": (fabric, "BEHIND", 4),
    "what comes last into a pool leaves first": (
        fabric.PooledRouter, "_first",
        lambda self, o: max(_waiting(self, o), key=lambda buffer: (buffer.stored, -buffer.number), default=None),
    ),
    "of what comes in one cycle the greatest buffer leaves first": (
        fabric.PooledRouter, "_first",
        lambda self, o: min(_waiting(self, o), key=lambda buffer: (buffer.stored, -buffer.number), default=None),
    ),
    "a worm leaves a pool only when all of it is there": (
        fabric.PooledRouter, "_first",
        lambda self, o: min(
            (buffer for buffer in _waiting(self, o) if buffer not in self.storing.values()),
            key=lambda buffer: (buffer.stored, buffer.number), default=None,
        ),
    ),
    "a worm leaves a pool a cycle early": (fabric, "WAITS", 4),
    "a worm leaves a pool a cycle late": (fabric, "WAITS", 6),
    "the free buffers are taken from the last on": (
        fabric.PooledRouter, "_free", lambda self, free=fabric.PooledRouter._free: free(self)[::-1],
    ),
    "one buffer of a pool is never used": (
        fabric.PooledRouter, "_free", lambda self, free=fabric.PooledRouter._free: [b for b in free(self) if b.number],
    ),
    "pools pin up-ports without salt": (fabric.PooledRouter, "salt", property(lambda self: 0, lambda self, to: None)),
}  # fmt: skip


@pytest.fixture(scope="module")
def runs() -> list[Run]:
    names = [
        ("routers", "tree level 0"),
        ("queued routers", "tree level 0, queue of 1"),
        ("queued routers", "tree level 0, pool of 2"),
        ("large pools", "crossbar of 9, pool of 8"),
    ]
    return [run(group, name, 1000, 2) for group, name in names]


@pytest.mark.parametrize("error", ERRORS)
def test_a_planted_error_is_seen(error, runs, monkeypatch):
    where, name, instead = ERRORS[error]
    monkeypatch.setattr(where, name, instead, raising=False)
    assert any(difference(golden) for golden in runs)
