"""What was heard: the header and the sender of what a job is about (contract of relay, 7)."""

import typing

from amaranth.hdl import Mux, Signal

from lethe.spec.sections.relay import HEADER_BYTES
from lethe.spec.services.relay import RelayJob, Type

if typing.TYPE_CHECKING:
    from .unit import JobUnit

__all__ = ["add_headers"]


def add_headers(u: "JobUnit") -> None:
    """What was heard: of control, or of data if that is the next.  ``coming`` is a cycle earlier, for tables."""
    m, of = u.m, u.of
    u.of_data = of_data = Signal()
    u.coming, u.heard = Signal(of.named), Signal(of.header)
    u.sender, u.coming_sender = Signal(of.node_bits), Signal(of.node_bits)
    u.message_length = Signal(of.length_bits)
    # Whose header tables are read with: of the job under way, as long as it may read tables; else of control in or data
    # in, whichever may begin in the next cycle.  (Two registers: the tables are many, and so are the bits of `heard`.)
    control, data_in = u.control_in, u.data_in
    of_control, is_data, stays, still_control = Signal(init=1), Signal(), Signal(), Signal()
    job_control, job_data = u.under[RelayJob.CONTROL], u.under[RelayJob.DATA]
    m.d.comb += [
        control.job.eq(job_control),
        data_in.job.eq(job_data),
        # Behind control in, data in comes first; else control in.  No job has just emptied the register that is asked.
        is_data.eq(Mux(u.after_control, data_in.soon, ~control.soon)),
        stays.eq(Mux(u.rests, data_in.asks | control.asks, job_data & u.reads_data)),
        # Whether control in has a further step is known late.
        still_control.eq(~u.rests & job_control & ~control.done),
        u.coming_sender.eq(Mux(of_data, data_in.source, control.source)),
    ]
    with m.If(~stays):
        m.d.sync += [of_data.eq(is_data & ~still_control), of_control.eq(~is_data | still_control)]
    bits = Mux(of_data, data_in.bits, control.bits)
    m.d.comb += [u.coming[n].eq(v) for n, v in of.wire_fields(bits).items() if n in of.named.members]
    kept = of.wire_fields(Mux(of_control, control.bits, data_in.bits))
    with m.If(u.rests):
        m.d.sync += [u.heard[n].eq(v) for n, v in kept.items() if n in of.header.members]
    m.d.sync += [
        u.sender.eq(u.coming_sender),
        u.message_length.eq(u.data_in.length - HEADER_BYTES),
    ]  # fmt: skip

    def sound(register, kinds, length, cls):
        wire = of.wire_fields(register.bits)
        nodes = (wire["source"] < of.nodes) & (wire["target"] < of.nodes)
        if of.nodes < 1 << of.node_bits:
            nodes &= register.source < of.nodes
        to_itself = (wire["source"] == wire["target"]) & (wire["type"] != Type.PULL)
        return nodes & length & (register.cls == cls) & kinds(wire["type"]) & ~to_itself

    u.sound_control, u.sound_data = Signal(), Signal()
    u.own, u.here = Signal(), Signal()
    m.d.sync += [
        u.sound_control.eq(
            sound(
                control, lambda kind: (kind >= Type.ACKED) & (kind <= Type.PULL), control.length == HEADER_BYTES,
                of.control_class,
            )
        ),
        u.sound_data.eq(
            sound(data_in, lambda kind: kind == Type.DATA, data_in.length >= HEADER_BYTES, of.data_class)
        ),
        u.own.eq(u.coming.source == u.node),
        u.here.eq(u.coming.target == u.node),
    ]  # fmt: skip
    # What kind of datagram it is, a cycle later.
    u.kinds = kinds = Signal(of.kinds)
    kind, sound_, passing = u.heard.type, u.sound_control, ~u.own & ~u.here
    m.d.sync += [
        kinds.sound.eq(sound_),
        kinds.acked_own.eq(sound_ & (kind == Type.ACKED) & u.own),
        kinds.acked_else.eq(sound_ & (kind == Type.ACKED) & ~u.own),
        kinds.drained_else.eq(sound_ & (kind == Type.ACKACKED) & passing),
        kinds.requested_own.eq(sound_ & (kind == Type.REQUESTED) & u.own),
        kinds.requested_else.eq(sound_ & (kind == Type.REQUESTED) & passing),
        kinds.link.eq(sound_ & (kind == Type.LINK)),
        kinds.link_here.eq(sound_ & (kind == Type.LINK) & u.here),
        kinds.link_else.eq(sound_ & (kind == Type.LINK) & passing),
        kinds.pull.eq(sound_ & (kind == Type.PULL)),
        kinds.data.eq(u.sound_data & ~u.own),
        kinds.data_here.eq(u.sound_data & ~u.own & u.here),
        kinds.data_else.eq(u.sound_data & ~u.own & ~u.here),
    ]
