"""The one action per cycle on both tables: an arrived message, or else an internal request.

Cycle contract, sections 4.4 (what a message does) and 4.5 (internal requests).
"""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from lethe.spec.config import System
from lethe.spec.events import Drop, Event, Kind

from . import receive_table, send_table
from .choose import Choose, request_members
from .completion import ended_signature
from .deliver import verdict_signature
from .ladder import push_signature
from .layouts import Records
from .receive_side import ReceiveSide
from .receiver import CHECKS, arrival_signature
from .round_trip import release_signature, wait_signature
from .send_side import SendSide
from .silence import hear_signature

__all__ = ["Action"]


class Action(wiring.Component):
    """Chooses in *c−1*, acts in *c*.

    In *c−1* `Choose` gives the addresses of both tables and works out everything that needs no table; in *c* the tables
    answer, and `SendSide` and `ReceiveSide` write them, queue a reply, a repeat or a completion, and move the Ack
    ladder.  Only the reply queue can be full: its overflow drops the reply.

    Members
    -------
    node, incarnation, time_base, ready, quiesce : In
    arrival, finish, repeat_hold, ack_hold, cancel, dump : In
        All that may act, as `Choose` takes it.
    dumped, dumped_valid : Out, unless ``dump`` is False
        In *c*: the slot and the set that ``dump`` asked for.
    look, end : Out(`send_table.look_signature`), Out(`send_table.end_signature`)
        The send table.
    launch : In(`send_table.launch_signature`)
        The transmitter's grant of a new datagram, in this very cycle.
    look_set, update : Out(`receive_table.look_signature`), Out(`receive_table.update_signature`)
        The receive table.
    ended : Out(`ended_signature`)
        To the completions.
    verdict : array of Out(`verdict_signature`)
        To the deliver FIFOs.
    push : Out(`push_signature`)
        To the Ack ladder.
    release, wait : Out(`release_signature`), Out(`wait_signature`), with measured round trips
        Class and step in *c−1*, all else in *c*.
    hear : Out(`hear_signature`), with ``timers.silent_after``
    reply, repeat : Out(stream)
        To the reply queue (its ``ready`` may be 0) and the repeat queue.
    lost_reply : Out(1)
        A reply found its queue full.
    waiting : Out(1)
        A message acts.
    shown : Out
        The event of the rx lane.
    """

    def __init__(self, system: System, *, dump: bool = True):
        self._system, self._dump = system, dump
        form = system.format
        records = Records(system)
        members = {}
        if system.measured:
            members = {"release": Out(release_signature(system)), "wait": Out(wait_signature(system))}
        if system.timers.silent_after:
            members["hear"] = Out(hear_signature(system))
        if dump:
            members |= {"dumped": Out(records.dump), "dumped_valid": Out(1)}
        self._requests = request_members(system, dump=dump)
        super().__init__(
            {
                "node": In(form.node_bits),
                "incarnation": In(form.incarnation_bits),
                "time_base": In(system.time_bits),
                "ready": In(1),
                "quiesce": In(1),
                "arrival": In(arrival_signature(system)),
                **self._requests,
                "look": Out(send_table.look_signature(records)),
                "end": Out(send_table.end_signature(records)),
                "launch": In(send_table.launch_signature(records)),
                "look_set": Out(receive_table.look_signature(records)),
                "update": Out(receive_table.update_signature(records)),
                "ended": Out(ended_signature(records)),
                "verdict": Out(verdict_signature(records)).array(system.ni.control_classes + 1),
                "push": Out(push_signature(system, records.ack_token)),
                "reply": Out(stream.Signature(records.reply)),
                "repeat": Out(stream.Signature(records.repeat)),
                "lost_reply": Out(1),
                "waiting": Out(1),
                "shown": Out(
                    data.StructLayout(
                        {
                            "event": Event,
                            "detail": 8,
                            "source": form.node_bits,
                            "incarnation": form.incarnation_bits,
                            "slot": form.slot_bits,
                            "generation": form.generation_bits,
                            "peer": 16,
                            "length": form.length_bits,
                        }
                    )
                ),
                **members,
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.choose = choose = Choose(self._system, dump=self._dump)
        m.submodules.sends = sends = SendSide(self._system)
        m.submodules.receives = receives = ReceiveSide(self._system)
        act, row = choose.act, self.look.row

        m.d.comb += [
            choose.node.eq(self.node),
            choose.incarnation.eq(self.incarnation),
            choose.quiesce.eq(self.quiesce),
            *(unit.ready.eq(self.ready) for unit in (choose, sends, receives)),
            *(unit.time_base.eq(self.time_base) for unit in (sends, receives)),
            *(unit.act.eq(act) for unit in (sends, receives)),
            self.look.slot.eq(choose.slot),
            self.look_set.set.eq(choose.set),
            sends.row.eq(row),
            receives.entries.eq(self.look_set.entries),
        ]
        for name in ("arrival", *self._requests):
            wiring.connect(m, wiring.flipped(getattr(self, name)), getattr(choose, name))
        for name in ("launch", "end", "ended", "repeat"):
            wiring.connect(m, wiring.flipped(getattr(self, name)), getattr(sends, name))
        for name in ("update", "push"):
            wiring.connect(m, wiring.flipped(getattr(self, name)), getattr(receives, name))
        for port, verdict in zip(self.verdict, receives.verdict, strict=True):
            wiring.connect(m, wiring.flipped(port), verdict)
        if self._system.measured:
            wiring.connect(m, wiring.flipped(self.release), sends.release)
            m.d.comb += [
                self.wait.distance.eq(choose.distance),
                self.wait.step.eq(choose.step),
                receives.delay.eq(self.wait.delay),
            ]
        if self._system.timers.silent_after:
            wiring.connect(m, wiring.flipped(self.hear), sends.hear)
        if self._dump:
            m.d.comb += [
                self.dumped_valid.eq(act.dumping),
                self.dumped.live.eq(sends.done.live),
                self.dumped.generation.eq(row.generation),
                self.dumped.destination.eq(row.destination),
                self.dumped.entries.eq(self.look_set.entries),
            ]

        reply = self.reply.payload
        rejects = act.stale if self._system.ni.reject else 0
        m.d.comb += [
            self.waiting.eq(act.message),
            self.reply.valid.eq(receives.done.acks | ((act.ack | rejects) & self.ready)),
            reply.forget.eq(act.ack),
            reply.destination.eq(act.source),
            *(reply[name].eq(act[name]) for name in ("slot", "generation", "incarnation", "try")),
            reply.peer_incarnation.eq(Mux(act.ack, act.peer_incarnation, self.incarnation)),
            self.lost_reply.eq(self.reply.valid & ~self.reply.ready),
        ]
        if self._system.ni.reject:
            m.d.comb += reply.reject.eq(act.stale)
        self._show(m, act, sends.done, receives.done)
        return m

    def _show(self, m, act, sent, received):
        """The event: what was done, and to whose datagram."""
        rejects = self._system.ni.reject
        drop = Signal(Drop)
        with m.If(~self.ready):
            m.d.comb += drop.eq(Drop.RESETTING)
        with m.Elif(~act.sound):
            for check, bit in reversed(list(zip(CHECKS, act.wrong, strict=True))):
                with m.If(bit):
                    m.d.comb += drop.eq(check)
        with m.Elif(act.send & ~received.found):
            with m.If(received.table_full):
                m.d.comb += drop.eq(Drop.TABLE_FULL)
            with m.Elif(received.deliver_full):
                m.d.comb += drop.eq(Drop.DELIVER_FULL)
            with m.Elif(received.timer_full):
                m.d.comb += drop.eq(Drop.TIMER_FULL)
        with m.Elif(act.best_effort & received.deliver_full):
            m.d.comb += drop.eq(Drop.DELIVER_FULL)

        event, shown = Signal(Event), self.shown
        with m.If(act.message):
            with m.If(drop != Drop.NONE):
                m.d.comb += [event.eq(Event.DROP), shown.detail.eq(drop)]
            with m.Elif(act.send):
                m.d.comb += event.eq(Mux(received.found, Event.DUPLICATE, Event.DELIVER))
            with m.Elif(act.best_effort):
                m.d.comb += event.eq(Event.DELIVER_BE)
            with m.Elif(act.ack):
                m.d.comb += event.eq(Mux(sent.released, Event.RELEASE, Event.ACK_IGNORED))
            if rejects:
                with m.Elif(act.reject):
                    m.d.comb += event.eq(Event.REJECT_IGNORED)
                    with m.If(sent.gives_up):
                        m.d.comb += [event.eq(Event.GIVE_UP), shown.detail.eq(sent.cause)]
            with m.Else():
                m.d.comb += event.eq(Mux(received.forgets, Event.FORGOTTEN, Event.FORGET_IGNORED))
        with m.Elif(sent.gives_up):
            m.d.comb += [event.eq(Event.GIVE_UP), shown.detail.eq(sent.cause)]
        with m.Elif(sent.repeats):
            m.d.comb += [event.eq(Event.REPEAT), shown.detail.eq(sent.tries)]
        with m.Elif(received.acks_again):
            m.d.comb += [event.eq(Event.ACK_REPEAT), shown.detail.eq(received.tries)]
        with m.Elif(received.orphans):
            m.d.comb += event.eq(Event.ORPHAN)

        # A message that was not understood names nobody.
        nameless = act.message & (~self.ready | act.wrong[: 1 + CHECKS.index(Drop.LENGTH)].any())
        own = ~act.message & ~act.acking
        answer = (act.kind == Kind.ACK) | (act.kind == Kind.REJECT) if rejects else act.kind == Kind.ACK
        m.d.comb += shown.event.eq(event)
        with m.If((event != Event.NOTHING) & ~nameless):
            m.d.comb += [
                shown.source.eq(Mux(own, self.node, Mux(act.message & answer, act.destination, act.source))),
                shown.incarnation.eq(Mux(own, self.incarnation, act.incarnation)),
                shown.slot.eq(act.slot),
                shown.generation.eq(act.generation),
                shown.peer.eq(Mux(own, self.look.row.destination, act.source)),
            ]
            with m.If(act.message & ((act.kind == Kind.SEND) | (act.kind == Kind.BE))):
                m.d.comb += shown.length.eq(act.length)
