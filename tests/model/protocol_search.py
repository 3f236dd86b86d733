"""Exhaustive search of a system's states: the shortest way to a violation, and progress under fairness."""

import time
from array import array
from collections.abc import Iterator
from typing import NamedTuple

from tests.model.protocol_network import FREE_WILL, Move, Network, Violation
from tests.model.protocol_rules import LIVE, Setting

#: Kinds of moves that need not happen: those of the environment, and those that a configuration may rule out.
FREELY, PERHAPS = -2, -1


class Result(NamedTuple):
    """What a search has found.

    Attributes
    ----------
    states, moves : how many there are (until the violation, if there is one)
    violation : what is broken, or None
    path : the moves that lead to it, fewest possible
    seconds : processor time
    """

    states: int
    moves: int
    violation: Violation | None
    path: list[Move]
    seconds: float


def search(setting: Setting, *, progress: bool = True, limit: int = 5_000_000) -> Result:
    """Every state of a system, breadth first; stops at the first violation.

    With ``progress`` every state is then asked whether a fair run from it drains.
    """
    began = time.process_time()
    network = Network(setting)
    graph = Graph(network)
    violation, path = graph.explore(limit)
    if violation is None and progress:
        violation, path = graph.stuck()
    return Result(len(graph.states), graph.moves, violation, path, time.process_time() - began)


