"""Routes, distances and wiring as arithmetic on numbers, so that 65,536 nodes need no tables.

The same answers as `lethe.spec.topology.Topology`, which the tests hold it against.
"""

from lethe.spec.topology import EAST, LOCAL, NORTH, NOWHERE, SOUTH, UP, WEST

from .compile import jit
from .state import (
    ABOVE,
    ARITY,
    ARITY_SHIFT,
    COLUMNS,
    CROSSBAR,
    DILATION,
    FIRST_PORT,
    FLY,
    LEVELS,
    LINK_COLUMNS,
    MESH,
    NODES,
    OUT_LINK,
    PLACE,
    PLACE_SHIFT,
    PORT_COLUMNS,
    PORTS,
    ROUTER,
    ROUTER_COLUMNS,
    ROUTER_COUNT,
    ROUTER_NUMBER,
    ROWS,
    TARGET,
    TOP,
    TOPOLOGY,
    TREE,
    WIDTH,
    WIRE,
)  # fmt: skip  # isort: skip


@jit
def power(base, exponent):
    """``base`` to a small ``exponent``."""
    result = 1
    for _ in range(exponent):
        result *= base
    return result


@jit
def ports(k, router):
    """Ports of a router."""
    kind = k[TOPOLOGY]
    if kind == CROSSBAR:
        return k[NODES]
    if kind == MESH:
        return 5
    if kind == TREE and router // k[WIDTH] != k[LEVELS] - 1:
        return 2 * k[ARITY] * k[DILATION]
    return k[ARITY] * k[DILATION]


@jit
def divide(value, divisor, shift):
    """``value // divisor``, which is 2^shift unless ``shift`` is negative."""
    return value >> shift if shift >= 0 else value // divisor


@jit
def remainder(value, divisor, shift):
    """``value % divisor``, which is 2^shift unless ``shift`` is negative."""
    return value & (1 << shift) - 1 if shift >= 0 else value % divisor


@jit
def place_router(k, routers, at, number):
    """Enter in the row at ``at`` what routes of router ``number`` need: a destination's digit, and who is below.

    ``PLACE`` is the weight of the destination digit that the router decides on; of a tree, ``ABOVE`` is what
    the destinations below the router have in common, and ``TOP`` says that it is on the highest level.
    """
    routers[at + ROUTER_NUMBER] = number
    if k[TOPOLOGY] != TREE and k[TOPOLOGY] != FLY:
        return
    level, index = number // k[WIDTH], number % k[WIDTH]
    exponent = level if k[TOPOLOGY] == TREE else k[LEVELS] - 1 - level
    routers[at + PLACE] = power(k[ARITY], exponent)
    routers[at + PLACE_SHIFT] = exponent * k[ARITY_SHIFT] if k[ARITY_SHIFT] > 0 else -1
    routers[at + ABOVE] = index // routers[at + PLACE]
    routers[at + TOP] = level == k[LEVELS] - 1


