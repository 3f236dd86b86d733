"""A mesh: a router at each node, first along x, then along y."""

import typing

from .graph import NOWHERE, Topology

if typing.TYPE_CHECKING:
    from lethe.spec.sections.key import Fail, Within
    from lethe.spec.sections.topology import TopologySection


LOCAL, EAST, WEST, NORTH, SOUTH = range(5)


class Mesh(Topology):
    """Columns × rows of routers with five ports."""

    @classmethod
    def of(cls, section: "TopologySection", *, queued: bool, dilation: int) -> Topology:
        columns, rows = section.columns, section.rows
        return cls(kind="mesh", nodes=columns * rows, columns=columns, rows=rows, queued=queued)

    @staticmethod
    def check(section: "TopologySection", fail: "Fail", within: "Within") -> None:
        within("topology.columns", 1, 256)
        within("topology.rows", 1, 256)
        if section.columns * section.rows < 2:
            fail("topology.columns", "a mesh needs at least 2 nodes", "raise columns or rows")

    @property
    def routers(self) -> int:
        return self.nodes

    def ports(self, router: int) -> int:
        return 5

    def _direction(self, router: int, came_from: int, destination: int) -> int:
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

    @property
    def _channels(self) -> int:
        c, r = self.columns, self.rows
        return 2 * ((c - 1) * r + c * (r - 1))

    def _channel(self, place: int) -> tuple[int, int]:
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
        return node, LOCAL

    def _across(self, router: int, port: int) -> tuple[int, int] | None:
        x, y = router % self.columns, router // self.columns
        dx, dy, back = {
            EAST: (1, 0, WEST), WEST: (-1, 0, EAST), NORTH: (0, 1, SOUTH), SOUTH: (0, -1, NORTH),
        }.get(port, (0, 0, None))  # fmt: skip
        if back is None or not (0 <= x + dx < self.columns and 0 <= y + dy < self.rows):
            return None
        return router + dx + self.columns * dy, back

    def _distance(self, a: int, b: int) -> int:
        c = self.columns
        return abs(a % c - b % c) + abs(a // c - b // c)

    def hops(self, source: int, destination: int) -> int:
        return self._distance(source, destination) + 1

    @property
    def distance_classes(self) -> int:
        return 2

    def distance_class(self, source: int, destination: int) -> int:
        return int(2 * self._distance(source, destination) > self.columns + self.rows - 2)

    def class_hops(self, distance_class: int) -> int:
        span = self.columns + self.rows - 2
        return (span if distance_class else span // 2) + 1

    @property
    def least_hops(self) -> int:
        return 2
