"""What flow promises of the cells of its ports, for all inputs, in small configurations and bounded time.

That a slot of the NI is in one place is proved of the NI (`test_ni_always.test_a_slot_is_in_one_place`).
"""

import pytest
from amaranth.asserts import AnyConst, AnySeq
from amaranth.hdl import Assert, Assume, Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring

from lethe.lib.table import Table
from lethe.services.flow.acceptance import Acceptance
from lethe.services.flow.drainer import Drainer
from lethe.services.flow.layouts import EntryKind, Layouts
from lethe.services.flow.ports import Ports
from lethe.services.flow.reader import PortReader
from lethe.spec.config import System
from lethe.spec.ports import HostPort
from lethe.spec.sections.flow import OF_NI, WINDOW
from lethe.spec.services.flow import FLOW
from tests.helpers.proof import changed, opened, prove
from tests.helpers.tiers import but

#: Bytes of a message: at most one beat of a cell.
MOST = 8
#: The node that messages come from.
OTHER = 1
#: Cycles of a proof: a message to the own node is freed within 13, one of the NI, that is flushed, within 16.
SHORT, CYCLES, LONG = 13, 16, 17


def _system(cells: int) -> System:
    return System.make(
        topology={"kind": "wire"},
        wire={"mtu": MOST + 8, "generation_bits": 4},
        ni=OF_NI | {"slots": 4, "control_slots": 2, "deliver_records": 2},
        timers={"wrap_guard": 0},
        workload={"min_length": 4, "max_length": 4},
        flow={"ports": 2, "cells": cells, "in_order": 1},
    )


def _ones(value, most: int):
    """How many bits are 1."""
    return sum((value[k] for k in range(most)), Const(0, 1))


