"""[faults]: what is lost, flipped, dead, stalled and reset."""

import typing
from dataclasses import dataclass

from lethe.spec.partition import cut_pair, pathless_pair

from .key import Fail, Within, key

if typing.TYPE_CHECKING:
    from lethe.spec.config import System


RESET_SCOPES = ("node", "ni")
#: Cycles of schedules and runs are far below 2^63, and so are their sums.
LAST_CYCLE = 1 << 62


@dataclass(frozen=True, kw_only=True)
class LinkDeath:
    link: int = key(0, "number of the link (`lethe check --links` lists them)")
    start: int = key(0, "first cycle in which the link is dead")
    end: int = key(0, "first cycle in which the link lives again")


@dataclass(frozen=True, kw_only=True)
class StallFault:
    node: int = key(0, "node of the host")
    start: int = key(0, "first cycle of the stall")
    end: int = key(0, "first cycle in which the host takes again")


@dataclass(frozen=True, kw_only=True)
class ResetFault:
    node: int = key(0, "node that is reset")
    start: int = key(0, "first cycle of the reset")
    cycles: int = key(1, "cycles that the reset lasts, at least 1")
    scope: str = key("node", "node: NI and services; ni: the NI alone, its services go on")


@dataclass(frozen=True, kw_only=True)
class NodeDeath:
    node: int = key(0, "node that dies: it is reset for ever, and its links are dead")
    start: int = key(0, "first cycle of its death")


@dataclass(frozen=True, kw_only=True)
class Absence:
    node: int = key(0, "node that is away: its links are dead, and its time stands still")
    start: int = key(0, "first cycle of its absence")
    end: int = key(0, "first cycle in which it is back")


@dataclass(frozen=True, kw_only=True)
class Notice:
    node: int = key(0, "node that is told")
    died: int = key(1, "node that is said to be dead, whether or not it is")
    start: int = key(0, "cycle of the notice")


@dataclass(frozen=True, kw_only=True)
class FaultsSection:
    about = "What goes wrong, and when."

    loss: float = key(0.0, "probability that a worm is lost on a link it crosses, injection and ejection links too")
    flip: float = key(0.0, "probability that one bit of a flit flips on a link it crosses")
    links: tuple[LinkDeath, ...] = key((), "[[faults.links]]: links that die and heal")
    stalls: tuple[StallFault, ...] = key((), "[[faults.stalls]]: hosts that take nothing from their deliver FIFOs")
    resets: tuple[ResetFault, ...] = key((), "[[faults.resets]]: nodes that are reset")
    deaths: tuple[NodeDeath, ...] = key((), "[[faults.deaths]]: nodes that die")
    absences: tuple[Absence, ...] = key((), "[[faults.absences]]: nodes that are away, and come back as they were")
    notices: tuple[Notice, ...] = key((), "[[faults.notices]]: when a node's relay is told of a death, true or false")


def check(system: "System", fail: Fail, within: Within) -> None:
    faults, links = system.faults, system.graph.link_count
    within("faults.loss", 0.0, 0.99)
    within("faults.flip", 0.0, 0.5)
    for i, fault in enumerate(faults.links):
        if not 0 <= fault.link < links:
            fail(f"faults.links[{i}].link", f"no link {fault.link}", f"the topology has 0 to {links - 1}")
    nodes = (
        ("stalls", faults.stalls),
        ("resets", faults.resets),
        ("deaths", faults.deaths),
        ("absences", faults.absences),
    )
    for name, scheduled in nodes:
        for i, fault in enumerate(scheduled):
            if not 0 <= fault.node < system.nodes:
                fail(f"faults.{name}[{i}].node", f"no node {fault.node}", f"the topology has 0 to {system.nodes - 1}")
    for name, scheduled in (("links", faults.links), ("stalls", faults.stalls), ("absences", faults.absences)):
        for i, fault in enumerate(scheduled):
            if not 0 <= fault.start < fault.end:
                fail(f"faults.{name}[{i}].end", "must come after start", "give both, start first, from cycle 0 on")
    for i, reset in enumerate(faults.resets):
        if not (1 <= reset.cycles <= LAST_CYCLE and 0 <= reset.start <= LAST_CYCLE):
            fail(f"faults.resets[{i}].cycles", "must be at least 1, from a cycle ≥ 0 and up to 2^62", "mend both")
        if reset.scope not in RESET_SCOPES:
            fail(f"faults.resets[{i}].scope", f"no such scope {reset.scope!r}", f"choose {' or '.join(RESET_SCOPES)}")
    for i, notice in enumerate(faults.notices):
        where = f"faults.notices[{i}]"
        if not system.relay.slots:
            fail(where, "there is no relay to be told", "set relay.slots, or leave the notice out")
        for name, node in (("node", notice.node), ("died", notice.died)):
            if not 0 <= node < system.nodes:
                fail(f"{where}.{name}", f"no node {node}", f"the topology has 0 to {system.nodes - 1}")
        if notice.node == notice.died:
            fail(f"{where}.died", "a node is not told of its own death", "name another")
        if not 0 <= notice.start <= LAST_CYCLE:
            fail(f"{where}.start", f"must be 0 to 2^62, not {notice.start}", "choose one of these")
    for i, death in enumerate(faults.deaths):
        if not 0 <= death.start <= LAST_CYCLE:
            fail(f"faults.deaths[{i}].start", f"must be 0 to 2^62, not {death.start}", "choose one of these")
    if faults.deaths and not system.timers.ack_limit:
        fail(
            "faults.deaths",
            "entries of a dead node would stay in the receive tables for ever",
            "set timers.ack_limit and workload.retry_limit, or take faults.absences",
        )


