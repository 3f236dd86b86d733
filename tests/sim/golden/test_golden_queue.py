"""`Queue` without a step per cycle, against the contract's memory and output register stepped plainly."""

from hypothesis import given, settings
from hypothesis import strategies as st

from lethe_sim.golden.blocks import Queue


class Plain:
    """Section 1, word for word."""

    def __init__(self, depth):
        self.depth, self.memory, self.output = depth, [], None

    def step(self, push, pop):
        level = len(self.memory)
        if pop:
            self.output = None
        if level > 0 and self.output is None:
            self.output = self.memory.pop(0)
        if push is not None:
            self.memory.append(push)


@settings(derandomize=True, deadline=None, max_examples=100)
@given(st.integers(1, 5), st.lists(st.tuples(st.booleans(), st.booleans()), max_size=200))
def test_queue(depth, wishes):
    plain, queue = Plain(depth), Queue(depth)
    for number, (wants_push, wants_pop) in enumerate(wishes):
        seen = plain.output, len(plain.memory)
        push = number if wants_push and seen[1] < depth else None
        pop = wants_pop and seen[0] is not None
        assert queue.step(push, pop) == seen
        plain.step(push, pop)
