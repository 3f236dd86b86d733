"""A host that sends datagrams to random nodes (cycle contract, section 5)."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from lethe.host import host_records
from lethe.lib.random import Draws, scale
from lethe.spec.config import System
from lethe.spec.sections.workload import RELAYED
from lethe.spec.services.flow import WHOLE
from lethe.spec.services.relay import MODE

from .payload import KEY_BITS, NODE_BITS, NUMBER_BITS, beat, kept, last_beat, masked

__all__ = ["Generator"]


class Generator(wiring.Component):
    """Makes the datagrams of one node, as fast as its NI takes them or with random gaps between.

    Parameters
    ----------
    system : workload, wire format and number of nodes

    Members
    -------
    node, seed : In
        Constants: the node, and the seed of its generator.
    ready : In(1)
        The NI is initialised.
    node_reset : In(1)
        The node is being reset: the datagram under way is offered again from its start.
    stopped : In(1)
        No new datagram from this cycle on.
    send, send_data : Out(stream)
        The record (class 0, mode 0, or relay's if that is the workload's; the limits come from the configuration; with
        flow from and to the port tag mod ports), then its payload, one beat each.
    done : Out(1)
        Nothing more will be offered.
    sent, sent_sum : Out(32)
        Datagrams taken whole by the NI, and the sum of their keys, modulo 2^32.
    """

    def __init__(self, system: System):
        self._system = system
        super().__init__(
            {
                "node": In(system.format.node_bits),
                "seed": In(32),
                "ready": In(1),
                "node_reset": In(1),
                "stopped": In(1),
                "send": Out(stream.Signature(host_records(system, system.top_port)["send"])),
                "send_data": Out(stream.Signature(system.wire.flit_bits)),
                "done": Out(1),
                "sent": Out(32),
                "sent_sum": Out(KEY_BITS),
            }
        )

    def elaborate(self, platform):
        m = Module()
        system, load, form = self._system, self._system.workload, self._system.format
        m.submodules.chance = chance = Draws()
        draw = chance.draw
        m.d.comb += chance.seed.eq(self.seed)

        # Everything that follows from the next draw stands ready before it: draws are three cycles apart or more.
        destination = Signal(form.node_bits)
        length = Signal(form.length_bits)
        other = Signal(form.node_bits)
        m.d.comb += other.eq(scale(draw[:16], system.nodes - 1))
        m.d.sync += [
            destination.eq(other + (other >= self.node)),
            length.eq(load.min_length + scale(draw[24:], load.max_length - load.min_length + 1)),
        ]
        gap = None
        if any(system.gaps):
            m.submodules.gaps = gaps = Memory(shape=range(max(system.gaps) + 1), depth=256, init=system.gaps)
            port = gaps.read_port()
            m.d.comb += port.addr.eq(draw[16:24])
            gap = port.data

        number = Signal(NUMBER_BITS + 1)
        # A number stands for two cycles or more: whether it is the last is known before the next one comes.
        final_number, counted = Signal(), Signal()
        m.d.sync += final_number.eq(number == load.count - 1 if load.count else 0)
        index = Signal(range(max(2, system.slot_flits)))
        wait = Signal(range(max(2, *system.gaps)))
        chosen = Signal(data.StructLayout({"destination": form.node_bits, "length": form.length_bits}))
        record = self.send.payload
        key = Cat(self.node | Cat(*[0] * NODE_BITS), number[:NUMBER_BITS])
        # The length is chosen two cycles or more before the first beat: what follows from it stands ready by then.
        final = Signal()
        last = Signal.like(index)
        mask = Signal(form.flit_bytes)
        m.d.sync += [
            last.eq(last_beat(chosen.length, form.flit_bytes)),
            mask.eq(kept(chosen.length, form.flit_bytes)),
        ]
        m.d.comb += final.eq(index == last)
        plain = Signal(form.flit_bits)
        if ports := system.flow.ports:
            port = record.tag[: exact_log2(ports)]
            m.d.comb += [record.sport.eq(port), record.dport.eq(port), record.flags.eq(WHOLE)]
        m.d.comb += [
            record.destination.eq(chosen.destination),
            record.length.eq(chosen.length),
            record.tag.eq(number),
            record.deadline.eq(load.deadline),
            record.retry_limit.eq(load.retry_limit),
            *([record.path.eq(number)] if form.path_bits else []),
            record.mode.eq(MODE if load.mode == RELAYED else 0),
            plain.eq(beat(key, index, form.flit_bits)),
            self.send_data.payload.eq(masked(plain, mask | ~final.replicate(len(mask)))),
        ]

        with m.FSM():
            with m.State("Start"):
                with m.If(self.stopped | counted):
                    m.next = "Done"
                with m.Elif(self.ready & ~self.node_reset):
                    m.d.comb += chance.take.eq(1)
                    m.d.sync += [chosen.destination.eq(destination), chosen.length.eq(length)]
                    m.next = "Record"
                    if gap is not None:
                        m.d.sync += wait.eq(gap - 1)
                        with m.If(gap > 0):
                            m.next = "Gap"

            if gap is not None:
                with m.State("Gap"):
                    m.d.sync += wait.eq(wait - 1)
                    with m.If(wait == 0):
                        m.next = "Record"

            with m.State("Record"):
                m.d.comb += self.send.valid.eq(1)
                m.d.sync += index.eq(0)
                with m.If(self.send.ready & ~self.node_reset):
                    m.next = "Data"

            with m.State("Data"):
                m.d.comb += self.send_data.valid.eq(1)
                with m.If(self.node_reset):
                    m.next = "Record"
                with m.Elif(self.send_data.ready):
                    m.d.sync += index.eq(index + 1)
                    with m.If(final):
                        m.d.sync += [
                            number.eq(number + 1),
                            counted.eq(final_number),
                            self.sent.eq(self.sent + 1),
                            self.sent_sum.eq(self.sent_sum + key),
                        ]
                        m.next = "Start"

            with m.State("Done"):
                m.d.comb += self.done.eq(1)
        return m
