"""Acceptance: each verdict, what a delivery does to its stream, and when WINDOW is marked (contract of flow, 6)."""

import pytest

from lethe.services.flow.acceptance import Acceptance
from lethe.services.flow.layouts import EntryKind
from lethe.spec.events import ACCEPTANCE, Drop
from tests.hdl.services.flow.blocks import counted, layouts, placed
from tests.helpers.simulated import simulated

EXPECTED, TOLD = 250, 254  # numbers wrap


def word(*, seq: int, dport: int = 1, sport: int = 2, flags: int = 3, credit: int = 5) -> int:
    return credit | seq << 16 | flags << 24 | sport << 32 | dport << 48


class Bench:
    """One message: shown in cycle 0, it acts in cycle 5."""

    def __init__(self, **stream):
        self.block = Acceptance(layouts())
        self.stream = {"expected": EXPECTED, "present": 0, "filled": 0, "told": TOLD, **stream}
        for name in ("present", "filled"):
            self.stream[name] = placed(self.stream[name], self.stream["expected"])
        self.ports = {"judged_open": 1, "judged_bound": 1, "judged_full": 0, "judged_crowded": 0}
        self.arrival = {"source": 0, "length": 20, "best_effort": 0}
        self.number = 1

    def run(self, seq: int, **fields) -> dict:
        """What it does if the NI delivers it unless it is refused."""
        seen: dict = {}
        block = self.block

        async def test(ctx):
            for name, value in self.ports.items():
                ctx.set(getattr(block, name), value)
            arrival = {"valid": 1, "word": word(seq=seq & 0xFF, **fields), **self.arrival}
            for name in block.arrival.shape().members:
                ctx.set(block.arrival[name], arrival.get(name, 0))
            soon = []
            for cycle in range(5):
                soon.append([ctx.get(getattr(block, name)) for name in ("accept_reads", "mark_soon", "accept_soon")])
                if cycle == 2:
                    seen["asks"] = ctx.get(block.accept_stream)
                if cycle == 4:
                    assert ctx.get(block.judged_port) == fields.get("dport", 1) % 4
                    assert ctx.get(block.judged_source) == self.arrival["source"]
                    ctx.set(block.judged_number, self.number)
                    ctx.set(block.accept_in, self.stream)
                await ctx.tick()
                ctx.set(block.arrival.valid, 0)
                ctx.set(block.judged_number, 99)
                ctx.set(block.accept_in, {"expected": 77})
            assert soon == [[0, 0, 0], [0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]
            assert ctx.get(block.accept_now)
            seen["refusal"] = ctx.get(block.refusal)
            assert not ctx.get(block.accept_enters) and not ctx.get(block.accept_writes)
            ctx.set(block.delivered, seen["refusal"] == 0)
            entry, after = ctx.get(block.accept_entry), ctx.get(block.accept_word)
            seen.update({name: ctx.get(getattr(block, f"accept_{name}")) for name in ("enters", "writes", "takes")})
            count = (entry.count - entry.seq - 1) % 16 + 1 if entry.count & 16 else 0
            seen.update(kind=entry.kind, count=count, mask=counted(entry.mask, EXPECTED), entry=entry)
            first = after.expected
            seen["after"] = (
                first, counted(after.present, first), counted(after.filled, first), after.told,
            )  # fmt: skip
            seen["shown"] = ctx.get(block.shown_commit), ctx.get(block.shown_ignored)
            await ctx.tick()
            seen["marks"] = ctx.get(block.accept_marks)
            assert not ctx.get(block.accept_now)

        simulated(block, test)
        return seen


def refused(seen: dict, drop: Drop) -> bool:
    assert not seen["enters"] and not seen["takes"] and not seen["marks"]
    return seen["refusal"] == ACCEPTANCE.index(drop)


def test_the_expected_one_takes_those_behind_it():
    seen = Bench(present=0b0110_1110, filled=0b0010_1010).run(EXPECTED)
    assert (seen["kind"], seen["count"], seen["mask"]) == (EntryKind.PLACE, 4, 0b0010_1011)
    assert seen["after"] == ((EXPECTED + 4) & 0xFF, 0b0110, 0b0010, TOLD)
    assert seen["takes"] and seen["writes"] and seen["shown"] == (1, 0) and seen["asks"] == 1
    entry = seen["entry"]
    assert (entry.source, entry.index, entry.seq, entry.q) == (0, 1, EXPECTED, 2)


def test_sixteen_at_once():
    seen = Bench(present=0xFFFE, filled=0xFFFE).run(EXPECTED)
    assert seen["count"] == 16 and seen["after"][:3] == ((EXPECTED + 16) & 0xFF, 0, 0)


@pytest.mark.parametrize("apart", [1, 7, 15])
def test_a_later_one_is_parked(apart):
    seen = Bench().run(EXPECTED + apart)
    assert (seen["kind"], seen["count"]) == (EntryKind.PLACE, 0)
    assert seen["after"] == (EXPECTED, 1 << apart, 1 << apart, TOLD)


@pytest.mark.parametrize(("apart", "drop"), [(16, Drop.NOT_OPEN), (239, Drop.NOT_OPEN)])
def test_numbers_far_away_are_refused(apart, drop):
    assert refused(Bench().run(EXPECTED + apart), drop)


@pytest.mark.parametrize("apart", [240, 255, 3])
def test_what_is_known_is_acknowledged_and_dropped(apart):
    seen = Bench(present=0b1000).run(EXPECTED + apart)
    assert (seen["kind"], seen["count"], seen["refusal"]) == (EntryKind.SKIP, 0, 0)
    assert seen["enters"] and not seen["writes"] and not seen["takes"] and seen["shown"] == (0, 1)


def test_a_source_that_is_closed_or_does_not_exist():
    bench = Bench()
    bench.ports["judged_open"] = 0
    assert refused(bench.run(EXPECTED), Drop.NOT_OPEN)
    bench = Bench()
    bench.arrival["best_effort"] = 1
    assert refused(bench.run(EXPECTED), Drop.NOT_OPEN)


def test_a_message_shorter_than_its_header():
    bench = Bench()
    bench.arrival["length"] = 7
    seen = bench.run(EXPECTED)
    assert seen["kind"] == EntryKind.SKIP and not seen["writes"]


@pytest.mark.parametrize("number", [None, *(1 ^ 1 << bit for bit in range(2, 16))])
def test_nobody_is_bound(number):
    """The port is unbound, or its number has one other bit: the message is passed over, without a cell."""
    bench = Bench(present=0b10, filled=0b10)
    if number is None:
        bench.ports["judged_bound"] = 0
    else:
        bench.number = number
    seen = bench.run(EXPECTED)
    assert (seen["kind"], seen["count"], seen["mask"], seen["takes"]) == (EntryKind.SKIP, 2, 0b10, 0)
    assert seen["after"][:3] == ((EXPECTED + 2) & 0xFF, 0, 0) and seen["shown"] == (0, 1)


def test_cells():
    """The last are for expected numbers."""
    for full, crowded, apart, drop in ((1, 1, 0, Drop.PORT_FULL), (0, 1, 1, Drop.EARLY), (1, 1, 1, Drop.EARLY)):
        bench = Bench()
        bench.ports |= {"judged_full": full, "judged_crowded": crowded}
        assert refused(bench.run(EXPECTED + apart), drop)
    bench = Bench()
    bench.ports["judged_crowded"] = 1
    assert bench.run(EXPECTED)["takes"]


@pytest.mark.parametrize(
    ("told", "flags", "marks"), [(2, 3, 0), (3, 3, 0), (1, 3, 0), (253, 3, 0), (252, 3, 1), (250, 3, 1), (3, 11, 1)]
)
def test_a_window_is_marked(told, flags, marks):
    """If less than 2 is told beyond what is expected afterwards, or the sender asks."""
    assert Bench(told=told).run(EXPECTED, flags=flags)["marks"] == marks
