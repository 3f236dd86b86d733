"""What the NI's memories of work promise for ever, for all inputs: by induction, in small configurations.

Each specification asserts its promises, and then the invariants that carry them from one cycle to the next.
"""

import pytest
from amaranth.asserts import AnySeq
from amaranth.hdl import Assert, Assume, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring

from lethe.lib.queue import Queue
from lethe.ni.accept import Accept
from lethe.ni.completion import Completions, FreeSlots, Quarantine
from lethe.ni.deliver import DeliverFifo
from tests.helpers.proof import NotProved, changed, opened, prove_always
from tests.helpers.proof_systems import small
from tests.helpers.tiers import but

COUNT = 4  # bits of running numbers: more than fit in any of these memories, so that none is taken for another


def entries(m, memory, depth: int, head: Signal, name: str) -> list[Value]:
    """What is in a ring memory from ``head`` on, read in the same cycle."""
    rows = []
    for place in range(depth):
        port, at = memory.read_port(domain="comb"), Signal(range(2 * depth), name=f"{name}{place}")
        m.d.comb += [at.eq(head + place), port.addr.eq(Mux(at >= depth, at - depth, at))]
        rows.append(port.data)
    return rows


def sound(m, queue: Queue, depth: int, name: str) -> list[Value]:
    """Asserts of a `Queue` that its pointers and its level agree; returns its memory's entries, oldest first.

    The pointers are places of the memory.  A full queue has equal pointers.
    """
    inner = opened(queue)
    m.d.comb += [
        Assert((inner.head < depth) & (inner.tail < depth)),
        Assert(~inner.full | (inner.head == inner.tail)),
        Assert(inner.some == (inner.full | (inner.head != inner.tail))),
        Assert(queue.level <= depth),
    ]
    return entries(m, inner.memory, depth, inner.head, name)


def in_order(m, queue: Queue, depth: int, bits: int) -> tuple[Value, Value]:
    """Pushes numbers of so many bits whenever it may, takes them whenever there are some, and claims the contract.

    Entries leave in order, none lost, none twice; there is room for exactly ``depth`` in memory; an entry is shown two
    cycles after its push.  Returns how many were popped, and how many are inside.
    """
    pushed, popped, inside = Signal(bits), Signal(bits), Signal(bits)
    m.d.comb += [queue.i.valid.eq(AnySeq(1)), queue.o.ready.eq(AnySeq(1)), queue.i.payload.eq(pushed)]
    with m.If(queue.i.valid & queue.i.ready):
        m.d.sync += pushed.eq(pushed + 1)
    with m.If(queue.o.valid & queue.o.ready):
        m.d.sync += popped.eq(popped + 1)
    old, older, last, before = Signal(bits), Signal(bits), Signal(bits), Signal(bits)
    m.d.sync += [old.eq(pushed), older.eq(old)]
    m.d.comb += [
        inside.eq(pushed - popped),
        Assert(inside == queue.level + queue.o.valid),
        Assert(queue.empty == (inside == 0)),
        Assert(queue.i.ready == (queue.level < depth)),
        Assert(~queue.o.valid | (queue.o.payload == popped)),
        # Nothing that was pushed two cycles ago or earlier still waits.
        Assert(queue.o.valid | (older == popped)),
        # One entry a cycle; what was pushed in the last cycle is still in memory; if none is shown, only that is.
        last.eq(pushed - old),
        before.eq(old - older),
        Assert((last <= 1) & (before <= 1) & (last <= queue.level)),
        Assert(queue.o.valid | (old == popped)),
    ]
    return popped, inside


class QueueSpecification(wiring.Component):
    """`in_order` of a queue whose memory is a ring."""

    def __init__(self, depth, make=Queue):
        self._depth, self._make = depth, make
        super().__init__({})

    def elaborate(self, platform):
        m = Module()
        depth = self._depth
        m.submodules.queue = queue = self._make(COUNT, depth)
        popped, _ = in_order(m, queue, depth, COUNT)

        # The j-th entry of the memory is the one pushed as number popped + (1 if one is shown) + j.
        for place, entry in enumerate(sound(m, queue, depth, "place")):
            with m.If(place < queue.level):
                m.d.comb += Assert(entry == (popped + queue.o.valid + place)[:COUNT])
        return m


#: A large queue from seven entries on, with small memories of eight.
SHALLOW = (
    ("_KEPT = 16", "_KEPT = 8"), ("_DEEP = 8", "_DEEP = 5"), ("self._depth > LUT_DEPTH", "self._depth > 6"),
)  # fmt: skip


