"""[router]: latency, input queues or a pool, and credits in place of discarding."""

import typing
from dataclasses import dataclass

from lethe.spec import stages
from lethe.spec.wire import FLIT_WIDTHS

from .key import Fail, Within, key

if typing.TYPE_CHECKING:
    from lethe.spec.config import System


#: Worms that can wait at a router input.
QUEUES = (0, 1, 2, 4)
#: The most worms in the pool of a router.
MOST_POOL = 64
#: What happens to a worm that cannot go on.
FLOWS = ("discard", "credits")
#: Virtual channels of a router input, and who chooses among them and among up-ports.
CHANNELS = (1, 2, 4)
CREDIT_PATHS = ("pinned", "adaptive")
#: Which up-ports a worm takes where it can wait in a pool.
POOL_PATHS = ("pinned", "any")
#: The most cycles by which control passes other worms in a pool.
MOST_FIRST = 255
#: A trace numbers the lanes of a router, two for each input, with 8 bits.
MOST_QUEUES = 128
#: The first fields of a header: kind, destination, source and slot.
FIELDS_OF_KEY = 4
#: Up to so many registers of a router's latency are in its crossbar, the last of them at the output.
STAGES = 6
#: Cycles by which the RTL counts what routers show later than what other units show: a register before the sums.
SUMMED = 1
#: Cycles after which the RTL knows whether a head that was refused found a buffer of the pool.
PLACED = 2
#: Cycles after which a worm that was stored is an output's next, or another is.
BEHIND = PLACED + 3
# Longer than any run.
_NO_BOUND = 1 << 42


@dataclass(frozen=True, kw_only=True)
class RouterSection:
    about = "Latency, input queues or a pool, and credits in place of discarding."

    latency: int = key(
        1, "cycles a flit spends in a router, 1 to 6; without queues its registers cut the longest paths"
    )
    queue: int = key(0, "worms that can wait at a router input, 0, 1, 2 or 4; 0: a worm that cannot go on is discarded")
    pool: int = key(0, "worms that all inputs of a router share buffers for, 0 to 64; not with router.queue")
    pool_path: str = key(
        "pinned", "pool: up-port by pair and slot (pinned), or any that is free (any; needs ni.linger)"
    )
    control_first: int = key(
        0, "pool: Acks and Forgets pass what came up to so many cycles before them, 0 to 255; needs ni.linger"
    )
    flow: str = key("discard", "discard; or credits: a reference with flow control, in the golden model only")
    credit_flits: int = key(
        4,
        "credits: flits that each channel buffers, 1 to 4096; router.queue, if not 0, says it in worms",
    )
    credit_channels: int = key(
        1, "credits: virtual channels of a router input, 1, 2 or 4, each with a buffer of its own"
    )
    credit_path: str = key(
        "pinned", "credits: up-port and channel by pair and slot (pinned), or those with most credits (adaptive)"
    )
    credit_delay: int = key(1, "credits: cycles from a flit's departure until its place can be used again, 1 to 8")
    max_wait: int = key(64, "queue: cycles a head waits for its output before it is discarded, 1 to 65535")


def check(system: "System", fail: Fail, within: Within) -> None:
    """What waits at router inputs: its sizes, and that a router can read the key of a pinned path from a first flit."""
    router, graph = system.router, system.graph
    within("router.latency", 1, STAGES)
    if router.queue not in QUEUES:
        fail("router.queue", f"must be 0, 1, 2 or 4, not {router.queue}", "choose one of these")
    within("router.pool", 0, MOST_POOL)
    if router.pool and router.queue:
        fail("router.pool", "a router has input queues or a pool, not both", "leave router.queue or router.pool at 0")
    within("router.control_first", 0, MOST_FIRST)
    _pool(system, fail)
    within("router.max_wait", 1, 65535)
    if router.flow not in FLOWS:
        fail("router.flow", f"no such flow control {router.flow!r}", f"choose {' or '.join(FLOWS)}")
    within("router.credit_flits", 1, 4096)
    within("router.credit_delay", 1, 8)
    if router.credit_channels not in CHANNELS:
        fail("router.credit_channels", f"must be 1, 2 or 4, not {router.credit_channels}", "choose one of these")
    if router.credit_path not in CREDIT_PATHS:
        fail("router.credit_path", f"no such choice {router.credit_path!r}", f"choose {' or '.join(CREDIT_PATHS)}")
    if system.credits:
        _credits(system, fail)
    else:
        _without_credits(system, fail)
        if not system.stores:
            return
    store = "router.queue" if system.queue else "router.pool"
    if system.stores and graph.max_ports > MOST_QUEUES:
        fail(store, f"needs routers of at most {MOST_QUEUES} ports, not {graph.max_ports}", "leave it at 0")
    key_fits(system, store if system.stores else "router.flow", fail)


def _pool(system: "System", fail: Fail) -> None:
    """What changes the order in a pool has one, a choice, and NIs that bear it."""
    router, graph = system.router, system.graph
    if router.pool_path not in POOL_PATHS:
        fail("router.pool_path", f"no such choice {router.pool_path!r}", f"choose {' or '.join(POOL_PATHS)}")
    freely = router.pool_path == "any"
    for name, given in (("router.pool_path", freely), ("router.control_first", router.control_first > 0)):
        if given and not system.pool:
            fail(name, "there is no pool", "set router.pool, or leave it out")
        if given and not system.ni.linger:
            fail("ni.linger", f"with {name} messages can overtake each other in a pool", "set ni.linger = -1")
    if freely and not graph.up_ports(0):
        fail("router.pool_path", f"a {graph.kind} without up-ports has no choice", 'set it to "pinned"')
    if freely and system.format.path_bits:
        fail("router.pool_path", "with wire.path_bits the sender chooses the up-ports", 'set it to "pinned"')


