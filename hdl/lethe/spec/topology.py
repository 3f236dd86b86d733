"""Topologies as graphs: who is connected to whom, and where a head may go.

Units are numbered NIs first (0 … nodes−1), then routers, then links.  Both implementations build
their fabric from `Topology.links` and are held against `Topology.route`.

With ``dilation`` d > 1 the ports i·d … i·d + d − 1 of a router are direction i: what port i is without.  A direction
that leads to another router has d parallel links; one that leads to a node has its first port only.
"""

from dataclasses import dataclass
from functools import cached_property

#: `Topology.route` answers: a port number, or one of these.
UP = -1
NOWHERE = -2

KINDS = ("wire", "crossbar", "fly", "tree", "mesh")

LOCAL, EAST, WEST, NORTH, SOUTH = range(5)


@dataclass(frozen=True, kw_only=True)
class Link:
    """A directed link.  ``source`` and ``target`` are (router or None for a NI, index, port)."""

    source_is_node: bool
    source: int
    source_port: int
    target_is_node: bool
    target: int
    target_port: int


@dataclass(frozen=True, kw_only=True)
class Topology:
    """A fabric.

    Parameters
    ----------
    kind : one of `KINDS`
    nodes : number of NIs (wire: 2)
    arity, levels : k and n of a k-ary n-fly or n-tree, else 0
    columns, rows : of a mesh, else 0
    queued : router inputs have queues, so a router shows events on two lanes for each
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

    @property
    def routers(self) -> int:
        match self.kind:
            case "wire":
                return 0
            case "crossbar":
                return 1
            case "mesh":
                return self.nodes
            case _:
                return self.levels * self.width

    @property
    def width(self) -> int:
        """Routers in a level of a tree or a stage of a fly."""
        return self.arity ** (self.levels - 1) if self.arity else 0

    def level(self, router: int) -> int:
        """Level (tree, 0 is next to the nodes) or stage (fly) of a router; 0 elsewhere."""
        return router // self.width if self.kind in ("tree", "fly") else 0

    def index(self, router: int) -> int:
        """Number of a router within its level or stage."""
        return router % self.width if self.kind in ("tree", "fly") else router

    def ports(self, router: int) -> int:
        """Ports of a router, numbered the same on the input and the output side."""
        match self.kind:
            case "crossbar":
                return self.nodes
            case "mesh":
                return 5
            case "tree":
                directions = self.arity if self.level(router) == self.levels - 1 else 2 * self.arity
                return directions * self.dilation
            case _:
                return self.arity * self.dilation

    def lanes(self, router: int) -> int:
        """Lanes a router shows events on: its inputs' fronts, then with queues their backs."""
        return self.ports(router) << self.queued

    def up_ports(self, router: int) -> int:
        """How many of a router's ports (the last ones) are up-ports."""
        return self.ports(router) - self.arity * self.dilation if self.kind == "tree" else 0

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
    def units(self) -> int:
        """How many units a trace numbers; those of services would follow the links."""
        return self.first_link + self.link_count

    @property
    def max_ports(self) -> int:
        return max((self.ports(r) for r in range(self.routers)), default=0)

    def fly_wire(self, stage: int, line: int) -> int:
        """The input line of stage+1 that output line ``line`` of ``stage`` is wired to.

        It swaps digit 0 with digit levels−1−stage: what the stage has just chosen goes to its
        final place in the line number.
        """
        k, place = self.arity, self.arity ** (self.levels - 1 - stage)
        low, digit = line % k, line // place % k
        return line + (digit - low) + (low - digit) * place

    def route(self, router: int, came_from: int, destination: int) -> int:
        """Output port for a head that came in on port ``came_from``; `UP` for any up-port; or `NOWHERE`.

        Of `parallel` ports it is the first.
        """
        direction = self._direction(router, came_from // self.dilation, destination)
        return direction * self.dilation if direction >= 0 else direction

    def _direction(self, router: int, came_from: int, destination: int) -> int:
        """`route` in a network of single links."""
        if not 0 <= destination < self.nodes:
            return NOWHERE
        k = self.arity
        match self.kind:
            case "crossbar":
                port = destination
            case "fly":
                return destination // k ** (self.levels - 1 - self.level(router)) % k
            case "tree":
                level = self.level(router)
                if self.index(router) // k**level != destination // k ** (level + 1):
                    return NOWHERE if came_from >= k or level == self.levels - 1 else UP
                port = destination // k**level % k
            case _:
                x, y = router % self.columns, router // self.columns
                to_x, to_y = destination % self.columns, destination // self.columns
                if to_x != x:
                    if came_from in (NORTH, SOUTH):
                        return NOWHERE
                    port = EAST if to_x > x else WEST
                elif to_y != y:
                    port = NORTH if to_y > y else SOUTH
                else:
                    port = LOCAL
        return NOWHERE if port == came_from else port

    @cached_property
    def links(self) -> tuple[Link, ...]:
        """All links: injection links by node, ejection links by node, then between routers by (source router, port)."""
        if self.kind == "wire":
            return tuple(
                Link(
                    source_is_node=True, source=node, source_port=0,
                    target_is_node=True, target=1 - node, target_port=0,
                )
                for node in range(2)
            )  # fmt: skip
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
        n, k, c, r = self.nodes, self.arity, self.columns, self.rows
        d = self.dilation
        inner = {
            "wire": -n,
            "crossbar": 0,
            "fly": (self.levels - 1) * self.width * k * d,
            "tree": 2 * (self.levels - 1) * self.width * k * d,
            "mesh": 2 * ((c - 1) * r + c * (r - 1)),
        }
        return 2 * n + inner[self.kind]

    def link(self, number: int) -> Link:
        """``links[number]``, without building the others."""
        if not 0 <= number < self.link_count:
            raise IndexError(f"link must be 0 to {self.link_count - 1}, not {number!r}")
        if self.kind == "wire":
            return self.links[number]
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
        router, direction = self._inner_source(place)
        port = direction * self.dilation + parallel
        end = self._neighbour(router, port)
        assert end is not None
        return Link(
            source_is_node=False, source=router, source_port=port,
            target_is_node=False, target=end[0], target_port=end[1],
        )  # fmt: skip

    def _inner_source(self, place: int) -> tuple[int, int]:
        """(router, direction) of the ``place``-th channel between routers."""
        k, width = self.arity, self.width
        match self.kind:
            case "fly":
                return place // k, place % k
            case "tree":
                # Bottom and top level have k such ports a router, the levels between 2k.
                if place < width * k:
                    return place // k, k + place % k
                place -= width * k
                middle = (self.levels - 2) * width * 2 * k
                if place < middle:
                    return width + place // (2 * k), place % (2 * k)
                place -= middle
                return (self.levels - 1) * width + place // k, place % k
        c, row = self.columns, 0
        while place >= (links := 2 * (c - 1) + c * ((row < self.rows - 1) + (row > 0))):
            place -= links
            row += 1
        for router in range(row * c, row * c + c):
            ports = [port for port in (EAST, WEST, NORTH, SOUTH) if self._across(router, port) is not None]
            if place < len(ports):
                return router, ports[place]
            place -= len(ports)
        raise AssertionError("a mesh row has the links it was counted for")

    def _attachment(self, node: int, *, injection: bool) -> tuple[int, int]:
        """(router, port) of a node's injection or ejection link."""
        k = self.arity
        match self.kind:
            case "crossbar":
                return 0, node
            case "mesh":
                return node, LOCAL
            case "fly" if not injection:
                return (self.levels - 1) * self.width + node // k, node % k * self.dilation
            case _:
                return node // k, node % k * self.dilation

    def _neighbour(self, router: int, port: int) -> tuple[int, int] | None:
        """(router, input port) that an output port is joined to; None for a node or nothing."""
        direction, parallel = divmod(port, self.dilation)
        end = self._across(router, direction)
        return None if end is None else (end[0], end[1] * self.dilation + parallel)

    def _across(self, router: int, port: int) -> tuple[int, int] | None:
        """`_neighbour` in a network of single links."""
        k, level, index = self.arity, self.level(router), self.index(router)
        match self.kind:
            case "fly":
                if level == self.levels - 1:
                    return None
                line = self.fly_wire(level, index * k + port)
                return (level + 1) * self.width + line // k, line % k
            case "tree":
                if port >= k:
                    place = k**level
                    digit = index // place % k
                    return (level + 1) * self.width + index + (port - k - digit) * place, digit
                if level == 0:
                    return None
                place = k ** (level - 1)
                digit = index // place % k
                return (level - 1) * self.width + index + (port - digit) * place, k + digit
            case "mesh":
                x, y = router % self.columns, router // self.columns
                dx, dy, back = {
                    EAST: (1, 0, WEST), WEST: (-1, 0, EAST), NORTH: (0, 1, SOUTH), SOUTH: (0, -1, NORTH),
                }.get(port, (0, 0, None))  # fmt: skip
                if back is None or not (0 <= x + dx < self.columns and 0 <= y + dy < self.rows):
                    return None
                return router + dx + self.columns * dy, back
            case _:
                return None

    def hops(self, source: int, destination: int) -> int:
        """Routers on every path from a node to another (IMP-12)."""
        match self.kind:
            case "wire":
                return 0
            case "crossbar":
                return 1
            case "fly":
                return self.levels
            case "tree":
                return 2 * self._meeting_level(source, destination) + 1
            case _:
                return self._mesh_distance(source, destination) + 1

    def _meeting_level(self, a: int, b: int) -> int:
        level = 0
        while a // self.arity ** (level + 1) != b // self.arity ** (level + 1):
            level += 1
        return level

    def _mesh_distance(self, a: int, b: int) -> int:
        c = self.columns
        return abs(a % c - b % c) + abs(a // c - b // c)

    @property
    def distance_classes(self) -> int:
        """Number of distance classes: levels of a tree, two for a mesh, else one (IMP-13)."""
        match self.kind:
            case "tree":
                return self.levels
            case "mesh":
                return 2
            case _:
                return 1

    def distance_class(self, source: int, destination: int) -> int:
        """Tree: the level at which a pair meets.  Mesh: 1 beyond half the largest distance."""
        match self.kind:
            case "tree":
                return self._meeting_level(source, destination)
            case "mesh":
                return int(2 * self._mesh_distance(source, destination) > self.columns + self.rows - 2)
            case _:
                return 0

    def class_hops(self, distance_class: int) -> int:
        """The most routers on a path of a pair in this class."""
        match self.kind:
            case "tree":
                return 2 * distance_class + 1
            case "mesh":
                span = self.columns + self.rows - 2
                return (span if distance_class else span // 2) + 1
            case _:
                return self.hops(0, 1)

    @property
    def least_hops(self) -> int:
        """Routers on the path of the nearest pair."""
        return 2 if self.kind == "mesh" else self.hops(0, 1)

    def unit_name(self, unit: int) -> str:
        """`ni3`, `router1` or `link12` for a unit number of a trace."""
        if unit < self.first_router:
            return f"ni{unit}"
        return f"router{unit - self.first_router}" if unit < self.first_link else f"link{unit - self.first_link}"

    def link_name(self, link: int) -> str:
        """`node3→router0.3`, in words."""
        end = self.link(link)
        left = f"node{end.source}" if end.source_is_node else f"router{end.source}.{end.source_port}"
        right = f"node{end.target}" if end.target_is_node else f"router{end.target}.{end.target_port}"
        return f"{left}→{right}"
