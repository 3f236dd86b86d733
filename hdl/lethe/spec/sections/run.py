"""[run]: its name, its seed, and how long it may last."""

import typing
from dataclasses import dataclass

from .key import Fail, Within, key

if typing.TYPE_CHECKING:
    from lethe.spec.config import System


@dataclass(frozen=True, kw_only=True)
class RunSection:
    name: str = key("run", "name of the run, the `run` column of its trace")
    seed: int = key(1, "the seed of all random draws")
    cycles: int = key(200_000, "cycles of the longest run; what has not drained then is unfinished")


def check(system: "System", fail: Fail, within: Within) -> None:
    """The run's own keys."""
    within("run.cycles", 1, 1 << 40)
    within("run.seed", 0, (1 << 32) - 1)
    name = system.run.name
    if not 1 <= len(name) <= 200:
        fail("run.name", "must be a name of 1 to 200 characters", "shorten it")
    if not name.isprintable():
        fail("run.name", f"must be printable, not {name!r}", "leave out line breaks and control characters")
