"""What the action does to another node's datagram: a delivery, an Ack, a Forget (cycle contract, 4.4, 4.5)."""

from functools import reduce
from operator import or_

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from lethe.spec.config import System
from lethe.spec.events import ACCEPTANCE, Drop
from lethe.spec.ports import REFUSAL_BITS

from .choose import act_layout, echoed
from .deliver import verdict_signature
from .distance import distance_class
from .ladder import push_signature
from .layouts import TRIES_BITS, Records
from .receive_table import same_key, update_signature
from .receiver import fifo_of
from .round_trip import step_of, wait_signature

__all__ = ["ReceiveSide"]


#: What there is of an acceptance port.
ACCEPTANCE_MEMBERS = {"refusal": In(REFUSAL_BITS), "refused": Out(1), "rejects": Out(1), "delivered": Out(1)}


def swept_layout(records: Records) -> data.StructLayout:
    """What names the datagram of an entry beside its source."""
    return data.StructLayout({name: records.entry[name].shape for name in ("slot", "generation", "incarnation")})


class ReceiveSide(wiring.Component):
    """Compares in *c−2*, judges in *c−1*, acts in *c*.

    For an act a way is empty, or holds a datagram of another slot, or another datagram of the same slot, or the
    datagram itself.  The table says it as of *c−4*; acts of *c−4* … *c−1* on the same set change it afterwards.  The
    changes of *c−4* … *c−2* are put in as the table answers, the last in *c−1*.

    Members
    -------
    node, incarnation, time_base, advance : In
        ``advance``: the time base is one more in the next cycle.
    acts : In(`act_layout`) × 4
        What acts in so many cycles: ``acts[0]`` in this one.
    good : In(1)
        ``acts[1]``, if it is a message, passed all checks, and the NI will be ready.
    entries : In
        Those of the set of ``acts[2]``.
    again : In
        The next number of tries of the token that acts; 0 if it is none.
    update : Out(`update_signature`)
        To the receive table.
    verdict : array of Out(`verdict_signature`)
        To the deliver FIFOs; when a message acts, what is not committed is forgotten.
    push : Out(`push_signature`)
        To the Ack ladder.
    wait : Out(`wait_signature`), with measured round trips
        In *c−3* the class and step of a token that may be pushed in *c*; its delay in *c*.
    hit : Out(1)
        In *c*: the datagram is found as the act wants it: a duplicate, an entry that is forgotten or given up, or one
        that is acknowledged again.
    limit : Out(1)
        In *c−1*: an Ack token has had all its tries.
    missed : Out
        In *c*: what a good Send or BE misses: ``table``, ``deliver``, ``timer``.
    acks : Out(1)
        In *c*: an Ack goes to the reply queue.
    refusal : In(2), with ``ni.acceptance``
        In *c*: why a service refuses what is to be delivered to the first FIFO.
    refused, rejects, delivered : Out(1), with ``ni.acceptance``
        In *c*: something was refused; and a REJECT goes to the reply queue; something was not.
    swept : Out, with ``ni.sweep``
        In *c*: {slot, generation, incarnation} of the entry that a sweep erases.
    onward : Out(1), with ``ni.sweep``
        In *c*: a step of a sweep finds nothing in its set.
    """

    def __init__(self, system: System):
        self._system = system
        records = Records(system)
        act = act_layout(system)
        super().__init__(
            {
                "node": In(system.format.node_bits),
                "incarnation": In(system.format.incarnation_bits),
                "time_base": In(system.time_bits),
                "advance": In(1),
                "acts": In(act).array(4),
                "good": In(1),
                "entries": In(records.entries),
                "again": In(TRIES_BITS),
                "update": Out(update_signature(records)),
                "verdict": Out(verdict_signature(system)).array(system.ni.control_classes + 1),
                "push": Out(push_signature(system, records.ack_token)),
                "hit": Out(1),
                "limit": Out(1),
                "missed": Out(data.StructLayout({"table": 1, "deliver": 1, "timer": 1})),
                "acks": Out(1),
                **({"wait": Out(wait_signature(system))} if system.measured else {}),
                **(ACCEPTANCE_MEMBERS if system.ni.acceptance else {}),
                **({"swept": Out(swept_layout(records)), "onward": Out(1)} if system.ni.sweep else {}),
            }
        )

    def elaborate(self, platform):
        m = Module()
        system = self._system
        act, soon, later, latest = self.acts
        ways, way_bits = system.ni.ways, (system.ni.ways - 1).bit_length()

        # c: what is done.  `acts[0]` changes `touched`, those before it `touches`; to a new entry, or to none.
        delivers, erases = Signal(), Signal()
        place, adds, acknowledges, again = Signal(ways), Signal(), Signal(), Signal()
        fresh, stores, joins = Signal(), Signal(), Signal()
        touched = Signal(ways)
        touches, delivered = [Signal(ways, name=f"touches{i}") for i in (1, 2)], Signal(2)
        m.d.comb += touched.eq(Mux(delivers | erases, place, 0))
        m.d.sync += [touches[0].eq(touched), touches[1].eq(touches[0]), delivered.eq(Cat(delivers, delivered))]

        # c−3: how the act stands to those before it, the nearest first.
        past = Signal(act.shape())
        m.d.sync += past.eq(act)
        relation = data.StructLayout({"set": 1, "same": 1, "other": 1})
        nearest, second, third, fourth = related = [Signal(relation, name=f"related{i}") for i in range(1, 5)]
        for own, before in zip(related, (later, soon, act, past), strict=True):
            key = same_key(system, latest, before)
            exact = (latest.generation == before.generation) & (latest.incarnation == before.incarnation)
            # Of one set: `same`: what the other delivers is present to this act; `other`: it is another datagram's, or
            # exact.
            m.d.sync += [own.set.eq(latest.set == before.set), own.same.eq(key), own.other.eq(~key | exact)]
        # For a token only its own way matters; the others are taken by somebody.
        matters = Signal(ways)
        m.d.sync += [matters[i].eq(~latest.acking | (latest.way == i)) for i in range(ways)]

        # A way is two bits: 00 empty, 01 another's, 10 present, 11 exact.
        def becomes(new, own):
            """What a way becomes, for this act, by one before it."""
            return Cat(new & own.other, new & own.same)

        # c−2: what the table says.
        state = [Signal(2, name=f"state{i}") for i in range(ways)]
        exacts, struck, new = Signal(ways), Signal(ways), Signal(2)
        chosen = Signal(ways)
        ours, spent = Signal(), Signal()
        limit = system.timers.ack_limit
        m.d.sync += [
            new.eq(becomes(1, nearest)),
            ours.eq(later.peer_incarnation == self.incarnation),
            spent.eq((later.tries >= limit) if limit else 0),
        ]
        for i in range(ways):
            entry = self.entries[i]
            key = same_key(system, entry, later)
            exact = (entry.generation == later.generation) & (entry.incarnation == later.incarnation)
            by_third, by_fourth = third.set & touches[0][i], fourth.set & touches[1][i]
            m.d.sync += struck[i].eq(nearest.set & chosen[i] & matters[i])
            # What does not wait for the comparisons (else 0), then those, then what this very cycle decides: each is
            # put in by few gates.
            asked, instead = Signal(name=f"asked{i}"), Signal(2, name=f"instead{i}")
            m.d.comb += asked.eq(matters[i] & ~by_third & ~by_fourth & ~later.early & entry.valid)
            with m.If(~matters[i]):
                m.d.comb += instead.eq(0b01)
            with m.Elif(by_third):
                m.d.comb += instead.eq(becomes(delivered[0], third))
            with m.Elif(by_fourth):
                m.d.comb += instead.eq(becomes(delivered[1], fourth))
            mine = second.set & place[i] & matters[i]
            stays, joined = ~(mine & (delivers | erases)), mine & delivers
            m.d.sync += [
                state[i][0].eq(((instead[0] | (asked & (~key | exact))) & stays) | (joined & second.other)),
                state[i][1].eq(((instead[1] | (asked & key)) & stays) | (joined & second.same)),
                exacts[i].eq(((instead.all() | (asked & key & exact)) & stays) | (joined & second.other & second.same)),
            ]

        # A step of a sweep looks for a source, and does nothing where the set has just changed.
        lowest, strikes = self._sweep(m, related, delivers | erases) if system.ni.sweep else (None, None)

        # c−1: what there is when the act comes, both if the one before it delivers and if not: that is known late.
        def judged(delivered):
            """(found, a present way, no empty way and none present, the way to write)."""
            now = []
            for i in range(ways):
                written = struck[i] if delivered else struck[i] & erases
                value = Cat(state[i], exacts[i])
                now.append(Mux(written, Cat(new, new.all()) if delivered else 0, value))
            taken, present = Cat(way[0] for way in now), Cat(way[1] for way in now)
            here = present.any()
            # Without a present way, a way that is not taken is empty.
            frees = [~taken[i] & taken[:i].all() if i else ~taken[i] for i in range(ways)]
            write = Cat(Mux(here, present[i], frees[i]) for i in range(ways))
            if lowest is not None:
                write = Mux(soon.sweeping, lowest, write)
            return Cat(Cat(way[2] for way in now).any(), here, ~here & taken.all(), write)

        found, here, none = Signal(), Signal(), Signal()
        m.d.comb += [
            Cat(found, here, none, chosen).eq(Mux(delivers, judged(True), judged(False))),
            self.limit.eq(spent),
        ]
        sends, forgets = self.good & soon.send, self.good & soon.forget & ours

        def either(value, other):
            return value if other is None else value | other

        m.d.sync += [
            adds.eq(sends),
            acknowledges.eq((sends | (soon.acking & ~spent)) & found),
            fresh.eq(sends & ~found & ~none),
            self.missed.table.eq(sends & none),
            stores.eq((sends & ~found & ~none) | (self.good & soon.best_effort)),
            joins.eq(~here),
            erases.eq(either((forgets | (soon.acking & spent)) & found, strikes)),
            again.eq(soon.acking & ~spent & found),
            self.hit.eq(either((sends | forgets | soon.acking) & found, strikes)),
            place.eq(chosen),
        ]

        # The token: its rung and time are worked out beside all this.
        distance = distance_class(m, system.graph, self.node, latest.source)
        rungs = [Signal.like(act.rung, name=f"rung{i}") for i in range(3)]
        m.d.sync += [
            rungs[2].eq(Mux(latest.message, distance, latest.rung)),
            rungs[1].eq(rungs[2]),
            rungs[0].eq(rungs[1]),
        ]
        if system.measured:
            m.d.comb += [
                self.wait.distance.eq(distance),
                self.wait.step.eq(Mux(latest.message, 0, step_of(system, latest.rung))),
                self.push.eve.eq(self.time_base + self.wait.delay),
            ]
        else:
            delay = Signal(range(max(system.delays) + 1))
            m.d.sync += [
                delay.eq(Array(delay - 1 for delay in system.delays)[rungs[2]]),
                self.push.eve.eq(self.time_base + delay + self.advance),
            ]

        # c: where there is room.
        rooms, several = Cat(verdict.room for verdict in self.verdict), len(self.verdict) > 1
        fifos = Signal(len(self.verdict), init=1)
        room, best_effort = Signal(init=several), Signal()
        m.d.sync += best_effort.eq(self.good & soon.best_effort)
        delivery, commits = fresh & room & self.push.room, [stores & room & (best_effort | self.push.room)]
        commits *= len(self.verdict)
        if system.ni.acceptance:
            # What a service says may come late.
            may, refused = commits[0] & fifos[0], self.refusal.any()
            delivery, commits[0] = delivery & ~(fifos[0] & refused), commits[0] & ~refused
            m.d.comb += [
                self.refused.eq(may & refused),
                self.rejects.eq(may & ~best_effort & (self.refusal == ACCEPTANCE.index(Drop.NOT_OPEN))),
                self.delivered.eq(may & ~refused),
            ]
        m.d.comb += [
            *([] if several else [room.eq((rooms & fifos).any())]),
            delivers.eq(delivery),
            self.missed.deliver.eq(stores & ~room),
            self.missed.timer.eq(fresh & ~self.push.room),
            self.acks.eq(delivers | acknowledges),
        ]
        if several:
            # Which FIFO the next one is for is known, and whether there is room there but for what this one commits.
            coming, kept, added = (Signal(len(self.verdict), name=name) for name in ("coming", "kept", "added"))
            for i, verdict in enumerate(self.verdict):
                without, with_one = verdict.next_room
                m.d.comb += [
                    coming[i].eq(fifo_of(system, soon["class"]) == i),
                    kept[i].eq(without),
                    added[i].eq(Mux(fifos[i], with_one, without)),
                ]
            commit = Cat(verdict.commit for verdict in self.verdict).any()
            m.d.sync += [
                fifos.eq(coming),
                room.eq(Mux(commit, (coming & added).any(), (coming & kept).any())),
            ]
        update, token = self.update, self.push.token
        m.d.comb += [
            update.set.eq(act.set),
            update.ways.eq(touched),
            update.entry.valid.eq(adds),
            *(update.entry[name].eq(act[name]) for name in ("source", "slot", "generation", "incarnation")),
            update.joins.eq(delivers & joins),
            update.leaves.eq(erases),
            self.push.valid.eq(delivers | again),
            *(
                token[name].eq(act[name])
                for name in ("source", "slot", "generation", "incarnation", *echoed(system), "set")
            ),
            *(token.way[b].eq(Cat(place[i] for i in range(ways) if i >> b & 1).any()) for b in range(way_bits)),
            token.tries.eq(self.again),
            self.push.rung.eq(rungs[0]),
        ]
        for i, verdict in enumerate(self.verdict):
            m.d.comb += [
                verdict.commit.eq(commits[i] & fifos[i]),
                verdict.reject.eq(act.message & ~verdict.commit),
                verdict.record.source.eq(act.source),
                verdict.record.cls.eq(act["class"]),
                verdict.record.length.eq(act.length),
            ]
            if system.ni.source_incarnation:
                m.d.comb += verdict.record.incarnation.eq(act.incarnation)
        return m

    def _sweep(self, m, related, changes) -> tuple[Signal, Signal]:
        """A step of a sweep, in *c−1*: the lowest way that holds an entry of its source, and whether it is erased.

        It does nothing if the set has changed after it was read.  ``changes``: what acts in this cycle changes its set.
        """
        lowest, strikes, vague = Signal(self._system.ni.ways), Signal(), Signal()
        act, _, later, _ = self.acts
        nearest, second, third, fourth = related
        ways = self._system.ni.ways
        matched, near, unsure, changed = Signal(ways), Signal(), Signal(), Signal(2)
        stays = Signal()
        layout = self.swept.shape()
        names = [Signal(layout, name=f"names{i}") for i in range(ways)]
        # c−2.
        m.d.sync += [
            changed.eq(Cat(changes, changed)),
            near.eq(nearest.set),
            unsure.eq((second.set & changes) | (third.set & changed[0]) | (fourth.set & changed[1])),
        ]
        for i in range(ways):
            entry = self.entries[i]
            m.d.sync += [
                matched[i].eq(later.sweeping & entry.valid & (entry.source == later.source)),
                *(names[i][name].eq(entry[name]) for name in layout.members),
            ]
        # c−1.
        named = Signal(layout.size)
        m.d.comb += [
            *(lowest[i].eq(matched[i] & ~matched[:i].any() if i else matched[i]) for i in range(ways)),
            vague.eq(unsure | (near & changes)),
            strikes.eq(matched.any() & ~vague),
            named.eq(reduce(or_, (names[i].as_value() & lowest[i].replicate(layout.size) for i in range(ways)))),
        ]
        m.d.sync += [stays.eq(matched.any() | vague), self.swept.eq(named)]
        # c.
        m.d.comb += self.onward.eq(act.sweeping & ~stays)
        return lowest, strikes