class Graph:
    """The states of a network in the order of their discovery, and the moves between them."""

    def __init__(self, network: Network):
        self.network = network
        self.states: list[tuple] = []
        self.parent = array("l")
        self.moves = 0
        self._first = array("l", [0])  # of each state's moves
        self._target = array("l")
        self._kind = array("h")
        self.kinds: dict[tuple, int] = {}
        self.possible: list[set[int]] = []  # fairness classes that a kind of move makes possible, and
        self.happening: list[set[int]] = []  # those it fulfils
        self._class_number: dict[tuple, int] = {}

    def explore(self, limit: int) -> tuple[Violation | None, list[Move]]:
        network = self.network
        start = network.start()
        number = {start: 0}
        self.states, self.parent = [start], array("l", [-1])
        for at, state in enumerate(self.states):
            if at > limit:
                raise MemoryError(f"more than {limit:,} states; make the setting smaller")
            for move, after in network.successors(state):
                if isinstance(after, Violation):
                    return after, [*self.path(at), move]
                to = number.get(after)
                if to is None:
                    to = number[after] = len(self.states)
                    self.states.append(after)
                    self.parent.append(at)
                self._target.append(to)
                self._kind.append(self._kind_of(move))
            self._first.append(len(self._target))
        self.moves = len(self._target)
        return None, []

    def path(self, at: int) -> list[Move]:
        """The moves that led to a state."""
        moves = []
        while self.parent[at] >= 0:
            before = self.parent[at]
            moves.append(
                next(move for move, after in self.network.successors(self.states[before]) if after == self.states[at])
            )
            at = before
        return moves[::-1]

    def _kind_of(self, move: Move) -> int:
        """The kind of a move: moves of one kind are in the same fairness classes; negative: in none."""
        step = move.step
        if step.event in FREE_WILL or step.detail in FREE_WILL:
            return FREELY
        setting = self.network.setting
        if step.event == "GIVE_UP" and step.detail == "RETRY_LIMIT" and (setting.reject or not setting.expects):
            return PERHAPS
        heard = move.heard.kind if move.heard else ""
        slot = step.about.slot if not isinstance(step.about, int) else 0
        key = move.node, step.event, heard, slot
        fate = move.fate or step.reply
        if (key, fate) not in self.kinds:
            self.kinds[key, fate] = len(self.kinds)
            happens, arrives = 2 * self._class(key), 2 * self._class(key) + 1
            possible = {happens, arrives} if fate and self.network.keeps("N4") else {happens}
            happening = {happens, arrives} if fate in ("sent", "queued") else {happens}
            if heard == "Send" and self.network.keeps("N5"):
                room = 2 * self._class((move.node, "room", heard, slot))
                possible.add(room)
                happening |= {room} if step.detail != "TABLE_FULL" else set()
            self.possible.append(possible)
            self.happening.append(happening)
        return self.kinds[key, fate]

    def _class(self, key: tuple) -> int:
        return self._class_number.setdefault(key, len(self._class_number))

    # Progress.

    def stuck(self) -> tuple[Violation | None, list[Move]]:
        """Whether some fair run never drains, or never ends a datagram."""
        at = self._endless(lambda state: not self.network.drained(state), PERHAPS)
        if at is not None:
            return Violation("L2", "does not drain, although nothing new comes"), self.path(at)
        for node in range(self.network.setting.nodes):
            for slot in range(len(self.network.node(self.states[0], node).slots)):
                at = self._endless(lambda s, n=node, i=slot: self.network.node(s, n).slots[i].place == LIVE, FREELY)
                if at is not None:
                    return Violation("L1", "a datagram never ends"), self.path(at)
        return None, []

    def _endless(self, wanted, least: int) -> int | None:
        """Where a fair run begins that stays among the wanted states: the one with fewest moves from the start.

        Moves of a kind below ``least`` do not happen.  Such a run ends up in a set of states that it visits again and
        again.  Fair means: of each kind of move that is possible again and again, some happen.  So a kind that is
        possible in the set and always leaves it rules out the states in which it is possible; what is left is
        searched again.
        """
        inside = array("b", (wanted(state) for state in self.states))
        first, target, kind = self._first, self._target, self._kind
        dead = (
            at
            for at in range(len(self.states))
            if inside[at] and all(kind[e] < least for e in range(first[at], first[at + 1]))
        )
        earliest = next(dead, None)
        work = [[at for at in range(len(self.states)) if inside[at]]]
        mark = array("l", [0]) * len(self.states)
        number = 0
        while work:
            members = work.pop()
            number += 1
            for at in members:
                mark[at] = number
            for component in self._components(members, mark, number, least):
                number += 1
                for at in component:
                    mark[at] = number
                possible, happen, edges = set(), set(), 0
                for at in component:
                    for e in range(first[at], first[at + 1]):
                        if kind[e] < least:
                            continue
                        within = mark[target[e]] == number
                        edges += within
                        if kind[e] >= 0:
                            possible.update(self.possible[kind[e]])
                            if within:
                                happen.update(self.happening[kind[e]])
                if not edges:
                    continue
                barred = possible - happen
                if not barred:
                    earliest = min(component) if earliest is None else min(earliest, *component)
                    continue
                out = {k for k, classes in enumerate(self.possible) if barred & classes}
                left = [at for at in component if not any(kind[e] in out for e in range(first[at], first[at + 1]))]
                if left:
                    work.append(left)
        return earliest

    def _components(self, members: list[int], mark: array, number: int, least: int) -> Iterator[list[int]]:
        """Strongly connected components of the members (those marked ``number``), after Tarjan."""
        first, target, kind = self._first, self._target, self._kind
        index: dict[int, int] = {}
        low: dict[int, int] = {}
        open_: list[int] = []
        is_open = set()
        found = []
        for root in members:
            if root in index:
                continue
            calls = [(root, first[root])]
            index[root] = low[root] = len(index)
            open_.append(root)
            is_open.add(root)
            while calls:
                at, e = calls[-1]
                end = first[at + 1]
                while e < end:
                    to = target[e]
                    if kind[e] >= least and mark[to] == number:
                        if to not in index:
                            break
                        if to in is_open and index[to] < low[at]:
                            low[at] = index[to]
                    e += 1
                if e < end:
                    calls[-1] = (at, e + 1)
                    to = target[e]
                    index[to] = low[to] = len(index)
                    open_.append(to)
                    is_open.add(to)
                    calls.append((to, first[to]))
                    continue
                calls.pop()
                if calls:
                    before = calls[-1][0]
                    low[before] = min(low[before], low[at])
                if low[at] == index[at]:
                    component = []
                    while True:
                        member = open_.pop()
                        is_open.discard(member)
                        component.append(member)
                        if member == at:
                            break
                    found.append(component)
        return iter(found)
