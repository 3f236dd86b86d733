"""Which links a capture has, as the command line names them."""

import re

from lethe.spec.config import System


class LinksError(Exception):
    """Links that are not there; ``what: what is wrong; cure``."""


def links_of(system: System, told: str) -> list[int]:
    """The numbers of the links that ``told`` names, in order, each once.

    Parts are separated by commas: ``nodes``, all links that leave or enter a node; ``node3``; ``routers``, all links
    between routers; ``router1``, all links that leave or enter a router; ``link12`` or ``12``; ``12-20``; ``all``.
    Raises `LinksError`.
    """
    found: set[int] = set()
    for part in told.split(","):
        found |= _part(system, part.strip())
    if not found:
        raise LinksError(f"{told}: there are no such links in this network; choose others, or nodes")
    return sorted(found)


def _part(system: System, part: str) -> set[int]:
    graph = system.graph
    match part:
        case "all":
            return set(range(graph.link_count))
        case "nodes":
            return {link for node in range(graph.nodes) for link in graph.links_of(node)}
        case "routers":
            return set(range(graph.link_count)) - _part(system, "nodes")
    if found := re.fullmatch(r"(?:link)?(\d{1,9})(?:-(\d{1,9}))?", part):
        first, last = int(found[1]), int(found[2] or found[1])
        if not first <= last < graph.link_count:
            raise LinksError(
                f"{part}: no such links; the network has links 0 to {graph.link_count - 1} (`lethe check --links`)"
            )
        return set(range(first, last + 1))
    if found := re.fullmatch(r"node(\d{1,9})", part):
        if int(found[1]) >= graph.nodes:
            raise LinksError(f"{part}: no such node; the network has nodes 0 to {graph.nodes - 1}")
        return set(graph.links_of(int(found[1])))
    if found := re.fullmatch(r"router(\d{1,9})", part):
        router = int(found[1])
        if router >= graph.routers:
            last = f"routers 0 to {graph.routers - 1}" if graph.routers else "no routers"
            raise LinksError(f"{part}: no such router; the network has {last}")
        return {
            number
            for number, end in enumerate(graph.links)
            if (not end.source_is_node and end.source == router) or (not end.target_is_node and end.target == router)
        }
    raise LinksError(f"{part!r}: names no links; give nodes, node3, routers, router1, 12, 12-20 or all")
