"""What the registers' bus promises for ever, for any master and any registers behind it: by induction."""

import pytest
from amaranth.asserts import AnySeq
from amaranth.hdl import Assert, Assume, Cat, Module, Mux, Signal
from amaranth.lib import wiring

from lethe.bus.lite import Lite
from lethe.bus.signature import OKAY, SLVERR
from tests.helpers.proof import NotProved, changed, opened, prove, prove_always

ADDRESS_BITS = 5


def past(m, value):
    """The value one cycle ago; 0 in the first cycle."""
    before = Signal.like(value)
    m.d.sync += before.eq(value)
    return before


def hold_what_is_offered(m, bus):
    """The master keeps to AXI: what it offers is offered until it is taken."""
    for channel in ("aw", "w", "ar"):
        offered, taken = getattr(bus, f"{channel}valid"), getattr(bus, f"{channel}ready")
        m.d.comb += Assume(~past(m, offered & ~taken) | offered)


class LiteSpecification(wiring.Component):
    """Each address that is taken is answered once, nothing else is, and an answer holds until it is taken.

    The master may do anything that AXI allows: what it offers stays until it is taken.  The registers may make it wait,
    and say what they like.
    """

    def __init__(self, make=Lite):
        self._make = make
        super().__init__({})

    def elaborate(self, platform):
        m = Module()
        lite = self._make(ADDRESS_BITS)
        inner = opened(lite)
        m.submodules.lite = lite
        bus, transfer = lite.bus, lite.transfer
        for member in ("awaddr", "awvalid", "wdata", "wstrb", "wvalid", "bready", "araddr", "arvalid", "rready"):
            m.d.comb += getattr(bus, member).eq(AnySeq(len(getattr(bus, member))))
        hold_what_is_offered(m, bus)
        m.d.comb += [
            lite.later.eq(AnySeq(1)),
            lite.done.eq(AnySeq(1)),
            lite.good.eq(AnySeq(1)),
            lite.data.eq(AnySeq(32)),
        ]
        addressed, written = bus.awvalid & bus.awready, bus.wvalid & bus.wready
        asked, answered = bus.arvalid & bus.arready, (bus.bvalid & bus.bready) | (bus.rvalid & bus.rready)
        owed, owed_write, acts = Signal(), Signal(), Signal()
        # One transfer at a time: what is owed is owed to one side.
        with m.If(addressed | asked):
            m.d.sync += [owed.eq(1), owed_write.eq(addressed), acts.eq(0)]
        with m.If(answered):
            m.d.sync += owed.eq(0)
        with m.If(lite.act):
            m.d.sync += acts.eq(1)
        m.d.comb += [
            Assert(addressed == written),
            Assert(~(addressed & asked)),
            Assert(~(owed & (bus.awready & bus.awvalid | bus.wready & bus.wvalid | bus.arready))),
            Assert(owed | ~(bus.bvalid | bus.rvalid)),
            Assert(~bus.bvalid | owed_write),
            Assert(~bus.rvalid | ~owed_write),
            Assert((bus.bresp == OKAY) | (bus.bresp == SLVERR)),
            Assert((bus.rresp == OKAY) | (bus.rresp == SLVERR)),
            # The registers hear of each transfer once, and before it is answered.
            Assert(~lite.act | (owed & ~acts & (transfer.write == owed_write))),
            Assert(lite.writes == (lite.act & transfer.write)),
            Assert(acts | ~(bus.bvalid | bus.rvalid)),
        ]
        # An answer that is not taken is the same in the next cycle.
        for valid, ready, answer in (
            (bus.bvalid, bus.bready, (bus.bresp,)),
            (bus.rvalid, bus.rready, (bus.rresp, bus.rdata)),
        ):
            waits = past(m, valid & ~ready)
            m.d.comb += Assert(~waits | valid)
            for part in answer:
                m.d.comb += Assert(~waits | (part == past(m, part)))
        # What is taken is what the registers see, until they have answered.
        taken = Signal.like(transfer)
        with m.If(addressed):
            m.d.sync += [taken.index.eq(bus.awaddr[2:]), taken.data.eq(bus.wdata), taken.strobe.eq(bus.wstrb)]
        with m.If(asked):
            m.d.sync += taken.index.eq(bus.araddr[2:])
        with m.If(owed):
            m.d.comb += [Assert(transfer.index == taken.index), Assert(transfer.write == owed_write)]
            with m.If(owed_write):
                m.d.comb += [Assert(transfer.data == taken.data), Assert(transfer.strobe == taken.strobe)]
        # The answer is what they said in the cycle before.
        begins = past(m, bus.bvalid | bus.rvalid)
        said, read = past(m, lite.good), past(m, lite.data)
        with m.If((bus.bvalid | bus.rvalid) & ~begins):
            m.d.comb += Assert((bus.bresp == OKAY) == said)
            with m.If(bus.rvalid):
                m.d.comb += [Assert(bus.rdata == read), Assert((bus.rresp == OKAY) == said)]

        # The invariants that carry this: the state says what is owed, and whether the registers have heard of it.
        code, state = inner.fsm.encoding, inner.fsm.state

        def within(*names):
            return Cat(state == code[name] for name in names).any()

        m.d.comb += [
            Assert(state < len(code)),
            Assert(lite.act == within("Act")),
            Assert(~within("Take") | Mux(transfer.write, bus.awvalid & bus.wvalid, bus.arvalid)),
            Assert(owed == within("Choose", "Act", "Wait", "Look", "Answer")),
            Assert((bus.bvalid | bus.rvalid) == within("Answer")),
            Assert(~(bus.bvalid & bus.rvalid)),
            Assert(~owed | (acts == within("Wait", "Look", "Answer"))),
        ]
        return m