class LargeSpecification(wiring.Component):
    """`in_order` of a large queue, whose entries are in block RAM, among the last, and among those read ahead."""

    def __init__(self, depth, make):
        self._depth, self._make = depth, make
        super().__init__({})

    def elaborate(self, platform):
        m = Module()
        depth, count, kept, deep = self._depth, 5, 8, 5
        m.submodules.queue = queue = self._make(count, depth)
        (inner,) = opened(queue)._large
        (plain,) = opened(inner.memory)._plain
        popped, inside = in_order(m, queue, depth, count)
        first, pushed = Signal(count), Signal(count)
        level, lead, number = queue.level, inner.lead, len(inner.head)
        # What was read in the last cycle, and in the one before; the level of the cycle before.
        read, earlier, before = Signal(), Signal(), Signal.like(level)
        m.d.sync += [read.eq(inner.reads), earlier.eq(read), before.eq(level)]
        m.d.comb += [
            first.eq(popped + queue.o.valid),
            pushed.eq(popped + inside),
            Assert(level <= depth),
            Assert(inner.some == (level != 0)),
            Assert(inner.full == (level == depth)),
            Assert(inner.head == first[:number]),
            Assert(inner.tail == pushed[:number]),
            Assert(inner.reading == (first + lead)[:number]),
            Assert(inner.coming == (inner.reading - read)[: len(inner.coming)]),
            Assert(inner.come == (inner.reading - read - earlier)[: len(inner.come)]),
            Assert(lead <= level),
            # It reads ahead unless it is far ahead.
            Assert((level - lead <= 1) | (lead >= kept - 2)),
            Assert((level <= before + 1) & (before <= level + 1)),
            Assert(inner.deep == (before >= deep)),
        ]
        for i, entry in enumerate(entries(m, plain.memory, 1 << number, inner.head, "behind")):
            if i < depth:
                with m.If(i < level):
                    m.d.comb += Assert(entry == (first + i)[:count])
        for i, entry in enumerate(entries(m, inner.last, kept, inner.tail[:3], "last")):
            # Place i behind the tail is that of kept − i before it.
            if i:
                with m.If(kept - i <= level):
                    m.d.comb += Assert(entry == (pushed + i - kept)[:count])
        for i, entry in enumerate(entries(m, inner.next_, kept, inner.head[:3], "next")):
            with m.If(i + read + earlier < lead):
                m.d.comb += Assert(entry == (first + i)[:count])
        with m.If(earlier & (read < lead)):
            m.d.comb += Assert(plain.shown == (first + lead - read - 1)[:count])
        with m.If(read & (lead != 0)):
            m.d.comb += Assert(plain.read.data == (first + lead - 1)[:count])
        return m


