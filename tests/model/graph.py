"""Exhaustive search of a system's states: the shortest way to a violation, and progress under fairness."""

import time
from array import array
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, NamedTuple, Protocol

#: Kinds of moves that need not happen: those of the environment, those that a configuration may rule out, those of a
#: long time that is over, and those of a clock that asks again.
FREELY, PERHAPS, TIMED, ASKED = -4, -3, -2, -1


class Violation(NamedTuple):
    """What a step has broken: number of the property, and a sentence."""

    broken: str
    text: str


class Goal(NamedTuple):
    """A set of states that must be left.

    Attributes
    ----------
    broken, text : the property that breaks otherwise
    inside : whether a state is in the set
    least : moves of a kind below it do not happen: PERHAPS (nothing that is free happens) or FREELY (everything may)
    possible : that the set can be left from each of its states is enough; else every fair run must leave it
    """

    broken: str
    text: str
    inside: Callable[[tuple], bool]
    least: int
    possible: bool = False


class System(Protocol):
    """What can be searched: states are tuples, moves anything."""

    def start(self) -> tuple:
        """The first state."""
        ...

    def successors(self, state: tuple) -> list[tuple[Any, tuple | Violation]]:
        """Every move that is possible, and the state after it or what it breaks."""
        ...

    def kind(self, move: Any) -> Hashable:
        """The kind of a move: moves of one kind are in the same fairness classes; a negative one: in none."""
        ...

    def classes(self, kind: Hashable) -> tuple[set, set]:
        """The fairness classes that a kind of move makes possible, and those that it fulfils."""
        ...

    def goals(self, start: tuple) -> Iterable[Goal]:
        """The progress that is demanded."""
        ...


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
    path: list
    seconds: float


def explore(system: System, *, progress: bool = True, limit: int = 5_000_000) -> Result:
    """Every state of a system, breadth first; stops at the first violation.

    With ``progress`` every goal of the system is then looked at.
    """
    began = time.process_time()
    graph = Graph(system)
    violation, path = graph.explore(limit)
    if violation is None and progress:
        violation, path = graph.stuck()
    return Result(len(graph.states), graph.moves, violation, path, time.process_time() - began)


class Graph:
    """The states of a system in the order of their discovery, and the moves between them."""

    def __init__(self, system: System):
        self.system = system
        self.states: list[tuple] = []
        self.parent = array("l")
        self.moves = 0
        self._first = array("l", [0])  # of each state's moves
        self._target = array("l")
        self._kind = array("h")
        self.kinds: dict[Hashable, int] = {}
        self.possible: list[set[int]] = []  # fairness classes that a kind of move makes possible, and
        self.happening: list[set[int]] = []  # those it fulfils
        self._class_number: dict[Hashable, int] = {}

    def explore(self, limit: int) -> tuple[Violation | None, list]:
        system = self.system
        start = system.start()
        number = {start: 0}
        self.states, self.parent = [start], array("l", [-1])
        for at, state in enumerate(self.states):
            if at > limit:
                raise MemoryError(f"more than {limit:,} states; make the setting smaller")
            for move, after in system.successors(state):
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

    def path(self, at: int) -> list:
        """The moves that led to a state."""
        moves = []
        while self.parent[at] >= 0:
            before = self.parent[at]
            moves.append(
                next(move for move, after in self.system.successors(self.states[before]) if after == self.states[at])
            )
            at = before
        return moves[::-1]

    def _kind_of(self, move: Any) -> int:
        kind = self.system.kind(move)
        if kind in (FREELY, PERHAPS, TIMED, ASKED):
            return kind  # type: ignore[return-value]
        number = self.kinds.get(kind)
        if number is None:
            number = self.kinds[kind] = len(self.kinds)
            for known, classes in zip((self.possible, self.happening), self.system.classes(kind), strict=True):
                known.append({self._class_number.setdefault(one, len(self._class_number)) for one in classes})
        return number

    # Progress.

    def stuck(self) -> tuple[Violation | None, list]:
        """Whether some fair run misses a goal."""
        for goal in self.system.goals(self.states[0]):
            at = (self._trapped if goal.possible else self._endless)(goal.inside, goal.least)
            if at is not None:
                return Violation(goal.broken, goal.text), self.path(at)
        return None, []

    def _trapped(self, wanted, least: int) -> int | None:
        """The first of the wanted states from which no other can be reached; moves below ``least`` do not happen."""
        first, target, kind = self._first, self._target, self._kind
        inside = array("b", (wanted(state) for state in self.states))
        origins: list[list[int]] = [[] for _ in self.states]
        for at in range(len(self.states)):
            if inside[at]:
                for e in range(first[at], first[at + 1]):
                    if kind[e] >= least:
                        origins[target[e]].append(at)
        free = [at for at in range(len(self.states)) if not inside[at]]
        while free:
            for at in origins[free.pop()]:
                if inside[at]:
                    inside[at] = 0
                    free.append(at)
        return next((at for at in range(len(self.states)) if inside[at]), None)

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
