"""The network as a picture: where worms were discarded."""

import math
from collections import defaultdict
from collections.abc import Callable

from markupsafe import Markup

from lethe.spec.events import DISCARDS, EVENTS, Event, Unit
from lethe.spec.topology import Topology
from lethe_sim.ledger.audit import Metrics

from .svg import element, picture, rect, text, title

#: Networks with more links are drawn as one cell per router, without links.
MOST_LINKS = 1600
#: And with more cells in a row, neighbours share one.
_MOST_CELLS = 256

_ON_ROUTER, _ON_LINK = (tuple(e for e in DISCARDS if unit in EVENTS[e].units) for unit in (Unit.ROUTER, Unit.LINK))


class Load:
    """What happened at each unit: heads forwarded and discarded by routers, worms lost by links, drops by NIs."""

    def __init__(self, metrics: Metrics, graph: Topology):
        self.graph = graph
        self.by_unit: dict[int, dict[int, int]] = defaultdict(lambda: defaultdict(int))
        for unit, event, _, count in metrics.events:
            self.by_unit[unit][event] += count
        self.known = -1 not in self.by_unit
        self.whole = graph.link_count <= MOST_LINKS
        self.worst_router = max((self.share(r) for r in range(graph.routers)), default=0.0) if self.known else 0.0
        links = range(graph.link_count) if self.known else ()
        self.worst_link = max((self.lost(link) for link in links), default=0)
        self.worst_node = max((self.drops(node) for node in range(graph.nodes)), default=0) if self.known else 0

    def router(self, router: int) -> tuple[int, int]:
        """(forwarded, discarded)"""
        events = self.by_unit.get(self.graph.first_router + router, {})
        return events.get(Event.FORWARD, 0), sum(events.get(e, 0) for e in _ON_ROUTER)

    def share(self, router: int) -> float:
        forwarded, discarded = self.router(router)
        return discarded / (forwarded + discarded) if discarded else 0.0

    def lost(self, link: int) -> int:
        events = self.by_unit.get(self.graph.first_link + link, {})
        return sum(events.get(e, 0) for e in _ON_LINK)

    def drops(self, node: int) -> int:
        return self.by_unit.get(node, {}).get(Event.DROP, 0)


def network(metrics: Metrics, graph: Topology) -> Markup | None:
    """The picture of a network; None where events were not kept by unit."""
    load = Load(metrics, graph)
    if not load.known:
        return None
    if not load.whole:
        return _rows(load)
    place: Callable[[Topology], _Places] = {
        "tree": _tree, "fly": _fly, "mesh": _mesh, "crossbar": _crossbar, "wire": _wire,
    }[graph.kind]  # fmt: skip
    places = place(graph)
    parts = _links(load, places)
    for router, (x, y) in enumerate(places.routers):
        parts.append(_router(load, router, x, y, places.size))
    for node, spots in enumerate(places.nodes):
        parts += [_node(load, node, x, y, places.size, places.labels) for x, y in spots]
    return picture(places.width, places.height, parts, f"The {graph.kind} and where it discarded", "network")


class _Places:
    """Where routers and nodes stand; a node of a fly stands twice, where it sends and where it receives."""

    def __init__(self, width: float, height: float, size: float, labels: bool):
        self.width, self.height, self.size, self.labels = width, height, size, labels
        self.routers: list[tuple[float, float]] = []
        self.nodes: list[list[tuple[float, float]]] = []


def _tree(graph: Topology) -> _Places:
    pitch = max(12.0, min(52.0, 960 / graph.nodes))
    width, rise = max(pitch * graph.nodes, 320.0) + 24, 74.0
    size = min(28.0, pitch * graph.arity * 0.32)
    height = rise * graph.levels + 40
    places = _Places(width, height, size, pitch >= 18)
    step = (width - 24) / graph.nodes
    places.nodes = [[(12 + step * (n + 0.5), height - 20)] for n in range(graph.nodes)]
    across = (width - 24) / graph.width
    for level in range(graph.levels):
        places.routers += [(12 + across * (i + 0.5), height - 20 - rise * (level + 1)) for i in range(graph.width)]
    return places


def _fly(graph: Topology) -> _Places:
    pitch = max(13.0, min(34.0, 560 / graph.nodes))
    height = pitch * graph.nodes + 24
    width = max(150.0 * (graph.levels + 1), 420.0)
    places = _Places(width, height, min(20.0, pitch * graph.arity * 0.4), True)
    column = (width - 60) / (graph.levels + 1)
    ys = [12 + pitch * (n + 0.5) for n in range(graph.nodes)]
    places.nodes = [[(30, y), (width - 30, y)] for y in ys]
    for stage in range(graph.levels):
        for i in range(graph.width):
            places.routers.append((30 + column * (stage + 1), 12 + pitch * graph.arity * (i + 0.5)))
    return places


def _mesh(graph: Topology) -> _Places:
    pitch = max(34.0, min(110.0, 800 / max(graph.columns, graph.rows)))
    places = _Places(pitch * graph.columns + 20, pitch * graph.rows + 20, pitch * 0.26, pitch >= 50)
    for router in range(graph.nodes):
        x, y = router % graph.columns, router // graph.columns
        # North is up.
        spot = 10 + pitch * (x + 0.55), 10 + pitch * (graph.rows - 1 - y + 0.45)
        places.routers.append(spot)
        places.nodes.append([(spot[0] - pitch * 0.28, spot[1] + pitch * 0.28)])
    return places


