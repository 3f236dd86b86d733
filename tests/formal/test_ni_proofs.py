"""What the NI's parts promise, for all inputs, in small configurations and bounded time."""

import pytest
from amaranth.asserts import AnyConst, AnySeq
from amaranth.hdl import Assert, Assume, Module, Signal
from amaranth.lib import data, wiring
from proof import prove

from lethe.ni.accept import Accept
from lethe.ni.completion import Completions, FreeSlots
from lethe.ni.deliver import DeliverFifo
from lethe.ni.ladder import Ladder
from lethe.ni.layouts import Records
from lethe.ni.queue import Queue
from lethe.ni.send_table import SendTable
from lethe.ni.transmitter import Transmitter
from lethe.spec.config import System
from lethe.spec.events import Event

COUNT = 6  # bits of running numbers: more than fit in any of these memories


class QueueSpecification(wiring.Component):
    """Entries leave in order, none lost, none twice; the level counts; an entry is shown two cycles after its push."""

    def __init__(self, depth, *, most=None):
        self._depth = depth
        self._most = depth + 1 if most is None else most
        super().__init__({})

    def elaborate(self, platform):
        m = Module()
        m.submodules.queue = queue = Queue(COUNT, self._depth)
        pushed, popped = Signal(COUNT), Signal(COUNT)
        m.d.comb += [queue.i.valid.eq(AnySeq(1)), queue.o.ready.eq(AnySeq(1)), queue.i.payload.eq(pushed)]
        with m.If(queue.i.valid & queue.i.ready):
            m.d.sync += pushed.eq(pushed + 1)
        with m.If(queue.o.valid & queue.o.ready):
            m.d.sync += popped.eq(popped + 1)
        inside = Signal(COUNT)
        m.d.comb += inside.eq(pushed - popped)
        # What was inside two cycles ago and is not taken since is shown.
        old, older = Signal(COUNT), Signal(COUNT)
        m.d.sync += [old.eq(pushed), older.eq(old)]
        m.d.comb += [
            Assert(inside == queue.level + queue.o.valid),
            Assert(inside <= self._most),
            Assert(queue.empty == (inside == 0)),
            Assert(queue.i.ready == (queue.level < self._depth)),
        ]
        with m.If(queue.o.valid):
            m.d.comb += Assert(queue.o.payload == popped)
        with m.Else():
            m.d.comb += Assert(older == popped)
        return m


class DeliverSpecification(wiring.Component):
    """Flits come out if and only if they were committed, each once, in order."""

    def __init__(self, system):
        self._system = system
        super().__init__({})

    def elaborate(self, platform):
        m = Module()
        m.submodules.fifo = fifo = DeliverFifo(self._system)
        depth = self._system.deliver_flits
        committed, loose, taken = Signal(COUNT), Signal(COUNT), Signal(COUNT)
        overflow, verdict = Signal(), Signal()
        room = Signal()
        m.d.comb += [
            fifo.push.eq(AnySeq(1)),
            fifo.commit.eq(AnySeq(1)),
            fifo.reject.eq(AnySeq(1)),
            fifo.forget.eq(AnySeq(1)),
            fifo.deliver_data.ready.eq(AnySeq(1)),
            fifo.deliver.ready.eq(AnySeq(1)),
            fifo.beat.data.eq(committed + loose),
            # The level that counts: what was committed and is still in memory, and what is not committed.
            room.eq((committed + loose - taken)[:COUNT] - fifo.deliver_data.valid < depth),
        ]
        m.d.sync += verdict.eq(fifo.commit | fifo.reject)
        m.d.comb += [
            Assume(~(fifo.commit & (fifo.push | fifo.reject | fifo.forget | ~fifo.room | verdict))),
            Assume(~(verdict & (fifo.push | fifo.reject))),
        ]
        with m.If(fifo.commit):
            m.d.sync += [committed.eq(committed + loose), loose.eq(0), overflow.eq(0)]
            m.d.comb += Assert(~overflow)
        with m.Elif(fifo.reject | fifo.forget):
            m.d.sync += [loose.eq(0), overflow.eq(0)]
        with m.Elif(fifo.push):
            with m.If(room & ~overflow):
                m.d.sync += loose.eq(loose + 1)
            with m.Else():
                m.d.sync += overflow.eq(1)
        out = fifo.deliver_data
        with m.If(out.valid):
            m.d.comb += [Assert(out.payload.data == taken), Assert(taken != committed)]
        with m.If(out.valid & out.ready):
            m.d.sync += taken.eq(taken + 1)
        with m.If(fifo.empty):
            m.d.comb += Assert(taken == committed)
        return m


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
        watched = Signal(token["rung"].shape)
        time, before = Signal(system.time_bits), Signal(system.time_bits)
        pushed, popped = Signal(COUNT), Signal(COUNT)
        ahead = Signal(3)
        m.d.comb += [
            watched.eq(AnyConst(len(watched))),
            ahead.eq(AnySeq(3)),
            ladder.advance.eq(AnySeq(1)),
            ladder.time_base.eq(time),
            ladder.hold.ready.eq(AnySeq(1)),
            ladder.push.eq(AnySeq(1)),
            ladder.rung.eq(AnySeq(len(ladder.rung))),
            ladder.eve.eq(time + ahead),
            ladder.token.rung.eq(ladder.rung),
            ladder.token.number.eq(pushed),
            ladder.token.due.eq(time + ahead + 1),
            Assume(ladder.rung < system.rungs),
            Assume(ahead != 0),
            Assume(ladder.room | ~ladder.push),
        ]
        m.d.sync += [time.eq(time + ladder.advance), before.eq(time)]
        with m.If(ladder.push & (ladder.rung == watched)):
            m.d.sync += pushed.eq(pushed + 1)
        held = ladder.hold.payload
        with m.If(ladder.hold.valid):
            m.d.comb += Assert((before - held.due).as_unsigned()[: system.time_bits] < 1 << (system.time_bits - 1))
            with m.If(held.rung == watched):
                m.d.comb += [Assert(held.number == popped), Assert(popped != pushed)]
                with m.If(ladder.hold.ready):
                    m.d.sync += popped.eq(popped + 1)
        return m


