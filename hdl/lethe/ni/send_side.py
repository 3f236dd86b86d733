"""What the action does to a datagram of this node: it ends, or it is repeated (cycle contract, sections 4.4, 4.5)."""

from amaranth.hdl import Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from lethe.spec.config import System
from lethe.spec.events import Cause, Status
from lethe.spec.ports import cause_bits

from .choose import act_layout
from .completion import ended_signature
from .layouts import TRIES_BITS, Records
from .round_trip import release_signature
from .send_table import end_signature, launch_signature
from .silence import hear_signature

__all__ = ["SendSide"]


class SendSide(wiring.Component):
    """Judges in *c* by the slot's row; combinational.

    Nothing that is written here can be full.

    Members
    -------
    ready, time_base : In
    act : In(`act_layout`), row : In
        What acts, and the row of its slot.
    launch : In(`launch_signature`)
        The transmitter's grant in this very cycle.
    end : Out(`end_signature`), ended : Out(`ended_signature`)
        To the send table and the completions.
    repeat : Out(stream)
        To the repeat queue.
    release : Out(`release_signature`), with measured round trips
    hear : Out(`hear_signature`), with ``timers.silent_after``
    done : Out
        What was done: an Ack releases (``released``), the datagram ends otherwise (``gives_up``, ``cause``) or is
        repeated (``repeats``, ``tries``); ``live``: the slot's datagram, whatever its generation, was.
    """

    def __init__(self, system: System):
        self._system = system
        records = Records(system)
        done = {
            "live": 1, "released": 1, "gives_up": 1, "cause": cause_bits(system), "repeats": 1, "tries": TRIES_BITS,
        }  # fmt: skip
        super().__init__(
            {
                "ready": In(1),
                "time_base": In(system.time_bits),
                "act": In(act_layout(system)),
                "row": In(records.looked),
                "launch": In(launch_signature(records)),
                "end": Out(end_signature(records)),
                "ended": Out(ended_signature(records)),
                "repeat": Out(stream.Signature(records.repeat)),
                "done": Out(data.StructLayout(done)),
                **({"release": Out(release_signature(system))} if system.measured else {}),
                **({"hear": Out(hear_signature(system))} if system.timers.silent_after else {}),
            }
        )

    def elaborate(self, platform):
        m = Module()
        system, form = self._system, self._system.format
        act, row, done, launch = self.act, self.row, self.done, self.launch
        slots = system.ni.slots

        alive, live = Signal(), Signal()
        # If the number of slots is no power of two, a host can name a slot that does not exist.
        exists = act.slot[: (slots - 1).bit_length()] < slots if slots & (slots - 1) else 1
        m.d.comb += [live.eq(row.live & exists), alive.eq(live & (row.generation == act.generation))]

        answered, release, gives_up, repeats = Signal(), Signal(), Signal(), Signal()
        restarted = act.reject & answered if system.ni.reject else Const(0)
        cause, status = Signal(cause_bits(system)), Signal(Status)
        spent = (row.retry_limit != 0) & (act.tries >= row.retry_limit)
        left = Signal(system.time_bits)
        m.d.comb += left.eq(self.time_base - row.deadline.time)
        overdue = row.deadline.given & ~left[-1]
        # If the slot is granted in this very cycle, its row does not know the grant yet.
        granted_now = launch.valid & (launch.slot == act.slot[: len(launch.slot)])
        last_granted = Mux(granted_now, launch.generation, row.launched_generation)
        launched = last_granted == act.generation
        m.d.comb += [
            answered.eq(
                self.ready & alive & act.ours & ~row.best_effort & ~row.refused
                & (row.destination[: form.node_bits] == act.source)
            ),
            release.eq(act.ack & answered),
            gives_up.eq(
                alive & (act.finishing | (act.repeating & (spent | overdue)) | (act.cancelling & ~row.refused))
                | restarted
            ),
            repeats.eq(alive & act.repeating & ~spent & ~overdue),
            status.eq(Status.UNKNOWN),
        ]  # fmt: skip
        with m.If(act.ack):
            m.d.comb += [status.eq(Status.ACCEPTED), cause.eq(Cause.NONE)]
        if system.ni.reject:
            with m.Elif(act.reject):
                m.d.comb += cause.eq(Cause.RESTARTED)
        with m.Elif(act.finishing):
            m.d.comb += [status.eq(act.status), cause.eq(act.cause)]
        with m.Elif(act.repeating):
            m.d.comb += cause.eq(Mux(spent, Cause.RETRY_LIMIT, Cause.DEADLINE))
        with m.Else():
            m.d.comb += [
                cause.eq(Cause.CANCELLED),
                status.eq(Mux(launched, Status.UNKNOWN, Status.NEVER_SENT)),
            ]

        entry, repeat, tries = self.ended.entry, self.repeat.payload, Signal(TRIES_BITS)
        m.d.comb += [
            tries.eq(Mux(act.tries == 255, 255, act.tries + 1)),
            self.end.valid.eq(release | gives_up),
            self.end.slot.eq(act.slot),
            self.end.phase.eq(row.phase),
            self.ended.valid.eq(self.end.valid),
            entry.slot.eq(act.slot),
            entry.generation.eq(act.generation),
            entry.destination.eq(row.destination),
            entry.tag.eq(row.tag),
            entry.status.eq(status),
            entry.cause.eq(cause),
            entry.peer_incarnation.eq(Mux(act.ack | restarted, act.peer_incarnation, 0)),
            self.repeat.valid.eq(repeats),
            repeat.slot.eq(act.slot),
            repeat.generation.eq(act.generation),
            repeat.tries.eq(tries),
            repeat.rung.eq(act.repeat_rung),
            done.live.eq(live),
            done.released.eq(release),
            done.gives_up.eq(gives_up),
            done.cause.eq(cause),
            done.repeats.eq(repeats),
            done.tries.eq(tries),
        ]
        if system.measured:
            m.d.comb += [self.release.valid.eq(release), self.release.try_.eq(act["try"])]
        if system.timers.silent_after:
            answer = (act.ack | act.reject if system.ni.reject else act.ack) & self.ready
            m.d.comb += [
                # A generation that recurs too soon can repeat what was refused, to no node.
                self.hear.valid.eq(answer | (repeats & (row.destination < system.nodes))),
                self.hear.answer.eq(answer),
                self.hear.node.eq(Mux(answer, act.source, row.destination)),
            ]
        return m
