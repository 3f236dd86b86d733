"""Deliver FIFOs: commit and rollback against section 4.8."""

import random
from collections import deque

import pytest
from amaranth.sim import Simulator

from lethe.ni.deliver import DeliverFifo
from lethe.spec.config import System


@pytest.mark.parametrize("flits, records, pull", [(4, 2, 0.5), (5, 3, 0.2), (7, 2, 0.9)])
@pytest.mark.parametrize("classes", [0, 1])
def test_commit_and_rollback(flits, records, pull, classes):
    system = System.make(
        topology={"kind": "wire"},
        wire={"flit_bits": 16, "mtu": 8},
        ni={"deliver_flits": flits, "deliver_records": records, "control_classes": classes},
        workload={"min_length": 4, "max_length": 8},
    )
    fifo, draw = DeliverFifo(system), random.Random(flits)

    async def process(ctx):
        memory, output, loose, overflow = deque(), None, [], False
        shelf, record = deque(), None
        stamp, step, foreseen = 0, "nothing", None
        for _ in range(4000):
            steps = ("nothing", "drop", "push", "push and reject", "push and drop", "reject", "commit")
            weights = (1, 1, 5, 1, 1, 1, 2)
            after = step in ("commit", "reject", "push and reject")  # no flit follows a verdict at once
            step = draw.choices(steps[:2] if after else steps, weights[:2] if after else weights)[0]
            if step == "commit" and (overflow or len(shelf) == records):
                step = "reject"
            take, take_record = draw.random() < pull, draw.random() < pull
            stamp = (stamp + 1) & 0xFFFF
            ctx.set(fifo.fill.valid, int("push" in step))
            ctx.set(fifo.fill.beat, {"data": stamp, "last": stamp & 1})
            ctx.set(fifo.verdict.commit, int(step == "commit"))
            ctx.set(fifo.verdict.record, {"source": 1, "cls": stamp & 7, "length": stamp & 7})
            ctx.set(fifo.verdict.reject, int("reject" in step))
            ctx.set(fifo.fill.drop, int("drop" in step))
            ctx.set(fifo.deliver_data.ready, int(take))
            ctx.set(fifo.deliver.ready, int(take_record))
            if not after:
                assert ctx.get(fifo.verdict.room) == (not overflow and len(shelf) < records)
            if foreseen is not None:
                assert ctx.get(fifo.verdict.room) == foreseen, "there is room as was foreseen"
            if classes:
                foreseen = ctx.get(fifo.verdict.next_room) >> (step == "commit") & 1
            assert ctx.get(fifo.waiting) == len(shelf) + (record is not None)
            assert ctx.get(fifo.empty) == (not memory and output is None and not shelf and record is None)
            assert ctx.get(fifo.deliver_data.valid) == (output is not None)
            if output is not None:
                assert ctx.get(fifo.deliver_data.payload)["data"] == output
            if record is not None:
                assert ctx.get(fifo.deliver.payload)["cls"] == record
            room = len(memory) + len(loose) < flits
            if take or output is None:
                output = memory.popleft() if memory else None
            if take_record or record is None:
                record = shelf.popleft() if shelf else None
            if "push" in step:
                if room and not overflow:
                    loose.append(stamp)
                else:
                    overflow = True
            if step == "commit":
                memory.extend(loose)
                shelf.append(stamp & 7)
            if step not in ("nothing", "push"):
                loose, overflow = [], False
            await ctx.tick()

    simulator = Simulator(fifo)
    simulator.add_clock(1e-6)
    simulator.add_testbench(process)
    simulator.run()
