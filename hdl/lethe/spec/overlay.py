r"""The overlay of relay: a tree over the nodes that live, and the tree after a death.

Places are those of a tree of radix r whose layers are numbered from the root on (RELM-21).  Node n begins at place n.
The children of a place in a layer of w places are w, 2w, … rw further on: with radix 2 those of 0 are 1 and 2, of 1 are
3 and 5, of 2 are 4 and 6.  A place whose node dies is taken by the next living node of its subtree, depth-first,
rightmost first.  So all nodes on the rightmost way down from the dead one move up by one place (they are *promoted*),
and nobody else moves.

    radix 2, 7 nodes        1 dies: 5 is promoted     then 0: 2 and 6 are promoted

          0                        0                         2
        /   \                    /   \                     /   \
       1     2                  5     2                   5     6
      / \   / \                /     / \                 /     /
     3   5 4   6              3     4   6               3     4

The tree depends on who is dead, not on the order of the deaths.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

__all__ = ["DEPTH_BITS", "NOWHERE", "Change", "Overlay"]

#: The next hop to a node that is dead; the parent of a root.
NOWHERE = -1
#: Bits of a depth in relay's header.
DEPTH_BITS = 6
#: Nodes have 16 bits.
_MOST_NODES = 1 << 16


@dataclass(frozen=True, kw_only=True)
class Overlay:
    """A tree over the living nodes, or, with radix 0, a direct way from each node to each other.

    Parameters
    ----------
    nodes : how many there are, the dead ones included
    radix : children of a node, at most; 0: no tree, every node is one hop away
    dead : nodes that take no part any more

    Attributes
    ----------
    place : for each node its place, `NOWHERE` if it is dead
    holder : for each place its node, `NOWHERE` if nobody is left for it

    Raises
    ------
    ValueError
        If a number is out of range, or the tree is deeper than relay's header can say.
    """

    nodes: int
    radix: int
    dead: frozenset[int] = frozenset()
    place: tuple[int, ...] = field(init=False, repr=False, compare=False)
    holder: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self):
        if not 1 <= self.nodes <= _MOST_NODES:
            raise ValueError(f"nodes must be 1 to {_MOST_NODES}, not {self.nodes!r}")
        if not 0 <= self.radix < _MOST_NODES:
            raise ValueError(f"radix must be 0 to {_MOST_NODES - 1}, not {self.radix!r}; 0 is no tree")
        object.__setattr__(self, "dead", frozenset(self.dead))
        strange = sorted(node for node in self.dead if not 0 <= node < self.nodes)
        if strange:
            raise ValueError(f"dead must be nodes 0 to {self.nodes - 1}, not {strange[0]}")
        deepest = self._layer(self.nodes - 1)[0] if self.radix else 0
        if deepest >= 1 << DEPTH_BITS:
            raise ValueError(
                f"radix = {self.radix}: {self.nodes:,} nodes are {deepest:,} layers deep, and the header counts to "
                f"{(1 << DEPTH_BITS) - 1}; raise the radix"
            )
        holder = list(range(self.nodes))
        place = list(range(self.nodes))
        for node in sorted(self.dead):
            self._vacate(place[node], holder, place)
        object.__setattr__(self, "holder", tuple(holder))
        object.__setattr__(self, "place", tuple(place))

    def _vacate(self, place: int, holder: list[int], places: list[int]) -> None:
        """The node of a place dies: the next of each place moves up into the one before."""
        places[holder[place]] = NOWHERE
        while True:
            filled = [below for below in self._below(place) if holder[below] != NOWHERE]
            if not filled:
                holder[place] = NOWHERE
                return
            holder[place] = holder[filled[-1]]
            places[holder[place]] = place
            place = filled[-1]

    # Places.

    def _layer(self, place: int) -> tuple[int, int, int]:
        """Depth of a place, the first place of its layer, and the layer's width."""
        depth, first, width = 0, 0, 1
        while place >= first + width:
            depth, first, width = depth + 1, first + width, width * self.radix
        return depth, first, width

    def _below(self, place: int) -> range:
        """The places below a place, from left to right."""
        if not self.radix:
            return range(0)
        _, _, width = self._layer(place)
        return range(place + width, min(place + self.radix * width + 1, self.nodes), width)

    def _above(self, place: int) -> int:
        """The place above a place; `NOWHERE` of the root."""
        if not self.radix or place <= 0:
            return NOWHERE
        _, first, width = self._layer(place)
        above = width // self.radix
        return first - above + (place - first) % above

    # The tree.

    @cached_property
    def living(self) -> tuple[int, ...]:
        """The nodes that live."""
        return tuple(node for node in range(self.nodes) if node not in self.dead)

    @property
    def root(self) -> int:
        """The node at the top; `NOWHERE` without a tree."""
        return self.holder[0] if self.radix else NOWHERE

    def parent(self, node: int) -> int:
        """The node above; `NOWHERE` of a root, of a dead node, and without a tree."""
        above = self._above(self._place(node))
        return self.holder[above] if above >= 0 else NOWHERE

    def children(self, node: int) -> tuple[int, ...]:
        """The nodes below, from left to right."""
        place = self._place(node)
        if place == NOWHERE:
            return ()
        return tuple(self.holder[below] for below in self._below(place) if self.holder[below] != NOWHERE)

    def neighbours(self, node: int) -> tuple[int, ...]:
        """The nodes one hop away: parent and children; without a tree all that live."""
        if self._place(node) == NOWHERE:
            return ()
        if not self.radix:
            return tuple(other for other in self.living if other != node)
        parent = self.parent(node)
        return (*((parent,) if parent != NOWHERE else ()), *self.children(node))

    def ancestors(self, node: int) -> tuple[int, ...]:
        """The nodes above, from the parent to the root."""
        found = []
        while (node := self.parent(node)) != NOWHERE:
            found.append(node)
        return tuple(found)

    def depth(self, node: int) -> int:
        """Hops to the root; 0 without a tree; `NOWHERE` of a dead node."""
        place = self._place(node)
        return self._layer(place)[0] if self.radix and place != NOWHERE else min(place, 0)

    def route(self, node: int, target: int) -> int:
        """The next hop from a node to another; the node itself if it is the target; `NOWHERE` if either is dead."""
        here, there = self._place(node), self._place(target)
        if here == NOWHERE or there == NOWHERE:
            return NOWHERE
        if node == target or not self.radix:
            return target
        below = NOWHERE
        while there > here:  # a place is numbered after all above it
            below, there = there, self._above(there)
        return self.holder[below if there == here else self._above(here)]

    @cached_property
    def routes(self) -> tuple[tuple[int, ...], ...]:
        """`route` of every pair: ``routes[node][target]``, the content of the route memories."""
        return tuple(tuple(self.route(node, target) for target in range(self.nodes)) for node in range(self.nodes))

    def path(self, node: int, target: int) -> tuple[int, ...]:
        """The nodes from one to another, both included; empty if either is dead."""
        if NOWHERE in (self._place(node), self._place(target)):
            return ()
        found = [node]
        while found[-1] != target:
            found.append(self.route(found[-1], target))
        return tuple(found)

    def _place(self, node: int) -> int:
        if not 0 <= node < self.nodes:
            raise ValueError(f"node must be 0 to {self.nodes - 1}, not {node!r}")
        return self.place[node]

    # Deaths.

    def without(self, *dead: int) -> "Overlay":
        """The tree when these nodes are dead, too."""
        return Overlay(nodes=self.nodes, radix=self.radix, dead=self.dead | frozenset(dead))

    def change(self, dead: Iterable[int]) -> "Change":
        """What a notice of deaths changes."""
        return Change(before=self, after=self.without(*dead))


