"""What the adapters between a host port and AXI4-Streams promise, for every environment.

A specification asserts its promises, and then the invariants that carry them from one cycle to the next.
"""

import pytest
from amaranth.asserts import AnyConst, AnySeq
from amaranth.hdl import Assert, Assume, Cat, DomainRenamer, EnableInserter, Module, Mux, ResetInserter, Signal
from amaranth.lib import data, wiring

from lethe.bus.crossing import HOST, Crossing
from lethe.bus.signature import axi_stream
from lethe.bus.skid import Skid
from lethe.bus.store_and_forward import StoreAndForward
from lethe.bus.streams import CompletionAdapter, DeliverAdapter, SendAdapter
from lethe.spec.axi import axi_streams
from lethe.spec.sections import flow, relay
from tests.helpers.proof import NotProved, changed, opened, prove, prove_always
from tests.helpers.proof_systems import small
from tests.helpers.tiers import but

COUNT = 6  # bits of running numbers: more than are ever under way
SYSTEM = small(wire={"flit_bits": 16, "mtu": 6, "generation_bits": 4, "class_bits": 1, "tag_bits": 8})


#: With the smallest store there is.
SHORT = small(wire={"flit_bits": 16, "mtu": 4, "generation_bits": 4, "class_bits": 1, "tag_bits": 8})


#: With a service: messages are as long as datagrams without.
FLOW = small(
    wire={"flit_bits": 16, "mtu": 14, "class_bits": 1}, flow={"ports": 2, "cells": 2, "in_order": 1}, ni=flow.OF_NI
)
RELAY = small(wire={"flit_bits": 16, "mtu": 22, "class_bits": 3}, relay={"slots": 2, "radix": 0}, ni=relay.OF_NI)


def stream_of(port: str, system=SYSTEM, *, store: bool = False):
    (found,) = (axis for axis in axi_streams(system, store=store) if axis.port == port)
    return found


def holds(m: Module, valid, ready, *payload, unless=0, claim=Assert) -> None:
    """Once ``valid``, it and the payload hold until the transfer, ``unless`` something ends them in the next cycle."""
    waiting = Signal(name="waiting")
    before = [Signal.like(part, name="before") for part in payload]
    m.d.sync += [waiting.eq(valid & ~ready), *(old.eq(part) for old, part in zip(before, payload, strict=True))]
    same = Cat(valid, *(old == part for old, part in zip(before, payload, strict=True))).all()
    m.d.comb += claim(~waiting | same | unless)


def axis_holds(m: Module, axis, claim=Assert) -> None:
    payload = [getattr(axis, name) for name in axis.signature.members if name not in ("tvalid", "tready")]
    holds(m, axis.tvalid, axis.tready, *payload, claim=claim)


