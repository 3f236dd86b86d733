"""One node with mirrors in the place of the network: messages come back as another node's, and every datagram once."""

import random

import pytest
from amaranth.sim import Simulator

from lethe.spec.config import System
from lethe.spec.events import Kind
from lethe_fpga.mirror import Mirror, MirroredNode, MirrorError
from lethe_fpga.selftest import MIRRORED
from tests.helpers.tiers import but


def stepped(dut, flits: list[dict]) -> list[dict]:
    """What ``dut`` returns for these flits, one in each cycle, two cycles later."""
    seen = []

    async def drive(ctx):
        for flit in [*flits, {}, {}]:
            ctx.set(dut.i, {"valid": 0, "first": 0, "last": 0, "data": 0} | flit)
            await ctx.tick()
            seen.append({name: int(getattr(ctx.get(dut.o), name)) for name in ("valid", "first", "last", "data")})

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(drive)
    simulator.run()
    return seen[1 : 1 + len(flits)]


def worm(words: list[int]) -> list[dict]:
    return [
        {"valid": 1, "first": int(i == 0), "last": int(i == len(words) - 1), "data": word}
        for i, word in enumerate(words)
    ]


@pytest.mark.parametrize(
    "flit_bits, nodes",
    but(
        [(16, 4), (32, 24), (64, 2), (128, 4)],
        [(flit_bits, nodes) for flit_bits in (16, 32, 64, 128) for nodes in (2, 4, 24)],
    ),
)
def test_a_message_comes_back_from_the_node_it_was_for(flit_bits, nodes):
    """Of every kind and length, back to back and with gaps, whatever its fields: flit by flit as that node sends it."""
    system = System.make(
        topology={"kind": "mesh", "columns": nodes // 2, "rows": 2}, wire={"flit_bits": flit_bits}, ni={"slots": 4}
    )
    form, draw = system.format, random.Random(flit_bits * nodes)
    sent, expected = [], []
    for _ in range(100):
        kind = draw.choice((Kind.SEND, Kind.ACK, Kind.FORGET, Kind.BE))
        data = kind in (Kind.SEND, Kind.BE)
        payload = draw.randbytes(draw.randrange(33)) if data else b""
        fields = {f.name: draw.randrange(1 << f.width) for f in (form.send if data else form.common)} | {"kind": kind}
        if data:
            fields["length"] = len(payload)
        swapped = fields | {"destination": fields["source"], "source": fields["destination"]}
        gap = [{"valid": 0, "first": 0, "last": 0, "data": 0}] * draw.choice((0, 0, 1, 3))
        sent += worm(form.flits(fields, payload)) + gap
        expected += worm(form.flits(swapped, payload)) + gap
    assert stepped(Mirror(form), sent) == expected


def test_a_wrong_crc_stays_wrong():
    """By the same bits."""
    form = System.make(preset="tiny").format
    fields = {"kind": Kind.ACK, "destination": 1, "source": 0, "slot": 2}
    back = form.flits(fields | {"destination": 0, "source": 1})
    words = form.flits(fields)
    words[-1] ^= 0x0104
    back[-1] ^= 0x0104
    assert [flit["data"] for flit in stepped(Mirror(form), worm(words))] == back


def system(count: int, **sections: dict) -> System:
    found = {name: dict(table) for name, table in MIRRORED.items() if name != "preset"} | sections
    return System.make(preset=MIRRORED["preset"], **found | {"workload": found["workload"] | {"count": count}})


def run(dut: MirroredNode, cycles: int) -> tuple[int, int]:
    """The first cycles in which ``done`` and ``ok`` were 1; ``cycles`` if never."""
    first = {"done": cycles, "ok": cycles}

    async def watch(ctx):
        for cycle in range(cycles):
            for name, seen in first.items():
                if seen == cycles and ctx.get(getattr(dut, name)):
                    first[name] = cycle
            if first["ok"] < cycles:
                break
            await ctx.tick()

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(watch)
    simulator.run()
    return first["done"], first["ok"]


@pytest.mark.push
def test_every_datagram_comes_back_once():
    """Though the link loses 30 % of all messages, so that ends come after many repeats."""
    done, ok = run(MirroredNode(system(20)), 20_000)
    assert 200 < done < ok < 20_000
    done, lossless = run(MirroredNode(system(20, faults={"loss": 0.0})), 20_000)
    assert done < lossless < ok / 2


@pytest.mark.full
def test_a_link_that_loses_nearly_all_is_no_success():
    _, ok = run(MirroredNode(system(2, faults={"loss": 0.99})), 3_000)
    assert ok == 3_000


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        (
            {"topology": {"kind": "tree"}},
            "topology.kind: a mirror is beside a router of a mesh, not of a tree; set it ",
        ),
        (
            {"faults": {"stalls": [{"node": 0, "start": 1, "end": 2}]}},
            "faults.stalls: a node with mirrors has none; leave it out",
        ),
    ],
)
def test_what_cannot_be_mirrored(sections, message):
    with pytest.raises(MirrorError) as raised:
        MirroredNode(System.make(source="my.toml", **{"topology": {"kind": "mesh"}} | sections))
    assert str(raised.value).startswith(f"my.toml: {message}")
