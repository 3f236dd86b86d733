"""Relay: messages that outlive the nodes they pass.

One file for each part of the contract.  All rules of a cycle see the state at its start; `relay.step` says in which
order they are worked out.  Tables are changed by one job at a time (`jobs`).
"""

from .relay import idle, leaves, next_look, offer, outputs, reset, rests, rests_until, show, step, take, withholds
from .state import numbers, words

__all__ = [
    "idle", "leaves", "next_look", "numbers", "offer", "outputs", "reset", "rests", "rests_until", "show", "step",
    "take", "withholds", "words",
]  # fmt: skip
