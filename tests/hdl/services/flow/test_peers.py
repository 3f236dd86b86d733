"""Peers: what jobs and attempts write, what is asked of all of them at once, and notices (contract of flow, 4, 9.4)."""

import random

import pytest

from lethe.services.flow.layouts import PeerState as Out
from lethe.services.flow.peers import Peers
from lethe.spec.services.flow import In
from tests.hdl.services.flow.blocks import layouts
from tests.helpers.simulated import simulated, walked

NODES = 4
PORT_BITS = layouts().port_bits
#: What a peer may be after a job.
NEXT: dict[int, tuple[int, ...]] = {
    Out.DOWN: (Out.DOWN, Out.CONNECTING),
    Out.CONNECTING: (Out.CONNECTING, Out.UP, Out.LEAVING),
    Out.UP: (Out.UP, Out.LEAVING),
    Out.LEAVING: (Out.LEAVING, Out.ERROR),
    Out.ERROR: (Out.ERROR, Out.CONNECTING),
}


def played(test) -> None:
    """Runs ``await test(ctx, block)`` after the walk, on four nodes."""
    of = layouts(topology={"kind": "crossbar", "nodes": NODES})
    block = Peers(of, of.system.top_port)

    async def process(ctx):
        await walked(ctx, block, of.initial)
        await test(ctx, block)

    simulated(block, process)


async def job(ctx, block, peer: int, *, out=None, in_=None, **names) -> None:
    """A job changes something of a peer: names of its out and in, and other inputs that are 1."""
    given = {}
    for name, value in (out or {}).items():
        if name in block.kept_word.shape().members:
            given |= {"kept_writes": 1, "kept_word": given.get("kept_word", {}) | {name: value}}
        else:
            given |= {f"{name}_writes": 1, f"{name}_word": value}
            given |= {"wanted_some": int(value > 0)} if name == "wanted" else {}
    if in_ is not None:
        given |= {"source_writes": 1, "source_word": in_}
    given |= dict.fromkeys(names, 1)
    ctx.set(block.job_peer, peer)
    await ctx.tick()
    ctx.set(block.job_steps, 1)
    for name, value in given.items():
        ctx.set(getattr(block, name), value)
    await ctx.tick()
    for name in ("job_steps", *(name for name in given if not name.endswith("word"))):
        ctx.set(getattr(block, name), 0)


async def attempt(ctx, block, peer: int, *names: str) -> None:
    ctx.set(block.attempt_peer, peer)
    for bit in names:
        ctx.set(getattr(block, bit), 1)
    await ctx.tick()
    for bit in names:
        ctx.set(getattr(block, bit), 0)


def asked(ctx, block, name: str) -> int:
    """A bit for each node: what is asked of one after the other."""
    ask, answer, place = {
        "hears": (block.credit_at, block.credit_heard, 1 << PORT_BITS),
        "judged": (block.judged_source, block.judged_open, 1),
        "merged": (block.merged_node, block.merged_open, 1),
    }[name]  # fmt: skip
    found = []
    for node in range(NODES):
        ctx.set(ask, node * place)
        found.append(ctx.get(answer))
    return bits(found)


def bits(of_nodes) -> int:
    """A bit for each node."""
    return sum(holds << node for node, holds in enumerate(of_nodes))


async def out_of(ctx, block, peer: int):
    ctx.set(block.job_peer, peer)
    await ctx.tick()
    return ctx.get(block.peer_out)


def test_an_attempt_that_finds_no_peer_wants_it():
    """DOWN becomes CONNECTING, which is seen; wanted becomes 1, unless it is more already."""

    async def test(ctx, block):
        ctx.set(block.attempt_peer, 2)
        ctx.set(block.attempt_connects, 1)
        assert ctx.get(block.changes) and (ctx.get(block.changed), ctx.get(block.changed_state)) == (2, Out.CONNECTING)
        await attempt(ctx, block, 2, "attempt_connects")
        found = await out_of(ctx, block, 2)
        assert (found.state, found.wanted, found.blocked) == (Out.CONNECTING, 1, 0)
        assert ctx.get(block.candidates) == 0b100 == asked(ctx, block, "hears")
        for state in (Out.LEAVING, Out.ERROR):
            await job(
                ctx, block, 1, out={"state": state, "wanted": 5}, **({"leaves": 1} if state == Out.LEAVING else {})
            )
            await attempt(ctx, block, 1, "attempt_connects")
            found = await out_of(ctx, block, 1)
            assert (found.state, found.wanted) == (state, 5)
            assert ctx.get(block.candidates) == 0b100 and ctx.get(block.troubled)
        await attempt(ctx, block, 3, "attempt_blocked")
        found = await out_of(ctx, block, 3)
        assert found.blocked and found.state == Out.DOWN

    played(test)