class SlotSpecification(wiring.Component):
    """A slot is in one place: free, being filled, live, or waiting for its completion to be taken."""

    def __init__(self, system):
        self._system = system
        super().__init__({})

    def elaborate(self, platform):
        m = Module()
        system = self._system
        m.submodules.accept = accept = Accept(system)
        m.submodules.free = free = FreeSlots(system)
        m.submodules.completions = completions = Completions(system)
        wiring.connect(m, free.free, accept.free)
        slots = system.ni.slots
        index, ready, busy = Signal(range(slots + 1)), Signal(), Signal(range(slots + 1))
        m.d.sync += [index.eq(index + 1), busy.eq(busy + accept.begun - completions.taken)]
        with m.If(index == slots - 1):
            m.d.sync += ready.eq(1)
        ends, ended = Signal(), Signal(range(slots))
        live = Signal(slots)
        generations = [Signal(system.format.generation_bits, name=f"generation{i}") for i in range(slots)]
        m.d.comb += [
            accept.open.eq(ready),
            accept.busy.eq(busy),
            accept.node.eq(0),
            accept.send.valid.eq(AnySeq(1)),
            accept.send.payload.eq(AnySeq(len(accept.send.payload.as_value()))),
            accept.send_data.valid.eq(AnySeq(1)),
            free.clear.eq(~ready),
            free.index.eq(index),
            free.time_base.eq(AnySeq(system.time_bits)),
            free.taken.eq(completions.taken),
            free.rests.eq(completions.rests),
            free.ended.slot.eq(completions.completion.payload.slot),
            free.ended.generation.eq(completions.completion.payload.generation),
            completions.completion.ready.eq(AnySeq(1)),
            # Any live datagram may end at any time.
            ends.eq(AnySeq(1)),
            ended.eq(AnySeq(len(ended))),
            Assume(~ends | live.bit_select(ended, 1)),
            completions.push.eq(ends),
            completions.entry.slot.eq(ended),
            completions.entry.status.eq(AnySeq(2)),
        ]
        for i in range(slots):
            filling, done = Signal(name=f"filling{i}"), Signal(name=f"done{i}")
            begins = accept.begun & (accept.slot == i)
            lives = accept.accept & (accept.accepted_slot == i)
            dies = ends & (ended == i)
            leaves = completions.taken & (completions.completion.payload.slot == i)
            with m.If(dies):
                m.d.comb += completions.entry.generation.eq(generations[i])
                m.d.sync += [live[i].eq(0), done.eq(1)]
            with m.If(begins):
                m.d.comb += [Assert(~(filling | live[i] | done)), Assert(accept.fields.generation == generations[i])]
                m.d.sync += filling.eq(1)
            with m.If(lives):
                m.d.comb += Assert((filling | begins) & ~live[i] & ~done)
                m.d.sync += [filling.eq(0), live[i].eq(1)]
            with m.If(leaves):
                m.d.comb += Assert(done)
                m.d.sync += [done.eq(0), generations[i].eq(generations[i] + 1)]
        m.d.comb += Assert(busy <= slots)
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
        index, ready = Signal(range(system.ni.slots)), Signal()
        begun, live, over, forgotten = Signal(), Signal(), Signal(), Signal()
        m.d.sync += [index.eq(index + 1), ready.eq(ready | (index == system.ni.slots - 1))]
        accept, end, repeat, other = (Signal(name=n) for n in ("accept", "end", "repeat", "other"))
        for signal in (accept, end, repeat, other):
            m.d.comb += signal.eq(AnySeq(1))
        shown = transmitter.shown
        m.d.comb += [
            table.clear.eq(~ready),
            table.index.eq(index),
            table.store.eq(accept),
            table.fields.destination.eq(1),
            table.fields.length.eq(AnySeq(len(table.fields.length))),
            table.accept.eq(accept),
            table.phase.eq(1),
            news.i.valid.eq(accept),
            Assume(~accept | (ready & ~begun)),
            table.end.eq(end),
            table.end_phase.eq(1),
            Assume(~end | live),
            repeats.i.valid.eq(repeat),
            Assume(~repeat | (live & repeats.i.ready & ~end)),
            replies.i.valid.eq(end | other),
            replies.i.payload.forget.eq(end),
            replies.i.payload.destination.eq(1),
            replies.i.payload.slot.eq(~end),
            transmitter.open.eq(ready & AnySeq(1)),
            transmitter.sends_allowed.eq(AnySeq(1)),
            transmitter.finish.ready.eq(1),
            table.peek.eq(transmitter.peek),
            transmitter.peeked.eq(table.peeked),
        ]
        with m.If(accept):
            m.d.sync += [begun.eq(1), live.eq(1)]
        with m.If(end):
            m.d.sync += [live.eq(0), over.eq(1)]
        with m.If(shown.event == Event.FORGET):
            m.d.sync += forgotten.eq(1)
            m.d.comb += Assert(over)
        # A Send whose grant follows the Forget's would start its worm in the cycle the Forget is shown, or later.
        with m.If(transmitter.push):
            m.d.comb += [Assert(~forgotten), Assert(shown.event != Event.FORGET), Assert(begun)]
        with m.If(shown.event == Event.KILLED):
            m.d.comb += Assert(over)
        return m


