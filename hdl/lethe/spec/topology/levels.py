"""What trees and flies share: arity^levels nodes, and routers in levels of arity^(levels − 1)."""

import typing

from .graph import Topology

if typing.TYPE_CHECKING:
    from lethe.spec.sections.key import Fail, Within
    from lethe.spec.sections.topology import TopologySection


class Levelled(Topology):
    """Routers in levels."""

    @classmethod
    def of(cls, section: "TopologySection", *, queued: bool, dilation: int) -> Topology:
        return cls(
            kind=section.kind, nodes=section.arity**section.levels, arity=section.arity, levels=section.levels,
            queued=queued, dilation=dilation,
        )  # fmt: skip

    @staticmethod
    def check(section: "TopologySection", fail: "Fail", within: "Within") -> None:
        within("topology.arity", 2, 16)
        within("topology.levels", 1, 16)
        nodes = section.arity**section.levels
        if nodes > 65536:
            fail("topology.levels", f"gives {nodes} nodes", "65536 are the most, so lower it")

    @property
    def routers(self) -> int:
        return self.levels * self.width

    def level(self, router: int) -> int:
        return router // self.width

    def index(self, router: int) -> int:
        return router % self.width
