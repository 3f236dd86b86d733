"""Routes, distances and wiring as arithmetic on numbers, so that 65,536 nodes need no tables.

The same answers as `lethe.spec.topology.Topology`, which the tests hold it against.
"""

from lethe.spec.topology import EAST, LOCAL, NORTH, NOWHERE, SOUTH, UP, WEST
from lethe_sim.golden.compile import jit
from lethe_sim.golden.state import CROSSBAR, FLY, MESH, TREE, WIRE


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
    kind = k.topology
    if kind == CROSSBAR:
        return k.nodes
    if kind == MESH:
        return 5
    if kind == TREE and router // k.width != k.levels - 1:
        return 2 * k.arity * k.dilation
    return k.arity * k.dilation


@jit
def divide(value, divisor, shift):
    """``value // divisor``, which is 2^shift unless ``shift`` is negative."""
    return value >> shift if shift >= 0 else value // divisor


@jit
def remainder(value, divisor, shift):
    """``value % divisor``, which is 2^shift unless ``shift`` is negative."""
    return value & (1 << shift) - 1 if shift >= 0 else value % divisor


@jit
def place_router(k, router, number):
    """Enter what routes of router ``number`` need: a destination's digit, and who is below.

    ``place`` is the weight of the destination digit that the router decides on; of a tree, ``above`` is what
    the destinations below the router have in common, and ``top`` says that it is on the highest level.
    """
    router.number = number
    if k.topology != TREE and k.topology != FLY:
        return
    level, index = number // k.width, number % k.width
    exponent = level if k.topology == TREE else k.levels - 1 - level
    router.place = power(k.arity, exponent)
    router.place_shift = exponent * k.arity_shift if k.arity_shift > 0 else -1
    router.above = index // router.place
    router.top = level == k.levels - 1


@jit
def route(k, router, came_from, destination):
    """Output port for a head that came in on ``came_from``; `UP`; or `NOWHERE`.  Of parallel links it is the first."""
    if k.dilation == 1:
        return direction(k, router, came_from, destination)
    found = direction(k, router, came_from // k.dilation, destination)
    return found * k.dilation if found >= 0 else found


@jit
def direction(k, router, came_from, destination):
    """`route` in a network of single links."""
    if destination >= k.nodes:
        return NOWHERE
    kind, arity = k.topology, k.arity
    if kind in (FLY, TREE):
        below = divide(destination, router.place, router.place_shift)
        port = remainder(below, arity, k.arity_shift)
        if kind == FLY:
            return port
        if divide(below, arity, k.arity_shift) != router.above:
            return NOWHERE if came_from >= arity or router.top else UP
    elif kind == CROSSBAR:
        port = destination
    else:
        x, y = router.number % k.columns, router.number // k.columns
        to_x, to_y = destination % k.columns, destination // k.columns
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
    if k.topology == TREE:
        level = -1
        while a != b:
            a, b = divide(a, k.arity, k.arity_shift), divide(b, k.arity, k.arity_shift)
            level += 1
        return max(level, 0)
    if k.topology == MESH:
        across = abs(a % k.columns - b % k.columns) + abs(a // k.columns - b // k.columns)
        return 1 if 2 * across > k.columns + k.rows - 2 else 0
    return 0


@jit
def entry(k, node):
    """(router, port) of a node's injection link."""
    kind = k.topology
    if kind == CROSSBAR:
        return 0, node
    if kind == MESH:
        return node, LOCAL
    return node // k.arity, node % k.arity * k.dilation


@jit
def neighbour(k, router, port):
    """What an output port is joined to: (router, port), or (−1, node), or (−1, −1) for nothing."""
    d = k.dilation
    other, place = across(k, router, port // d)
    if other >= 0:
        return other, place * d + port % d
    return -1, place if port % d == 0 else -1


@jit
def across(k, router, port):
    """`neighbour` in a network of single links."""
    kind, arity, width = k.topology, k.arity, k.width
    if kind == CROSSBAR:
        return -1, port
    if kind == MESH:
        x, y = router % k.columns, router // k.columns
        if port == LOCAL:
            return -1, router
        if port == EAST and x + 1 < k.columns:
            return router + 1, WEST
        if port == WEST and x > 0:
            return router - 1, EAST
        if port == NORTH and y + 1 < k.rows:
            return router + k.columns, SOUTH
        if port == SOUTH and y > 0:
            return router - k.columns, NORTH
        return -1, -1
    level, index = router // width, router % width
    if kind == FLY:
        line = index * arity + port
        if level == k.levels - 1:
            return -1, line
        place = power(arity, k.levels - 1 - level)
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
def wire_up(k, f):
    """Fill in what each link leads to, and the link of each output port; returns the number of links.

    A link's target is a router's input port (counted over all routers), or −1 − node.
    Links are numbered as in `Topology.links`.
    """
    nodes = k.nodes
    if k.topology == WIRE:
        f.links[0].target, f.links[1].target = -2, -1
        return 2
    for node in range(nodes):
        first, port = entry(k, node)
        f.links[node].target = f.routers[first].first_port + port
        f.links[nodes + node].target = -1 - node
    link = 2 * nodes
    for number in range(k.router_count):
        router = f.routers[number]
        place_router(k, router, number)
        for port in range(router.ports):
            output = f.ports[router.first_port + port]
            output.router = number
            other, place = neighbour(k, number, port)
            if other >= 0:
                f.links[link].target = f.routers[other].first_port + place
                output.out_link = link
                link += 1
            elif place >= 0:
                output.out_link = nodes + place
    return link
