"""[run]: its name, its seed, and how long it may last."""

import typing
from dataclasses import dataclass

from .key import Fail, Within, key

if typing.TYPE_CHECKING:
    from lethe.spec.config import System


@dataclass(frozen=True, kw_only=True)
class RunSection:
    about = "The run as a whole."

    name: str = key("run", "name of the run, the column `run` of its trace")
    seed: int = key(1, "seed of all random draws: the same seed gives the same run")
    cycles: int = key(200_000, "cycles after which a run is cut off; if it has not drained by then, it is unfinished")


def check(system: "System", fail: Fail, within: Within) -> None:
    """The run's own keys."""
    within("run.cycles", 1, 1 << 40)
    within("run.seed", 0, (1 << 32) - 1)
    name = system.run.name
    if not 1 <= len(name) <= 200:
        fail("run.name", "must be a name of 1 to 200 characters", "shorten it")
    if not name.isprintable():
        fail("run.name", f"must be printable, not {name!r}", "leave out line breaks and control characters")
