"""Peers and sources: what every node is to this one (contract of flow, section 4)."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from lethe.host import host_records
from lethe.lib.queue import Queue
from lethe.lib.table import Words
from lethe.spec.ports import HostPort
from lethe.spec.services.flow import In as Source

from .bits import SharedBits
from .layouts import STATE_BITS, Layouts, PeerState

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
        A node, and in the next cycle its out, in and life, and whether live is not 0, as of the start of that cycle.
    was_sought, was_moved : Out(1)
        In the cycle before, an attempt made the job's peer wanted, or CONNECTING; made it blocked, or sent to it.
    job_steps : In(1)
        A job acts that may change any of this.
    state_writes, wanted_writes, kept_writes, map_writes, learns : In
    state_word, wanted_word, wanted_some, kept_word, map_word, learnt : In
        What a job changes of its out; ``learns``: the incarnation; ``wanted_some``: ``wanted_word`` is not 0.
    unblocks : In(1)
        It is blocked no more.
    leaves, resets : In(1)
        Beside ``state_writes``: it becomes LEAVING; it is no more ERROR.
    source_writes, source_word, source_knows, source_known, life_writes, life_word : In
        What a job changes of its in, and of its life.
    lives_more, lives_less : In(1)
        Of live.
    attempt_peer, attempt_out, attempt_connects, attempt_blocked, attempt_lives : In, Out, In, In, In
        The peer of a record that waits, and in this very cycle state, map and incarnation of its out; it is wanted, and
        no more DOWN; it is blocked; a datagram more.
    notices : In(1)
        The host is to be noticed of ``job_peer``.
    notice : Out(stream)
        Of the port above.
    candidates : Out(nodes)
        Peers that are CONNECTING, wanted and have sent no PONG, and sources that are mute: those that may be probed.
    judged_source, judged_open, merged_node, merged_open, credit_at, credit_heard : In, Out
        A node, and in this very cycle whether it is no source that is closed; a stream, and whether the peer of it is
        CONNECTING or UP.
    fled, troubled : Out(1)
        A peer is LEAVING while something is under way to it; one is LEAVING or ERROR.
    looked_node, looked_leaves, control_row, renewed_leaves : In, Out, In, Out
        Whether a node is LEAVING, in this very cycle: ``looked_node``, and the node of ``control_row``.
    changes, changed, changed_state : Out
        A peer has another state, for the trace.
    no_notices : Out(1)
    nodes_clear, nodes_clear_addr : In
        The walk over nodes after a reset.
    """

    def __init__(self, layouts: Layouts, above: HostPort):
        self._layouts = layouts
        of = layouts
        notice = host_records(of.system, above)["notice"]
        super().__init__(
            {
                "job_peer": In(of.node_bits), "peer_out": Out(of.out), "peer_in": Out(of.in_),
                "peer_life": Out(of.life), "peer_lives": Out(1), "was_sought": Out(1), "was_moved": Out(1),
                "job_steps": In(1),
                "state_writes": In(1), "state_word": In(STATE_BITS), "wanted_writes": In(1), "wanted_word": In(3),
                "wanted_some": In(1),
                "kept_writes": In(1), "kept_word": In(of.kept), "map_writes": In(1), "map_word": In(of.ports),
                "learns": In(1), "learnt": In(sum(of.learnt.values())),
                "unblocks": In(1), "leaves": In(1), "resets": In(1),
                "source_writes": In(1), "source_word": In(of.source), "source_knows": In(1),
                "source_known": In(of.known),
                "life_writes": In(1), "life_word": In(of.life), "lives_more": In(1), "lives_less": In(1),
                "attempt_peer": In(of.node_bits), "attempt_out": Out(of.sought), "attempt_connects": In(1),
                "attempt_blocked": In(1),
                "attempt_lives": In(1), "notices": In(1), "notice": Out(stream.Signature(notice)),
                "candidates": Out(of.nodes), "judged_source": In(of.node_bits), "judged_open": Out(1),
                "merged_node": In(of.node_bits), "merged_open": Out(1), "credit_at": In(of.stream_bits),
                "credit_heard": Out(1),
                "fled": Out(1), "looked_node": In(of.node_bits), "looked_leaves": Out(1),
                "control_row": In(of.control_row), "renewed_leaves": Out(1),
                "changes": Out(1), "changed": Out(of.node_bits), "changed_state": Out(3), "no_notices": Out(1),
                "troubled": Out(1),
                "nodes_clear": In(1), "nodes_clear_addr": In(of.node_bits),
            }
        )  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        of = self._layouts
        self._m, self._same = m, Signal()
        attempt = self.attempt_out
        connects = Signal()  # an attempt, to a peer that is DOWN
        who = Signal(of.node_bits)
        m.d.comb += [
            who.eq(Mux(self.job_steps, self.job_peer, self.attempt_peer)),
            connects.eq(self.attempt_connects & PeerState.DOWN.of(attempt.state)),
        ]
        m.d.comb += self._same.eq(self.attempt_peer == self.job_peer)
        m.d.sync += [
            self.was_sought.eq(self.attempt_connects & self._same),
            self.was_moved.eq((self.attempt_lives | self.attempt_blocked) & self._same),
        ]

        # What only jobs change.
        kept = [self.peer_out[name] for name in of.kept.members]
        self._shared("kept", of.kept, self.kept_writes, self.kept_word, self.job_peer, kept, jobs_only=True)
        maps = self._kept("maps", of.ports, self.map_writes, self.map_word, self.peer_out.map, ("attempt", "notice"))
        lives = self._kept(
            "incarnations", len(self.learnt), self.learns, self.learnt, [self.peer_out[name] for name in of.learnt],
            ("attempt",),
        )  # fmt: skip
        sources = [self.peer_in[name] for name in of.source.members]
        self._shared("sources", of.source, self.source_writes, self.source_word, self.job_peer, sources, jobs_only=True)
        known = [self.peer_in[name] for name in of.known.members]
        self._kept("known", of.known, self.source_knows, self.source_known, known)
        self._kept("lives_of", of.life, self.life_writes, self.life_word, self.peer_life)

        # What attempts change, too.
        state, state_writes = Signal(STATE_BITS), Signal()
        m.d.comb += [
            state.eq(Mux(self.state_writes, self.state_word, PeerState.CONNECTING)),
            state_writes.eq(self.state_writes | connects),
        ]
        states = self._shared(
            "states", STATE_BITS, state_writes, state, who, self.peer_out.state, ("attempt", "notice")
        )  # fmt: skip
        wanted = Signal(3)
        # One that is wanted already stays so.
        keeps = Signal()
        m.d.comb += wanted.eq(Mux(self.wanted_writes, self.wanted_word, 1))
        wants = self._shared(
            "wants", 3, self.wanted_writes | (self.attempt_connects & ~keeps), wanted, who, self.peer_out.wanted,
            ("attempt",),
        )  # fmt: skip
        self._shared(
            "blocks", 1, self.unblocks | self.attempt_blocked, self.attempt_blocked, who, self.peer_out.blocked
        )
        m.d.comb += [
            keeps.eq(wants.attempt.any()),
            *(table.attempt_addr.eq(self.attempt_peer) for table in (maps, lives, states, wants)),
            attempt.state.eq(states.attempt),
            attempt.map.eq(maps.attempt),
            Cat(attempt[name] for name in of.learnt).eq(lives.attempt),
        ]

        # Live, and how many peers are LEAVING with something under way, and how many are LEAVING or ERROR.
        m.submodules.live = live = Words((of.slots + 3).bit_length(), of.nodes, ("now", "job"))
        one, alive = Signal(), Signal()
        last, hit = Signal(), Signal()
        m.d.comb += [
            live.clear.eq(self.nodes_clear),
            live.clear_addr.eq(self.nodes_clear_addr),
            live.now_addr.eq(who),
            live.job_addr.eq(self.job_peer),
            live.write_en.eq(self.lives_more | self.lives_less | self.attempt_lives),
            live.write_addr.eq(who),
            live.write.eq(live.now + Mux(self.lives_less, -1, 1)),
            hit.eq(live.write_en & (self.job_steps | self._same)),
            last.eq(self.lives_less & one),
            self.peer_lives.eq(alive),
        ]
        m.d.sync += [
            one.eq(Mux(hit, live.write == 1, live.job == 1)), alive.eq(Mux(hit, live.write.any(), live.job.any())),
        ]  # fmt: skip
        leaving = PeerState.LEAVING.of(self.peer_out.state)
        fled, troubled = Signal(range(of.nodes + 1)), Signal(range(of.nodes + 1))
        m.d.sync += [
            fled.eq(fled + (self.leaves & alive & ~last) - (leaving & last)),
            troubled.eq(troubled + self.leaves - self.resets),
        ]
        m.d.comb += [self.fled.eq(fled.any()), self.troubled.eq(troubled.any())]

        # What is asked of all nodes at once: of the one that changes it is known what it becomes.
        ponged = self._asked("ponged", self.kept_writes, self.job_peer, self.kept_word.pong, ("attempt",))
        connecting, needed, pong, mute = Signal(), Signal(), Signal(), Signal()
        may_seek, sought = Signal(), Signal()
        out, in_ = self.peer_out, self.peer_in
        m.d.comb += [
            connecting.eq(PeerState.CONNECTING.of(Mux(self.state_writes, self.state_word, out.state))),
            needed.eq(Mux(self.wanted_writes, self.wanted_some, out.wanted.any())),
            pong.eq(Mux(self.kept_writes, self.kept_word.pong, out.pong)),
            mute.eq(Mux(self.source_writes, self.source_word.state, in_.state) == Source.MUTE),
            ponged.attempt_addr.eq(self.attempt_peer),
            may_seek.eq((PeerState.DOWN.of(attempt.state) | PeerState.CONNECTING.of(attempt.state)) & ~ponged.attempt),
            # An attempt can make it one of these, never one no more.
            sought.eq(~self.job_steps | (connecting & needed & ~pong) | mute),
        ]
        # A change waits in registers for a cycle; who looks sees it already.
        whose, becomes, bits = Signal(of.nodes), Signal(), Signal(of.nodes)
        changes = self.job_steps | (self.attempt_connects & may_seek)
        m.d.sync += [whose.eq(Mux(changes, 1 << who, 0)), becomes.eq(sought), bits.eq(self.candidates)]
        m.d.comb += self.candidates.eq(Cat(Mux(its, becomes, bit) for its, bit in zip(whose, bits, strict=True)))
        opened = self._asked(
            "opened", self.source_writes, self.job_peer, self.source_word.state != Source.CLOSED, ("judged", "merged")
        )
        hears = self._asked(
            "hears", state_writes, who, PeerState.CONNECTING.of(state) | PeerState.UP.of(state), ("credit",)
        )
        away = self._asked(
            "leaving",
            self.state_writes,
            self.job_peer,
            PeerState.LEAVING.of(self.state_word),
            ("looked", "renewed"),
        )
        m.d.comb += [
            opened.judged_addr.eq(self.judged_source),
            self.judged_open.eq(opened.judged & ~self.nodes_clear),
            opened.merged_addr.eq(self.merged_node),
            self.merged_open.eq(opened.merged & ~self.nodes_clear),
            hears.credit_addr.eq(self.credit_at[of.port_bits :]),
            self.credit_heard.eq(hears.credit),
            away.looked_addr.eq(self.looked_node),
            self.looked_leaves.eq(away.looked),
            away.renewed_addr.eq(self.control_row.node),
            self.renewed_leaves.eq(away.renewed),
            self.changes.eq(state_writes & (state != Mux(self.job_steps, self.peer_out.state, attempt.state))),
            self.changed.eq(who),
            self.changed_state.eq(Cat(state[0] | state[2], state[1] | state[2], state[3])),
        ]

        # The host is told of a node once, as it is when it looks.
        m.submodules.waiting = waiting = Queue(of.node_bits, of.nodes)
        m.submodules.told = told = SharedBits(of.nodes, ("noticed", "gone"), ("there",))
        first, there, taken = waiting.o.payload, Signal(), Signal()
        m.d.comb += [
            maps.notice_addr.eq(first),
            states.notice_addr.eq(first),
            self.notice.valid.eq(waiting.o.valid),
            self.notice.payload.peer.eq(first),
            self.notice.payload.up.eq(PeerState.UP.of(states.notice)),
            self.notice.payload.map.eq(maps.notice),
            taken.eq(self.notice.valid & self.notice.ready),
            told.clear.eq(self.nodes_clear),
            told.clear_addr.eq(self.nodes_clear_addr),
            told.noticed_en.eq(self.notices),
            told.noticed_addr.eq(self.job_peer),
            told.noticed.eq(1),
            told.gone_en.eq(taken),
            told.gone_addr.eq(first),
            told.gone.eq(0),
            told.there_addr.eq(self.job_peer),
            waiting.o.ready.eq(taken),
            waiting.i.payload.eq(self.job_peer),
            waiting.i.valid.eq(self.notices & ~there),
            self.no_notices.eq(waiting.empty),
            there.eq(told.there & ~(taken & (first == self.job_peer))),
        ]
        return m

    def _kept(self, name: str, shape, writes, word, shown, readers=()):
        """A table that only jobs write, of the job's node; what it holds of that is ``shown``, a cycle late.

        A job that writes it asks it for nothing in its further steps, and by the next job it is there.
        """
        table, register = self._read(name, shape, writes, word, self.job_peer, shown, readers)
        self._m.d.sync += register.eq(table.job)
        return table

    def _shared(self, name: str, shape, writes, word, who, shown, readers=(), *, jobs_only: bool = False):
        """A table whose word of the job's node is ``shown`` in a register, with what is being written."""
        table, register = self._read(name, shape, writes, word, who, shown, readers)
        hits = writes if jobs_only else writes & (self.job_steps | self._same)
        self._m.d.sync += register.eq(Mux(hits, word, table.job))
        return table

    def _read(self, name: str, shape, writes, word, who, shown, readers):
        """A table, and the register that shows its word of the job's node."""
        table = self._asked(name, writes, who, word, ("job", *readers), shape)
        self._m.d.comb += table.job_addr.eq(self.job_peer)
        return table, Cat(*shown) if isinstance(shown, list) else Value.cast(shown)

    def _asked(self, name: str, writes, who, word, readers, shape=1) -> Words:
        """A table with a word for each node, which is 0 at first."""
        m, of = self._m, self._layouts
        m.submodules[name] = table = Words(shape, of.nodes, readers)
        m.d.comb += [
            table.clear.eq(self.nodes_clear),
            table.clear_addr.eq(self.nodes_clear_addr),
            table.write_en.eq(writes),
            table.write_addr.eq(who),
            table.write.eq(word),
        ]
        return table
