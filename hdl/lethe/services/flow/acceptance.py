"""Acceptance: which messages are to be delivered, and what that does to their streams (contract of flow, section 6)."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from lethe.host import host_records
from lethe.spec.events import ACCEPTANCE, Drop
from lethe.spec.ports import REFUSAL_BITS
from lethe.spec.services.flow import WINDOW, Flag

from .layouts import LEAST_CREDIT, NUMBER_BITS, PLACE_BITS, EntryKind, Layouts, at_most

__all__ = ["Acceptance", "behind", "one_added", "passing"]

#: The limit that a source was told is at most so many numbers beyond the expected one; if they are more, it is behind.
MOST_TOLD = 127


def one_added(numbers, lowest) -> Value:
    """What shows where a run of ones that begins at number ``lowest`` ends.

    ``numbers`` are 16 bits, each of a number mod 16.  A one that is added to two copies of them, at the lowest number,
    is carried over the run, and comes to rest behind it.
    """
    start = (1 << lowest[:PLACE_BITS])[:WINDOW]
    return (Cat(numbers, numbers & ~start) + start)[: 2 * WINDOW]


def passing(m: Module, name: str, numbers, start, total) -> tuple[Value, Value, Value]:
    """What a stream passes over, of `one_added`: the run of ones; for `behind`: where it ends, and how.

    ``start`` has a 1 at the lowest number.
    """
    run, rest, beyond = (
        Signal(bits, name=f"{name}_{what}") for what, bits in (("run", WINDOW), ("rest", WINDOW), ("beyond", 1))
    )
    twice = Cat(numbers, numbers & ~start)
    ones, stops = twice & ~total, ~twice & total
    m.d.comb += [
        run.eq(ones[:WINDOW] | ones[WINDOW:]),
        rest.eq(stops[:WINDOW] | stops[WINDOW:]),
        # It stops in the copy above if the run goes beyond a multiple of 16: if something is carried there.
        beyond.eq(twice[WINDOW] ^ total[WINDOW]),
    ]
    return run, rest, beyond


def behind(lowest, rest, beyond) -> Value:
    """The number behind a run of ones that begins at ``lowest``."""
    place = (Cat(rest[i] for i in range(WINDOW) if i >> bit & 1).any() for bit in range(PLACE_BITS))
    return Cat(*place, lowest[PLACE_BITS:] + beyond)


class Acceptance(wiring.Component):
    """Judges a message in the cycle before it acts, and keeps what follows if it is delivered.

    Parameters
    ----------
    layouts : of the configuration

    Members
    -------
    arrival, refusal, delivered : In, Out, In
        The acceptance port of the NI; *c* is five cycles after ``arrival``.
    judged_source, judged_open : Out, In(1)
        In *c−1*: the source, and in that cycle whether it is not closed.
    judged_port, judged_number, judged_bound, judged_full, judged_crowded : Out, In(16), In(1), In(1), In(1)
        In *c−1*: the port; in that cycle, to what number it is bound, if it is, whether it has no free cell, and
        whether it has none but those for the expected number.
    accept_stream : Out, accept_in : In
        In *c−3*: the stream, while ``accept_reads``; in *c−1* what is kept of it.
    accept_reads, mark_soon, accept_soon, accept_now : Out(1)
        A data message is there in *c−3*; in *c−2*; in *c−1*; in *c*.
    accept_writes, accept_at, accept_word : Out
        In *c*: the stream changes.
    accept_entry, accept_enters : Out
        In *c*: an entry for the journal.
    accept_takes, accept_port : Out
        In *c*: a cell of the port is promised.
    accept_marks : Out(1)
        In *c+1*: WINDOW of the stream is to be told; what is told of the stream less the least that it can
        be told is ``accept_gap`` then.  ``mark_stream`` names the stream in *c−1*, ``accept_at`` in *c*.
    shown_* : Out
        In *c*: for the trace.
    """

    def __init__(self, layouts: Layouts):
        self._layouts = layouts
        of = layouts
        super().__init__(
            {
                "arrival": In(host_records(of.system, of.below)["arrival"]),
                "refusal": Out(REFUSAL_BITS),
                "delivered": In(1),
                "judged_source": Out(of.node_bits),
                "judged_open": In(1),
                "judged_bound": In(1),
                "judged_full": In(1),
                "judged_crowded": In(1),
                "judged_port": Out(of.port_bits),
                "judged_number": In(16),
                "accept_reads": Out(1),
                "mark_soon": Out(1),
                "accept_soon": Out(1),
                "accept_now": Out(1),
                "accept_stream": Out(of.stream_bits),
                "mark_stream": Out(of.stream_bits),
                "accept_in": In(of.receiving),
                "accept_writes": Out(1),
                "accept_at": Out(of.stream_bits),
                "accept_word": Out(of.receiving),
                "accept_enters": Out(1),
                "accept_entry": Out(of.journal),
                "accept_takes": Out(1),
                "accept_port": Out(of.port_bits),
                "accept_marks": Out(1),
                "accept_gap": Out(NUMBER_BITS),
                "shown_commit": Out(1),
                "shown_ignored": Out(1),
                "shown_seq": Out(8),
                "shown_source": Out(of.node_bits),
                "shown_length": Out(of.length_bits),
                "shown_dport": Out(16),
            }
        )

    def elaborate(self, platform):
        m = Module()
        of = self._layouts
        header = data.View(of.header, self.arrival.word)
        stage = data.StructLayout(
            {
                "valid": 1, "known": 1, "source": of.node_bits, "best_effort": 1, "long": 1, "seq": NUMBER_BITS,
                "ask": 1,
                "q": of.port_bits, "dport": 16, "length": of.length_bits,
            }
        )  # fmt: skip
        # The message in c−4 … c.
        four, three, two, one, now = (Signal(stage, name=f"stage{left}") for left in (4, 3, 2, 1, 0))
        long = self.arrival.length >= of.header_bytes
        m.d.sync += [
            four.valid.eq(self.arrival.valid),
            four.known.eq(self.arrival.source < of.nodes),
            four.source.eq(self.arrival.source),
            four.best_effort.eq(self.arrival.best_effort),
            four.long.eq(long),
            four.seq.eq(header.seq),
            four.ask.eq(header.flags[Flag.ASK]),
            four.q.eq(header.sport),
            four.dport.eq(header.dport),
            four.length.eq(Mux(long, self.arrival.length - of.header_bytes, 0)),
            three.eq(four), two.eq(three), one.eq(two), now.eq(one),
        ]  # fmt: skip
        m.d.comb += [
            self.accept_reads.eq(three.valid),
            self.mark_soon.eq(two.valid),
            self.accept_soon.eq(one.valid),
            self.accept_now.eq(now.valid),
            self.accept_stream.eq(of.stream(three.source, three.dport)),
            self.mark_stream.eq(of.stream(one.source, one.dport)),
        ]

        # c−1: what the verdict depends on.  ``roomy``: there is a cell for the expected number; ``roomy_others``: there
        # is one for any other.
        index, stream = one.dport[: of.port_bits], self.accept_in
        distance = Signal(NUMBER_BITS)
        barred, proper, inside, old, known, bound = *(Signal() for _ in range(5)), Signal(2)
        roomy, roomy_others = Signal(), Signal()
        m.d.comb += [
            self.judged_port.eq(index),
            self.judged_source.eq(one.source),
            distance.eq(one.seq - stream.expected),
        ]
        shut = one.best_effort | ~one.known | ~self.judged_open
        differs = self.judged_number[len(index) :] ^ one.dport[len(index) :]
        half = len(differs) // 2
        m.d.sync += [
            barred.eq(shut),
            proper.eq(~shut & one.long),
            inside.eq(at_most(distance, WINDOW - 1)),
            old.eq(~at_most(distance, 255 - WINDOW)),
            known.eq(stream.present.bit_select(one.seq[:PLACE_BITS], 1)),
            # The port's number is compared in two parts, so that fewer gates follow each other.
            bound.eq(Cat(self.judged_bound & ~differs[:half].any(), ~differs[half:].any())),
            roomy.eq(~self.judged_full),
            roomy_others.eq(~self.judged_crowded),
        ]

        # c: the verdict, and what follows if the message is delivered.  The run behind an expected number was looked
        # for in the cycle before.
        word, least = Signal(of.receiving), Signal(NUMBER_BITS)
        expected_one, total, first, start = Signal(), Signal(2 * WINDOW), Signal(WINDOW), Signal(WINDOW)
        m.d.comb += first.eq(1 << stream.expected[:PLACE_BITS])
        m.d.sync += [
            word.eq(stream),
            least.eq(stream.told - LEAST_CREDIT),
            expected_one.eq(~(one.seq ^ stream.expected).any()),
            start.eq(first),
            # The expected number is not among those that are present.
            total.eq(Cat(stream.present, stream.present) + (first << 1)),
        ]
        counts, has_room, placed, fresh, goes = (Signal() for _ in range(5))
        m.d.comb += [
            counts.eq(proper & inside & ~known),
            has_room.eq(Mux(expected_one, roomy, roomy_others)),
            placed.eq(counts & bound.all() & has_room),
            fresh.eq(counts & (~bound.all() | has_room)),
        ]
        with m.If(barred | (proper & ~inside & ~old)):
            m.d.comb += self.refusal.eq(ACCEPTANCE.index(Drop.NOT_OPEN))
        with m.Elif(counts & bound.all() & ~has_room):
            m.d.comb += self.refusal.eq(
                Mux(expected_one, ACCEPTANCE.index(Drop.PORT_FULL), ACCEPTANCE.index(Drop.EARLY))
            )
        run, rest, beyond = passing(m, "accepted", word.present | start, start, total)
        gone, here = Signal(WINDOW), Signal(WINDOW)
        expected, passed = Signal(NUMBER_BITS), Signal(NUMBER_BITS)
        was_delivered, was_asked, was_gap = Signal(), Signal(), Signal(NUMBER_BITS)
        m.d.sync += [
            was_delivered.eq(self.delivered),
            was_asked.eq(now.ask),
            was_gap.eq(Mux(goes, least - passed, least - word.expected)),
        ]
        m.d.comb += [
            goes.eq(fresh & expected_one),
            gone.eq(Mux(goes, run, 0)),
            passed.eq(behind(word.expected, rest, beyond)),
            expected.eq(Mux(goes, passed, word.expected)),
            here.eq(1 << now.seq[:PLACE_BITS]),
            self.accept_writes.eq(self.delivered & fresh),
            self.accept_at.eq(of.stream(now.source, now.dport)),
            self.accept_word.expected.eq(expected),
            self.accept_word.present.eq((word.present | here) & ~gone),
            self.accept_word.filled.eq(self.accept_entry.mask & ~gone),
            self.accept_word.told.eq(word.told),
            self.accept_enters.eq(self.delivered),
            self.accept_entry.kind.eq(Mux(placed, EntryKind.PLACE, EntryKind.SKIP)),
            self.accept_entry.source.eq(now.source),
            self.accept_entry.index.eq(now.dport),
            self.accept_entry.seq.eq(now.seq),
            # How many they are is worked out behind the journal.
            self.accept_entry.count.eq(Cat(passed[:PLACE_BITS], goes)),
            self.accept_entry.mask.eq(word.filled | Mux(placed, here, 0)),
            self.accept_entry.q.eq(now.q),
            self.accept_takes.eq(self.delivered & placed),
            self.accept_port.eq(now.dport),
            self.accept_gap.eq(was_gap),
            self.accept_marks.eq(was_delivered & (was_asked | ~at_most(was_gap, MOST_TOLD - LEAST_CREDIT))),
            self.shown_commit.eq(self.delivered & placed),
            self.shown_ignored.eq(self.delivered & ~placed),
            self.shown_seq.eq(now.seq),
            self.shown_source.eq(now.source),
            self.shown_length.eq(now.length),
            self.shown_dport.eq(now.dport),
        ]
        return m
