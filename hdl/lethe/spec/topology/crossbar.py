"""A crossbar: one router with a port for each node."""

import typing

from .graph import NOWHERE, Topology

if typing.TYPE_CHECKING:
    from lethe.spec.sections.key import Fail, Within
    from lethe.spec.sections.topology import TopologySection


class Crossbar(Topology):
    """One router; port i is node i's."""

    @classmethod
    def of(cls, section: "TopologySection", *, queued: bool, dilation: int) -> Topology:
        return cls(kind="crossbar", nodes=section.nodes, queued=queued)

    @staticmethod
    def check(section: "TopologySection", fail: "Fail", within: "Within") -> None:
        within("topology.nodes", 2, 256)

    @property
    def routers(self) -> int:
        return 1

    def ports(self, router: int) -> int:
        return self.nodes

    def _direction(self, router: int, came_from: int, destination: int) -> int:
        return NOWHERE if destination == came_from else destination

    def _attachment(self, node: int, *, injection: bool) -> tuple[int, int]:
        return 0, node