class SendSpecification(wiring.Component):
    """Whatever comes on the stream, whenever the NI takes something and is reset.

    The NI takes a record, then as many beats as its length asks for.  Beats are numbered.  Each record is that of a
    datagram's first beat, and each beat of the NI's the next of its datagram, or 0 behind its last; a datagram that is
    as its length says comes whole.
    """

    def __init__(self, make=SendAdapter):
        self._make = make
        super().__init__({})

    def elaborate(self, platform):
        m = Module()
        m.submodules.adapter = adapter = self._make(SYSTEM, stream_of("send"))
        axis, send, beats, reset = adapter.axis, adapter.send, adapter.send_data, adapter.node_reset
        user = data.View(data.StructLayout(dict(stream_of("send").user)), axis.tuser)

        # The host: a running number in each beat, and in the tag of a first one.
        number, inside = Signal(COUNT), Signal()
        m.d.comb += [
            axis.tvalid.eq(AnySeq(1)),
            axis.tlast.eq(AnySeq(1)),
            axis.tdata.eq(number + 1),  # never 0 while fewer are under way
            axis.tdest.eq(AnySeq(16)),
            axis.tuser.eq(AnySeq(len(axis.tuser))),
            Assume(user.length <= 6),
            Assume(user.tag == Cat(number, ~inside)),
            Assume(number != (1 << COUNT) - 1),
            reset.eq(AnySeq(1)),
        ]
        axis_holds(m, axis, Assume)
        with m.If(axis.tvalid & axis.tready):
            m.d.sync += [number.eq(number + 1), inside.eq(~axis.tlast)]

        # The NI.
        left, at, ended = Signal(range(9)), Signal(COUNT), Signal()
        takes, takes_beat = Signal(), Signal()
        m.d.comb += [
            send.ready.eq(AnySeq(1) & (left == 0) & ~reset),
            beats.ready.eq(AnySeq(1) & (left != 0) & ~reset),
            takes.eq(send.valid & send.ready),
            takes_beat.eq(beats.valid & beats.ready),
        ]
        record = send.payload
        flits = (record.length + 1) >> 1
        with m.If(reset):
            m.d.sync += left.eq(0)
        with m.Elif(takes):
            m.d.sync += [left.eq(flits), at.eq(record.tag[:COUNT]), ended.eq(0)]
        with m.Elif(takes_beat):
            m.d.sync += [left.eq(left - 1), at.eq(at + 1), ended.eq(ended | (beats.payload == 0))]
        m.d.comb += [
            # A record is a first beat's, and that is one that has come and that no record was of before.
            Assert(~send.valid | record.tag[COUNT]),
            Assert(~(beats.valid & (left != 0)) | (beats.payload == at + 1) | (beats.payload == 0)),
            Assert(~(beats.valid & ended & (left != 0)) | (beats.payload == 0)),
            # Never both; none that the NI does not ask for.
            Assert(~(send.valid & beats.valid)),
            Assert(~beats.valid | (left != 0) | reset),
        ]
        former, any_former = Signal(COUNT), Signal()
        with m.If(takes):
            m.d.sync += [former.eq(record.tag[:COUNT]), any_former.eq(1)]
        m.d.comb += Assert(~(send.valid & any_former) | (record.tag[:COUNT] > former))
        holds(m, send.valid, send.ready, send.payload.as_value())
        lost = Signal()
        m.d.sync += lost.eq(reset)
        holds(m, beats.valid, beats.ready, beats.payload, unless=lost)

        # Invariants: what the adapter's state says of the host's and of the NI's.
        inner = opened(adapter)
        state = {name: getattr(inner, name) for name in ("records", "beats", "pads", "drops")}
        full, held = inner.full, inner.held
        first = data.View(user.shape(), held["tuser"])
        given_up = state["drops"] & held["tlast"]
        outside = state["records"]  # what is held, or comes, is a first beat
        m.d.comb += [
            Assert(sum(state.values()) == 1),
            Assert(~full | (held["tdata"] == Mux(state["pads"], 0, number)) | (given_up & (held["tdata"] == 0))),
            Assert(~state["pads"] | (full & held["tlast"])),
            Assert(Mux(full, inside == ~held["tlast"], inside == ~outside)),
            Assert(~(full & outside) | (first.tag == Cat((number - 1)[:COUNT], 1))),
            Assert(~(full & outside) | (first.length <= 6)),
            Assert(~full | (inner.empty == (first.length == 0))),
            Assert(send.valid == (state["records"] & full)),
            Assert(beats.valid == ((state["beats"] | state["pads"]) & full)),
            Assert(~(state["beats"] | state["pads"]) | (inner.final == (left == 1))),
            Assert(left == Mux(state["beats"] | state["pads"], inner.left + inner.partial, 0)),
            Assert((left != 0) | state["records"] | state["drops"]),
            Assert(~state["beats"] | (number == (at + full)[:COUNT])),
            Assert(~state["beats"] | ~ended),
            Assert(~any_former | (former < number - (full & outside))),
            Assert(~full | (number != 0)),
        ]

        # A datagram is wrong if its last beat is not the last that its length asks for.
        counts = takes_beat & ~state["pads"]
        wrong = (takes & (flits == 0) & ~held["tlast"]) | (counts & ((left == 1) != held["tlast"]))
        m.d.comb += Assert(adapter.malformed == wrong)
        # Without a wrong one and without a reset no beat is lost: each that has come goes to the NI, or is held.
        ever, gone = Signal(), Signal(COUNT)
        m.d.sync += ever.eq(ever | reset | adapter.malformed)
        with m.If(counts | (state["drops"] & full)):
            m.d.sync += gone.eq(gone + 1)
        m.d.comb += [
            Assert(ever | state["records"] | state["beats"] | (state["drops"] & full & held["tlast"])),
            Assert(ever | (number == (gone + full)[:COUNT])),
            Assert(ever | ~(beats.valid & (left != 0)) | (beats.payload == at + 1)),
        ]
        return m


