"""Records of messages that pass, and buffers with their data (contract of relay, 4)."""

import typing
from functools import reduce
from operator import or_

from amaranth.hdl import Cat, Const, Mux, Signal, Value
from amaranth.lib import data as data_
from amaranth.utils import exact_log2

from lethe.lib.first import lowest_of
from lethe.lib.memory import LUT_DEPTH, Ram
from lethe.spec.services.relay import RecordState, RelayJob

from .layouts import STAMP_BITS, WAYS
from .steps import RelayPhase, counted, is_same, one_of

if typing.TYPE_CHECKING:
    from .unit import JobUnit

__all__ = ["add_records"]


#: Jobs about a record by its number.
_NUMBERED = (RelayJob.LAUNCH, RelayJob.OWED, RelayJob.LOOK, RelayJob.WALK)


def _one_of(*choices) -> Value:
    """The one whose condition is met."""
    return reduce(or_, (Mux(condition, word, 0) for condition, word in choices))


def add_records(u: "JobUnit") -> None:
    """Records and buffers, and what steps write there."""
    m, of = u.m, u.of
    sets = of.records // WAYS
    # The message before: its uid, its set.
    chained, at_chained = Signal(of.uid_bits), Signal(max(1, of.record_bits - exact_log2(WAYS)))
    u.chained, u.chaining = chained, Signal()
    u.evicted, u.direct, number = Signal(of.record_bits), Signal(), Signal(of.record_bits)
    owners = u.words("owners", of.owner, of.buffers, "launched", "oldest")
    u.owners = owners
    # Jobs that name a record by its number act late, so the number may come from a register.  (The row of a walk is
    # known before its job.)
    numbered, named = Signal(), Signal.like(number)
    m.d.sync += [
        numbered.eq(u.doing(*_NUMBERED) & ~u.step),
        named.eq(
            one_of(
                u.walk_row, (u.under[RelayJob.LAUNCH], owners.launched.record), (u.under[RelayJob.OWED], u.owed_row),
                (u.under[RelayJob.LOOK], u.look),
            )
        ),
    ]  # fmt: skip
    stored = u.phases[RelayPhase.STORE]
    m.d.comb += [u.direct.eq(numbered | stored), number.eq(Mux(stored, u.evicted, named))]
    way_bits = exact_log2(WAYS)
    uid, at = Signal(of.uid_bits), Signal(max(1, of.record_bits - way_bits))
    near = Signal.like(at)  # a cycle later
    # Of data, and of control, which alone has chains.
    came, told = (of.wire_fields(register.bits) for register in (u.data_in, u.control_in))
    set_came, set_told = (
        of.set_of(wire["source"][: of.node_bits], wire["uid"][: of.uid_bits]) for wire in (came, told)
    )
    with m.If(u.step & u.under[RelayJob.CONTROL]):
        m.d.sync += at_chained.eq(of.set_of(told["source"][: of.node_bits], u.entry.prev))
    early = sets <= LUT_DEPTH
    m.d.sync += near.eq(at)
    m.d.comb += [
        uid.eq(Mux(u.chaining, chained, u.coming.uid)),
        # Both sets are known late: each is 0 where it is not asked for, and nothing is chosen behind them.
        at.eq(
            _one_of(
                (u.direct, number[way_bits:]),
                (~u.direct & ~u.of_data & u.chaining, at_chained),
                (~u.direct & ~u.of_data & ~u.chaining, set_told),
                (~u.direct & u.of_data, set_came),
            )
        ),
    ]
    # By ways, for a search: what was heard of the message, and its status.  By their number, for jobs that have
    # time: what was heard, and the stamp.
    u.place = Signal(of.record_bits)
    m.submodules.messages = messages = Ram(of.record, of.records)
    m.submodules.ages = ages = Ram(STAMP_BITS, of.records)
    heard, status, write_at, fills = Signal(of.record), Signal(of.status), Signal(of.record_bits), u.fills

    def late(value):
        """``value`` a cycle later, where the memories are of LUTs: there a read sees the write of its own cycle."""
        register = Signal.like(value, name="late")
        domain = m.d.sync if early else m.d.comb
        domain += register.eq(value)
        return register

    writes = u.changes | fills
    m.d.comb += [
        *(heard[name].eq(u.heard[name]) for name in of.record.members if name != "length"),
        heard.length.eq(Mux(u.under[RelayJob.DATA], u.message_length, 0)),
        write_at.eq(u.place_filled),
    ]
    for ram, enable, word in ((messages, fills, heard), (ages, u.makes, u.now)):
        m.d.comb += [
            ram.write_en.eq(enable), ram.write_addr.eq(u.place_filled), ram.write_data.eq(word),
            ram.read_addr.eq(number),
        ]  # fmt: skip
    u.message, u.stamp = messages.read_data, ages.read_data
    # What is shown early is compared early.
    words, data, compared, compared_data = [], [], [], []
    wrote, filled, wrote_at = late(writes), late(fills), late(write_at)
    for way in range(WAYS):
        m.submodules[f"records{way}"] = ram = Ram(of.record, sets, early=early, late=early)
        m.submodules[f"status{way}"] = states = Ram(of.status, sets, early=early, late=early)
        here, now_here = write_at[:way_bits] == way, wrote_at[:way_bits] == way
        m.d.comb += [
            ram.write_en.eq(filled & now_here), ram.write_addr.eq(wrote_at[way_bits:]), ram.write_data.eq(heard),
            ram.read_addr.eq(at), states.read_addr.eq(at),
        ]  # fmt: skip
        u.cleared(states, sets, 0, wrote & now_here, wrote_at[way_bits:], status)
        words.append((ram.read_data, states.read_data))
        compared.append((ram.read_early, states.read_early) if early else words[-1])
        # Whether it has data: those of another record may be dropped in the step of this.
        # It is written in the cycle behind a step: no step reads it in that cycle.
        has = u.words(f"has{way}", 1, sets, "now")
        # If no record was found, this place may be that of another one.
        drops = ((u.acks | u.forgets) & u.found) | u.past | (u.expiring & u.data_held)
        lets = u.lets_go & (owners.oldest.record[:way_bits] == way)
        m.d.comb += has.now_addr.eq(near)
        m.d.sync += [
            has.write_en.eq(((fills | drops) & here) | lets),
            has.write_addr.eq(Mux(u.lets_go, owners.oldest.record[way_bits:], write_at[way_bits:])),
            has.write.eq(u.takes_buffer),
        ]
        # The place that is asked for stays until the step, so the bit may be a cycle old.
        has_it = Signal(name=f"has{way}_before")
        m.d.sync += has_it.eq(has.now)
        data.append(has_it)
        compared_data.append(has.now if early else has_it)
    # Which are valid, for walks.
    u.valid = u.words("valid", 1, of.records, "walk", "ahead", late=True)
    m.d.comb += [
        u.valid.write_en.eq(u.makes | u.ends), u.valid.write_addr.eq(write_at), u.valid.write.eq(~u.ends),
        u.valid.walk_addr.eq(u.walk_row), u.valid.ahead_addr.eq(u.ahead_row),
    ]  # fmt: skip

    # Three cycles after it was asked for: the record, whether it is there, and whether there is a way for it.
    hits, ways, key = Signal(WAYS), Signal(WAYS), Signal.like(uid)
    m.d.sync += key.eq(uid)
    hit = Cat(
        is_same(
            Cat(word.uid, word.source, word.incarnation, state.valid),
            Cat(key, u.heard.source, u.heard.incarnation, Const(1, 1)),
        )
        for word, state in compared
    )
    # A record that is named by its number is not searched for.
    picked = Signal(WAYS)
    domain = m.d.sync if early else m.d.comb
    domain += [hits.eq(Mux(u.direct, 0, hit)), picked.eq(Mux(u.direct, 1 << number[:way_bits], 0))]
    m.d.comb += ways.eq(picked | hits)
    u.has_way, free_way, free, way = Signal(), Signal(way_bits), Signal(WAYS), Signal(way_bits)
    m.d.comb += free.eq(~Cat(state.valid for _, state in words))
    chosen = Const(0, 1)
    for (word, state), this in zip(words, ways, strict=True):
        chosen = chosen | Mux(this, Cat(word, state), 0)
    # Whether it has data, and whether these are held, of each way before one is chosen.
    states = data_.View(of.status, Cat(chosen)[-of.status.size :]).state
    # (What is shown early is looked for early; a buffer that is held in that cycle counts.)
    m.d.comb += [asked.eq(state.buffer) for asked, (_, state) in zip(u.held.asked, compared, strict=True)]
    held_data = Cat(u.held.is_held) & Cat(compared_data)
    moving_data = Cat(u.hop.now.number == state.buffer for _, state in compared) & Cat(compared_data)
    # Of one whose transfer ended in the cycle before that, the held list tells later.
    ended = Signal()
    m.d.sync += ended.eq(u.hop_holds)
    over = ended
    if early:
        held_before, moved, over = Signal(WAYS), Signal(WAYS), Signal()
        m.d.sync += [held_before.eq(held_data), moved.eq(moving_data), over.eq(u.hop_holds | ended)]
        held_data, moving_data = held_before, moved
    held, moves = (held_data & ways).any(), (moving_data & ways).any()
    moves_now = Signal()  # it has data, and they are those of the transfer, if there is one
    m.d.sync += [
        moves_now.eq(moves), u.has_data.eq((Cat(data) & ways).any()),
        u.is_told.eq((Cat(state.tide == u.tide for _, state in words) & ways).any()),
        # In the cycle before a step only a transfer can end.
        u.data_held.eq(held | ((u.hop_holds | over) & moves)),
        *(getattr(u.facts, state.name.lower()).eq(bit) for state, bit in zip(RecordState, states, strict=True)),
        u.facts.place.eq(hits.any() | free.any()),
        Cat(u.entry, u.status_now).eq(chosen), u.found.eq(hits.any()), way.eq(lowest_of(ways)[1]),
        u.has_way.eq(free.any()), free_way.eq(lowest_of(free)[1]),
    ]  # fmt: skip
    # The record, or the one that is to be made.
    direct_late = Signal()
    m.d.sync += direct_late.eq(u.direct)
    m.d.comb += [
        u.place.eq(Cat(Mux(u.found | direct_late, way, free_way), near)),
    ]
    now = u.status_now
    m.d.comb += [
        # The record is still shown in the cycle behind the step.
        status.valid.eq(~late(u.ends)),
        status.state.eq(late(Cat(u.states.values())) | Mux(late(u.stays), now.state, 0)),
        status.buffer.eq(Mux(filled, late(u.free_buffers.oldest), now.buffer)),
        status.tide.eq(Mux(late(u.links), u.tide, Mux(filled, u.tide - 1, now.tide))),
    ]
    counted(m, u.known, u.known_some, u.makes, u.ends)
    # A record becomes OWED as it is filled; it is not any more as it changes, or gets data.
    no_more = (u.changes & ~u.stays & u.facts.owed) | (u.takes_buffer & u.was_owing)
    counted(m, u.owing, u.owes_some, u.owes & ~u.was_owing, no_more)

    # Its buffer.
    moving, given = u.hop.now, Signal(of.buffer_bits)
    m.d.comb += [
        owners.launched_addr.eq(u.launched.number),
        owners.oldest_addr.eq(u.held.oldest),
        u.free_buffers.takes.eq(u.takes_buffer),
        u.free_buffers.gives.eq(u.gives_buffer),
        u.free_buffers.given.eq(given),
        u.held.leaves.eq(u.leaves),
        u.held.left.eq(u.buffer),
    ]
    # Written in the cycle behind the step: no step reads an owner in that cycle.
    m.d.sync += [
        owners.write_en.eq(u.disowns | u.takes_buffer),
        owners.write_addr.eq(Mux(u.takes_buffer, u.free_buffers.oldest, u.buffer)),
        owners.write.valid.eq(u.takes_buffer),
        owners.write.record.eq(u.place_filled),
    ]
    # A step takes its data from a record, or has them sent once more; one that was ACKED has none.
    drops, stops = u.acks | u.forgets | u.past, Signal()
    goes, resends = drops | u.expiring, u.resends & u.data_held
    m.d.comb += [
        u.disowns.eq(u.lets_go | (u.has_data & drops) | (u.data_held & u.expiring)),
        u.leaves.eq(u.lets_go | (u.data_held & (goes | u.resends)) | (u.hop_holds & stops)),
        u.gives_buffer.eq(u.lets_go | (u.data_held & goes) | u.gives_launched),
        u.buffer_waits.eq(resends | u.data_waits),
        # That of a record, the oldest, or that of a launch, which leaves no list.
        u.buffer.eq(Mux(u.lets_go, u.held.oldest, u.status_now.buffer)),
        given.eq(Mux(u.under[RelayJob.LAUNCH], u.launched.number, u.buffer)),
    ]
    u.changes_to(resends, RecordState.SENT)
    # What has been sent is held, unless it has no record any more.
    ends, lost = u.hop.ends & u.hop.buffered, Signal()
    with m.If(stops):
        m.d.sync += lost.eq(1)
    with m.Elif(u.hop.idle):
        m.d.sync += lost.eq(0)
    m.d.comb += [
        u.hop_holds.eq(ends & ~lost),
        # It is taken from a record that ends in this cycle: it is put to the list, and leaves it at once.
        stops.eq(drops & moves_now),
        u.held.holds.eq(u.hop_holds | u.holds),
        u.held.held.eq(Mux(u.hop.idle, u.launched.number, moving.number)),
        u.free_buffers.ends.eq(ends & (lost | stops)),
        u.free_buffers.ended.eq(moving.number),
    ]
    # Since when it is held; whether it has been held since it came.
    stamps = u.words("stamps", STAMP_BITS, of.buffers, "oldest")
    u.kept, u.oldest_stamp = u.words("kept", 1, of.buffers, "launched"), stamps.oldest
    u.oldest_owner = owners.oldest
    m.d.comb += [
        # Until it ends, over and over.
        stamps.write_en.eq(Mux(u.hop.idle, u.holds, u.hop.keeps)), stamps.write_addr.eq(u.held.held),
        stamps.write.eq(u.now),
        stamps.oldest_addr.eq(u.held.oldest),
        u.kept.launched_addr.eq(u.launched.number),
    ]  # fmt: skip
    # A buffer that is taken has not been held.  Both are written later: in the next cycle, and behind that.
    fresh, taken, holds_late, held_late = Signal(), Signal(of.buffer_bits), Signal(), Signal(of.buffer_bits)
    m.d.sync += [holds_late.eq(u.held.holds), held_late.eq(u.held.held)]
    m.d.comb += [
        u.kept.write_en.eq(holds_late | fresh),
        u.kept.write_addr.eq(Mux(holds_late, held_late, taken)),
        u.kept.write.eq(holds_late),
    ]
    with m.If(u.takes_buffer):
        m.d.sync += [fresh.eq(1), taken.eq(u.free_buffers.oldest)]
    with m.Elif(~holds_late):
        m.d.sync += fresh.eq(0)
