"""The tables of a configuration, one file each: keys with defaults and meanings, checks, and derived numbers.

A section's file has a dataclass, ``check(system, fail, within)`` for its keys, alone and against the sizes they depend
on, where exactly-once rests on it ``promises(system, fail)``, and functions of a `System`, which `config.System` folds.
"""

import typing

from . import faults, flow, loop, ni, relay, router, run, study, timers, topology, wire, workload
from .faults import FaultsSection
from .flow import FlowSection
from .key import Fail
from .loop import LoopSection
from .ni import NiSection
from .relay import RelaySection
from .router import RouterSection
from .run import RunSection
from .study import StudySection
from .timers import TimersSection
from .topology import TopologySection
from .wire import WireSection
from .workload import WorkloadSection

if typing.TYPE_CHECKING:
    from lethe.spec.config import System

#: Tables by name, in the order in which they are written.
SECTIONS = {
    "run": RunSection,
    "topology": TopologySection,
    "wire": WireSection,
    "router": RouterSection,
    "ni": NiSection,
    "timers": TimersSection,
    "faults": FaultsSection,
    "workload": WorkloadSection,
    "loop": LoopSection,
    "relay": RelaySection,
    "flow": FlowSection,
    "study": StudySection,
}
#: Their files, in the order of the checks: a section comes after the sections whose sizes it depends on.
_CHECKED = (topology, wire, router, ni, timers, loop, relay, flow, study, faults, workload, run)


def ranges(system: "System", fail: Fail) -> None:
    """Every key alone, and against the sizes it depends on."""

    def within(key: str, low: float, high: float) -> None:
        section, name = key.split(".")
        value = getattr(getattr(system, section), name)
        if not low <= value <= high:  # also catches nan
            fail(key, f"must be {low} to {high}, not {value!r}", "choose a value in that range")

    for section in _CHECKED:
        section.check(system, fail, within)


def promises(system: "System", fail: Fail) -> None:
    """What exactly-once rests on: generations that do not recur too soon (T1), orphans that outlive
    their senders (T12), and paths that exist."""
    for section in (wire, timers, faults, relay, flow):
        section.promises(system, fail)
