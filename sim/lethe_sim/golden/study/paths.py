"""Paths through a fat tree (docs/studies/study.md): up-ports drawn blindly or pinned, parallel links."""

from lethe.spec.topology import UP
from lethe_sim.golden.compile import jit
from lethe_sim.golden.fabric.fabric import heads_at
from lethe_sim.golden.fabric.pin import pinned_port
from lethe_sim.golden.lib.random import advance, scale
from lethe_sim.golden.state import BLIND


@jit
def choose(k, f, number):
    """Each head that asks for "up" asks for one up-port, drawn or pinned, whether it is free or not."""
    router, at = f.routers[number], heads_at(f, number)
    first = k.arity * k.dilation
    for i in range(at + 1, at + f.heads[at] + 1):
        port = f.heads[i]
        if f.ports[port].asks != UP:
            continue
        if k.path == BLIND:
            router.path_draw = advance(router.path_draw)
            chosen = first + scale(router.path_draw & 0xFFFF, 16, router.ports - first)
        else:
            chosen = pinned_port(k, router, f.port_flit[2 * port])
        f.ports[port].asks = chosen


@jit
def is_bundle(k, router, ask):
    """Whether a route, with dilation, is a direction of parallel links: it leads to a router, and is no up-port."""
    return ask < k.arity * k.dilation and router.place > 1