@pytest.mark.parametrize("seed", range(3))
def test_what_is_asked_of_all_nodes_at_once(seed):
    """After any changes the bits of all nodes are those of their words."""
    chance = random.Random(seed)

    async def test(ctx, block):
        outs = [{"state": 0, "wanted": 0, "pong": 0} for _ in range(NODES)]
        ins, lives = [0] * NODES, [0] * NODES
        for _ in range(120):
            peer, what = chance.randrange(NODES), chance.randrange(5)
            if what == 0:
                before = outs[peer]["state"]
                if before == Out.LEAVING and lives[peer]:
                    continue
                after = chance.choice(NEXT[before])
                outs[peer] = {
                    "state": after, "wanted": chance.choice((0, 0, 1, 4)), "pong": chance.randrange(2),
                }  # fmt: skip
                also = {"leaves": after == Out.LEAVING != before, "resets": before == Out.ERROR != after}
                await job(ctx, block, peer, out=outs[peer], **{name: 1 for name, is_so in also.items() if is_so})
            elif what == 1:
                ins[peer] = chance.randrange(3)
                await job(ctx, block, peer, in_={"state": ins[peer]})
            elif what == 2 and lives[peer]:
                lives[peer] -= 1
                await job(ctx, block, peer, lives_less=1)
            elif what == 3 and lives[peer] < 4 and outs[peer]["state"] not in (Out.LEAVING, Out.ERROR):
                lives[peer] += 1
                if chance.random() < 0.5:
                    await job(ctx, block, peer, lives_more=1)
                else:
                    await attempt(ctx, block, peer, "attempt_lives")
            await ctx.tick()

            states = [out["state"] for out in outs]
            assert asked(ctx, block, "hears") == bits(state in (Out.CONNECTING, Out.UP) for state in states)
            assert ctx.get(block.candidates) == bits(
                (out["state"] == Out.CONNECTING and out["wanted"] > 0 and not out["pong"]) or state == In.MUTE
                for out, state in zip(outs, ins, strict=True)
            )
            for name in ("judged", "merged"):
                assert asked(ctx, block, name) == bits(state != In.CLOSED for state in ins)
            fled = [s == Out.LEAVING and n > 0 for s, n in zip(states, lives, strict=True)]
            assert bool(ctx.get(block.fled)) == any(fled)
            ctx.set(block.looked_node, peer)
            assert bool(ctx.get(block.looked_leaves)) == (states[peer] == Out.LEAVING)
            ctx.set(block.control_row.node, other := (peer + 1) % NODES)
            assert bool(ctx.get(block.renewed_leaves)) == (states[other] == Out.LEAVING)
            assert bool(ctx.get(block.troubled)) == bool({Out.LEAVING, Out.ERROR} & set(states))
            ctx.set(block.job_peer, peer)
            await ctx.tick()
            found = ctx.get(block.peer_out)
            assert {name: found[name] for name in outs[peer]} == outs[peer]
            assert ctx.get(block.peer_in).state == ins[peer] and bool(ctx.get(block.peer_lives)) == (lives[peer] > 0)

    played(test)


@pytest.mark.parametrize("state", [Out.DOWN, Out.CONNECTING, Out.UP, Out.LEAVING, Out.ERROR])
@pytest.mark.parametrize("pong", [0, 1])
def test_who_may_be_probed_after_an_attempt(state, pong):
    """A peer that is wanted by it, unless a PONG has come; one that is not to be probed stays so."""

    async def test(ctx, block):
        await job(ctx, block, 1, out={"state": state, "wanted": 0, "pong": pong})
        await ctx.tick()
        assert ctx.get(block.candidates) == 0
        await attempt(ctx, block, 1, "attempt_connects")
        seeks = state in (Out.DOWN, Out.CONNECTING) and not pong
        assert ctx.get(block.candidates) == seeks << 1
        await job(ctx, block, 1, in_={"state": In.MUTE})
        await attempt(ctx, block, 1, "attempt_connects")
        assert ctx.get(block.candidates) == 0b10

    played(test)


def test_notices():
    """A node is told of once, as it is when the host looks; one that is taken in this cycle is there no more."""

    async def test(ctx, block):
        async def taken() -> tuple:
            found = ctx.get(block.notice.payload)
            assert ctx.get(block.notice.valid)
            ctx.set(block.notice.ready, 1)
            await ctx.tick()
            ctx.set(block.notice.ready, 0)
            await ctx.tick().repeat(2)
            return found.peer, found.up, found.map

        assert ctx.get(block.no_notices)
        for peer in (2, 1, 2):
            await job(ctx, block, peer, notices=1)
        await job(ctx, block, 2, out={"state": Out.UP, "map": 5})
        await ctx.tick().repeat(2)
        assert not ctx.get(block.no_notices)
        assert await taken() == (2, 1, 5)
        assert await taken() == (1, 0, 0)
        assert ctx.get(block.no_notices) and not ctx.get(block.notice.valid)
        await job(ctx, block, 3, notices=1)
        await ctx.tick().repeat(2)
        ctx.set(block.job_peer, 3)
        ctx.set(block.notice.ready, 1)
        ctx.set(block.notices, 1)  # in the cycle in which it is taken
        await ctx.tick()
        ctx.set(block.notices, 0)
        ctx.set(block.notice.ready, 0)
        await ctx.tick().repeat(2)
        assert await taken() == (3, 0, 0)
        assert ctx.get(block.no_notices)

    played(test)


def test_an_attempt_beside_the_job_s_peer():
    """What it changes is seen in the next cycle, and that it did; of another peer nothing is."""

    async def test(ctx, block):
        ctx.set(block.job_peer, 2)
        ctx.set(block.attempt_peer, 2)
        await ctx.tick().repeat(2)
        await attempt(ctx, block, 2, "attempt_connects")
        found = ctx.get(block.peer_out)
        assert (found.state, found.wanted) == (Out.CONNECTING, 1) and ctx.get(block.was_sought)
        assert ctx.get(block.candidates) == 0b100
        await attempt(ctx, block, 2, "attempt_blocked")
        assert ctx.get(block.peer_out).blocked and ctx.get(block.was_moved) and not ctx.get(block.was_sought)
        await attempt(ctx, block, 2, "attempt_lives")
        assert ctx.get(block.peer_lives) and ctx.get(block.was_moved)
        ctx.set(block.attempt_peer, 1)
        await ctx.tick().repeat(2)
        for what in ("attempt_connects", "attempt_blocked", "attempt_lives"):
            await attempt(ctx, block, 1, what)
            assert not ctx.get(block.was_sought) and not ctx.get(block.was_moved)
        assert ctx.get(block.peer_out).state == Out.CONNECTING

    played(test)
