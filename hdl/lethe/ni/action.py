"""The one action per cycle on both tables: an arrived message, or else an internal request.

Cycle contract, sections 4.4 (what a message does) and 4.5 (internal requests).
"""

from amaranth.hdl import Array, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from lethe.spec.config import System
from lethe.spec.events import Cause, Drop, Event, Kind, Status

from .distance import distance_class
from .layouts import TRIES_BITS, Records
from .receive_table import set_of
from .receiver import CHECKS, fifo_of
from .round_trip import step_bits, step_of

__all__ = ["Action"]


class Action(wiring.Component):
    """Chooses in *c−1*, acts in *c*.

    In *c−1* the addresses of both tables are given and everything that needs no table is worked out; in *c* the
    tables answer, and one decision writes them, queues a reply, a repeat or a completion, and moves the Ack ladder.
    An arriving message always wins, so it never waits; nothing that is written here can be full except the reply
    queue, whose overflow drops the reply.

    Members
    -------
    ready, time_base, node, incarnation, quiesce : In
    complete, header, wrong : In
        The receiver, in *c−1*.
    finish, repeat_hold, ack_hold, cancel : In(stream)
        The internal requests in their order; taken in *c−1*.
    repeat_rung, next_rung : In
        The rungs that the tokens in ``repeat_hold`` and ``ack_hold`` go to.
    dump : In(stream), dumped : Out, unless ``dump`` is False
        A read of slot and set ``dump.payload``, taken in *c−1* while ``quiesce``; ``dumped`` answers in *c*.
    granted_new, granted : In
        The transmitter's grant of a new datagram, in this very cycle.
    look_slot, look_set : Out, looked, entries : In
        The tables.
    end, ended_slot, end_phase : Out
        To the send table.
    write, entry, joins, leaves : Out
        To the receive table.
    room : In(fifos), commit : Out(fifos), acts : Out(1), record : Out
        The deliver FIFOs; ``acts``: a message acts, so what is not committed is forgotten.
    ack_room : In, push, token, rung, eve : Out
        The Ack ladder.
    distance, step, released, echo : Out, wait : In
        With measured round trips: in *c−1* class and step of the token; in *c* whether an Ack with this try ends a
        datagram, and the token's delay, less one.
    reply, repeat : Out(stream)
        To the reply queue (its ``ready`` may be 0) and the repeat queue.
    completes, completion : Out
        To the completion queue.
    lost_reply : Out(1)
        A reply found its queue full.
    shown : Out
        The event of the rx lane.
    """

    def __init__(self, system: System, *, dump: bool = True):
        self._system, self._dump = system, dump
        form = system.format
        self._records = records = Records(system)
        fifos = system.ni.control_classes + 1
        slot = range(system.ni.slots)
        members = {}
        if system.measured:
            members = {
                "released": Out(1),
                "echo": Out(form.try_bits),
                "distance": Out(records.distance),
                "step": Out(step_bits(system)),
                "wait": In(system.time_bits),
            }
        if dump:
            members |= {
                "dump": In(stream.Signature(range(max(system.ni.slots, system.ni.sets)))),
                "dumped": Out(records.dump),
                "dumped_valid": Out(1),
            }
        super().__init__(
            {
                "ready": In(1),
                "time_base": In(system.time_bits),
                "node": In(form.node_bits),
                "incarnation": In(form.incarnation_bits),
                "quiesce": In(1),
                "complete": In(1),
                "header": In(records.header),
                "wrong": In(len(CHECKS)),
                "finish": In(stream.Signature(records.finish)),
                "repeat_hold": In(stream.Signature(records.token)),
                "ack_hold": In(stream.Signature(records.ack_token)),
                "repeat_rung": In(records.rung),
                "next_rung": In(records.rung),
                "cancel": In(stream.Signature(records.cancel)),
                "granted_new": In(1),
                "granted": In(records.launch),
                "look_slot": Out(slot),
                "look_set": Out(records.set),
                "looked": In(records.looked),
                "entries": In(records.entries),
                "end": Out(1),
                "ended_slot": Out(slot),
                "end_phase": Out(1),
                "write": Out(system.ni.ways),
                "entry": Out(records.entry),
                "joins": Out(1),
                "leaves": Out(1),
                "room": In(fifos),
                "commit": Out(fifos),
                "acts": Out(1),
                "record": Out(records.deliver),
                "ack_room": In(1),
                "push": Out(1),
                "token": Out(records.ack_token),
                "rung": Out(records.rung),
                "eve": Out(system.time_bits),
                "reply": Out(stream.Signature(records.reply)),
                "repeat": Out(stream.Signature(records.repeat)),
                "completes": Out(1),
                "completion": Out(records.completion),
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
        system, form = self._system, self._system.format
        header = self.header

        # c−1: choose.
        streams = {
            "finish": self.finish, "repeat": self.repeat_hold, "ack": self.ack_hold, "cancel": self.cancel,
            **({"dump": self.dump} if self._dump else {}),
        }  # fmt: skip
        takes = {name: Signal(name=f"takes_{name}") for name in streams}
        free = ~self.complete & self.ready
        for name, port in streams.items():
            take = takes[name]
            offered = free & self.quiesce if name == "dump" else free
            m.d.comb += [port.ready.eq(offered), take.eq(port.valid & port.ready)]
            free = free & ~port.valid
        hold = self.ack_hold.payload

        # The datagram the action is about; only a message or an Ack token names another node's.
        source, slot, generation, incarnation, echo = (
            Signal(header[name].shape(), name=f"chosen_{name}")
            for name in ("source", "slot", "generation", "incarnation", "try")
        )
        with m.If(self.complete):
            m.d.comb += [
                source.eq(header.source),
                slot.eq(header.slot),
                generation.eq(header.generation),
                incarnation.eq(header.incarnation),
                echo.eq(header["try"]),
            ]
        with m.Else():
            m.d.comb += [source.eq(hold.source), incarnation.eq(hold.incarnation), echo.eq(hold["try"])]
            with m.If(self.finish.valid):
                own = self.finish.payload
                m.d.comb += [slot.eq(own.slot), generation.eq(own.generation)]
            with m.Elif(self.repeat_hold.valid):
                own = self.repeat_hold.payload
                m.d.comb += [slot.eq(own.slot), generation.eq(own.generation)]
            with m.Elif(self.ack_hold.valid):
                m.d.comb += [slot.eq(hold.slot), generation.eq(hold.generation)]
            with m.Elif(self.cancel.valid):
                own = self.cancel.payload
                m.d.comb += [slot.eq(own.slot), generation.eq(own.generation)]
            if self._dump:
                with m.Else():
                    m.d.comb += slot.eq(self.dump.payload)

        m.d.comb += [
            self.look_slot.eq(slot),
            self.look_set.eq(Mux(self.complete, set_of(system, header.source, header.slot), hold.set)),
        ]

        if self._dump:
            with m.If(takes["dump"]):
                m.d.comb += self.look_set.eq(self.dump.payload[: (system.ni.sets - 1).bit_length()])

        # The rung and delay of the token this action may push to the Ack ladder.
        rung, eve_delay = Signal.like(self.rung), Signal(range(max(system.delays) + 1))
        distance = distance_class(m, system.graph, self.node, source if system.measured else header.source)
        m.d.comb += [
            rung.eq(Mux(self.complete, distance, self.next_rung)),
            eve_delay.eq(Array(delay - 1 for delay in system.delays)[rung]),
        ]

        # c: act.
        def at_c(value, name):
            kept = Signal(value.shape(), name=name)
            m.d.sync += kept.eq(value)
            return kept

        acts = at_c(self.complete, "acts")
        sound = at_c(self.complete & ~self.wrong.any(), "sound")
        wrong = at_c(self.wrong, "wrong_at_c")
        kind = at_c(header.kind, "kind")
        is_send, is_ack, is_forget, is_be = (
            at_c(self.complete & ~self.wrong.any() & (header.kind == k), f"is_{k.name.lower()}")
            for k in (Kind.SEND, Kind.ACK, Kind.FORGET, Kind.BE)
        )
        finishing, repeating, acking, cancelling, *dumping = (at_c(takes[n], f"{n}_acts") for n in takes)
        source, slot, generation, incarnation, echo = (
            at_c(v, n)
            for v, n in zip(
                (source, slot, generation, incarnation, echo),
                ("source", "slot", "generation", "incarnation", "echo"),
                strict=True,
            )
        )
        destination = at_c(header.destination, "destination")
        peer_incarnation = at_c(header.peer_incarnation, "peer_incarnation")
        length, cls = at_c(header.length, "length"), at_c(header["class"], "cls")
        for_us = at_c(header.peer_incarnation == self.incarnation, "for_us")
        ours = at_c(header.incarnation == self.incarnation, "ours")
        way = at_c(hold.way, "way")
        old_ack_tries = at_c(hold.tries, "old_ack_tries")
        look_set = at_c(self.look_set, "looked_set")
        old_tries = at_c(self.repeat_hold.payload.tries, "old_tries")
        status = at_c(self.finish.payload.status, "finish_status")
        finish_cause = at_c(self.finish.payload.cause, "finish_cause")
        repeat_rung = at_c(self.repeat_rung, "repeat_rung_at_c")
        rung, eve_delay = at_c(rung, "rung_at_c"), at_c(eve_delay, "eve_delay_at_c")
        if system.measured:
            step = Mux(self.complete, 0, step_of(system, self.next_rung))
            m.d.comb += [self.distance.eq(distance), self.step.eq(step)]
        fifo = fifo_of(system, cls)
        looked, entries, ready = self.looked, self.entries, self.ready

        # Send side.
        alive, live = Signal(), Signal()
        slots = system.ni.slots
        # A host may name a slot that does not exist, if their number is no power of two.
        exists = slot[: (slots - 1).bit_length()] < slots if slots & (slots - 1) else 1
        m.d.comb += [
            live.eq(looked.live & exists),
            alive.eq(live & (looked.generation == generation)),
        ]
        release, gives_up, repeats = Signal(), Signal(), Signal()
        cause, ended_status = Signal(Cause), Signal(Status)
        spent = (looked.retry_limit != 0) & (old_tries >= looked.retry_limit)
        left = Signal(system.time_bits)
        m.d.comb += left.eq(self.time_base - looked.deadline.time)
        overdue = looked.deadline.given & ~left[-1]
        # A grant in this cycle is the slot's last, whichever of its generations it is for.
        granted_now = self.granted_new & (self.granted.slot == slot[: len(self.granted.slot)])
        last_granted = Mux(granted_now, self.granted.generation, looked.launched_generation)
        launched = last_granted == generation
        m.d.comb += [
            release.eq(
                is_ack & ready & alive & ours & ~looked.best_effort & ~looked.refused
                & (looked.destination[: form.node_bits] == source)
            ),
            gives_up.eq(
                alive & (finishing | (repeating & (spent | overdue)) | (cancelling & ~looked.refused))
            ),
            repeats.eq(alive & repeating & ~spent & ~overdue),
            ended_status.eq(Status.UNKNOWN),
        ]  # fmt: skip
        with m.If(is_ack):
            m.d.comb += [ended_status.eq(Status.ACCEPTED), cause.eq(Cause.NONE)]
        with m.Elif(finishing):
            m.d.comb += [ended_status.eq(status), cause.eq(finish_cause)]
        with m.Elif(repeating):
            m.d.comb += cause.eq(Mux(spent, Cause.RETRY_LIMIT, Cause.DEADLINE))
        with m.Else():
            m.d.comb += [
                cause.eq(Cause.CANCELLED),
                ended_status.eq(Mux(launched, Status.UNKNOWN, Status.NEVER_SENT)),
            ]
        if system.measured:
            m.d.comb += [self.released.eq(release), self.echo.eq(echo)]
        next_tries, next_ack_tries = Signal(TRIES_BITS), Signal(TRIES_BITS)
        m.d.comb += [
            next_tries.eq(Mux(old_tries == 255, 255, old_tries + 1)),
            next_ack_tries.eq(Mux(old_ack_tries == 255, 255, old_ack_tries + 1)),
            self.end.eq(release | gives_up),
            self.ended_slot.eq(slot),
            self.end_phase.eq(looked.phase),
            self.completes.eq(self.end),
            self.completion.slot.eq(slot),
            self.completion.generation.eq(generation),
            self.completion.destination.eq(looked.destination),
            self.completion.tag.eq(looked.tag),
            self.completion.status.eq(ended_status),
            self.completion.cause.eq(cause),
            self.completion.peer_incarnation.eq(Mux(is_ack, peer_incarnation, 0)),
            self.repeat.valid.eq(repeats),
            self.repeat.payload.slot.eq(slot),
            self.repeat.payload.generation.eq(generation),
            self.repeat.payload.tries.eq(next_tries),
            self.repeat.payload.rung.eq(repeat_rung),
        ]

        # Receive side.
        ways = system.ni.ways
        present, exact, empty, chosen = (Signal(ways, name=n) for n in ("present", "exact", "empty", "chosen"))
        for i in range(ways):
            entry = entries[i]
            m.d.comb += [
                present[i].eq(entry.valid & (entry.source == source) & (entry.slot == slot)),
                exact[i].eq(present[i] & (entry.generation == generation) & (entry.incarnation == incarnation)),
                empty[i].eq(~entry.valid),
                chosen[i].eq(Mux(present.any(), present[i], empty[i] & ~empty[:i].any())),
            ]
        found = Signal()
        duplicate, table_full, deliver_full, timer_full = Signal(), Signal(), Signal(), Signal()
        delivers, delivers_be, forgets = Signal(), Signal(), Signal()
        held, orphans, acks_again = Signal(), Signal(), Signal()
        m.d.comb += [
            found.eq(exact.any()),
            duplicate.eq(is_send & ready & found),
            table_full.eq(~present.any() & ~empty.any()),
            deliver_full.eq(~Array(self.room)[fifo] if len(self.room) > 1 else ~self.room),
            timer_full.eq(~self.ack_room),
            delivers.eq(is_send & ready & ~found & ~table_full & ~deliver_full & ~timer_full),
            delivers_be.eq(is_be & ready & ~deliver_full),
            forgets.eq(is_forget & ready & found & for_us),
            held.eq(acking & Array(exact)[way]),
            acks_again.eq(held),
        ]
        limit = system.timers.ack_limit
        if limit:
            m.d.comb += [orphans.eq(held & (old_ack_tries >= limit)), acks_again.eq(held & (old_ack_tries < limit))]

        pushed_way = Signal.like(way)
        for i in reversed(range(ways)):
            with m.If(chosen[i]):
                m.d.comb += pushed_way.eq(i)
        m.d.comb += [
            self.entry.valid.eq(delivers),
            self.entry.source.eq(source),
            self.entry.slot.eq(slot),
            self.entry.generation.eq(generation),
            self.entry.incarnation.eq(incarnation),
            self.write.eq(Mux(delivers, chosen, Mux(forgets | orphans, exact, 0))),
            self.joins.eq(delivers & ~present.any()),
            self.leaves.eq(forgets | orphans),
            self.acts.eq(acts),
            self.record.source.eq(source),
            self.record.cls.eq(cls),
            self.record.length.eq(length),
            self.push.eq(delivers | acks_again),
            self.token.source.eq(source),
            self.token.slot.eq(slot),
            self.token.generation.eq(generation),
            self.token.incarnation.eq(incarnation),
            self.token["try"].eq(echo),
            self.token.way.eq(Mux(acking, way, pushed_way)),
            self.token.tries.eq(Mux(acking, next_ack_tries, 0)),
            self.token.set.eq(look_set),
            self.rung.eq(rung),
            self.eve.eq(self.time_base + (self.wait if system.measured else eve_delay)),
        ]
        for i in range(len(self.commit)):
            here = (fifo == i) if len(self.commit) > 1 else 1
            m.d.comb += self.commit[i].eq((delivers | delivers_be) & here)

        # Replies.
        queues_ack = duplicate | delivers | acks_again
        m.d.comb += [
            self.reply.valid.eq(queues_ack | (is_ack & ready)),
            self.reply.payload.forget.eq(is_ack),
            self.reply.payload.destination.eq(source),
            self.reply.payload.slot.eq(slot),
            self.reply.payload.generation.eq(generation),
            self.reply.payload.incarnation.eq(incarnation),
            self.reply.payload.peer_incarnation.eq(Mux(is_ack, peer_incarnation, self.incarnation)),
            self.reply.payload["try"].eq(echo),
            self.lost_reply.eq(self.reply.valid & ~self.reply.ready),
            self.waiting.eq(acts),
        ]

        if self._dump:
            m.d.comb += [
                self.dumped_valid.eq(*dumping),
                self.dumped.live.eq(live),
                self.dumped.generation.eq(looked.generation),
                self.dumped.destination.eq(looked.destination),
                self.dumped.entries.eq(entries),
            ]

        # What is seen of it.
        drop = Signal(Drop)
        with m.If(~ready):
            m.d.comb += drop.eq(Drop.RESETTING)
        with m.Elif(~sound):
            for check, bit in reversed(list(zip(CHECKS, wrong, strict=True))):
                with m.If(bit):
                    m.d.comb += drop.eq(check)
        with m.Elif(is_send & ~found):
            with m.If(table_full):
                m.d.comb += drop.eq(Drop.TABLE_FULL)
            with m.Elif(deliver_full):
                m.d.comb += drop.eq(Drop.DELIVER_FULL)
            with m.Elif(timer_full):
                m.d.comb += drop.eq(Drop.TIMER_FULL)
        with m.Elif(is_be & deliver_full):
            m.d.comb += drop.eq(Drop.DELIVER_FULL)

        event, shown = Signal(Event), self.shown
        with m.If(acts):
            with m.If(drop != Drop.NONE):
                m.d.comb += [event.eq(Event.DROP), shown.detail.eq(drop)]
            with m.Elif(is_send):
                m.d.comb += event.eq(Mux(found, Event.DUPLICATE, Event.DELIVER))
            with m.Elif(is_be):
                m.d.comb += event.eq(Event.DELIVER_BE)
            with m.Elif(is_ack):
                m.d.comb += event.eq(Mux(release, Event.RELEASE, Event.ACK_IGNORED))
            with m.Else():
                m.d.comb += event.eq(Mux(forgets, Event.FORGOTTEN, Event.FORGET_IGNORED))
        with m.Elif(gives_up):
            m.d.comb += [event.eq(Event.GIVE_UP), shown.detail.eq(cause)]
        with m.Elif(repeats):
            m.d.comb += [event.eq(Event.REPEAT), shown.detail.eq(next_tries)]
        with m.Elif(acks_again):
            m.d.comb += [event.eq(Event.ACK_REPEAT), shown.detail.eq(next_ack_tries)]
        with m.Elif(orphans):
            m.d.comb += event.eq(Event.ORPHAN)

        # A message that was not understood names nobody.
        nameless = acts & (~ready | wrong[: 1 + CHECKS.index(Drop.LENGTH)].any())
        own = ~acts & ~acking
        m.d.comb += shown.event.eq(event)
        with m.If((event != Event.NOTHING) & ~nameless):
            m.d.comb += [
                shown.source.eq(Mux(own, self.node, Mux(acts & (kind == Kind.ACK), destination, source))),
                shown.incarnation.eq(Mux(own, self.incarnation, incarnation)),
                shown.slot.eq(slot),
                shown.generation.eq(generation),
                shown.peer.eq(Mux(own, looked.destination, source)),
            ]
            with m.If(acts & ((kind == Kind.SEND) | (kind == Kind.BE))):
                m.d.comb += shown.length.eq(length)
        return m
