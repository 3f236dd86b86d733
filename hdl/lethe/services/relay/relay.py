"""Relay: messages that outlive the nodes they pass (contract of relay)."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal

from lethe.ni.watch import event_word, uid_word, when
from lethe.services.service import ServiceTrace, ServiceUnit
from lethe.spec.events import Event
from lethe.spec.services.relay import RELAY, RelayJob
from lethe.spec.trace import WORD_BITS

from .arrived import add_data
from .control import add_control
from .layouts import RelayLayouts
from .unit import JobUnit
from .walk import add_walk
from .work import add_work

__all__ = ["Relay"]


class Relay(ServiceUnit):
    """Messages over the overlay.

    One unit does one job after the other; beside it move the beats: of what comes, goes to the next hop, is stored, and
    is shown to the host.
    """

    service = RELAY
    resets_with_ni = True
    made = (
        "idle", "ready", "send", "send_data", "completion", "accepted", "cancel", "tree", "deliver_relay",
        "deliver_relay_data",
    )  # fmt: skip

    def serve(self, m: Module) -> ServiceTrace:
        of = RelayLayouts(self.system, self.port)
        u = JobUnit(m, of, self)
        # `walks` is a register of its own beside `walked`, because it drives many gates.
        walk, walked, walks = Signal(range(of.initial)), Signal(), Signal(init=1)
        m.d.comb += [u.ready.eq(walked & self.below.ready), u.clear.eq(walks), u.clear_addr.eq(walk)]
        with m.If(walks):
            m.d.sync += [
                walk.eq(walk + 1), walked.eq(walk == of.initial - 1), walks.eq(walk != of.initial - 1),
            ]  # fmt: skip
        add_control(u)
        add_data(u)
        add_work(u)
        add_walk(u)
        u.settle()
        self._below(m, u)
        self._above(m, u)
        return self._trace(m, u)

    def _below(self, m, u: JobUnit) -> None:
        below = self.below
        for source, sink in (
            (below.deliver_control1, u.control_in.deliver),
            (below.deliver_control1_data, u.control_in.deliver_data),
            (below.deliver_control2, u.data_in.deliver),
            (below.deliver_control2_data, u.data_in.deliver_data),
            (below.completion, u.completions.below),
            (u.control.send, below.send_control),
            (u.control.send_data, below.send_control_data),
        ):
            m.d.comb += [sink.valid.eq(source.valid), sink.payload.eq(source.payload), source.ready.eq(sink.ready)]
        hop, host = u.hop, u.host
        sends = ~u.rests & u.doing(RelayJob.DATA, RelayJob.LAUNCH)
        m.d.comb += [
            u.completions.mine.eq(u.ended_mine),
            u.at_once.eq(~hop.moves & ~host.holds_send & u.sending.empty & below.send.ready),
            hop.gives.eq(u.sends),
            hop.given.eq(u.sent),
            hop.given.hop.eq(u.down.hop),
            hop.given.header.eq(u.out),
            host.clear_to_pass.eq(u.ready & ~hop.moves & ~u.sending.o.valid & ~sends),
            hop.send.ready.eq(below.send.ready),
            hop.send_data.ready.eq(below.send_data.ready),
            host.send_below.ready.eq(below.send.ready),
            host.send_data_below.ready.eq(below.send_data.ready),
            below.send.valid.eq(hop.send.valid | host.send_below.valid),
            below.send_data.valid.eq(hop.send_data.valid | host.send_data_below.valid),
            below.send_data.payload.eq(Mux(hop.idle, host.send_data_below.payload, hop.send_data.payload)),
        ]
        shown = below.send.payload
        m.d.comb += shown.eq(Mux(hop.idle, host.send_below.payload, hop.send.payload))
        with m.If(hop.idle & ~host.send_below.valid):  # nothing is shown but a class
            m.d.comb += shown.cls.eq(Mux(~u.rests & u.doing(RelayJob.DATA), u.of.data_class, 0))

    def _above(self, m, u: JobUnit) -> None:
        below, above, port = self.below, self.above, self.port
        for source, sink in (
            (above.send, u.host.send),
            (above.send_data, u.host.send_data),
            (u.completions.completion, above.completion),
            (u.post.deliver, above.deliver_relay),
            (u.post.deliver_data, above.deliver_relay_data),
        ):
            m.d.comb += [sink.valid.eq(source.valid), sink.payload.eq(source.payload), source.ready.eq(sink.ready)]
        given = u.at(RelayJob.GIVEN)
        accepted, passes = above.accepted, Signal()
        m.d.comb += [
            passes.eq(below.accepted.valid & ~below.accepted.control & u.hop.idle),
            accepted.valid.eq(passes | given),
            accepted.slot.eq(Mux(given, port.slots + u.host.kept_slot, below.accepted.slot)),
            accepted.generation.eq(Mux(given, u.host_generation, below.accepted.generation)),
            accepted.tag.eq(Mux(given, u.host.kept_tag, below.accepted.tag)),
        ]
        cancel, nobody = above.cancel.payload, Signal()
        m.d.comb += [
            nobody.eq(cancel.slot >= port.slots),
            below.cancel.valid.eq(u.cancelling | (above.cancel.valid & ~nobody)),
            below.cancel.payload.slot.eq(Mux(u.cancelling, u.cancel_name, cancel.slot)),
            below.cancel.payload.generation.eq(Mux(u.cancelling, u.cancel_generation, cancel.generation)),
            above.cancel.ready.eq(~u.cancelling & (nobody | below.cancel.ready)),
            above.ready.eq(u.ready),
        ]
        works = u.busy & ~u.doing(RelayJob.LOOK, RelayJob.TREE)
        m.d.comb += above.idle.eq(
            below.idle
            & u.ready
            & ~works
            & ~u.walks
            & ~u.cancel_walk
            & ~u.cancelling
            & u.hop.idle
            & ~u.control.moves
            & u.host.nothing
            & u.control_in.empty
            & u.data_in.empty
            & u.post.idle
            & ~u.live_some
            & (u.free_cells.count == u.of.cells)
            & u.sending.empty
            & u.telling.empty
            & u.hungry.empty
            & u.completions.empty
        )
        if u.of.checks:
            with m.If(u.halted):
                m.d.comb += above.idle.eq(0)

    def _trace(self, m, u: JobUnit) -> ServiceTrace:
        above, of = self.above, u.of
        offered, kept, now = above.send.payload, u.host.kept, u.hop.now
        took = above.deliver_relay.valid & above.deliver_relay.ready
        got, cell, entry = above.deliver_relay.payload, u.parked_cell, u.entry

        def either(condition, one: Event, other: Event):
            return Mux(condition, Const(one, 8), Const(other, 8))

        def uid(source, incarnation, slot):
            return uid_word(source, incarnation, slot, 0)

        ended = u.completions.ended
        own = uid(self.node, self.incarnation, u.host.kept_slot)
        posted = u.posts | u.parks | u.starves
        of_cell = Mux(u.releases, cell.length, u.message_length)
        heard, h = u.hears | u.ignores | u.stale, u.heard
        # Lane relay: about the message that came, or that of a record.
        forgets, of_came, event = u.ends & ~u.expires, u.owes | u.untracked, Signal(8)
        for number, happens in (
            (Event.RELAY_FORGOT, forgets), (Event.RELAY_EXPIRE, u.expires), (Event.RELAY_EVICT, u.evicts),
            (Event.RELAY_UNTRACKED, u.untracked), (Event.RELAY_OWED, u.owes), (Event.RELAY_NOTICE, u.notices),
        ):  # fmt: skip
            with m.If(happens):
                m.d.comb += event.eq(number)

        def of_message(name: str):
            return Mux(of_came, h[name], entry[name])

        word = Mux(
            u.notices,
            event_word(event, detail=u.tree_word.promoted, peer=u.tree_word.target),
            event_word(
                event, peer=of_message("target"), length=Mux(of_came, u.message_length, entry.length),
                extra=of_message("uid")[:16],
            ),
        )  # fmt: skip
        if of.checks:  # no job is under way: nothing else is shown
            with m.If(u.halts):
                m.d.comb += event.eq(Event.RELAY_HALT)
            word = Mux(u.halts, event_word(event, detail=u.wrong), word)
        named = uid(of_message("source"), of_message("incarnation"), of_message("slot"))
        lanes = (
            (
                Mux(
                    u.given,
                    event_word(Event.RELAY_SEND, peer=kept.target, length=kept.length, extra=u.next_uid[:16]),
                    event_word(
                        Event.RELAY_REFUSED, detail=u.host_cause, peer=offered.destination, length=offered.length,
                        extra=offered.tag,
                    ),
                ),
                when(u.given, own),
                u.given | u.refuses,
            ),
            (
                event_word(
                    Event.RELAY_HOP, detail=now.header.replay, peer=now.hop, length=now.length,
                    extra=now.header.uid[:16],
                ),
                of.name(now.header),
                u.hop.begins,
            ),
            (
                event_word(
                    Mux(u.posts, Const(Event.RELAY_POST, 8), either(u.parks, Event.RELAY_PARK, Event.RELAY_HUNGRY)),
                    peer=h.source, length=of_cell, extra=Mux(u.releases, cell.uid, h.uid)[:16],
                ),
                uid(
                    h.source, Mux(u.releases, cell.incarnation, h.incarnation), Mux(u.releases, cell.slot, h.slot)
                ),
                posted,
            ),
            (
                event_word(Event.RELAY_TAKE, peer=got.source, length=got.length, extra=got.uid[:16]),
                Const(0, WORD_BITS),
                took,
            ),
            (
                event_word(
                    Event.RELAY_END, detail=Cat(_four(ended.cause), ended.status), peer=u.to_row,
                    extra=u.ending.uid[:16],
                ),
                uid(self.node, self.incarnation, u.to.head),
                u.frees_head,
            ),
            (
                event_word(
                    either(u.dropped, Event.RELAY_DROPPED, Event.RELAY_TOLD), detail=of.detail(u.out), peer=u.out_hop,
                    extra=of.shown_uid(u.out),
                ),
                of.name(u.out),
                u.tells,
            ),
            (
                Mux(
                    u.hears,
                    event_word(Event.RELAY_HEARD, detail=of.detail(h), peer=u.sender, extra=of.shown_uid(h)),
                    event_word(either(u.stale, Event.RELAY_STALE, Event.RELAY_IGNORED), peer=u.sender),
                ),
                when(u.hears, of.name(h)),
                heard,
            ),
            (word, when(~u.notices & ~u.halts if of.checks else ~u.notices, named), event.any()),
        )  # fmt: skip
        beats, halts = above.deliver_relay_data, (u.halts,) if of.checks else ()
        return ServiceTrace(
            lanes=[(when(happens, word), when(happens, name)) for word, name, happens in lanes],
            flags=(
                above.send.ready, above.send_data.ready, above.completion.valid, above.deliver_relay.valid,
                beats.valid, beats.valid & beats.payload.last, above.cancel.ready, above.tree.ready, above.idle,
            ),
            beat=beats,
            pulses=(
                u.given, u.refuses, u.hop.begins, u.posts, u.parks, u.starves, took, u.frees_head, u.tells & ~u.dropped,
                u.dropped, u.hears, u.ignores, u.stale, u.notices, u.owes, u.untracked, u.evicts, u.expires, forgets,
                *halts,
            ),
            reset=Event.RELAY_RESET,
            lost=of.cells - u.free_cells.count,
        )  # fmt: skip


def _four(cause):
    """A cause as the detail of an event shows it."""
    return Cat(cause, Const(0, 4))[:4]
