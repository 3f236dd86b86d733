"""A host that takes datagrams and checks every bit of them (cycle contract, section 5)."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from lethe.host import host_records
from lethe.spec.config import System
from lethe.spec.ports import deliver_record
from lethe.spec.sections.workload import RELAYED

from .payload import KEY_BITS, beat, kept, last_beat, masked

__all__ = ["LATE", "Checker", "checked"]

#: Cycles from a last beat to the sums with its datagram.
LATE = 4


def checked(system: System) -> str:
    """The deliver stream that a checker takes."""
    return "deliver_relay" if system.workload.mode == RELAYED and system.relay.slots else "deliver"


class Checker(wiring.Component):
    """Takes what an NI delivers, one record and then its beats, unless stalled, and holds it against its own key.

    Parameters
    ----------
    system : wire format

    Members
    -------
    stalled : In(1)
        Nothing is taken in this cycle.
    node_reset : In(1)
        The node is being reset: the datagram under way is forgotten.
    deliver, deliver_data : In(stream)
        The record of a datagram, then its beats.
    received, received_sum, wrong : Out(32)
        Datagrams, the sum of their keys, and datagrams with a wrong bit or a wrong ``last``, modulo 2^32; `LATE`
        cycles after a last beat.
    """

    def __init__(self, system: System):
        self._system = system
        layouts = host_records(system, system.top_port)
        record = deliver_record(system.top_port, checked(system))
        super().__init__(
            {
                "stalled": In(1),
                "node_reset": In(1),
                "deliver": In(stream.Signature(layouts[record])),
                "deliver_data": In(stream.Signature(layouts["beat"])),
                "received": Out(32),
                "received_sum": Out(KEY_BITS),
                "wrong": Out(32),
            }
        )

    def elaborate(self, platform):
        m = Module()
        form = self._system.format
        length = Signal(form.length_bits)
        index = Signal(range(max(2, self._system.slot_flits)))

        took = self.deliver_data.valid & self.deliver_data.ready

        # Where the datagram should end, and whether it is beyond.
        final = Signal()
        beyond = Signal()
        m.d.comb += final.eq((index == last_beat(length, form.flit_bytes)) & ~beyond)

        # The beat just taken: in the first cycle after it its key is known, in the second what it should be is held
        # against it, and in the third what came of that is summed up.
        layout = data.StructLayout(
            {
                "taken": 1,
                "ends": 1,
                "shown": form.flit_bits,
                "at": index.shape(),
                "begins": 1,
                "clip": 1,
                "mask": form.flit_bytes,
            }
        )
        first, second = Signal(layout), Signal(layout)
        late = Signal()
        m.d.sync += [
            first.taken.eq(took),
            first.ends.eq(self.deliver_data.payload.last),
            first.shown.eq(self.deliver_data.payload.data),
            first.at.eq(index),
            first.begins.eq((index == 0) & ~beyond),
            first.clip.eq(final),
            first.mask.eq(kept(length, form.flit_bytes)),
            late.eq(beyond),
            second.eq(first),
        ]

        with m.FSM():
            with m.State("Head"):
                m.d.comb += self.deliver.ready.eq(~self.stalled & ~self.node_reset)
                m.d.sync += [length.eq(self.deliver.payload.length), index.eq(0), beyond.eq(0)]
                with m.If(self.deliver.valid & self.deliver.ready & (self.deliver.payload.length != 0)):
                    m.next = "Beats"
            with m.State("Beats"):
                m.d.comb += self.deliver_data.ready.eq(~self.stalled & ~self.node_reset)
                with m.If(took):
                    m.d.sync += [index.eq(index + 1), beyond.eq(beyond | final)]
                with m.If(self.node_reset | (took & self.deliver_data.payload.last)):
                    m.next = "Head"

        # The first 32 bits are the key; what they were is remembered for the beats after them, and for the next cycle.
        known = Signal(KEY_BITS)
        key = Signal(KEY_BITS)
        flit = min(form.flit_bits, KEY_BITS)
        m.d.comb += key.eq(Mux(first.begins, 0, known))
        for part in range(KEY_BITS // flit):
            with m.If((first.at == part) & ~late):
                m.d.comb += key.word_select(part, flit).eq(first.shown[:flit])
        with m.If(first.taken):
            m.d.sync += known.eq(key)

        plain = Signal(form.flit_bits)
        expected = Signal(form.flit_bits)
        taken, ends, begins = Signal(), Signal(), Signal()
        differs = Signal(form.flit_bytes + 1)
        of = Signal(KEY_BITS)
        m.d.comb += [
            plain.eq(beat(known, second.at, form.flit_bits)),
            expected.eq(masked(plain, second.mask | ~second.clip.replicate(form.flit_bytes))),
        ]
        bytes_ = range(form.flit_bytes)
        m.d.sync += [
            taken.eq(second.taken),
            ends.eq(second.ends),
            begins.eq(second.begins),
            differs.eq(
                Cat(
                    *(second.shown.word_select(b, 8) != expected.word_select(b, 8) for b in bytes_),
                    second.ends != second.clip,
                )
            ),
            of.eq(known),
        ]

        bad = Signal()
        fault = Signal()
        m.d.comb += bad.eq(differs.any() | (~begins & fault))
        with m.If(taken):
            m.d.sync += fault.eq(bad)
            with m.If(ends):
                m.d.sync += [
                    self.received.eq(self.received + 1),
                    self.received_sum.eq(self.received_sum + of),
                    self.wrong.eq(self.wrong + bad),
                ]
        return m