class DeliverSpecification(wiring.Component):
    """Whatever the NI delivers, whenever it is reset and the host takes something.

    The NI's beats are numbered.  What leaves is what the NI gave, in its order, none lost, none twice; whole datagrams,
    or a part with one more beat, which says so.  All fields of the record are beside each beat.
    """

    def __init__(self, make=DeliverAdapter, system=SYSTEM, port="deliver"):
        self._make, self._system, self._axis = make, system, stream_of(port, system)
        super().__init__({})

    def elaborate(self, platform):
        m = Module()
        m.submodules.adapter = adapter = self._make(self._system, self._axis)
        axis, deliver, beats, reset = adapter.axis, adapter.deliver, adapter.deliver_data, adapter.node_reset
        user = data.View(data.StructLayout(dict(self._axis.user)), axis.tuser)
        record = deliver.payload
        names = [name for part in (self._axis.id, self._axis.dest, self._axis.user[1:]) for name, _ in part]
        assert sorted(names) == sorted(record.shape().members)

        def all_of(record):
            return Cat(record[name] for name in names)

        beside = Cat(getattr(axis, name) for name in ("tid", "tdest") if hasattr(axis, name))
        beside = Cat(beside, (user[name] for name, _ in self._axis.user[1:]))

        # The NI: a record that holds, and its beats.
        at, number, flits = Signal(2), Signal(COUNT), Signal(2)
        m.d.comb += [
            reset.eq(AnySeq(1)),
            deliver.valid.eq(AnySeq(1) & ~reset),
            record.eq(AnySeq(len(record.as_value()))),
            Assume(record.length <= 6),
            flits.eq((record.length + 1) >> 1),
            beats.valid.eq(AnySeq(1) & ~reset),
            beats.payload.data.eq(number),
            beats.payload.last.eq(at + 1 == flits),
            adapter.empty.eq(record.length == 0),
            axis.tready.eq(AnySeq(1)),
        ]
        since = Signal()
        m.d.sync += since.eq(reset)
        holds(m, deliver.valid, deliver.ready, record.as_value(), unless=since | reset, claim=Assume)
        takes, takes_beat = deliver.valid & deliver.ready, beats.valid & beats.ready
        # Beats that are taken are those of the record that is offered, even while it is not.
        told = Signal(record.shape())
        m.d.comb += Assume((at == 0) | reset | (deliver.valid & (record.as_value() == told.as_value())))
        with m.If(takes_beat):
            m.d.sync += told.eq(record)
        with m.If(reset | takes):
            m.d.sync += at.eq(0)
        with m.Elif(takes_beat):
            m.d.sync += at.eq(at + 1)
        with m.If(takes_beat):
            m.d.sync += number.eq(number + 1)
        m.d.comb += [
            # Beats only of a record that has any, and the record with the last.
            Assert(~takes_beat | (deliver.valid & (flits != 0))),
            Assert(~takes | (flits == 0) | (takes_beat & beats.payload.last)),
            Assert(~takes_beat | ~beats.payload.last | takes),
        ]

        # The host.
        axis_holds(m, axis)
        expected, inside, place = Signal(COUNT), Signal(), Signal(2)
        leaves = axis.tvalid & axis.tready
        carries = axis.tkeep.any()
        length = Signal.like(user.length)
        kept = Signal(len(beside))
        with m.If(leaves):
            m.d.sync += [
                inside.eq(~axis.tlast),
                expected.eq(expected + carries),
                place.eq(Mux(axis.tlast, 0, place + 1)),
            ]
            m.d.sync += [length.eq(user.length), kept.eq(beside)]
        with m.If(axis.tvalid):
            bytes_before = place << 1
            m.d.comb += [
                Assert(~inside | ((user.length == length) & (beside == kept))),
                Assert(~user.aborted | (inside & axis.tlast & ~carries)),
                Assert(~carries | (axis.tdata == expected)),
            ]
            with m.If(~user.aborted):
                m.d.comb += [
                    Assert(axis.tkeep == Cat(bytes_before < user.length, bytes_before + 1 < user.length)),
                    Assert(axis.tlast == (bytes_before + 2 >= user.length)),
                ]
        # Invariants.  One that was taken of the NI and has not left is in the register.
        shown = axis.tvalid
        m.d.comb += [
            Assert(number == (expected + (shown & carries))[:COUNT]),
            Assert(inside == (place != 0)),
            Assert(~inside | (length > place << 1)),
            # The field of a service has room for more.
            Assert((~shown | (user.length <= 6)) & (~inside | (length <= 6))),
        ]
        inner = opened(adapter)
        loaded = Signal(2)  # beats of the datagram that were loaded
        m.d.comb += [
            loaded.eq(Mux(shown, Mux(axis.tlast, 0, place + 1), place)),
            Assert(inner.inside == (loaded != 0)),
            Assert(~inner.inside | (loaded << 1 < user.length)),
            Assert(~inner.aborting | inner.inside),
            Assert(at == Mux(inner.inside & ~inner.aborting, loaded, 0)),
            Assert((at == 0) | (all_of(told) == beside)),
            Assert((place == 0) | ((user.length == length) & (beside == kept))),
            Assert(~(shown & ~axis.tlast) | ~user.aborted),
        ]
        return m


