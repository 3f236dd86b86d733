"""The distance class of a pair of nodes in logic (`Topology.distance_class`, IMP-13)."""

from amaranth.hdl import Array, Const, Module, Mux, Signal, Value

from lethe.spec.topology import Topology

__all__ = ["class_bits", "distance_class"]


def class_bits(graph: Topology) -> int:
    """Width of a distance class."""
    return max(1, (graph.distance_classes - 1).bit_length())


def _quotient(number: Value, divisor: int, nodes: int) -> Value:
    """``number`` div ``divisor``: a slice for a power of two, else a look-up."""
    if divisor & (divisor - 1) == 0:
        return number[divisor.bit_length() - 1 :]
    return Array(i // divisor for i in range(nodes))[number]


def _remainder(number: Value, divisor: int, nodes: int) -> Value:
    if divisor & (divisor - 1) == 0:
        return number[: divisor.bit_length() - 1]
    return Array(i % divisor for i in range(nodes))[number]


def _apart(a: Value, b: Value) -> Value:
    return Mux(a < b, (b - a)[: len(b)], (a - b)[: len(a)])


def distance_class(m: Module, graph: Topology, a: Value, b: Value) -> Signal:
    """A signal driven with the distance class of nodes ``a`` and ``b``; any value if ``b`` is no node."""
    result = Signal(class_bits(graph))
    match graph.kind:
        case "tree":
            nearest = Const(graph.levels - 1, class_bits(graph))
            for level in reversed(range(graph.levels - 1)):
                below = graph.arity ** (level + 1)
                same = _quotient(a, below, graph.nodes) == _quotient(b, below, graph.nodes)
                nearest = Mux(same, level, nearest)
            m.d.comb += result.eq(nearest)
        case "mesh":
            c, n = graph.columns, graph.nodes
            span = _apart(_remainder(a, c, n), _remainder(b, c, n)) + _apart(_quotient(a, c, n), _quotient(b, c, n))
            m.d.comb += result.eq(span > (c + graph.rows - 2) // 2)
    return result
