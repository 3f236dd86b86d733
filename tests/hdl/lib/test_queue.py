"""The queue of section 1, cycle by cycle, under random pushes and stalls."""

# A component's members come from its signature when it is made, where no type checker sees them.
# pyright: reportAttributeAccessIssue=false

import random
from collections import deque

import pytest
from amaranth.sim import Simulator

from lethe.lib.queue import Queue


@pytest.mark.parametrize("depth", [1, 2, 3, 5, 8, 33, 40])
@pytest.mark.parametrize("push, pull", [(0.5, 0.5), (0.9, 0.3), (1.0, 1.0), (0.3, 0.9)])
@pytest.mark.parametrize(
    "options",
    [(), ("ahead",), ("counts",), ("foresees",), ("apart",), ("counts", "apart"), ("counts", "apart", "late")],
    ids="-".join,
)
def test_queue(depth, push, pull, options):
    queue, draw = Queue(8, depth, **dict.fromkeys(options, True)), random.Random(depth)
    ahead, apart, late = "ahead" in options, "apart" in options, "late" in options

    async def process(ctx):
        memory, output, shown, next_shown, offer, output_before = deque(), None, 0, None, False, None
        foreseen = None
        for i in range(1500):
            # In large queues a change of mind now and then, so that they fill up and run dry.
            fast, slow = (push, pull) if depth < 33 or i & 128 else (pull, push)
            before = apart and offer
            offer, take = not before and draw.random() < fast, draw.random() < slow
            ctx.set(queue.i.valid, int(offer))
            ctx.set(queue.i.payload, i & 0xFF)
            ctx.set(queue.o.ready, int(take))
            if not before:
                assert ctx.get(queue.level) == len(memory)
                assert ctx.get(queue.i.ready) == (len(memory) < depth)
            if foreseen is not None:
                assert ctx.get(queue.i.ready) == foreseen, "it is ready as was foreseen"
            assert ctx.get(queue.o.valid) == (output is not None)
            assert ctx.get(queue.empty) == (output is None and not memory)
            due = output_before if late else output
            if due is not None:
                assert ctx.get(queue.o.payload) == due
            if next_shown is not None:
                assert next_shown == output, "what was told ahead is shown"
                shown += 1
            joins = offer and len(memory) < depth
            next_shown, output_before = None, output
            foreseen = ctx.get(queue.next_ready) >> joins & 1 if "foresees" in options else None
            if take or output is None:
                next_shown = ctx.get(queue.ahead) if ahead and memory else None
                output = memory.popleft() if memory else None
            if joins:
                memory.append(i & 0xFF)
            await ctx.tick()
        assert shown > 100 or not ahead

    simulator = Simulator(queue)
    simulator.add_clock(1e-6)
    simulator.add_testbench(process)
    simulator.run()


@pytest.mark.parametrize("depth", [32, 33, 64, 200])
@pytest.mark.parametrize("pushes", [1, 2, 3])
def test_a_queue_that_was_filled_does_not_run_dry(depth, pushes):
    """Every entry is at the output two cycles after its push at the latest, however slow the pushes that follow."""
    queue = Queue(16, depth)

    async def process(ctx):
        waiting, taken, number = deque(), 0, 0
        for cycle in range(8 * depth):
            fill = cycle < depth // 2 + 8
            push, take = fill or cycle % pushes == 0, not fill
            ctx.set(queue.i.valid, push)
            ctx.set(queue.i.payload, number)
            ctx.set(queue.o.ready, take)
            if waiting and waiting[0][1] + 2 <= cycle:
                assert ctx.get(queue.o.valid), f"in cycle {cycle} an entry of cycle {waiting[0][1]} is not shown"
            if take and ctx.get(queue.o.valid):
                assert ctx.get(queue.o.payload) == waiting.popleft()[0]
                taken += 1
            if push and ctx.get(queue.i.ready):
                waiting.append((number, cycle))
                number += 1
            await ctx.tick()
        assert taken > 2 * depth

    simulator = Simulator(queue)
    simulator.add_clock(1e-6)
    simulator.add_testbench(process)
    simulator.run()


def test_depth_is_checked():
    with pytest.raises(ValueError, match="depth must be at least 1, not 0"):
        Queue(8, 0)


def test_a_queue_that_is_apart_foresees_nothing():
    with pytest.raises(ValueError, match="does not foresee"):
        Queue(8, 4, apart=True, foresees=True)


@pytest.mark.parametrize("options", [{}, {"ahead": True}, {"apart": True, "ahead": True}])
def test_only_a_queue_that_is_apart_is_late(options):
    with pytest.raises(ValueError, match="late is apart"):
        Queue(8, 4, late=True, **options)