class CellSpecification(wiring.Component):
    """Each cell is free, or the drainer has it, or it is parked, or it waits to be read, and only one of these.

    Acceptance, ports, drainer and reader are joined as in flow.  All else is at will, within what the other blocks and
    the NI promise: messages of the NI are those of the one other node; no two arrive in consecutive cycles, as a worm
    of data is longer; one is delivered only if it is not refused, and while the NI holds fewer than
    ``deliver_records``; all have one length; a run of a flush and a message to the own node enter only where the
    contract allows it (sections 5 and 9.7), one of the latter at a time.

    Parameters
    ----------
    cells : of each port
    parts : the classes of acceptance, ports, drainer and reader
    """

    def __init__(self, cells: int, parts=(Acceptance, Ports, Drainer, PortReader)):
        self._cells, self._parts = cells, parts
        super().__init__({})

    def elaborate(self, platform):
        m = Module()
        system = _system(self._cells)
        below = HostPort.of_ni(system)
        of = Layouts(system, below)
        kinds = self._parts
        acceptance, ports, drainer = kinds[0](of), kinds[1](of), kinds[2](of)
        reader = kinds[3](of, FLOW.above(system, below))
        inside, read = opened(drainer), opened(reader)
        m.submodules.acceptance, m.submodules.ports = acceptance, ports
        m.submodules.drainer, m.submodules.reader = drainer, reader
        m.submodules.receiving = receiving = Table(of.receiving, of.streams, ("now",), init=of.new_receiving)
        indices, cells = range(of.ports), range(of.cells)

        # The walk after a reset.
        walk, ready = Signal(range(of.initial + 1)), Signal()
        m.d.comb += ready.eq(walk == of.initial)
        m.d.sync += walk.eq(walk + ~ready)
        m.d.comb += [receiving.clear.eq(~ready & (walk < of.streams)), receiving.clear_addr.eq(walk)]
        for block in (ports, drainer):
            m.d.comb += [block.clear.eq(~ready), block.clear_addr.eq(walk)]
        for block in (ports, reader):
            m.d.comb += [block.ports_clear.eq(~ready & (walk < of.ports)), block.ports_clear_addr.eq(walk)]

        # Messages of the NI.
        length, waiting, arrived = AnyConst(of.length_bits), Signal(range(8)), Signal()
        taken = drainer.deliver.valid & drainer.deliver.ready
        m.d.comb += [
            Assume((length >= of.header_bytes) & (length <= of.header_bytes + MOST)),
            Assume(~acceptance.arrival.valid | (acceptance.arrival.source == OTHER)),
            acceptance.arrival.valid.eq(~arrived & AnySeq(1)),
            acceptance.arrival.word.eq(AnySeq(len(acceptance.arrival.word))),
            acceptance.arrival.source.eq(AnySeq(len(acceptance.arrival.source))),
            acceptance.arrival.best_effort.eq(AnySeq(1)),
            acceptance.arrival.length.eq(length),
            acceptance.judged_open.eq(AnySeq(1)),
            acceptance.delivered.eq(
                acceptance.accept_now & (acceptance.refusal == 0) & (waiting != system.ni.deliver_records) & AnySeq(1)
            ),
            drainer.deliver.valid.eq((waiting != 0) & AnySeq(1)),
            drainer.deliver.payload.length.eq(length),
            drainer.deliver_data.valid.eq(1),
            drainer.deliver_data.payload.data.eq(AnySeq(of.system.format.flit_bits)),
        ]
        m.d.sync += [waiting.eq(waiting + acceptance.delivered - taken), arrived.eq(acceptance.arrival.valid)]

        # What is kept of in streams, as registers: a flush needs all of it at once.
        words = [Signal(of.receiving, name=f"word{s}", init=of.new_receiving) for s in range(of.streams)]
        at, word = Signal(of.stream_bits), Signal(of.receiving)
        flushes, flushed, was_high = Signal(), Signal(of.stream_bits), Signal()
        m.d.sync += was_high.eq(drainer.journal_high)
        m.d.comb += [
            flushed.eq(of.stream(OTHER, AnySeq(of.port_bits))),
            flushes.eq(
                ready & AnySeq(1) & ~acceptance.accept_soon & ~acceptance.accept_now & ~was_high
                & ~drainer.credit_acts
            ),
            at.eq(Mux(acceptance.accept_writes, acceptance.accept_at, flushed)),
            word.eq(Mux(acceptance.accept_writes, acceptance.accept_word, of.new_receiving)),
            receiving.now_addr.eq(acceptance.accept_stream),
            receiving.write_en.eq(acceptance.accept_writes | flushes),
            receiving.write_addr.eq(at),
            receiving.write.eq(word),
            acceptance.accept_in.eq(receiving.now),
        ]  # fmt: skip
        old, highest = Signal(of.receiving), Signal(range(WINDOW + 1))
        with m.Switch(flushed):
            for s in range(of.streams):
                with m.Case(s):
                    m.d.comb += old.eq(words[s])
        for s in range(of.streams):
            with m.If(receiving.write_en & (at == s)):
                m.d.sync += words[s].eq(word)
        for k in range(WINDOW):
            with m.If(old.filled.bit_select((old.expected + k)[:4], 1)):
                m.d.comb += highest.eq(k + 1)

        # Messages to the own node.
        owns, pending, own_port = Signal(), Signal(), AnyConst(of.port_bits)
        m.d.comb += [
            owns.eq(
                ready & AnySeq(1) & ~pending & ~ports.own_full & ~acceptance.accept_soon & ~acceptance.accept_now
                & ~flushes & ~was_high
            ),
            drainer.own_length.eq(length - of.header_bytes),
            drainer.own_header.dport.eq(own_port),
        ]  # fmt: skip
        m.d.sync += pending.eq((pending & ~drainer.own_ends) | owns)
        own, run = Signal(of.journal), Signal(of.journal)
        m.d.comb += [
            own.kind.eq(EntryKind.OWN), own.index.eq(own_port), own.count.eq(1),
            run.kind.eq(EntryKind.FLUSH), Cat(run.index, run.source).eq(flushed), run.seq.eq(old.expected),
            run.count.eq(highest + 1), run.mask.eq(old.filled),
            drainer.enters.eq(acceptance.accept_enters | owns | flushes),
            drainer.entry.eq(Mux(acceptance.accept_enters, acceptance.accept_entry, Mux(owns, own, run))),
        ]  # fmt: skip

        # Ports.
        m.d.comb += [
            ports.ready.eq(ready), ports.own_port.eq(own_port), ports.own_takes.eq(owns),
            ports.accept_now.eq(acceptance.accept_now), ports.accept_takes.eq(acceptance.accept_takes),
            ports.accept_port.eq(acceptance.accept_port),
            ports.judged_port.eq(acceptance.judged_port), acceptance.judged_number.eq(ports.judged_number),
            acceptance.judged_full.eq(ports.judged_full), acceptance.judged_crowded.eq(ports.judged_crowded),
            acceptance.judged_bound.eq(ports.judged_bound), ports.binds.eq(ready & AnySeq(1)),
            ports.unbinds.eq(ready & AnySeq(1)),
            ports.binds_if_last.eq(ready & AnySeq(1)), ports.fetches_last.eq(reader.fetches_last),
            ports.names.eq(ports.binds | ports.binds_if_last),
            ports.set_index.eq(AnySeq(of.port_bits)), ports.set_value.eq(AnySeq(16)),
            ports.free_port.eq(drainer.free_port), ports.free_takes.eq(drainer.free_takes),
            drainer.free_cell.eq(ports.free_cell), ports.frees.eq(reader.frees), ports.may_free.eq(reader.may_free),
            ports.freed_port.eq(reader.freed_port), ports.freed_cell.eq(reader.freed_cell),
            ports.freed_length.eq(reader.freed_length), ports.fetched_port.eq(reader.fetched_port),
            reader.fetched_number.eq(ports.fetched_number), reader.fetched_bound.eq(ports.fetched_bound),
            reader.bound.eq(ports.bound),
        ]  # fmt: skip
        # Reader.
        m.d.comb += [
            *(
                getattr(reader, name).eq(getattr(drainer, name))
                for name in (
                    "appends", "append_port", "append_list", "append_word", "cell_writes", "cell_at", "cell_word",
                    "store_writes", "store_at", "store_data",
                )
            ),
            reader.receive_mask.eq(AnySeq(of.ports)), reader.deliver.ready.eq(AnySeq(1)),
            reader.deliver_data.ready.eq(AnySeq(1)),
        ]  # fmt: skip

        # Where each cell is.
        parks = inside.parked.write_en
        flat = {
            # Which cell was taken is known when it comes.
            "takes": (inside.come, Cat(ports.free_cell, inside.entry.index)),
            "parks": (parks, Cat(inside.cell, inside.entry.index)),
            "appends": (drainer.appends, Cat(drainer.append_word.cell, drainer.append_port)),
            "frees": (reader.frees, Cat(reader.freed_cell, reader.freed_port)),
        }
        free, held, parked, listed = ([] for _ in range(4))
        for i in indices:
            for c in cells:
                this = {name: moves & (place == (i << of.cell_bits | c)) for name, (moves, place) in flat.items()}
                places = [Signal(name=f"{n}{i}_{c}", init=n == "free") for n in ("free", "held", "parked", "listed")]
                is_free, is_held, is_parked, is_listed = places
                holds = is_held | this["takes"]
                placed = Mux(inside.acts, is_parked, holds)
                m.d.comb += [
                    Assert(_ones(Cat(places), 4) == 1),
                    Assert(~this["takes"] | is_free),
                    Assert(~this["parks"] | holds),
                    Assert(~this["appends"] | placed),
                    Assert(~this["frees"] | is_listed),
                ]
                with m.If(this["takes"]):
                    m.d.sync += [is_free.eq(0), is_held.eq(1)]
                with m.If(this["parks"]):
                    m.d.sync += [is_held.eq(0), is_parked.eq(1)]
                with m.If(this["appends"]):
                    m.d.sync += [is_held.eq(0), is_parked.eq(0), is_listed.eq(1)]
                with m.If(this["frees"]):
                    m.d.sync += [is_listed.eq(0), is_free.eq(1)]
                for group, one in zip((free, held, parked, listed), places, strict=True):
                    group.append(one)
        here = range(len(free))
        # Every cell that moves is one that there is.
        m.d.comb += [
            *(Assert(~moves | (place[: of.cell_bits] < of.cells)) for moves, place in flat.values()),
            # The drainer has at most one, and none while it has nothing to do.
            Assert(_ones(Cat(held), len(here)) <= 1),
            Assert(~(drainer.drainer_idle & ~inside.settles) | ~Cat(held).any()),
        ]
        # None is lost: a list holds those that wait, and streams know of those that are parked.
        for i in indices:
            mine = slice(i * of.cells, (i + 1) * of.cells)
            level = Signal(range(of.cells + 2), name=f"level{i}")
            comes, goes = drainer.appends & (drainer.append_port == i), read.leaving & (read.port == i)
            m.d.sync += level.eq(level + comes - goes)
            reading = read.fetching & (read.port == i)
            shows = (read.showing | read.done) & (read.shown_at[of.cell_bits :] == i)
            left = level - goes
            m.d.comb += [
                Assert(_ones(Cat(listed[mine]), of.cells) == left + reading + shows),
                Assert(reader.readable[i] == (left != 0)),
            ]
            known = sum(_ones(words[n << of.port_bits | i].filled, WINDOW) for n in range(of.nodes))
            rests = drainer.journal_empty & drainer.drainer_idle & ~inside.settles
            m.d.comb += Assert(~(ready & rests) | (_ones(Cat(parked[mine]), of.cells) == known))
            used = Signal(range(of.ports * of.cells + 1), name=f"used{i}")
            takes = acceptance.accept_takes & (acceptance.accept_port == i) | owns & (own_port == i)
            m.d.sync += used.eq(used + takes - (reader.frees & (reader.freed_port == i)))
            m.d.comb += [
                Assert(used <= of.cells),
                # Those that were promised and are not taken yet are in the journal.
                Assert(~(ready & rests) | (_ones(Cat(free[mine]), of.cells) == of.cells - used)),
            ]
        return m


