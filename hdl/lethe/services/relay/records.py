"""Records of messages that pass, and buffers with their data (contract of relay, 4)."""

import typing

from amaranth.hdl import Cat, Const, Mux, Signal
from amaranth.utils import exact_log2

from lethe.lib.first import lowest_of
from lethe.lib.memory import Ram
from lethe.spec.services.relay import RecordState, RelayJob

from .layouts import STAMP_BITS, TIDE_BITS, WAYS, Of
from .steps import RelayPhase

if typing.TYPE_CHECKING:
    from .unit import JobUnit

__all__ = ["add_records"]


#: Jobs about a record by its number.
_NUMBERED = (RelayJob.LAUNCH, RelayJob.OWED, RelayJob.LOOK, RelayJob.WALK)


def add_records(u: "JobUnit") -> None:
    """Records and buffers, and what steps write there."""
    m, of = u.m, u.of
    sets = of.records // WAYS
    chained = Signal(of.uid_bits)  # of the message before
    u.chained, u.chaining = chained, Signal()
    u.evicted, u.direct, number = Signal(of.record_bits), Signal(), Signal(of.record_bits)
    owners = u.words("owners", of.owner, of.buffers, "launched", "oldest", "moving")
    u.owners = owners
    m.d.comb += [
        u.direct.eq(u.doing(*_NUMBERED) | (u.phase == RelayPhase.STORE)),
        number.eq(u.evicted),
    ]
    with m.Switch(u.job):
        for job, row in (
            (RelayJob.LAUNCH, owners.launched.record), (RelayJob.OWED, u.owed_row),
            (RelayJob.LOOK, u.look), (RelayJob.WALK, u.walk_row),
        ):  # fmt: skip
            with m.Case(job):
                m.d.comb += number.eq(row)
    way_bits = exact_log2(WAYS)
    uid, at = Signal(of.uid_bits), Signal(max(1, of.record_bits - way_bits))
    m.d.comb += [
        uid.eq(Mux(u.chaining, chained, u.coming.uid)),
        at.eq(Mux(u.direct, number[way_bits:], of.set_of(u.coming.source, uid))),
    ]
    # By ways, for a search: what was heard of the message, and its status.  By their number, for jobs that have
    # time: what was heard, and the stamp.
    u.entry_at, u.place = Signal(of.record_bits), Signal(of.record_bits)
    m.submodules.messages = messages = Ram(of.record, of.records)
    m.submodules.ages = ages = Ram(STAMP_BITS, of.records)
    heard, status, write_at, fills = Signal(of.record), Signal(of.status), Signal(of.record_bits), u.fills
    writes = u.changes | fills
    m.d.comb += [
        *(heard[name].eq(u.heard[name]) for name in of.record.members if name != "length"),
        heard.length.eq(u.filled_length),
        write_at.eq(Mux(fills, u.place_filled, u.entry_at)),
    ]
    for ram, enable, word in ((messages, fills, heard), (ages, u.makes, u.now)):
        m.d.comb += [
            ram.write_en.eq(enable), ram.write_addr.eq(u.place_filled), ram.write_data.eq(word),
            ram.read_addr.eq(number),
        ]  # fmt: skip
    u.message, u.stamp = messages.read_data, ages.read_data
    words, data = [], []
    u.has_data, u.data_held, u.hop_holds = Signal(), Signal(), Signal()
    for way in range(WAYS):
        m.submodules[f"records{way}"] = ram = Ram(of.record, sets)
        m.submodules[f"status{way}"] = states = Ram(of.status, sets)
        here = write_at[:way_bits] == way
        m.d.comb += [
            ram.write_en.eq(fills & here), ram.write_addr.eq(write_at[way_bits:]), ram.write_data.eq(heard),
            ram.read_addr.eq(at), states.read_addr.eq(at),
        ]  # fmt: skip
        u.cleared(states, sets, 0, writes & here, write_at[way_bits:], status)
        words.append((ram.read_data, states.read_data))
        # Whether it has data: those of another record may be dropped in the step of this.
        has = u.words(f"has{way}", 1, sets, "now")
        lets = u.lets_go & (owners.oldest.record[:way_bits] == way)
        m.d.comb += [
            has.now_addr.eq(at),
            has.write_en.eq(((fills | u.drops) & here) | lets),
            has.write_addr.eq(Mux(u.lets_go, owners.oldest.record[way_bits:], write_at[way_bits:])),
            has.write.eq(u.takes_buffer),
        ]
        data.append(has.now)
    u.valid = u.words("valid", 1, of.records, "walk")
    m.d.comb += [
        u.valid.write_en.eq(writes), u.valid.write_addr.eq(write_at),
        u.valid.write.eq(~u.ends), u.valid.walk_addr.eq(u.walk_row),
    ]  # fmt: skip

    # Three cycles after it was asked for: the record, whether it is there, and whether there is a way for it.
    hits, ways, key = Signal(WAYS), Signal(WAYS), Signal.like(uid)
    m.d.sync += key.eq(uid)
    m.d.comb += hits.eq(
        Cat(
            state.valid
            & (word.uid == key)
            & (word.source == u.heard.source)
            & (word.incarnation == u.heard.incarnation)
            for word, state in words
        )
    )
    for way in range(WAYS):
        m.d.comb += ways[way].eq(Mux(u.direct, number[:way_bits] == way, hits[way]))
    u.entry, u.status_now, u.found = Signal(of.record), Signal(of.status), Signal()
    u.has_way, free_way, free, way = Signal(), Signal(way_bits), Signal(WAYS), Signal(way_bits)
    m.d.comb += free.eq(~Cat(state.valid for _, state in words))
    chosen = Const(0, 1)
    for (word, state), this in zip(words, ways, strict=True):
        chosen = chosen | Mux(this, Cat(word, state), 0)
    shown, has_now = Signal(of.buffer_bits), Signal()
    m.d.comb += [
        shown.eq(Cat(chosen)[-of.buffer_bits :]),
        has_now.eq((Cat(data) & ways).any()),
    ]
    m.d.sync += [
        u.has_data.eq(has_now),
        u.is_told.eq(Cat(chosen)[-of.buffer_bits - TIDE_BITS : -of.buffer_bits] == u.tide),
        # In the cycle before a step only a transfer can end.
        u.data_held.eq(
            has_now
            & (u.held.bits.bit_select(shown, 1) | (u.hop_holds & (u.hop.now.number == shown)))
        ),
        Cat(u.entry, u.status_now).eq(chosen), u.found.eq(hits.any()), way.eq(lowest_of(ways)[1]),
        u.has_way.eq(free.any()), free_way.eq(lowest_of(free)[1]),
    ]  # fmt: skip
    # The record, or the one that is to be made.
    m.d.comb += [
        u.entry_at.eq(Cat(way, at)),
        u.place.eq(Cat(Mux(u.found, way, free_way), at)),
    ]
    now, owing = u.status_now, Signal()
    m.d.comb += [
        status.valid.eq(~u.ends),
        status.state.eq(u.state),
        status.buffer.eq(Mux(fills, u.free_buffers.oldest, now.buffer)),
        status.tide.eq(Mux(u.links, u.tide, Mux(fills, u.tide - 1, now.tide))),
        owing.eq(Mux(fills, u.was_owing, now.state == RecordState.OWED)),
    ]
    more = writes & ~u.ends & (u.state == RecordState.OWED)
    m.d.sync += [
        u.known.eq(u.known + u.makes - u.ends),
        u.owing.eq(u.owing + more - (writes & owing)),
    ]

    # Its buffer.
    moving = u.hop.now
    m.d.comb += [
        owners.launched_addr.eq(u.launched.number),
        owners.oldest_addr.eq(u.held.oldest),
        owners.moving_addr.eq(moving.number),
        owners.write_en.eq(u.disowns | u.takes_buffer),
        owners.write_addr.eq(Mux(u.takes_buffer, u.free_buffers.oldest, u.buffer)),
        owners.write.valid.eq(u.takes_buffer),
        owners.write.record.eq(u.place_filled),
        u.free_buffers.takes.eq(u.takes_buffer),
        u.free_buffers.gives.eq(u.gives_buffer),
        u.free_buffers.given.eq(u.buffer),
        u.held.leaves.eq(u.leaves),
        u.held.left.eq(u.buffer),
    ]
    with m.If(u.lets_go):
        m.d.comb += [
            u.buffer.eq(u.held.oldest), u.disowns.eq(1), u.leaves.eq(1), u.gives_buffer.eq(1),
        ]  # fmt: skip
    with m.If(u.drops & u.has_data):
        m.d.comb += [
            u.buffer.eq(u.status_now.buffer), u.disowns.eq(1), u.leaves.eq(u.data_held),
            u.gives_buffer.eq(u.data_held),
        ]  # fmt: skip
    # What has been sent is held, unless it has no record any more.
    ends = u.hop.ends & (moving.of != Of.SLOT) & moving.stored
    stays, holds = Signal(), Signal()
    m.d.comb += [
        u.hop_holds.eq(ends & owners.moving.valid),
        stays.eq(owners.moving.valid & ~(u.disowns & (u.buffer == moving.number))),
        holds.eq(ends & stays),
        u.held.holds.eq(holds | u.holds),
        u.held.held.eq(Mux(holds, moving.number, u.buffer)),
        u.free_buffers.ends.eq(ends & ~stays),
        u.free_buffers.ended.eq(moving.number),
    ]
    # Since when it is held; whether it has been held since it came.
    stamps = u.words("stamps", STAMP_BITS, of.buffers, "oldest")
    u.kept, u.oldest_stamp = u.words("kept", 1, of.buffers, "launched"), stamps.oldest
    u.oldest_owner = owners.oldest
    m.d.comb += [
        stamps.write_en.eq(u.held.holds), stamps.write_addr.eq(u.held.held), stamps.write.eq(u.now),
        stamps.oldest_addr.eq(u.held.oldest),
        u.kept.launched_addr.eq(u.launched.number),
    ]  # fmt: skip
    # A buffer that is taken has not been held; in the cycle of an end it is written later.
    fresh, taken = Signal(), Signal(of.buffer_bits)
    writes = u.held.holds
    m.d.comb += [
        u.kept.write_en.eq(writes | fresh),
        u.kept.write_addr.eq(Mux(writes, u.held.held, taken)),
        u.kept.write.eq(writes),
    ]
    with m.If(u.takes_buffer):
        m.d.sync += [fresh.eq(1), taken.eq(u.free_buffers.oldest)]
    with m.Elif(~writes):
        m.d.sync += fresh.eq(0)
