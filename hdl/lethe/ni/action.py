"""The one action per cycle on both tables: an arrived message, or else an internal request.

Cycle contract, sections 4.4 (what a message does) and 4.5 (internal requests).
"""

from itertools import pairwise

from amaranth.hdl import Array, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from lethe.spec.config import System
from lethe.spec.events import ACCEPTANCE, Drop, Event

from . import receive_table, send_table
from .choose import Choose, act_layout, request_members
from .completion import ended_signature
from .deliver import verdict_signature
from .ladder import push_signature
from .layouts import TRIES_BITS, Records
from .linger import rested_signature
from .paths import tried_signature
from .receive_side import ACCEPTANCE_MEMBERS, ReceiveSide
from .receiver import arrival_signature
from .round_trip import release_signature, wait_signature
from .send_side import SendSide
from .silence import hear_signature

__all__ = ["Action"]


class Action(wiring.Component):
    """Chooses in *c−4*, acts in *c*; one act begins in each cycle, also on the same slot or entry.

    In *c−4* `Choose` gives the addresses of both tables, which answer in *c−2*.  In *c−1* all is known but where there
    is room, and in *c* `SendSide` and `ReceiveSide` write the tables, queue a reply, a repeat or a completion, and move
    the Ack ladder.  What the acts of *c−4* … *c−1* change, which the tables did not know yet, they put in.  Only the
    reply queue can be full: its overflow drops the reply.

    Members
    -------
    node, incarnation, time_base, advance, ready, nearly, quiesce : In
        ``advance``: the time base is one more in the next cycle; ``nearly``: ``ready`` is 1 in it.
    arrival, finish, repeat_hold, ack_hold, cancel, sweep, dump : In
        All that may act, as `Choose` takes it.
    refusal, delivered : In(2), Out(1), with ``ni.acceptance``
        In *c*: why a service refuses what is to be delivered, and whether something is, for data.
    dumped, dumped_valid : Out, unless ``dump`` is False
        In *c*: the slot and the set that ``dump`` asked for.
    look, end : Out(`send_table.look_signature`), Out(`send_table.end_signature`)
        The send table.
    judged : In(`send_table.judged_signature`)
        The transmitter judges in this very cycle.
    look_set, update : Out(`receive_table.look_signature`), Out(`receive_table.update_signature`)
        The receive table.
    ended : Out(`ended_signature`)
        To the completions.
    verdict : array of Out(`verdict_signature`)
        To the deliver FIFOs.
    push : Out(`push_signature`)
        To the Ack ladder.
    release, wait : Out(`release_signature`), Out(`wait_signature`), with measured round trips
        Class and step in *c−3*, all else in *c*.
    hear : Out(`hear_signature`), with ``timers.silent_after``
    tried : Out(`tried_signature`), with ``timers.path_after``
    rested, lingers : In(`rested_signature`), Out(slots), with ``ni.linger``
        A slot lingers no more; those that do.
    reply, repeat : Out(stream)
        To the reply queue (its ``ready`` may be 0) and the repeat queue.
    lost_reply : Out(1)
        A reply found its queue full.
    waiting : Out(1)
        A message acts, or acts in one of the next three cycles.
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
        if system.timers.path_after:
            members["tried"] = Out(tried_signature(system))
        if system.linger:
            members |= {"rested": In(rested_signature(records)), "lingers": Out(system.ni.slots)}
        if system.ni.acceptance:
            members |= {name: ACCEPTANCE_MEMBERS[name] for name in ("refusal", "delivered")}
        self._requests = request_members(system, dump=dump)
        super().__init__(
            {
                "node": In(form.node_bits),
                "incarnation": In(form.incarnation_bits),
                "time_base": In(system.time_bits),
                "advance": In(1),
                "ready": In(1),
                "nearly": In(1),
                "quiesce": In(1),
                "arrival": In(arrival_signature(system)),
                **self._requests,
                "look": Out(send_table.look_signature(records)),
                "end": Out(send_table.end_signature(records)),
                "judged": In(send_table.judged_signature(records)),
                "look_set": Out(receive_table.look_signature(records)),
                "update": Out(receive_table.update_signature(records)),
                "ended": Out(ended_signature(records)),
                "verdict": Out(verdict_signature(system)).array(system.ni.control_classes + 1),
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
        acts = [Signal(act_layout(self._system), name=f"act{i}") for i in range(3)] + [choose.act]
        act, soon = acts[0], acts[1]
        m.d.sync += [act.eq(following) for act, following in pairwise(acts)]

        # Whether a message that acts in the next cycle is good: it passes the checks of 4.4 that need no table.
        good, again = Signal(), Signal(TRIES_BITS)
        m.d.comb += good.eq(self.arrival.sound & self.nearly)
        paths = 1 << self._system.format.path_bits
        # With paths it goes round, so that none is left out.
        last = 256 - 2 * paths if paths > 1 else 255
        m.d.sync += again.eq(Mux(soon.repeating | soon.acking, Mux(soon.tries == 255, last, soon.tries + 1), 0))
        m.d.sync += self.waiting.eq(self.arrival.complete | acts[3].message | acts[2].message | acts[1].message)

        m.d.comb += [
            choose.quiesce.eq(self.quiesce),
            choose.ready.eq(self.ready),
            receives.node.eq(self.node),
            *(
                getattr(unit, name).eq(getattr(self, name))
                for unit in (sends, receives) for name in ("incarnation", "time_base", "advance")
            ),
            *(unit.good.eq(good) for unit in (sends, receives)),
            *(unit.again.eq(again) for unit in (sends, receives)),
            *(place.eq(act) for unit in (sends, receives) for place, act in zip(unit.acts, acts, strict=True)),
            self.look.slot.eq(choose.slot),
            self.look_set.set.eq(choose.set),
            sends.row.eq(self.look.row),
            receives.entries.eq(self.look_set.entries),
        ]  # fmt: skip
        for name in ("arrival", *self._requests):
            wiring.connect(m, wiring.flipped(getattr(self, name)), getattr(choose, name))
        for name in ("judged", "end", "ended", "repeat"):
            wiring.connect(m, wiring.flipped(getattr(self, name)), getattr(sends, name))
        for name in ("update", "push"):
            wiring.connect(m, wiring.flipped(getattr(self, name)), getattr(receives, name))
        for port, verdict in zip(self.verdict, receives.verdict, strict=True):
            wiring.connect(m, wiring.flipped(port), verdict)
        if self._system.measured:
            wiring.connect(m, wiring.flipped(self.release), sends.release)
            wiring.connect(m, wiring.flipped(self.wait), receives.wait)
        if self._system.timers.silent_after:
            wiring.connect(m, wiring.flipped(self.hear), sends.hear)
        if self._system.timers.path_after:
            wiring.connect(m, wiring.flipped(self.tried), sends.tried)
        if self._dump:
            # A dump is alone: nothing changes what the tables said of it.
            row, entries = Signal(self.look.row.shape()), Signal(self.look_set.entries.shape())
            m.d.sync += [row.eq(self.look.row), entries.eq(self.look_set.entries)]
            m.d.sync += [self.dumped.generation.eq(row.generation), self.dumped.entries.eq(entries)]
            m.d.comb += [
                self.dumped_valid.eq(act.dumping),
                self.dumped.live.eq(sends.live),
                self.dumped.destination.eq(sends.destination),
            ]

        if self._system.ni.acceptance:
            m.d.comb += [receives.refusal.eq(self.refusal), self.delivered.eq(receives.delivered)]
        if self._system.ni.sweep:
            m.d.comb += choose.onward.eq(receives.onward)

        if self._system.linger:
            wiring.connect(m, wiring.flipped(self.rested), sends.rested)
            m.d.comb += self.lingers.eq(sends.lingers)

        self._reply(m, act, soon, good, again, sends, receives)
        self._show(m, act, soon, good, again, sends, receives)
        return m

    def _reply(self, m, act, soon, good, again, sends, receives):
        """An Ack, a Forget or a REJECT."""
        forget, reject = Signal(), Signal()
        rejects = self._system.ni.reject
        m.d.sync += forget.eq(good & soon.ack)
        if rejects:
            m.d.sync += reject.eq(soon.message & self.arrival.stale & self.nearly)
            if self._system.ni.acceptance:
                reject = reject | receives.rejects
        reply = self.reply.payload
        m.d.comb += [
            self.reply.valid.eq(receives.acks | (forget & ~sends.doubted if self._system.linger else forget) | reject),
            reply.forget.eq(forget),
            reply.destination.eq(act.source),
            *(reply[name].eq(act[name]) for name in ("slot", "generation", "incarnation", "try")),
            reply.peer_incarnation.eq(Mux(forget, act.peer_incarnation, self.incarnation)),
            self.lost_reply.eq(self.reply.valid & ~self.reply.ready),
        ]
        if rejects:
            m.d.comb += reply.reject.eq(reject)
        if bits := self._system.format.path_bits:
            # An Ack that is repeated goes on as its Send does; of a message ``again`` is 0.
            m.d.comb += reply.path.eq(act.path + again[1 : 1 + bits])

    def _show(self, m, act, soon, good, again, sends, receives):
        """The event: what was done, and to whose datagram."""
        shown, missed = self.shown, receives.missed

        # c−1: what it is if what acts finds its datagram as it wants it, and if not.
        on_hit, on_miss, counts, drop, nameless = Signal(Event), Signal(Event), Signal(), Signal(Drop), Signal()
        events = [
            (soon.send, Event.DUPLICATE, Event.DELIVER),
            (soon.best_effort, Event.NOTHING, Event.DELIVER_BE),
            (soon.ack, Event.RELEASE, Event.ACK_IGNORED),
            (soon.forget, Event.FORGOTTEN, Event.FORGET_IGNORED),
            (soon.acking, Mux(receives.limit, Event.ORPHAN, Event.ACK_REPEAT), Event.NOTHING),
            (soon.repeating, Mux(sends.limit, Event.GIVE_UP, Event.REPEAT), Event.NOTHING),
            (soon.finishing | soon.cancelling, Event.GIVE_UP, Event.NOTHING),
        ]
        if self._system.ni.reject:
            events.append((soon.reject, Event.GIVE_UP, Event.REJECT_IGNORED))
        if self._system.ni.sweep:
            events.append((soon.sweeping, Event.SWEPT, Event.NOTHING))
        m.d.sync += [on_hit.eq(Event.NOTHING), on_miss.eq(Event.NOTHING), drop.eq(Drop.NONE)]
        for acts, hit, miss in events:
            with m.If(acts):
                m.d.sync += [on_hit.eq(hit), on_miss.eq(miss)]
        with m.If(soon.message & ~good):
            m.d.sync += [on_miss.eq(Event.DROP), drop.eq(Mux(self.nearly, self.arrival.drop, Drop.RESETTING))]
        m.d.sync += [
            counts.eq((soon.repeating & ~sends.limit) | (soon.acking & ~receives.limit)),
            nameless.eq(soon.message & (self.arrival.nameless | ~self.nearly)),
        ]

        # c.
        with m.If(missed.table | missed.deliver | missed.timer):
            m.d.comb += [
                shown.event.eq(Event.DROP),
                shown.detail.eq(
                    Mux(missed.table, Drop.TABLE_FULL, Mux(missed.deliver, Drop.DELIVER_FULL, Drop.TIMER_FULL))
                ),
            ]
        if self._system.ni.acceptance:
            with m.Elif(receives.refused):
                reasons = Array(Const(drop, Drop) for drop in ACCEPTANCE)
                m.d.comb += [shown.event.eq(Event.DROP), shown.detail.eq(reasons[self.refusal])]
        with m.Elif(sends.hit | receives.hit):
            m.d.comb += [shown.event.eq(on_hit), shown.detail.eq(Mux(counts, again, sends.cause))]
        with m.Else():
            m.d.comb += [shown.event.eq(on_miss), shown.detail.eq(drop)]

        # A message that was not understood names nobody.
        own = ~act.message & ~act.acking
        if self._system.ni.sweep:
            own = own & ~act.sweeping
        answer = act.ack | act.reject if self._system.ni.reject else act.ack
        with m.If((shown.event != Event.NOTHING) & ~nameless):
            m.d.comb += [
                shown.source.eq(Mux(own, self.node, Mux(answer, act.destination, act.source))),
                shown.incarnation.eq(Mux(own, self.incarnation, act.incarnation)),
                shown.slot.eq(act.slot),
                shown.generation.eq(act.generation),
                shown.peer.eq(Mux(own, sends.destination, act.source)),
            ]
            with m.If(act.send | act.best_effort):
                m.d.comb += shown.length.eq(act.length)
            if self._system.ni.sweep:
                with m.If(act.sweeping):
                    m.d.comb += [shown[name].eq(receives.swept[name]) for name in receives.swept.shape().members]
