"""Peers and sources: what every node is to this one (contract of flow, section 4)."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from lethe.host import host_records
from lethe.lib.queue import Queue
from lethe.spec.ports import HostPort
from lethe.spec.services.flow import In as Source
from lethe.spec.services.flow import Out as Peer

from .layouts import Layouts
from .table import Words

__all__ = ["Peers"]


class Peers(wiring.Component):
    """The state of out and in for each node.  Jobs write all of it, attempts some; never in one cycle.

    Parameters
    ----------
    layouts : of the configuration
    above : the port above

    Members
    -------
    job_peer, peer_out, peer_in, peer_life, peer_lives : In, Out
        A node, and in this very cycle its out, in and life, and, while a job acts, whether live is not 0.
    job_acts : In(1)
    out_writes, out_word, in_writes, in_word, life_writes, life_word, lives_more, lives_less : In
        What a job changes of it.
    attempt_peer, attempt_out, attempt_connects, attempt_blocked, attempt_lives : In, Out, In, In, In
        The same of a record that waits: it is wanted, and no more DOWN; it is blocked; a datagram more.
    notices : In(1)
        The host is to be noticed of ``job_peer``.
    notice : Out(stream)
        Of the port above.
    opened, hears, seeks, mute : Out(nodes)
        Sources that are not closed; peers CONNECTING or UP; those that are to be probed; sources that are mute.
    fled, troubled : Out(1)
        A peer is LEAVING while something is under way to it; one is LEAVING or ERROR.
    looked_node, looked_leaves : In, Out
        A node, and in this very cycle whether it is LEAVING.
    changes, changed, changed_state : Out
        A peer has another state, for the trace.
    no_notices : Out(1)
    clear, clear_addr : In
    """

    def __init__(self, layouts: Layouts, above: HostPort):
        self._layouts = layouts
        of = layouts
        notice = host_records(of.system, above)["notice"]
        super().__init__(
            {
                "job_peer": In(of.node_bits), "peer_out": Out(of.out), "peer_in": Out(of.in_),
                "peer_life": Out(of.life), "peer_lives": Out(1), "job_acts": In(1),
                "out_writes": In(1), "out_word": In(of.out), "in_writes": In(1), "in_word": In(of.in_),
                "life_writes": In(1), "life_word": In(of.life), "lives_more": In(1), "lives_less": In(1),
                "attempt_peer": In(of.node_bits), "attempt_out": Out(of.out), "attempt_connects": In(1),
                "attempt_blocked": In(1),
                "attempt_lives": In(1), "notices": In(1), "notice": Out(stream.Signature(notice)),
                **dict.fromkeys(("opened", "hears", "seeks", "mute"), Out(of.nodes)),
                "fled": Out(1), "looked_node": In(of.node_bits), "looked_leaves": Out(1),
                "changes": Out(1), "changed": Out(of.node_bits), "changed_state": Out(3), "no_notices": Out(1),
                "troubled": Out(1),
                "clear": In(1), "clear_addr": In(range(of.initial)),
            }
        )  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        of = self._layouts
        m.submodules.outs = outs = Words(of.out, of.nodes, ("job", "attempt", "notice"))
        m.submodules.ins = ins = Words(of.in_, of.nodes, ("job",))
        m.submodules.lives_of = lives_of = Words(of.life, of.nodes, ("job",))
        m.submodules.live = live = Words((of.slots + 3).bit_length(), of.nodes, ("now",))
        for table in (outs, ins, lives_of, live):
            m.d.comb += [
                table.clear.eq(self.clear & (self.clear_addr < of.nodes)),
                table.clear_addr.eq(self.clear_addr),
            ]
        who, out_word = Signal(of.node_bits), Signal(of.out)
        writes = self.out_writes | self.attempt_connects | self.attempt_blocked
        m.d.comb += [
            who.eq(Mux(self.job_acts, self.job_peer, self.attempt_peer)),
            out_word.eq(Mux(self.out_writes, self.out_word, outs.attempt)),
            outs.job_addr.eq(self.job_peer),
            outs.attempt_addr.eq(self.attempt_peer),
            self.peer_out.eq(outs.job),
            self.attempt_out.eq(outs.attempt),
            outs.write_en.eq(writes),
            outs.write_addr.eq(who),
            outs.write.eq(out_word),
            ins.job_addr.eq(self.job_peer),
            self.peer_in.eq(ins.job),
            ins.write_en.eq(self.in_writes),
            ins.write_addr.eq(self.job_peer),
            ins.write.eq(self.in_word),
            lives_of.job_addr.eq(self.job_peer),
            self.peer_life.eq(lives_of.job),
            lives_of.write_en.eq(self.life_writes),
            lives_of.write_addr.eq(self.job_peer),
            lives_of.write.eq(self.life_word),
            live.now_addr.eq(who),
            live.write_en.eq(self.lives_more | self.lives_less | self.attempt_lives),
            live.write_addr.eq(who),
            live.write.eq(Mux(self.lives_less, live.now - 1, live.now + 1)),
            self.peer_lives.eq(live.now.any()),
        ]
        with m.If(self.attempt_connects):
            with m.If(~outs.attempt.wanted.any()):
                m.d.comb += out_word.wanted.eq(1)
            with m.If(outs.attempt.state == Peer.DOWN):
                m.d.comb += out_word.state.eq(Peer.CONNECTING)
        with m.If(self.attempt_blocked):
            m.d.comb += out_word.blocked.eq(1)

        # What is asked of all nodes at once.
        here, source = Signal(of.nodes), Signal(of.nodes)
        m.d.comb += [here.eq(1 << who), source.eq(1 << self.job_peer)]

        def kept(bits, condition, now, where):
            with m.If(condition):
                m.d.sync += bits.eq((bits & ~where) | Mux(now, where, 0))

        state, before, after = out_word.state, Signal(3), Signal(3)
        m.d.comb += [
            before.eq(Mux(self.job_acts, outs.job.state, outs.attempt.state)),
            after.eq(Mux(writes, state, before)),
        ]
        hears, seeks, opened, mute = (Signal(of.nodes, name=name) for name in ("heard", "sought", "open", "muted"))
        connecting = state == Peer.CONNECTING
        kept(hears, writes, connecting | (state == Peer.UP), here)
        kept(seeks, writes, connecting & out_word.wanted.any() & ~out_word.pong, here)
        kept(opened, self.in_writes, self.in_word.state != Source.CLOSED, source)
        kept(mute, self.in_writes, self.in_word.state == Source.MUTE, source)
        m.d.comb += [
            self.hears.eq(hears), self.seeks.eq(seeks), self.opened.eq(opened), self.mute.eq(mute),
            self.changes.eq(writes & (state != before)),
            self.changed.eq(who),
            self.changed_state.eq(state),
        ]  # fmt: skip

        # How many peers are so, as the one that changes was and will be.
        def counted(name: str, was, will_be):
            count = Signal(range(of.nodes + 1), name=f"{name}_peers")
            m.d.sync += count.eq(count + (will_be & ~was) - (was & ~will_be))
            return count.any()

        lived, lives = live.now.any(), Mux(live.write_en, live.write.any(), live.now.any())
        m.d.comb += [
            self.fled.eq(counted("fled", (before == Peer.LEAVING) & lived, (after == Peer.LEAVING) & lives)),
            self.troubled.eq(counted("troubled", _troubled(before), _troubled(after))),
        ]
        m.submodules.leaving = leaving = Words(1, of.nodes, ("looked",))
        m.d.comb += [
            leaving.clear.eq(self.clear & (self.clear_addr < of.nodes)),
            leaving.clear_addr.eq(self.clear_addr),
            leaving.write_en.eq(writes),
            leaving.write_addr.eq(who),
            leaving.write.eq(state == Peer.LEAVING),
            leaving.looked_addr.eq(self.looked_node),
            self.looked_leaves.eq(leaving.looked),
        ]

        # The host is told of a node once, as it is when it looks.
        m.submodules.waiting = waiting = Queue(of.node_bits, of.nodes)
        told, first = Signal(of.nodes), waiting.o.payload
        taken, gone = Signal(), Signal(of.nodes)
        m.d.comb += [
            outs.notice_addr.eq(first),
            self.notice.valid.eq(waiting.o.valid),
            self.notice.payload.peer.eq(first),
            self.notice.payload.up.eq(outs.notice.state == Peer.UP),
            self.notice.payload.map.eq(outs.notice.map),
            taken.eq(self.notice.valid & self.notice.ready),
            gone.eq(Mux(taken, 1 << first, 0)),
            waiting.o.ready.eq(taken),
            waiting.i.payload.eq(self.job_peer),
            waiting.i.valid.eq(self.notices & ~(told & ~gone & source).any()),
            self.no_notices.eq(waiting.empty),
        ]
        m.d.sync += told.eq((told & ~gone) | Mux(self.notices, source, 0))
        return m


def _troubled(state):
    return (state == Peer.LEAVING) | (state == Peer.ERROR)
