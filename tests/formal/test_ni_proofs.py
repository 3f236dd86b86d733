"""What the NI's ladders and its transmitter promise, for all inputs, in small configurations and bounded time."""

import pytest
from amaranth.asserts import AnyConst, AnySeq
from amaranth.hdl import Assert, Assume, Module, Signal
from amaranth.lib import data, wiring

from lethe.lib.queue import Queue
from lethe.ni.ladder import Ladder
from lethe.ni.layouts import Records
from lethe.ni.send_table import SendTable
from lethe.ni.transmitter import Transmitter
from lethe.spec.events import Event
from tests.helpers.proof import prove
from tests.helpers.proof_systems import small
from tests.helpers.tiers import but

LEAST = 9  # no token is due less than ten cycles after its push
COUNT = 6  # bits of running numbers: more than fit in any of these memories


class LadderSpecification(wiring.Component):
    """On every rung: no token before its time, in order, none lost, none twice."""

    def __init__(self, system):
        self._system = system
        super().__init__({})

    def elaborate(self, platform):
        m = Module()
        system = self._system
        token = data.StructLayout({"rung": range(max(2, system.rungs)), "number": COUNT, "due": system.time_bits})
        m.submodules.ladder = ladder = Ladder(system, token)
        push = ladder.push
        watched = Signal(token["rung"].shape)
        time, before = Signal(system.time_bits), Signal(system.time_bits)
        pushed, popped = Signal(COUNT), Signal(COUNT)
        ahead, walks, full = Signal(3), Signal(range(system.rungs + 1)), Signal()
        m.d.comb += [
            watched.eq(AnyConst(len(watched))),
            ahead.eq(AnySeq(3)),
            ladder.advance.eq(AnySeq(1)),
            ladder.time_base.eq(time),
            ladder.hold.ready.eq(AnySeq(1)),
            push.valid.eq(AnySeq(1)),
            push.rung.eq(AnySeq(len(push.rung))),
            push.eve.eq(time + LEAST + ahead),
            push.token.rung.eq(push.rung),
            push.token.number.eq(pushed),
            push.token.due.eq(time + LEAST + ahead + 1),
            Assume(push.rung < system.rungs),
            # The initialisation lasts as long at least.
            Assume((push.room & (walks == system.rungs)) | ~push.valid),
        ]
        with m.If(walks < system.rungs):
            m.d.sync += walks.eq(walks + 1)
        m.d.sync += [time.eq(time + ladder.advance), before.eq(time), full.eq(ladder.hold.valid)]
        with m.If(push.valid & (push.rung == watched)):
            m.d.sync += pushed.eq(pushed + 1)
        held = ladder.hold.payload.token
        with m.If(ladder.hold.valid):
            late = (before - held.due).as_unsigned()[: system.time_bits]
            m.d.comb += Assert(full | (late < 1 << (system.time_bits - 1)))
            with m.If(held.rung == watched):
                m.d.comb += [Assert(held.number == popped), Assert(popped != pushed)]
                with m.If(ladder.hold.ready):
                    m.d.sync += popped.eq(popped + 1)
        return m


class OrderSpecification(wiring.Component):
    """No Send of a datagram leaves after its Forget, whenever it is repeated and whenever it ends (T6).

    One datagram, in slot 0; repeats are queued as long as it lives, its Forget in the cycle in which it ends, other
    replies at any time.
    """

    def __init__(self, system):
        self._system = system
        super().__init__({})

    def elaborate(self, platform):
        m = Module()
        system, records = self._system, Records(self._system)
        m.submodules.table = table = SendTable(system)
        m.submodules.transmitter = transmitter = Transmitter(system)
        m.submodules.news = news = Queue(records.launch, system.ni.slots)
        m.submodules.repeats = repeats = Queue(records.repeat, system.ni.slots)
        m.submodules.replies = replies = Queue(records.reply, system.ni.reply_depth)
        wiring.connect(m, news.o, transmitter.news)
        wiring.connect(m, repeats.o, transmitter.repeats)
        wiring.connect(m, replies.o, transmitter.replies)
        wiring.connect(m, transmitter.peek, table.peek)
        index, ready = Signal(range(system.ni.slots)), Signal()
        begun, live, over, forgotten = Signal(), Signal(), Signal(), Signal()
        m.d.sync += [index.eq(index + 1), ready.eq(ready | (index == system.ni.slots - 1))]
        accept, end, repeat, other = (Signal(name=n) for n in ("accept", "end", "repeat", "other"))
        for signal in (accept, end, repeat, other):
            m.d.comb += signal.eq(AnySeq(1))
        shown = transmitter.shown
        m.d.comb += [
            table.clear.valid.eq(~ready),
            table.clear.index.eq(index),
            table.store.valid.eq(accept),
            table.store.fields.destination.eq(1),
            table.store.fields.length.eq(AnySeq(len(table.store.fields.length))),
            table.begin.valid.eq(accept),
            table.begin.phase.eq(1),
            news.i.valid.eq(accept),
            Assume(~accept | (ready & ~begun)),
            table.end.valid.eq(end),
            table.end.phase.eq(1),
            Assume(~end | live),
            repeats.i.valid.eq(repeat),
            Assume(~repeat | (live & repeats.i.ready & ~end)),
            replies.i.valid.eq(end | other),
            replies.i.payload.forget.eq(end),
            replies.i.payload.destination.eq(1),
            replies.i.payload.slot.eq(~end),
            transmitter.open.eq(ready & AnySeq(1)),
            transmitter.push.room.eq(AnySeq(1)),
            transmitter.finish.ready.eq(1),
        ]
        with m.If(accept):
            m.d.sync += [begun.eq(1), live.eq(1)]
        with m.If(end):
            m.d.sync += [live.eq(0), over.eq(1)]
        with m.If(shown.event == Event.FORGET):
            m.d.sync += forgotten.eq(1)
            m.d.comb += Assert(over)
        # A Send whose grant follows the Forget's would start its worm in the cycle the Forget is shown, or later.
        with m.If(transmitter.push.valid):
            m.d.comb += [Assert(~forgotten), Assert(shown.event != Event.FORGET), Assert(begun)]
        with m.If(shown.event == Event.KILLED):
            m.d.comb += Assert(over)
        return m


@pytest.mark.parametrize("steps", but([0], [0, 2]))
def test_ladder(steps, tmp_path):
    prove(LadderSpecification(small(timers={"backoff_steps": steps, "timer_depth": 9})), tmp_path, cycles=26)


@pytest.mark.parametrize("flit_bits", [32, 64])
def test_no_send_follows_its_forget(flit_bits, tmp_path):
    system = small(ni={"slots": 2, "reply_depth": 2}, wire={"flit_bits": flit_bits, "mtu": 4, "generation_bits": 4})
    prove(OrderSpecification(system), tmp_path, cycles=14)
