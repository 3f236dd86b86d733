"""A host that takes datagrams and checks every bit of them (cycle contract, section 5)."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from lethe.host import host_records
from lethe.spec.config import System
from lethe.spec.ports import deliver_record
from lethe.spec.sections.workload import RELAYED

from .payload import KEY_BITS, beat, clipped, last_beat

__all__ = ["Checker", "checked"]


def checked(system: System) -> str:
    """The deliver stream that a checker takes."""
    return "deliver_relay" if system.workload.mode == RELAYED and system.relay.slots else "deliver"


class Checker(wiring.Component):
    """Takes what a NI delivers, one record and then its beats, unless stalled, and holds it against its own key.

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
        Datagrams, the sum of their keys, and datagrams with a wrong bit or a wrong ``last``, modulo 2^32; two cycles
        after a last beat.
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

        # The beat just taken, checked a cycle later.
        taken = Signal()
        ends = Signal()
        shown = Signal(form.flit_bits)
        at = Signal.like(index)
        bytes_ = Signal.like(length)
        begins, clip, late = Signal(), Signal(), Signal()
        m.d.sync += [
            taken.eq(took),
            ends.eq(self.deliver_data.payload.last),
            shown.eq(self.deliver_data.payload.data),
            at.eq(index),
            bytes_.eq(length),
            begins.eq((index == 0) & ~beyond),
            clip.eq(final),
            late.eq(beyond),
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

        # The first 32 bits are the key; what they were is remembered for the beats after them.
        known = Signal(KEY_BITS)
        key = Signal(KEY_BITS)
        flit = min(form.flit_bits, KEY_BITS)
        m.d.comb += key.eq(Mux(begins, 0, known))
        for part in range(KEY_BITS // flit):
            with m.If((at == part) & ~late):
                m.d.comb += key.word_select(part, flit).eq(shown[:flit])
        plain = Signal(form.flit_bits)
        expected = Signal(form.flit_bits)
        bad = Signal()
        fault = Signal()
        m.d.comb += [
            plain.eq(beat(key, at, form.flit_bits)),
            expected.eq(Mux(clip, clipped(plain, bytes_, form.flit_bytes), plain)),
            bad.eq((shown != expected) | (ends != clip) | (~begins & fault)),
        ]
        with m.If(taken):
            m.d.sync += [known.eq(key), fault.eq(bad)]
            with m.If(ends):
                m.d.sync += [
                    self.received.eq(self.received + 1),
                    self.received_sum.eq(self.received_sum + key),
                    self.wrong.eq(self.wrong + bad),
                ]
        return m
