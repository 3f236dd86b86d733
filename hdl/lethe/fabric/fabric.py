"""All routers and links of a topology."""

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from lethe.layouts import flit_layout
from lethe.lib.random import seed_of
from lethe.spec.config import System
from lethe.spec.events import RouterCounter
from lethe.spec.random import UNIT_LINK_FLIP, UNIT_LINK_LOSS, UNIT_ROUTER, UNIT_SALT
from lethe.verilog import shared

from .fault import LinkFault
from .router import Router
from .routes import Rule

__all__ = ["Fabric"]


class Fabric(wiring.Component):
    """The network between the NIs: `Topology.links`, each through its fault element, and `Topology.routers`.

    Parameters
    ----------
    system : topology, wire format, router latency and faults

    Members
    -------
    i, o : In(flit), Out(flit), one per node
        From an NI's ``link_o``, to its ``link_i``.
    dead : In(links)
        Which links are dead in this cycle; only those of ``system.link_deaths`` are looked at.
    seed : In(32), with ``seeded``
        The run's seed, in the place of ``system.run.seed``; constant.
    watch_links : Out(8 · links)
        Trace bytes of the links.
    watch0 …, counts0 … : Out, one per router
        `Router.watch` and `Router.counts`.
    """

    def __init__(self, system: System, *, seeded: bool = False):
        self._system, self._seeded = system, seeded
        graph = self._graph = system.graph
        flit = flit_layout(system.format)
        self.rules = [Rule.of(graph, r) for r in range(graph.routers)]
        members = {
            "i": In(flit).array(graph.nodes),
            "o": Out(flit).array(graph.nodes),
            "dead": In(len(graph.links)),
            "watch_links": Out(8 * len(graph.links)),
            **({"seed": In(32)} if seeded else {}),
        }
        for r, rule in enumerate(self.rules):
            members[f"watch{r}"] = Out(Router.watch_bits(rule, system.queue or system.pool))
            members[f"counts{r}"] = Out(len(RouterCounter) * Router.count_bits(rule))
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        system, graph = self._system, self._graph
        seed = self.seed if self._seeded else system.run.seed
        routers = []
        for r, rule in enumerate(self.rules):
            router, m.submodules[f"router{r}"] = shared(
                platform,
                f"router_level{rule.level}",
                Router,
                system.format,
                rule,
                *Router.settings(system),
            )
            routers.append(router)
            m.d.comb += [
                router.position.eq(rule.position(r)),
                router.seed.eq(seed_of(m, seed, UNIT_ROUTER, r)),
                getattr(self, f"watch{r}").eq(router.watch),
                getattr(self, f"counts{r}").eq(router.counts),
            ]
            if Router.pins(rule, system.queue or system.pool, system.format, system.climbs_freely):
                m.d.comb += router.salt.eq(seed_of(m, seed, UNIT_SALT, 0))

        mortal = {fault.link for fault in system.link_deaths}
        for number, link in enumerate(graph.links):
            source = self.i[link.source] if link.source_is_node else routers[link.source].o[link.source_port]
            target = self.o[link.target] if link.target_is_node else routers[link.target].i[link.target_port]
            if not (system.loss_threshold or system.flip_threshold or number in mortal):
                m.d.comb += target.eq(source)
                continue
            fault, m.submodules[f"link{number}"] = shared(
                platform,
                "mortal_link" if number in mortal else "link",
                LinkFault,
                system.format,
                system.loss_threshold,
                system.flip_threshold,
                number in mortal,
            )
            m.d.comb += [
                fault.i.eq(source),
                target.eq(fault.o),
                fault.dead.eq(self.dead[number]),
                fault.loss_seed.eq(seed_of(m, seed, UNIT_LINK_LOSS, number)),
                fault.flip_seed.eq(seed_of(m, seed, UNIT_LINK_FLIP, number)),
                self.watch_links.word_select(number, 8).eq(fault.watch),
            ]
        return m
