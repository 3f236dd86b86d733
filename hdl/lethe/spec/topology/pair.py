"""The topology ``wire``: two nodes, each the other's neighbour, and no router."""

import typing
from functools import cached_property

from .graph import Link, Topology

if typing.TYPE_CHECKING:
    from lethe.spec.sections.topology import TopologySection


class Pair(Topology):
    """Two nodes and two links."""

    @classmethod
    def of(cls, section: "TopologySection", *, queued: bool, dilation: int) -> Topology:
        return cls(kind="wire", nodes=2, queued=queued)

    @property
    def routers(self) -> int:
        return 0

    def ports(self, router: int) -> int:
        raise IndexError(f"a wire has no router {router}")

    def _direction(self, router: int, came_from: int, destination: int) -> int:
        raise IndexError(f"a wire has no router {router}")

    @cached_property
    def links(self) -> tuple[Link, ...]:
        """The link of each node to the other."""
        return tuple(
            Link(source_is_node=True, source=node, source_port=0, target_is_node=True, target=1 - node, target_port=0)
            for node in range(2)
        )

    @property
    def link_count(self) -> int:
        return 2

    def link(self, number: int) -> Link:
        if not 0 <= number < 2:
            raise IndexError(f"link must be 0 to 1, not {number!r}")
        return self.links[number]

    def links_of(self, node: int) -> tuple[int, int]:
        return node, 1 - node

    def hops(self, source: int, destination: int) -> int:
        return 0
