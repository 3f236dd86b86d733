"""A k-ary n-fly (butterfly): one path for a pair, through every stage."""

from .levels import Levelled


class Fly(Levelled):
    """Stages of routers with as many inputs as outputs."""

    def ports(self, router: int) -> int:
        return self.arity * self.dilation

    def fly_wire(self, stage: int, line: int) -> int:
        """The input line of stage+1 that output line ``line`` of ``stage`` is wired to.

        It swaps digit 0 with digit levels−1−stage: what the stage has just chosen goes to its
        final place in the line number.
        """
        k, place = self.arity, self.arity ** (self.levels - 1 - stage)
        low, digit = line % k, line // place % k
        return line + (digit - low) + (low - digit) * place

    def _direction(self, router: int, came_from: int, destination: int) -> int:
        return destination // self.arity ** (self.levels - 1 - self.level(router)) % self.arity

    @property
    def _channels(self) -> int:
        return (self.levels - 1) * self.width * self.arity

    def _channel(self, place: int) -> tuple[int, int]:
        return place // self.arity, place % self.arity

    def _attachment(self, node: int, *, injection: bool) -> tuple[int, int]:
        router, port = super()._attachment(node, injection=injection)
        return router + (0 if injection else (self.levels - 1) * self.width), port

    def _across(self, router: int, port: int) -> tuple[int, int] | None:
        k, level = self.arity, self.level(router)
        if level == self.levels - 1:
            return None
        line = self.fly_wire(level, self.index(router) * k + port)
        return (level + 1) * self.width + line // k, line % k

    def hops(self, source: int, destination: int) -> int:
        return self.levels