class DeliverSpecification(wiring.Component):
    """Flits come out if and only if they were committed, each once, in order; so do records.

    With control classes there is room where it was foreseen.
    """

    def __init__(self, system, make=DeliverFifo):
        self._system, self._make = system, make
        super().__init__({})

    def elaborate(self, platform):
        m = Module()
        m.submodules.fifo = fifo = self._make(self._system)
        inner = opened(fifo)
        depth, places = self._system.deliver_flits, self._system.ni.deliver_records
        committed, loose, taken = Signal(COUNT), Signal(COUNT), Signal(COUNT)
        records, records_taken = Signal(COUNT), Signal(COUNT)
        overflow, judged, room = Signal(), Signal(), Signal()
        out, record, fill, verdict = fifo.deliver_data, fifo.deliver, fifo.fill, fifo.verdict
        m.d.comb += [
            fill.valid.eq(AnySeq(1)),
            verdict.commit.eq(AnySeq(1)),
            verdict.reject.eq(AnySeq(1)),
            fill.drop.eq(AnySeq(1)),
            out.ready.eq(AnySeq(1)),
            record.ready.eq(AnySeq(1)),
            fill.beat.data.eq((committed + loose)[:COUNT]),
            verdict.record.length.eq(records),
            # The level that counts: what was committed and is still in memory, and what is not committed.
            room.eq((committed + loose - taken)[:COUNT] - out.valid < depth),
        ]
        m.d.sync += judged.eq(verdict.commit | verdict.reject)
        m.d.comb += [
            Assume(~(verdict.commit & (fill.valid | verdict.reject | fill.drop | ~verdict.room | judged))),
            Assume(~(judged & (fill.valid | verdict.reject))),
        ]
        if self._system.ni.control_classes:
            foreseen = Signal(init=1)
            m.d.sync += foreseen.eq(Mux(verdict.commit, verdict.next_room[1], verdict.next_room[0]))
            m.d.comb += Assert(verdict.room == foreseen)
        with m.If(verdict.commit):
            m.d.sync += [committed.eq(committed + loose), loose.eq(0), overflow.eq(0), records.eq(records + 1)]
            m.d.comb += Assert(~overflow)
        with m.Elif(verdict.reject | fill.drop):
            m.d.sync += [loose.eq(0), overflow.eq(0)]
        with m.Elif(fill.valid):
            with m.If(room & ~overflow):
                m.d.sync += loose.eq(loose + 1)
            with m.Else():
                m.d.sync += overflow.eq(1)
        with m.If(out.valid):
            m.d.comb += [Assert(out.payload.data == taken), Assert(taken != committed)]
        with m.If(out.valid & out.ready):
            m.d.sync += taken.eq(taken + 1)
        with m.If(fifo.empty):
            m.d.comb += Assert((taken == committed) & (records_taken == records))
        with m.If(record.valid):
            m.d.comb += Assert(record.payload.length == records_taken)
        with m.If(record.valid & record.ready):
            m.d.sync += records_taken.eq(records_taken + 1)

        waiting, queue = Signal(COUNT), inner.records
        for place, entry in enumerate(sound(m, queue, places, "record")):
            with m.If(place < queue.level):
                # The j-th record in memory is the one committed as number taken + (1 if one is shown) + j.
                m.d.comb += Assert(entry.length == (records_taken + record.valid + place)[:COUNT])
        m.d.comb += [
            waiting.eq(records - records_taken),
            Assert(waiting == queue.level + record.valid),
            Assert(fifo.waiting == waiting),
        ]
        # The pointers are places of the memory, as far apart as there are flits between them: `used` in all, of which
        # `firm` are committed.  Where two are equal, a flag tells none from all.
        used, firm = Signal(range(2 * depth)), Signal(range(2 * depth))
        m.d.comb += [Assert(pointer < depth) for pointer in (inner.head, inner.tail, inner.kept)]
        for distance, pointer, all_ in ((used, inner.tail, inner.brim), (firm, inner.kept, inner.brim & inner.some)):
            m.d.comb += [
                distance.eq(pointer - inner.head + Mux(pointer < inner.head, depth, 0)),
            ]
            with m.If((pointer == inner.head) & all_):
                m.d.comb += distance.eq(depth)
        # A verdict is carried out one cycle late: after a commit the flits still count as stored, after a reject those
        # stored are already forgotten.
        stays, kept = Signal(COUNT), Signal(COUNT)
        m.d.comb += [
            Assert((inner.accepted | inner.rejected) == judged),
            Assert(~(inner.accepted & inner.rejected)),
            Assert(~judged | ((loose == 0) & ~overflow)),
            Assert(judged | ((used - firm == loose) & (inner.overflow == overflow))),
            Assert(~inner.accepted | ~inner.overflow),
            stays.eq(Mux(inner.rejected, firm, used)),
            kept.eq(Mux(inner.accepted, used, firm)),
            # What is kept is what was committed and has neither been taken nor is shown.
            Assert(kept == (committed - taken - out.valid)[:COUNT]),
            # What is used is what is committed and what is stored, and no more than the memory has.
            Assert(fifo.used == used),
            Assert(firm <= used),
            Assert(inner.some == (firm != 0)),
            Assert(inner.loose == (used != firm)),
            Assert(inner.brim == (used == depth)),
        ]
        # The j-th flit of the memory that will stay is number taken + (1 if one is shown) + j.
        for place, entry in enumerate(entries(m, inner.memory, depth, inner.head, "flit")):
            with m.If(place < stays):
                m.d.comb += Assert(entry.data == (taken + out.valid + place)[:COUNT])
        return m