class CompletionSpecification(wiring.Component):
    """Every completion leaves once, in order, with the incarnation that the NI had when it gave it."""

    def __init__(self, make=CompletionAdapter):
        self._make = make
        super().__init__({})

    def elaborate(self, platform):
        m = Module()
        m.submodules.adapter = adapter = self._make(SYSTEM, stream_of("completion"))
        completion, axis = adapter.completion, adapter.axis
        number, expected = Signal(16), Signal(16)
        inner = opened(adapter)
        skid = opened(inner.skid)
        # The incarnations of the last two that the NI gave.
        kept, former = Signal.like(adapter.incarnation), Signal.like(adapter.incarnation)
        m.d.comb += [
            completion.valid.eq(AnySeq(1)),
            completion.payload.tag.eq(number[:8]),
            completion.payload.destination.eq(number),
            adapter.incarnation.eq(AnySeq(len(adapter.incarnation))),
            axis.tready.eq(AnySeq(1)),
        ]
        with m.If(completion.valid & completion.ready):
            m.d.sync += [number.eq(number + 1), kept.eq(adapter.incarnation), former.eq(kept)]
        axis_holds(m, axis)
        shown = data.View(completion.payload.shape(), axis.tdata[: len(completion.payload.as_value())])
        with m.If(axis.tvalid):
            m.d.comb += [Assert(shown.destination == expected), Assert(axis.tlast)]
            m.d.comb += Assert(axis.tuser == Mux(skid.holds, former, kept))
            with m.If(axis.tready):
                m.d.sync += expected.eq(expected + 1)
        of_last = skid.kept.completion.destination == (number - 1)[:16]
        m.d.comb += [
            Assert(number == (expected + axis.tvalid + skid.holds)[:16]),
            Assert(~skid.holds | axis.tvalid),
            Assert(~skid.holds | (of_last & (skid.kept.incarnation == kept))),
            Assert(~skid.holds | (number != expected)),
        ]
        return m


class SkidSpecification(wiring.Component):
    """What goes in comes out, in order, none lost, none twice; a reset loses what is held, and nothing else."""

    def __init__(self, make=Skid):
        self._make = make
        super().__init__({})

    def elaborate(self, platform):
        m = Module()
        skid = self._make(COUNT)
        inner = opened(skid)
        reset = Signal()
        m.submodules.skid = ResetInserter(reset)(skid)
        number, expected = Signal(COUNT), Signal(COUNT)
        m.d.comb += [
            reset.eq(AnySeq(1)),
            skid.i.valid.eq(AnySeq(1)),
            skid.i.payload.eq(number),
            skid.o.ready.eq(AnySeq(1)),
        ]
        waiting = Signal()
        m.d.sync += waiting.eq(skid.i.valid & ~skid.i.ready)
        m.d.comb += Assume(skid.i.valid | ~waiting)
        taken = skid.i.valid & skid.i.ready
        m.d.sync += number.eq(number + taken)
        with m.If(reset):
            m.d.sync += expected.eq(number + taken)
        with m.Elif(skid.o.valid & skid.o.ready):
            m.d.sync += expected.eq(expected + 1)
        before, told = Signal(), Signal(COUNT)
        m.d.sync += [before.eq(skid.o.valid & ~skid.o.ready & ~reset), told.eq(skid.o.payload)]
        m.d.comb += [
            Assert(~skid.o.valid | (skid.o.payload == expected)),
            Assert(~before | (skid.o.valid & (skid.o.payload == told))),
            Assert(number == (expected + inner.holds)[:COUNT]),
            Assert(~inner.holds | (inner.kept == expected)),
        ]
        return m


