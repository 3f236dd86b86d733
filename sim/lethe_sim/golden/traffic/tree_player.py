"""Tree player: it tells a node's relay of routes and deaths, word by word (`System.relay_words`)."""

import numpy as np

from lethe.spec.config import System
from lethe_sim.golden.compile import jit
from lethe_sim.golden.record import Record
from lethe_sim.golden.state import EXTERNAL, NEVER


class TreeWord(Record):
    """What is offered on `tree` from a cycle on."""

    cycle: int
    code: int
    target: int
    hop: int
    way: int
    depth: int
    promoted: int


_WORD = TreeWord.size


def words(system: System) -> np.ndarray:
    """The words of all players: where those of each node begin, and where the last ones end; then the words."""
    if not system.top_port.tree:
        return np.zeros(1, np.int64)
    rows = [system.relay_words(node) for node in range(system.nodes)]
    starts = np.cumsum([0, *map(len, rows)]) * TreeWord.size + system.nodes + 1
    return np.concatenate([starts, np.array([word for some in rows for word in some], np.int64).reshape(-1)])


@jit
def left(k, host, trees):
    """Whether there is a word that has not been taken."""
    return trees[host.node] + host.words * _WORD < trees[host.node + 1]


@jit
def word_of(host, trees):
    """The next word."""
    return TreeWord(trees, trees[host.node], host.words)


@jit
def present(k, host, port, trees, cycle):
    """Offer the word whose cycle has come; what a host that is driven from outside offers is only then another's."""
    if k.host != EXTERNAL:
        port.tree_valid = 0
    if not left(k, host, trees):
        return
    word = word_of(host, trees)
    if word.cycle <= cycle:
        port.tree_valid, port.tree_code, port.tree_target = 1, word.code, word.target
        port.tree_hop, port.tree_way = word.hop, word.way
        port.tree_depth, port.tree_promoted = word.depth, word.promoted


@jit
def follow(k, host, trees, cycle, taken):
    """After a cycle in which a word was taken, or not."""
    if taken and left(k, host, trees) and word_of(host, trees).cycle <= cycle:
        host.words += 1


@jit
def next_offer(k, host, trees, cycle):
    """The next cycle in which a word is offered."""
    if not left(k, host, trees):
        return NEVER
    return max(cycle + 1, word_of(host, trees).cycle)