def promises(system: "System", fail: Fail) -> None:
    """Paths that exist: no datagram without limits goes where no link is left for ever."""
    limit = system.workload.retry_limit
    for_ever = {fault.link for fault in system.link_deaths if fault.end >= system.run.cycles}
    if for_ever and not limit and not system.workload.deadline:
        if system.format.path_bits:
            _paths(system, for_ever, fail)
        else:
            _pinned(system, for_ever, fail)
        cut = cut_pair(system.graph, for_ever)
        if cut:
            fail(
                "faults.links",
                f"no path is left from node {cut[0]} to node {cut[1]}, which would repeat for ever",
                "let a link heal, or set workload.retry_limit",
            )


def _paths(system: "System", dead: set[int], fail: Fail) -> None:
    """Senders try one path after the other, and what answers takes the same: one must be whole in both directions."""
    cut = pathless_pair(system.graph, dead, system.format.path_bits)
    if cut:
        fail(
            "faults.links",
            f"none of the {1 << system.format.path_bits} paths between node {cut[0]} and node {cut[1]} is left in both "
            "directions, and they would repeat for ever",
            "widen wire.path_bits, let a link heal, or set workload.retry_limit",
        )


def _pinned(system: "System", dead: set[int], fail: Fail) -> None:
    """A tree with pinned paths has one for a pair and slot, so each link between routers is the only way of some.

    Of parallel links up there is but one on each path, of those down any that is left.
    """
    graph = system.graph
    store = "router.pool" if system.pool else "router.queue"
    pinned = "study.path" if system.study.path == "pinned" else store if graph.queued else None
    if graph.kind != "tree" or not pinned or system.climbs_freely:
        return
    between = [
        link
        for link in sorted(dead)
        if link >= 2 * graph.nodes
        and (graph.link(link).source < graph.link(link).target or dead.issuperset(graph.bundle(link)))
    ]
    if between:
        fail(
            "faults.links",
            f"with {pinned} paths are pinned, and those over link {between[0]} ({graph.link_name(between[0])}) "
            "would repeat for ever",
            "let the link heal, or set workload.retry_limit",
        )


def link_deaths(system: "System") -> tuple[LinkDeath, ...]:
    """When links are dead: by themselves, and with nodes that are dead or away."""
    faults, graph = system.faults, system.graph
    nodes = [(f.node, f.start, LAST_CYCLE) for f in faults.deaths]
    nodes += [(f.node, f.start, f.end) for f in faults.absences]
    links = [LinkDeath(link=link, start=start, end=end) for node, start, end in nodes for link in graph.links_of(node)]
    return (*faults.links, *links)


def node_resets(system: "System") -> tuple[ResetFault, ...]:
    """When nodes are in reset: those that die for ever, up to `LAST_CYCLE`."""
    dead = (ResetFault(node=f.node, start=f.start, cycles=LAST_CYCLE - f.start + 1) for f in system.faults.deaths)
    return (*system.faults.resets, *dead)


def death(system: "System", node: int) -> int | None:
    """The cycle from which on a node is dead; None if it never is."""
    return min((f.start for f in system.faults.deaths if f.node == node), default=None)


def loss_threshold(system: "System") -> int:
    """Of 65536."""
    return round(system.faults.loss * 65536)


def flip_threshold(system: "System") -> int:
    """Of 2^24."""
    return round(system.faults.flip * 2**24)