def _without_credits(system: "System", fail: Fail) -> None:
    """What chooses for credits chooses nothing elsewhere."""
    router = system.router
    for name, given in (
        ("router.credit_channels", router.credit_channels != 1),
        ("router.credit_path", router.credit_path != "pinned"),
    ):
        if given:
            fail(name, "a network that discards has no virtual channels", 'leave it out, or set flow = "credits"')


def key_fits(system: "System", where: str, fail: Fail) -> None:
    """Where paths are pinned a router reads kind, destination, source and slot from a first flit."""
    form, router = system.format, system.router
    key = form.common[FIELDS_OF_KEY - 1]
    if (system.credits and router.credit_path == "adaptive") or system.climbs_freely:
        return
    if (system.graph.up_ports(0) or router.credit_channels > 1) and key.offset + key.width > form.flit_bits:
        wider = next((bits for bits in FLIT_WIDTHS if key.offset + key.width <= bits), None)
        fail(
            where,
            f"kind, destination, source and slot must fit the first flit, but take {key.offset + key.width} bits",
            f"set wire.flit_bits = {wider}",
        )


def _credits(system: "System", fail: Fail) -> None:
    """A network with credits discards nothing, and so cannot do with what tears worms or takes credits away."""
    faults = system.faults
    if system.router.pool:
        fail("router.pool", "with credits each input has a buffer of its own", "leave it at 0")
    if system.topology.kind == "wire":
        fail("router.flow", "a wire has no routers that could give credits", 'set flow = "discard"')
    torn = (
        ("faults.loss", faults.loss),
        ("faults.flip", faults.flip),
        ("faults.links", faults.links),
        ("faults.resets", faults.resets),
    )
    for name, given in torn:
        if given:
            fail(name, "credits that are lost with a flit never come back", "leave it out")
    if system.router.credit_path == "adaptive" and system.router.credit_channels == 1 and not system.graph.up_ports(0):
        fail("router.credit_path", f"a {system.graph.kind} with one channel has no choice", 'set it to "pinned"')
    if system.timers.ack_limit:
        fail("timers.ack_limit", "with credits nothing bounds how long a worm is under way", "leave it at 0")


def stages_of(latency: int, queue: int) -> int:
    """Registers before the crossbar of a router; none with queues."""
    return 0 if queue else min(latency, STAGES) - 1


def lag(latency: int, queue: int, pool: int = 0) -> int:
    """Cycles by which the RTL of a router shows an event late: registers before its crossbar, and finding a buffer."""
    return stages_of(latency, queue) + (PLACED if pool else 0)


def trace_lag(system: "System") -> int:
    """Cycles by which the RTL of a system shows its trace words late."""
    return lag(system.router.latency, system.queue, system.pool) if system.graph.routers else 0


def credits(system: "System") -> int:
    """Flits that a router input buffers under credits; 0: the network discards."""
    if system.router.flow != "credits":
        return 0
    return system.router.queue * system.format.max_flits or system.router.credit_flits


def queue(system: "System") -> int:
    """Worms that can wait at a router input of a network that discards."""
    return system.router.queue if system.router.flow != "credits" else 0


def pool(system: "System") -> int:
    """Worms for which a router of a network that discards has buffers, shared by its inputs."""
    return system.router.pool if system.router.flow != "credits" else 0


def stores(system: "System") -> bool:
    """Whether routers of a network that discards keep worms that cannot go on: in queues, or in a pool."""
    return system.queue > 0 or system.pool > 0


def climbs_freely(system: "System") -> bool:
    """Whether what can wait in a pool takes any up-port that is free."""
    return system.pool > 0 and system.router.pool_path == "any"


def control_first(system: "System") -> int:
    """Cycles by which control passes what came before it into a pool; 0: it does not."""
    return system.router.control_first if system.pool else 0


def overtakes(system: "System") -> bool:
    """Whether messages of a pair and slot can overtake each other."""
    adaptive = system.credits > 0 and system.router.credit_path == "adaptive"
    return adaptive or system.format.path_bits > 0 or system.climbs_freely or system.control_first > 0


def worms_wait(system: "System") -> bool:
    """Whether a worm can wait in a router; a tree then has one path for a pair and slot, unless `overtakes`."""
    return system.stores or system.credits > 0


def longest_wait(system: "System") -> int:
    """The most cycles a worm can spend in the queue of a router input, or in a pool; credits have no such bound."""
    if system.credits:
        return _NO_BOUND
    queue, flits = system.queue, system.format.max_flits
    if system.pool:
        return system.control_first + system.pool * (flits + 1) + 9
    return queue * (system.router.max_wait + flits + 3) + flits + 2 if queue else 0


def packet_life(system: "System") -> int:
    """The most cycles a worm can spend between its first flit and its action at the receiver."""
    longest = system.graph.class_hops(system.graph.distance_classes - 1)
    return longest * (system.router.latency + system.longest_wait) + system.format.max_flits + stages.ACTS