@pytest.mark.parametrize("cycles", but([SHORT], [SHORT, LONG]))
def test_a_cell_is_in_one_place(cycles, tmp_path):
    prove(CellSpecification(2), tmp_path, cycles=cycles)


#: (class, as it is, as it must not be)
WRONG = (
    (Drainer, "parked.write_data.eq(cell)", "parked.write_data.eq(~cell)"),
    (Drainer, "self.append_word.cell.eq(Mux(acts, parked.read_data, cell))", "self.append_word.cell.eq(cell)"),
    (Ports, "self.free_cell.eq(cells.read_data)", "self.free_cell.eq(0)"),
    (Ports, 'self.judged_full.eq(free["judged"] == 0)', "self.judged_full.eq(0)"),
    (PortReader, "self.frees.eq(done | flushes)", "self.frees.eq(done)"),
    (Acceptance, "roomy_others.eq(~self.judged_crowded)", "roomy_others.eq(1)"),
)


#: Of the others the solver takes three times as long.
@pytest.mark.push
@pytest.mark.parametrize("number", but((2, 3, 5), range(len(WRONG))))
def test_a_wrong_block_is_refused(number, tmp_path):
    cls, *change = WRONG[number]
    parts = [changed(part, tuple(change)) if part is cls else part for part in (Acceptance, Ports, Drainer, PortReader)]
    with pytest.raises(AssertionError, match="Assert failed"):
        prove(CellSpecification(2, parts), tmp_path, cycles=CYCLES)