def small(**sections):
    sections.setdefault("wire", {"flit_bits": 16, "mtu": 4, "generation_bits": 4})
    timers = {"wrap_guard": 0, **sections.pop("timers", {})}
    return System.make(
        topology={"kind": "wire"}, workload={"min_length": 4, "max_length": 4}, timers=timers, **sections
    )


@pytest.mark.parametrize("depth", [2, 3])
def test_queue(depth, tmp_path):
    prove(QueueSpecification(depth), tmp_path, cycles=14)


def test_a_false_claim_is_refuted(tmp_path):
    # It takes some cycles to become false.
    with pytest.raises(AssertionError, match="Assert failed"):
        prove(QueueSpecification(2, most=2), tmp_path, cycles=8)


@pytest.mark.parametrize("flits", [3, 4])
def test_deliver_fifo(flits, tmp_path):
    prove(DeliverSpecification(small(ni={"deliver_flits": flits, "deliver_records": 2})), tmp_path, cycles=11)


@pytest.mark.parametrize("steps", [0, 2])
def test_ladder(steps, tmp_path):
    prove(LadderSpecification(small(timers={"backoff_steps": steps, "timer_depth": 5})), tmp_path, cycles=10)


@pytest.mark.parametrize("quarantine", [0, 3])
def test_slots_are_conserved(quarantine, tmp_path):
    system = small(ni={"slots": 2, "sets": 1, "ways": 1}, timers={"quarantine": quarantine})
    prove(SlotSpecification(system), tmp_path, cycles=14)


@pytest.mark.parametrize("flit_bits", [32, 64])
def test_no_send_follows_its_forget(flit_bits, tmp_path):
    system = small(ni={"slots": 2, "reply_depth": 2}, wire={"flit_bits": flit_bits, "mtu": 4, "generation_bits": 4})
    prove(OrderSpecification(system), tmp_path, cycles=14)
