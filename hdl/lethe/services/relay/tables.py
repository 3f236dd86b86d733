"""Tables by node, by slot and by cell, and what a step writes there (contract of relay, 4)."""

import typing

from amaranth.hdl import Cat, Mux, Signal

from lethe.lib.memory import LUT_DEPTH, Ram
from lethe.spec.events import Cause, Status
from lethe.spec.services.relay import RelayJob

from .layouts import STAMP_BITS
from .steps import RelayPhase, counted, one_of

if typing.TYPE_CHECKING:
    from .unit import JobUnit

__all__ = ["add_tables"]


def add_tables(u: "JobUnit") -> None:
    """The tables, and what steps write there."""
    m, of = u.m, u.of
    nodes = of.nodes
    u.next_head, u.parked_cell = Signal(of.slot_bits), Signal(of.parked)
    u.given = Signal()  # a message has its uid
    m.d.comb += u.given.eq(u.at(RelayJob.GIVEN))
    # By node: whom a job is about.
    u.to_node, u.from_node, dead_node = Signal(of.node_bits), Signal(of.node_bits), Signal(of.node_bits)
    slot_node = Signal(of.node_bits)  # of the slot that is looked at
    host, given_to, fed, told = (
        u.under[job] for job in (RelayJob.HOST, RelayJob.GIVEN, RelayJob.FEED, RelayJob.TELL)
    )  # fmt: skip
    looks = u.doing(RelayJob.LOOK, RelayJob.WALK)
    offered = ((host, u.host_target[: of.node_bits]), (given_to, u.host.kept.target))
    m.d.comb += [
        u.to_node.eq(one_of(u.coming.target, *offered, (looks, slot_node))),
        u.from_node.eq(one_of(u.coming.source, (fed, u.fed))),
        dead_node.eq(one_of(u.coming.source, *offered, (fed, u.fed), (told, u.waited.hop))),
    ]
    # They stay while a job is under way, and what is written is known a cycle later.
    u.to_row, u.from_row = Signal.like(u.to_node), Signal.like(u.from_node)
    m.d.sync += [u.to_row.eq(u.to_node), u.from_row.eq(u.from_node)]
    new_to, new_from = Signal(of.to), Signal(of.from_)
    m.d.comb += [new_to.last.eq(of.none), new_from.mark.eq(of.none)]
    m.submodules.to = to = Ram(of.to, nodes)
    m.submodules.from_ = from_ = Ram(of.from_, nodes, beside=1)
    m.submodules.dead = dead = Ram(1, nodes)
    gives = u.steps[RelayJob.GIVEN, RelayPhase.FIRST]  # whether it does or is put off
    given, to_word, from_word = u.given, Signal(of.to), Signal(of.from_)
    u.cleared(to, nodes, new_to, given | u.frees_head | u.decides_again, u.to_row, to_word)
    u.cleared(from_, nodes, new_from, u.renews | u.marks | u.releases, u.from_row, from_word)
    u.kills = Signal()
    u.cleared(dead, nodes, 0, u.kills, u.tree_word.target, 1)
    m.d.comb += [
        to.read_addr.eq(u.to_node), from_.read_addr.eq(u.from_node), dead.read_addr.eq(dead_node),
    ]  # fmt: skip
    u.to, u.from_, u.dead, u.hungry_now = to.read_data, from_.read_data, dead.read_data, from_.beside
    hungers = Signal()
    m.d.sync += hungers.eq(u.starves)
    row, mine, kept_slot = u.to, u.from_, u.host.kept_slot
    fewer, left = Signal.like(row.live), Signal()  # known before the step, but for a message that is given
    m.d.sync += [fewer.eq(row.live - 1), left.eq(row.live != 1)]
    m.d.comb += [
        to_word.last.eq(Mux(gives, u.next_uid, row.last)),
        to_word.head.eq(Mux(u.frees_head, u.next_head, Mux(gives & ~row.some, kept_slot, row.head))),
        to_word.tail.eq(Mux(gives, kept_slot, row.tail)),
        to_word.live.eq(Mux(gives, (row.live + 1)[: len(row.live)], Mux(u.frees_head, fewer, row.live))),
        to_word.some.eq(Mux(gives, 1, Mux(u.frees_head, left, row.some))),
        to_word.full.eq(Mux(gives, row.live == u.system.relay_window - 1, row.full & ~u.frees_head)),
        to_word.again.eq(Mux(u.decides_again, u.again, row.again)),
        # Whether a source is hungry is written by itself.  It becomes so in the cycle behind the step: data in is not
        # over in that step, so that no other job asks so soon.
        from_.beside_en.eq(hungers | u.feeds | u.wipes(nodes)),
        from_.beside_data.eq(~u.under[RelayJob.FEED] & ~u.wipes(nodes)),
        from_word.known.eq(1),
        from_word.incarnation.eq(Mux(u.facts.is_new, u.heard.incarnation, mine.incarnation)),
        from_word.mark.eq(u.heard.uid),
        from_word.slot.eq(u.heard.slot),
        from_word.marked.eq(~u.unnamed),
    ]
    # What is written, if it is: by what is known before the step.  A new source has no mark, unless this is posted.
    unnamed, unmarked = Signal(), Signal()
    m.d.sync += unnamed.eq(u.parked_cell.uid == of.none)
    m.d.comb += unmarked.eq(u.facts.is_new & ~(u.facts.begins & ~u.facts.parked & u.free_cells.some))
    with m.If(unmarked):
        m.d.comb += [from_word.mark.eq(of.none), from_word.slot.eq(0), from_word.marked.eq(0)]
    with m.If(u.phases[RelayPhase.RELEASE]):
        m.d.comb += [
            from_word.mark.eq(u.parked_cell.uid), from_word.slot.eq(u.parked_cell.slot), from_word.marked.eq(~unnamed),
        ]  # fmt: skip

    # By slot.
    m.submodules.slots = slots = Ram(of.slot, of.slots)
    m.submodules.slot_stamps = stamps = Ram(STAMP_BITS, of.slots)
    u.slot_row, u.slot, u.slot_stamp = Signal(of.slot_bits), slots.read_data, stamps.read_data
    # A step, and the facts before it, know it from the cycle before.
    u.near_row = near_row = Signal.like(u.slot_row)
    m.d.sync += near_row.eq(u.slot_row)
    m.d.comb += [
        u.slot_row.eq(
            one_of(
                u.coming.slot,
                (u.under[RelayJob.LAUNCH], u.launched.number),
                (u.under[RelayJob.LOOK], u.look),
                (u.under[RelayJob.WALK], u.walk_row),
            )
        ),
        slot_node.eq(u.slot.target),
        slots.write_en.eq(given),
        slots.write_addr.eq(kept_slot),
        *(slots.write_data[name].eq(u.host.kept[name]) for name in u.host.kept.shape().members),
        slots.write_data.uid.eq(u.next_uid),
        slots.write_data.prev.eq(row.last),
        slots.read_addr.eq(u.slot_row),
        stamps.write_en.eq(given | u.stamps_slot),
        stamps.write_addr.eq(Mux(gives, kept_slot, near_row)),
        stamps.write_data.eq(u.now),
        stamps.read_addr.eq(u.slot_row),
    ]
    u.lives = u.words("lives", 1, of.slots, "walk", "ahead", "row")
    u.waiting = u.words("waiting", 1, of.slots, "named", "first", "next")
    u.was_sent = u.words("was_sent", 1, of.slots, "row")
    generations = u.words("generations", of.system.format.generation_bits, of.slots, "head", "host")
    followers = u.words("followers", of.slot_bits, of.slots, "head")
    endings = u.words("endings", of.ending, of.slots, "head")
    head, moving = u.to.head, u.hop.now
    m.d.comb += [
        u.lives.walk_addr.eq(u.walk_row),
        u.lives.ahead_addr.eq(u.ahead_row),
        u.lives.row_addr.eq(near_row),
        u.lives.write_en.eq(given | u.frees_head),
        u.lives.write_addr.eq(Mux(gives, u.host.kept_slot, head)),
        u.lives.write.eq(gives),
        u.waiting.first_addr.eq(head),
        u.waiting.next_addr.eq(followers.head),
        u.was_sent.row_addr.eq(near_row),
        generations.head_addr.eq(head),
        generations.host_addr.eq(u.host.kept_slot),
        followers.head_addr.eq(head),
        followers.write_en.eq(given & row.some),
        followers.write_addr.eq(u.to.tail),
        followers.write.eq(u.host.kept_slot),
        endings.head_addr.eq(head),
        endings.write_en.eq(given),
        endings.write_addr.eq(u.host.kept_slot),
        endings.write.tag.eq(u.host.kept_tag),
        endings.write.uid.eq(u.next_uid),
    ]
    m.d.sync += [  # no step reads a generation in the cycle behind this one
        generations.write_en.eq(u.frees_head), generations.write_addr.eq(head),
        generations.write.eq(generations.head + 1),
    ]  # fmt: skip
    m.d.sync += u.next_head.eq(followers.head)  # of a head that is known in the cycle before the step
    u.ending, u.host_generation = endings.head, generations.host

    # A slot waits: a new one, the first of a stream, or the one that was asked for.  One that is launched does no more.
    # Whether it does already is known in the cycle before the step, of each that it may be.
    named, of_given, u.waits_named = Signal(of.slot_bits), u.under[RelayJob.GIVEN], Signal()
    by_name, frees = of_given | u.kinds.requested_own, Signal()
    u.wants(u.at(RelayJob.CONTROL, RelayPhase.FREE), frees)
    u.wants(u.at(RelayJob.CONTROL) & u.facts.meant, frees)
    m.d.comb += [
        named.eq(Mux(of_given, kept_slot, u.heard.slot)),
        u.waiting.named_addr.eq(named),
        u.waiting_slot.eq(Mux(by_name, named, Mux(frees, u.next_head, head))),
    ]
    m.d.sync += u.waits_named.eq(u.waiting.named)
    launches, pushes = u.at(RelayJob.LAUNCH) & ~u.launched.buffered, u.slot_waits
    u.wants(given & ~u.waits_named, pushes)
    resent = u.has_data & ~u.phases[RelayPhase.STREAM]
    m.d.sync += [  # no step reads whether a slot waits in the cycle behind this one
        u.waiting.write_en.eq(pushes | launches),
        u.waiting.write_addr.eq(Mux(launches, near_row, u.waiting_slot)),
        u.waiting.write.eq(~launches),
    ]
    m.d.comb += [
        u.was_sent.write_en.eq(given | (u.sends_launched & ~u.launched.buffered)),
        u.was_sent.write_addr.eq(Mux(gives, u.host.kept_slot, near_row)),
        u.was_sent.write.eq(~gives),
        u.sending.i.valid.eq(pushes | u.buffer_waits),
        u.sending.i.payload.buffered.eq(u.buffer_waits),
        u.sending.i.payload.number.eq(Mux(pushes, u.waiting_slot, Mux(resent, u.status_now.buffer, u.data_buffer))),
    ]
    # A message ends, and its slot is free unless the transfer reads it.
    # No slot is freed in the first cycle of a transfer, in which ``slotted`` is that of the one before.
    reads, ended, gone = u.hop.moves & u.hop.slotted, u.completions.ended, Signal()
    same = Signal()  # the head of the stream is on its way: known before the step
    m.d.sync += same.eq(head == moving.number)
    # (A transfer that ends in this very cycle does not keep its slot.)
    freed = u.frees_head & reads & same & ~u.hop.ends
    with m.If(freed):
        m.d.sync += gone.eq(1)
    with m.Elif(u.hop.idle):
        m.d.sync += gone.eq(0)
    m.d.comb += [
        u.free_slots.gives.eq(u.frees_head & (~(reads & same) | u.hop.ends)),
        u.free_slots.given.eq(head),
        u.free_slots.ends.eq(u.hop.ends & u.hop.slotted & gone),
        u.free_slots.ended.eq(moving.number),
    ]
    u.wants(u.frees_head, u.completions.ends)
    with m.If(~u.at(RelayJob.HOST)):
        m.d.comb += [
            ended.slot.eq(of.ni_slots + head), ended.generation.eq(generations.head),
            ended.destination.eq(u.to_row), ended.tag.eq(u.ending.tag),
            ended.status.eq(Mux(u.under[RelayJob.CONTROL], Status.ACCEPTED, Status.UNKNOWN)),
            ended.cause.eq(Mux(u.under[RelayJob.CONTROL], Cause.NONE, Cause.SILENT)),
        ]  # fmt: skip
    counted(m, u.live, u.live_some, given, u.frees_head)

    # Which cell it is is known before it is known that it is parked, or no more.
    unparked = (
        (u.under[RelayJob.WALK], u.walk_row[: of.cell_bits]), (u.phases[RelayPhase.CLEAR], u.clear_row),
        (u.phases[RelayPhase.RELEASE], u.parked_at),
    )  # fmt: skip
    m.d.comb += u.given_cell.eq(one_of(u.free_cells.oldest, *unparked, (u.phases[RelayPhase.STREAM], u.streams_to)))
    m.d.comb += [u.unparks.eq(u.clears | u.releases | u.walk_unparks), u.gives_cell.eq(u.clears | u.walk_unparks)]

    # By cell: what is written is what came, to the oldest that is free.
    m.submodules.cell_memory = cells = Ram(of.cell, of.cells, early=of.cells <= LUT_DEPTH)
    u.cell, u.cell_row = cells.read_data, Signal(of.cell_bits)
    u.early_cell = cells.read_early if of.cells <= LUT_DEPTH else u.cell
    # Whether the cell whose turn it is to become free is parked, and of the source: in the cycle before a step.
    u.clears_cell = Signal()
    u.is_parked = u.words("is_parked", 1, of.cells, "walk", "ahead", "search", "row", late=True)
    m.d.comb += [
        cells.write_en.eq(u.takes_cell),
        cells.write_addr.eq(u.free_cells.oldest),
        *(cells.write_data[name].eq(u.heard[name]) for name in of.cell.members if name != "length"),
        cells.write_data.length.eq(u.message_length),
        cells.read_addr.eq(u.cell_row),
        u.post.writes.eq(u.takes_cell),
        u.post.at.eq(u.free_cells.oldest),
        u.post.word.eq(cells.write_data),
        u.post.posts.eq(u.posts),
        u.post.posted.eq(u.posted),
        u.is_parked.walk_addr.eq(u.walk_row),
        u.is_parked.ahead_addr.eq(u.ahead_row),
        u.is_parked.row_addr.eq(u.clear_row),
        u.is_parked.write_en.eq(u.parks | u.unparks),
        u.is_parked.write_addr.eq(u.given_cell),
        u.is_parked.write.eq(~Cat(condition for condition, _ in unparked).any()),
        u.free_cells.takes.eq(u.takes_cell),
        u.free_cells.gives.eq(u.gives_cell),
        u.free_cells.given.eq(Mux(u.under[RelayJob.WALK], u.walk_row, u.clear_row)),
        u.free_cells.ends.eq(u.post.frees),
        u.free_cells.ended.eq(u.post.freed),
        u.hungry.i.valid.eq(u.starves & ~u.hungry_now),
        u.hungry.i.payload.eq(u.from_row),
    ]
    m.d.sync += u.clears_cell.eq(u.is_parked.row & (u.cell.source == u.heard.source))
    counted(m, u.parked, None, u.parks, u.unparks)