class TurnsSpecification(wiring.Component):
    """A master that keeps to AXI and takes its answers is never left waiting: within `LONGEST` cycles it is answered,
    whichever of read and write it wants, and however often it wants the other.
    """

    LONGEST = 14

    def __init__(self, make=Lite):
        self._make = make
        super().__init__({})

    def elaborate(self, platform):
        m = Module()
        m.submodules.lite = lite = self._make(ADDRESS_BITS)
        bus = lite.bus
        m.d.comb += [getattr(bus, member).eq(AnySeq(1)) for member in ("awvalid", "wvalid", "arvalid")]
        hold_what_is_offered(m, bus)
        m.d.comb += [bus.bready.eq(1), bus.rready.eq(1), lite.done.eq(1), lite.later.eq(AnySeq(1))]
        for offered, taken in ((bus.awvalid & bus.wvalid, bus.awready), (bus.arvalid, bus.arready)):
            waited = Signal(range(self.LONGEST + 1))
            m.d.sync += waited.eq(waited + 1)
            with m.If(~offered | taken):
                m.d.sync += waited.eq(0)
            m.d.comb += Assert(waited < self.LONGEST)
        return m


def test_every_transfer_is_answered_once(tmp_path):
    prove_always(LiteSpecification(), tmp_path, k=2)


def test_nobody_waits_for_ever(tmp_path):
    prove(TurnsSpecification(), tmp_path, cycles=2 * TurnsSpecification.LONGEST + 4)


@pytest.mark.parametrize(
    "change",
    [
        ("m.d.sync += [bus.bvalid.eq(0), bus.rvalid.eq(0)]", "m.d.sync += bus.bvalid.eq(0)"),
        ('m.State("Answer"), m.If(answered)', 'm.State("Answer"), m.If(1)'),
        ("bus.wready.eq(transfer.write)", "bus.wready.eq(1)"),
        ("m.If(offered | bus.arvalid)", "m.If(bus.awvalid | bus.arvalid)"),
        ("Mux(self.good, OKAY, SLVERR)", "Mux(self.good, SLVERR, OKAY)"),
        ("m.d.sync += [bus.bvalid.eq(transfer.write), bus.rvalid.eq(~transfer.write)]", "m.d.sync += bus.rvalid.eq(1)"),
    ],
)
def test_a_bus_that_breaks_it_is_refused(change, tmp_path):
    with pytest.raises(NotProved):
        prove_always(LiteSpecification(changed(Lite, change)), tmp_path, k=2)


def test_turns_that_are_not_taken_are_refused(tmp_path):
    unfair = changed(Lite, ("offered & ~(transfer.write & bus.arvalid)", "offered"))
    with pytest.raises(NotProved):
        prove(TurnsSpecification(unfair), tmp_path, cycles=2 * TurnsSpecification.LONGEST + 4)
