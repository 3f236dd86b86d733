"""An NI's host port as AXI4-Streams (docs/use/axi.md)."""

from amaranth.hdl import Cat, Module, Mux, ResetInserter, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from lethe.host import host_records, host_signature
from lethe.spec.axi import AxiStream, axi_streams
from lethe.spec.config import System
from lethe.spec.ports import Record, deliver_record
from lethe.spec.services import outliving

from .signature import signature_of
from .skid import Skid
from .store_and_forward import StoreAndForward

__all__ = ["CompletionAdapter", "DeliverAdapter", "SendAdapter", "Streams"]


def _view(record: Record, value) -> data.View:
    """The fields of ``tid``, ``tdest`` or ``tuser``."""
    return data.View(data.StructLayout(dict(record)), value)


class SendAdapter(wiring.Component):
    """From an AXI4-Stream to a send port: a record, then its beats.

    A beat stays in one register, so it reaches the NI in the cycle after its transfer.  Its ``tdest`` and ``tuser`` are
    looked at in a datagram's first beat.  The NI takes a record in a cycle of its own: n beats take n + 1 cycles, one
    without bytes included.

    ``length`` rules.  Of a datagram with fewer beats the others are sent as zeros before the next is taken, surplus
    beats are dropped, and ``malformed`` tells of both.  One of 0 bytes is one beat, whose bytes do not matter.

    A node reset ends a datagram that the NI has in part: its further beats are dropped up to ``tlast``.  One of which
    the NI has nothing waits and is offered anew.

    Parameters
    ----------
    system : the configuration
    axis : the stream, with ``length`` in ``tuser``

    Members
    -------
    axis : In(`signature_of`)
    send, send_data : Out(stream)
        As of `lethe.host.host_signature`.
    node_reset : In(1)
    malformed : Out(1)
        A datagram had other beats than its length says; one cycle.
    """

    def __init__(self, system: System, axis: AxiStream):
        self._form, self._stream = system.format, axis
        super().__init__(
            {
                "axis": In(signature_of(axis)),
                "send": Out(stream.Signature(host_records(system, system.top_port)["send"])),
                "send_data": Out(stream.Signature(system.format.flit_bits)),
                "node_reset": In(1),
                "malformed": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        axis, record = self.axis, self.send.payload
        byte_bits = exact_log2(self._form.flit_bytes)
        held = {name: Signal.like(getattr(axis, name)) for name in ("tdata", "tdest", "tuser", "tlast")}
        full, leaves, clears = Signal(), Signal(), Signal()
        m.d.comb += axis.tready.eq(~full | leaves)
        m.d.sync += full.eq(axis.tvalid | (full & ~leaves))
        with m.If(axis.tready):
            m.d.sync += [held[name].eq(getattr(axis, name)) for name in ("tdata", "tlast")]
        # Of a datagram with too few beats the last one stays as zeros until all are sent.
        with m.If(clears):
            m.d.sync += held["tdata"].eq(0)
        # A record, and whether it is without bytes, is that of what came last until it is offered: then it holds.
        empty = Signal()
        with m.If(~self.send.valid):
            m.d.sync += [held[name].eq(getattr(axis, name)) for name in ("tdest", "tuser")]
            m.d.sync += empty.eq(_view(self._stream.user, axis.tuser).length == 0)
        told = _view(self._stream.user, held["tuser"])
        m.d.comb += [
            record.destination.eq(held["tdest"]),
            *(record[name].eq(told[name]) for name, _ in self._stream.user),
        ]
        # Beats that are whole, whether there is one more in part, and whether the present one is the last.
        left, partial, final = Signal(16 - byte_bits), Signal(), Signal()
        # A record waits or is offered; its beats are sent; so are zeros behind them; or what is left of a datagram is
        # dropped: its beat without bytes, surplus ones, and those behind a reset.
        records, beats, pads, drops = states = [
            Signal(name=name, init=name == "records") for name in ("records", "beats", "pads", "drops")
        ]
        taken, moves, last = Signal(), Signal(), held["tlast"]
        whole, some = record.length[byte_bits:], record.length[:byte_bits].any()
        with m.If(records):
            m.d.sync += [left.eq(whole), partial.eq(some), final.eq(Mux(some, whole == 0, whole == 1))]
        with m.Elif(moves):
            m.d.sync += [left.eq(left - 1), final.eq(Mux(partial, left == 1, left == 2))]
        following = [
            (records & ~taken) | (moves & final & last) | (drops & full & last),
            (taken & ~empty) | (beats & ~self.node_reset & ~(moves & (final | last))),
            (moves & ~final & last) | (pads & ~self.node_reset & ~(moves & final)),
            (taken & empty) | (moves & final & ~last) | ((beats | pads) & self.node_reset) | (drops & ~(full & last)),
        ]
        m.d.sync += [state.eq(value) for state, value in zip(states, following, strict=True)]
        # `valid` of both streams comes from registers, because the NI's logic behind it is deep: that of what comes, or
        # stays.
        stays = axis.tvalid | (full & ~(moves & ~last))
        m.d.sync += [
            self.send.valid.eq(
                (records & ~taken & (axis.tvalid | full)) | (((moves & final) | (drops & full)) & last & axis.tvalid)
            ),
            self.send_data.valid.eq(
                (taken & ~empty) | ((beats | pads) & ~self.node_reset & ~(moves & final) & stays)
            ),
        ]  # fmt: skip
        m.d.comb += [
            taken.eq(self.send.valid & self.send.ready),
            moves.eq(self.send_data.valid & self.send_data.ready),
            leaves.eq(drops | (moves & (final | ~last))),
            clears.eq(moves & ~final & last),
            self.malformed.eq((taken & empty & ~last) | (moves & ~pads & (final ^ last))),
            self.send_data.payload.eq(held["tdata"]),
        ]
        return m


class DeliverAdapter(wiring.Component):
    """From a pair of deliver streams to an AXI4-Stream.

    What it shows comes from registers, one cycle after the NI offers it.  A beat leaves in every cycle, one datagram
    right behind the other.  The record is taken with the last beat.

    ``tkeep`` is 1 for the bytes of the datagram; one of 0 bytes is one beat without bytes.  A node reset ends a
    datagram under way with one more beat: no bytes, ``tlast``, and ``aborted`` in its ``tuser``.  In any other beat
    ``aborted`` is 0.

    Parameters
    ----------
    system : the configuration
    axis : the stream

    Members
    -------
    deliver, deliver_data : In(stream)
        As of `lethe.host.host_signature`; not valid while ``node_reset``.
    empty : In(1)
        What ``deliver`` offers has no bytes.
    node_reset : In(1)
        What is delivered is lost.
    axis : Out(`signature_of`)
    """

    def __init__(self, system: System, axis: AxiStream):
        self._form, self._stream = system.format, axis
        layouts = host_records(system, system.top_port)
        record = layouts[deliver_record(system.top_port, axis.port)]
        super().__init__(
            {
                "deliver": In(stream.Signature(record)),
                "deliver_data": In(stream.Signature(layouts["beat"])),
                "empty": In(1),
                "node_reset": In(1),
                "axis": Out(signature_of(axis)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        axis, record, beat = self.axis, self.deliver.payload, self.deliver_data.payload
        byte_bits = exact_log2(self._form.flit_bytes)
        empty, last, over = self.empty, Signal(), Signal(byte_bits)
        whole, takes, free = Signal(), Signal(), Signal()
        # What was loaded last is not a datagram's last beat; the rest of it will not come.
        inside, aborting = Signal(), Signal()
        m.d.comb += [
            last.eq(empty | beat.last),
            over.eq(record.length[:byte_bits]),
            free.eq(~axis.tvalid | axis.tready),
            whole.eq(self.deliver.valid & (empty | self.deliver_data.valid) & ~aborting),
            takes.eq(whole & free),
            self.deliver.ready.eq(takes & last),
            self.deliver_data.ready.eq(takes & ~empty),
        ]
        # What is shown is loaded before it is known to be there, so that few gates enable its registers; but a word
        # only if it is one, and beside the beat that ends a datagram stays what was beside those before it.
        user = _view(self._stream.user, axis.tuser)
        m.d.sync += axis.tvalid.eq(~free | whole | aborting)
        with m.If(free):
            m.d.sync += [
                axis.tkeep.eq(Cat(~empty & ~(last & (over != 0) & (over <= i)) for i in range(self._form.flit_bytes))),
                axis.tlast.eq(last | aborting),
                user.aborted.eq(aborting),
            ]
            with m.If(aborting):
                m.d.sync += axis.tkeep.eq(0)
        with m.If(free & self.deliver_data.valid):
            m.d.sync += axis.tdata.eq(beat.data)
        with m.If(free & ~aborting & ~self.node_reset):
            m.d.sync += [
                axis.tid.eq(record.source),
                *(axis.tdest.eq(record[name]) for name, _ in self._stream.dest),
                *(user[name].eq(record[name]) for name, _ in self._stream.user if name != "aborted"),
            ]
        with m.If(takes):
            m.d.sync += inside.eq(~last)
        with m.If(aborting & free):
            m.d.sync += [inside.eq(0), aborting.eq(0)]
        with m.If(self.node_reset & inside & ~aborting):
            m.d.sync += aborting.eq(1)
        return m


class CompletionAdapter(wiring.Component):
    """From the completion stream to an AXI4-Stream: a packet of one beat for each completion.

    What it shows comes from registers, one cycle after the NI offers it; the slot is free when it is taken from the NI.
    A node reset changes nothing of what is shown: ``incarnation`` tells of which life of the node it is.

    Parameters
    ----------
    system : the configuration
    axis : the stream

    Members
    -------
    completion : In(stream)
        As of `lethe.host.host_signature`.
    incarnation : In
        The NI's.
    axis : Out(`signature_of`)
    """

    def __init__(self, system: System, axis: AxiStream):
        self._stream = axis
        super().__init__(
            {
                "completion": In(stream.Signature(host_records(system, system.top_port)["completion"])),
                "incarnation": In(system.format.incarnation_bits),
                "axis": Out(signature_of(axis)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        axis, completion = self.axis, self.completion
        left = data.StructLayout({"completion": completion.payload.shape(), "incarnation": self.incarnation.shape()})
        m.submodules.skid = skid = Skid(left)
        m.d.comb += [
            skid.i.valid.eq(completion.valid),
            completion.ready.eq(skid.i.ready),
            skid.i.payload.completion.eq(completion.payload),
            skid.i.payload.incarnation.eq(self.incarnation),
            skid.o.ready.eq(~axis.tvalid | axis.tready),
            axis.tlast.eq(1),
        ]
        with m.If(skid.o.ready):
            m.d.sync += [
                axis.tvalid.eq(skid.o.valid),
                axis.tdata.eq(skid.o.payload.completion),
                axis.tuser.eq(skid.o.payload.incarnation),
            ]
        return m


class Streams(wiring.Component):
    """The streams of a host port as AXI4-Streams, in the NI's clock.

    Parameters
    ----------
    system : the configuration, and its stack
    store : whether a datagram is stored whole before the NI sees it, which then finds its length (`StoreAndForward`)

    Members
    -------
    send, send_data, … completion, deliver, deliver_data, … : In or Out(stream)
        Those of `lethe.host.host_signature`, seen from above; its other members are not here.
    s_axis_send, … m_axis_deliver, … m_axis_completion : In or Out(`signature_of`)
        As `lethe.spec.axi.axi_streams` lists them.
    node_reset, incarnation : In
        As of the NI.
    service_reset : In(1), with services
        Only with ``node_reset``: what a service delivers is lost, too.
    malformed : Out(1)
        A datagram was not as it must be (`SendAdapter`, `StoreAndForward`); one cycle.
    """

    def __init__(self, system: System, *, store: bool = False):
        self._system, self._store = system, store
        self._axes = axi_streams(system, store=store)
        host = host_signature(system, system.top_port).members
        below = [axis.port for axis in self._axes]
        below += [f"{port}_data" for port in below if port != "completion"]
        super().__init__(
            {
                **{name: host[name].flip() for name in below},
                **{axis.name: (In if axis.to_ni else Out)(signature_of(axis)) for axis in self._axes},
                "node_reset": In(1),
                **({"service_reset": In(1)} if system.services else {}),
                "incarnation": In(system.format.incarnation_bits),
                "malformed": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        outlive = outliving(self._system)
        told = {axis.port: axis for axis in axi_streams(self._system)}
        malformed = []
        for axis in self._axes:
            outer, port = getattr(self, axis.name), axis.port
            if axis.to_ni:
                m.submodules[port] = adapter = SendAdapter(self._system, told[port])
                if self._store:
                    m.submodules[f"{port}_store"] = store = StoreAndForward(self._system, axis, told[port])
                    wiring.connect(m, wiring.flipped(outer), store.i)
                    wiring.connect(m, store.o, adapter.axis)
                    # It knows all of them; of what it shows instead the adapter finds only some malformed.
                    malformed.append(store.malformed)
                else:
                    malformed.append(adapter.malformed)
                    wiring.connect(m, wiring.flipped(outer), adapter.axis)
            elif port == "completion":
                m.submodules[port] = adapter = CompletionAdapter(self._system, axis)
                m.d.comb += adapter.incarnation.eq(self.incarnation)
                wiring.connect(m, adapter.axis, wiring.flipped(outer))
                wiring.connect(m, wiring.flipped(self.completion), adapter.completion)
                continue
            else:
                m.submodules[port] = adapter = DeliverAdapter(self._system, axis)
                wiring.connect(m, adapter.axis, wiring.flipped(outer))
            # What a service has waits for the end of a reset of the NI alone.
            resets = self.service_reset if port in outlive else self.node_reset
            m.d.comb += adapter.node_reset.eq(resets)
            if axis.to_ni:
                for name, inner in ((port, "send"), (f"{port}_data", "send_data")):
                    wiring.connect(m, getattr(adapter, inner), wiring.flipped(getattr(self, name)))
                continue
            for name, inner in ((port, "deliver"), (f"{port}_data", "deliver_data")):
                below, above = getattr(self, name), getattr(adapter, inner)
                kept = data.StructLayout({"payload": below.payload.shape(), "empty": 1 if name == port else 0})
                m.submodules[f"{name}_skid"] = skid = ResetInserter(resets)(Skid(kept))
                m.d.comb += [
                    skid.i.valid.eq(below.valid),
                    skid.i.payload.payload.eq(below.payload),
                    below.ready.eq(skid.i.ready),
                    above.valid.eq(skid.o.valid & ~resets),
                    above.payload.eq(skid.o.payload.payload),
                    skid.o.ready.eq(above.ready),
                ]
                # Compared before the skid, because the adapter's logic behind the skid is deep.
                if name == port:
                    m.d.comb += [
                        skid.i.payload.empty.eq(below.payload.length == 0),
                        adapter.empty.eq(skid.o.payload.empty),
                    ]
        m.d.comb += self.malformed.eq(Cat(malformed).any())
        return m
