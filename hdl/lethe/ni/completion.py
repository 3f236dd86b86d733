"""Completions, and the way of a slot back to the free queue (cycle contract, section 4.9)."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from lethe.lib.queue import Queue, step
from lethe.spec.config import System
from lethe.spec.events import Cause, Status

from .layouts import Records
from .linger import rested_signature
from .walk import clear_signature

__all__ = ["Completions", "FreeSlots", "Quarantine", "ended_signature", "taken_signature"]


def ended_signature(records: Records) -> wiring.Signature:
    """Seen from the action: a datagram ended."""
    return wiring.Signature({"valid": Out(1), "entry": Out(records.completion)})


def taken_signature(records: Records) -> wiring.Signature:
    """Seen from the completions: the host took that of ``life``.

    ``rests``: it left its slot in doubt, which goes to the quarantine, if there is one.
    """
    return wiring.Signature({"valid": Out(1), "rests": Out(1), "life": Out(records.free)})


class Completions(wiring.Component):
    """One place per slot, so that a completion can always be pushed.

    Members
    -------
    ended : In(`ended_signature`)
    completion : Out(stream)
        To the host.
    taken : Out(`taken_signature`)
    """

    def __init__(self, system: System):
        self._system = system
        self._records = Records(system)
        super().__init__(
            {
                "ended": In(ended_signature(self._records)),
                "completion": Out(stream.Signature(self._records.completion)),
                "taken": Out(taken_signature(self._records)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.queue = queue = Queue(self._records.completion, self._system.ni.slots)
        shown = self.completion.payload
        m.d.comb += [
            queue.i.valid.eq(self.ended.valid),
            queue.i.payload.eq(self.ended.entry),
            self.taken.valid.eq(self.completion.valid & self.completion.ready),
            self.taken.life.slot.eq(shown.slot),
            self.taken.life.generation.eq(shown.generation),
            self.taken.rests.eq((shown.status == Status.UNKNOWN) & (shown.cause != Cause.BEST_EFFORT)),
        ]
        wiring.connect(m, queue.o, wiring.flipped(self.completion))
        return m


class Quarantine(wiring.Component):
    """Slots whose datagram may still be remembered somewhere, for `System.rest` cycles (T1, 4.19).

    Members
    -------
    time_base : In
    push, life : In
        A slot begins its rest.
    free : Out(stream)
        ``valid`` when the oldest has rested; a slot pushed in *c* can be shown from *c+1*.
    """

    def __init__(self, system: System):
        self._system = system
        self._life = Records(system).free
        super().__init__(
            {
                "time_base": In(system.time_bits),
                "push": In(1),
                "life": In(self._life),
                "free": Out(stream.Signature(self._life)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        slots, time_bits = self._system.ni.slots, self._system.time_bits
        layout = data.StructLayout({"life": self._life, "due": time_bits})
        m.submodules.memory = memory = Memory(shape=layout, depth=slots, init=[])
        write = memory.write_port()
        read = memory.read_port(transparent_for=(write,))
        head, tail, level = Signal(range(slots)), Signal(range(slots)), Signal(range(slots + 1))
        left, moves = Signal(time_bits), Signal()
        next_head = Signal.like(head)
        m.d.comb += [
            write.en.eq(self.push),
            write.addr.eq(tail),
            write.data.life.eq(self.life),
            write.data.due.eq(self.time_base + self._system.rest),
            left.eq(self.time_base - read.data.due),
            self.free.valid.eq((level != 0) & ~left[-1]),
            self.free.payload.eq(read.data.life),
            moves.eq(self.free.valid & self.free.ready),
            next_head.eq(Mux(moves, step(head, slots), head)),
            read.addr.eq(next_head),
        ]
        m.d.sync += [head.eq(next_head), level.eq(level + self.push - moves)]
        with m.If(self.push):
            m.d.sync += tail.eq(step(tail, slots))
        return m


class FreeSlots(wiring.Component):
    """The free queues: filled by the walk after reset, then by completions and the quarantine.

    With ``ni.control_slots`` there is one for data slots and one for control slots.

    Members
    -------
    time_base : In
    clear : In(`clear_signature`)
        The slot is free, with generation 0.
    taken : In(`taken_signature`)
    free : Out(stream)
        To accept.
    ahead : Out
        What ``free`` offers next, if that is another slot in the next cycle.
    level : Out
        Slots that wait behind the one that is offered.
    lingers, rested : In(slots), Out(`rested_signature`), with ``ni.linger``
        The slots that linger; one that does no more.
    free_control : Out(stream), ahead_control : Out, with ``ni.control_slots``
        To the accept of control.
    """

    def __init__(self, system: System):
        self._system = system
        records = Records(system)
        self._life = records.free
        super().__init__(
            {
                "time_base": In(system.time_bits),
                "clear": In(clear_signature(records.slot)),
                "taken": In(taken_signature(records)),
                "free": Out(stream.Signature(self._life)),
                "ahead": Out(self._life),
                "level": Out(range(system.ni.slots + 1)),
                **(
                    {"free_control": Out(stream.Signature(self._life)), "ahead_control": Out(self._life)}
                    if system.ni.control_slots
                    else {}
                ),
                **({"lingers": In(system.ni.slots), "rested": Out(rested_signature(records))} if system.linger else {}),
            }
        )

    def elaborate(self, platform):
        m = Module()
        control_slots = self._system.ni.control_slots
        first_control = self._system.ni.slots - control_slots
        m.submodules.queue = queue = Queue(self._life, first_control, ahead=True)
        wiring.connect(m, queue.o, wiring.flipped(self.free))
        m.d.comb += [self.level.eq(queue.level), self.ahead.eq(queue.ahead)]
        freed = stream.Signature(self._life).create(path=("freed",)) if control_slots else queue.i
        if control_slots:
            m.submodules.controls = controls = Queue(self._life, control_slots, ahead=True)
            wiring.connect(m, controls.o, wiring.flipped(self.free_control))
            m.d.comb += self.ahead_control.eq(controls.ahead)
            of_control = freed.payload.slot >= first_control
            m.d.comb += [
                queue.i.valid.eq(freed.valid & ~of_control),
                controls.i.valid.eq(freed.valid & of_control),
                *(own.i.payload.eq(freed.payload) for own in (queue, controls)),
            ]
        life = Signal(self._life)
        taken, ended = self.taken, self.taken.life
        m.d.comb += [life.slot.eq(ended.slot), life.generation.eq(ended.generation + 1)]
        rests = 0
        if self._system.rest:
            m.submodules.quarantine = quarantine = Quarantine(self._system)
            rests = taken.rests
            if self._system.linger:
                rests = self.lingers.bit_select(ended.slot, 1)
                m.d.comb += [
                    self.rested.valid.eq(quarantine.free.valid & quarantine.free.ready),
                    self.rested.slot.eq(quarantine.free.payload.slot),
                ]
            m.d.comb += [
                quarantine.time_base.eq(self.time_base),
                quarantine.push.eq(taken.valid & rests),
                quarantine.life.eq(life),
            ]
        with m.If(self.clear.valid):
            m.d.comb += [freed.valid.eq(1), freed.payload.slot.eq(self.clear.index)]
        with m.Elif(taken.valid & ~rests if self._system.rest else taken.valid):
            m.d.comb += [freed.valid.eq(1), freed.payload.eq(life)]
        if self._system.rest:
            with m.Else():
                m.d.comb += [
                    freed.valid.eq(quarantine.free.valid),
                    freed.payload.eq(quarantine.free.payload),
                    quarantine.free.ready.eq(1),
                ]
        return m
