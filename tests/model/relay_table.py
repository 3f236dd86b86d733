"""The tables of `docs/design/relay-model.md`: ``python -m tests.model.relay_table`` writes them.

With ``--run`` it prints a search of every system, and every counter-example, instead.
"""

from functools import cache

from tests.helpers import ROOT
from tests.model.graph import Result, explore
from tests.model.relay_ladder import ladder
from tests.model.relay_network import Relay
from tests.model.relay_rules import Setting
from tests.model.relay_settings import FULL, QUICK, SHOWN, TRIALS
from tests.model.trials import Model


@cache
def search(setting: Setting, *, progress: bool = True, limit: int = 5_000_000) -> Result:
    """Every state of a system; with ``progress`` every goal is then looked at."""
    return explore(Relay(setting), progress=progress, limit=limit)


RELAY = Model(
    name="relay",
    page=ROOT / "docs" / "design" / "relay-model.md",
    quick=QUICK,
    full=FULL,
    trials=TRIALS,
    shown=lambda trial: (trial.rule, trial.how) in SHOWN,
    search=search,
    ladder=ladder,
)

if __name__ == "__main__":
    RELAY.main()
