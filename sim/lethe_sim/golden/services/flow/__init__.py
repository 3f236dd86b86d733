"""Flow (docs/reference/flow.md): messages to ports, in order, with credits and congestion.

One file for each unit of the contract.  All rules of a cycle see the state at its start; `flow.step` says in which
order they are worked out.  The tables are changed by one of them at a time (`turns`): a data message, a credit, an
attempt, or a step of a job.
"""

from lethe.spec.events import FlowCounter

from .flow import idle, leaves, next_look, offer, outputs, reset, rests, rests_until, show, step, take, withholds
from .state import Flow, numbers, words

#: What is counted without an event, and where they are kept.
COUNTED = {
    FlowCounter.CONGESTIONS: Flow.unseen, FlowCounter.CONTROL_IGNORED: Flow.ignored, FlowCounter.RAISED: Flow.raised,
}  # fmt: skip

__all__ = [
    "COUNTED", "idle", "leaves", "next_look", "numbers", "offer", "outputs", "reset", "rests", "rests_until", "show",
    "step", "take", "withholds", "words",
]  # fmt: skip