@jit
def route(k, routers, at, came_from, destination):
    """Output port for a head that came in on ``came_from``; `UP`; or `NOWHERE`.  The router's row is at ``at``.

    Of parallel links it is the first.
    """
    if k[DILATION] == 1:
        return direction(k, routers, at, came_from, destination)
    found = direction(k, routers, at, came_from // k[DILATION], destination)
    return found * k[DILATION] if found >= 0 else found


@jit
def direction(k, routers, at, came_from, destination):
    """`route` in a network of single links."""
    if destination >= k[NODES]:
        return NOWHERE
    kind, arity = k[TOPOLOGY], k[ARITY]
    if kind in (FLY, TREE):
        below = divide(destination, routers[at + PLACE], routers[at + PLACE_SHIFT])
        port = remainder(below, arity, k[ARITY_SHIFT])
        if kind == FLY:
            return port
        if divide(below, arity, k[ARITY_SHIFT]) != routers[at + ABOVE]:
            return NOWHERE if came_from >= arity or routers[at + TOP] else UP
    elif kind == CROSSBAR:
        port = destination
    else:
        router = routers[at + ROUTER_NUMBER]
        x, y = router % k[COLUMNS], router // k[COLUMNS]
        to_x, to_y = destination % k[COLUMNS], destination // k[COLUMNS]
        if to_x != x:
            if came_from in (NORTH, SOUTH):
                return NOWHERE
            port = EAST if to_x > x else WEST
        elif to_y != y:
            port = NORTH if to_y > y else SOUTH
        else:
            port = LOCAL
    return NOWHERE if port == came_from else port


@jit
def distance_class(k, a, b):
    """Tree: the level at which a pair meets.  Mesh: 1 beyond half the largest distance.  Else 0."""
    if k[TOPOLOGY] == TREE:
        level = -1
        while a != b:
            a, b = divide(a, k[ARITY], k[ARITY_SHIFT]), divide(b, k[ARITY], k[ARITY_SHIFT])
            level += 1
        return max(level, 0)
    if k[TOPOLOGY] == MESH:
        across = abs(a % k[COLUMNS] - b % k[COLUMNS]) + abs(a // k[COLUMNS] - b // k[COLUMNS])
        return 1 if 2 * across > k[COLUMNS] + k[ROWS] - 2 else 0
    return 0


@jit
def entry(k, node):
    """(router, port) of a node's injection link."""
    kind = k[TOPOLOGY]
    if kind == CROSSBAR:
        return 0, node
    if kind == MESH:
        return node, LOCAL
    return node // k[ARITY], node % k[ARITY] * k[DILATION]


@jit
def neighbour(k, router, port):
    """What an output port is joined to: (router, port), or (−1, node), or (−1, −1) for nothing."""
    d = k[DILATION]
    other, place = across(k, router, port // d)
    if other >= 0:
        return other, place * d + port % d
    return -1, place if port % d == 0 else -1


@jit
def across(k, router, port):
    """`neighbour` in a network of single links."""
    kind, arity, width = k[TOPOLOGY], k[ARITY], k[WIDTH]
    if kind == CROSSBAR:
        return -1, port
    if kind == MESH:
        x, y = router % k[COLUMNS], router // k[COLUMNS]
        if port == LOCAL:
            return -1, router
        if port == EAST and x + 1 < k[COLUMNS]:
            return router + 1, WEST
        if port == WEST and x > 0:
            return router - 1, EAST
        if port == NORTH and y + 1 < k[ROWS]:
            return router + k[COLUMNS], SOUTH
        if port == SOUTH and y > 0:
            return router - k[COLUMNS], NORTH
        return -1, -1
    level, index = router // width, router % width
    if kind == FLY:
        line = index * arity + port
        if level == k[LEVELS] - 1:
            return -1, line
        place = power(arity, k[LEVELS] - 1 - level)
        low, digit = line % arity, line // place % arity
        line += (digit - low) + (low - digit) * place
        return (level + 1) * width + line // arity, line % arity
    if port >= arity:
        place = power(arity, level)
        digit = index // place % arity
        return (level + 1) * width + index + (port - arity - digit) * place, digit
    if level == 0:
        return -1, index * arity + port
    place = power(arity, level - 1)
    digit = index // place % arity
    return (level - 1) * width + index + (port - digit) * place, arity + digit


@jit
def wire_up(k, routers, ports_table, links):
    """Fill in what each link leads to, and the link of each output port; returns the number of links.

    A link's target is a router's input port (counted over all routers), or −1 − node.
    Links are numbered as in `Topology.links`.
    """
    nodes = k[NODES]
    if k[TOPOLOGY] == WIRE:
        links[TARGET], links[LINK_COLUMNS + TARGET] = -2, -1
        return 2
    for node in range(nodes):
        router, port = entry(k, node)
        links[node * LINK_COLUMNS + TARGET] = routers[router * ROUTER_COLUMNS + FIRST_PORT] + port
        links[(nodes + node) * LINK_COLUMNS + TARGET] = -1 - node
    link = 2 * nodes
    for router in range(k[ROUTER_COUNT]):
        place_router(k, routers, router * ROUTER_COLUMNS, router)
        first = routers[router * ROUTER_COLUMNS + FIRST_PORT]
        for port in range(routers[router * ROUTER_COLUMNS + PORTS]):
            here = (first + port) * PORT_COLUMNS
            ports_table[here + ROUTER] = router
            other, place = neighbour(k, router, port)
            if other >= 0:
                links[link * LINK_COLUMNS + TARGET] = routers[other * ROUTER_COLUMNS + FIRST_PORT] + place
                ports_table[here + OUT_LINK] = link
                link += 1
            elif place >= 0:
                ports_table[here + OUT_LINK] = nodes + place
    return link
