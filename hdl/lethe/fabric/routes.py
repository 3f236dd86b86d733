"""Where a head may go: `lethe.spec.topology.Topology.route` as logic (cycle contract, section 3).

Routers whose ports and rules are alike share one `Rule`; what still differs between them is their
position, a constant input.
"""

from dataclasses import dataclass

from amaranth.hdl import Const, Value

from lethe.spec.topology import EAST, LOCAL, NORTH, SOUTH, WEST, Topology

__all__ = ["Rule"]


def _divide(value: Value, by: int) -> Value:
    return value[by.bit_length() - 1 :] if by & (by - 1) == 0 else value // by


def _modulo(value: Value, by: int) -> Value:
    return value[: by.bit_length() - 1] if by & (by - 1) == 0 else value % by


@dataclass(frozen=True)
class Rule:
    """The routing rule of routers of one shape; equal rules make equal routers.

    Parameters
    ----------
    graph : the fabric
    level : of the router, where its rule depends on it (tree, fly), else 0
    """

    graph: Topology
    level: int

    @classmethod
    def of(cls, graph: Topology, router: int) -> "Rule":
        return cls(graph, graph.level(router))

    @property
    def ports(self) -> int:
        return self.graph.ports(self.level * self.graph.width)

    @property
    def up_ports(self) -> int:
        return self.graph.up_ports(self.level * self.graph.width)

    @property
    def position_bits(self) -> int:
        return max(1, max(map(self.position, range(self.graph.routers))).bit_length())

    def position(self, router: int) -> int:
        """The constant for a router's ``position`` input.

        Tree: the number of the subtree below it, which is destination div k^(level+1) for the nodes it reaches
        downwards.  Mesh: x, and y above it.  Elsewhere 0: the destination alone decides.
        """
        match self.graph.kind:
            case "tree":
                return self.graph.index(router) // self.graph.arity**self.level
            case "mesh":
                x, y = router % self.graph.columns, router // self.graph.columns
                return x | y << self._x_bits
            case _:
                return 0

    @property
    def _x_bits(self) -> int:
        return (self.graph.columns - 1).bit_length()

    def turns(self, came_from: int) -> tuple[int, ...]:
        """The fixed outputs that some head from this input can ask for; the others need no logic."""
        down = self.ports - self.up_ports
        match self.graph.kind:
            case "fly":
                return tuple(range(self.ports))
            case "mesh":
                along_x = (EAST, WEST) if came_from not in (NORTH, SOUTH) else ()
                return tuple(sorted({LOCAL, NORTH, SOUTH, *along_x} - {came_from}))
            case _:
                return tuple(o for o in range(down) if o != came_from)

    def may_climb(self, came_from: int) -> bool:
        """Whether a head from this input can ask for an up-port."""
        return self.up_ports > 0 and came_from < self.ports - self.up_ports

    def route(self, came_from: int, destination: Value, position: Value) -> tuple[dict[int, Value], Value | None]:
        """What a head from input ``came_from`` asks for: one bit per fixed output, and one for "any up-port".

        Nothing is asked for if the destination is no node or the turn impossible; "any up-port" is None where no
        head can climb.
        """
        graph = self.graph
        real = Const(1) if graph.nodes == 1 << len(destination) else destination < graph.nodes
        turns = self.turns(came_from)
        up = None
        match graph.kind:
            case "crossbar":
                wanted = {o: destination == o for o in turns}
            case "fly":
                digit = _modulo(_divide(destination, graph.arity ** (graph.levels - 1 - self.level)), graph.arity)
                wanted = {o: real & (digit == o) for o in turns}
            case "tree":
                digit = _modulo(_divide(destination, graph.arity**self.level), graph.arity)
                below = Const(1)
                if self.up_ports:
                    below = _divide(destination, graph.arity ** (self.level + 1)) == position
                wanted = {o: real & below & (digit == o) for o in turns}
                if self.may_climb(came_from):
                    up = real & ~below
            case _:
                to_x, to_y = _modulo(destination, graph.columns), _divide(destination, graph.columns)
                x, y = position[: self._x_bits], position[self._x_bits :]
                here = to_x == x
                asks = {
                    LOCAL: here & (to_y == y),
                    EAST: to_x > x,
                    WEST: to_x < x,
                    NORTH: here & (to_y > y),
                    SOUTH: here & (to_y < y),
                }
                wanted = {o: real & asks[o] for o in turns}
        return wanted, up
