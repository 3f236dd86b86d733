"""The host's side: records that pass, messages that are stored, and completions (contract of relay, 5)."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.wiring import In, Out

from lethe.host import host_records
from lethe.lib.queue import Queue
from lethe.spec.ports import HostPort
from lethe.spec.services.relay import MODE
from lethe.traffic.payload import clipped

from .layouts import RelayLayouts

__all__ = ["HostMessages", "OwnCompletions"]


class HostIn(enum.Enum, shape=5):
    """What is done with what the host offers: a bit each."""

    IDLE = 1
    STORE = 2
    STORED = 4
    DROP = 8
    PASS = 16


class HostMessages(wiring.Component):
    """What the host sends: records that pass, and messages, whose beats are stored or dropped.

    Members
    -------
    send, send_data : In(stream)
        Of the port above.
    clear_to_pass : In(1)
        Nothing of relay's own is in the way of a record.
    send_below, send_data_below : Out(stream)
        What passes.
    holds_send : Out(1)
        A record of the host's is shown below and not taken yet, or its beats pass.
    offers : Out(1)
        A message is offered, and can be judged.
    judged : In(1)
        It is judged in this cycle, and may be taken.
    takes, keeps, drops : In(1)
        It is taken, and stored, or dropped.
    slot : In
        Where it is stored.
    stored : Out(1)
        A message is whole.
    given : In(1)
        It has its uid: idle again.
    kept_slot, kept, kept_tag : Out
        The message that was taken last: slot, {target, cls, length}, tag.
    store_writes, store_at, store_data : Out
        A beat of its slot.
    nothing : Out(1)
        Idle, and nothing is shown below.
    """

    def __init__(self, layouts: RelayLayouts, above: HostPort):
        self._layouts = layouts
        of, system = layouts, layouts.system
        up, below, flit = host_records(system, above), host_records(system, layouts.below), system.format.flit_bits
        kept = data.StructLayout({"target": of.node_bits, "cls": 3, "length": of.length_bits})
        super().__init__(
            {
                "send": In(stream.Signature(up["send"])), "send_data": In(stream.Signature(flit)),
                "clear_to_pass": In(1),
                "send_below": Out(stream.Signature(below["send"])), "send_data_below": Out(stream.Signature(flit)),
                "holds_send": Out(1), "offers": Out(1), "judged": In(1), "takes": In(1), "keeps": In(1),
                "drops": In(1), "slot": In(of.slot_bits),
                "stored": Out(1), "given": In(1), "kept_slot": Out(of.slot_bits), "kept": Out(kept),
                "kept_tag": Out(system.wire.tag_bits),
                "store_writes": Out(1), "store_at": Out(of.slot_bits + of.beat_bits), "store_data": Out(flit),
                "nothing": Out(1),
            }
        )  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        of, form = self._layouts, self._layouts.system.format
        record = self.send.payload
        state, passing = Signal(HostIn, init=HostIn.IDLE), Signal()
        idle, stores, stored, drops, passes_beats = (Value.cast(state)[bit] for bit in range(len(HostIn)))
        message, passes, offered, begins = Signal(), Signal(), Signal(), Signal()
        left, beat, beats = Signal(16), Signal(of.beat_bits), Signal(16)
        taken, last, some = Signal(), Signal(), Signal()  # it has beats
        m.d.comb += [
            message.eq(self.send.valid & (record.mode == MODE)),
            offered.eq(self.send.valid & ~message),
            passes.eq(passing | (idle & self.clear_to_pass)),
            self.send_below.valid.eq(offered & passes),
            self.send_below.payload.eq(record),
            self.send.ready.eq(Mux(message, self.takes, passes & self.send_below.ready)),
            begins.eq(offered & passes & self.send_below.ready),
            self.holds_send.eq(passing | passes_beats),
            self.offers.eq(message & idle & ~passing),
            self.stored.eq(stored),
            self.nothing.eq(idle & ~passing),
            beats.eq(of.payload_flits(record.length)),
            self.send_data_below.valid.eq(passes_beats & self.send_data.valid),
            self.send_data_below.payload.eq(self.send_data.payload),
            taken.eq(self.send_data.valid & self.send_data.ready),
            some.eq(record.length.any()),
            self.store_writes.eq(taken & stores),
            self.store_at.eq(Cat(beat, self.kept_slot)),
            self.store_data.eq(
                Mux(last, clipped(self.send_data.payload, self.kept.length, form.flit_bytes), self.send_data.payload)
            ),
        ]
        with m.If(passes_beats):
            m.d.comb += self.send_data.ready.eq(self.send_data_below.ready)
        with m.Else():
            m.d.comb += self.send_data.ready.eq(stores | drops)

        m.d.sync += passing.eq(offered & passes & ~self.send_below.ready)
        with m.If(idle):
            m.d.sync += [left.eq(beats), last.eq(beats == 1), beat.eq(0)]
        # What is kept of one that is not taken, or refused, nobody looks at.
        with m.If(self.judged & idle):
            m.d.sync += [
                self.kept_slot.eq(self.slot), self.kept.target.eq(record.destination),
                self.kept.cls.eq(record.cls), self.kept.length.eq(record.length), self.kept_tag.eq(record.tag),
            ]  # fmt: skip
        with m.If(taken):
            m.d.sync += [left.eq(left - 1), last.eq(left == 2), beat.eq(beat + 1)]
        over, passed, dropped = taken & last, begins & some, self.drops & some
        m.d.sync += Value.cast(state).eq(
            Cat(
                (idle & ~passed & ~self.keeps & ~dropped) | ((drops | passes_beats) & over) | (stored & self.given),
                (self.keeps & some) | (stores & ~over),
                (self.keeps & ~some) | (stores & over) | (stored & ~self.given),
                dropped | (drops & ~over),
                passed | (passes_beats & ~over),
            )
        )
        return m


class OwnCompletions(wiring.Component):
    """Own completions, between those of the NI that are not relay's.

    Members
    -------
    ends, ended : In
        An own one.
    takes : In(1)
        A message is taken, which will have one.
    owes : Out(1)
        No further message may be taken.
    below, mine : In
        The NI's, and whether it is relay's, which takes it by ``takes_below``.
    takes_below : In(1)
    completion : Out(stream)
        Of the port above.
    empty : Out(1)
    """

    def __init__(self, layouts: RelayLayouts, above: HostPort):
        self._layouts = layouts
        of, system = layouts, layouts.system
        up, below = host_records(system, above), host_records(system, layouts.below)
        super().__init__(
            {
                "ends": In(1), "ended": In(of.completion), "takes": In(1), "owes": Out(1),
                "below": In(stream.Signature(below["completion"])), "mine": In(1), "takes_below": In(1),
                "completion": Out(stream.Signature(up["completion"])), "empty": Out(1),
            }
        )  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        of = self._layouts
        most = of.slots + 4
        m.submodules.queue = queue = Queue(of.completion, most, apart=True)
        owed, stays, shown, passes = Signal(range(most + 1)), Signal(), Signal(), Signal()
        own, other, up = queue.o.payload, self.below.payload, self.completion.payload
        full, took, turn, took_late, takes_late = Signal(), Signal(), Signal(), Signal(), Signal()
        m.d.comb += [
            queue.i.valid.eq(self.ends),
            queue.i.payload.eq(self.ended),
            self.empty.eq(queue.empty),
            passes.eq(self.below.valid & ~self.mine),
            turn.eq(stays | ~passes),
            shown.eq(queue.o.valid & turn),
            self.completion.valid.eq(shown | passes),
            queue.o.ready.eq(turn & self.completion.ready),
            self.below.ready.eq(Mux(passes, self.completion.ready & ~shown, self.takes_below)),
            self.owes.eq(full),
            took.eq(shown & self.completion.ready),
            *(up[name].eq(Mux(shown, own[name], other[name])) for name in own.shape().members),
            up.peer_incarnation.eq(Mux(shown, Const(0, 1), other.peer_incarnation)),
        ]
        m.d.sync += [
            stays.eq(shown & ~self.completion.ready),
            # Messages are taken cycles apart: of the cycle before only what the host took is not counted.
            took_late.eq(took),
            takes_late.eq(self.takes),
            owed.eq(owed + takes_late - took_late),
        ]
        # With `most` of them none is taken.  Whether so many, or one less, are counted is known with the count.
        is_most, is_less, more, fewer = Signal(), Signal(), takes_late & ~took_late, took_late & ~takes_late
        m.d.sync += [
            is_most.eq(Mux(more, is_less, is_most & ~fewer)),
            is_less.eq(Mux(more, owed == most - 2, Mux(fewer, is_most, is_less))),
        ]
        m.d.comb += full.eq(Mux(took_late, is_most & takes_late, is_most | (is_less & takes_late)))
        return m
