"""Routes in two banks, and where the datagrams of relay at the NI go (contract of relay, 4)."""

import typing

from amaranth.hdl import Cat, Mux, Signal, Value
from amaranth.utils import ceil_log2

from lethe.lib.memory import Ram
from lethe.lib.table import Words
from lethe.spec.services.relay import RelayJob

from .steps import WalkRows, one_of

if typing.TYPE_CHECKING:
    from .unit import JobUnit

__all__ = ["add_routes", "add_rows"]


def add_routes(u: "JobUnit") -> None:
    """The routes, and which of them a job asks for."""
    m, of = u.m, u.of
    bits = ceil_log2(max(2, of.nodes))
    deep = 2 << bits
    m.submodules.ups = ups = Ram(of.node_bits, deep)
    m.submodules.downs = downs = Ram(of.down, deep)
    m.submodules.relations = relations = Ram(of.down["way"].shape, deep)
    u.routes = Signal()  # a route is written, in the other bank
    word, good, hop, way = u.tree_word, Signal(), Signal(of.node_bits), Signal(4)
    m.d.sync += good.eq(word.hop < of.nodes)  # before the step
    at = Cat(word.target[:bits], ~u.bank)
    relation = Signal(4)
    m.d.comb += [
        hop.eq(Mux(good, word.hop, u.node)),
        way.eq(Mux(good, word.way, 0)),
        relation.eq(Mux(hop == word.target, way, 0)),
    ]
    for ram, value in ((ups, hop), (downs, Cat(hop, way)), (relations, relation)):
        m.d.comb += [
            ram.write_en.eq(u.routes), ram.write_addr.eq(at), Value.cast(ram.write_data).eq(value),
        ]  # fmt: skip
    # Whether the row of a walk has a relation, in each bank: that of the next row is read ahead.
    related, row = Signal(2), u.walk_row[:bits]
    for bank in range(2):
        words = Words(1, 1 << bits, ("here", "ahead"))
        m.submodules[f"related{bank}"] = words
        m.d.comb += [
            words.write_en.eq(u.routes & (u.bank != bank)), words.write_addr.eq(word.target[:bits]),
            words.write.eq(relation.any()), words.here_addr.eq(row), words.ahead_addr.eq(row + 1),
        ]  # fmt: skip
        m.d.sync += related[bank].eq(Mux(u.walk_goes_on, words.ahead, words.here))

    # Up and down: those of what was heard, but for long jobs.
    up_node, down_node, down_bank = Signal(of.node_bits), Signal(of.node_bits), Signal()
    m.d.comb += down_bank.eq(u.bank)
    u.life = Words(of.life, of.ni_slots, ("cancelled",))
    m.submodules.life = u.life
    m.d.comb += u.life.cancelled_addr.eq(u.cancel_row)
    cells, records = u.walk == WalkRows.CELLS, u.walk == WalkRows.RECORDS
    launch, look, walk = u.under[RelayJob.LAUNCH], u.under[RelayJob.LOOK], u.under[RelayJob.WALK]
    recorded = (launch & u.launched.buffered) | (walk & records)
    slotted = look | (launch & ~u.launched.buffered) | (walk & ~records)
    m.d.comb += [
        up_node.eq(
            one_of(
                u.coming.source, (u.under[RelayJob.FEED], u.fed),
                (u.under[RelayJob.CANCEL], u.life.cancelled.destination),
                (u.under[RelayJob.OWED] | (walk & ~cells), u.message.source), (walk & cells, u.cell.source),
            )
        ),
        down_node.eq(one_of(u.coming.target, (recorded, u.message.target), (slotted, u.slot.target))),
    ]  # fmt: skip
    # In a walk the route of the other bank is asked for a cycle later.
    with m.If(u.doing(RelayJob.WALK) & (u.count == 4)):
        m.d.comb += down_bank.eq(~u.bank)
    relation_bank = Signal()
    relation_node = Signal(of.node_bits)
    m.d.comb += [
        relation_bank.eq(Mux(u.doing(RelayJob.WALK), ~u.bank, u.bank)),
        relation_node.eq(Mux(walk, u.walk_row, u.coming_sender)),
        ups.read_addr.eq(Cat(up_node[:bits], u.bank)),
        downs.read_addr.eq(Cat(down_node[:bits], down_bank)),
        relations.read_addr.eq(Cat(relation_node[:bits], relation_bank)),
    ]
    now, before = Signal(of.down), Signal(of.down)
    with m.If(u.count == 3):
        m.d.sync += now.eq(downs.read_data)
    with m.If(u.count == 2):
        m.d.sync += before.eq(downs.read_data)
    u.up, u.relation, u.before = ups.read_data, relations.read_data, before
    u.down = Signal(of.down)
    m.d.comb += u.down.eq(Mux(u.doing(RelayJob.WALK), now, downs.read_data))
    with m.Switch(u.walk):
        for rows, used in (
            (WalkRows.SLOTS, u.lives.walk), (WalkRows.RECORDS, u.valid.walk),
            (WalkRows.CELLS, u.is_parked.walk), (WalkRows.NODES, Mux(u.bank, related[1], related[0])),
        ):  # fmt: skip
            with m.Case(rows):
                m.d.comb += u.used.eq(used)


def add_rows(u: "JobUnit") -> None:
    """Rows of the slots of the NI."""
    m, accepted = u.m, u.below.accepted
    moving, control = u.hop.now, accepted.control
    takes = accepted.valid & (control | ~u.hop.idle)
    m.d.comb += [
        u.life.write_en.eq(takes),
        u.life.write_addr.eq(accepted.slot),
        u.life.write.generation.eq(accepted.generation),
        u.life.write.destination.eq(Mux(control, u.control.destination, moving.hop)),
    ]
    ended = u.below.completion.payload.slot
    m.d.sync += u.mine.eq((u.mine | Mux(takes, 1 << accepted.slot, 0)) & ~Mux(u.completions.takes_below, 1 << ended, 0))
