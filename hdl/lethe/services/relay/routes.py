"""Routes in two banks, and where the datagrams of relay at the NI go (contract of relay, 4)."""

import typing

from amaranth.hdl import Cat, Mux, Signal, Value
from amaranth.utils import ceil_log2

from lethe.lib.memory import Ram
from lethe.lib.table import Words
from lethe.spec.services.relay import RelayJob

from .steps import WalkRows, is_same, one_of

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
    at = Cat(word.target[:bits], ~u.bank)
    relation, given = Signal(4), Signal(of.node_bits)
    # One after the other in the cycles before the step.
    m.d.comb += given.eq(Mux(good, word.hop, u.node))
    m.d.sync += [
        good.eq(word.hop < of.nodes),
        hop.eq(given),
        way.eq(Mux(good, word.way, 0)),
        relation.eq(Mux(good & (given == word.target), word.way, 0)),
    ]
    for ram, value in ((ups, hop), (downs, Cat(hop, way)), (relations, relation)):
        m.d.comb += [
            ram.write_en.eq(u.routes), ram.write_addr.eq(at), Value.cast(ram.write_data).eq(value),
        ]  # fmt: skip
    # Whether the row of a walk has a relation, in each bank.
    u.related = [Words(1, 1 << bits, ("walk", "ahead")) for _ in range(2)]
    for bank, words in enumerate(u.related):
        m.submodules[f"related{bank}"] = words
        m.d.comb += [
            words.write_en.eq(u.routes & (u.bank != bank)), words.write_addr.eq(word.target[:bits]),
            words.write.eq(relation.any()),
            words.walk_addr.eq(u.walk_row[:bits]), words.ahead_addr.eq(u.ahead_row[:bits]),
        ]  # fmt: skip

    # Up and down: those of what was heard, but for long jobs.
    up_node, down_node, down_bank = Signal(of.node_bits), Signal(of.node_bits), Signal()
    m.d.comb += down_bank.eq(u.bank)
    u.life = Words(of.life, of.ni_slots, ("cancelled",))
    m.submodules.life = u.life
    m.d.comb += u.life.cancelled_addr.eq(u.cancel_row)
    cells, records = u.in_rows[WalkRows.CELLS], u.in_rows[WalkRows.RECORDS]
    launch, look, walk = u.under[RelayJob.LAUNCH], u.under[RelayJob.LOOK], u.under[RelayJob.WALK]
    recorded = (launch & u.launched.buffered) | (walk & records)
    slotted = look | (launch & ~u.launched.buffered) | (walk & ~records)
    # What long jobs ask about comes from registers, if it is there in time.
    others = (
        (u.under[RelayJob.FEED], u.fed), (u.under[RelayJob.CANCEL], u.life.cancelled.destination),
        (u.under[RelayJob.OWED] | (walk & ~cells), u.message.source), (walk & cells, u.cell.source),
    )  # fmt: skip
    other, other_node, of_record, of_slot = Signal(), Signal(of.node_bits), Signal(), Signal()
    target = Signal(of.node_bits)  # of a record
    m.d.sync += [
        # Not behind the step: the next job may ask at once.
        other.eq(Cat(asks for asks, _ in others).any() & ~u.step), other_node.eq(one_of(0, *others)),
        of_record.eq(recorded & ~u.step), of_slot.eq(slotted & ~u.step), target.eq(u.message.target),
    ]  # fmt: skip
    m.d.comb += [
        up_node.eq(Mux(other, other_node, u.coming.source)),
        down_node.eq(one_of(u.coming.target, (of_record, target), (of_slot, u.slot.target))),
    ]
    # In a walk the route of the other bank is asked for a cycle later.
    with m.If(u.doing(RelayJob.WALK) & (u.count == 3)):
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
    now = Signal(of.down)
    # Whether the way was asked for; whether nobody is there, or a message has no way on from here.
    u.asked, u.ends_here, u.turns = Signal(), Signal(), Signal()
    hop, up = downs.read_data.hop, ups.read_data
    with m.If(u.count == 2):
        m.d.sync += [
            now.eq(downs.read_data), u.asked.eq(u.asking.bit_select(downs.read_data.way, 1)),
            u.ends_here.eq(is_same(hop, u.node)),
            u.turns.eq(is_same(hop, u.node) | is_same(up, u.node) | is_same(up, hop)),
        ]  # fmt: skip
    u.up, u.relation, u.down, u.kept_hop = ups.read_data, relations.read_data, downs.read_data, now.hop


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
    m.d.comb += [
        u.ended.accepted_addr.eq(accepted.slot),
        u.accepts.write_en.eq(takes), u.accepts.write_addr.eq(accepted.slot), u.accepts.write.eq(~u.ended.accepted),
        u.ended.write_en.eq(u.completions.takes_below), u.ended.write_addr.eq(u.below.completion.payload.slot),
        u.ended.write.eq(u.accepts.ended),
    ]  # fmt: skip