class StoreSpecification(wiring.Component):
    """Whatever comes, and whenever the adapter behind it takes something.

    A datagram whose bytes are the lowest of their beats, and are not too many, leaves as it came, with their number as
    its length; any other as one beat with a length that the NI refuses, and is told of once; in their order.
    """

    def __init__(self, make=StoreAndForward):
        self._make = make
        super().__init__({})

    def elaborate(self, platform):
        m = Module()
        before, after = (stream_of("send", SHORT, store=store) for store in (True, False))
        m.submodules.store = store = self._make(SHORT, before, after)
        i, o = store.i, store.o
        leaving = data.View(data.StructLayout(dict(after.user)), o.tuser)
        watched, came, went = Signal(3), Signal(3), Signal(3)  # datagrams: one of them is looked at
        m.d.comb += [
            watched.eq(AnyConst(3)),
            i.tvalid.eq(AnySeq(1)),
            i.tdata.eq(AnySeq(16)),
            i.tkeep.eq(AnySeq(2)),
            i.tlast.eq(AnySeq(1)),
            i.tdest.eq(AnySeq(16)),
            i.tuser.eq(AnySeq(len(i.tuser))),
            o.tready.eq(AnySeq(1)),
            Assume(came != 7),
        ]
        axis_holds(m, i, Assume)
        axis_holds(m, o)
        beats, first = [Signal(16, name=f"beat{n}") for n in range(2)], Signal.like(Cat(i.tdest, i.tuser))
        # Of the datagram that comes, and of the one that is looked at.
        so_far, place, spoilt = Signal(4), Signal(4), Signal()
        count, wrong, total, fails = Signal(4), Signal(), Signal(4), Signal()
        # Of all: what came whole and was wrong, what was told of, and what left.
        bad, told, refused = (Signal(4, name=name) for name in ("bad", "told", "refused"))
        m.d.comb += [
            total.eq(so_far + i.tkeep[0] + (i.tkeep == 3)),
            fails.eq(
                spoilt
                | (i.tkeep == 2)
                | (~i.tlast & (i.tkeep != 3))
                | (i.tlast & (place != 0) & (i.tkeep == 0))
                | (total > 4)
            ),
        ]
        with m.If(i.tvalid & i.tready):
            m.d.sync += [
                place.eq(Mux(i.tlast, 0, place + (place != 8))),
                so_far.eq(Mux(i.tlast, 0, Mux(total > 4, 5, total))),
                spoilt.eq(fails & ~i.tlast),
                came.eq(came + i.tlast),
                bad.eq(bad + (i.tlast & fails)),
            ]
            with m.If(came == watched):
                m.d.sync += [wrong.eq(fails), count.eq(total)]
                with m.If(place == 0):
                    m.d.sync += first.eq(Cat(i.tdest, i.tuser))
                for n, beat in enumerate(beats):
                    with m.If(place == n):
                        m.d.sync += beat.eq(i.tdata)
        m.d.sync += told.eq(told + store.malformed)
        with m.If(came == went):
            m.d.comb += Assert(told == bad)
        at = Signal(3)
        fields = [name for name, _ in before.user]
        first_user = data.View(data.StructLayout(dict(before.user)), first[16:])
        with m.If(o.tvalid):
            m.d.comb += Assert(went != came)  # it has come whole
            with m.If(o.tready):
                m.d.sync += [went.eq(went + o.tlast), at.eq(Mux(o.tlast, 0, at + 1))]
                m.d.sync += refused.eq(refused + (leaving.length == 5))
            m.d.comb += Assert((leaving.length != 5) | (refused != told))  # of which it has told
            with m.If(went == watched):
                m.d.comb += [
                    Assert(o.tdest == first[:16]),
                    *(Assert(leaving[name] == first_user[name]) for name in fields),
                    Assert(leaving.length == Mux(wrong, 5, count)),
                    Assert(o.tlast == (wrong | ((at + 1) << 1 >= count))),
                    *(Assert((at != n) | wrong | (o.tdata == beat)) for n, beat in enumerate(beats)),
                ]
        return m