@dataclass(frozen=True, kw_only=True)
class Change:
    """The tree before and after deaths (RELM-27, RELM-28, RELM-32).

    Parameters
    ----------
    before, after : of the same nodes and radix; who is dead before is dead after
    """

    before: Overlay
    after: Overlay

    def __post_init__(self):
        if (self.before.nodes, self.before.radix) != (self.after.nodes, self.after.radix):
            raise ValueError("before and after must have the same nodes and the same radix")
        if not self.before.dead <= self.after.dead:
            back = min(self.before.dead - self.after.dead)
            raise ValueError(f"after must have the dead of before: node {back} cannot return")

    @property
    def promoted(self) -> tuple[int, ...]:
        """The nodes that have another place, further up: all neighbours of theirs are new to them."""
        before, after = self.before.place, self.after.place
        return tuple(node for node in self.after.living if before[node] != after[node])

    def new_neighbours(self, node: int) -> tuple[int, ...]:
        """The neighbours with which a node shares nothing yet: all if it was promoted, else those it did not have."""
        if self.before.place[node] != self.after.place[node]:
            return self.after.neighbours(node)
        known = self.before.neighbours(node)
        return tuple(other for other in self.after.neighbours(node) if other not in known)

    def rerouted(self, node: int) -> tuple[int, ...]:
        """The living targets to which a node has another next hop."""
        return tuple(
            target
            for target in self.after.living
            if target != node and self.before.route(node, target) != self.after.route(node, target)
        )
