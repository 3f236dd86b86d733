"""What every kind of topology has: its parameters, and what follows from a kind's ports, routes and neighbours."""

import abc
import typing
from dataclasses import dataclass
from functools import cached_property

if typing.TYPE_CHECKING:
    from lethe.spec.sections.key import Fail, Within
    from lethe.spec.sections.topology import TopologySection

#: `Topology.route` answers: a port number, or one of these.
UP = -1
NOWHERE = -2


@dataclass(frozen=True, kw_only=True)
class Link:
    """A directed link.  ``source`` and ``target`` are (router or None for an NI, index, port)."""

    source_is_node: bool
    source: int
    source_port: int
    target_is_node: bool
    target: int
    target_port: int


@dataclass(frozen=True, kw_only=True)
class Topology(abc.ABC):
    """A fabric: ``Topology(kind="tree", …)`` is a `Tree`, and so on.

    Each kind has the abstract methods.  One whose routers are joined to routers has `_channels`, `_channel` and
    `_across` too.  Everything else follows.

    Parameters
    ----------
    kind : one of `KINDS`
    nodes : number of NIs (wire: 2)
    arity, levels : k and n of a k-ary n-fly or n-tree, else 0
    columns, rows : of a mesh, else 0
    queued : routers store worms, in queues or a pool, and so show events on two lanes for each port
    dilation : parallel links for each channel between routers of a tree or fly
    """

    kind: str
    nodes: int
    arity: int = 0
    levels: int = 0
    columns: int = 0
    rows: int = 0
    queued: bool = False
    dilation: int = 1

    def __new__(cls, *, kind: str = "", **_):
        from . import OF_KIND

        return object.__new__(OF_KIND[kind] if cls is Topology else cls)

    @classmethod
    @abc.abstractmethod
    def of(cls, section: "TopologySection", *, queued: bool, dilation: int) -> "Topology":
        """The topology that a configuration describes."""

    @staticmethod  # noqa: B027 (a kind may read none)
    def check(section: "TopologySection", fail: "Fail", within: "Within") -> None:
        """The keys of the section that this kind reads."""

    @property
    @abc.abstractmethod
    def routers(self) -> int:
        """How many routers there are."""

    @property
    def distance_classes(self) -> int:
        """Number of distance classes (IMP-13)."""
        return 1

    @property
    def width(self) -> int:
        """Routers in a level of a tree or a stage of a fly."""
        return self.arity ** (self.levels - 1) if self.arity else 0

    def level(self, router: int) -> int:
        """Level (tree, 0 is next to the nodes) or stage (fly) of a router; 0 elsewhere."""
        return 0

    def index(self, router: int) -> int:
        """Number of a router within its level or stage."""
        return router

    @abc.abstractmethod
    def ports(self, router: int) -> int:
        """Ports of a router, numbered the same on the input and the output side."""

    def lanes(self, router: int) -> int:
        """Lanes a router shows events on: its inputs', then the queues' backs or what leaves a pool by each output."""
        return self.ports(router) << self.queued

    def up_ports(self, router: int) -> int:
        """How many of a router's ports (the last ones) are up-ports."""
        return 0

    def parallel(self, router: int, port: int) -> int:
        """How many ports lead where ``port`` does, from the first of its direction on."""
        return self.dilation if self._neighbour(router, port) is not None else 1

    def bundle(self, link: int) -> range:
        """The numbers of the links that are parallel to a link, and its own."""
        inner = link - 2 * self.nodes
        start = link - inner % self.dilation if inner >= 0 else link
        return range(start, start + (self.dilation if inner >= 0 else 1))

    @property
    def first_router(self) -> int:
        """The unit number, in a trace, of router 0; NIs come before it."""
        return self.nodes

    @property
    def first_link(self) -> int:
        """The unit number of link 0."""
        return self.nodes + self.routers

    @property
    def max_ports(self) -> int:
        return max((self.ports(r) for r in range(self.routers)), default=0)

    def route(self, router: int, came_from: int, destination: int) -> int:
        """Output port for a head that came in on port ``came_from``; `UP` for any up-port; or `NOWHERE`.

        Of `parallel` ports it is the first.
        """
        if not 0 <= destination < self.nodes:
            return NOWHERE
        direction = self._direction(router, came_from // self.dilation, destination)
        return direction * self.dilation if direction >= 0 else direction

    @abc.abstractmethod
    def _direction(self, router: int, came_from: int, destination: int) -> int:
        """`route` to a node that exists, in a network of single links."""

    @cached_property
    def links(self) -> tuple[Link, ...]:
        """All links: injection links by node, ejection links by node, then between routers by (source router, port)."""
        entries = [self._attachment(node, injection=True) for node in range(self.nodes)]
        exits = [self._attachment(node, injection=False) for node in range(self.nodes)]
        inject = [
            Link(source_is_node=True, source=n, source_port=0, target_is_node=False, target=r, target_port=p)
            for n, (r, p) in enumerate(entries)
        ]
        eject = [
            Link(source_is_node=False, source=r, source_port=p, target_is_node=True, target=n, target_port=0)
            for n, (r, p) in enumerate(exits)
        ]
        inner = [
            Link(source_is_node=False, source=r, source_port=p, target_is_node=False, target=t, target_port=q)
            for r in range(self.routers)
            for p in range(self.ports(r))
            if (end := self._neighbour(r, p)) is not None
            for t, q in [end]
        ]
        return (*inject, *eject, *inner)

    @property
    def link_count(self) -> int:
        """``len(links)``, without building them."""
        return 2 * self.nodes + self._channels * self.dilation

    @property
    def _channels(self) -> int:
        """Directed channels between routers."""
        return 0

    def link(self, number: int) -> Link:
        """``links[number]``, without building the others."""
        if not 0 <= number < self.link_count:
            raise IndexError(f"link must be 0 to {self.link_count - 1}, not {number!r}")
        if number < 2 * self.nodes:
            node = number % self.nodes
            injection = number < self.nodes
            router, port = self._attachment(node, injection=injection)
            if injection:
                return Link(
                    source_is_node=True, source=node, source_port=0,
                    target_is_node=False, target=router, target_port=port,
                )  # fmt: skip
            return Link(
                source_is_node=False, source=router, source_port=port,
                target_is_node=True, target=node, target_port=0,
            )  # fmt: skip
        place, parallel = divmod(number - 2 * self.nodes, self.dilation)
        router, direction = self._channel(place)
        port = direction * self.dilation + parallel
        end = self._neighbour(router, port)
        assert end is not None
        return Link(
            source_is_node=False, source=router, source_port=port,
            target_is_node=False, target=end[0], target_port=end[1],
        )  # fmt: skip

    def links_of(self, node: int) -> tuple[int, int]:
        """The links that leave and enter a node."""
        return node, self.nodes + node

    def _channel(self, place: int) -> tuple[int, int]:
        """(router, direction) of the ``place``-th channel between routers; `IndexError` if there is none."""
        raise IndexError(f"a {self.kind} has no channel {place} between routers")

    def _attachment(self, node: int, *, injection: bool) -> tuple[int, int]:
        """(router, port) of a node's injection or ejection link."""
        return node // self.arity, node % self.arity * self.dilation

    def _neighbour(self, router: int, port: int) -> tuple[int, int] | None:
        """(router, input port) that an output port is joined to; None for a node or nothing."""
        direction, parallel = divmod(port, self.dilation)
        end = self._across(router, direction)
        return None if end is None else (end[0], end[1] * self.dilation + parallel)

    def _across(self, router: int, port: int) -> tuple[int, int] | None:
        """`_neighbour` in a network of single links."""
        return None

    def hops(self, source: int, destination: int) -> int:
        """Routers on every path from a node to another (IMP-12)."""
        return 1

    def distance_class(self, source: int, destination: int) -> int:
        """Tree: the level at which a pair meets.  Mesh: 1 beyond half the largest distance."""
        return 0

    def class_hops(self, distance_class: int) -> int:
        """The most routers on a path of a pair in this class."""
        return self.hops(0, 1)

    @property
    def least_hops(self) -> int:
        """Routers on the path of the nearest pair."""
        return self.hops(0, 1)

    def link_name(self, link: int) -> str:
        """`node3→router0.3`, in words."""
        end = self.link(link)
        left = f"node{end.source}" if end.source_is_node else f"router{end.source}.{end.source_port}"
        right = f"node{end.target}" if end.target_is_node else f"router{end.target}.{end.target_port}"
        return f"{left}→{right}"