def _crossbar(graph: Topology) -> _Places:
    radius = max(110.0, graph.nodes * 20 / (2 * math.pi))
    side = 2 * radius + 60
    places = _Places(side, side, 34.0, True)
    places.routers.append((side / 2, side / 2))
    for node in range(graph.nodes):
        angle = 2 * math.pi * node / graph.nodes - math.pi / 2
        places.nodes.append([(side / 2 + radius * math.cos(angle), side / 2 + radius * math.sin(angle))])
    return places


def _wire(graph: Topology) -> _Places:
    places = _Places(420, 90, 26, True)
    places.nodes = [[(50, 45)], [(370, 45)]]
    return places


def _links(load: Load, places: _Places) -> list[str]:
    """Lines; the two directions of a pair share one, but for a fly's, which has one direction."""
    graph = load.graph
    pairs: dict[tuple, list[int]] = defaultdict(list)
    for number, link in enumerate(graph.links):
        fly_exit = graph.kind == "fly" and link.target_is_node
        source = places.nodes[link.source][0] if link.source_is_node else places.routers[link.source]
        target = places.nodes[link.target][int(fly_exit)] if link.target_is_node else places.routers[link.target]
        pairs[(min(source, target), max(source, target))].append(number)
    parts = []
    for ((x1, y1), (x2, y2)), numbers in sorted(pairs.items(), key=lambda pair: sum(map(load.lost, pair[1]))):
        lost = sum(map(load.lost, numbers))
        heat = _heat(lost, load.worst_link * len(numbers))
        told = "; ".join(f"link{n} {graph.link_name(n)}: {load.lost(n):,} worms lost" for n in numbers)
        parts.append(
            element(
                "line",
                title(told),
                x1=x1,
                y1=y1,
                x2=x2,
                y2=y2,
                class_="wire",
                style=f"--share:{heat}%" if lost else None,
            )
        )
    return parts


def _heat(value: float, most: float) -> int:
    """0 … 100; the square root, so that the small ones show."""
    return round(100 * math.sqrt(value / most)) if value and most else 0


def _router(load: Load, router: int, x: float, y: float, size: float) -> str:
    forwarded, discarded = load.router(router)
    told = f"router{router}: {forwarded:,} worms passed, {discarded:,} discarded ({load.share(router):.1%})"
    heat, corner = _heat(load.share(router), load.worst_router), (x - size / 2, y - size / 2)
    return rect(*corner, size, size, told, rx=size / 5, class_="router", style=f"--share:{heat}%")


def _node(load: Load, node: int, x: float, y: float, size: float, label: bool) -> str:
    radius = min(size / 2, 10.0) if label else min(size / 2, 4.5)
    # A number stands on the colour, which therefore stays light.
    heat = round(0.6 * _heat(load.drops(node), load.worst_node))
    dot = element(
        "circle", title(f"node {node}: {load.drops(node):,} arrivals dropped"), cx=x, cy=y, r=radius, class_="station",
        style=f"--share:{heat}%",
    )  # fmt: skip
    return dot + (text(x, y + 3.5, str(node), class_="number middle") if label and radius >= 6.5 else "")


def _rows(load: Load) -> Markup:
    """Large networks: each level a row of cells, top level first; a mesh is its own shape."""
    graph = load.graph
    if graph.kind == "mesh":
        row_of = [[y * graph.columns + x for x in range(graph.columns)] for y in reversed(range(graph.rows))]
        names = [f"row {y}" for y in reversed(range(graph.rows))]
    else:
        levels = range(graph.levels) if graph.levels else range(1)
        width = graph.width or graph.routers
        order = list(reversed(levels)) if graph.kind == "tree" else list(levels)
        row_of = [[level * width + i for i in range(width)] for level in order]
        names = [f"{'level' if graph.kind == 'tree' else 'stage'} {level}" for level in order]
    width, left = 960.0, 70.0
    height = 26.0 if len(row_of) < 20 else 8.0
    parts = []
    for index, (name, routers) in enumerate(zip(names, row_of, strict=True)):
        share = -(-len(routers) // _MOST_CELLS)
        cells = [routers[i : i + share] for i in range(0, len(routers), share)]
        y, step = index * (height + 3), (width - left) / len(cells)
        if height > 12 or index % 8 == 0:
            parts.append(text(left - 8, y + height / 2 + 4, name, class_="tick end"))
        for i, cell in enumerate(cells):
            passed, discarded = (sum(load.router(r)[k] for r in cell) for k in range(2))
            heads = passed + discarded
            span = f"router{cell[0]}" if len(cell) == 1 else f"routers {cell[0]} to {cell[-1]}"
            told = f"{span}: {passed:,} worms passed, {discarded:,} discarded"
            heat = _heat(discarded / heads if heads else 0, load.worst_router)
            x, wide = left + i * step, max(step - 0.5, 0.5)
            parts.append(rect(x, y, wide, height, told, class_="router bare", style=f"--share:{heat}%"))
    return picture(width, len(row_of) * (height + 3), parts, f"The {graph.kind}, a row for each level", "network")