class SlotSpecification(wiring.Component):
    """A slot is in exactly one place, with its generation: free, resting, being filled, live, or ended, not taken.

    Control slots are free and filled apart from data slots, and nothing is taken twice in a cycle.  No slot is taken
    whose payload is being read for a worm.
    """

    def __init__(self, system, make=FreeSlots, accept=Accept):
        self._system, self._make, self._accept = system, make, accept
        super().__init__({})

    def elaborate(self, platform):
        m = Module()
        system, slots = self._system, self._system.ni.slots
        m.submodules.accept = accept = self._accept(system)
        m.submodules.free = free = self._make(system)
        m.submodules.completions = completions = Completions(system)
        freeing, ending = opened(free), opened(completions)
        first_control = slots - system.ni.control_slots
        # (accept, its free slots, their queue, its slots)
        ways = [(accept, free.free, freeing.queue, range(first_control))]
        if system.ni.control_slots:
            m.submodules.control = control = self._accept(system, control=True)
            ways.append((control, free.free_control, freeing.controls, range(first_control, slots)))
            m.d.comb += [accept.yields.eq(control.acts), Assert(~(accept.acts & control.acts))]
        inside = {unit: opened(unit) for unit, *_ in ways}
        wiring.connect(m, completions.taken, free.taken)
        index, ready = Signal(range(slots + 1)), Signal()
        with m.If(~ready):
            m.d.sync += [index.eq(index + 1), ready.eq(index == slots - 1)]
        ends, ended, entry = Signal(), Signal(range(slots)), completions.ended.entry
        live = Signal(slots)
        generations = [Signal(system.format.generation_bits, name=f"generation{i}") for i in range(slots)]
        time = Signal(system.time_bits)
        m.d.sync += time.eq(time + AnySeq(1))
        m.d.comb += [
            free.clear.valid.eq(~ready),
            free.clear.index.eq(index),
            free.time_base.eq(time),
            completions.completion.ready.eq(AnySeq(1)),
            # Any live datagram may end at any time.
            ends.eq(AnySeq(1)),
            ended.eq(AnySeq(len(ended))),
            Assume(~ends | live.bit_select(ended, 1)),
            completions.ended.valid.eq(ends),
            entry.slot.eq(ended),
            entry.status.eq(AnySeq(2)),
            entry.cause.eq(AnySeq(len(entry.cause))),
        ]
        for unit, source, _, _ in ways:
            wiring.connect(m, source, unit.free)
            m.d.comb += [
                unit.open.eq(ready),
                unit.waiting.eq(free.level),
                unit.node.eq(0),
                unit.send.valid.eq(AnySeq(1)),
                unit.send.payload.eq(AnySeq(len(unit.send.payload.as_value()))),
                unit.send_data.valid.eq(AnySeq(1)),
            ]
            flying, inner, shown = unit.flying, inside[unit], source.payload
            flies, next_flies, before = Signal(), AnySeq(1), Signal.like(flying.slot)
            same = shown.slot == flying.slot
            m.d.sync += [flies.eq(next_flies), before.eq(flying.slot)]
            m.d.comb += [
                flying.valid.eq(flies),
                flying.slot.eq(AnySeq(len(flying.slot))),
                Assume(~flies | (flying.slot == before)),
                Assert(~(unit.begun & flies & same)),
            ]
            if system.ni.control_slots:
                m.d.comb += flying.next_valid.eq(next_flies)
            if unit is accept:
                m.d.comb += [unit.ahead.eq(free.ahead), Assert(~(source.valid & flies) | (inner.same == same))]
            else:
                nearly = ready | (index == slots - 1)
                m.d.comb += [
                    unit.ahead.eq(free.ahead_control),
                    unit.opens.eq(Mux(nearly, AnySeq(2), 0)),
                    Assert(~source.valid | (inner.blocked == (flies & same))),
                    Assert(~inner.armed | (ready & ~inner.in_payload)),
                ]
        for i in range(slots):
            with m.If(ends & (ended == i)):
                m.d.comb += entry.generation.eq(generations[i])
                m.d.sync += live[i].eq(0)
            for unit, _, _, own in ways:
                with m.If(unit.begin.valid & (unit.begin.slot == i)):
                    m.d.comb += [Assert(~live[i]), Assert(unit.launch.payload.generation == generations[i])]
                    m.d.comb += Assert(i in own)
                    m.d.sync += live[i].eq(1)
            with m.If(completions.taken.valid & (completions.taken.life.slot == i)):
                m.d.sync += generations[i].eq(generations[i] + 1)

        # Every place, as (there is something, slot, generation).
        waiting: list[tuple[Value, Value, Value]] = []
        used: list[tuple[Value, Value, Value]] = [
            (
                completions.completion.valid,
                completions.completion.payload.slot,
                completions.completion.payload.generation,
            ),
            *((live[i], Const(i, range(slots)), generations[i]) for i in range(slots)),
        ]
        for place, row in enumerate(sound(m, ending.queue, slots, "entry")):
            used.append((place < ending.queue.level, row.slot, row.generation))
        for unit, source, queue, own in ways:
            inner, shown = inside[unit], source.payload
            filled = (inner.in_payload, inner.held_life.slot, inner.held_life.generation)
            rows = [(source.valid, shown.slot, shown.generation)]
            for place, row in enumerate(sound(m, queue, len(own), "free")):
                rows.append((place < queue.level, row.slot, row.generation))
            waiting += rows
            used.append(filled)
            m.d.comb += [Assert(~valid | (slot >= own.start) & (slot < own.stop)) for valid, slot, _ in (filled, *rows)]
        if system.timers.quarantine:
            used += self._resting(m, freeing.quarantine)
        places = waiting + used

        for i in range(slots):
            here = [valid & (slot == i) for valid, slot, _ in places]
            # From the walk's turn on, and only then, the slot is in one place, and in no other.
            m.d.comb += Assert(sum(here, Const(0, 1)) == (ready | (index > i)))
            # It begins with generation 0, and wherever it is its generation is there too.
            m.d.comb += Assert(ready | (generations[i] == 0))
            m.d.comb += [
                Assert(~one | (generation == generations[i]))
                for one, (_, _, generation) in zip(here, places, strict=True)
            ]
        # The walk ends with the last slot; until then no slot is anywhere but in the free queue.  No place names a slot
        # that does not exist.
        m.d.comb += [Assert(ready | (index < slots)), *(Assert(ready | ~valid) for valid, _, _ in used)]
        m.d.comb += [Assert(~valid | (slot < slots)) for valid, slot, _ in places]
        return m

    def _resting(self, m, quarantine: Quarantine) -> list[tuple[Value, Value, Value]]:
        """The places of the quarantine: a ring; its read register shows the oldest."""
        inner, slots = opened(quarantine), self._system.ni.slots
        rows = entries(m, inner.memory, slots, inner.head, "resting")
        end = Signal(range(2 * slots))
        m.d.comb += [
            end.eq(inner.head + inner.level),
            Assert((inner.head < slots) & (inner.tail < slots) & (inner.level <= slots)),
            Assert(inner.tail == Mux(end >= slots, end - slots, end)),
            Assert((inner.level == 0) | (inner.read.data == rows[0])),
        ]
        return [(place < inner.level, row.life.slot, row.life.generation) for place, row in enumerate(rows)]