class CrossingSpecification(wiring.Component):
    """Whatever the two clocks do, beats leave in order, none lost, none twice, and one that has not left waits."""

    def __init__(self, domains, make=Crossing):
        self._domains, self._make = domains, make
        super().__init__({})

    def elaborate(self, platform):
        m = Module()
        crossing = self._make(axi_stream(8, keep=False), self._domains)
        ticks = {name: Signal(name=f"tick_{name}") for name in ("sync", HOST)}
        m.submodules.crossing = DomainRenamer({HOST: "sync"})(EnableInserter(ticks)(crossing))
        before, after = (ticks[name] for name in self._domains)
        number, expected = Signal(8), Signal(8)
        m.d.comb += [
            *(tick.eq(AnySeq(1)) for tick in ticks.values()),
            crossing.i.tvalid.eq(AnySeq(1)),
            crossing.i.tdata.eq(number),
            crossing.i.tlast.eq(number[0]),
            crossing.o.tready.eq(AnySeq(1)),
            Assert(crossing.waiting | (number == expected)),
        ]
        with m.If(before & crossing.i.tvalid & crossing.i.tready):
            m.d.sync += number.eq(number + 1)
        offered = Signal()
        with m.If(after):
            m.d.sync += offered.eq(crossing.o.tvalid & ~crossing.o.tready)
        m.d.comb += Assert(~offered | crossing.o.tvalid)
        with m.If(after & crossing.o.tvalid):
            m.d.comb += [
                Assert(crossing.o.tdata == expected),
                Assert(crossing.o.tlast == expected[0]),
                Assert(expected != number),
            ]
            with m.If(crossing.o.tready):
                m.d.sync += expected.eq(expected + 1)
        return m


def test_completions_leave_once(tmp_path):
    prove_always(CompletionSpecification(), tmp_path, k=2)


def test_a_skid_loses_nothing(tmp_path):
    prove_always(SkidSpecification(), tmp_path, k=2)


def test_deliveries_leave_once(tmp_path):
    prove_always(DeliverSpecification(), tmp_path, k=2)


@pytest.mark.parametrize(
    ("system", "port"), [pytest.param(FLOW, "deliver", id="flow"), pytest.param(RELAY, "deliver_relay", id="relay")]
)
def test_messages_of_a_service_leave_once(system, port, tmp_path):
    prove_always(DeliverSpecification(system=system, port=port), tmp_path, k=2)


def test_what_is_sent_arrives_once(tmp_path):
    prove_always(SendSpecification(), tmp_path, k=2)


@pytest.mark.push
@pytest.mark.parametrize("records", [16, 2], ids=["few beats", "few records"])
def test_what_is_stored_leaves_as_it_came(records, tmp_path):
    """Also where there is room for more beats than records."""
    make = changed(StoreAndForward, ("RECORDS = 16", f"RECORDS = {records}"))
    prove(StoreSpecification(make), tmp_path, cycles=9)


#: So few places fill up, and their numbers come round, within `CROSSED` cycles.
CROSSED = 18
FEW_PLACES = ("DEPTH = 16", "DEPTH = 4")


@pytest.mark.parametrize("domains", [("sync", HOST), (HOST, "sync")])
def test_what_crosses_leaves_once(domains, tmp_path):
    prove(CrossingSpecification(domains, changed(Crossing, FEW_PLACES)), tmp_path, cycles=CROSSED)


#: What is wrong with a queue between clocks, its text and what replaces it.
WRONG_QUEUES = {
    "a full queue takes one more": (
        "full.eq(Mux(written.step, written.following == last, written.gray == last))",
        "full.eq(written.gray == last)",
    ),
    "an entry is shown that is not there": ("some.eq(loaded.gray != there)", "some.eq(1)"),
    "an entry that waits is replaced": ("loaded.step.eq(some & free)", "loaded.step.eq(some)"),
    "what is shown does not wait": ("waiting.eq(written.gray != taken)", "waiting.eq(full)"),
    "an entry that is shown has left": ("left.eq(loaded.gray)]", "left.eq(loaded.following)]"),
    "two numbers have one place": ("self.gray[-2] ^ self.gray[-1])", "self.gray[-1])"),
}


