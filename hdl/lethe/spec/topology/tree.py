"""A k-ary n-tree (fat tree): any way up to the level where a pair meets, then one way down."""

from .graph import NOWHERE, UP
from .levels import Levelled


class Tree(Levelled):
    """Level 0 is next to the nodes; every router but those of the top level has as many ports up as down."""

    def ports(self, router: int) -> int:
        directions = self.arity if self.level(router) == self.levels - 1 else 2 * self.arity
        return directions * self.dilation

    def up_ports(self, router: int) -> int:
        return self.ports(router) - self.arity * self.dilation

    def _direction(self, router: int, came_from: int, destination: int) -> int:
        k, level = self.arity, self.level(router)
        if self.index(router) // k**level != destination // k ** (level + 1):
            return NOWHERE if came_from >= k or level == self.levels - 1 else UP
        port = destination // k**level % k
        return NOWHERE if port == came_from else port

    @property
    def _channels(self) -> int:
        return 2 * (self.levels - 1) * self.width * self.arity

    def _channel(self, place: int) -> tuple[int, int]:
        k, width = self.arity, self.width
        # Bottom and top level have k such ports a router, the levels between 2k.
        if place < width * k:
            return place // k, k + place % k
        place -= width * k
        middle = (self.levels - 2) * width * 2 * k
        if place < middle:
            return width + place // (2 * k), place % (2 * k)
        place -= middle
        return (self.levels - 1) * width + place // k, place % k

    def _across(self, router: int, port: int) -> tuple[int, int] | None:
        k, level, index = self.arity, self.level(router), self.index(router)
        if port >= k:
            place = k**level
            digit = index // place % k
            return (level + 1) * self.width + index + (port - k - digit) * place, digit
        if level == 0:
            return None
        place = k ** (level - 1)
        digit = index // place % k
        return (level - 1) * self.width + index + (port - digit) * place, k + digit

    def _meeting_level(self, a: int, b: int) -> int:
        level = 0
        while a // self.arity ** (level + 1) != b // self.arity ** (level + 1):
            level += 1
        return level

    def hops(self, source: int, destination: int) -> int:
        return 2 * self._meeting_level(source, destination) + 1

    @property
    def distance_classes(self) -> int:
        return self.levels

    def distance_class(self, source: int, destination: int) -> int:
        return self._meeting_level(source, destination)

    def class_hops(self, distance_class: int) -> int:
        return 2 * distance_class + 1