def system_of(slots=2, quarantine=0, flits=4, control_slots=0):
    return small(
        wire={"flit_bits": 16, "mtu": 8, "generation_bits": 2},
        ni={
            "slots": slots,
            "sets": 1,
            "ways": 1,
            "deliver_flits": flits,
            "deliver_records": 2,
            "control_slots": control_slots,
            "control_classes": int(control_slots > 0),
        },
        timers={"quarantine": quarantine},
    )


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
def test_queue(depth, tmp_path):
    prove_always(QueueSpecification(depth), tmp_path, k=1)


@pytest.mark.parametrize("depth", [7, 9])
def test_large_queue(depth, tmp_path):
    prove_always(LargeSpecification(depth, changed(Queue, *SHALLOW)), tmp_path, k=1)


@pytest.mark.parametrize(("flits", "control_slots"), [(4, 0), (5, 0), (4, 1)])
def test_deliver_fifo(flits, control_slots, tmp_path):
    prove_always(DeliverSpecification(system_of(flits=flits, control_slots=control_slots)), tmp_path, k=1)


@pytest.mark.parametrize(("slots", "quarantine", "control_slots"), [(2, 0, 0), (3, 3, 0), (3, 0, 1)])
def test_a_slot_is_in_one_place(slots, quarantine, control_slots, tmp_path):
    prove_always(SlotSpecification(system_of(slots, quarantine, control_slots=control_slots)), tmp_path, k=1)