@pytest.mark.parametrize("fault", but(["a full queue takes one more"], WRONG_QUEUES))
def test_a_wrong_queue_is_refused(fault, tmp_path):
    wrong = changed(Crossing, FEW_PLACES, WRONG_QUEUES[fault])
    with pytest.raises(NotProved, match="Assert failed"):
        prove(CrossingSpecification(("sync", HOST), wrong), tmp_path, cycles=CROSSED)


@pytest.mark.full
def test_what_is_stored_leaves_as_it_came_for_longer(tmp_path):
    prove(StoreSpecification(), tmp_path, cycles=11)


_SEND, _DELIVER = (SendSpecification, SendAdapter), (DeliverSpecification, DeliverAdapter)
_COMPLETION, _STORE = (CompletionSpecification, CompletionAdapter), (StoreSpecification, StoreAndForward)
#: Wrong adapters, by what is wrong with them: the specification that refuses each, its text and what replaces it.
WRONG = {
    "missing beats are what was held": (*_SEND, "clears.eq(moves & ~final & last)", "clears.eq(0)"),
    "a padded datagram's last beat goes at once": (
        *_SEND,
        "leaves.eq(drops | (moves & (final | ~last)))",
        "leaves.eq(drops | moves)",
    ),
    "a reset leaves the rest of a datagram": (
        *_SEND,
        "((beats | pads) & self.node_reset) | (drops &",
        "(pads & self.node_reset) | (drops &",
    ),
    "surplus beats are a datagram": (
        *_SEND,
        "(records & ~taken) | (moves & final & last)",
        "(records & ~taken) | (moves & final)",
    ),
    "one without bytes is taken twice": (*_SEND, "leaves.eq(drops | ", "leaves.eq("),
    "a beat is taken while one waits": (*_SEND, "axis.tready.eq(~full | leaves)", "axis.tready.eq(1)"),
    "a beat replaces one that waits": (*_DELIVER, "free.eq(~axis.tvalid | axis.tready)", "free.eq(1)"),
    "a record goes with its first beat": (*_DELIVER, "deliver.ready.eq(takes & last)", "deliver.ready.eq(takes)"),
    "a datagram that was cut goes on": (*_DELIVER, "aborting.eq(1)", "aborting.eq(0)"),
    "the port is that of another": (*_DELIVER, "axis.tdest.eq(record[name])", "axis.tdest.eq(record.source)"),
    "all bytes count": (*_DELIVER, "(over <= i)", "(over < i)"),
    "a completion is taken twice": (
        *_COMPLETION,
        "completion.ready.eq(skid.i.ready)",
        "completion.ready.eq(1)",
    ),
    "what is kept is overwritten": (SkidSpecification, Skid, "with m.If(~holds):", "with m.If(1):"),
    "what is kept is late": (SkidSpecification, Skid, "Mux(holds, kept, self.i.payload)", "self.i.payload"),
    "what is wrong stays in the store": (*_STORE, "Mux(fails, first, after_tail)", "after_tail"),
    "a hole is no fault": (*_STORE, "hole.eq((i.tkeep & (i.tkeep + 1)[:step]) != 0)", "hole.eq(0)"),
    "no length is too much": (*_STORE, "((count == limit) & held.surplus)", "0"),
    "what is wrong is told of with each beat": (*_STORE, "malformed.eq(refusing)", "malformed.eq(takes & fails)"),
    "an empty beat may be the last": (*_STORE, "(begun & held.empty)", "0"),
}


#: One of each adapter.
QUICK = (
    "surplus beats are a datagram",
    "a record goes with its first beat",
    "a completion is taken twice",
    "what is kept is late",
    "a hole is no fault",
)


@pytest.mark.parametrize("fault", but(QUICK, WRONG))
def test_a_wrong_adapter_is_refused(fault, tmp_path):
    specification, adapter, old, new = WRONG[fault]
    with pytest.raises(NotProved, match="Assert failed"):
        of_flow = {"system": FLOW} if "tdest" in old and adapter is DeliverAdapter else {}
        prove(specification(changed(adapter, (old, new)), **of_flow), tmp_path, cycles=9)


def test_a_record_that_is_written_over_is_refused(tmp_path):
    wrong = changed(StoreAndForward, ("RECORDS = 16", "RECORDS = 2"), ("m.d.sync += full.eq(1)", "pass"))
    with pytest.raises(NotProved, match="Assert failed"):
        prove(StoreSpecification(wrong), tmp_path, cycles=9)
