"""Silent nodes against section 4.14 in Python: the block alone."""

import random
from collections import deque

import pytest
from amaranth.hdl import ResetInserter, Signal
from amaranth.sim import Simulator

from lethe.ni.silence import Silence
from lethe.spec import stages
from lethe.spec.config import System


@pytest.mark.parametrize(("nodes", "after", "period"), [(2, 1, 12), (5, 3, 40), (40, 2, 1)])
def test_counts_and_probes(nodes, after, period):
    """Events in successive cycles, many of one node; every node is judged, probed or not; resets."""
    system = System.make(
        topology={"kind": "crossbar", "nodes": nodes},
        timers={"silent_after": after, "silent_probe": period, "wrap_guard": 0},
    )
    silence, reset, draw = Silence(system), Signal(), random.Random(nodes)
    seen, resets = {(silent, probed): 0 for silent in (0, 1) for probed in (0, 1)}, 0

    async def process(ctx):
        nonlocal resets
        counts, known, probed, passed, walk = [0] * nodes, deque([{}] * (stages.HEARD - 1)), [False] * nodes, 0, 0
        silent, favourite = [False] * nodes, 0
        for cycle in range(6000):
            restart = draw.random() < 0.001
            if draw.random() < 0.05:
                favourite = draw.randrange(nodes)
            walks = walk < nodes
            node = favourite if draw.random() < 0.7 else draw.randrange(nodes)
            hears, answer = not walks and draw.random() < 0.7, draw.random() < 0.25
            judged = favourite if draw.random() < 0.7 else draw.randrange(nodes)
            enable = draw.random() < 0.9
            for port, value in (
                (reset, restart), (silence.link_enable, enable), (silence.clear.valid, walks),
                (silence.clear.index, walk % nodes), (silence.hear.valid, hears), (silence.hear.answer, answer),
                (silence.hear.node, node), (silence.judge.node, judged), (silence.judge.probe, 0),
            ):  # fmt: skip
                ctx.set(port, value)
            found = ctx.get(silence.judge.silent), ctx.get(silence.judge.probed)
            assert found == (silent[judged], probed[judged]), cycle
            seen[found] += 1
            probe = found == (1, 0) and draw.random() < 0.5
            ctx.set(silence.judge.probe, probe)
            # What acts in a cycle is known five cycles later.
            news = {}
            if hears:
                counts[node] = 0 if answer else min(counts[node] + 1, after)
                news = {node: counts[node] == after}
            known.append(news)
            for heard, is_silent in known.popleft().items():
                silent[heard] = is_silent
            if enable:
                passed = (passed + 1) % period
                if not passed:
                    probed = [False] * nodes
            if probe:
                probed[judged] = True
            walk = min(walk + 1, nodes)
            if restart:
                resets += 1
                counts, known, probed, passed, walk = (
                    [0] * nodes,
                    deque([{}] * (stages.HEARD - 1)),
                    [False] * nodes,
                    0,
                    0,
                )
                silent = [False] * nodes
            await ctx.tick()

    simulator = Simulator(ResetInserter(reset)(silence))
    simulator.add_clock(1e-6)
    simulator.add_testbench(process)
    simulator.run()
    assert resets > 1
    assert min(seen.values()) > (20 if period > 1 else 0), seen


def test_no_block_without_silence():
    with pytest.raises(ValueError, match=r"timers.silent_after must not be 0"):
        Silence(System.make())
