"""What the action does to another node's datagram: a delivery, an Ack, a Forget (cycle contract, 4.4, 4.5)."""

from amaranth.hdl import Array, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from lethe.spec.config import System

from .choose import act_layout
from .deliver import verdict_signature
from .ladder import push_signature
from .layouts import TRIES_BITS, Records
from .receive_table import update_signature
from .receiver import fifo_of

__all__ = ["ReceiveSide"]


class ReceiveSide(wiring.Component):
    """Judges in *c* by the entries of the set; combinational.

    Members
    -------
    ready, time_base : In
    act : In(`act_layout`), entries : In
        What acts, and the entries of its set.
    update : Out(`update_signature`)
        To the receive table.
    verdict : array of Out(`verdict_signature`)
        To the deliver FIFOs; while a message acts, what is not committed is forgotten.
    push : Out(`push_signature`)
        To the Ack ladder.
    delay : In, with measured round trips
        The delay of that token, less one.
    done : Out
        What was done: a message ``found`` its entry, or missed a place (``table_full``, ``deliver_full``,
        ``timer_full``); an entry ends (``forgets``, ``orphans``); ``acks``: an Ack goes to the reply queue, by a token
        if it ``acks_again``, then for the ``tries``-th time.
    """

    def __init__(self, system: System):
        self._system = system
        records = Records(system)
        flags = (
            "found", "table_full", "deliver_full", "timer_full", "forgets", "orphans", "acks", "acks_again",
        )  # fmt: skip
        super().__init__(
            {
                "ready": In(1),
                "time_base": In(system.time_bits),
                "act": In(act_layout(system)),
                "entries": In(records.entries),
                "update": Out(update_signature(records)),
                "verdict": Out(verdict_signature(records)).array(system.ni.control_classes + 1),
                "push": Out(push_signature(system, records.ack_token)),
                "done": Out(data.StructLayout({**dict.fromkeys(flags, 1), "tries": TRIES_BITS})),
                **({"delay": In(system.time_bits)} if system.measured else {}),
            }
        )

    def elaborate(self, platform):
        m = Module()
        system = self._system
        act, entries, ready = self.act, self.entries, self.ready
        fifo = fifo_of(system, act["class"])

        ways = system.ni.ways
        present, exact, empty, chosen = (Signal(ways, name=n) for n in ("present", "exact", "empty", "chosen"))
        for i in range(ways):
            entry = entries[i]
            m.d.comb += [
                present[i].eq(entry.valid & (entry.source == act.source) & (entry.slot == act.slot)),
                exact[i].eq(present[i] & (entry.generation == act.generation) & (entry.incarnation == act.incarnation)),
                empty[i].eq(~entry.valid),
                chosen[i].eq(Mux(present.any(), present[i], empty[i] & ~empty[:i].any())),
            ]
        found = Signal()
        duplicate, table_full, deliver_full, timer_full = Signal(), Signal(), Signal(), Signal()
        delivers, delivers_be, forgets = Signal(), Signal(), Signal()
        held, orphans, acks_again = Signal(), Signal(), Signal()
        room = [verdict.room for verdict in self.verdict]
        m.d.comb += [
            found.eq(exact.any()),
            duplicate.eq(act.send & ready & found),
            table_full.eq(~present.any() & ~empty.any()),
            deliver_full.eq(~(Array(room)[fifo] if len(room) > 1 else room[0])),
            timer_full.eq(~self.push.room),
            delivers.eq(act.send & ready & ~found & ~table_full & ~deliver_full & ~timer_full),
            delivers_be.eq(act.best_effort & ready & ~deliver_full),
            forgets.eq(act.forget & ready & found & act.for_us),
            held.eq(act.acking & Array(exact)[act.way]),
            acks_again.eq(held),
        ]
        limit = system.timers.ack_limit
        if limit:
            m.d.comb += [orphans.eq(held & (act.ack_tries >= limit)), acks_again.eq(held & (act.ack_tries < limit))]

        pushed_way, tries = Signal.like(act.way), Signal(TRIES_BITS)
        for i in reversed(range(ways)):
            with m.If(chosen[i]):
                m.d.comb += pushed_way.eq(i)
        update, token, done = self.update, self.push.token, self.done
        m.d.comb += [
            tries.eq(Mux(act.ack_tries == 255, 255, act.ack_tries + 1)),
            update.entry.valid.eq(delivers),
            *(update.entry[name].eq(act[name]) for name in ("source", "slot", "generation", "incarnation")),
            update.ways.eq(Mux(delivers, chosen, Mux(forgets | orphans, exact, 0))),
            update.joins.eq(delivers & ~present.any()),
            update.leaves.eq(forgets | orphans),
            self.push.valid.eq(delivers | acks_again),
            *(token[name].eq(act[name]) for name in ("source", "slot", "generation", "incarnation", "try", "set")),
            token.way.eq(Mux(act.acking, act.way, pushed_way)),
            token.tries.eq(Mux(act.acking, tries, 0)),
            self.push.rung.eq(act.rung),
            self.push.eve.eq(self.time_base + (self.delay if system.measured else act.delay)),
            done.found.eq(found),
            done.table_full.eq(table_full),
            done.deliver_full.eq(deliver_full),
            done.timer_full.eq(timer_full),
            done.forgets.eq(forgets),
            done.orphans.eq(orphans),
            done.acks.eq(duplicate | delivers | acks_again),
            done.acks_again.eq(acks_again),
            done.tries.eq(tries),
        ]
        for i, verdict in enumerate(self.verdict):
            here = (fifo == i) if len(self.verdict) > 1 else 1
            m.d.comb += [
                verdict.commit.eq((delivers | delivers_be) & here),
                verdict.reject.eq(act.message & ~verdict.commit),
                verdict.record.source.eq(act.source),
                verdict.record.cls.eq(act["class"]),
                verdict.record.length.eq(act.length),
            ]
            if system.ni.source_incarnation:
                m.d.comb += verdict.record.incarnation.eq(act.incarnation)
        return m
