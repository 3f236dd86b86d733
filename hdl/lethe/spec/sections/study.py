"""[study]: single decisions turned, for the golden model only."""

import typing
from dataclasses import dataclass

from .key import Fail, Within, key
from .router import key_fits

if typing.TYPE_CHECKING:
    from lethe.spec.config import System


REPLIES = ("first", "last")
PATHS = ("free", "blind", "pinned")
#: A trace numbers the ports of a router with 8 bits.
MOST_PORTS = 256


@dataclass(frozen=True, kw_only=True)
class StudySection:
    about = "Single decisions of the design turned, in the golden model only."

    per_destination: int = key(0, "datagrams of a node under way to one destination; 0: no limit")
    replies: str = key("first", "first: Acks and Forgets go before Sends; last: they go when no Send can")
    path: str = key(
        "free", "tree: a head takes any free up-port (free), a drawn one (blind) or that of its pair and slot (pinned)"
    )
    dilation: int = key(1, "tree, fly: parallel links for each channel between routers, 1 to 16")


def check(system: "System", fail: Fail, within: Within) -> None:
    """Single decisions turned: which can be, and that replies which go last do go."""
    study, graph = system.study, system.graph
    within("study.per_destination", 0, 65536)
    if study.replies not in REPLIES:
        fail("study.replies", f"no such order {study.replies!r}", f"choose {' or '.join(REPLIES)}")
    longest = system.least_delay(system.timers.backoff_steps)
    if study.replies == "last" and system.ni.slots * system.format.max_flits >= longest:
        fail(
            "study.replies",
            f"repeats of {system.ni.slots} slots can fill the link, {system.format.max_flits} flits each in {longest} "
            "cycles, and replies that go last would wait for ever",
            f"raise timers.backoff_steps or timers.{'ceiling' if system.measured else 'slack'}, or lower ni.slots",
        )
    if study.path not in PATHS:
        fail("study.path", f"no such choice {study.path!r}", f"choose {', '.join(PATHS[:-1])} or {PATHS[-1]}")
    if study.path != "free":
        if graph.kind != "tree":
            fail("study.path", f"a {graph.kind} has no up-ports to choose from", 'set path = "free"')
        if system.worms_wait:
            fail(
                "study.path",
                "where worms wait, with router.queue, router.pool or credits, paths are pinned",
                'set path = "free"',
            )
        if study.path == "pinned":
            key_fits(system, "study.path", fail)
    within("study.dilation", 1, 16)
    if study.dilation > 1:
        if graph.kind not in ("tree", "fly"):
            fail("study.dilation", f"a {graph.kind} has no parallel links", "set dilation = 1, or choose a tree or fly")
        if system.worms_wait:
            fail("study.dilation", "routers in which worms wait have single links", "set dilation = 1")
        if graph.ports(0) > MOST_PORTS:
            fail(
                "study.dilation", f"needs routers of {graph.ports(0)} ports, but {MOST_PORTS} are the most", "lower it"
            )
