"""What the action does to a datagram of this node: it ends, or it is repeated (cycle contract, sections 4.4, 4.5)."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from lethe.spec.config import System
from lethe.spec.events import Cause, Status
from lethe.spec.ports import cause_bits

from .choose import act_layout
from .completion import ended_signature
from .layouts import TRIES_BITS, Records
from .linger import Linger, rested_signature
from .paths import tried_signature
from .round_trip import release_signature
from .send_table import end_signature, judged_signature
from .silence import hear_signature

__all__ = ["SendSide"]


class SendSide(wiring.Component):
    """Compares in *c−2*, judges in *c−1*, acts in *c*.

    The row is as of *c−4*.  A datagram that ended in *c−4* … *c−1* is not live any more; one that was judged in
    *c−4* … *c* is launched.  Nothing that is written here can be full.

    Members
    -------
    incarnation, time_base, advance : In
        ``advance``: the time base is one more in the next cycle.
    acts : In(`act_layout`) × 4
        What acts in so many cycles: ``acts[0]`` in this one.
    good : In(1)
        ``acts[1]``, if it is a message, passed all checks, and the NI will be ready.
    row : In
        That of the slot of ``acts[2]``.
    again : In
        The next number of tries of the token that acts.
    judged : In(`judged_signature`)
        The transmitter judges an entry of the new or the control queue in this very cycle.
    end : Out(`end_signature`), ended : Out(`ended_signature`)
        To the send table and the completions.
    repeat : Out(stream)
        To the repeat queue.
    release : Out(`release_signature`), with measured round trips
    hear : Out(`hear_signature`), with ``timers.silent_after``
    rested, lingers : In(`rested_signature`), Out(slots), with ``ni.linger``
        A slot lingers no more; those that do.
    doubted : Out(1), with ``ni.linger``
        In *c*: an Ack is not answered.
    tried : Out(`tried_signature`), with ``timers.path_after``
    limit : Out(1)
        In *c−1*: a Send token has had all its tries or its time.
    cause : Out
        In *c*: why the datagram ends, if it does; else 0.
    hit : Out(1)
        In *c*: the datagram is live, and what acts ends or repeats it.
    live : Out(1)
        In *c*: the slot's datagram, whatever its generation, is live.
    destination : Out(16)
        In *c*: that of the slot's datagram.
    """

    def __init__(self, system: System):
        self._system = system
        records = Records(system)
        linger = {"rested": In(rested_signature(records)), "lingers": Out(system.ni.slots), "doubted": Out(1)}
        super().__init__(
            {
                "incarnation": In(system.format.incarnation_bits),
                "time_base": In(system.time_bits),
                "advance": In(1),
                "acts": In(act_layout(system)).array(4),
                "good": In(1),
                "row": In(records.looked),
                "again": In(TRIES_BITS),
                "judged": In(judged_signature(records)),
                "end": Out(end_signature(records)),
                "ended": Out(ended_signature(records)),
                "repeat": Out(stream.Signature(records.repeat)),
                "limit": Out(1),
                "cause": Out(cause_bits(system)),
                "hit": Out(1),
                "live": Out(1),
                "destination": Out(16),
                **({"release": Out(release_signature(system))} if system.measured else {}),
                **({"hear": Out(hear_signature(system))} if system.timers.silent_after else {}),
                **(linger if system.linger else {}),
                **({"tried": Out(tried_signature(system))} if system.timers.path_after else {}),
            }
        )

    def elaborate(self, platform):
        m = Module()
        system, form = self._system, self._system.format
        act, soon, later, latest = self.acts
        row, judged, slots = self.row, self.judged, system.ni.slots
        rejects = system.ni.reject
        ends, repeats = Signal(), Signal()

        # c−3: which of those before it act on the same slot, the nearest first.
        ended, past_slot = Signal(), Signal(act.slot.shape())
        m.d.sync += [ended.eq(ends), past_slot.eq(act.slot)]
        same = [latest.slot == slot for slot in (later.slot, soon.slot, act.slot, past_slot)]
        gone, nearer = Signal(), Signal(2)
        m.d.sync += [gone.eq((same[2] & ends) | (same[3] & ended)), nearer.eq(Cat(same[:2]))]

        # Whether it was judged in the meantime, at first in c−4 or c−3.
        def names(writer, slot):
            return writer.valid & (writer.slot == slot[: len(writer.slot)])

        before, judged_first = Signal(data.StructLayout({"valid": 1, "slot": judged.slot.shape()})), Signal()
        m.d.sync += [
            *(before[name].eq(getattr(judged, name)) for name in ("valid", "slot")),
            judged_first.eq(names(before, latest.slot) | names(judged, latest.slot)),
        ]
        # From then on the slots are compared a cycle before it is known whether one is judged.
        named = Signal(3)
        m.d.sync += [
            named[i].eq(judged.ahead == following.slot[: len(judged.ahead)])
            for i, following in enumerate((soon, later, latest))
        ]
        # What ends in c is known to what acts, so it was accepted in c−5 or before: in c−2 … c it is live for the
        # transmitter too.
        judged_act, judged_soon, judged_later = (judged.any & bit for bit in named)

        # c−2: the row.  If the number of slots is no power of two, a host can name a slot that does not exist.
        exists = later.slot[: (slots - 1).bit_length()] < slots if slots & (slots - 1) else 1
        live, alive, killer, launched, spent = Signal(), Signal(), Signal(), Signal(), Signal()
        own_life, to_source, answerable = Signal(), Signal(), Signal()
        kept = data.StructLayout(
            {n: row[n].shape() for n in ("phase", "generation", "destination", "best_effort", "refused", "tag")}
        )
        held, shown = Signal(kept), Signal(kept)
        # Time that will have passed since the deadline, less one, in c−1.
        passed, given = Signal(system.time_bits), Signal()
        m.d.sync += [
            live.eq(row.live & exists & ~later.early & ~(gone | (nearer[1] & ends))),
            alive.eq(row.generation == later.generation),
            killer.eq(nearer[0]),
            own_life.eq((later.incarnation == self.incarnation) & ~row.best_effort & ~row.refused),
            to_source.eq(row.destination[: form.node_bits] == later.source),
            spent.eq((row.retry_limit != 0) & (later.tries >= row.retry_limit)),
            given.eq(row.deadline.given),
            passed.eq(self.time_base + ~row.deadline.time + self.advance),
            launched.eq(row.launched | judged_first | judged_later),
            *(held[name].eq(row[name]) for name in kept.members),
        ]  # fmt: skip

        # c−1: what is done.
        still_live, lives, answered, overdue = Signal(), Signal(), Signal(), Signal()
        gives_up, releases, was_launched, cancels = Signal(), Signal(), Signal(), Signal()
        status = Signal(Status)
        minus_one = passed[1:].all()
        m.d.comb += [
            still_live.eq(live & ~(killer & ends)),
            lives.eq(still_live & alive),
            answerable.eq(own_life & to_source),
            overdue.eq(given & (~passed[-1] | (minus_one & (passed[0] | self.advance)))),
            self.limit.eq(spent | overdue),
            answered.eq(self.good & answerable & (soon.ack | soon.reject if rejects else soon.ack)),
            gives_up.eq(
                soon.finishing | (soon.repeating & self.limit) | (soon.cancelling & ~held.refused)
            ),
        ]  # fmt: skip
        m.d.sync += self.cause.eq(Cause.NONE)
        with m.If(soon.cancelling):
            m.d.sync += self.cause.eq(Cause.CANCELLED)
        with m.If(soon.repeating):
            m.d.sync += self.cause.eq(Mux(spent, Cause.RETRY_LIMIT, Cause.DEADLINE))
        with m.If(soon.finishing):
            m.d.sync += self.cause.eq(soon.cause)
        if rejects:
            with m.If(soon.reject):
                m.d.sync += self.cause.eq(Cause.RESTARTED)
        peer = Signal(form.incarnation_bits)
        m.d.sync += [
            ends.eq(lives & (answered | gives_up)),
            releases.eq(lives & answered & soon.ack),
            repeats.eq(lives & soon.repeating & ~self.limit),
            self.hit.eq(lives & (answered | gives_up | soon.repeating)),
            self.live.eq(still_live),
            was_launched.eq(launched | judged_soon),
            cancels.eq(soon.cancelling),
            status.eq(Mux(soon.finishing, soon.status, Mux(soon.ack, Status.ACCEPTED, Status.UNKNOWN))),
            peer.eq(Mux(soon.message, soon.peer_incarnation, 0)),
            shown.eq(held),
        ]

        # c.
        entry, repeat = self.ended.entry, self.repeat.payload
        m.d.comb += [
            self.end.valid.eq(ends),
            self.end.slot.eq(act.slot),
            self.end.phase.eq(shown.phase),
            self.end.launched.eq(was_launched | judged_act),
            self.ended.valid.eq(ends),
            entry.slot.eq(act.slot),
            entry.generation.eq(act.generation),
            entry.destination.eq(shown.destination),
            entry.tag.eq(shown.tag),
            entry.status.eq(Mux(cancels & ~self.end.launched, Status.NEVER_SENT, status)),
            entry.cause.eq(self.cause),
            entry.peer_incarnation.eq(peer),
            self.repeat.valid.eq(repeats),
            repeat.slot.eq(act.slot),
            repeat.generation.eq(act.generation),
            repeat.tries.eq(self.again),
            repeat.rung.eq(act.rung),
            self.destination.eq(shown.destination),
        ]
        if system.linger:
            m.submodules.linger = linger = Linger(system)
            ours = Signal()
            m.d.sync += ours.eq(later.incarnation == self.incarnation)
            m.d.comb += [
                linger.next_slot.eq(soon.slot),
                linger.follows.eq(killer),
                linger.names.eq(alive & ours),
                linger.slot.eq(act.slot),
                linger.repeats.eq(repeats),
                linger.ends.eq(ends),
                linger.releases.eq(releases),
                linger.unknown.eq((entry.status == Status.UNKNOWN) & (self.cause != Cause.BEST_EFFORT)),
                self.lingers.eq(linger.lingers),
                self.doubted.eq(linger.doubted),
            ]
            wiring.connect(m, wiring.flipped(self.rested), linger.rested)
        if system.measured:
            m.d.comb += [
                self.release.valid.eq(releases),
                self.release.slot.eq(act.slot),
                self.release.try_.eq(act["try"]),
            ]
        if system.timers.path_after:
            m.d.comb += [
                self.tried.valid.eq(releases | (repeats & (shown.destination < system.nodes))),
                self.tried.answer.eq(releases),
                self.tried.node.eq(shown.destination),
                self.tried.path.eq(act.path),
            ]
        if system.timers.silent_after:
            answers = Signal()
            m.d.sync += answers.eq(self.good & (soon.ack | soon.reject if rejects else soon.ack))
            m.d.comb += [
                # A generation that recurs too soon can repeat what was refused, to no node.
                self.hear.valid.eq(answers | (repeats & (shown.destination < system.nodes))),
                self.hear.answer.eq(answers),
                self.hear.node.eq(Mux(answers, act.source, shown.destination)),
            ]
        return m