#: What each proof has to refuse: the text that is changed, and what by.
CHANGES = {
    "a place is free a cycle early": (
        lambda make: QueueSpecification(3, make),
        Queue,
        (
            "self.i.ready.eq(~full),\n            push.eq(taken),\n            # `some`",
            "self.i.ready.eq(~full | refill),\n            push.eq(self.i.valid & self.i.ready),\n            # `some`",
        ),
    ),
    "a place is given up": (
        lambda make: QueueSpecification(3, make),
        Queue,
        ("full.eq(after_tail == head)", "full.eq(step(after_tail, self._depth) == head)"),
    ),
    "an entry is taken before it was read ahead": (
        lambda make: LargeSpecification(9, make), Queue, *SHALLOW, ("_DEEP = 5", "_DEEP = 4"),
    ),
    "an entry is taken that is no more among the last": (
        lambda make: LargeSpecification(9, make), Queue, *SHALLOW, ("_DEEP = 5", "_DEEP = 8"),
    ),
    "a read ahead goes round too far": (
        lambda make: LargeSpecification(9, make), Queue, *SHALLOW,
        ("reads.eq(more & ~lead.all())", "reads.eq(more)"),
    ),
    "a flit too few is forgotten": (
        lambda make: DeliverSpecification(system_of(), make),
        DeliverFifo,
        ("m.d.sync += [tail.eq(kept), loose.eq(0), overflow.eq(0)]", "m.d.sync += [loose.eq(0), overflow.eq(0)]"),
    ),
    "an overflow outlives its message": (
        lambda make: DeliverSpecification(system_of(), make),
        DeliverFifo,
        ("m.d.sync += [tail.eq(kept), loose.eq(0), overflow.eq(0)]", "m.d.sync += [tail.eq(kept), loose.eq(0)]"),
    ),
    "a commit is not foreseen": (
        lambda make: DeliverSpecification(system_of(control_slots=1), make),
        DeliverFifo,
        ("Mux(overflows, 0, records.next_ready)", "Mux(overflows, 0, records.next_ready[0].replicate(2))"),
    ),
    "a slot rests and is free": (
        lambda make: SlotSpecification(system_of(2, 3), make),
        FreeSlots,
        ("taken.valid & ~rests if self._system.rest else taken.valid", "taken.valid"),
    ),
    "a data slot goes to control": (
        lambda make: SlotSpecification(system_of(3, control_slots=1), make),
        FreeSlots,
        ("freed.payload.slot >= first_control", "freed.payload.slot >= first_control - 1"),
    ),
    "data do not yield to control": (
        lambda make: SlotSpecification(system_of(3, control_slots=1), accept=make),
        Accept,
        ("may = ~self.yields if self._yields else 1", "may = 1"),
    ),
    "a slot that is on its way is taken": (
        lambda make: SlotSpecification(system_of(), accept=make),
        Accept,
        (" & ~(self.flying.valid & same)", ""),
    ),
    "a control slot that is on its way is taken": (
        lambda make: SlotSpecification(system_of(3, control_slots=1), accept=make),
        Accept,
        ("able = armed & self.open & self.free.valid & ~blocked", "able = armed & self.open & self.free.valid"),
    ),
    "control begins while it takes a payload": (
        lambda make: SlotSpecification(system_of(3, control_slots=1), accept=make),
        Accept,
        ("armed.eq(~in_payload_next & ", "armed.eq("),
    ),
    "the quarantine goes round too late": (
        lambda make: SlotSpecification(system_of(3, 3), make),
        FreeSlots,
        ("m.d.sync += tail.eq(step(tail, slots))", "m.d.sync += tail.eq(tail + 1)"),
    ),
}  # fmt: skip


#: One of each block.
QUICK = (
    "a place is given up",
    "a read ahead goes round too far",
    "an overflow outlives its message",
    "a slot rests and is free",
    "data do not yield to control",
    "a commit is not foreseen",
    "a control slot that is on its way is taken",
)


@pytest.mark.parametrize("change", but(QUICK, CHANGES))
def test_a_wrong_block_is_refused(change, tmp_path):
    specification, cls, *changes = CHANGES[change]
    with pytest.raises(NotProved, match="Assert failed") as refused:
        prove_always(specification(changed(cls, *changes)), tmp_path, k=12)
    assert refused.value.by == "base"  # it does go wrong, within so many cycles


class Counter(wiring.Component):
    """It claims that a count stays below ``most``, which it does for so many cycles."""

    def __init__(self, most):
        self._most = most
        super().__init__({})

    def elaborate(self, platform):
        m = Module()
        count = Signal(6)
        m.d.sync += count.eq(count + 1)
        m.d.comb += Assert(count < self._most)
        return m


class Stuck(wiring.Component):
    """It claims what is false from the start, and follows from itself."""

    def elaborate(self, platform):
        m = Module()
        bit = Signal()
        m.d.sync += bit.eq(bit)
        m.d.comb += Assert(bit)
        return m


def test_induction_needs_its_base_and_its_step(tmp_path):
    with pytest.raises(NotProved, match="Assert failed") as step:
        prove_always(Counter(20), tmp_path, k=3)
    with pytest.raises(NotProved, match="Assert failed") as base:
        prove_always(Stuck({}), tmp_path, k=1)
    assert (step.value.by, base.value.by) == ("step", "base")
