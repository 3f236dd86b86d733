"""Services between an NI and its host: which there are, in the order in which they are stacked (cycle contract, 10)."""

import typing
from functools import reduce

from lethe.spec.events import ROUTER_COUNTER_STEP, bank
from lethe.spec.ports import HostPort

from .flow import FLOW
from .loop import LOOP
from .relay import RELAY
from .service import Header, Service

if typing.TYPE_CHECKING:
    from lethe.spec.config import System

__all__ = ["FLOW", "LOOP", "RELAY", "SERVICES", "Header", "Service", "counter_step", "outliving", "stack", "top_port"]

#: From the NI upwards.
SERVICES = (RELAY, LOOP, FLOW)


def stack(system: "System") -> tuple[Service, ...]:
    """The services that a configuration names, from the NI upwards."""
    return tuple(service for service in SERVICES if service.named(system))


def top_port(system: "System") -> HostPort:
    """The port at the top of the stack: the host's."""
    return reduce(lambda below, service: service.above(system, below), stack(system), HostPort.of_ni(system))


def outliving(system: "System") -> frozenset[str]:
    """The deliver streams at the top of which nothing is lost in a reset of the NI alone."""
    found, port = set(), HostPort.of_ni(system)
    for service in stack(system):
        above = service.above(system, port)
        if not service.reset_with_ni:
            found |= set(above.delivers) - set(port.delivers)
        port = above
    return frozenset(found)


def counter_step(system: "System") -> int:
    """Counter addresses of each service: room for those of the largest, and at least as many as a router has."""
    steps = (bank(service.counters, ROUTER_COUNTER_STEP) for service in stack(system))
    return max(steps, default=ROUTER_COUNTER_STEP)
